// Which form a fused kernel takes as a compute shader, and where each argument lies in its block. What the emitter and
// the packer must agree on; both see only what tells families apart.
#pragma once
#include "codegen/target.h"
#include "fuse/loops.h"

enum glsl_form_kind {
    GLSL_POINTS,    // an invocation takes points of P in turn; R is empty, or of length 1
    GLSL_ROWS,      // neighbouring invocations are lanes of one row
    GLSL_COLUMNS,   // neighbouring invocations belong to neighbouring rows
    GLSL_TILES,     // a product: a workgroup computes a square of M x N
    GLSL_ATTENTION, // a workgroup computes rows of M, all of D
    GLSL_TAPS       // a product whose sum goes over taps of an image: see shaders/direct.glsl
};

#define GLSL_MAX_TAP_DIMS 3
#define GLSL_VECTOR_SPLIT 2 // ... and of points such fours have a body of their own

// Fixed for a family; kept in codegen_plan.choices in this order.
struct glsl_form {
    uint32_t kind;
    uint32_t lanes, rows;    // of a workgroup: lanes to a row, rows; lanes * rows invocations
    uint32_t chunk;          // elements a lane takes at a time: 8 of two bytes, 4, or 1
    uint32_t keep;           // elements that a lane keeps in registers; 0: each stage computes them again
    uint32_t vector;         // a chunk may be loaded and stored as neighbours, where the addresses allow; of a product
                             // a bit for each side
    uint32_t splits;         // several workgroups may share a row
    uint32_t subgroup;       // lanes that exchange values without memory; 1: none do
    uint32_t tile_m, tile_n; // results of a workgroup; 0: no product
    uint32_t run;            // of tiles: see ir/tile.h
    uint32_t small;          // of tiles: all is edge, see shaders/product.glsl
    uint32_t matrix;         // of tiles: side of a subgroup's matrices; 0: sums are in registers
    uint32_t halves;         // instructions convert f16
    uint32_t each;           // chunks of points that a lane has: a workgroup whose points are all there takes them
                             // without asking for one
};

// First word of each argument, -1 for none. A number is one word, or two where indices are wide; a division constant is
// always two.
struct glsl_layout {
    int points, length, flags, groups, splits, part, workspace;
    int m, n, batches; // of a product: how many of each; of attention, n is D
    int keys, depth;   // of attention: N and K
    int size[FUSED_MAX_DIMS], divisor[FUSED_MAX_DIMS];
    int stride[FUSED_MAX_IN + FUSED_MAX_OUT][FUSED_MAX_DIMS];
    int step[FUSED_MAX_IN + FUSED_MAX_OUT]; // two words: bytes, from trip to trip
    int scalar[FUSED_MAX_SCALARS];
    int n_words;
};

#define GLSL_FLAG_NEIGHBOURS 1u // in flags: strides and sizes let the neighbours of a chunk be one access everywhere

// Workspace: counters first, then 16 bytes for each partial value.
#define GLSL_COUNTERS_B 4096
#define GLSL_PARTIAL_B  16

// n_kept: element values that stages hand on to later ones.
void glsl_form_choose(const struct fused_kernel *k, const struct device_caps *caps, int n_kept, struct glsl_form *out);
// Of a product: the dtype of both sides where they are f16, or bf16, in memory; else DTYPE_COUNT.
uint32_t glsl_halves_of(const struct fused_kernel *k);
void glsl_form_save(const struct glsl_form *f, struct codegen_plan *p);
void glsl_form_load(const struct codegen_plan *p, struct glsl_form *out);
void glsl_layout_make(const struct fused_kernel *k, const struct glsl_form *f, bool wide, struct glsl_layout *out);

// The dimensions of a kernel are cut into sections that are counted one by one: [begin[i], begin[i + 1]).
#define GLSL_MAX_SECTIONS 5
struct glsl_sections {
    int n, begin[GLSL_MAX_SECTIONS + 1];
};
void glsl_sections_of(const struct fused_kernel *k, const struct glsl_form *f, struct glsl_sections *out);
int64_t glsl_section_size(const struct fused_kernel *k, const struct glsl_sections *s, int section);

// What the template of a product or of attention fetches by fours: the values of a node along two sections.
struct glsl_side {
    int root, first, second;
    bool along_second; // neighbours along the second section are nearer in memory than those along the first
    int fast;          // the dimension along which four values are one access of all that is loaded; -1: none is
    bool access[FUSED_MAX_IN];
};
#define GLSL_MAX_SIDES 3 // a and b; q, k and v
// How many there are, 0 for other forms.
int glsl_sides_of(const struct fused_kernel *k, const struct glsl_form *f, struct glsl_side *out);

static inline bool glsl_is_product(const struct glsl_form *f)
{
    return f->kind == GLSL_TILES || f->kind == GLSL_TAPS || f->kind == GLSL_ATTENTION;
}

// Dimensions that the form's loop over elements walks: [first, n_dims). The others are found once for each row.
static inline int glsl_first_walked(const struct fused_kernel *k, const struct glsl_form *f)
{
    return f->kind == GLSL_POINTS ? 0 : k->n_dims - k->n_reduce;
}
// Whether the access takes neighbours at a time: dense along the fast dimension, and not a gather.
bool glsl_takes_neighbours(const struct fused_kernel *k, int access);
