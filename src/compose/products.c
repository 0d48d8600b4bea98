// Products of vectors and matrices by what kiln_matmul does.
#include "compose/composite.h"

kiln_tensor *compose_outer(kiln_tensor *a, kiln_tensor *b)
{
    return kiln_mul(kiln_reshape(a, KILN_SHAPE(-1, 1)), kiln_reshape(b, KILN_SHAPE(1, -1)));
}

static kiln_tensor *scaled(kiln_tensor *t, double factor)
{
    return factor == 1 ? t : kiln_mul(t, kiln_scalar(factor));
}

kiln_tensor *compose_addmm(kiln_tensor *x, kiln_tensor *a, kiln_tensor *b, const kiln_addmm_opts *o)
{
    kiln_tensor *product = scaled(kiln_matmul(a, b), o->alpha);
    kiln_tensor *wide = kiln_expand(x, kiln_rank(product), kiln_dims(product));
    return o->beta == 0 ? product : kiln_add(scaled(wide, o->beta), product);
}

kiln_tensor *compose_trace(kiln_tensor *x, int64_t offset)
{
    if (kiln_rank(x) < 2) {
        error_set(KILN_E_SHAPE, "x must be matrices, it is %s", type_of(x).s);
        return NULL;
    }
    return kiln_sum(kiln_diagonal(x, offset, -2, -1), KILN_REDUCE(.axes = KILN_AXES(-1)));
}
