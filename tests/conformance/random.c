// Random numbers: ranges, moments, independence, reproducibility. The seeds are fixed, so a test passes always or
// never; the bounds are five standard deviations.
#include "conformance/structured.h"
#include <kiln/ops.h>
#include <string.h>

enum { N = 20000 };
static const int64_t count = N;

typedef kiln_tensor *(*draw_fn)(int dtype);

static kiln_tensor *draw_uniform(int dtype)
{
    return kiln_uniform(suite.dev, (kiln_dtype)dtype, 1, &count, -2, 3);
}

static kiln_tensor *draw_normal(int dtype)
{
    return kiln_normal(suite.dev, (kiln_dtype)dtype, 1, &count, 1, 2);
}

static kiln_tensor *draw_randint(int dtype)
{
    return kiln_randint(suite.dev, (kiln_dtype)dtype, 1, &count, 3, 17);
}

static kiln_tensor *draw_bernoulli(int dtype)
{
    return kiln_bernoulli(suite.dev, (kiln_dtype)dtype, 1, &count, 0.3);
}

static kiln_tensor *draw_randperm(int dtype)
{
    return kiln_randperm(suite.dev, count);
}

static kiln_tensor *draw_dropout(int dtype)
{
    return kiln_dropout(kiln_full(suite.dev, (kiln_dtype)dtype, 1, &count, 3), 0.4);
}

static struct host drawn(draw_fn draw, int dtype, const char *op)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *t = draw(dtype);
    struct host h = {0};
    record.cases++;
    if (no_error(op)) h = host_read(t);
    no_error(op);
    if (h.v && (h.n != N || h.rank != 1)) record_mistake("%s gives another shape", op);
    record.values += suite.is_null ? 0 : (uint64_t)h.n;
    kiln_scope_end(&scope);
    return h;
}

static bool equal(const struct host *a, const struct host *b)
{
    for (int64_t i = 0; i < a->n; i++)
        if (a->v[i] != b->v[i]) return false;
    return true;
}

// The same seed and offset give the same values, in any order of other calls; later calls and other seeds give others.
static void reproducible(const char *op, draw_fn draw, int dtype)
{
    uint64_t seed, offset, later;
    kiln_seed(suite.dev, 42);
    kiln_rng_state(suite.dev, &seed, &offset);
    struct host first = drawn(draw, dtype, op), second = drawn(draw, dtype, op);
    kiln_rng_state(suite.dev, &seed, &later);
    kiln_set_rng_state(suite.dev, seed, offset);
    struct host again = drawn(draw, dtype, op);
    kiln_seed(suite.dev, 43);
    struct host other = drawn(draw, dtype, op);
    if (first.v && second.v && again.v && other.v && !suite.is_null) {
        if (!equal(&first, &again)) record_mistake("%s: the same state gives other values", op);
        if (equal(&first, &second)) record_mistake("%s: two calls give the same values", op);
        if (equal(&first, &other)) record_mistake("%s: two seeds give the same values", op);
        if (later <= offset) record_mistake("%s does not move the generator", op);
    }
    host_free(&first);
    host_free(&second);
    host_free(&again);
    host_free(&other);
}

// Mean and variance, and no correlation between neighbours, four elements apart, and the halves.
static void moments(const char *op, const struct host *h, long double mean, long double deviation, long double fourth)
{
    long double m = 0, v = 0;
    if (!h->v || suite.is_null) return;
    for (int64_t i = 0; i < N; i++) m += h->v[i] / N;
    for (int64_t i = 0; i < N; i++) v += (h->v[i] - mean) * (h->v[i] - mean) / N;
    long double variance = deviation * deviation;
    // 16-bit values are rounded, by far less than the mean of so many can show.
    if (fabsl(m - mean) > 5 * deviation / sqrtl(N)) record_mistake("%s: mean %.5Lf, expected %.5Lf", op, m, mean);
    if (fabsl(v - variance) > 5 * sqrtl((fourth - variance * variance) / N))
        record_mistake("%s: variance %.5Lf, expected %.5Lf", op, v, variance);
    const int64_t lags[] = {1, 2, 3, 4, 256, N / 2};
    for (size_t k = 0; k < sizeof lags / sizeof lags[0]; k++) {
        long double c = 0;
        for (int64_t i = 0; i + lags[k] < N; i++) c += (h->v[i] - mean) * (h->v[i + lags[k]] - mean) / variance;
        if (fabsl(c) > 5 * sqrtl((long double)(N - lags[k])))
            record_mistake("%s: correlation %.4Lf at distance %lld", op, c / N, (long long)lags[k]);
    }
}

