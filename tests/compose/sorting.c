// Running values, differences; orders, different slices; counts.
#include "compose/case.h"
#include <kiln/kiln.h>
#include <string.h>

#define CALL(name, ...)                                                \
    static void call_##name(kiln_tensor *const *in, kiln_tensor **out) \
    {                                                                  \
        __VA_ARGS__;                                                   \
    }

static kiln_tensor *holed(kiln_tensor *x)
{
    return kiln_where(kiln_less(x, kiln_scalar_int(-1)), kiln_scalar(NAN), x);
}

// --- running values along axis 1

static void running(const struct host *in, struct host *out, bool product, bool exclusive, bool reverse, bool holes)
{
    int64_t rows = in[0].dims[0], n = in[0].dims[1];
    out[0] = host_new(is_float(in[0].dtype) ? in[0].dtype : KILN_I64, 2, in[0].dims);
    for (int64_t i = 0; i < rows; i++) {
        long double acc = product;
        for (int64_t k = 0; k < n; k++) {
            int64_t at = i * n + (reverse ? n - 1 - k : k);
            long double v = in[0].v[at], before = acc;
            if (holes && v < -1) v = product;
            acc = product ? acc * v : acc + v;
            out[0].v[at] = exclusive ? before : acc;
        }
    }
}
#define RUNS(name, product, exclusive, reverse, holes, expr)           \
    CALL(name, out[0] = expr)                                          \
    static void expect_##name(const struct host *in, struct host *out) \
    {                                                                  \
        running(in, out, product, exclusive, reverse, holes);          \
    }
RUNS(running_sum, false, false, true, false, kiln_running_sum(in[0], 1, false, true))
RUNS(running_sum_before, false, true, false, false, kiln_running_sum(in[0], -1, true, false))
RUNS(running_sum_behind, false, true, true, false, kiln_running_sum(in[0], 1, true, true))
RUNS(running_prod, true, false, true, false, kiln_running_prod(in[0], 1, false, true))
RUNS(running_prod_before, true, true, false, false, kiln_running_prod(in[0], 1, true, false))
RUNS(nancumsum, false, false, false, true, kiln_nancumsum(holed(in[0]), 1))
RUNS(nancumprod, true, false, false, true, kiln_nancumprod(holed(in[0]), 1))

static void extrema(const struct host *in, struct host *out, bool largest)
{
    int64_t n = in[0].dims[1];
    out[0] = host_copy(&in[0]);
    out[1] = host_new(KILN_I64, 2, in[0].dims);
    for (int64_t i = 0; i < in[0].n; i++) {
        long double now = in[0].v[i];
        out[1].v[i] = i % n;
        if (i % n == 0 || (largest ? now >= out[0].v[i - 1] : now <= out[0].v[i - 1])) continue;
        out[0].v[i] = out[0].v[i - 1];
        out[1].v[i] = out[1].v[i - 1];
    }
}
CALL(cummax_indices, kiln_cummax_indices(in[0], 1, &out[0], &out[1]))
static void expect_cummax_indices(const struct host *in, struct host *out)
{
    extrema(in, out, true);
}
CALL(cummin_indices, kiln_cummin_indices(in[0], 1, &out[0], &out[1]))
static void expect_cummin_indices(const struct host *in, struct host *out)
{
    extrema(in, out, false);
}

CALL(logcumsumexp, out[0] = kiln_logcumsumexp(in[0], 1))
static void expect_logcumsumexp(const struct host *in, struct host *out)
{
    int64_t n = in[0].dims[1];
    out[0] = host_new(in[0].dtype, 2, in[0].dims);
    for (int64_t i = 0; i < in[0].n; i++) {
        long double most = -INFINITY, sum = 0;
        for (int64_t k = i - i % n; k <= i; k++) most = fmaxl(most, in[0].v[k]);
        for (int64_t k = i - i % n; k <= i; k++) sum += expl(in[0].v[k] - most);
        out[0].v[i] = most + logl(sum);
    }
}

