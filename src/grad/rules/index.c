// Indices, scans, sorting and dropout. What was read by index is added where it came from; what was written takes its
// gradient from where it went.
#include "grad/rules/rules.h"

// Zeros of the shape of input 0, one element in memory.
static kiln_tensor *zeros_of_input(kiln_tensor *dy)
{
    kiln_tensor *zero = kiln_zeros(kiln_tensor_device(dy), kiln_tensor_dtype(dy), KILN_SHAPE0);
    return kiln_expand(zero, IN_SHAPE(0));
}

RULE(gather)
{
    din[0] = kiln_scatter_add(zeros_of_input(dout[0]), kiln_rule_int("axis"), in[1], dout[0]);
    return kiln_error();
}

// The index's dimensions become one, which takes the axis's place.
static kiln_status add_slices(int64_t axis, kiln_tensor *index, kiln_tensor *dy, kiln_tensor **dx)
{
    const int64_t *x_dims;
    int64_t dims[KILN_MAX_RANK], n = kiln_numel(index);
    size_t rank = kiln_rule_in_shape(0, &x_dims);
    if (axis < 0) axis += (int64_t)rank;
    for (size_t d = 0; d < rank; d++) dims[d] = (int64_t)d == axis ? n : x_dims[d];
    *dx = kiln_index_add(zeros_of_input(dy), axis, kiln_reshape(index, KILN_SHAPE(n)), kiln_reshape(dy, rank, dims));
    return kiln_error();
}

RULE(take)
{
    return add_slices(kiln_rule_int("axis"), in[1], dout[0], &din[0]);
}

RULE(embedding)
{
    return add_slices(0, in[1], dout[0], &din[0]);
}

// Whether an element of src is the one that stayed: the last of those with its index.
static kiln_tensor *is_winner(kiln_tensor *index, int64_t axis)
{
    kiln_device *dev = kiln_tensor_device(index);
    int64_t dims[KILN_MAX_RANK], n = kiln_dim(index, axis);
    size_t rank = kiln_rank(index);
    if (axis < 0) axis += (int64_t)rank;
    for (size_t d = 0; d < rank; d++) dims[d] = (int64_t)d == axis ? n : 1;
    kiln_tensor *places = kiln_reshape(kiln_arange(dev, KILN_I32, 0, (double)n, 1), rank, dims);
    places = kiln_expand(places, rank, kiln_dims(index));
    kiln_tensor *none = kiln_expand(kiln_zeros(dev, KILN_I32, KILN_SHAPE0), IN_SHAPE(0));
    return kiln_equal(kiln_gather(kiln_scatter(none, axis, index, places), axis, index), places);
}

RULE(slice_at)
{
    din[0] = kiln_update_at(zeros_of_input(dout[0]), kiln_rule_int("axis"), in[1], dout[0]);
    return kiln_error();
}

RULE(update_at)
{
    int64_t axis = kiln_rule_int("axis");
    const int64_t *src;
    size_t rank = kiln_rule_in_shape(2, &src);
    kiln_tensor *zero = kiln_zeros(kiln_tensor_device(dout[0]), kiln_tensor_dtype(dout[0]), KILN_SHAPE0);
    if (kiln_rule_wants(0)) din[0] = kiln_update_at(dout[0], axis, in[1], kiln_expand(zero, rank, src));
    if (kiln_rule_wants(2)) din[2] = kiln_slice_at(dout[0], axis, in[1], src[axis < 0 ? axis + (int64_t)rank : axis]);
    return kiln_error();
}

RULE(scatter)
{
    int64_t axis = kiln_rule_int("axis");
    kiln_tensor *zero = kiln_zeros(kiln_tensor_device(dout[0]), kiln_tensor_dtype(dout[0]), KILN_SHAPE0);
    if (kiln_rule_wants(0)) din[0] = kiln_scatter(dout[0], axis, in[1], zero);
    if (kiln_rule_wants(2)) din[2] = kiln_where(is_winner(in[1], axis), kiln_gather(dout[0], axis, in[1]), zero);
    return kiln_error();
}

RULE(scatter_add)
{
    if (kiln_rule_wants(0)) din[0] = dout[0];
    if (kiln_rule_wants(2)) din[2] = kiln_gather(dout[0], kiln_rule_int("axis"), in[1]);
    return kiln_error();
}

// out = x * all of src for it. What one element is multiplied by is the product of those that are not 0, without it, or
// 0 where another is 0.
static kiln_tensor *others(kiln_tensor *of, kiln_tensor *product, kiln_tensor *zeros)
{
    kiln_tensor *zero = kiln_equal(of, kiln_scalar(0)), *is_zero = kiln_cast(zero, KILN_I64);
    kiln_tensor *alone = kiln_equal(kiln_sub(zeros, is_zero), kiln_scalar_int(0));
    kiln_tensor *rest = kiln_div(product, kiln_where(zero, kiln_scalar(1), of));
    return kiln_where(alone, rest, kiln_scalar(0));
}

