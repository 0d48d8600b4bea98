// The range of elements that a layout spans, and whether the ranges of two layouts meet.
#include "tensor/reach.h"

bool layout_reach(const struct type *t, const struct layout *l, int64_t *first, int64_t *last)
{
    *first = *last = l->offset;
    for (int i = 0; i < t->rank; i++) {
        if (t->dims[i] == 0) return false;
        *(l->strides[i] < 0 ? first : last) += l->strides[i] * (t->dims[i] - 1);
    }
    return true;
}

bool layout_overlap(const struct type *a, const struct layout *la, const struct type *b, const struct layout *lb)
{
    int64_t first_a, last_a, first_b, last_b, size_a = dtype_size_B[a->dtype], size_b = dtype_size_B[b->dtype];
    return layout_reach(a, la, &first_a, &last_a) && layout_reach(b, lb, &first_b, &last_b) &&
           first_a * size_a < (last_b + 1) * size_b && first_b * size_b < (last_a + 1) * size_a;
}
