// Reductions past NaN, several at once, weighted, of equality; values by their rank.
#include "compose/case.h"
#include <kiln/kiln.h>
#include <stdlib.h>

#define CALL(name, ...)                                                \
    static void call_##name(kiln_tensor *const *in, kiln_tensor **out) \
    {                                                                  \
        __VA_ARGS__;                                                   \
    }
#define ROWS KILN_REDUCE(.axes = KILN_AXES(1))
#define VARS KILN_VAR(.axes = KILN_AXES(1), .correction = 1)

// NaN in the place of what is below -1.
static kiln_tensor *holed(kiln_tensor *x)
{
    return kiln_where(kiln_less(x, kiln_scalar_int(-1)), kiln_scalar(NAN), x);
}

static long double hole(long double v, bool holes)
{
    return holes && v < -1 ? NAN : v;
}

// --- along axis 1 of [rows, cols]

struct row {
    long double v[64], weight[64]; // without NaN, when asked
    int64_t n, all;
};

static struct row row_of(const struct host *x, int64_t row, bool holes, bool keep)
{
    struct row r = {.all = x->dims[1]};
    for (int64_t k = 0; k < r.all; k++) {
        long double v = hole(x->v[row * r.all + k], holes);
        if (keep || !isnan(v)) r.v[r.n++] = v;
    }
    return r;
}

typedef long double row_fn(const struct row *r);

static void reduce(const struct host *in, struct host *out, int dtype, bool holes, bool keep, row_fn *fn)
{
    out[0] = host_new(dtype, 1, in[0].dims);
    for (int64_t i = 0; i < out[0].n; i++) {
        struct row r = row_of(&in[0], i, holes, keep);
        out[0].v[i] = fn(&r);
    }
}
#define REDUCES(name, dtype, holes, keep, fn, expr)                    \
    CALL(name, out[0] = expr)                                          \
    static void expect_##name(const struct host *in, struct host *out) \
    {                                                                  \
        reduce(in, out, dtype, holes, keep, fn);                       \
    }

static long double sum_of(const struct row *r)
{
    long double s = 0;
    for (int64_t i = 0; i < r->n; i++) s += r->v[i];
    return s;
}
static long double prod_of(const struct row *r)
{
    long double s = 1;
    for (int64_t i = 0; i < r->n; i++) s *= r->v[i];
    return s;
}
static long double mean_of(const struct row *r)
{
    return sum_of(r) / (long double)r->n;
}
static long double var_of(const struct row *r)
{
    long double s = 0, m = mean_of(r);
    for (int64_t i = 0; i < r->n; i++) s += (r->v[i] - m) * (r->v[i] - m);
    return s / (long double)(r->n > 1 ? r->n - 1 : 0);
}
static long double std_of(const struct row *r)
{
    return sqrtl(var_of(r));
}
static long double max_of(const struct row *r)
{
    long double s = r->n ? r->v[0] : NAN;
    for (int64_t i = 1; i < r->n; i++) s = fmaxl(s, r->v[i]);
    return s;
}
static long double min_of(const struct row *r)
{
    long double s = r->n ? r->v[0] : NAN;
    for (int64_t i = 1; i < r->n; i++) s = fminl(s, r->v[i]);
    return s;
}
static long double ptp_of(const struct row *r)
{
    return max_of(r) - min_of(r);
}
static long double set_of(const struct row *r)
{
    long double s = 0;
    for (int64_t i = 0; i < r->n; i++) s += r->v[i] != 0;
    return s;
}
static long double last_max_of(const struct row *r)
{
    int64_t best = 0;
    for (int64_t i = 1; i < r->n; i++)
        if (isnan(r->v[i]) || (!isnan(r->v[best]) && r->v[i] >= r->v[best])) best = i;
    return best;
}
static long double last_min_of(const struct row *r)
{
    int64_t best = 0;
    for (int64_t i = 1; i < r->n; i++)
        if (isnan(r->v[i]) || (!isnan(r->v[best]) && r->v[i] <= r->v[best])) best = i;
    return best;
}

