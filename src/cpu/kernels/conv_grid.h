// Convolution as a product of matrices that makes the columns of images where it packs them: results on a grid, each
// the sum over channels and taps of weights times pixels. The pixels of a result are those at its taps, counted from
// its own place in the image; what lies outside is 0.
#pragma once
#include "cpu/kernels/conv.h"

struct conv_tap {
    int64_t y, x;
};

struct conv_grid {
    int64_t images, h, w, oh, ow;      // of the planes that are read, and of the grid
    int64_t sh, sw;                    // from one place of the grid to the next, in pixels
    int64_t groups, channels, outputs; // of a group
    const struct conv_tap *taps;       // those of a row follow each other
    int64_t n_taps;
    const char *weight; // of the class: a row of channels * n_taps for each output of each group
    int64_t ld_w;
    enum scalar_class cls;
    struct conv_side x, y;
    const struct conv_side *bias; // or NULL
};

// Places [first, first + columns) of the grids of all images, one behind the other; 0 from there to `wide`. Rows are ld
// long.
struct conv_panel {
    int64_t first, columns, wide, ld;
};

// Each result is summed over channels and taps in an order that depends on their numbers alone.
// The n grids, at most CONV_GRIDS, differ in taps and weight and in where their results start; places of theirs that
// are neighbours are done one after the other.
enum { CONV_GRIDS = 16 };
kiln_status CPU_FN(cpu_conv_grids)(const struct conv_grid *g, int64_t n);

// The same for kernels of several taps, from a copy of the image that all taps read: whether it is that, and the work.
bool CPU_FN(cpu_conv_is_spread)(const struct conv_grid *g, int64_t n);
kiln_status CPU_FN(cpu_conv_spread)(const struct conv_grid *g, int64_t n);

// The same for 3 x 3 taps, with fewer products. Not *done: where that does not pay, and where pixels or weights are too
// large for sums of them.
kiln_status CPU_FN(cpu_conv_winograd)(const struct conv_grid *g, bool *done);

// Where taps of the kernel lie from a place of the forward grid.
void CPU_FN(cpu_conv_taps)(const struct conv *v, struct conv_tap *taps);

// Channels [c0, c0 + channels) of a panel, [channel, tap] x ld, of the class.
void CPU_FN(cpu_conv_pack)(const struct conv_grid *g, const struct conv_panel *p, int64_t c0, int64_t channels,
                           char *to);

// The gradient of the input, from a weight of the class without infinities and NaN.
kiln_status CPU_FN(cpu_conv_phases)(const struct launch *l, const struct conv *v, const char *weight, int64_t ld_w);
