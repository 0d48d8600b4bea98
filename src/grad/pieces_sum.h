// While pieces are put together: each as a range of something that can be put side by side with others.
#pragma once
#include "base/vec.h"
#include "grad/pieces.h"

enum { COLUMNS = MAX_RANK, LOOSE };

struct piece_range {
    kiln_tensor *grad;
    int axis;       // or COLUMNS, or LOOSE
    bool dropped;   // the axis, of one index
    int64_t period; // COLUMNS: how many there are
    int64_t start, length;
    size_t number;            // in order of arrival
    struct piece_place place; // LOOSE
};

struct piece_whole {
    const struct type *type; // as the gradient is to be
    VEC(struct piece_range) ranges;
    VEC(struct piece_range) loose;
    kiln_tensor *sum;
    bool own; // it may be written
};

// pieces_range.c: a gradient and its place as one or more ranges or loose pieces. grad NULL: an error.
kiln_status piece_settle(struct piece_whole *w, kiln_tensor *grad, struct piece_place p);