static kiln_tensor *not_zero(kiln_tensor *t)
{
    return kiln_where(kiln_equal(t, kiln_scalar(0)), kiln_scalar(1), t);
}

static kiln_tensor *is_zero(kiln_tensor *t)
{
    return kiln_cast(kiln_equal(t, kiln_scalar(0)), KILN_I64);
}

RULE(scatter_mul)
{
    int64_t axis = kiln_rule_int("axis");
    kiln_tensor *x = in[0], *index = in[1], *src = kiln_expand(in[2], kiln_rank(in[1]), kiln_dims(in[1]));
    kiln_tensor *product = kiln_scatter_mul(not_zero(x), axis, index, not_zero(src));
    kiln_tensor *zeros = kiln_scatter_add(is_zero(x), axis, index, is_zero(src));
    if (kiln_rule_wants(0)) din[0] = kiln_mul(dout[0], others(x, product, zeros));
    if (kiln_rule_wants(2)) {
        kiln_tensor *there = kiln_gather(product, axis, index), *n = kiln_gather(zeros, axis, index);
        din[2] = kiln_mul(kiln_gather(dout[0], axis, index), others(src, there, n));
    }
    return kiln_error();
}

// The elements that are the extremum share the gradient.
RULE(scatter_extremum)
{
    int64_t axis = kiln_rule_int("axis");
    kiln_tensor *x = in[0], *index = in[1], *y = out[0], *src = kiln_expand(in[2], kiln_rank(in[1]), kiln_dims(in[1]));
    kiln_tensor *zero = kiln_scalar(0), *stayed = kiln_equal(x, y),
                *came = kiln_equal(src, kiln_gather(y, axis, index));
    kiln_tensor *count = kiln_scatter_add(kiln_cast(stayed, KILN_I64), axis, index, kiln_cast(came, KILN_I64));
    kiln_tensor *n = kiln_cast(kiln_maximum(count, kiln_scalar_int(1)), kiln_tensor_dtype(dout[0]));
    kiln_tensor *part = kiln_div(dout[0], n);
    if (kiln_rule_wants(0)) din[0] = kiln_where(stayed, part, zero);
    if (kiln_rule_wants(2)) din[2] = kiln_where(came, kiln_gather(part, axis, index), zero);
    return kiln_error();
}

RULE(index_add)
{
    if (kiln_rule_wants(0)) din[0] = dout[0];
    if (kiln_rule_wants(2)) din[2] = kiln_index_select(dout[0], kiln_rule_int("axis"), in[1]);
    return kiln_error();
}

// Running sums from the end.
static kiln_tensor *sums_back(kiln_tensor *t, int64_t axis)
{
    return kiln_flip(kiln_cumsum(kiln_flip(t, KILN_AXES(axis)), axis), KILN_AXES(axis));
}

RULE(cumsum)
{
    din[0] = sums_back(dout[0], kiln_rule_int("axis"));
    return kiln_error();
}

// dx_i is the sum over k >= i of dy_k times the product of all x_j, j <= k, but x_i: by a square whose row i has a 1 in
// place of x_i. Right at zeros to any order of derivative.
static kiln_tensor *cumprod_by_square(kiln_tensor *x, kiln_tensor *dy, int64_t axis)
{
    int64_t n = kiln_dim(x, axis);
    kiln_tensor *i = kiln_arange(kiln_tensor_device(x), KILN_I64, 0, (double)n, 1), *row = kiln_unsqueeze(i, 1);
    kiln_tensor *last = kiln_unsqueeze(kiln_transpose(x, axis, -1), -2);
    kiln_tensor *others = kiln_cumprod(kiln_where(kiln_equal(row, i), kiln_scalar(1), last), -1);
    kiln_tensor *taken = kiln_where(kiln_less_equal(row, i), others, kiln_scalar(0));
    kiln_tensor *dx = kiln_mul(taken, kiln_unsqueeze(kiln_transpose(dy, axis, -1), -2));
    return kiln_transpose(kiln_sum(dx, KILN_REDUCE(.axes = KILN_AXES(-1))), axis, -1);
}