REDUCES(count_nonzero, KILN_I64, false, true, set_of, kiln_count_nonzero(in[0], ROWS))
REDUCES(nansum, in[0].dtype, true, false, sum_of, kiln_nansum(holed(in[0]), ROWS))
REDUCES(nansum_integers, KILN_I64, false, false, sum_of, kiln_nansum(in[0], ROWS))
REDUCES(nanprod, in[0].dtype, true, false, prod_of, kiln_nanprod(holed(in[0]), ROWS))
REDUCES(nanmean, in[0].dtype, true, false, mean_of, kiln_nanmean(holed(in[0]), ROWS))
REDUCES(nanvar, in[0].dtype, true, false, var_of, kiln_nanvar(holed(in[0]), VARS))
REDUCES(nanstd, in[0].dtype, true, false, std_of, kiln_nanstd(holed(in[0]), VARS))
REDUCES(nanmax, in[0].dtype, true, false, max_of, kiln_nanmax(holed(in[0]), ROWS))
REDUCES(nanmin, in[0].dtype, true, false, min_of, kiln_nanmin(holed(in[0]), ROWS))
REDUCES(ptp, in[0].dtype, false, true, ptp_of, kiln_ptp(in[0], ROWS))
REDUCES(argmax_last, KILN_I64, false, true, last_max_of, kiln_argmax_last(in[0], ROWS))
REDUCES(argmax_last_nan, KILN_I64, true, true, last_max_of, kiln_argmax_last(holed(in[0]), ROWS))
REDUCES(argmin_last, KILN_I64, false, true, last_min_of, kiln_argmin_last(in[0], ROWS))
CALL(argmax_last_of_all, out[0] = kiln_argmax_last(in[0], NULL))
static void expect_argmax_last_of_all(const struct host *in, struct host *out)
{
    int64_t best = 0;
    for (int64_t i = 1; i < in[0].n; i++)
        if (in[0].v[i] >= in[0].v[best]) best = i;
    out[0] = host_new(KILN_I64, 0, NULL);
    out[0].v[0] = best;
}

// Two results a row.
static void two(const struct host *in, struct host *out, int dtype, row_fn *first, row_fn *second)
{
    reduce(in, &out[0], dtype, false, true, first);
    reduce(in, &out[1], dtype, false, true, second);
}
CALL(var_mean, kiln_var_mean(in[0], VARS, &out[0], &out[1]))
static void expect_var_mean(const struct host *in, struct host *out)
{
    two(in, out, in[0].dtype, var_of, mean_of);
}
CALL(std_mean, kiln_std_mean(in[0], VARS, &out[0], &out[1]))
static void expect_std_mean(const struct host *in, struct host *out)
{
    two(in, out, in[0].dtype, std_of, mean_of);
}
CALL(aminmax, kiln_aminmax(in[0], ROWS, &out[0], &out[1]))
static void expect_aminmax(const struct host *in, struct host *out)
{
    two(in, out, in[0].dtype, min_of, max_of);
}

CALL(weighted_mean, out[0] = kiln_weighted_mean(in[0], in[1], ROWS))
static void expect_weighted_mean(const struct host *in, struct host *out)
{
    int64_t cols = in[0].dims[1];
    out[0] = host_new(in[0].dtype, 1, in[0].dims);
    for (int64_t i = 0; i < out[0].n; i++) {
        long double sum = 0, weights = 0;
        for (int64_t k = 0; k < cols; k++) {
            sum += in[0].v[i * cols + k] * in[1].v[k];
            weights += in[1].v[k];
        }
        out[0].v[i] = sum / weights;
    }
}

CALL(softmin, out[0] = kiln_softmin(in[0], 1))
static void expect_softmin(const struct host *in, struct host *out)
{
    struct host x = host_copy(&in[0]);
    for (int64_t i = 0; i < x.n; i++) x.v[i] = -x.v[i];
    out[0] = reference_softmax(&x, 1, false, x.dtype);
    host_free(&x);
}

