// Axes of another size: each element of the result is a sum of two or four of an axis, and the gradient of that.
#include "ops/family.h"
#include "ops/index.h"

#include <string.h>

// The axis in the result: `size` elements, `step` between them in elements of x.
static kiln_status infer_axis(struct op_call *c, int axis, const char *name, int64_t size, double step)
{
    const struct type *x = c->in[0];
    if (size < 1 || size > INT32_MAX)
        return op_fail(c, KILN_E_ARGUMENT, "%s is %lld, it must be 1 to 2147483647", name, (long long)size);
    if (!(step >= 0 && step <= INT32_MAX))
        return op_fail(c, KILN_E_ARGUMENT, "step is %g, it must be 0 to 2147483647", step);
    if (x->dims[axis] < 1 || x->dims[axis] > INT32_MAX)
        return op_fail(c, KILN_E_SHAPE, "axis %d of %s must have 1 to 2147483647 elements", axis, type_string(x).s);
    c->out[0].dims[axis] = size;
    return KILN_OK;
}

static kiln_status infer_floats(struct op_call *c)
{
    if (dtype_kind_of[c->in[0]->dtype] != KIND_FLOAT)
        return op_fail(c, KILN_E_DTYPE, "takes floats, x is %s", type_string(c->in[0]).s);
    return infer_same(c);
}

kiln_status infer_resample(struct op_call *c)
{
    int axis;
    uint64_t size_B;
    TRY(op_axis(c, AT_resample_axis, 0, &axis));
    TRY(infer_floats(c));
    TRY(infer_axis(c, axis, "size", attr_int(c, AT_resample_size), attr_float(c, AT_resample_step)));
    return type_size_B(&c->out[0], &size_B);
}

kiln_status infer_resample2d(struct op_call *c)
{
    int rank = c->in[0]->rank;
    uint64_t size_B;
    if (rank < 2) return op_fail(c, KILN_E_SHAPE, "takes x of two axes or more, it is %s", type_string(c->in[0]).s);
    TRY(infer_floats(c));
    TRY(infer_axis(c, rank - 2, "height", attr_int(c, AT_resample2d_height), attr_float(c, AT_resample2d_step_height)));
    TRY(infer_axis(c, rank - 1, "width", attr_int(c, AT_resample2d_width), attr_float(c, AT_resample2d_step_width)));
    return type_size_B(&c->out[0], &size_B);
}

struct how {
    bool align, cubic, adjoint;
};

// The last `axes` axes of x and out, with their steps, the last one's first.
static kiln_status run(struct lowering *lo, const struct how *how, const struct view *x, const struct view *out,
                       int axes, const double *steps)
{
    const struct view *v[2] = {x, out};
    struct index_space space = {.n = 2};
    int from = out->rank - axes;
    for (int d = 0; d < from; d++) space_add_dim(&space, out->dims[d], v, d);
    for (int d = from; d < out->rank; d++)
        space_add(&space, out->dims[d], (int64_t[]){x->strides[d], out->strides[d]}, true);
    struct launch l;
    space_launch(&l, lo, FAMILY_resample, dtype_class(out->dtype), &space);
    l.n_reduce = (uint8_t)axes;
    l.variant[0] = how->align;
    l.variant[1] = how->cubic;
    l.variant[2] = how->adjoint;
    launch_operand(&l, x, space.strides[0], false);
    launch_operand(&l, out, space.strides[1], true);
    for (int i = 0; i < axes; i++) {
        int64_t bits;
        memcpy(&bits, &steps[i], sizeof bits);
        launch_scalar_i(&l, x->dims[x->rank - 1 - i]);
        launch_scalar_i(&l, bits);
    }
    return lo->launch(lo, &l);
}

static kiln_status run_axis(struct lowering *lo, const struct how *how, const struct view *x, const struct view *out,
                            int axis, double step)
{
    int perm[MAX_RANK], n = 0;
    for (int d = 0; d < x->rank; d++)
        if (d != axis) perm[n++] = d;
    perm[n] = axis;
    struct view from = view_permute(x, perm), to = view_permute(out, perm);
    return run(lo, how, &from, &to, 1, &step);
}

// One launch where rows are dense, else one an axis; what shrinks most goes first.
static kiln_status run_plane(struct lowering *lo, const struct how *how, const struct view *x, const struct view *out,
                             const double steps[2])
{
    int last = x->rank - 1;
    if (x->strides[last] == 1 && out->strides[last] == 1) return run(lo, how, x, out, 2, steps);
    bool tall_first =
        (double)out->dims[last - 1] * (double)x->dims[last] <= (double)out->dims[last] * (double)x->dims[last - 1];
    int first = tall_first ? last - 1 : last, then = tall_first ? last : last - 1;
    struct view between;
    int64_t dims[MAX_RANK];
    memcpy(dims, x->dims, sizeof dims);
    dims[first] = out->dims[first];
    TRY(lower_temp(lo, x->dtype, x->rank, dims, &between));
    TRY(run_axis(lo, how, x, &between, first, steps[last - first]));
    return run_axis(lo, how, &between, out, then, steps[last - then]);
}

// x and out in the dtype in which out's class computes.
static kiln_status begin(const struct op_call *c, struct lowering *lo, struct view *x, struct view *out)
{
    unsigned dtype = class_dtype(dtype_class(c->out[0].dtype));
    *x = c->vin[0], *out = c->vout[0];
    if (x->immediate || x->dtype != dtype) {
        TRY(lower_temp(lo, dtype, x->rank, x->dims, x));
        TRY(lower_copy(lo, &c->vin[0], x));
    }
    return out->dtype == dtype ? KILN_OK : lower_temp(lo, dtype, out->rank, out->dims, out);
}

static kiln_status end(const struct op_call *c, struct lowering *lo, const struct view *out)
{
    return out->dtype == c->vout[0].dtype ? KILN_OK : lower_copy(lo, out, &c->vout[0]);
}

kiln_status lower_resample(const struct op_call *c, struct lowering *lo)
{
    int axis;
    struct how how = {attr_int(c, AT_resample_align) != 0, attr_int(c, AT_resample_cubic) != 0,
                      attr_int(c, AT_resample_adjoint) != 0};
    struct view x, out;
    TRY(op_axis(c, AT_resample_axis, 0, &axis));
    if (type_numel(&c->out[0]) == 0) return KILN_OK;
    TRY(begin(c, lo, &x, &out));
    TRY(run_axis(lo, &how, &x, &out, axis, attr_float(c, AT_resample_step)));
    return end(c, lo, &out);
}

kiln_status lower_resample2d(const struct op_call *c, struct lowering *lo)
{
    struct how how = {attr_int(c, AT_resample2d_align) != 0, attr_int(c, AT_resample2d_cubic) != 0,
                      attr_int(c, AT_resample2d_adjoint) != 0};
    double steps[] = {attr_float(c, AT_resample2d_step_width), attr_float(c, AT_resample2d_step_height)};
    struct view x, out;
    if (type_numel(&c->out[0]) == 0) return KILN_OK;
    TRY(begin(c, lo, &x, &out));
    TRY(run_plane(lo, &how, &x, &out, steps));
    return end(c, lo, &out);
}