// Equal shares of N in each of `bins` classes: chi-square within five deviations.
static void even(const char *op, const int64_t *bins, int n)
{
    double expected = (double)N / n, chi = 0;
    for (int i = 0; i < n; i++) chi += ((double)bins[i] - expected) * ((double)bins[i] - expected) / expected;
    if (fabs(chi - (n - 1)) > 5 * sqrt(2.0 * (n - 1)))
        record_mistake("%s: chi-square of %d classes is %.1f", op, n, chi);
}

void conform_uniform(const char *op)
{
    for (int dtype = KILN_F16; dtype <= KILN_F64; dtype++) {
        reproducible(op, draw_uniform, dtype);
        kiln_seed(suite.dev, 7);
        struct host h = drawn(draw_uniform, dtype, op);
        int64_t bins[20] = {0};
        for (int64_t i = 0; i < h.n && !suite.is_null; i++) {
            if (!(h.v[i] >= -2 && h.v[i] < 3))
                record_mistake("uniform %s in [-2, 3) gives %.9Lg", kiln_dtype_name((kiln_dtype)dtype), h.v[i]);
            else
                bins[(int)((h.v[i] + 2) * 4)]++;
        }
        // uniform of [0, 5): variance 25/12, fourth moment 5^4/80.
        moments(op, &h, 0.5L, 5 / sqrtl(12), 625 / 80.0L);
        if (!suite.is_null && h.v && dtype >= KILN_F32) even(op, bins, 20);
        host_free(&h);
    }
    if (kiln_uniform(suite.dev, KILN_I32, 1, &count, 0, 1)) record_mistake("uniform of integers");
    expect_error(KILN_E_DTYPE, op, "integers");
}

void conform_normal(const char *op)
{
    for (int dtype = KILN_F16; dtype <= KILN_F64; dtype++) {
        reproducible(op, draw_normal, dtype);
        kiln_seed(suite.dev, 7);
        struct host h = drawn(draw_normal, dtype, op);
        moments(op, &h, 1, 2, 3 * 16);
        int64_t inside[3] = {0};
        for (int64_t i = 0; i < h.n; i++)
            for (int k = 0; k < 3; k++) inside[k] += fabsl(h.v[i] - 1) < 2 * (k + 1);
        const double share[] = {0.682689, 0.954500, 0.997300};
        for (int k = 0; k < 3 && h.v && !suite.is_null; k++)
            if (fabs((double)inside[k] / N - share[k]) >
                5 * sqrt(share[k] * (1 - share[k]) / N) + (dtype <= KILN_BF16 ? 0.006 : 0))
                record_mistake("normal: %.4f within %d deviations, expected %.4f", (double)inside[k] / N, k + 1,
                               share[k]);
        host_free(&h);
    }
    if (kiln_normal(suite.dev, KILN_I32, 1, &count, 0, 1)) record_mistake("normal of integers");
    expect_error(KILN_E_DTYPE, op, "integers");
}

void conform_randint(const char *op)
{
    const int dtypes[] = {KILN_U8, KILN_I8, KILN_I16, KILN_I32, KILN_I64};
    for (int d = 0; d < 5; d++) {
        reproducible(op, draw_randint, dtypes[d]);
        kiln_seed(suite.dev, 7);
        struct host h = drawn(draw_randint, dtypes[d], op);
        int64_t bins[14] = {0};
        for (int64_t i = 0; i < h.n && !suite.is_null; i++) {
            if (!(h.v[i] >= 3 && h.v[i] < 17))
                record_mistake("randint in [3, 17) gives %Lg", h.v[i]);
            else
                bins[(int)h.v[i] - 3]++;
        }
        if (!suite.is_null && h.v) even(op, bins, 14);
        host_free(&h);
    }
    record.cases++;
    if (kiln_randint(suite.dev, KILN_I32, 1, &count, 5, 5)) record_mistake("randint of an empty range");
    if (!kiln_error()) record_mistake("an empty range is no error");
    kiln_error_clear();
}

