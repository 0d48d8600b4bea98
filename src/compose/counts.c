// Counting: by place, by value, in bins.
#include "compose/along.h"
#include <kiln/jit.h>
#include <math.h>

// Many places that fall on few are counted in parts, side by side, whose counts are added up.
enum { PARTS = 64, PART_LEAST = 1024 };

// How often each of 0 to size - 1 is among `places`, a line of i64; or the sums of `weights` (NULL: none), a line.
static kiln_tensor *counted(kiln_tensor *places, int64_t size, kiln_tensor *weights)
{
    kiln_device *dev = kiln_tensor_device(places);
    kiln_dtype dtype = weights ? kiln_tensor_dtype(weights) : KILN_I64;
    int64_t n = kiln_numel(places), length = n / PARTS;
    kiln_tensor *one = weights ? NULL : kiln_full_int(dev, KILN_I64, KILN_SHAPE0, 1);
    kiln_tensor *amounts = weights ? weights : kiln_expand(one, KILN_SHAPE(n));
    if (length < PART_LEAST || length < size)
        return kiln_scatter_add(kiln_zeros(dev, dtype, KILN_SHAPE(size)), 0, places, amounts);
    int64_t whole = length * PARTS;
    kiln_tensor *in_parts = kiln_reshape(along_part(places, 0, 0, whole), KILN_SHAPE(PARTS, length));
    kiln_tensor *of_parts = weights ? kiln_reshape(along_part(amounts, 0, 0, whole), KILN_SHAPE(PARTS, length))
                                    : kiln_expand(one, KILN_SHAPE(PARTS, length));
    kiln_tensor *zeros = kiln_zeros(dev, dtype, KILN_SHAPE(PARTS, size));
    kiln_tensor *counts = kiln_scatter_add(zeros, 1, in_parts, of_parts);
    kiln_tensor *sums = kiln_sum(counts, KILN_REDUCE(.axes = KILN_AXES(0)));
    if (weights) sums = kiln_cast(sums, dtype);
    if (whole == n) return sums;
    return kiln_scatter_add(sums, 0, along_part(places, 0, whole, n - whole), along_part(amounts, 0, whole, n - whole));
}

static bool weights_fit(kiln_tensor *x, kiln_tensor *weights)
{
    if (!weights || kiln_numel(weights) == kiln_numel(x)) return true;
    error_set(KILN_E_SHAPE, "weights must have an element for each of x: x is %s, weights is %s", type_of(x).s,
              type_of(weights).s);
    return false;
}

static bool are_counts(kiln_tensor *x)
{
    kiln_dtype d = kiln_tensor_dtype(x);
    if (!is_real(x) && d != KILN_BOOL) return true;
    error_set(KILN_E_DTYPE, "x must be integers, it is %s", type_of(x).s);
    return false;
}

kiln_tensor *compose_bincount_sized(kiln_tensor *x, int64_t size, const kiln_bincount_opts *o)
{
    if (!are_counts(x) || !weights_fit(x, o->weights)) return NULL;
    if (size < 0 || size < o->minlength) {
        error_set(KILN_E_ARGUMENT, "size is %lld, minlength %lld", (long long)size, (long long)o->minlength);
        return NULL;
    }
    if (size == 0 && kiln_numel(x) > 0) {
        error_set(KILN_E_ARGUMENT, "size is 0, x is %s", type_of(x).s);
        return NULL;
    }
    kiln_tensor *places = kiln_cast(as_line(x), KILN_I64);
    places = kiln_where(kiln_less(places, kiln_scalar_int(0)), kiln_scalar_int(size), places); // not from the end
    return counted(places, size, o->weights ? as_line(o->weights) : NULL);
}

kiln_tensor *compose_bincount(kiln_tensor *x, const kiln_bincount_opts *o)
{
    if (!are_counts(x)) return NULL;
    if (o->minlength < 0) {
        error_set(KILN_E_ARGUMENT, "minlength is %lld", (long long)o->minlength);
        return NULL;
    }
    int64_t least = kiln_numel(x) ? kiln_item_int(kiln_min(x, NULL)) : 0;
    int64_t size = kiln_numel(x) ? kiln_item_int(kiln_max(x, NULL)) : -1;
    if (least < 0 || size == INT64_MAX) {
        error_set(KILN_E_ARGUMENT, "x has %lld", (long long)(least < 0 ? least : size));
        return NULL;
    }
    size = size + 1 > o->minlength ? size + 1 : o->minlength;
    return compose_bincount_sized(x, size, KILN_BINCOUNT(.weights = o->weights));
}

// --- bins

kiln_tensor *compose_searchsorted_by(kiln_tensor *x, kiln_tensor *values, kiln_tensor *sorter, bool right)
{
    return kiln_searchsorted(kiln_gather(x, -1, sorter), values, right);
}

