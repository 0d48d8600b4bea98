// Every gradient passes here once: back from the broadcast shape to the input's, and back to its dtype.
#include "grad/fit.h"
#include "grad/tape.h"
#include <kiln/ops.h>

void grad_type_of(const struct type *value, struct type *out)
{
    *out = *value;
    if (value->weak && value->dtype == KILN_F64) out->dtype = KILN_F32;
    out->weak = false;
}

static bool sums_to(const struct type *from, const struct type *to, int lead)
{
    if (lead < 0) return false;
    for (int i = 0; i < to->rank; i++)
        if (to->dims[i] != from->dims[i + lead] && to->dims[i] != 1) return false;
    return true;
}

static kiln_tensor *sum_to(kiln_tensor *g, const struct type *to)
{
    int lead = g->type.rank - to->rank;
    int64_t axes[MAX_RANK];
    size_t n = 0;
    for (int i = 0; i < g->type.rank; i++)
        if (i < lead || (to->dims[i - lead] == 1 && g->type.dims[i] != 1)) axes[n++] = i;
    kiln_tensor *sum = n ? kiln_sum(g, KILN_REDUCE(.axes = {n, axes}, .keepdims = true)) : g;
    return lead ? kiln_reshape(sum, to->rank, to->dims) : sum;
}

kiln_tensor *grad_fit(const char *op, int input, kiln_tensor *g, const struct type *value)
{
    struct type to, both;
    grad_type_of(value, &to);
    if (tensor_check(op, "a gradient that its rule returned", g)) return NULL;
    if (g->type.weak && !g->storage && !g->builder) {
        kiln_device *dev = NULL;
        g = kiln_full(dev, (kiln_dtype)to.dtype, to.rank, to.dims, g->number);
        if (!g) return NULL;
    }
    if (!type_same_shape(&g->type, &to)) {
        if (sums_to(&g->type, &to, g->type.rank - to.rank))
            g = sum_to(g, &to);
        else if (shape_broadcast(&g->type, &to, &both) && type_same_shape(&both, &to))
            g = kiln_expand(g, to.rank, to.dims);
        else {
            char a[TYPE_TEXT_MAX], b[TYPE_TEXT_MAX];
            error_set(KILN_E_SHAPE, "backward: the rule of %s returned %s as the gradient by input %d of %s", op,
                      type_text(&g->type, a, sizeof a), input, type_text(&to, b, sizeof b));
            return NULL;
        }
    }
    return g && g->type.dtype != to.dtype ? kiln_cast(g, (kiln_dtype)to.dtype) : g;
}
