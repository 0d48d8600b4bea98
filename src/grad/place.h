// Where the elements of a piece lie among those of what it is a piece of, as numbers of elements in row-major order,
// and what becomes of that on the way back through a view.
#pragma once
#include "grad/tape.h"

struct piece_place {
    int rank;
    int64_t dims[MAX_RANK], strides[MAX_RANK], offset;
};

// All elements of a value of this type.
void place_whole(const struct type *t, struct piece_place *out);
// From among the elements of a view node's result to among those of its input. Dimensions may be split in two. False:
// no strides say where, or not all of them lie in the input.
bool place_behind(const struct tape_node *n, struct piece_place *p);
bool place_is_view(const struct tape_node *n); // with the library's rule, of one input