static long double covariance(const struct host *x, int64_t a, int64_t b, long double correction)
{
    int64_t n = x->dims[1];
    long double ma = 0, mb = 0, s = 0;
    for (int64_t k = 0; k < n; k++) ma += x->v[a * n + k] / n, mb += x->v[b * n + k] / n;
    for (int64_t k = 0; k < n; k++) s += (x->v[a * n + k] - ma) * (x->v[b * n + k] - mb);
    return s / ((long double)n - correction);
}
CALL(cov, out[0] = kiln_cov(in[0], 1))
CALL(corrcoef, out[0] = kiln_corrcoef(in[0]))
static void matrix(const struct host *in, struct host *out, bool scaled)
{
    int64_t n = in[0].dims[0], dims[] = {n, n};
    out[0] = host_new(in[0].dtype, 2, dims);
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < n; k++) {
            long double c = covariance(&in[0], i, k, 1), a = covariance(&in[0], i, i, 1),
                        b = covariance(&in[0], k, k, 1);
            out[0].v[i * n + k] = scaled ? c / sqrtl(a) / sqrtl(b) : c;
        }
}
static void expect_cov(const struct host *in, struct host *out)
{
    matrix(in, out, false);
}
static void expect_corrcoef(const struct host *in, struct host *out)
{
    matrix(in, out, true);
}

// --- equality

static struct host truth(bool v)
{
    struct host h = host_new(KILN_BOOL, 0, NULL);
    h.v[0] = v;
    return h;
}
CALL(isclose_nan, out[0] = kiln_isclose_nan(holed(in[0]), holed(in[1]), 0.25, 0.5))
static void expect_isclose_nan(const struct host *in, struct host *out)
{
    out[0] = host_new(KILN_BOOL, in[0].rank, in[0].dims);
    for (int64_t i = 0; i < in[0].n; i++) {
        long double a = hole(in[0].v[i], true), b = hole(in[1].v[i], true);
        out[0].v[i] = (isnan(a) && isnan(b)) || fabsl(a - b) <= 0.5L + 0.25L * fabsl(b);
    }
}
CALL(allclose, out[0] = kiln_allclose(in[0], kiln_mul(in[0], kiln_scalar(1.0625)), KILN_CLOSE(.rtol = 0.125)))
CALL(allclose_not, out[0] = kiln_allclose(holed(in[0]), holed(in[0]), NULL))
CALL(allclose_nan, out[0] = kiln_allclose(holed(in[0]), holed(in[0]), KILN_CLOSE(.equal_nan = true)))
CALL(array_equal, out[0] = kiln_array_equal(in[0], in[0], false))
CALL(array_equal_nan, out[0] = kiln_array_equal(holed(in[0]), holed(in[0]), true))
CALL(array_equal_not, out[0] = kiln_array_equal(in[0], in[1], false))
CALL(array_equal_shapes, out[0] = kiln_array_equal(in[0], kiln_flatten(in[0], 0, -1), false))
static void expect_true(const struct host *in, struct host *out)
{
    (void)in;
    out[0] = truth(true);
}
static void expect_false(const struct host *in, struct host *out)
{
    (void)in;
    out[0] = truth(false);
}

// --- by rank

static int by_value(const void *a, const void *b)
{
    long double x = *(const long double *)a, y = *(const long double *)b;
    return isnan(x) || isnan(y) ? isnan(x) - isnan(y) : (x > y) - (x < y);
}

static struct row sorted_row(const struct host *x, int64_t row, bool holes, bool keep)
{
    struct row r = row_of(x, row, holes, keep);
    qsort(r.v, (size_t)r.n, sizeof r.v[0], by_value);
    return r;
}