kiln_tensor *compose_bucketize(kiln_tensor *x, kiln_tensor *edges, bool right)
{
    if (kiln_rank(edges) == 1) return kiln_searchsorted(edges, x, right);
    error_set(KILN_E_SHAPE, "edges must be a vector, it is %s", type_of(edges).s);
    return NULL;
}

// Equal bins between two numbers; all of it tensors of one element, so that each device rounds edges in one way.
struct spread {
    kiln_tensor *lo, *hi, *width;
    int64_t bins;
};

// Both ends half a unit further where they are one.
static struct spread spread_between(kiln_tensor *lo, kiln_tensor *hi, int64_t bins)
{
    kiln_tensor *half = kiln_where(kiln_equal(lo, hi), number_like(lo, 0.5), number_like(lo, 0));
    lo = kiln_sub(lo, half), hi = kiln_add(hi, half);
    return (struct spread){lo, hi, kiln_div(kiln_sub(hi, lo), number_like(lo, (double)bins)), bins};
}

// Those of numbers i in the dtype of the edges, of which `is_last` are the number of bins.
static kiln_tensor *edges_at(const struct spread *s, kiln_tensor *i, kiln_tensor *is_last)
{
    return kiln_where(is_last, s->hi, kiln_add(s->lo, kiln_mul(s->width, i)));
}

static kiln_tensor *edges_between(kiln_tensor *lo, kiln_tensor *hi, int64_t bins)
{
    struct spread s = spread_between(lo, hi, bins);
    kiln_tensor *i = kiln_arange(kiln_tensor_device(lo), KILN_I64, 0, (double)bins + 1, 1);
    return edges_at(&s, kiln_cast(i, kiln_tensor_dtype(lo)), kiln_equal(i, kiln_scalar_int(bins)));
}

static kiln_tensor *edges_of(kiln_tensor *x, int64_t bins, double lo, double hi)
{
    kiln_device *dev = kiln_tensor_device(x);
    kiln_dtype dtype = kiln_tensor_dtype(x) == KILN_F64 ? KILN_F64 : KILN_F32;
    bool given = lo != 0 || hi != 0, none = kiln_numel(x) == 0;
    if (given && !(lo <= hi && lo > -INFINITY && hi < INFINITY)) {
        error_set(KILN_E_ARGUMENT, "the range is from %g to %g", lo, hi);
        return NULL;
    }
    if (given || none)
        return edges_between(kiln_full(dev, dtype, KILN_SHAPE0, lo), kiln_full(dev, dtype, KILN_SHAPE0, given ? hi : 1),
                             bins);
    return edges_between(kiln_cast(kiln_min(x, NULL), dtype), kiln_cast(kiln_max(x, NULL), dtype), bins);
}

// Whether division finds the bin of a number to within one: bins must be wide beside what rounding moves edges by.
static bool division_is_near(kiln_dtype dtype, double lo, double hi, int64_t bins)
{
    double width = (hi - lo) / (double)bins, unit = dtype == KILN_F64 ? 0x1p-49 : 0x1p-20;
    return width > 1e-30 && hi - lo < 1e30 && width > unit * fmax(fabs(lo), fabs(hi)) && bins < 1 << 18;
}

// What places_by_edges says, for bins of one width: by division, then the neighbour where the edges say so. Many cheap
// ops, which are one kernel in a capture.
static kiln_tensor *places_by_division(kiln_tensor *x, double lo, double hi, int64_t bins)
{
    kiln_device *dev = kiln_tensor_device(x);
    kiln_dtype dtype = kiln_tensor_dtype(x);
    struct spread s =
        spread_between(kiln_full(dev, dtype, KILN_SHAPE0, lo), kiln_full(dev, dtype, KILN_SHAPE0, hi), bins);
    kiln_tensor *zero = number_like(x, 0), *one = number_like(x, 1), *last = number_like(x, (double)bins - 1);
    kiln_tensor *outside = number_like(x, (double)bins);
    kiln_tensor *at = kiln_mul(kiln_sub(x, number_like(x, lo)), number_like(x, (double)bins / (hi - lo)));
    at = kiln_clip(kiln_floor(at), zero, last);
    kiln_tensor *next = kiln_add(at, one);
    kiln_tensor *below = kiln_less(x, edges_at(&s, at, kiln_equal(at, outside)));
    kiln_tensor *above = kiln_greater_equal(x, edges_at(&s, next, kiln_equal(next, outside)));
    kiln_tensor *place = kiln_where(below, kiln_sub(at, one), kiln_where(above, next, at));
    place = kiln_where(kiln_logical_or(kiln_less(place, zero), kiln_isnan(x)), outside, place);
    return kiln_cast(kiln_where(kiln_equal(x, s.hi), last, place), KILN_I64);
}

