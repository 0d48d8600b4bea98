// Reductions. `dy` and the result are seen with the reduced axes of size 1, so that they broadcast against x.
#include "base/dtype.h"
#include "grad/rules/rules.h"
#include <math.h>

static kiln_tensor *number(double v)
{
    return kiln_scalar(v);
}

RULE(sum)
{
    din[0] = kiln_expand(rule_keep_dims(dout[0]), IN_SHAPE(0));
    return kiln_error();
}

RULE(mean)
{
    kiln_tensor *dy = kiln_mul(rule_keep_dims(dout[0]), number(1.0 / (double)rule_row_length()));
    din[0] = kiln_expand(dy, IN_SHAPE(0));
    return kiln_error();
}

// x with the reduced axes last and merged into one.
static kiln_tensor *as_rows(kiln_tensor *x, int64_t *order, size_t *n_kept)
{
    size_t rank = kiln_rule_in_shape(0, NULL), n = 0;
    uint32_t mask = rule_axes_mask();
    for (size_t i = 0; i < rank; i++)
        if (!(mask >> i & 1)) order[n++] = (int64_t)i;
    *n_kept = n;
    for (size_t i = 0; i < rank; i++)
        if (mask >> i & 1) order[n++] = (int64_t)i;
    int64_t dims[KILN_MAX_RANK + 1];
    for (size_t i = 0; i < *n_kept; i++) dims[i] = rule_in_dims(0)[order[i]];
    dims[*n_kept] = rule_row_length();
    return kiln_reshape(rank ? kiln_permute(x, (kiln_ints){rank, order}) : x, *n_kept + 1, dims);
}

// The product of all others, from a square of copies of the row with ones on the diagonal: right at zeros to any order
// of derivative.
static kiln_tensor *others_by_square(kiln_tensor *x)
{
    int64_t order[KILN_MAX_RANK], inverse[KILN_MAX_RANK], dims[KILN_MAX_RANK], n = rule_row_length();
    size_t n_kept, rank = kiln_rule_in_shape(0, NULL);
    kiln_tensor *rows = kiln_unsqueeze(as_rows(x, order, &n_kept), -2);
    kiln_tensor *i = kiln_arange(kiln_tensor_device(x), KILN_I64, 0, (double)n, 1);
    kiln_tensor *diagonal = kiln_equal(kiln_unsqueeze(i, 1), i);
    kiln_tensor *others = kiln_prod(kiln_where(diagonal, number(1), rows), KILN_REDUCE(.axes = KILN_AXES(-1)));
    for (size_t k = 0; k < rank; k++) {
        inverse[order[k]] = (int64_t)k;
        dims[k] = rule_in_dims(0)[order[k]];
    }
    others = kiln_reshape(others, rank, dims);
    return rank ? kiln_permute(others, (kiln_ints){rank, inverse}) : others;
}

// The quotient y / x but where zeros are: one zero takes the product of the rest, two or more leave none.
static kiln_tensor *others_by_quotient(kiln_tensor *x)
{
    const int64_t *axes;
    size_t n_axes = kiln_rule_ints("axes", &axes);
    kiln_tensor *zero = kiln_equal(x, number(0)), *safe = kiln_where(zero, number(1), x);
    const kiln_reduce_opts *over = KILN_REDUCE(.axes = {n_axes, axes}, .keepdims = true);
    kiln_tensor *rest = kiln_prod(safe, over), *count = kiln_sum(zero, over);
    kiln_tensor *none = kiln_where(kiln_equal(count, kiln_scalar_int(0)), kiln_div(rest, safe), number(0));
    kiln_tensor *only = kiln_logical_and(zero, kiln_equal(count, kiln_scalar_int(1)));
    return kiln_where(only, rest, none);
}

RULE(prod)
{
    bool square = kiln_grad_enabled() || !dtype_is_float(kiln_rule_in_dtype(0));
    square = square && kiln_rule_in_shape(0, NULL) + 1 < KILN_MAX_RANK;
    kiln_tensor *others = square ? others_by_square(in[0]) : others_by_quotient(in[0]);
    din[0] = kiln_mul(others, rule_keep_dims(dout[0]));
    return kiln_error();
}

