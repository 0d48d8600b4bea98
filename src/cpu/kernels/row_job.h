// A launch of a row kernel, prepared: what the row form (row.c) and the column form (col.c) share.
#pragma once
#include "cpu/kernels/acc.h"
#include "cpu/kernels/side.h"
#include "cpu/parallel.h"

#define ROW_MAX_SIDES (CPU_MAX_IN + 1)

struct row_job {
    const struct cpu_kernel *k;
    const uint64_t *scalars;
    int n_in;
    int n_par, n_red; // dimensions: parallel ones first, then those of the row; at least one each
    int64_t sizes[MAX_RANK + 2];
    int64_t strides[ROW_MAX_SIDES][MAX_RANK + 2]; // bytes
    struct cpu_side side[ROW_MAX_SIDES];          // inputs, then the output; its own strides are not used
    int64_t rows, count;                          // how many rows, and their length
    int64_t chunk; // positions that are folded on their own, whatever the number of threads
    bool streams;  // results that go past the caches
};

kiln_status CPU_FN(cpu_row_form)(struct row_job *j);
kiln_status CPU_FN(cpu_col_form)(struct row_job *j,
                                 int col_dim); // col_dim: the parallel dimension whose rows lie side by side

// Byte offsets of every operand for a row, given as the index over dimensions [first, first + n).
static inline void row_offsets(const struct row_job *j, int first, int n, int64_t index, int64_t *at_B)
{
    for (int d = first + n - 1; d >= first; d--) {
        int64_t i = index % j->sizes[d];
        index /= j->sizes[d];
        for (int s = 0; s <= j->n_in; s++) at_B[s] += i * j->strides[s][d];
    }
}

// Offset of one operand at a position along the row.
static inline int64_t row_position(const struct row_job *j, int side, int64_t position)
{
    int64_t at_B = 0;
    for (int d = j->n_par + j->n_red - 1; d > j->n_par; d--) {
        at_B += position % j->sizes[d] * j->strides[side][d];
        position /= j->sizes[d];
    }
    return at_B + position * j->strides[side][j->n_par];
}
