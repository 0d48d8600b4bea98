// Walks the points of a launch's space row by row: offsets of every operand at the start of a run along the innermost
// dimension.
#pragma once
#include "cpu/kernels/convert.h"

#define WALK_OPERANDS 5

struct walk {
    const struct launch *l;
    int n_dims, dims[MAX_RANK]; // dimensions that are walked, outermost first
    int64_t index[MAX_RANK];    // the place in each, the last apart
    int64_t inner;              // the place in the last
    char *at[WALK_OPERANDS];    // of each operand at `index`, with the last dimension's at 0
};

static inline int64_t walk_stride_B(const struct launch *l, int operand, int d)
{
    return l->operands[operand].strides[d] * cpu_dtype_size_B[l->operands[operand].dtype];
}

// Over all dimensions but `skip` (-1: none), from point number `first`.
static inline void walk_start(struct walk *w, const struct launch *l, int skip, int64_t first)
{
    *w = (struct walk){.l = l};
    for (int d = 0; d < l->rank; d++)
        if (d != skip) w->dims[w->n_dims++] = d;
    for (int o = 0; o < l->n_operands; o++)
        w->at[o] = l->operands[o].flags & OPERAND_IMMEDIATE ? NULL : (char *)(uintptr_t)l->operands[o].address;
    for (int i = w->n_dims - 1; i >= 0; i--) {
        int d = w->dims[i];
        int64_t k = first % l->sizes[d];
        first /= l->sizes[d];
        w->index[i] = k;
        if (i == w->n_dims - 1)
            w->inner = k;
        else
            for (int o = 0; o < l->n_operands; o++)
                if (w->at[o]) w->at[o] += k * walk_stride_B(l, o, d);
    }
}

static inline int walk_inner(const struct walk *w)
{
    return w->n_dims ? w->dims[w->n_dims - 1] : -1;
}

// Points left in this run.
static inline int64_t walk_run(const struct walk *w)
{
    return w->n_dims ? w->l->sizes[walk_inner(w)] - w->inner : 1;
}

// Moves on by m points, at most to the end of the run.
static inline void walk_next(struct walk *w, int64_t m)
{
    const struct launch *l = w->l;
    w->inner += m;
    if (w->n_dims == 0 || w->inner < l->sizes[walk_inner(w)]) return;
    w->inner = 0;
    for (int i = w->n_dims - 2; i >= 0; i--) {
        int d = w->dims[i];
        bool wraps = ++w->index[i] == l->sizes[d];
        for (int o = 0; o < l->n_operands; o++)
            if (w->at[o]) w->at[o] += walk_stride_B(l, o, d) * (wraps ? 1 - l->sizes[d] : 1);
        if (!wraps) return;
        w->index[i] = 0;
    }
}
