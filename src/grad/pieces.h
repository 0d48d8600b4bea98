// Gradients of pieces. What one interval of an axis was taken from (narrow, select, split, unstack ...) has the
// gradient of the piece there and zeros elsewhere. The engine keeps such gradients as they are until that of the whole
// is needed, and puts them together then: n pieces cost as much as one whole, not n of them.
#pragma once
#include "grad/tape.h"

struct grad_piece {
    kiln_tensor *grad; // of the piece
    uint32_t out;      // which output of the node it is a piece of
    int axis;
    bool dropped; // the axis, of one index: select
    int64_t start, length;
};

struct pieces {
    struct grad_piece *v;
    size_t n, cap;
    int64_t elements; // of all gradients
};

// Whether an op node's result is a piece of its input, and which. Leaves the gradient and the output alone.
bool piece_of(const struct tape_node *n, struct grad_piece *out);
kiln_status pieces_add(struct pieces *p, const struct grad_piece *piece); // takes the gradient
// The gradient of output `out`, of this type, in the scope that is open or one of the gradients themselves. NULL
// without an error: no piece of it is there.
kiln_tensor *pieces_sum(struct pieces *p, uint32_t out, const struct type *type);
void pieces_clear(struct pieces *p);
