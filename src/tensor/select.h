// Inside: what ops whose result's size depends on values are made of.
#pragma once
#include "tensor/tensor.h"
#include <kiln/ops.h>

// From now on, until what was before is put back.
static inline bool indices_are_made(void)
{
    bool before = thread_state.indices_fit;
    thread_state.indices_fit = true;
    return before;
}

static inline kiln_tensor *line_of(kiln_tensor *t)
{
    return kiln_reshape(t, KILN_SHAPE(-1));
}

static inline kiln_tensor *is_set(kiln_tensor *t)
{
    return kiln_tensor_dtype(t) == KILN_BOOL ? t : kiln_not_equal(t, kiln_scalar_int(0));
}

// Where the elements at these places of a line stand in a tensor of x's shape: [places, rank].
kiln_tensor *places_in(const kiln_tensor *x, kiln_tensor *at);
// Checks both, and gives the type of the two broadcast.
kiln_status masked_select_check(const char *op, kiln_tensor *x, kiln_tensor *mask, struct type *both);
// Of a sorted line, which elements begin a group of equal ones.
kiln_tensor *group_begins(kiln_tensor *sorted);