static void differences(const struct host *in, struct host *out, int64_t n)
{
    struct host x = host_copy(&in[0]);
    for (; n > 0; n--) {
        int64_t w = x.dims[1] - 1, dims[] = {x.dims[0], w};
        struct host y = host_new(x.dtype, 2, dims);
        for (int64_t i = 0; i < y.n; i++) {
            int64_t at = i / w * (w + 1) + i % w;
            long double d = x.v[at + 1] - x.v[at];
            y.v[i] = x.dtype == KILN_BOOL ? d != 0 : quantized(x.dtype, d);
        }
        host_free(&x);
        x = y;
    }
    out[0] = x;
}
CALL(diff, out[0] = kiln_diff(in[0], 1, 1, NULL))
static void expect_diff(const struct host *in, struct host *out)
{
    differences(in, out, 1);
}
CALL(diff_twice, out[0] = kiln_diff(in[0], 2, -1, NULL))
static void expect_diff_twice(const struct host *in, struct host *out)
{
    differences(in, out, 2);
}
CALL(diff_between, out[0] = kiln_diff(in[0], 1, 1, KILN_DIFF(.prepend = in[1], .append = in[1])))
static void expect_diff_between(const struct host *in, struct host *out)
{
    struct host all[] = {in[1], in[0], in[1]}, x = reference_concat(all, 3, 1, in[0].dtype);
    differences(&x, out, 1);
    host_free(&x);
}

static void trapezoids(const struct host *in, struct host *out, const struct host *x, bool total)
{
    int64_t n = in[0].dims[1], dims[] = {in[0].dims[0], n - 1};
    out[0] = host_new(in[0].dtype, total ? 1 : 2, dims);
    for (int64_t i = 0; i < dims[0]; i++) {
        long double sum = 0;
        for (int64_t k = 1; k < n; k++) {
            sum += (in[0].v[i * n + k] + in[0].v[i * n + k - 1]) / 2 * (x ? x->v[k] - x->v[k - 1] : 0.5L);
            if (!total) out[0].v[i * (n - 1) + k - 1] = sum;
        }
        if (total) out[0].v[i] = sum;
    }
}
CALL(trapezoid, out[0] = kiln_trapezoid(in[0], 1, KILN_TRAPEZOID(.x = in[1])))
static void expect_trapezoid(const struct host *in, struct host *out)
{
    trapezoids(in, out, &in[1], true);
}
CALL(trapz, out[0] = kiln_trapz(in[0], 1, KILN_TRAPEZOID(.dx = 0.5)))
static void expect_trapz(const struct host *in, struct host *out)
{
    trapezoids(in, out, NULL, true);
}
CALL(cumulative_trapezoid, out[0] = kiln_cumulative_trapezoid(in[0], 1, KILN_TRAPEZOID(.dx = 0.5)))
static void expect_cumulative_trapezoid(const struct host *in, struct host *out)
{
    trapezoids(in, out, NULL, false);
}

// --- orders

CALL(msort, out[0] = kiln_msort(in[0]))
CALL(partition, out[0] = kiln_partition(in[0], 2, 0))
CALL(argpartition, out[0] = kiln_argpartition(in[0], 2, 0))
static void expect_argpartition(const struct host *in, struct host *out)
{
    out[0] = reference_argsort(&in[0], 0, false);
}
static void expect_msort(const struct host *in, struct host *out)
{
    struct host order = reference_argsort(&in[0], 0, false);
    out[0] = reference_gather(&in[0], 0, &order);
    host_free(&order);
}
CALL(lexsort, out[0] = kiln_lexsort(in, 2, -1))
static void expect_lexsort(const struct host *in, struct host *out)
{
    int64_t n = in[0].n;
    out[0] = host_new(KILN_I64, 1, &n);
    for (int64_t i = 0; i < n; i++) { // each goes to the number of those before it
        int64_t before = 0;
        for (int64_t k = 0; k < n; k++) {
            long double a = in[1].v[k] - in[1].v[i], b = in[0].v[k] - in[0].v[i];
            before += a < 0 || (a == 0 && (b < 0 || (b == 0 && k < i)));
        }
        out[0].v[before] = i;
    }
}
CALL(argwhere, out[0] = kiln_argwhere(kiln_greater(in[0], kiln_scalar_int(0))))
static void expect_argwhere(const struct host *in, struct host *out)
{
    int64_t dims[] = {0, 2}, n = 0;
    for (int64_t i = 0; i < in[0].n; i++) dims[0] += in[0].v[i] > 0;
    out[0] = host_new(KILN_I64, 2, dims);
    for (int64_t i = 0; i < in[0].n; i++)
        if (in[0].v[i] > 0) out[0].v[n++] = i / in[0].dims[1], out[0].v[n++] = i % in[0].dims[1];
}

