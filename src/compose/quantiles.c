// Values by their rank along an axis: medians, quantiles, the k-th smallest, the most frequent.
#include "compose/along.h"
#include <math.h>

static kiln_tensor *any_nan(kiln_tensor *x, int axis)
{
    return kiln_any(kiln_isnan(x), KILN_REDUCE(.axes = KILN_AXES(axis), .keepdims = true));
}

// x at one place of each line along the axis; `places` has size 1 there.
static kiln_status at_places(kiln_tensor *x, int axis, kiln_tensor *places, bool keepdims, kiln_tensor **values,
                             kiln_tensor **indices)
{
    kiln_tensor *y = kiln_gather(x, axis, places);
    *values = keepdims ? y : kiln_squeeze(y, KILN_AXES(axis));
    *indices = keepdims ? kiln_alias(places) : kiln_squeeze(places, KILN_AXES(axis));
    return kiln_error();
}

static bool has_values(kiln_tensor *x, int64_t axis, int *a)
{
    *a = composite_axis("axis", axis, kiln_rank(x), x);
    if (*a < 0) return false;
    if (kiln_dims(x)[*a] > 0) return true;
    error_set(KILN_E_SHAPE, "has no value over no elements: x is %s, axis %d", type_of(x).s, *a);
    return false;
}

kiln_status compose_median(kiln_tensor *x, int64_t axis, bool keepdims, kiln_tensor **values, kiln_tensor **indices)
{
    int a;
    if (!has_values(x, axis, &a)) return kiln_error();
    kiln_tensor *place = along_part(kiln_argsort(x, a, false), a, (kiln_dim(x, a) - 1) / 2, 1);
    if (is_real(x)) {
        kiln_tensor *first = kiln_argmax(kiln_isnan(x), KILN_REDUCE(.axes = KILN_AXES(a), .keepdims = true));
        place = kiln_where(any_nan(x, a), first, place);
    }
    return at_places(x, a, place, keepdims, values, indices);
}

kiln_status compose_nanmedian(kiln_tensor *x, int64_t axis, bool keepdims, kiln_tensor **values, kiln_tensor **indices)
{
    int a;
    if (!is_real(x)) return compose_median(x, axis, keepdims, values, indices);
    if (!has_values(x, axis, &a)) return kiln_error();
    kiln_tensor *count = kiln_sum(kiln_logical_not(kiln_isnan(x)), KILN_REDUCE(.axes = KILN_AXES(a), .keepdims = true));
    kiln_tensor *before = kiln_maximum(kiln_sub(count, kiln_scalar_int(1)), kiln_scalar_int(0));
    kiln_tensor *middle = kiln_floor_divide(before, kiln_scalar_int(2));
    return at_places(x, a, kiln_gather(kiln_argsort(x, a, false), a, middle), keepdims, values, indices);
}

kiln_status compose_kthvalue(kiln_tensor *x, int64_t k, int64_t axis, bool keepdims, kiln_tensor **values,
                             kiln_tensor **indices)
{
    int a = composite_axis("axis", axis, kiln_rank(x), x);
    kiln_tensor *least, *places;
    if (a < 0) return kiln_error();
    if (k < 1 || k > kiln_dims(x)[a])
        return error_set(KILN_E_ARGUMENT, "k is %lld, axis %d of %s has %lld elements", (long long)k, a, type_of(x).s,
                         (long long)kiln_dims(x)[a]);
    if (kiln_topk(x, k, a, false, &least, &places)) return kiln_error();
    *values = keepdims ? along_part(least, a, k - 1, 1) : kiln_select(least, a, k - 1);
    *indices = keepdims ? along_part(places, a, k - 1, 1) : kiln_select(places, a, k - 1);
    return kiln_error();
}

// In a sorted line, the first place at which a value has occurred as often as any does.
kiln_status compose_mode_of(kiln_tensor *x, int64_t axis, bool keepdims, kiln_tensor **values, kiln_tensor **indices)
{
    int a;
    kiln_tensor *sorted, *order;
    if (!has_values(x, axis, &a) || kiln_sort(x, a, false, &sorted, &order)) return kiln_error();
    int64_t n = kiln_dim(x, a);
    kiln_tensor *places = along_places(x, a);
    kiln_tensor *differs = kiln_not_equal(along_part(sorted, a, 1, n - 1), along_part(sorted, a, 0, n - 1));
    kiln_tensor *begins = kiln_where(differs, along_part(places, a, 1, n - 1), kiln_scalar_int(0));
    begins = along_join(along_full(x, a, 1, KILN_I64, 0), begins, a);
    kiln_tensor *times = kiln_sub(places, kiln_cummax(begins, a));
    kiln_tensor *most = kiln_argmax(times, KILN_REDUCE(.axes = KILN_AXES(a), .keepdims = true));
    return at_places(x, a, kiln_gather(order, a, most), keepdims, values, indices);
}

// --- quantiles

