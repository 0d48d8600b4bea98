// An axis of another size: each element of the result is a sum of two or four of the axis, and the gradient of that.
#include "ops/family.h"
#include "ops/index.h"

#include <math.h>
#include <string.h>

kiln_status infer_resample(struct op_call *c)
{
    int axis;
    const struct type *x = c->in[0];
    int64_t size = attr_int(c, AT_resample_size);
    double step = attr_float(c, AT_resample_step);
    TRY(op_axis(c, AT_resample_axis, 0, &axis));
    if (dtype_kind_of[x->dtype] != KIND_FLOAT)
        return op_fail(c, KILN_E_DTYPE, "takes floats, x is %s", type_string(x).s);
    if (size < 1 || size > INT32_MAX)
        return op_fail(c, KILN_E_ARGUMENT, "size is %lld, it must be 1 to 2147483647", (long long)size);
    if (!(step >= 0 && step <= INT32_MAX))
        return op_fail(c, KILN_E_ARGUMENT, "step is %g, it must be 0 to 2147483647", step);
    if (x->dims[axis] < 1 || x->dims[axis] > INT32_MAX)
        return op_fail(c, KILN_E_SHAPE, "axis %d of %s must have 1 to 2147483647 elements", axis, type_string(x).s);
    TRY(infer_same(c));
    c->out[0].dims[axis] = size;
    uint64_t size_B;
    return type_size_B(&c->out[0], &size_B);
}

static kiln_status run(const struct op_call *c, struct lowering *lo, const struct view *x, const struct view *out)
{
    const struct view *v[2] = {x, out};
    struct index_space space = {.n = 2};
    int last = out->rank - 1;
    double step = attr_float(c, AT_resample_step);
    int64_t bits;
    memcpy(&bits, &step, sizeof bits);
    for (int d = 0; d < last; d++) space_add_dim(&space, out->dims[d], v, d);
    space_add(&space, out->dims[last], (int64_t[]){x->strides[last], out->strides[last]}, true);
    struct launch l;
    space_launch(&l, lo, FAMILY_resample, dtype_class(out->dtype), &space);
    l.n_reduce = 1;
    l.variant[0] = attr_int(c, AT_resample_align) != 0;
    l.variant[1] = attr_int(c, AT_resample_cubic) != 0;
    l.variant[2] = attr_int(c, AT_resample_adjoint) != 0;
    launch_operand(&l, x, space.strides[0], false);
    launch_operand(&l, out, space.strides[1], true);
    launch_scalar_i(&l, x->dims[last]);
    launch_scalar_i(&l, bits);
    return lo->launch(lo, &l);
}

kiln_status lower_resample(const struct op_call *c, struct lowering *lo)
{
    int axis, perm[MAX_RANK], n = 0, rank = c->in[0]->rank;
    TRY(op_axis(c, AT_resample_axis, 0, &axis));
    if (type_numel(&c->out[0]) == 0) return KILN_OK;
    unsigned dtype = class_dtype(dtype_class(c->out[0].dtype));
    struct view x = c->vin[0], out = c->vout[0];
    if (x.immediate || x.dtype != dtype) {
        TRY(lower_temp(lo, dtype, x.rank, x.dims, &x));
        TRY(lower_copy(lo, &c->vin[0], &x));
    }
    if (out.dtype != dtype) TRY(lower_temp(lo, dtype, out.rank, out.dims, &out));
    for (int d = 0; d < rank; d++)
        if (d != axis) perm[n++] = d;
    perm[n] = axis;
    struct view from = view_permute(&x, perm), to = view_permute(&out, perm);
    TRY(run(c, lo, &from, &to));
    return out.dtype == c->vout[0].dtype ? KILN_OK : lower_copy(lo, &out, &c->vout[0]);
}