// --- different slices

static int compare_rows(const struct host *x, int64_t a, int64_t b)
{
    int64_t w = x->n / x->dims[0];
    for (int64_t k = 0; k < w; k++) {
        long double d = x->v[a * w + k] - x->v[b * w + k];
        if (d != 0) return d < 0 ? -1 : 1;
    }
    return 0;
}
// The values, where each is, how often, and where first, of rows in the order that `rank` gives them.
static void groups(const struct host *x, struct host *out, int64_t count, const int64_t *rank)
{
    int64_t w = x->n / x->dims[0], dims[] = {count, w};
    out[0] = host_new(x->dtype, x->rank, dims);
    out[1] = host_new(KILN_I64, 1, x->dims);
    out[2] = host_new(KILN_I64, 1, &count);
    out[3] = host_new(KILN_I64, 1, &count);
    for (int64_t i = x->dims[0] - 1; i >= 0; i--) {
        memcpy(&out[0].v[rank[i] * w], &x->v[i * w], (size_t)w * sizeof x->v[0]);
        out[1].v[i] = rank[i];
        out[2].v[rank[i]]++;
        out[3].v[rank[i]] = i;
    }
}
CALL(unique_axis, kiln_unique_axis(in[0], 0, &out[0], &out[1], &out[2], &out[3]))
static void expect_unique_axis(const struct host *in, struct host *out)
{
    int64_t rank[64], n = in[0].dims[0], count = 0;
    for (int64_t i = 0; i < n; i++) {
        rank[i] = 0;
        bool first = true;
        for (int64_t k = 0; k < n; k++) {
            bool seen = false; // among the rows before k
            for (int64_t j = 0; j < k; j++) seen |= compare_rows(&in[0], j, k) == 0;
            rank[i] += !seen && compare_rows(&in[0], k, i) < 0;
            first &= !(k < i && compare_rows(&in[0], k, i) == 0);
        }
        count += first;
    }
    groups(&in[0], out, count, rank);
}
CALL(unique_consecutive, kiln_unique_consecutive(in[0], 0, &out[0], &out[1], &out[2]))
static void expect_unique_consecutive(const struct host *in, struct host *out)
{
    int64_t rank[64], n = in[0].dims[0];
    for (int64_t i = 0; i < n; i++) rank[i] = i ? rank[i - 1] + (compare_rows(&in[0], i, i - 1) != 0) : 0;
    groups(&in[0], out, rank[n - 1] + 1, rank);
    host_free(&out[3]);
}

// --- counts

static void counts(const struct host *in, struct host *out, int64_t size, const struct host *weights)
{
    out[0] = host_new(weights ? weights->dtype : KILN_I64, 1, &size);
    for (int64_t i = 0; i < in[0].n; i++) out[0].v[(int64_t)in[0].v[i]] += weights ? weights->v[i] : 1;
}
CALL(bincount, out[0] = kiln_bincount(kiln_abs(in[0]), KILN_BINCOUNT(.minlength = 9)))
static void expect_bincount(const struct host *in, struct host *out)
{
    struct host x = host_copy(&in[0]);
    for (int64_t i = 0; i < x.n; i++) x.v[i] = fabsl(x.v[i]);
    counts(&x, out, 9, NULL);
    host_free(&x);
}
CALL(bincount_sized, out[0] = kiln_bincount_sized(in[0], 6, KILN_BINCOUNT(.weights = in[1])))
static void expect_bincount_sized(const struct host *in, struct host *out)
{
    counts(in, out, 6, &in[1]);
}
CALL(bincount_many, out[0] = kiln_bincount_sized(in[0], 12, NULL))
static void expect_bincount_many(const struct host *in, struct host *out)
{
    counts(in, out, 12, NULL);
}

