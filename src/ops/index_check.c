// What the rows of the op table say of indices, and for each op whose results are integers of a known range, which.
#include "ops/index_check.h"
#include "ops/family.h"

bool op_checks_index(const struct op *op)
{
    return op->indexed.bound != INDEX_NONE;
}

bool op_call_checks_index(const struct op_call *c)
{
    if (!op_checks_index(c->op)) return false;
    return c->op->indexed.bound != INDEX_LABEL || dtype_kind_of[c->in[c->op->indexed.operand]->dtype] != KIND_FLOAT;
}

bool op_can_fail(const struct op_call *c, const struct device_caps *caps)
{
    if (!op_call_checks_index(c)) return false;
    if (c->op->indexed.bound == INDEX_VALUES) return caps->checks_values;
    bool wide = false;
    for (int i = 0; i < c->n_in; i++) wide |= i != c->op->indexed.operand && dtype_size_B[c->in[i]->dtype] == 8;
    return caps->checks_indices || (wide && !(caps->i64 && caps->f64));
}

static const struct attr *attr_called(const struct op_call *c, const char *name)
{
    return &c->attrs[op_attr_index(c->op, name)];
}

static void bound_labels(const struct op_call *c, struct index_bounds *out)
{
    const struct type *x = c->in[0];
    out->labels = true;
    out->ignores = attr_called(c, "ignore")->i != 0;
    out->ignored = attr_called(c, "ignore_index")->i;
    out->sizes[0] = x->rank ? x->dims[x->rank > 1] : 0;
}

static void bound_axis(const struct type *x, int64_t axis, struct index_bounds *out)
{
    int at = axis_normalize(axis, x->rank);
    out->sizes[0] = at >= 0 && at < x->rank ? x->dims[at] : 0;
}

void op_index_bounds(const struct op_call *c, struct index_bounds *out)
{
    const struct type *x = c->in[0];
    const struct attr *shape;
    *out = (struct index_bounds){.operand = c->op->indexed.operand};
    switch (c->op->indexed.bound) {
    case INDEX_LABEL: bound_labels(c, out); return;
    case INDEX_AXIS: bound_axis(x, attr_called(c, "axis")->i, out); return;
    case INDEX_ROWS: bound_axis(x, 0, out); return;
    case INDEX_VALUES: return;
    case INDEX_TUPLE:
        out->tuples = true;
        for (int d = 0; d < x->rank; d++) out->sizes[d] = x->dims[d];
        return;
    default:
        shape = attr_called(c, "shape");
        out->tuples = true;
        for (int d = 0; d < shape->count && d < MAX_RANK; d++) out->sizes[d] = shape->v[d];
    }
}

// Places along an axis of x; without one, in all of it.
static enum range_kind places(const struct type *x, int axis, int64_t *hi)
{
    *hi = (axis < 0 ? type_numel(x) : x->dims[axis]) - 1;
    return RANGE_KNOWN;
}

static int first_axis(const struct attr *axes, int rank)
{
    return axes->count ? axis_normalize(axes->v[0], rank) : -1;
}

static enum range_kind filled(double v, int64_t *lo, int64_t *hi)
{
    if (!(v >= -0x1p62 && v <= 0x1p62)) return RANGE_UNKNOWN;
    *lo = *hi = (int64_t)v;
    return RANGE_KNOWN;
}

enum range_kind op_result_range(const struct op_call *c, int output, int64_t *lo, int64_t *hi)
{
    const struct type *x = c->n_in ? c->in[0] : NULL;
    if (c->op->flags & OP_VIEW) return RANGE_SAME;
    bool fills = c->op->flags & OP_CREATES || c->op->index == OP_full_like;
    const struct dtype_info *made = &dtype_info[c->out[0].dtype];
    if (fills && (made->size_B < 4 || !made->is_signed)) return RANGE_UNKNOWN; // it may wrap
    *lo = *hi = 0;
    switch (c->op->index) {
    case OP_full: return filled(c->attrs[AT_full_value].f, lo, hi);
    case OP_full_like: return filled(c->attrs[AT_full_like_value].f, lo, hi);
    case OP_zeros_like: return RANGE_KNOWN;
    case OP_cast: // the same or a wider one
        if (dtype_kind_of[x->dtype] != KIND_INT || dtype_kind_of[attr_int(c, AT_cast_dtype)] != KIND_INT)
            return RANGE_UNKNOWN;
        return dtype_holds((unsigned)attr_int(c, AT_cast_dtype), x->dtype) ? RANGE_SAME : RANGE_UNKNOWN;
    case OP_argmax:
    case OP_argmin: return places(x, first_axis(&c->attrs[AT_argmin_axes], x->rank), hi);
    case OP_argsort: return places(x, axis_normalize(attr_int(c, AT_argsort_axis), x->rank), hi);
    case OP_sort: return output ? places(x, axis_normalize(attr_int(c, AT_sort_axis), x->rank), hi) : RANGE_SAME;
    case OP_topk: return output ? places(x, axis_normalize(attr_int(c, AT_topk_axis), x->rank), hi) : RANGE_SAME;
    case OP_randint: *lo = attr_int(c, AT_randint_lo), *hi = attr_int(c, AT_randint_hi) - 1; return RANGE_KNOWN;
    case OP_randperm: *hi = attr_int(c, AT_randperm_n) - 1; return RANGE_KNOWN;
    default: return RANGE_UNKNOWN;
    }
}
