// Functions that several rows capture, and what they take.
#pragma once
#include "capability.h"

static inline kiln_status chain(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    if (user) ++*(int *)user;
    out[0] = kiln_relu(kiln_sub(kiln_mul(in[0], in[1]), kiln_scalar(1)));
    return kiln_error();
}

static kiln_tensor *pair[2];
static inline kiln_tensor *const *make_pair(kiln_device *dev)
{
    pair[0] = from(dev, NUMBERS(1, 2, 3), KILN_SHAPE(3));
    pair[1] = from(dev, NUMBERS(4, 5, -6), KILN_SHAPE(3));
    return pair;
}

// Needs a value on the host.
static inline kiln_status branch(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_item(kiln_sum(in[0], NULL)) > 0 ? kiln_neg(in[0]) : in[0];
    return kiln_error();
}
