// Layouts that show an element at two indices, as expanded ones do.
#pragma once
#include "ir/type.h"

// Whether two indices have one element.
bool layout_overlaps(const struct type *t, const struct layout *l);
