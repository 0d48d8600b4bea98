// A part moved from or to a place that an operand holds: see ops/slice_at.c. Operands: what is read, start, what is
// written; `placed` of them lies at the place. Scalars: the size of its axis, the last place, its stride along the
// axis. Where the place stands still along the innermost dimension, whole runs are moved.
#pragma once
#include "cpu/kernels/walk.h"
#include <string.h>

static inline struct cpu_work placed_units(const struct launch *l)
{
    struct cpu_work w = {1, 4};
    for (int d = 0; d < l->rank; d++) w.units *= l->sizes[d];
    return w;
}

// Elements to the place, of operand `placed`.
static inline int64_t placed_at(const struct launch *l, const char *start)
{
    int64_t k, size = (int64_t)l->scalars[0], most = (int64_t)l->scalars[1];
    CPU_FN(cpu_load)(l->operands[1].dtype, CLASS_I64, &k, start, 1, 1);
    if (k < 0) k += size;
    k = k < most ? k : most;
    return (k > 0 ? k : 0) * (int64_t)l->scalars[2];
}

static inline void placed_move(char *to, const char *from, int64_t n, int64_t to_B, int64_t from_B, int size_B)
{
    if (to_B == size_B && from_B == size_B) {
        memcpy(to, from, (size_t)(n * size_B));
        return;
    }
    for (int64_t i = 0; i < n; i++, to += to_B, from += from_B) {
        switch (size_B) {
        case 1: *to = *from; break;
        case 2: memcpy(to, from, 2); break;
        case 4: memcpy(to, from, 4); break;
        default: memcpy(to, from, 8); break;
        }
    }
}

static inline void placed_range(const struct launch *l, int placed, int64_t begin, int64_t end)
{
    int size_B = cpu_dtype_size_B[l->operands[0].dtype];
    struct walk w;
    walk_start(&w, l, -1, begin);
    int d = walk_inner(&w);
    int64_t step_B[3] = {0};
    for (int o = 0; o < 3 && d >= 0; o++) step_B[o] = walk_stride_B(l, o, d);
    while (begin < end) {
        int64_t n = step_B[1] ? 1 : walk_run(&w);
        if (n > end - begin) n = end - begin;
        int64_t at_B = placed_at(l, w.at[1] + w.inner * step_B[1]) * size_B;
        placed_move(w.at[2] + w.inner * step_B[2] + (placed == 2 ? at_B : 0),
                    w.at[0] + w.inner * step_B[0] + (placed == 0 ? at_B : 0), n, step_B[2], step_B[0], size_B);
        begin += n;
        walk_next(&w, n);
    }
}
