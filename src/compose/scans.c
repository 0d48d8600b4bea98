// Running values along an axis beside those of the rows of ops, and differences.
#include "compose/along.h"
#include <math.h>

static kiln_tensor *turned(kiln_tensor *x, int axis, bool turn)
{
    return turn ? along_flip(x, axis) : x;
}

// The running values; of the elements before alone where `exclusive`, the first of which is `none`.
static kiln_tensor *running(kiln_tensor *x, int64_t axis, bool exclusive, bool reverse, bool product)
{
    int a = composite_axis("axis", axis, kiln_rank(x), x);
    if (a < 0) return NULL;
    kiln_tensor *from = turned(x, a, reverse);
    kiln_tensor *y = product ? kiln_cumprod(from, a) : kiln_cumsum(from, a);
    int64_t n = kiln_dim(x, a);
    if (exclusive && n > 0)
        y = along_join(along_full(y, a, 1, kiln_tensor_dtype(y), product), along_part(y, a, 0, n - 1), a);
    return turned(y, a, reverse);
}

kiln_tensor *compose_running_sum(kiln_tensor *x, int64_t axis, bool exclusive, bool reverse)
{
    return running(x, axis, exclusive, reverse, false);
}

kiln_tensor *compose_running_prod(kiln_tensor *x, int64_t axis, bool exclusive, bool reverse)
{
    return running(x, axis, exclusive, reverse, true);
}

kiln_tensor *compose_nancumsum(kiln_tensor *x, int64_t axis)
{
    return kiln_cumsum(is_real(x) ? kiln_where(kiln_isnan(x), number_like(x, 0), x) : x, axis);
}

kiln_tensor *compose_nancumprod(kiln_tensor *x, int64_t axis)
{
    return kiln_cumprod(is_real(x) ? kiln_where(kiln_isnan(x), number_like(x, 1), x) : x, axis);
}

// Where each running extremum came from is a running maximum: of the places at which x equals it.
static kiln_status with_indices(kiln_tensor *x, int64_t axis, bool largest, kiln_tensor **values, kiln_tensor **indices)
{
    int a = composite_axis("axis", axis, kiln_rank(x), x);
    if (a < 0) return kiln_error();
    *values = largest ? kiln_cummax(x, a) : kiln_cummin(x, a);
    kiln_tensor *hit = kiln_equal(x, *values);
    if (is_real(x)) hit = kiln_logical_or(hit, kiln_isnan(x));
    *indices = kiln_cummax(kiln_where(hit, along_places(x, a), kiln_scalar_int(0)), a);
    return kiln_error();
}

kiln_status compose_cummax_indices(kiln_tensor *x, int64_t axis, kiln_tensor **values, kiln_tensor **indices)
{
    return with_indices(x, axis, true, values, indices);
}

kiln_status compose_cummin_indices(kiln_tensor *x, int64_t axis, kiln_tensor **values, kiln_tensor **indices)
{
    return with_indices(x, axis, false, values, indices);
}

// After a step with `reach`, each element stands for itself and the 2 reach - 1 before it: no sum leaves the scale of
// its own elements, as one against a common maximum would.
kiln_tensor *compose_logcumsumexp(kiln_tensor *x, int64_t axis)
{
    int a = composite_axis("axis", axis, kiln_rank(x), x);
    if (a < 0) return NULL;
    kiln_tensor *y = as_wide(x);
    int64_t n = kiln_dim(x, a);
    for (int64_t reach = 1; reach < n && !kiln_error(); reach *= 2) {
        kiln_tensor *more = kiln_logaddexp(along_part(y, a, 0, n - reach), along_part(y, a, reach, n - reach));
        y = along_join(along_part(y, a, 0, reach), more, a);
    }
    return narrowed(y, x);
}

// --- differences, areas

static kiln_tensor *difference(kiln_tensor *x, int axis)
{
    int64_t n = kiln_dim(x, axis);
    if (n == 0) return kiln_alias(x);
    kiln_tensor *after = along_part(x, axis, 1, n - 1), *before = along_part(x, axis, 0, n - 1);
    return kiln_tensor_dtype(x) == KILN_BOOL ? kiln_not_equal(after, before) : kiln_sub(after, before);
}

kiln_tensor *compose_diff(kiln_tensor *x, int64_t n, int64_t axis, const kiln_diff_opts *o)
{
    int a = composite_axis("axis", axis, kiln_rank(x), x);
    if (a < 0) return NULL;
    if (n < 0) {
        error_set(KILN_E_ARGUMENT, "n is %lld", (long long)n);
        return NULL;
    }
    x = o->prepend ? along_join(o->prepend, x, a) : kiln_alias(x);
    if (o->append) x = along_join(x, o->append, a);
    for (; n > 0 && !kiln_error() && kiln_dim(x, a) > 0; n--) x = difference(x, a);
    return x;
}

// The area of each piece between neighbours.
static kiln_tensor *areas(kiln_tensor *y, int64_t axis, const kiln_trapezoid_opts *o, int *a)
{
    *a = composite_axis("axis", axis, kiln_rank(y), y);
    if (*a < 0) return NULL;
    int64_t n = kiln_dim(y, *a), pieces = n > 0 ? n - 1 : 0;
    y = as_wide(y);
    kiln_tensor *both = kiln_add(along_part(y, *a, n > 0, pieces), along_part(y, *a, 0, pieces));
    if (!o->x) return kiln_mul(both, kiln_scalar(o->dx / 2));
    kiln_tensor *x = as_wide(o->x);
    if (kiln_rank(x) == 1) x = along_axis(x, *a, kiln_rank(y));
    if (kiln_rank(x) != kiln_rank(y) || kiln_dim(x, *a) != n) {
        error_set(KILN_E_SHAPE, "x must be a vector along axis %d of y, or have its shape: x is %s, y is %s", *a,
                  type_of(o->x).s, type_of(y).s);
        return NULL;
    }
    kiln_tensor *width = kiln_sub(along_part(x, *a, n > 0, pieces), along_part(x, *a, 0, pieces));
    return kiln_mul(both, kiln_mul(width, kiln_scalar(0.5)));
}

kiln_tensor *compose_trapezoid(kiln_tensor *y, int64_t axis, const kiln_trapezoid_opts *o)
{
    int a;
    kiln_tensor *pieces = areas(y, axis, o, &a);
    return narrowed(kiln_sum(pieces, KILN_REDUCE(.axes = KILN_AXES(a))), y);
}

kiln_tensor *compose_cumulative_trapezoid(kiln_tensor *y, int64_t axis, const kiln_trapezoid_opts *o)
{
    int a;
    kiln_tensor *pieces = areas(y, axis, o, &a);
    return narrowed(kiln_cumsum(pieces, a), y);
}