// How many of a line come before v.
static int64_t before(const long double *line, int64_t n, long double v, bool right)
{
    int64_t count = 0;
    for (int64_t k = 0; k < n; k++) count += right ? line[k] <= v : line[k] < v;
    return count;
}
static kiln_tensor *in_order(kiln_tensor *x)
{
    kiln_tensor *values = NULL, *order;
    kiln_sort(x, -1, false, &values, &order);
    return values;
}
static void search(const struct host *in, struct host *out, bool right)
{
    int64_t n = in[0].dims[in[0].rank - 1], rows = in[0].n / n, each = in[1].n / rows;
    out[0] = host_new(KILN_I64, in[1].rank, in[1].dims);
    for (int64_t i = 0; i < in[1].n; i++) out[0].v[i] = before(&in[0].v[i / each * n], n, in[1].v[i], right);
}
CALL(search_left, out[0] = kiln_searchsorted(in_order(in[0]), in[1], false))
CALL(search_right, out[0] = kiln_searchsorted(in_order(in[0]), in[1], true))
CALL(search_by, out[0] = kiln_searchsorted_by(in[0], in[1], kiln_argsort(in[0], -1, false), true))
CALL(bucketize, out[0] = kiln_bucketize(in[1], in_order(in[0]), false))
static void expect_search_left(const struct host *in, struct host *out)
{
    search(in, out, false);
}
static void expect_search_right(const struct host *in, struct host *out)
{
    search(in, out, true);
}

static void bins(const struct host *x, struct host *out, int64_t n, const long double *edges, int dtype,
                 const struct host *weights)
{
    *out = host_new(dtype, 1, &n);
    for (int64_t i = 0; i < x->n; i++)
        for (int64_t k = 0; k < n; k++)
            if (x->v[i] >= edges[k] && (x->v[i] < edges[k + 1] || (k == n - 1 && x->v[i] == edges[n])))
                out->v[k] += weights ? weights->v[i] : 1;
}
static int edge_dtype(const struct host *x)
{
    return x->dtype == KILN_F64 ? KILN_F64 : KILN_F32;
}
// Over -1 to 1 in quarters, which no dtype rounds.
static const long double quarters[] = {-1, -0.75L, -0.5L, -0.25L, 0, 0.25L, 0.5L, 0.75L, 1};
CALL(histogram, kiln_histogram(in[0], 8, KILN_HISTOGRAM(.lo = -1, .hi = 1), &out[0], &out[1]))
static void expect_histogram(const struct host *in, struct host *out)
{
    int64_t n = 9;
    bins(&in[0], &out[0], 8, quarters, KILN_I64, NULL);
    out[1] = host_new(edge_dtype(&in[0]), 1, &n);
    memcpy(out[1].v, quarters, sizeof quarters);
}
// Numbers that lie on edges that dtypes round, or next to them: the edges are made here as the op makes them.
CALL(histogram_ties, kiln_tensor *e; kiln_tensor *x = kiln_div(kiln_round(kiln_mul(in[0], 50)), 50);
     kiln_histogram(x, 10, KILN_HISTOGRAM(.lo = -0.7, .hi = 0.9), &out[0], &e))
