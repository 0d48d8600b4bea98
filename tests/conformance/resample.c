// Axes of other sizes, against sums of the elements that each place lies between, and their transposition.
#include "base/process.h"
#include "conformance/structured.h"
#include <kiln/ops.h>
#include <stdlib.h>
#include <string.h>

struct axis {
    int64_t in, out;
    double step;
    bool align, cubic;
};

static long double keys(long double d)
{
    const long double a = -0.75L;
    d = fabsl(d);
    return d <= 1 ? (a + 2) * d * d * d - (a + 3) * d * d + 1 : d < 2 ? a * (d * d * d - 5 * d * d + 8 * d - 4) : 0;
}

// The factor of element k of the axis in element i of the result.
static long double factor(const struct axis *a, int64_t i, int64_t k)
{
    long double at = a->align ? (long double)i * a->step : ((long double)i + 0.5L) * a->step - 0.5L, sum = 0;
    if (at < 0 && !a->cubic) at = 0;
    for (int64_t j = (int64_t)floorl(at) - 2; j <= (int64_t)floorl(at) + 3; j++) {
        int64_t inside = j < 0 ? 0 : j >= a->in ? a->in - 1 : j;
        long double d = at - (long double)j;
        if (inside == k) sum += a->cubic ? keys(d) : fmaxl(0, 1 - fabsl(d));
    }
    return sum;
}

// f times elements k of x's middle axis to elements i of y's.
static void add_scaled(long double f, int64_t lead, int64_t to, int64_t from, int64_t behind, int64_t i, int64_t k,
                       const long double *x, const long double *size, long double *y, long double *y_size)
{
    for (int64_t row = 0; row < lead; row++)
        for (int64_t c = 0; c < behind; c++) {
            int64_t at = (row * from + k) * behind + c, n = (row * to + i) * behind + c;
            y[n] += f * x[at];
            y_size[n] += (1 + fabsl(f)) * size[at];
        }
}

// x [lead, from, behind] as [lead, to, behind], and the sizes of the terms of each element.
static void along(const struct axis *a, bool adjoint, int64_t lead, int64_t behind, const long double *x,
                  const long double *size, long double *y, long double *y_size)
{
    int64_t from = adjoint ? a->out : a->in, to = adjoint ? a->in : a->out;
    for (int64_t n = 0; n < lead * to * behind; n++) y[n] = y_size[n] = 0;
    for (int64_t i = 0; i < to; i++)
        for (int64_t k = 0; k < from; k++) {
            long double f = adjoint ? factor(a, k, i) : factor(a, i, k);
            if (f != 0) add_scaled(f, lead, to, from, behind, i, k, x, size, y, y_size);
        }
}

// n values, each within eps of the sizes of its terms, and a place more.
static void compare_values(kiln_tensor *t, int dtype, int64_t n, const long double *want, const long double *size,
                           long double eps, long double place, const char *what)
{
    struct host got = host_read(t);
    for (int64_t i = 0; !suite.is_null && i < n; i++) {
        long double half = fraction_bits(dtype) < 24 ? scalbnl(fabsl(want[i]), -fraction_bits(dtype)) : 0;
        record.values++;
        if (!(fabsl(got.v[i] - want[i]) <= half + eps * size[i] + place))
            record_mistake("%s: element %lld is %.10Lg, expected %.10Lg", what, (long long)i, got.v[i], want[i]);
    }
    host_free(&got);
}

static long double unit_of(int dtype)
{
    return scalbnl(1, dtype == KILN_F64 ? -52 : -23);
}

// x [lead, from, behind].
static void compare(kiln_tensor *t, const struct host *x, const struct axis *a, bool adjoint, const char *what)
{
    int64_t lead = x->dims[0], to = adjoint ? a->in : a->out, behind = x->dims[2], n = lead * to * behind;
    record.cases++;
    if (!no_error(what) || !same_type(t, x->dtype, 3, (int64_t[]){lead, to, behind}, what)) return;
    long double *size = malloc((size_t)(x->n + 2 * n + 1) * sizeof *size), *want = size + x->n, *want_size = want + n;
    for (int64_t i = 0; i < x->n; i++) size[i] = fabsl(x->v[i]);
    along(a, adjoint, lead, behind, x->v, size, want, want_size);
    // Places are numbers in f64, of which those far along the axis have fewer digits behind the point.
    long double place = scalbnl((long double)(a->in + a->out), -50) * (adjoint ? 8 : 1);
    compare_values(t, x->dtype, n, want, want_size, 2 * unit_of(x->dtype), place, what);
    free(size);
}

