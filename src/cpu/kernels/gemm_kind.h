// What the driver of products (gemm.c) knows of a kind: a register kernel, its packing, and sizes of blocks.
#pragma once
#include "cpu/kernels/gemm.h"

// Sizes of blocks. `rows` x `columns` is what the registers hold: 24 sums of 32 registers with AVX-512, 12 of 16 with
// AVX2, 8 of 16 with SSE2, the rest are for operands. `k`: that many positions of a panel of b and of the rows that
// meet it take about the first-level cache (48 or 32 KiB), and are enough that the start and end of a tile, some 60
// cycles, are under 3 % of it. `m`: rows of a that are packed at once, and with k positions fill less than a quarter of
// the second-level cache (1 MiB or 512 KiB). `n`: columns of a block, so that its sums fit into that cache too.
// `panels_B`: of b, packed at once, shared by all threads; half of a third-level cache of 32 MiB.
//
// AMX's tiles are 32 x 32, and start and end take 200 cycles of 2,048 at 1,024 positions, which with a panel and the
// sums lie in a second-level cache of 2 MiB.
struct gemm_tiles {
    int rows, columns;
    int64_t k, m, n, panels_B;
};

// Positions of a turn of a register kernel. With two, instructions are 1.96 a multiply-add of an AVX2 tile, with three
// 1.89, with four 1.81 to 1.9, but then a sum may leave its register.
enum { AT_ONCE = 3 };

struct gemm_tile { // one call of a register kernel
    const char *a, *b;
    void *out;
    int64_t row_B, step_B; // from one row of a, and from one position, to the next
    int64_t b_step_B;
    int64_t k, ld_out, columns;
    const int32_t *at_B; // of a spread tile: where positions of b lie
    const char *next;    // a line to come, and the step to that of the next position
    int64_t next_B;
    bool add;     // to what lies in out
    bool partial; // the last vector of b is read no further than `columns`
};
typedef void gemm_tile_fn(const struct gemm_tile *t);

// Packing makes of elements units: of one element of the class, or of several neighbours along k in one word.
struct gemm_kind {
    struct gemm_tiles tiles;
    int unit_B, depth; // of a unit: size, elements
    int lanes;
    unsigned dtype; // of elements that can be read as they lie
    // [rows - 1][vectors - 1]
    gemm_tile_fn *const (*tile)[2];
    // [rows - 1], of two vectors whose positions lie anywhere; of f32 alone
    gemm_tile_fn *const *spread;
    // k positions of at most tiles.columns columns of b; all tiles.columns are written, positions in rows of them.
    // Where positions are rows, what lies ahead_B behind is asked of memory.
    void (*pack_b)(const struct gemm_matrix *b, int64_t k, int64_t columns, void *panel, int64_t ahead_B);
    // k positions of `rows` rows of a; a row is ld units long.
    void (*pack_a)(const struct gemm_matrix *a, int64_t rows, int64_t k, void *to, int64_t ld);
    // The same where rows are neighbours in memory: to[position * rows + row]. NULL: tiles read rows along k alone.
    void (*pack_a_across)(const struct gemm_matrix *a, int64_t rows, int64_t k, void *to);
    // Sums, rows ld apart, into a result whose columns follow each other; false: not of this dtype. Or NULL.
    bool (*store)(const void *sums, int64_t ld, const struct gemm_matrix *out, int64_t rows, int64_t columns);
    bool asks_evenly; // all tiles of a panel ask for a part of the next one, not the first two for the whole
    // What a thread calls behind its last tile. Or NULL.
    void (*end)(void);
};

static inline void gemm_end(const struct gemm_kind *kind)
{
    if (kind->end) kind->end();
}

extern const struct gemm_kind CPU_FN(cpu_gemm_f32), CPU_FN(cpu_gemm_f64), CPU_FN(cpu_gemm_bf16), CPU_FN(cpu_gemm_amx);
const struct gemm_kind *CPU_FN(cpu_gemm_kind)(const struct gemm *g);
// A few rows by a matrix whose columns lie along k, see gemm_few.c: whether it is that, and the product.
bool CPU_FN(cpu_gemm_is_few)(const struct gemm *g);
kiln_status CPU_FN(cpu_gemm_few)(const struct gemm *g);
// A small result of long sums, see gemm_long.c.
bool CPU_FN(cpu_gemm_is_long)(const struct gemm *g);
kiln_status CPU_FN(cpu_gemm_long)(const struct gemm *g);
// Of products of bf16: that of the instructions which the processor has, or NULL.
const struct gemm_kind *CPU_FN(cpu_gemm_pairs)(void);
bool CPU_FN(cpu_gemm_has_bf16)(void);
#if defined(__AVX512F__)
extern gemm_tile_fn *const CPU_FN(gemm_amx_tiles)[32][2];
void CPU_FN(cpu_amx_end)(void);
#endif