// The value, and where it is for the first or last time in the row.
static void placed(const struct host *in, struct host *out, bool holes, int64_t row, long double v, bool last)
{
    int64_t n = in[0].dims[1], found = -1;
    out[0].v[row] = v;
    for (int64_t k = 0; k < n; k++) {
        long double x = hole(in[0].v[row * n + k], holes);
        if ((x == v || (isnan(x) && isnan(v))) && (found < 0 || last)) found = k;
    }
    out[1].v[row] = found;
}
static void rooms(const struct host *in, struct host *out)
{
    out[0] = host_new(in[0].dtype, 1, in[0].dims);
    out[1] = host_new(KILN_I64, 1, in[0].dims);
}
static void median(const struct host *in, struct host *out, bool holes, bool past)
{
    rooms(in, out);
    for (int64_t i = 0; i < out[0].n; i++) {
        struct row r = sorted_row(&in[0], i, holes, !past);
        bool nan = r.n == 0 || isnan(r.v[r.n - 1]);
        placed(in, out, holes, i, nan ? NAN : r.v[(r.n - 1) / 2], false);
    }
}
CALL(median, kiln_median(in[0], 1, false, &out[0], &out[1]))
static void expect_median(const struct host *in, struct host *out)
{
    median(in, out, false, false);
}
CALL(median_nan, kiln_median(holed(in[0]), 1, false, &out[0], &out[1]))
static void expect_median_nan(const struct host *in, struct host *out)
{
    median(in, out, true, false);
}
CALL(nanmedian, kiln_nanmedian(holed(in[0]), 1, false, &out[0], &out[1]))
static void expect_nanmedian(const struct host *in, struct host *out)
{
    median(in, out, true, true);
}
CALL(kthvalue, kiln_kthvalue(in[0], 3, 1, false, &out[0], &out[1]))
static void expect_kthvalue(const struct host *in, struct host *out)
{
    rooms(in, out);
    for (int64_t i = 0; i < out[0].n; i++) placed(in, out, false, i, sorted_row(&in[0], i, false, true).v[2], false);
}
// Few values, so that some are equal.
CALL(mode_of, kiln_mode_of(kiln_floor(in[0]), 1, false, &out[0], &out[1]))
static void expect_mode_of(const struct host *in, struct host *out)
{
    struct host floors = host_copy(&in[0]);
    for (int64_t i = 0; i < floors.n; i++) floors.v[i] = floorl(floors.v[i]);
    rooms(in, out);
    for (int64_t i = 0; i < out[0].n; i++) {
        struct row r = sorted_row(&floors, i, false, true);
        int64_t most = 0, times;
        for (int64_t k = 0; k < r.n; k += times) {
            for (times = 1; k + times < r.n && r.v[k + times] == r.v[k];) times++;
            if (times > most) most = times, r.weight[0] = r.v[k];
        }
        placed(&floors, out, false, i, r.weight[0], true);
    }
    host_free(&floors);
}

static long double at_rank(const struct row *r, long double q, int64_t how)
{
    if (r->n == 0 || isnan(r->v[r->n - 1])) return NAN;
    long double at = q * (long double)(r->n - 1), low = floorl(at), high = ceill(at);
    long double a = r->v[(int64_t)low], b = r->v[(int64_t)high];
    switch (how) {
    case KILN_QUANTILE_LOWER: return a;
    case KILN_QUANTILE_HIGHER: return b;
    case KILN_QUANTILE_MIDPOINT: return (a + b) / 2;
    case KILN_QUANTILE_NEAREST: return r->v[(int64_t)rintl(at)];
    default: return a + (b - a) * (at - low);
    }
}
static const double parts[] = {0, 0.25, 0.3, 0.5, 1};
static void quantiles(const struct host *in, struct host *out, int64_t how, bool holes, bool past)
{
    int64_t dims[] = {5, in[0].dims[0]};
    out[0] = host_new(in[0].dtype, 2, dims);
    for (int64_t i = 0; i < out[0].n; i++) {
        struct row r = sorted_row(&in[0], i % dims[1], holes, !past);
        out[0].v[i] = at_rank(&r, parts[i / dims[1]], how);
    }
}
static kiln_tensor *parts_like(kiln_tensor *x)
{
    return kiln_from_data(kiln_tensor_device(x), KILN_F64, KILN_SHAPE(5), parts);
}
#define QUANTILES(name, how, holes, past, expr)                              \
    CALL(name, kiln_tensor *x = holes ? holed(in[0]) : in[0]; out[0] = expr) \
    static void expect_##name(const struct host *in, struct host *out)       \
    {                                                                        \
        quantiles(in, out, how, holes, past);                                \
    }