static void run(const char *op, int dtype, const int64_t dims[3], const struct axis *a, enum host_layout layout,
                bool adjoint)
{
    struct host x;
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *t = random_tensor(&x, dtype, 3, dims, layout, -1, 1);
    kiln_tensor *y = kiln_resample(t, 1, adjoint ? a->in : a->out, a->step, a->align, a->cubic, adjoint);
    compare(y, &x, a, adjoint, case_text(op, &x, layout, adjoint ? "adjoint" : a->cubic ? "cubic" : ""));
    host_free(&x);
    kiln_scope_end(&scope);
}

static void run_all(const char *op, int dtype, int64_t in, int64_t out, enum host_layout layout)
{
    static const int64_t around[][2] = {{3, 1}, {2, 5}, {1, 19}, {13, 2}, {21, 1}};
    for (int how = 0; how < 4; how++) {
        struct axis a = {in, out, (double)in / (double)out, how % 2 == 1, how > 1};
        if (a.align) a.step = out > 1 ? (double)(in - 1) / (double)(out - 1) : 0;
        for (int adjoint = 0; adjoint < 2; adjoint++) {
            const int64_t *sizes = around[(in + out + how + adjoint) % 5];
            run(op, dtype, (int64_t[]){sizes[0], adjoint ? out : in, sizes[1]}, &a, layout, adjoint);
        }
    }
}

// The last entries along `aside` of a result that goes past the caches have the bits that they have by themselves.
static void past_caches(const char *op, int aside, bool cubic)
{
    enum { IN = 96, OUT = 70, TESTED = 37 };
    int64_t n = process_last_cache_B() / (4 * (IN + OUT)) + 5, axis = 1 - aside;
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *x = kiln_sin(kiln_arange(suite.dev, KILN_F32, 0, (double)(n * IN), 1));
    x = kiln_reshape(x, KILN_SHAPE(aside ? IN : n, aside ? n : IN));
    const int64_t start[] = {aside ? 0 : n - TESTED, aside ? n - TESTED : 0};
    kiln_tensor *part = kiln_contiguous(kiln_slice(x, KILN_SLICE(.start = {2, start})));
    kiln_tensor *want = kiln_resample(part, axis, OUT, (double)IN / OUT, false, cubic, false);
    kiln_tensor *y = kiln_resample(x, axis, OUT, (double)IN / OUT, false, cubic, false);
    kiln_tensor *got = kiln_slice(y, KILN_SLICE(.start = {2, start}));
    struct host w = host_read(want), g = host_read(got);
    record.cases++;
    bool same = no_error(op) && w.n == OUT * TESTED && g.n == w.n;
    for (int64_t i = 0; same && i < w.n; i++) same = w.v[i] == g.v[i];
    if (!same) record_mistake("%s: a large result differs, axis %d", op, (int)axis);
    record.values += (uint64_t)w.n;
    host_free(&w);
    host_free(&g);
    kiln_scope_end(&scope);
}

