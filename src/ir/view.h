// What lowering works with, and where it sends what it makes.
#pragma once
#include "ir/caps.h"
#include "ir/launch.h"

// A typed, strided reference to a slot: what lowering works with.
struct view {
    uint16_t slot;
    uint8_t dtype;
    uint8_t rank;
    bool immediate;
    uint64_t bits; // immediate: the value, in the class the kernel loads (set by lowering)
    double number; // immediate: the value as the user gave it
    int64_t integer;
    int64_t offset;
    int64_t dims[MAX_RANK];
    int64_t strides[MAX_RANK];
};

// What a view is but for its shape.
static inline void view_copy_head(struct view *to, const struct view *from)
{
    to->slot = from->slot;
    to->dtype = from->dtype;
    to->rank = from->rank;
    to->immediate = from->immediate;
    to->bits = from->bits;
    to->number = from->number;
    to->integer = from->integer;
    to->offset = from->offset;
}

// With the dimensions that there are. to may not be from.
static inline void view_copy(struct view *to, const struct view *from)
{
    view_copy_head(to, from);
    for (int i = 0; i < from->rank; i++) {
        to->dims[i] = from->dims[i];
        to->strides[i] = from->strides[i];
    }
}

// Where lowering sends launches: the eager sink runs them, a program keeps them.
struct lowering {
    const struct device_caps *caps;
    kiln_status (*launch)(struct lowering *lo, struct launch *l);
    // A temporary of this type, contiguous; it lives until the op is lowered.
    kiln_status (*temp)(struct lowering *lo, const struct type *t, struct view *out);
    // Whether what makes x can become part of a launch that reads it element by element; NULL: nothing can.
    bool (*joins)(struct lowering *lo, const struct view *x);
    const char *op;
};
