// Gated linear units, and activations that are a few ops.
#include "compose/composite.h"

// The halves of x along an axis.
static bool halves(kiln_tensor *x, int64_t axis, kiln_tensor *half[2])
{
    int at = composite_axis("axis", axis, kiln_rank(x), x);
    half[0] = half[1] = NULL;
    if (at < 0) return false;
    int64_t size = kiln_dims(x)[at];
    if (size % 2) {
        error_set(KILN_E_SHAPE, "axis %lld of x is to be halved, x is %s", (long long)axis, type_of(x).s);
        return false;
    }
    half[0] = kiln_narrow(x, at, 0, size / 2);
    half[1] = kiln_narrow(x, at, size / 2, size / 2);
    return !error_pending;
}

kiln_tensor *compose_glu(kiln_tensor *x, int64_t axis)
{
    kiln_tensor *half[2];
    return halves(x, axis, half) ? kiln_mul(half[0], kiln_sigmoid(half[1])) : NULL;
}

kiln_tensor *compose_swiglu(kiln_tensor *x, int64_t axis)
{
    kiln_tensor *half[2];
    return halves(x, axis, half) ? kiln_mul(kiln_silu(half[0]), half[1]) : NULL;
}

kiln_tensor *compose_geglu(kiln_tensor *x, int64_t axis)
{
    kiln_tensor *half[2];
    return halves(x, axis, half) ? kiln_mul(kiln_gelu(half[0]), half[1]) : NULL;
}

kiln_tensor *compose_reglu(kiln_tensor *x, int64_t axis)
{
    kiln_tensor *half[2];
    return halves(x, axis, half) ? kiln_mul(kiln_relu(half[0]), half[1]) : NULL;
}

kiln_tensor *compose_bilinear_glu(kiln_tensor *x, int64_t axis)
{
    kiln_tensor *half[2];
    return halves(x, axis, half) ? kiln_mul(half[0], half[1]) : NULL;
}

kiln_tensor *compose_rrelu(kiln_tensor *x, const kiln_rrelu_opts *o)
{
    if (!(o->lower <= o->upper)) {
        error_set(KILN_E_ARGUMENT, ".lower must not be above .upper, got %g and %g", o->lower, o->upper);
        return NULL;
    }
    if (!o->training) return kiln_leaky_relu(x, (o->lower + o->upper) / 2);
    kiln_tensor *wide = kiln_leaky_relu(x, 1); // a float, and x itself
    kiln_tensor *slope = kiln_uniform(kiln_tensor_device(wide), kiln_tensor_dtype(wide), kiln_rank(wide),
                                      kiln_dims(wide), o->lower, o->upper);
    return kiln_where(kiln_greater_equal(wide, kiln_scalar(0)), wide, kiln_mul(wide, slope));
}

kiln_tensor *compose_softmin(kiln_tensor *x, int64_t axis)
{
    return kiln_softmax(kiln_neg(x), axis);
}

kiln_tensor *compose_softmax2d(kiln_tensor *x)
{
    if (kiln_rank(x) == 3 || kiln_rank(x) == 4) return kiln_softmax(x, -3);
    error_set(KILN_E_SHAPE, "x must be [N,C,H,W] or [C,H,W], it is %s", type_of(x).s);
    return NULL;
}

kiln_tensor *compose_maxout(kiln_tensor *x, int64_t axis, int64_t pieces)
{
    int at = composite_axis("axis", axis, kiln_rank(x), x);
    if (at < 0) return NULL;
    int64_t dims[KILN_MAX_RANK + 1];
    size_t n = 0;
    if (pieces < 1 || kiln_dims(x)[at] % pieces) {
        error_set(KILN_E_SHAPE, "pieces %lld do not divide axis %lld of x, %s", (long long)pieces, (long long)axis,
                  type_of(x).s);
        return NULL;
    }
    for (size_t i = 0; i < kiln_rank(x); i++) {
        dims[n++] = (int)i == at ? kiln_dims(x)[i] / pieces : kiln_dims(x)[i];
        if ((int)i == at) dims[n++] = pieces;
    }
    return kiln_max(kiln_reshape(x, n, dims), KILN_REDUCE(.axes = KILN_AXES(at + 1)));
}
