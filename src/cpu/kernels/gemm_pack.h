// Packing for units that are elements of a class, from any dtype and strides.
#pragma once
#include "cpu/kernels/gemm_kind.h"
#include <string.h>

static inline void pack_b_any(const struct gemm_kind *kind, enum scalar_class cls, const struct gemm_matrix *b,
                              int64_t k, int64_t columns, void *panel)
{
    int64_t wide = kind->tiles.columns, unit_B = kind->unit_B;
    CPU_FN(cpu_load_tile)(panel, wide, cls, b->at, b->dtype, k, columns, b->row, b->col);
    if (columns < wide)
        for (int64_t q = 0; q < k; q++)
            memset((char *)panel + (q * wide + columns) * unit_B, 0, (size_t)((wide - columns) * unit_B));
}

static inline void pack_a_any(enum scalar_class cls, const struct gemm_matrix *a, int64_t rows, int64_t k, void *to,
                              int64_t ld)
{
    CPU_FN(cpu_load_tile)(to, ld, cls, a->at, a->dtype, rows, k, a->row, a->col);
}

static inline void pack_a_across_any(enum scalar_class cls, const struct gemm_matrix *a, int64_t rows, int64_t k,
                                     void *to)
{
    CPU_FN(cpu_load_tile)(to, rows, cls, a->at, a->dtype, k, rows, a->col, a->row);
}
