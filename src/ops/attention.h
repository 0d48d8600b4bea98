// What the launches of attention share: attention.c for the CPU, attention_tiles.c for GPUs.
#pragma once
#include "ops/family.h"

enum { STATS = 2 }; // of a query: the exponent of its largest weight, to base 2, and the sum of weights relative to it

struct attention_sizes {
    int64_t l, s, d, e;
    bool causal;
    double scale;
    const struct view *mask; // NULL: none
    struct type batch;
};

struct type attention_matrices(const struct attention_sizes *h, unsigned dtype, int64_t rows, int64_t columns);
// The next operand of a launch: matrices, broadcast to the batch.
kiln_status attention_operand(struct launch *l, const struct attention_sizes *h, const struct view *v, int64_t rows,
                              int64_t columns, bool write);

// Whether the device has the kernels below; neither result, nor any operand, is empty.
bool attention_has_tiles(const struct op_call *c, const struct lowering *lo);
kiln_status attention_lower_tiles(const struct op_call *c, struct lowering *lo, const struct attention_sizes *h);
kiln_status attention_lower_gradients(const struct op_call *c, struct lowering *lo, const struct attention_sizes *h);