static void expect_histogram_ties(const struct host *in, struct host *out)
{
    long double edges[11];
    bool wide = in[0].dtype == KILN_F64;
    float lo = -0.7F, hi = 0.9F, step = (hi - lo) / 10;
    double lo64 = -0.7, hi64 = 0.9, step64 = (hi64 - lo64) / 10;
    struct host x = host_copy(&in[0]);
    for (int i = 0; i < 10; i++) edges[i] = wide ? lo64 + step64 * i : (long double)(lo + (float)(step * (float)i));
    edges[10] = wide ? hi64 : (long double)hi;
    for (int64_t i = 0; i < x.n; i++)
        x.v[i] = wide ? (long double)(rint((double)x.v[i] * 50) / 50) : (long double)(rintf((float)x.v[i] * 50) / 50);
    bins(&x, out, 10, edges, KILN_I64, NULL);
    host_free(&x);
}
CALL(histc, out[0] = kiln_histc(in[0], 8, -1, 1))
static void expect_histc(const struct host *in, struct host *out)
{
    bins(&in[0], out, 8, quarters, is_float(in[0].dtype) ? in[0].dtype : KILN_F32, NULL);
}
CALL(histogram_edges, kiln_tensor *e[] = {NULL};
     kiln_histogram(in[0], 0, KILN_HISTOGRAM(.edges = in_order(in[1]), .weights = in[2], .density = true), &out[0], e))
static void expect_histogram_edges(const struct host *in, struct host *out)
{
    long double edges[64], sum = 0;
    int64_t n = in[1].n - 1;
    struct host order = reference_argsort(&in[1], 0, false);
    for (int64_t k = 0; k <= n; k++) edges[k] = in[1].v[(int64_t)order.v[k]];
    host_free(&order);
    bins(&in[0], out, n, edges, in[2].dtype, &in[2]);
    for (int64_t k = 0; k < n; k++) sum += out->v[k];
    for (int64_t k = 0; k < n; k++) out->v[k] /= sum * (edges[k + 1] - edges[k]);
}
// Of the range of x: the edges are those of the definition, the counts those between them as they are rounded.
CALL(histogram_range, kiln_histogram(kiln_round(in[0]), 4, NULL, &out[0], &out[1]))
static void expect_histogram_range(const struct host *in, struct host *out)
{
    long double lo = INFINITY, hi = -INFINITY, edges[5];
    int64_t n = 5;
    struct host x = host_copy(&in[0]);
    for (int64_t i = 0; i < x.n; i++) {
        x.v[i] = rintl(x.v[i]);
        lo = fminl(lo, x.v[i]), hi = fmaxl(hi, x.v[i]);
    }
    if (lo == hi) lo -= 0.5L, hi += 0.5L;
    for (int k = 0; k < 5; k++) edges[k] = lo + (hi - lo) / 4 * k;
    bins(&x, &out[0], 4, edges, KILN_I64, NULL);
    host_free(&x);
    out[1] = host_new(edge_dtype(&in[0]), 1, &n);
    memcpy(out[1].v, edges, sizeof edges);
}

enum { ALL = IN_NUMBERS | IN_BOOL };
#define IS(name) call_##name, expect_##name

