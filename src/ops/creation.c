// Tensors from nothing: filled, and ranges.
#include "ops/family.h"
#include <math.h>

kiln_status infer_same(struct op_call *c)
{
    type_copy(&c->out[0], c->in[0]);
    c->out[0].weak = false;
    return KILN_OK;
}

kiln_status op_shape(const struct op_call *c, int shape_attr, uint8_t dtype, struct type *out)
{
    const struct attr *shape = &c->attrs[shape_attr];
    *out = (struct type){.dtype = dtype, .rank = shape->count};
    for (int i = 0; i < shape->count; i++) {
        if (shape->v[i] < 0)
            return op_fail(c, KILN_E_SHAPE, "dimension %d is negative: %lld", i, (long long)shape->v[i]);
        out->dims[i] = shape->v[i];
    }
    uint64_t size_B;
    return type_size_B(out, &size_B);
}

kiln_status op_shape_attr(const struct op_call *c, int dtype_attr, int shape_attr, struct type *out)
{
    int64_t dtype = c->attrs[dtype_attr].i;
    if (dtype < 0 || dtype >= DTYPE_COUNT)
        return op_fail(c, KILN_E_DTYPE, "dtype %lld is not one of kiln_dtype", (long long)dtype);
    return op_shape(c, shape_attr, (uint8_t)dtype, out);
}

void op_full_attrs(const struct type *t, double value, struct attr *attrs)
{
    attrs[AT_full_dtype] = (struct attr){.kind = ATTR_DTYPE, .set = true, .i = t->dtype};
    attrs[AT_full_shape] = (struct attr){.kind = ATTR_INTS, .set = true, .count = t->rank};
    attrs[AT_full_value] = (struct attr){.kind = ATTR_FLOAT, .set = true, .f = value};
    memcpy(attrs[AT_full_shape].v, t->dims, sizeof attrs[AT_full_shape].v[0] * t->rank);
}

kiln_status check_full(const struct attr *attrs)
{
    int64_t dtype = attrs[AT_full_dtype].i;
    double v = attrs[AT_full_value].f;
    if (error_pending) return error_pending;
    if (dtype < 0 || dtype >= DTYPE_COUNT || dtype_info[dtype].kind != KIND_INT) return KILN_OK;
    const struct dtype_info *info = &dtype_info[dtype];
    double end = ldexp(1, 8 * info->size_B - info->is_signed), least = info->is_signed ? -end : 0;
    if (!(v > least - 1 && v < end))
        return error_set(KILN_E_ARGUMENT, "full: %.17g does not go into %s, which holds %.0f to %.0f", v, info->name,
                         least, end - 1);
    if (info->size_B == 8 && fabs(v) >= 0x1p53)
        log_warn("full: %.0f is 2^53 or more, from where doubles leave out integers; kiln_full_int takes each", v);
    if (v != trunc(v)) log_warn("full: %.17g is no integer, %s holds %.0f", v, info->name, trunc(v));
    return KILN_OK;
}

kiln_status infer_full(struct op_call *c)
{
    return op_shape_attr(c, AT_full_dtype, AT_full_shape, &c->out[0]);
}

kiln_status lower_full(const struct op_call *c, struct lowering *lo)
{
    return lower_fill(lo, c->attrs[AT_full_value].f, &c->vout[0]);
}

kiln_status lower_full_int(const struct op_call *c, struct lowering *lo)
{
    struct view value = view_integer(attr_int(c, AT_full_int_value));
    return lower_copy(lo, &value, &c->vout[0]);
}

kiln_status lower_zeros(const struct op_call *c, struct lowering *lo)
{
    return lower_fill(lo, 0, &c->vout[0]);
}

kiln_status lower_ones(const struct op_call *c, struct lowering *lo)
{
    return lower_fill(lo, 1, &c->vout[0]);
}

_Static_assert(AT_arange_dtype == AT_linspace_dtype, "infer_line serves both");

static kiln_status infer_line(struct op_call *c, double count)
{
    int64_t dtype = c->attrs[AT_arange_dtype].i;
    if (dtype <= KILN_BOOL || dtype >= DTYPE_COUNT)
        return op_fail(c, KILN_E_DTYPE, "makes integers and floats, not dtype %lld", (long long)dtype);
    if (!(count >= 0 && count < 0x1p53))
        return op_fail(c, KILN_E_ARGUMENT, "a range of %g values cannot be made", count);
    c->out[0] = (struct type){.dtype = (uint8_t)dtype, .rank = 1, .dims = {(int64_t)count}};
    return KILN_OK;
}

kiln_status infer_arange(struct op_call *c)
{
    double start = attr_float(c, AT_arange_start), stop = attr_float(c, AT_arange_stop),
           step = attr_float(c, AT_arange_step);
    if (step == 0 || !isfinite(start) || !isfinite(stop) || !isfinite(step))
        return op_fail(c, KILN_E_ARGUMENT, "needs finite bounds and a step other than 0: start %g, stop %g, step %g",
                       start, stop, step);
    int64_t dtype = c->attrs[AT_arange_dtype].i;
    bool whole = start == trunc(start) && step == trunc(step);
    if (!whole && dtype > KILN_BOOL && dtype < DTYPE_COUNT && dtype_kind_of[dtype] == KIND_INT)
        return op_fail(c, KILN_E_ARGUMENT, "of %s needs a whole start and step: start %g, step %g",
                       dtype_name((unsigned)dtype), start, step);
    return infer_line(c, fmax(0, ceil((stop - start) / step)));
}

kiln_status infer_linspace(struct op_call *c)
{
    int64_t count = attr_int(c, AT_linspace_count);
    if (count < 0) return op_fail(c, KILN_E_ARGUMENT, "count is negative: %lld", (long long)count);
    return infer_line(c, (double)count);
}

// A line of values along the last dimension of `out`.
kiln_status lower_iota(struct lowering *lo, double start, double step, const struct view *out)
{
    double scalars[2] = {start, step};
    enum scalar_class cls = dtype_class(out->dtype);
    return lower_row(lo, FAMILY_iota, cls, out->rank, out->dims, 1, 0, NULL, out, 2, scalars);
}

kiln_status lower_arange(const struct op_call *c, struct lowering *lo)
{
    return c->out[0].dims[0] == 0
               ? KILN_OK
               : lower_iota(lo, attr_float(c, AT_arange_start), attr_float(c, AT_arange_step), &c->vout[0]);
}

// Each half is counted from its own end, so that both ends are exact. In integers a step would be one too: their values
// are found as f64, each by one division.
kiln_status lower_linspace(const struct op_call *c, struct lowering *lo)
{
    const struct view *out = &c->vout[0];
    int64_t n = c->out[0].dims[0];
    if (n == 0) return KILN_OK;
    double start = attr_float(c, AT_linspace_start), stop = attr_float(c, AT_linspace_stop), last = (double)(n - 1);
    if (dtype_kind_of[out->dtype] == KIND_INT) {
        double scalars[3] = {start, n > 1 ? stop : start, fmax(last, 1)};
        return lower_row(lo, FAMILY_linspace_floor, CLASS_F64, 1, out->dims, 1, 0, NULL, out, 3, scalars);
    }
    // Of two values neither takes a step, which may be too large for the dtype.
    double scalars[4] = {start, stop, n > 2 ? stop / last - start / last : 0, last};
    return lower_row(lo, FAMILY_linspace, dtype_class(out->dtype), 1, out->dims, 1, 0, NULL, out, 4, scalars);
}