// Equal extrema share the gradient.
RULE(extremum)
{
    const int64_t *axes;
    size_t n_axes = kiln_rule_ints("axes", &axes);
    kiln_tensor *hit = kiln_cast(kiln_equal(in[0], rule_keep_dims(out[0])), kiln_tensor_dtype(dout[0]));
    kiln_tensor *count = kiln_sum(hit, KILN_REDUCE(.axes = {n_axes, axes}, .keepdims = true));
    din[0] = kiln_mul(hit, kiln_div(rule_keep_dims(dout[0]), count));
    return kiln_error();
}

static kiln_tensor *deviation(kiln_tensor *x)
{
    const int64_t *axes;
    size_t n_axes = kiln_rule_ints("axes", &axes);
    return kiln_sub(x, kiln_mean(x, KILN_REDUCE(.axes = {n_axes, axes}, .keepdims = true)));
}

static double degrees_of_freedom(void)
{
    return fmax(0, (double)rule_row_length() - kiln_rule_float("correction"));
}

RULE(var)
{
    din[0] = kiln_mul(kiln_mul(deviation(in[0]), rule_keep_dims(dout[0])), number(2 / degrees_of_freedom()));
    return kiln_error();
}

// t / y, 0 where y is 0: there the derivative has no value, and 0 is a subgradient.
static kiln_tensor *safe_quotient(kiln_tensor *t, kiln_tensor *y)
{
    kiln_tensor *zero = kiln_equal(y, number(0));
    return kiln_where(zero, number(0), kiln_div(t, kiln_where(zero, number(1), y)));
}

RULE(std_deviation)
{
    kiln_tensor *dy = safe_quotient(rule_keep_dims(dout[0]), rule_keep_dims(out[0]));
    din[0] = kiln_mul(kiln_mul(deviation(in[0]), dy), number(1 / degrees_of_freedom()));
    return kiln_error();
}

RULE(norm)
{
    double p = kiln_rule_float("ord");
    kiln_tensor *x = in[0], *y = rule_keep_dims(out[0]), *dy = rule_keep_dims(dout[0]);
    if (p == 1)
        din[0] = kiln_mul(kiln_sign(x), dy);
    else if (p == 2)
        din[0] = kiln_mul(x, safe_quotient(dy, y));
    else if (p == 0)
        din[0] = kiln_zeros_like(x);
    else if (isinf(p)) {
        const int64_t *axes;
        size_t n_axes = kiln_rule_ints("axes", &axes);
        // Not y, from which an x that is computed anew may differ by its last bits.
        const kiln_reduce_opts *along = KILN_REDUCE(.axes = {n_axes, axes}, .keepdims = true);
        kiln_tensor *size = kiln_abs(x), *end = p > 0 ? kiln_max(size, along) : kiln_min(size, along),
                    *hit = kiln_cast(kiln_equal(size, end), kiln_tensor_dtype(dy));
        kiln_tensor *count = kiln_sum(hit, along);
        din[0] = kiln_mul(kiln_mul(hit, kiln_sign(x)), kiln_div(dy, count));
    } else {
        // sign(x) (|x| / y)^(p-1) dy; at 0 the derivative of |x|^p is 0, or without bound for p < 1.
        kiln_tensor *zero = kiln_equal(x, number(0)), *size = kiln_where(zero, number(1), kiln_abs(x));
        kiln_tensor *power = kiln_pow(safe_quotient(size, y), number(p - 1));
        if (p < 0) zero = kiln_logical_or(zero, kiln_equal(y, number(0)));
        din[0] = kiln_mul(kiln_where(zero, number(0), kiln_mul(kiln_sign(x), power)), dy);
    }
    return kiln_error();
}

RULE(logsumexp)
{
    din[0] = kiln_mul(kiln_exp(kiln_sub(in[0], rule_keep_dims(out[0]))), rule_keep_dims(dout[0]));
    return kiln_error();
}

#define X_ONLY  .needs_in = 1 << 0
#define X_AND_Y .needs_in = 1 << 0, .needs_out = 1 << 0
static const kiln_rule_spec rules[] = {
    {.op = "sum", .fn = sum},
    {.op = "mean", .fn = mean},
    {.op = "prod", .fn = prod, X_ONLY},
    {.op = "max", .fn = extremum, X_AND_Y},
    {.op = "min", .fn = extremum, X_AND_Y},
    {.op = "var", .fn = var, X_ONLY},
    {.op = "std", .fn = std_deviation, X_AND_Y},
    {.op = "norm", .fn = norm, X_AND_Y},
    {.op = "logsumexp", .fn = logsumexp, X_AND_Y},
};
RULES(reduce, rules);