void conform_resample(const char *op)
{
    static const int64_t sizes[] = {1, 2, 3, 5, 16, 17, 31, 32, 33, 37, 64, 67, 130};
    int count = (int)(sizeof sizes / sizeof sizes[0]);
    for (int i = 0; i < count * count; i++) {
        if (thinned(i, 3)) continue;
        run_all(op, i % 4 ? KILN_F32 : KILN_F64, sizes[i / count], sizes[i % count], LAYOUT_CONTIGUOUS);
    }
    for (int layout = 1; layout < LAYOUT_COUNT; layout++) run_all(op, KILN_F32, 37, 50, (enum host_layout)layout);
    run_all(op, KILN_F16, 9, 13, LAYOUT_STEP);
    run_all(op, KILN_BF16, 33, 12, LAYOUT_TRANSPOSED);
    run_all(op, KILN_F32, 256, 224, LAYOUT_CONTIGUOUS);
    const int64_t large_B = (int64_t)1 << 28;
    for (int how = 0; strcmp(suite.device, "cpu") == 0 && process_last_cache_B() <= large_B && how < 4; how++)
        past_caches(op, how % 2, how > 1);
    kiln_tensor *x = kiln_zeros(suite.dev, KILN_F32, KILN_SHAPE(3, 0, 4)), *of_ints = kiln_cast(x, KILN_I32);
    kiln_resample(x, 1, 3, 1, false, false, false);
    expect_error(KILN_E_SHAPE, op, "an axis without elements");
    kiln_resample(x, 0, 0, 1, false, false, false);
    expect_error(KILN_E_ARGUMENT, op, "size 0");
    kiln_resample(x, 0, 2, -1, false, false, false);
    expect_error(KILN_E_ARGUMENT, op, "step -1");
    kiln_resample(x, 3, 2, 1, false, false, false);
    expect_error(KILN_E_AXIS, op, "axis 3");
    kiln_resample(of_ints, 0, 2, 1, false, false, false);
    expect_error(KILN_E_DTYPE, op, "integers");
    struct axis none = {3, 5, 0.6, false, false};
    run(op, KILN_F32, (int64_t[]){2, 3, 0}, &none, LAYOUT_CONTIGUOUS, false);
}

// --- two axes

// x [lead, height, width].
static void compare_planes(kiln_tensor *t, const struct host *x, const struct axis axes[2], bool adjoint,
                           const char *what)
{
    int64_t to[2], lead = x->dims[0], width = x->dims[2];
    for (int i = 0; i < 2; i++) to[i] = adjoint ? axes[i].in : axes[i].out;
    record.cases++;
    if (!no_error(what) || !same_type(t, x->dtype, 3, (int64_t[]){lead, to[0], to[1]}, what)) return;
    int64_t n = lead * to[0] * to[1], n_mid = lead * to[0] * width;
    long double *size = malloc((size_t)(x->n + 2 * n_mid + 2 * n) * sizeof *size), *mid = size + x->n;
    long double *mid_size = mid + n_mid, *want = mid_size + n_mid, *want_size = want + n;
    for (int64_t i = 0; i < x->n; i++) size[i] = fabsl(x->v[i]);
    along(&axes[0], adjoint, lead, width, x->v, size, mid, mid_size);
    along(&axes[1], adjoint, lead * to[0], 1, mid, mid_size, want, want_size);
    compare_values(t, x->dtype, n, want, want_size, 3 * unit_of(x->dtype), scalbnl(1, -40), what);
    free(size);
}

static void run_planes(const char *op, int dtype, int64_t lead, const int64_t in[2], const int64_t out[2],
                       enum host_layout layout)
{
    for (int how = 0; how < 8; how++) {
        bool align = how % 2 == 1, cubic = how / 2 % 2 == 1, adjoint = how > 3;
        struct axis a[2];
        for (int i = 0; i < 2; i++) {
            a[i] = (struct axis){in[i], out[i], (double)in[i] / (double)out[i], align, cubic};
            if (align) a[i].step = out[i] > 1 ? (double)(in[i] - 1) / (double)(out[i] - 1) : 0;
        }
        const int64_t *from = adjoint ? out : in, *to = adjoint ? in : out;
        struct host x;
        kiln_scope *scope = kiln_scope_begin();
        kiln_tensor *t = random_tensor(&x, dtype, 3, (int64_t[]){lead, from[0], from[1]}, layout, -1, 1);
        kiln_tensor *y = kiln_resample2d(t, to[0], to[1], a[0].step, a[1].step, align, cubic, adjoint);
        compare_planes(y, &x, a, adjoint, case_text(op, &x, layout, adjoint ? "adjoint" : cubic ? "cubic" : ""));
        host_free(&x);
        kiln_scope_end(&scope);
    }
}

