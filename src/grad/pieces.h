// Gradients of pieces. What was taken from a value by views (select, split, narrow, as_strided ... one after the other)
// has the gradient of the piece at its place and zeros elsewhere. The engine keeps such gradients as they are until
// that of the whole is needed, and puts them together then: n pieces cost as much as one whole, not n of them.
#pragma once
#include "grad/place.h"

struct grad_piece {
    kiln_tensor *grad; // of the piece, of the dimensions of its place
    uint32_t out;      // which output of the node it is a piece of
    struct piece_place place;
};

struct pieces {
    struct grad_piece *v;
    size_t n, cap;
    int64_t elements; // of all gradients
};

// Whether an op node's result is less than its input, of which it is a piece. Leaves the gradient and the output alone.
bool piece_of(const struct tape_node *n, struct grad_piece *out);
kiln_status pieces_add(struct pieces *p, const struct grad_piece *piece); // takes the gradient
// The gradient for the piece of n's input that a piece of its result is, and where it lies there; a handle of the open
// scope, or the gradient itself. NULL without an error: it is no piece of the input.
kiln_tensor *piece_behind(const struct tape_node *n, const struct grad_piece *piece, struct piece_place *place);
// The gradient of output `out`, of this type, in the scope that is open or one of the gradients themselves. NULL
// without an error: no piece of it is there.
kiln_tensor *pieces_sum(struct pieces *p, uint32_t out, const struct type *type);
void pieces_clear(struct pieces *p);
