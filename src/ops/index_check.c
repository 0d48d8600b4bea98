// One row for each op that takes indices, and for each whose results are integers of a known range.
#include "ops/index_check.h"
#include "ops/family.h"

// How the indexed size is found: along an axis of x, by x's first axis, by x's first axes, by those of a shape.
enum sizes_of { SIZES_NONE, SIZES_AXIS, SIZES_ROWS, SIZES_TUPLE, SIZES_SHAPE };
static const struct {
    uint8_t sizes, operand;
} rules[OP_GRADIENTS] = {
    [OP_gather] = {SIZES_AXIS, 1},      [OP_take] = {SIZES_AXIS, 1},       [OP_index_select] = {SIZES_AXIS, 1},
    [OP_embedding] = {SIZES_ROWS, 1},   [OP_gather_nd] = {SIZES_TUPLE, 1}, [OP_scatter] = {SIZES_AXIS, 1},
    [OP_scatter_add] = {SIZES_AXIS, 1}, [OP_index_add] = {SIZES_AXIS, 1},  [OP_scatter_nd] = {SIZES_SHAPE, 0},
};

bool op_checks_index(const struct op *op)
{
    return op->index < OP_GRADIENTS && rules[op->index].sizes != SIZES_NONE;
}

bool op_can_fail(const struct op_call *c, const struct device_caps *caps)
{
    if (!op_checks_index(c->op)) return false;
    bool wide = false;
    for (int i = 0; i < c->n_in; i++) wide |= i != rules[c->op->index].operand && dtype_size_B[c->in[i]->dtype] == 8;
    return caps->checks_indices || (wide && !(caps->i64 && caps->f64));
}

void op_index_bounds(const struct op_call *c, struct index_bounds *out)
{
    const struct type *x = c->in[0];
    int sizes = rules[c->op->index].sizes, axis = sizes == SIZES_AXIS ? axis_normalize(c->attrs[0].i, x->rank) : 0;
    *out = (struct index_bounds){.operand = rules[c->op->index].operand};
    switch (sizes) {
    case SIZES_AXIS:
    case SIZES_ROWS: out->sizes[0] = axis >= 0 && axis < x->rank ? x->dims[axis] : 0; return;
    case SIZES_TUPLE:
        out->tuples = true;
        for (int d = 0; d < x->rank; d++) out->sizes[d] = x->dims[d];
        return;
    default:
        out->tuples = true;
        for (int d = 0; d < c->attrs[0].count && d < MAX_RANK; d++) out->sizes[d] = c->attrs[0].v[d];
    }
}

// Places along an axis of x; without one, in all of it.
static enum range_kind places(const struct type *x, int axis, int64_t *hi)
{
    *hi = (axis < 0 ? type_numel(x) : x->dims[axis]) - 1;
    return RANGE_KNOWN;
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
    if (c->op->flags & OP_CREATES && dtype_size_B[c->out[0].dtype] < 4) return RANGE_UNKNOWN; // it may wrap
    *lo = *hi = 0;
    switch (c->op->index) {
    case OP_full: return filled(c->attrs[2].f, lo, hi);
    case OP_full_like: return filled(c->attrs[0].f, lo, hi);
    case OP_zeros_like: return RANGE_KNOWN;
    case OP_cast: // the same or a wider one
        if (dtype_kind_of[x->dtype] != KIND_INT || dtype_kind_of[c->attrs[0].i] != KIND_INT) return RANGE_UNKNOWN;
        return dtype_holds((unsigned)c->attrs[0].i, x->dtype) ? RANGE_SAME : RANGE_UNKNOWN;
    case OP_argmax:
    case OP_argmin: return places(x, c->attrs[0].count ? axis_normalize(c->attrs[0].v[0], x->rank) : -1, hi);
    case OP_argsort: return places(x, axis_normalize(c->attrs[0].i, x->rank), hi);
    case OP_sort: return output ? places(x, axis_normalize(c->attrs[0].i, x->rank), hi) : RANGE_SAME;
    case OP_topk: return output ? places(x, axis_normalize(c->attrs[1].i, x->rank), hi) : RANGE_SAME;
    case OP_randint: *lo = c->attrs[2].i, *hi = c->attrs[3].i - 1; return RANGE_KNOWN;
    case OP_randperm: *hi = c->attrs[0].i - 1; return RANGE_KNOWN;
    default: return RANGE_UNKNOWN;
    }
}