// Planes of a result that goes past the caches have the bits that they have by themselves.
static void planes_past_caches(const char *op, int64_t height, bool cubic)
{
    enum { IN = 96, WIDTH = 75, TESTED = 3 };
    int64_t n = process_last_cache_B() / (4 * (IN * IN + height * WIDTH)) + 5;
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *x = kiln_sin(kiln_arange(suite.dev, KILN_F32, 0, (double)(n * IN * IN), 1));
    x = kiln_reshape(x, KILN_SHAPE(n, IN, IN));
    double steps[] = {(double)IN / (double)height, (double)IN / WIDTH};
    kiln_tensor *part = kiln_contiguous(kiln_narrow(x, 0, n - TESTED, TESTED));
    kiln_tensor *want = kiln_resample2d(part, height, WIDTH, steps[0], steps[1], false, cubic, false);
    kiln_tensor *y = kiln_resample2d(x, height, WIDTH, steps[0], steps[1], false, cubic, false);
    struct host w = host_read(want), g = host_read(kiln_narrow(y, 0, n - TESTED, TESTED));
    record.cases++;
    bool same = no_error(op) && w.n == height * WIDTH * TESTED && g.n == w.n;
    for (int64_t i = 0; same && i < w.n; i++) same = w.v[i] == g.v[i];
    if (!same) record_mistake("%s: a large result of height %lld differs", op, (long long)height);
    record.values += (uint64_t)w.n;
    host_free(&w);
    host_free(&g);
    kiln_scope_end(&scope);
}

void conform_resample2d(const char *op)
{
    static const int64_t sizes[][2] = {{1, 1}, {2, 3}, {5, 17}, {33, 8}, {40, 41}, {7, 67}, {65, 31}, {16, 1}, {1, 20}};
    int count = (int)(sizeof sizes / sizeof sizes[0]);
    for (int i = 0; i < count * count; i++) {
        if (thinned(i, 3)) continue;
        run_planes(op, i % 4 ? KILN_F32 : KILN_F64, 1 + i % 3, sizes[i / count], sizes[i % count], LAYOUT_CONTIGUOUS);
    }
    for (int layout = 1; layout < LAYOUT_COUNT; layout++)
        run_planes(op, KILN_F32, 2, (int64_t[]){37, 20}, (int64_t[]){19, 50}, (enum host_layout)layout);
    run_planes(op, KILN_F16, 2, (int64_t[]){9, 12}, (int64_t[]){13, 7}, LAYOUT_STEP);
    run_planes(op, KILN_BF16, 2, (int64_t[]){33, 5}, (int64_t[]){12, 9}, LAYOUT_TRANSPOSED);
    run_planes(op, KILN_F32, 1, (int64_t[]){3, 1500}, (int64_t[]){5, 1100}, LAYOUT_CONTIGUOUS);
    const int64_t large_B = (int64_t)1 << 28;
    for (int how = 0; strcmp(suite.device, "cpu") == 0 && process_last_cache_B() <= large_B && how < 4; how++)
        planes_past_caches(op, how % 2 ? 70 : 130, how > 1);
    kiln_tensor *x = kiln_zeros(suite.dev, KILN_F32, KILN_SHAPE(3, 0, 4)),
                *line = kiln_zeros(suite.dev, KILN_F32, KILN_SHAPE(3));
    kiln_resample2d(x, 3, 3, 1, 1, false, false, false);
    expect_error(KILN_E_SHAPE, op, "an axis without elements");
    kiln_resample2d(line, 3, 3, 1, 1, false, false, false);
    expect_error(KILN_E_SHAPE, op, "one axis");
    x = kiln_zeros(suite.dev, KILN_F32, KILN_SHAPE(3, 4));
    kiln_resample2d(x, 0, 3, 1, 1, false, false, false);
    expect_error(KILN_E_ARGUMENT, op, "height 0");
    kiln_resample2d(x, 3, 3, 1, -1, false, false, false);
    expect_error(KILN_E_ARGUMENT, op, "a width's step of -1");
    kiln_resample2d(kiln_cast(x, KILN_I32), 3, 3, 1, 1, false, false, false);
    expect_error(KILN_E_DTYPE, op, "integers");
}
