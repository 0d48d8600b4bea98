// Which memory a layout touches.
#pragma once
#include "ir/type.h"

// First and last element in memory, in elements; false where there is none.
bool layout_reach(const struct type *t, const struct layout *l, int64_t *first, int64_t *last);
// Whether the memory between the first and the last element of the one has some of the other's, both in one storage.
bool layout_overlap(const struct type *a, const struct layout *la, const struct type *b, const struct layout *lb);