static const struct op_case sorting_cases[] = {
    {"running_sum", "from the end", "3x5", ALL, IS(running_sum), .units = 16, .order = 2},
    {"running_sum", "exclusive", "3x5", ALL, IS(running_sum_before), .units = 16, .order = 2},
    {"running_sum", "exclusive, from the end", "3x5", ALL, IS(running_sum_behind), .units = 16, .order = 2},
    {"running_prod", "from the end", "3x4", IN_NUMBERS, IS(running_prod), .units = 64, .order = 2},
    {"running_prod", "exclusive", "3x4", IN_NUMBERS, IS(running_prod_before), .units = 64, .order = 2},
    {"nancumsum", "rows", "3x5", IN_FLOATS, IS(nancumsum), .units = 16, .order = 2},
    {"nancumprod", "rows", "3x5", IN_FLOATS, IS(nancumprod), .units = 64, .order = 2},
    {"cummax_indices", "rows", "3x9", IN_NUMBERS, IS(cummax_indices), .n_out = 2, .order = 2},
    {"cummin_indices", "rows", "3x9", IN_NUMBERS, IS(cummin_indices), .n_out = 2, .order = 2},
    {"logcumsumexp", "rows", "3x9", IN_FLOATS, IS(logcumsumexp), .units = 64, .order = 2},
    {"logcumsumexp", "large", "3x9", IN_WIDE, IS(logcumsumexp), .units = 64, .lo = -900, .hi = 900},
    {"diff", "once", "3x5", ALL, IS(diff), .units = 4, .order = 2},
    {"diff", "twice", "3x5", IN_WIDE, IS(diff_twice), .units = 8, .order = 2},
    {"diff", "between", "3x5 3x1", IN_NUMBERS, IS(diff_between), .units = 4, .order = 2},
    {"trapezoid", "at places", "3x5 5", IN_FLOATS, IS(trapezoid), .units = 16, .order = 2},
    {"trapezoid", "by its other name", "3x5", IN_FLOATS, IS(trapz), .units = 16, .order = 2},
    {"cumulative_trapezoid", "rows", "3x5", IN_FLOATS, IS(cumulative_trapezoid), .units = 16, .order = 2},
    {"msort", "matrix", "7x3", IN_NUMBERS, IS(msort), .order = 2},
    {"partition", "matrix", "7x3", IN_NUMBERS, call_partition, expect_msort, .order = 2},
    {"argpartition", "matrix", "7x3", IN_NUMBERS, IS(argpartition)},
    {"lexsort", "two keys", "i9<4 i9<3", IN_F32, IS(lexsort)},
    {"argwhere", "matrix", "3x5", IN_NUMBERS, IS(argwhere), .by_values = true},
    {"unique_axis", "rows", "12x3", IN_INTEGERS, IS(unique_axis), .n_out = 4, .by_values = true},
    {"unique_axis", "bool", "12x2", IN_BOOL, IS(unique_axis), .n_out = 4, .by_values = true},
    {"unique_axis", "a line", "12", IN_INTEGERS, IS(unique_axis), .n_out = 4, .by_values = true},
    {"unique_consecutive", "rows", "12x1", IN_BOOL, IS(unique_consecutive), .n_out = 3, .by_values = true},
    {"unique_consecutive", "a line", "12", IN_INTEGERS | IN_FLOATS, IS(unique_consecutive), .n_out = 3,
     .by_values = true},
    {"bincount", "few", "23", IN_INTEGERS, IS(bincount), .by_values = true},
    {"bincount_sized", "weights", "i5x7<6 5x7", IN_FLOATS, IS(bincount_sized), .units = 32, .order = 2},
    {"bincount_sized", "in parts", "i70007<12", IN_F32, IS(bincount_many)},
    {"searchsorted", "left", "11 3x4", IN_NUMBERS, IS(search_left)},
    {"searchsorted", "right", "11 3x4", IN_NUMBERS, IS(search_right)},
    {"searchsorted", "lines", "3x7 3x130", IN_NUMBERS, IS(search_left)},
    {"searchsorted", "lines, right", "2x3x8 2x3x5", IN_NUMBERS, IS(search_right)},
    {"searchsorted", "two dtypes", "d11 3x4", IN_NUMBERS, IS(search_left)},
    {"searchsorted_by", "lines", "3x7 3x5", IN_NUMBERS, call_search_by, expect_search_right},
    {"bucketize", "matrix", "7 3x4", IN_NUMBERS, call_bucketize, expect_search_left},
    {"histogram", "a range", "300", IN_FLOATS, IS(histogram), .n_out = 2, .lo = -1.5, .hi = 1.5},
    {"histogram", "on edges", "900", IN_WIDE, IS(histogram_ties), .lo = -1.2, .hi = 1.2},
    {"histogram", "in parts", "70007", IN_F32, IS(histogram), .n_out = 2, .lo = -1.5, .hi = 1.5},
    {"histogram", "part by part", "530007", IN_F32, IS(histogram), .n_out = 2, .lo = -1.5, .hi = 1.5},
    {"histogram", "edges, part by part", "270011 7 270011", IN_F32, IS(histogram_edges), .units = 512, .lo = 0.25,
     .hi = 2},
    {"histogram", "edges", "300 7 300", IN_WIDE, IS(histogram_edges), .units = 512, .lo = 0.25, .hi = 2},
    {"histogram", "the range of x", "60", IN_NUMBERS, IS(histogram_range), .n_out = 2, .lo = -4, .hi = 4.49},
    {"histc", "a range", "300", IN_NUMBERS, IS(histc), .lo = -1.5, .hi = 1.5},
};
FAMILY_OF(sorting);