#define BY(how) KILN_QUANTILE(.interpolation = how)
QUANTILES(linear, KILN_QUANTILE_LINEAR, false, false, kiln_quantile(x, parts_like(x), 1, NULL))
QUANTILES(lower, KILN_QUANTILE_LOWER, false, false, kiln_quantile(x, parts_like(x), 1, BY(KILN_QUANTILE_LOWER)))
QUANTILES(higher, KILN_QUANTILE_HIGHER, false, false, kiln_quantile(x, parts_like(x), 1, BY(KILN_QUANTILE_HIGHER)))
QUANTILES(midpoint, KILN_QUANTILE_MIDPOINT, false, false,
          kiln_quantile(x, parts_like(x), 1, BY(KILN_QUANTILE_MIDPOINT)))
QUANTILES(nearest, KILN_QUANTILE_NEAREST, false, false, kiln_quantile(x, parts_like(x), 1, BY(KILN_QUANTILE_NEAREST)))
QUANTILES(linear_nan, KILN_QUANTILE_LINEAR, true, false, kiln_quantile(x, parts_like(x), 1, NULL))
QUANTILES(nanquantile, KILN_QUANTILE_LINEAR, true, true, kiln_nanquantile(x, parts_like(x), 1, NULL))
QUANTILES(percentile, KILN_QUANTILE_LINEAR, false, false,
          kiln_percentile(x, kiln_mul(parts_like(x), kiln_scalar(100)), 1, NULL))
QUANTILES(nanpercentile, KILN_QUANTILE_LINEAR, true, true,
          kiln_nanpercentile(x, kiln_mul(parts_like(x), kiln_scalar(100)), 1, NULL))
CALL(quantile_kept, out[0] = kiln_quantile(in[0], kiln_scalar(0.5), 1, KILN_QUANTILE(.keepdims = true)))
static void expect_quantile_kept(const struct host *in, struct host *out)
{
    int64_t dims[] = {in[0].dims[0], 1};
    out[0] = host_new(in[0].dtype, 2, dims);
    for (int64_t i = 0; i < out[0].n; i++) {
        struct row r = sorted_row(&in[0], i, false, true);
        out[0].v[i] = at_rank(&r, 0.5L, KILN_QUANTILE_LINEAR);
    }
}

enum { ALL = IN_NUMBERS | IN_BOOL };
#define IS(name) call_##name, expect_##name

