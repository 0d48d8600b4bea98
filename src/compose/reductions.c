// Reductions beside the rows of ops: past NaN, several at once, weighted, of equality.
#include "compose/along.h"
#include <math.h>

// The axes of a reduction, which stay with size 1.
#define KEPT(o) KILN_REDUCE(.axes = (o)->axes, .keepdims = true)

kiln_tensor *compose_count_nonzero(kiln_tensor *x, const kiln_reduce_opts *o)
{
    return kiln_sum(kiln_tensor_dtype(x) == KILN_BOOL ? x : kiln_not_equal(x, kiln_scalar_int(0)), o);
}

// --- past NaN

static kiln_tensor *with(kiln_tensor *x, double value)
{
    return is_real(x) ? kiln_where(kiln_isnan(x), number_like(x, value), x) : x;
}

// How many are no NaN, in x's dtype.
static kiln_tensor *numbers(kiln_tensor *x, const kiln_reduce_opts *o)
{
    return kiln_cast(kiln_sum(kiln_logical_not(kiln_isnan(x)), o), kiln_tensor_dtype(x));
}

kiln_tensor *compose_nansum(kiln_tensor *x, const kiln_reduce_opts *o)
{
    return kiln_sum(with(x, 0), o);
}

kiln_tensor *compose_nanprod(kiln_tensor *x, const kiln_reduce_opts *o)
{
    return kiln_prod(with(x, 1), o);
}

kiln_tensor *compose_nanmean(kiln_tensor *x, const kiln_reduce_opts *o)
{
    if (!is_real(x)) return kiln_mean(x, o);
    kiln_tensor *wide = as_wide(x);
    return narrowed(kiln_div(kiln_sum(with(wide, 0), o), numbers(wide, o)), x);
}

static kiln_tensor *nanvar(kiln_tensor *x, const kiln_var_opts *o)
{
    const kiln_reduce_opts *as = KILN_REDUCE(.axes = o->axes, .keepdims = o->keepdims);
    kiln_tensor *mean = compose_nanmean(x, KEPT(o));
    kiln_tensor *off = kiln_where(kiln_isnan(x), number_like(x, 0), kiln_sub(x, mean));
    kiln_tensor *divisor = kiln_sub(numbers(x, as), kiln_scalar(o->correction));
    return kiln_div(kiln_sum(kiln_square(off), as), kiln_maximum(divisor, number_like(x, 0)));
}

kiln_tensor *compose_nanvar(kiln_tensor *x, const kiln_var_opts *o)
{
    return is_real(x) ? narrowed(nanvar(as_wide(x), o), x) : kiln_var(x, o);
}

kiln_tensor *compose_nanstd(kiln_tensor *x, const kiln_var_opts *o)
{
    return is_real(x) ? narrowed(kiln_sqrt(nanvar(as_wide(x), o)), x) : kiln_std(x, o);
}

static kiln_tensor *extremum(kiln_tensor *x, const kiln_reduce_opts *o, bool largest)
{
    kiln_tensor *filled = with(x, largest ? -INFINITY : INFINITY);
    kiln_tensor *y = largest ? kiln_max(filled, o) : kiln_min(filled, o);
    return is_real(x) ? kiln_where(kiln_all(kiln_isnan(x), o), number_like(x, NAN), y) : y;
}

kiln_tensor *compose_nanmax(kiln_tensor *x, const kiln_reduce_opts *o)
{
    return extremum(x, o, true);
}

kiln_tensor *compose_nanmin(kiln_tensor *x, const kiln_reduce_opts *o)
{
    return extremum(x, o, false);
}

// --- several at once

kiln_status compose_var_mean(kiln_tensor *x, const kiln_var_opts *o, kiln_tensor **var, kiln_tensor **mean)
{
    *var = kiln_var(x, o);
    *mean = kiln_mean(x, KILN_REDUCE(.axes = o->axes, .keepdims = o->keepdims));
    return kiln_error();
}

kiln_status compose_std_mean(kiln_tensor *x, const kiln_var_opts *o, kiln_tensor **std, kiln_tensor **mean)
{
    *std = kiln_std(x, o);
    *mean = kiln_mean(x, KILN_REDUCE(.axes = o->axes, .keepdims = o->keepdims));
    return kiln_error();
}

kiln_status compose_aminmax(kiln_tensor *x, const kiln_reduce_opts *o, kiln_tensor **min, kiln_tensor **max)
{
    *min = kiln_min(x, o);
    *max = kiln_max(x, o);
    return kiln_error();
}

kiln_tensor *compose_ptp(kiln_tensor *x, const kiln_reduce_opts *o)
{
    return kiln_sub(kiln_max(x, o), kiln_min(x, o));
}

