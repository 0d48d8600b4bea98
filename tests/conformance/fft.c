// Fourier transforms of pairs, against the sum that defines them.
#include "conformance/structured.h"
#include <kiln/ops.h>
#include <stdlib.h>
#include <string.h>

// The n-th roots of one, a cosine and a sine each.
static long double *roots_of(int64_t n)
{
    long double *roots = malloc((size_t)(2 * n) * sizeof *roots);
    for (int64_t i = 0; i < n; i++) {
        long double angle = 2 * PI_L * (long double)i / (long double)n;
        roots[2 * i] = cosl(angle);
        roots[2 * i + 1] = sinl(angle);
    }
    return roots;
}

// Result k of the transform of a line of pairs along its last axis but that of the pairs.
static void reference_line(const long double *x, const long double *roots, int64_t n, int64_t k, bool inverse,
                           long double *sum)
{
    sum[0] = sum[1] = 0;
    for (int64_t j = 0, at = 0; j < n; j++, at = (at + k) % n) {
        long double c = roots[2 * at], s = inverse ? roots[2 * at + 1] : -roots[2 * at + 1];
        sum[0] += x[2 * j] * c - x[2 * j + 1] * s;
        sum[1] += x[2 * j] * s + x[2 * j + 1] * c;
    }
}

static long double size_of(const long double *x, int64_t n)
{
    long double sum = 0;
    for (int64_t i = 0; i < 2 * n; i++) sum += x[i] * x[i];
    return sqrtl(sum);
}

// Of a line of up to this many numbers all results are compared, of a longer one so many.
enum { SHORT = 1100, SPOTS = 41, SUMMED_PRIME = 31 };

// Each prime factor is a sum of so many products, one after the other. A length with a larger one is a convolution: two
// transforms of twice its length follow each other, beside one of the chirp.
static long double units_allowed(int64_t n)
{
    long double units = 4 + log2l((long double)n) / 2;
    int64_t rest = n;
    for (int64_t p = 2; p <= SUMMED_PRIME; p++)
        for (; rest > 0 && rest % p == 0; rest /= p) units += p > 4 ? (long double)p / 8 : 0;
    return rest > 1 ? 3 * units : units;
}

static void compare_lines(kiln_tensor *t, const struct host *x, int64_t n, bool inverse, const char *what)
{
    record.cases++;
    if (!no_error(what) || !same_type(t, x->dtype, x->rank, x->dims, what)) return;
    struct host got = host_read(t);
    long double *roots = roots_of(n);
    long double eps = scalbnl(1, x->dtype == KILN_F64 ? -52 : -23), worst = 0, bound = units_allowed(n);
    for (int64_t line = 0; !suite.is_null && n > 0 && line < x->n / (2 * n); line++) {
        const long double *from = x->v + line * 2 * n;
        long double size = size_of(from, n);
        for (int64_t s = 0; s < (n > SHORT ? SPOTS : n); s++) {
            int64_t k = n > SHORT ? s * (n - 1) / (SPOTS - 1) : s;
            long double want[2];
            reference_line(from, roots, n, k, inverse, want);
            for (int part = 0; part < 2; part++) {
                long double error = fabsl(got.v[(line * n + k) * 2 + part] - want[part]), half = 0;
                if (fraction_bits(x->dtype) < 24) half = scalbnl(fabsl(want[part]), -fraction_bits(x->dtype));
                record.values++;
                worst = fmaxl(worst, (error - half) / (eps * size));
                if (error > half + bound * eps * size)
                    record_mistake("%s: element %lld is %.10Lg, expected %.10Lg", what, (long long)k,
                                   got.v[(line * n + k) * 2 + part], want[part]);
            }
        }
    }
    if (suite.verbose) printf("%s: %.2Lf of %.2Lf units\n", what, worst, bound);
    free(roots);
    host_free(&got);
}

