// A part of an axis at a place that is a tensor: read (slice_at), and replaced (update_at). The kernels move the points
// of the part; what lies at the computed place is x here, the result there:
//
//     out[p] = x[p + k * stride]   and   out[p + k * stride] = src[p],   k = start, wrapped, at most size - length
//
// A start out of range is moved into it by the kernels themselves, so that neither op can fail as it runs.
#include "ops/family.h"
#include "ops/index.h"

// start: integers that broadcast to x's shape with 1 at the axis.
static kiln_status check_start(const struct op_call *c, int axis)
{
    const struct type *x = c->in[0], *start = c->in[1];
    struct type lines = *x, both;
    if (dtype_kind_of[start->dtype] != KIND_INT || start->dtype == KILN_U64)
        return op_fail(c, KILN_E_DTYPE, "start must be integers, it is %s", type_string(start).s);
    lines.dims[axis] = 1;
    if (shape_broadcast(&lines, start, &both) && type_same_shape(&both, &lines)) return KILN_OK;
    return op_fail(c, KILN_E_SHAPE,
                   "start must be one number, or one for each line along axis %d of x: x is %s, start is %s", axis,
                   type_string(x).s, type_string(start).s);
}

kiln_status infer_slice_at(struct op_call *c)
{
    int axis;
    const struct type *x = c->in[0];
    int64_t length = attr_int(c, AT_slice_at_length);
    TRY(op_axis(c, AT_slice_at_axis, 0, &axis));
    TRY(check_start(c, axis));
    if (length < 0 || length > x->dims[axis])
        return op_fail(c, KILN_E_SHAPE, "length %lld is not between 0 and the size of axis %d of %s", (long long)length,
                       axis, type_string(x).s);
    type_copy(&c->out[0], x);
    c->out[0].weak = false;
    c->out[0].dims[axis] = length;
    return KILN_OK;
}

kiln_status infer_update_at(struct op_call *c)
{
    int axis;
    const struct type *x = c->in[0], *src = c->in[2];
    TRY(op_axis(c, AT_update_at_axis, 0, &axis));
    TRY(check_start(c, axis));
    if (dtype_kind_of[src->dtype] > dtype_kind_of[x->dtype])
        return op_fail(c, KILN_E_DTYPE, "src is %s, it does not go into x of %s; cast it first", type_string(src).s,
                       type_string(x).s);
    bool fits = src->rank == x->rank;
    for (int d = 0; fits && d < x->rank; d++)
        fits = d == axis ? src->dims[d] <= x->dims[d] : src->dims[d] == x->dims[d];
    if (!fits)
        return op_fail(c, KILN_E_SHAPE, "src must have x's sizes, and no larger one at axis %d: x is %s, src is %s",
                       axis, type_string(x).s, type_string(src).s);
    return infer_same(c);
}

// A number has no memory from which a kernel could read it.
static kiln_status lower_start(struct lowering *lo, const struct view *start, int rank, const int64_t *dims,
                               struct view *out)
{
    *out = *start;
    if (start->immediate) {
        TRY(lower_temp(lo, KILN_I64, 0, NULL, out));
        TRY(lower_copy(lo, start, out));
    }
    return view_expand(out, rank, dims, out);
}

// Moves the points of `part`, which is `from` or `to`; the other one has its whole axis.
static kiln_status move(struct lowering *lo, int family, const struct view *from, const struct view *start,
                        const struct view *to, const struct view *part, int axis)
{
    const struct view *whole = part == from ? to : from;
    struct view index, bits = view_as_bits(from), out = view_as_bits(to);
    if (view_count(part) == 0) return KILN_OK;
    TRY(lower_start(lo, start, part->rank, part->dims, &index));
    const struct view *v[3] = {&bits, &index, &out};
    struct index_space s = {.n = 3};
    for (int d = 0; d < part->rank; d++) space_add_dim(&s, part->dims[d], v, d);
    struct launch l;
    space_launch(&l, lo, family, dtype_class(out.dtype), &s);
    launch_operand(&l, &bits, s.strides[0], false);
    launch_operand(&l, &index, s.strides[1], false);
    launch_operand(&l, &out, s.strides[2], true);
    launch_scalar_i(&l, whole->dims[axis]);
    launch_scalar_i(&l, whole->dims[axis] - part->dims[axis]);
    launch_scalar_i(&l, whole->strides[axis]);
    return lo->launch(lo, &l);
}

kiln_status lower_slice_at(const struct op_call *c, struct lowering *lo)
{
    int axis;
    TRY(op_axis(c, AT_slice_at_axis, 0, &axis));
    return move(lo, FAMILY_slice_at, &c->vin[0], &c->vin[1], &c->vout[0], &c->vout[0], axis);
}

kiln_status lower_update_at(const struct op_call *c, struct lowering *lo)
{
    int axis;
    struct view src = c->vin[2];
    const struct view *out = &c->vout[0];
    TRY(op_axis(c, AT_update_at_axis, 0, &axis));
    TRY(lower_copy(lo, &c->vin[0], out));
    if (src.dtype != out->dtype) {
        TRY(lower_temp(lo, out->dtype, src.rank, src.dims, &src));
        TRY(lower_copy(lo, &c->vin[2], &src));
    }
    return move(lo, FAMILY_update_at, &src, &c->vin[1], out, &src, axis);
}