// The same in three parts, to the first order: sums_back(dy y) / x before the first zero, the same with the first zero
// left out of the products at that zero, and 0 behind it.
static kiln_tensor *cumprod_by_quotient(kiln_tensor *x, kiln_tensor *y, kiln_tensor *dy, int64_t axis)
{
    kiln_tensor *zero = kiln_equal(x, kiln_scalar(0)), *count = kiln_cumsum(zero, axis);
    kiln_tensor *first = kiln_logical_and(zero, kiln_equal(count, kiln_scalar_int(1)));
    kiln_tensor *before = kiln_equal(count, kiln_scalar_int(0));
    kiln_tensor *rest = kiln_cumprod(kiln_where(first, kiln_scalar(1), x), axis);
    kiln_tensor *at_first = sums_back(kiln_mul(dy, rest), axis);
    kiln_tensor *quotient = kiln_div(sums_back(kiln_mul(dy, y), axis), kiln_where(zero, kiln_scalar(1), x));
    return kiln_where(before, quotient, kiln_where(first, at_first, kiln_scalar(0)));
}

RULE(cumprod)
{
    int64_t axis = kiln_rule_int("axis");
    bool square = kiln_grad_enabled() && kiln_rule_in_shape(0, NULL) < KILN_MAX_RANK;
    din[0] = square ? cumprod_by_square(in[0], dout[0], axis) : cumprod_by_quotient(in[0], out[0], dout[0], axis);
    return kiln_error();
}

// Where each extremum came from is itself a running maximum: of the places at which x equals it.
RULE(cumulative_extremum)
{
    int64_t axis = kiln_rule_int("axis"), dims[KILN_MAX_RANK];
    size_t rank = kiln_rank(in[0]);
    for (size_t d = 0; d < rank; d++) dims[d] = 1;
    dims[axis < 0 ? axis + (int64_t)rank : axis] = kiln_dim(in[0], axis);
    kiln_tensor *line = kiln_arange(kiln_tensor_device(in[0]), KILN_I64, 0, (double)kiln_dim(in[0], axis), 1);
    kiln_tensor *hit = kiln_logical_or(kiln_equal(in[0], out[0]), kiln_not_equal(in[0], in[0]));
    kiln_tensor *from = kiln_cummax(kiln_where(hit, kiln_reshape(line, rank, dims), kiln_scalar_int(0)), axis);
    din[0] = kiln_scatter_add(zeros_of_input(dout[0]), axis, from, dout[0]);
    return kiln_error();
}

RULE(gather_nd)
{
    din[0] = kiln_scatter_nd(in[1], dout[0], IN_SHAPE(0));
    return kiln_error();
}

RULE(scatter_nd)
{
    din[1] = kiln_gather_nd(dout[0], in[0]);
    return kiln_error();
}

static kiln_status put_back(kiln_tensor *indices, kiln_tensor *dy, kiln_tensor **dx)
{
    if (dy) *dx = kiln_scatter(zeros_of_input(dy), kiln_rule_int("axis"), indices, dy);
    return kiln_error();
}

RULE(sort)
{
    return put_back(out[1], dout[0], &din[0]);
}

RULE(dropout)
{
    din[0] = kiln_dropout_again(dout[0], kiln_rule_float("p"), kiln_rule_int("seed"), kiln_rule_int("offset"));
    return kiln_error();
}

#define INDEX .needs_in = 1 << 1
static const kiln_rule_spec rules[] = {
    {.op = "gather", .fn = gather, INDEX},
    {.op = "take", .fn = take, INDEX},
    {.op = "index_select", .fn = take, INDEX},
    {.op = "embedding", .fn = embedding, INDEX},
    {.op = "slice_at", .fn = slice_at, INDEX},
    {.op = "update_at", .fn = update_at, INDEX},
    {.op = "scatter", .fn = scatter, INDEX},
    {.op = "scatter_add", .fn = scatter_add, INDEX},
    {.op = "scatter_mul", .fn = scatter_mul, .needs_in = 7},
    {.op = "scatter_max", .fn = scatter_extremum, .needs_in = 7, .needs_out = 1 << 0},
    {.op = "scatter_min", .fn = scatter_extremum, .needs_in = 7, .needs_out = 1 << 0},
    {.op = "index_add", .fn = index_add, INDEX},
    {.op = "cumsum", .fn = cumsum},
    {.op = "cumprod", .fn = cumprod, .needs_in = 1 << 0, .needs_out = 1 << 0},
    {.op = "cummax", .fn = cumulative_extremum, .needs_in = 1 << 0, .needs_out = 1 << 0},
    {.op = "cummin", .fn = cumulative_extremum, .needs_in = 1 << 0, .needs_out = 1 << 0},
    {.op = "gather_nd", .fn = gather_nd, INDEX},
    {.op = "scatter_nd", .fn = scatter_nd, .needs_in = 1 << 0},
    {.op = "sort", .fn = sort, .needs_out = 1 << 1},
    {.op = "topk", .fn = sort, .needs_out = 1 << 1},
    {.op = "dropout", .fn = dropout},
    {.op = "dropout_again", .fn = dropout},
};
RULES(index, rules);