static const struct op_case statistics_cases[] = {
    {"count_nonzero", "rows", "3x5", ALL, IS(count_nonzero)},
    {"nansum", "rows", "4x7", IN_FLOATS, IS(nansum), .units = 16, .order = 2},
    {"nansum", "integers", "4x7", IN_INTEGERS, IS(nansum_integers)},
    {"nanprod", "rows", "4x7", IN_FLOATS, IS(nanprod), .units = 64, .order = 2},
    {"nanmean", "rows", "4x7", IN_FLOATS, IS(nanmean), .units = 16, .order = 2},
    {"nanvar", "rows", "4x7", IN_FLOATS, IS(nanvar), .units = 32, .order = 2},
    {"nanstd", "rows", "4x7", IN_FLOATS, IS(nanstd), .units = 32, .order = 2},
    {"nanmax", "rows", "4x7", IN_FLOATS, IS(nanmax), .order = 2},
    {"nanmin", "rows", "4x7", IN_FLOATS, IS(nanmin), .order = 2},
    {"nanmax", "nothing but NaN", "4x3", IN_FLOATS, IS(nanmax), .lo = -3, .hi = -2.5},
    {"nanmean", "nothing but NaN", "4x3", IN_FLOATS, IS(nanmean), .lo = -3, .hi = -2.5},
    {"ptp", "rows", "4x7", IN_NUMBERS, IS(ptp), .units = 4, .order = 2},
    {"argmax_last", "rows", "4x17", ALL, IS(argmax_last)},
    {"argmax_last", "NaN", "4x17", IN_FLOATS, IS(argmax_last_nan)},
    {"argmax_last", "all", "4x17", ALL, IS(argmax_last_of_all)},
    {"argmin_last", "rows", "4x17", ALL, IS(argmin_last)},
    {"var_mean", "rows", "4x7", IN_FLOATS, IS(var_mean), .n_out = 2, .units = 32, .order = 2},
    {"std_mean", "rows", "4x7", IN_FLOATS, IS(std_mean), .n_out = 2, .units = 32, .order = 2},
    {"aminmax", "rows", "4x7", IN_NUMBERS, IS(aminmax), .n_out = 2, .order = 2},
    {"weighted_mean", "a vector", "4x7 7", IN_FLOATS, IS(weighted_mean), .units = 64, .lo = 0.25, .hi = 2, .order = 2},
    {"softmin", "rows", "4x7", IN_FLOATS, IS(softmin), .units = 16, .order = 2},
    {"cov", "rows", "3x8", IN_FLOATS, IS(cov), .units = 32, .order = 2},
    {"corrcoef", "rows", "3x8", IN_FLOATS, IS(corrcoef), .units = 64, .order = 2},
    {"isclose_nan", "matrix", "4x7 4x7", IN_FLOATS, IS(isclose_nan)},
    {"allclose", "near", "4x7", IN_FLOATS, call_allclose, expect_true},
    {"allclose", "NaN", "4x7", IN_FLOATS, call_allclose_not, expect_false, .lo = -9, .hi = -3},
    {"allclose", "equal NaN", "4x7", IN_FLOATS, call_allclose_nan, expect_true},
    {"array_equal", "itself", "4x7", ALL, call_array_equal, expect_true},
    {"array_equal", "equal NaN", "4x7", IN_FLOATS, call_array_equal_nan, expect_true},
    {"array_equal", "another", "4x7 4x7", IN_FLOATS, call_array_equal_not, expect_false},
    {"array_equal", "another shape", "4x7", ALL, call_array_equal_shapes, expect_false},
    {"median", "odd", "4x7", IN_FLOATS, IS(median), .n_out = 2, .order = 2},
    {"median", "even", "4x6", IN_FLOATS, IS(median), .n_out = 2, .order = 2},
    {"median", "NaN", "5x3", IN_FLOATS, IS(median_nan), .n_out = 2},
    {"nanmedian", "NaN", "5x6", IN_FLOATS, IS(nanmedian), .n_out = 2, .order = 2},
    {"kthvalue", "third", "4x7", IN_FLOATS, IS(kthvalue), .n_out = 2, .order = 2},
    {"mode_of", "rows", "4x11", IN_FLOATS, IS(mode_of), .n_out = 2},
    {"quantile", "linear", "4x7", IN_FLOATS, IS(linear), .units = 16, .order = 2},
    {"quantile", "lower", "4x7", IN_FLOATS, IS(lower), .order = 2},
    {"quantile", "higher", "4x7", IN_FLOATS, IS(higher), .order = 2},
    {"quantile", "midpoint", "4x7", IN_FLOATS, IS(midpoint), .units = 4, .order = 2},
    {"quantile", "nearest", "4x7", IN_FLOATS, IS(nearest), .order = 2},
    {"quantile", "a number", "4x6", IN_FLOATS, IS(quantile_kept), .units = 4, .order = 2},
    {"quantile", "NaN", "5x3", IN_FLOATS, IS(linear_nan), .units = 16},
    {"nanquantile", "NaN", "4x7", IN_FLOATS, IS(nanquantile), .units = 16, .order = 2},
    {"percentile", "linear", "4x7", IN_FLOATS, IS(percentile), .units = 16, .order = 2},
    {"nanpercentile", "NaN", "4x7", IN_FLOATS, IS(nanpercentile), .units = 16, .order = 2},
};
FAMILY_OF(statistics);