// The last of equals is the first from behind.
static kiln_tensor *last_place(kiln_tensor *x, const kiln_reduce_opts *o, bool largest)
{
    kiln_tensor *back = kiln_flip(x, (kiln_ints){o->axes.count, o->axes.v});
    kiln_tensor *place = largest ? kiln_argmax(back, o) : kiln_argmin(back, o);
    int64_t n = o->axes.count == 1 ? kiln_dim(x, o->axes.v[0]) : kiln_numel(x);
    return kiln_sub(kiln_scalar_int(n - 1), place);
}

kiln_tensor *compose_argmax_last(kiln_tensor *x, const kiln_reduce_opts *o)
{
    return last_place(x, o, true);
}

kiln_tensor *compose_argmin_last(kiln_tensor *x, const kiln_reduce_opts *o)
{
    return last_place(x, o, false);
}

// --- weighted

kiln_tensor *compose_weighted_mean(kiln_tensor *x, kiln_tensor *weights, const kiln_reduce_opts *o)
{
    size_t rank = kiln_rank(x);
    if (kiln_rank(weights) == 1 && rank > 1 && o->axes.count == 1) {
        int a = composite_axis("axis", o->axes.v[0], rank, x);
        if (a < 0) return NULL;
        if (kiln_numel(weights) == kiln_dims(x)[a]) weights = along_axis(weights, a, rank);
    }
    kiln_tensor *wide = kiln_expand(as_wide(weights), rank, kiln_dims(x));
    return narrowed(kiln_div(kiln_sum(kiln_mul(as_wide(x), wide), o), kiln_sum(wide, o)), x);
}

// --- covariance: rows are variables, columns observations

static kiln_tensor *variables(kiln_tensor *x)
{
    if (kiln_rank(x) >= 1 && kiln_rank(x) <= 2) return kiln_rank(x) == 1 ? kiln_unsqueeze(as_wide(x), 0) : as_wide(x);
    error_set(KILN_E_SHAPE, "x must be a vector or a matrix, it is %s", type_of(x).s);
    return NULL;
}

static kiln_tensor *covariance(kiln_tensor *x, double correction)
{
    kiln_tensor *rows = variables(x), *mean = kiln_mean(rows, KILN_REDUCE(.axes = KILN_AXES(1), .keepdims = true));
    kiln_tensor *off = kiln_sub(rows, mean);
    double divisor = (double)kiln_dim(rows, 1) - correction;
    return kiln_div(kiln_matmul(off, kiln_transpose(off, 0, 1)), kiln_scalar(divisor > 0 ? divisor : 0));
}

static kiln_tensor *of_variables(kiln_tensor *x, kiln_tensor *matrix)
{
    return kiln_rank(x) == 1 ? kiln_reshape(matrix, KILN_SHAPE0) : matrix;
}

kiln_tensor *compose_cov(kiln_tensor *x, double correction)
{
    return narrowed(of_variables(x, covariance(x, correction)), x);
}

kiln_tensor *compose_corrcoef(kiln_tensor *x)
{
    kiln_tensor *c = covariance(x, 0), *deviation = kiln_sqrt(kiln_diagonal(c, 0, 0, 1));
    kiln_tensor *r = kiln_div(kiln_div(c, kiln_unsqueeze(deviation, 1)), deviation);
    return narrowed(of_variables(x, kiln_clip(r, kiln_scalar(-1), kiln_scalar(1))), x);
}

// --- equality

static kiln_tensor *both_nan(kiln_tensor *a, kiln_tensor *b)
{
    return kiln_logical_and(kiln_not_equal(a, a), kiln_not_equal(b, b));
}

kiln_tensor *compose_isclose_nan(kiln_tensor *a, kiln_tensor *b, double rtol, double atol)
{
    return kiln_logical_or(kiln_isclose(a, b, rtol, atol), both_nan(a, b));
}

kiln_tensor *compose_allclose(kiln_tensor *a, kiln_tensor *b, const kiln_close_opts *o)
{
    kiln_tensor *close =
        o->equal_nan ? compose_isclose_nan(a, b, o->rtol, o->atol) : kiln_isclose(a, b, o->rtol, o->atol);
    return kiln_all(close, NULL);
}

kiln_tensor *compose_array_equal(kiln_tensor *a, kiln_tensor *b, bool equal_nan)
{
    bool same = kiln_rank(a) == kiln_rank(b);
    for (size_t d = 0; same && d < kiln_rank(a); d++) same = kiln_dims(a)[d] == kiln_dims(b)[d];
    if (!same) return kiln_full(kiln_tensor_device(a), KILN_BOOL, KILN_SHAPE0, 0);
    kiln_tensor *equal = kiln_equal(a, b);
    return kiln_all(equal_nan ? kiln_logical_or(equal, both_nan(a, b)) : equal, NULL);
}
