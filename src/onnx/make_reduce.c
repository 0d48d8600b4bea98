// Reductions. Their axes are an attribute, or since version 18 (of ReduceSum 13) an input.
#include "onnx/onnx_fns.h"
#include "ops/attrs.h"
#include "ops/families.h"
#include "tensor/apply.h"
#include <math.h>

struct folding {
    int64_t axes[KILN_MAX_RANK];
    size_t n;
    bool keep, none; // none: nothing is reduced
};

static kiln_status read_folding(struct onnx_call *c, size_t rank, struct folding *f)
{
    int64_t keep, noop;
    TRY(onnx_check_counts(c, 1, 2, 1));
    TRY(onnx_int(c, "keepdims", 1, &keep));
    TRY(onnx_int(c, "noop_with_empty_axes", 0, &noop));
    TRY(onnx_axes(c, 1, rank, f->axes, &f->n));
    f->keep = keep != 0;
    f->none = !f->n && noop;
    return KILN_OK;
}

// Of no elements the largest is the least number that there is, and the least the largest.
static kiln_tensor *extremum_of_none(struct onnx_call *c, bool largest, kiln_tensor *x, const struct folding *f)
{
    kiln_dtype dtype = kiln_tensor_dtype(x);
    kiln_tensor *shape = kiln_sum(x, KILN_REDUCE(.axes = {f->n, f->axes}, .keepdims = f->keep));
    if (!shape) return NULL;
    if (dtype_is_float(dtype))
        return kiln_full(c->dev, dtype, kiln_rank(shape), kiln_dims(shape), largest ? -INFINITY : INFINITY);
    int64_t highest = dtype == KILN_BOOL ? 1 : dtype_highest(dtype);
    int64_t lowest = dtype == KILN_BOOL ? 0 : dtype_lowest(dtype);
    return kiln_full_int(c->dev, dtype, kiln_rank(shape), kiln_dims(shape), largest ? lowest : highest);
}

static kiln_tensor *reduce_by(struct onnx_call *c, int op, kiln_tensor *x, const struct folding *f)
{
    if (f->none || !x) return x;
    struct attr attrs[] = {attr_of_ints(f->n, f->axes), attr_of_bool(f->keep)};
    kiln_tensor *in[] = {x};
    if ((op == OP_max || op == OP_min) && !kiln_numel(x)) return extremum_of_none(c, op == OP_max, x, f);
    kiln_tensor *y = op_apply1(op_table[op], c->dev, 1, in, attrs);
    return y && kiln_tensor_dtype(y) != kiln_tensor_dtype(x) ? kiln_cast(y, kiln_tensor_dtype(x)) : y;
}

_Static_assert(AT_reduce_opts_axes == 0 && AT_reduce_opts_keepdims == 1, "what reduce_by gives");

// before and after: what happens to each element beside.
static kiln_status reduce_with(struct onnx_call *c, kiln_tensor *(*before)(kiln_tensor *), int op,
                               kiln_tensor *(*after)(kiln_tensor *))
{
    struct folding f;
    kiln_tensor *x = onnx_in(c, 0);
    NEED(x);
    TRY(read_folding(c, kiln_rank(x), &f));
    x = reduce_by(c, op, before ? before(x) : x, &f);
    return onnx_give(c, 0, after ? after(x) : x);
}

kiln_status onnx_op_reduce(struct onnx_call *c)
{
    return reduce_with(c, NULL, c->row->op, NULL);
}

kiln_status onnx_op_reduce_l1(struct onnx_call *c)
{
    return reduce_with(c, kiln_abs, OP_sum, NULL);
}

kiln_status onnx_op_reduce_l2(struct onnx_call *c)
{
    struct onnx_host type;
    TRY(onnx_in_type(c, 0, &type));
    if (!dtype_is_float(type.dtype)) return onnx_bad(c, KILN_E_UNSUPPORTED, "of %s", dtype_name(type.dtype));
    return reduce_with(c, kiln_square, OP_sum, kiln_sqrt);
}

kiln_status onnx_op_reduce_log_sum(struct onnx_call *c)
{
    return reduce_with(c, NULL, OP_sum, kiln_log);
}

kiln_status onnx_op_reduce_sum_square(struct onnx_call *c)
{
    return reduce_with(c, kiln_square, OP_sum, NULL);
}

// ArgMax, ArgMin. The last of equal ones is the first from the other end.
kiln_status onnx_op_arg(struct onnx_call *c)
{
    int64_t axis, keep, last;
    TRY(onnx_check_counts(c, 1, 1, 1));
    TRY(onnx_int(c, "axis", 0, &axis));
    TRY(onnx_int(c, "keepdims", 1, &keep));
    TRY(onnx_int(c, "select_last_index", 0, &last));
    kiln_tensor *x = onnx_in(c, 0);
    NEED(x);
    TRY(onnx_axis(c, axis, kiln_rank(x), &axis));
    if (last) x = kiln_flip(x, (kiln_ints){1, &axis});
    struct attr attrs[] = {attr_of_ints(1, &axis), attr_of_bool(keep != 0)};
    kiln_tensor *in[] = {x}, *y = x ? op_apply1(op_table[c->row->op], c->dev, 1, in, attrs) : NULL;
    if (y && last) y = kiln_sub(kiln_scalar_int(kiln_dims(x)[axis] - 1), y);
    return onnx_give(c, 0, y);
}

kiln_status onnx_op_cumsum(struct onnx_call *c)
{
    int64_t axis, exclusive, reverse;
    TRY(onnx_check_counts(c, 2, 2, 1));
    TRY(onnx_int(c, "exclusive", 0, &exclusive));
    TRY(onnx_int(c, "reverse", 0, &reverse));
    TRY(onnx_in_int(c, 1, &axis));
    kiln_tensor *x = onnx_in(c, 0);
    NEED(x);
    TRY(onnx_axis(c, axis, kiln_rank(x), &axis));
    kiln_dtype dtype = kiln_tensor_dtype(x);
    if (reverse) x = kiln_flip(x, (kiln_ints){1, &axis});
    int64_t size = x ? kiln_dims(x)[axis] : 0;
    // Without the element itself: a place later, with 0 in front.
    if (exclusive && size) {
        int64_t before[KILN_MAX_RANK] = {0};
        before[axis] = 1;
        x = kiln_pad(kiln_narrow(x, axis, 0, size - 1), KILN_PAD(.before = {kiln_rank(x), before}));
    }
    x = kiln_cumsum(x, axis);
    if (x && kiln_tensor_dtype(x) != dtype) x = kiln_cast(x, dtype);
    return onnx_give(c, 0, reverse ? kiln_flip(x, (kiln_ints){1, &axis}) : x);
}