// The value at a place between two of sorted lines, places in the lines' dtype: [q] or [q, lines...], along axis 0.
static kiln_tensor *between(kiln_tensor *sorted, kiln_tensor *at, int64_t how)
{
    kiln_tensor *low = kiln_floor(at), *high = kiln_ceil(at);
    if (how == KILN_QUANTILE_NEAREST) low = high = kiln_round(at);
    if (how == KILN_QUANTILE_LOWER) high = low;
    if (how == KILN_QUANTILE_HIGHER) low = high;
    kiln_tensor *a = kiln_gather(sorted, 0, kiln_cast(low, KILN_I64));
    if (low == high) return a;
    kiln_tensor *b = kiln_gather(sorted, 0, kiln_cast(high, KILN_I64)), *part = kiln_sub(at, low);
    if (how == KILN_QUANTILE_MIDPOINT)
        part = kiln_mul(kiln_cast(kiln_greater(high, low), kiln_tensor_dtype(at)), kiln_scalar(0.5));
    // Not a + (b - a) part where they are one: infinite values stay.
    return kiln_where(kiln_equal(a, b), a, kiln_lerp(a, b, kiln_cast(part, kiln_tensor_dtype(a))));
}

struct quantile {
    kiln_tensor *x, *q;
    int64_t axis, how;
    double scale; // of q
    bool skips_nan, keepdims;
};

// The places in lines of `last` + 1 values. One that is no number in [0, 1] lies behind the line: see kiln_gather.
static kiln_tensor *places_of(kiln_tensor *q, double scale, kiln_tensor *last, int64_t size)
{
    q = kiln_mul(kiln_cast(q, KILN_F64), kiln_scalar(scale));
    kiln_tensor *inside = kiln_logical_and(kiln_greater_equal(q, kiln_scalar(0)), kiln_less_equal(q, kiln_scalar(1)));
    return kiln_where(inside, kiln_mul(q, last), kiln_scalar((double)size));
}

// Lines along axis 0, several values of q along a new one in front of the others.
static kiln_tensor *of_lines(const struct quantile *z, kiln_tensor *lines)
{
    size_t rank = kiln_rank(lines);
    int64_t dims[KILN_MAX_RANK], size = kiln_dim(lines, 0), n = kiln_numel(z->q);
    kiln_tensor *sorted, *order, *q = along_axis(as_line(z->q), 0, rank), *last = kiln_scalar((double)(size - 1));
    kiln_tensor *is_nan = kiln_isnan(lines);
    const kiln_reduce_opts *along = KILN_REDUCE(.axes = KILN_AXES(0), .keepdims = true);
    if (kiln_sort(lines, 0, false, &sorted, &order)) return NULL;
    if (z->skips_nan) {
        kiln_tensor *count = kiln_cast(kiln_sum(kiln_logical_not(is_nan), along), KILN_F64);
        last = kiln_maximum(kiln_sub(count, kiln_scalar(1)), kiln_scalar(0));
    }
    for (size_t d = 0; d < rank; d++) dims[d] = d ? kiln_dim(lines, (int64_t)d) : n;
    kiln_tensor *at = kiln_expand(places_of(q, z->scale, last, size), rank, dims);
    kiln_tensor *y = between(sorted, at, z->how);
    return z->skips_nan ? y : kiln_where(kiln_any(is_nan, along), number_like(y, NAN), y);
}

static kiln_tensor *quantile(const struct quantile *z)
{
    int a;
    kiln_tensor *x = as_real(z->x);
    if (z->how < KILN_QUANTILE_LINEAR || z->how > KILN_QUANTILE_NEAREST) {
        error_set(KILN_E_ARGUMENT, "interpolation is %lld", (long long)z->how);
        return NULL;
    }
    if (kiln_rank(z->q) > 1) {
        error_set(KILN_E_SHAPE, "q must be a number or a vector, it is %s", type_of(z->q).s);
        return NULL;
    }
    if (!has_values(x, z->axis, &a)) return NULL;
    kiln_tensor *y = of_lines(z, axis_first(x, a)); // [q, the other axes]
    if (z->keepdims) y = kiln_unsqueeze(y, a + 1);
    return kiln_rank(z->q) ? y : kiln_select(y, 0, 0);
}

kiln_tensor *compose_quantile(kiln_tensor *x, kiln_tensor *q, int64_t axis, const kiln_quantile_opts *o)
{
    return quantile(&(struct quantile){x, q, axis, o->interpolation, 1, false, o->keepdims});
}

kiln_tensor *compose_nanquantile(kiln_tensor *x, kiln_tensor *q, int64_t axis, const kiln_quantile_opts *o)
{
    return quantile(&(struct quantile){x, q, axis, o->interpolation, 1, true, o->keepdims});
}

kiln_tensor *compose_percentile(kiln_tensor *x, kiln_tensor *q, int64_t axis, const kiln_quantile_opts *o)
{
    return quantile(&(struct quantile){x, q, axis, o->interpolation, 0.01, false, o->keepdims});
}

kiln_tensor *compose_nanpercentile(kiln_tensor *x, kiln_tensor *q, int64_t axis, const kiln_quantile_opts *o)
{
    return quantile(&(struct quantile){x, q, axis, o->interpolation, 0.01, true, o->keepdims});
}