void conform_bernoulli(const char *op)
{
    const int dtypes[] = {KILN_BOOL, KILN_U8, KILN_F32, KILN_F16, KILN_F64, KILN_I64};
    for (int d = 0; d < 6; d++) {
        reproducible(op, draw_bernoulli, dtypes[d]);
        kiln_seed(suite.dev, 7);
        struct host h = drawn(draw_bernoulli, dtypes[d], op);
        for (int64_t i = 0; i < h.n && !suite.is_null; i++)
            if (h.v[i] != 0 && h.v[i] != 1) record_mistake("bernoulli gives %Lg", h.v[i]);
        moments(op, &h, 0.3L, sqrtl(0.21L), 0.3L * 0.7L * (0.343L + 0.027L));
        host_free(&h);
    }
    for (int p = 0; p < 2; p++) {
        struct host want = host_new(KILN_F32, 1, (const int64_t[]){100});
        for (int i = 0; i < 100; i++) want.v[i] = p;
        check_equal(kiln_bernoulli(suite.dev, KILN_F32, KILN_SHAPE(100), p), &want, "bernoulli of a sure thing");
        host_free(&want);
    }
    if (kiln_bernoulli(suite.dev, KILN_F32, 1, &count, 1.5)) record_mistake("bernoulli takes p = 1.5");
    expect_error(KILN_E_ARGUMENT, op, "p above 1");
}

void conform_randperm(const char *op)
{
    reproducible(op, draw_randperm, KILN_I64);
    const int64_t sizes[] = {0, 1, 2, 5, 100, 3000};
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        static bool seen[3000];
        memset(seen, 0, sizeof seen);
        record.cases++;
        kiln_tensor *t = kiln_randperm(suite.dev, sizes[k]);
        struct host h = host_read(t);
        if (!no_error(op) || !same_type(t, KILN_I64, 1, &sizes[k], op)) continue;
        int64_t fixed = 0;
        for (int64_t i = 0; i < h.n && !suite.is_null; i++) {
            if (h.v[i] < 0 || h.v[i] >= sizes[k] || seen[(int64_t)h.v[i]])
                record_mistake("randperm(%lld) is no permutation", (long long)sizes[k]);
            else
                seen[(int64_t)h.v[i]] = true;
            fixed += h.v[i] == i;
        }
        // A random permutation leaves one element in place, on average.
        if (sizes[k] >= 100 && fixed > 8)
            record_mistake("randperm(%lld) leaves %lld in place", (long long)sizes[k], (long long)fixed);
        host_free(&h);
    }
    if (kiln_randperm(suite.dev, -1)) record_mistake("randperm(-1)");
    record.cases++;
    if (!kiln_error()) record_mistake("randperm(-1) is no error");
    kiln_error_clear();
}

void conform_dropout(const char *op)
{
    for (int dtype = KILN_F16; dtype <= KILN_F64; dtype++) {
        reproducible(op, draw_dropout, dtype);
        kiln_seed(suite.dev, 7);
        struct host h = drawn(draw_dropout, dtype, op);
        long double kept = 0;
        for (int64_t i = 0; i < h.n && !suite.is_null; i++) {
            if (h.v[i] != 0 && error_ulp(dtype, h.v[i], 5) > 1.5L)
                record_mistake("dropout of 3 by 0.4 gives %.9Lg", h.v[i]);
            kept += h.v[i] != 0;
        }
        if (h.v && !suite.is_null && fabsl(kept / N - 0.6L) > 5 * sqrtl(0.24L / N))
            record_mistake("dropout by 0.4 keeps %.4Lf", kept / N);
        host_free(&h);
    }
    struct host x;
    kiln_tensor *t = random_tensor(&x, KILN_F32, 2, (const int64_t[]){9, 11}, LAYOUT_TRANSPOSED, -3, 3);
    check_equal(kiln_dropout(t, 0), &x, "dropout by 0");
    for (int64_t i = 0; i < x.n; i++) x.v[i] = 0;
    check_equal(kiln_dropout(t, 1), &x, "dropout by 1");
    host_free(&x);
    if (kiln_dropout(t, 1.5)) record_mistake("dropout takes p = 1.5");
    expect_error(KILN_E_ARGUMENT, op, "p above 1");
    if (kiln_dropout(t, -0.1)) record_mistake("dropout takes p = -0.1");
    expect_error(KILN_E_ARGUMENT, op, "p below 0");
}

void conform_dropout_again(const char *op)
{
    for (int dtype = KILN_F16; dtype <= KILN_F64; dtype++) {
        uint64_t seed, offset;
        struct host x;
        kiln_tensor *t = random_tensor(&x, dtype, 2, (const int64_t[]){50, 31}, LAYOUT_CONTIGUOUS, 1, 3);
        kiln_rng_state(suite.dev, &seed, &offset);
        struct host first = host_read(kiln_dropout(t, 0.3));
        kiln_uniform(suite.dev, KILN_F32, 1, &count, 0, 1);
        if (first.v)
            check_equal(kiln_dropout_again(t, 0.3, (int64_t)seed, (int64_t)offset), &first,
                        case_text(op, &x, LAYOUT_CONTIGUOUS, ""));
        else
            no_error(op);
        host_free(&first);
        host_free(&x);
    }
}