// The bin of each of x, a line, between edges. The last one has its upper edge, too; what lies outside, and NaN, goes
// into one more behind it, which is left out.
static kiln_tensor *places_by_edges(kiln_tensor *x, kiln_tensor *edges, int64_t bins)
{
    kiln_tensor *at_end = kiln_equal(x, kiln_select(edges, 0, bins)), *found = kiln_searchsorted(edges, x, true);
    kiln_tensor *place = kiln_sub(found, kiln_scalar_int(1));
    kiln_free(&found);
    kiln_tensor *inside = kiln_where(kiln_less(place, kiln_scalar_int(0)), kiln_scalar_int(bins), place);
    kiln_free(&place);
    return kiln_where(at_end, kiln_scalar_int(bins - 1), inside);
}

static kiln_tensor *counts_of(kiln_tensor *x, kiln_tensor *edges, const kiln_histogram_opts *o, kiln_tensor *weights)
{
    int64_t bins = kiln_numel(edges) - 1;
    kiln_dtype dtype = kiln_tensor_dtype(x);
    bool by_division = kiln_is_capturing() && !o->edges && (dtype == KILN_F32 || dtype == KILN_F64) &&
                       division_is_near(dtype, o->lo, o->hi, bins);
    kiln_tensor *places = by_division ? places_by_division(x, o->lo, o->hi, bins) : places_by_edges(x, edges, bins);
    return along_part(counted(places, bins + 1, weights), 0, 0, bins);
}

// How many are counted together: the places of all, and what they are made of in eager mode, take two and five times
// the memory of x. A capture has an op for each part.
static int64_t counted_together(int64_t n)
{
    enum { TOGETHER = 1 << 16, MOST_CAPTURED = 8 };
    int64_t together =
        kiln_is_capturing() && n > TOGETHER * MOST_CAPTURED ? (n + MOST_CAPTURED - 1) / MOST_CAPTURED : TOGETHER;
    return n < together ? n : together;
}

static kiln_tensor *in_bins(kiln_tensor *x, kiln_tensor *edges, const kiln_histogram_opts *o)
{
    kiln_tensor *weights = o->weights ? as_line(o->weights) : NULL, *sum = NULL;
    int64_t n = kiln_numel(x), together = counted_together(n);
    if (n == together) return counts_of(x, edges, o, weights);
    for (int64_t at = 0; at < n && !error_pending; at += together) {
        kiln_scope *scope = kiln_scope_begin();
        int64_t length = n - at < together ? n - at : together;
        kiln_tensor *more = weights ? along_part(weights, 0, at, length) : NULL;
        kiln_tensor *counts = counts_of(along_part(x, 0, at, length), edges, o, more);
        if (sum) counts = kiln_add(sum, counts);
        if (counts) kiln_keep(counts);
        kiln_scope_end(&scope);
        sum = counts;
    }
    return sum;
}

static bool bins_fit(int64_t bins)
{
    if (bins >= 1 && bins <= INT32_MAX) return true;
    error_set(KILN_E_ARGUMENT, "bins is %lld", (long long)bins);
    return false;
}

kiln_status compose_histogram(kiln_tensor *x, int64_t bins, const kiln_histogram_opts *o, kiln_tensor **counts,
                              kiln_tensor **edges)
{
    if (o->edges && (kiln_rank(o->edges) != 1 || kiln_numel(o->edges) < 2))
        return error_set(KILN_E_SHAPE, "edges must be a vector of 2 or more, it is %s", type_of(o->edges).s);
    if ((!o->edges && !bins_fit(bins)) || !weights_fit(x, o->weights)) return kiln_error();
    *edges = o->edges ? kiln_alias(o->edges) : edges_of(x, bins, o->lo, o->hi);
    if (!*edges) return kiln_error();
    *counts = in_bins(as_line(x), *edges, o);
    if (!o->density) return kiln_error();
    int64_t n = kiln_numel(*edges) - 1;
    kiln_tensor *widths = kiln_sub(along_part(*edges, 0, 1, n), along_part(*edges, 0, 0, n));
    *counts = kiln_div(kiln_div(*counts, kiln_sum(*counts, NULL)), widths);
    return kiln_error();
}

kiln_tensor *compose_histc(kiln_tensor *x, int64_t bins, double lo, double hi)
{
    if (!bins_fit(bins)) return NULL;
    kiln_tensor *edges = edges_of(x, bins, lo, hi);
    return edges ? kiln_cast(in_bins(as_line(x), edges, KILN_HISTOGRAM(.lo = lo, .hi = hi)),
                             is_real(x) ? kiln_tensor_dtype(x) : KILN_F32)
                 : NULL;
}