static void run(const char *op, int dtype, int64_t lines, int64_t n, enum host_layout layout, bool inverse)
{
    struct host x;
    kiln_scope *scope = kiln_scope_begin();
    int64_t dims[] = {lines, n, 2};
    kiln_tensor *t = random_tensor(&x, dtype, 3, dims, layout, -1, 1);
    compare_lines(kiln_fft_pairs(t, 1, inverse), &x, n, inverse, case_text(op, &x, layout, inverse ? "inverse" : ""));
    host_free(&x);
    kiln_scope_end(&scope);
}

// Along the first axis: lines that lie side by side.
static void run_columns(const char *op, int dtype, int64_t n, int64_t columns, bool inverse)
{
    struct host x;
    kiln_scope *scope = kiln_scope_begin();
    int64_t dims[] = {columns, n, 2};
    kiln_tensor *t = random_tensor(&x, dtype, 3, dims, LAYOUT_CONTIGUOUS, -1, 1);
    kiln_tensor *across = kiln_contiguous(kiln_transpose(t, 0, 1));
    compare_lines(kiln_transpose(kiln_fft_pairs(across, 0, inverse), 0, 1), &x, n, inverse,
                  case_text(op, &x, LAYOUT_CONTIGUOUS, inverse ? "columns, inverse" : "columns"));
    host_free(&x);
    kiln_scope_end(&scope);
}

void conform_fft_pairs(const char *op)
{
    static const int64_t lengths[] = {0,    1,    2,    3,    4,    5,    6,    7,    8,    9,     12,   16,  23,
                                      27,   30,   31,   32,   35,   37,   64,   97,   100,  101,   128,  243, 1000,
                                      1021, 1024, 1025, 2048, 4096, 4100, 5000, 6144, 8209, 16384, 65536};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        int64_t lines = lengths[i] > 2000 ? 1 : lengths[i] > 200 ? 3 : 19;
        if (thinned((int)i, 2) && lengths[i] > 40) continue;
        for (int inverse = 0; inverse < 2; inverse++) {
            run(op, KILN_F32, lines, lengths[i], LAYOUT_CONTIGUOUS, inverse);
            run(op, KILN_F64, lines, lengths[i], LAYOUT_CONTIGUOUS, inverse);
        }
    }
    for (int layout = 1; layout < LAYOUT_COUNT; layout++)
        for (int64_t n = 6; n < 60; n += 26)
            run(op, thinned(layout, 2) ? KILN_F32 : KILN_F64, 5, n, (enum host_layout)layout, n > 10);
    for (int layout = 1; layout < LAYOUT_COUNT; layout++)
        run(op, thinned(layout, 2) ? KILN_F64 : KILN_F32, 33, 256, (enum host_layout)layout, layout % 2);
    run(op, KILN_F16, 3, 60, LAYOUT_STEP, false);
    run(op, KILN_BF16, 3, 37, LAYOUT_TRANSPOSED, true);
    run(op, KILN_F16, 3, 1024, LAYOUT_CONTIGUOUS, false);
    for (int64_t n = 12; n < 2000; n *= 5) run_columns(op, KILN_F32, n, 37, false);
    run_columns(op, KILN_F32, 512, 45, false);
    run_columns(op, KILN_F32, 256, 67, true);
    run_columns(op, KILN_F64, 1024, 45, true);
    run_columns(op, KILN_BF16, 1024, 45, false);
    kiln_fft_pairs(kiln_zeros(suite.dev, KILN_F32, KILN_SHAPE(3, 3)), 0, false);
    expect_error(KILN_E_SHAPE, op, "no pairs");
    kiln_fft_pairs(kiln_zeros(suite.dev, KILN_F32, KILN_SHAPE(3, 2)), 1, false);
    expect_error(KILN_E_AXIS, op, "the axis of the pairs");
    kiln_fft_pairs(kiln_zeros(suite.dev, KILN_I32, KILN_SHAPE(3, 2)), 0, false);
    expect_error(KILN_E_DTYPE, op, "integers");
}
