// Creation, conversion and copies.
#include "conformance/structured.h"
#include <kiln/ops.h>
#include <string.h>
#include <stdlib.h>

static const struct {
    int rank;
    int64_t dims[4];
} shapes[] = {{0, {0}}, {1, {1}}, {1, {1000}}, {2, {3, 5}}, {3, {0, 2, 4}}, {4, {2, 1, 3, 7}}};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

typedef kiln_tensor *(*shaped_fn)(kiln_device *, kiln_dtype, size_t, const int64_t *);

static void filled(const char *op, shaped_fn fn, double value)
{
    for (int dtype = 0; dtype < DTYPES; dtype++)
        for (int i = 0; i < SHAPES; i++) {
            struct host want = host_new(dtype, shapes[i].rank, shapes[i].dims);
            for (int64_t k = 0; k < want.n; k++) want.v[k] = converted(KILN_F64, dtype, value);
            kiln_tensor *t = fn ? fn(suite.dev, (kiln_dtype)dtype, (size_t)want.rank, want.dims)
                                : kiln_full(suite.dev, (kiln_dtype)dtype, (size_t)want.rank, want.dims, value);
            check_equal(t, &want, case_text(op, &want, LAYOUT_CONTIGUOUS, ""));
            host_free(&want);
        }
    const int64_t negative[] = {2, -1}, huge[] = {INT64_MAX / 2, 9};
    if (fn ? fn(suite.dev, KILN_F32, 2, negative) : kiln_full(suite.dev, KILN_F32, 2, negative, value))
        record_mistake("a negative dimension");
    expect_error(KILN_E_SHAPE, op, "a negative dimension");
    if (fn ? fn(suite.dev, KILN_F64, 2, huge) : kiln_full(suite.dev, KILN_F64, 2, huge, value))
        record_mistake("a size past 2^63");
    record.cases++;
    if (kiln_error() != KILN_E_SHAPE) record_mistake("a size past 2^63 gives %s", kiln_status_name(kiln_error()));
    kiln_error_clear();
}

void conform_full_int(const char *op)
{
    const int64_t values[] = {0, -7, 9007199254740993, INT64_MAX, INT64_MIN, 300};
    for (int dtype = 0; dtype < DTYPES; dtype++)
        for (size_t v = 0; v < sizeof values / sizeof *values; v++)
            for (int i = 0; i < SHAPES; i++) {
                struct host want = host_new(dtype, shapes[i].rank, shapes[i].dims);
                for (int64_t k = 0; k < want.n; k++) want.v[k] = converted(KILN_I64, dtype, values[v]);
                kiln_tensor *t = kiln_full_int(suite.dev, (kiln_dtype)dtype, (size_t)want.rank, want.dims, values[v]);
                check_equal(t, &want, case_text(op, &want, LAYOUT_CONTIGUOUS, ""));
                host_free(&want);
            }
}

void conform_full(const char *op)
{
    const double values[] = {0, 3, 0.1, 117.5, -0.0};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) filled(op, NULL, values[i]);
    for (int dtype = KILN_F16; dtype <= KILN_F64; dtype++) {
        const double special[] = {INFINITY, -INFINITY, NAN, 1e300, -3};
        for (int i = 0; i < 5; i++) {
            struct host want = host_new(dtype, 1, (const int64_t[]){3});
            for (int k = 0; k < 3; k++) want.v[k] = quantized(dtype, special[i]);
            check_equal(kiln_full(suite.dev, (kiln_dtype)dtype, KILN_SHAPE(3), special[i]), &want,
                        "full of a special value");
            host_free(&want);
        }
    }
}

void conform_zeros(const char *op)
{
    filled(op, kiln_zeros, 0);
}

void conform_ones(const char *op)
{
    filled(op, kiln_ones, 1);
}

static void range(const char *op, int dtype, double start, double stop, double step)
{
    int64_t n = (int64_t)fmax(0, ceil((stop - start) / step));
    struct host want = host_new(dtype, 1, &n), scale = host_new(dtype, 1, &n);
    for (int64_t i = 0; i < n; i++) {
        want.v[i] = start + (long double)step * i;
        scale.v[i] = fabsl(start) + fabsl((long double)step * i);
    }
    check_values(kiln_arange(suite.dev, (kiln_dtype)dtype, start, stop, step), &want, &scale, 2,
                 case_text(op, &want, LAYOUT_CONTIGUOUS, ""));
    host_free(&want);
    host_free(&scale);
}

void conform_arange(const char *op)
{
    for (int dtype = KILN_U8; dtype < DTYPES; dtype++) {
        range(op, dtype, 0, 10, 1);
        range(op, dtype, 3, 100, 7);
        range(op, dtype, 5, 5, 1);
        range(op, dtype, 9, 2, -3);
        range(op, dtype, 0, 120, 1);
        if (is_float(dtype)) range(op, dtype, 0, 1, 0.1);
        if (is_float(dtype)) range(op, dtype, -1, 1, 0.0625);
    }
    range(op, KILN_I32, -5, 5, 2);
    range(op, KILN_I64, 1e15, 1e15 + 5, 1);
    range(op, KILN_F32, 0, 3000, 1);
    const struct {
        double start, stop, step;
    } wrong[] = {{0, 1, 0}, {0, INFINITY, 1}, {NAN, 1, 1}, {0, 1, NAN}};
    for (size_t i = 0; i < 4; i++) {
        if (kiln_arange(suite.dev, KILN_F32, wrong[i].start, wrong[i].stop, wrong[i].step))
            record_mistake("arange without a length");
        expect_error(KILN_E_ARGUMENT, op, "a range without a length");
    }
    if (kiln_arange(suite.dev, KILN_I32, 0, 5, 0.5)) record_mistake("arange of integers half a step apart");
    expect_error(KILN_E_ARGUMENT, op, "integers half a step apart");
    if (kiln_arange(suite.dev, KILN_BOOL, 0, 2, 1)) record_mistake("arange of bool");
    expect_error(KILN_E_DTYPE, op, "bool");
}

static void line(const char *op, int dtype, double start, double stop, int64_t n)
{
    struct host want = host_new(dtype, 1, &n), scale = host_new(dtype, 1, &n);
    for (int64_t i = 0; i < n; i++) {
        want.v[i] = n == 1 ? start : start + ((long double)stop - start) * i / (n - 1);
        scale.v[i] = fmaxl(fabsl(start), fabsl(stop));
    }
    kiln_tensor *t = kiln_linspace(suite.dev, (kiln_dtype)dtype, start, stop, n);
    check_values(t, &want, &scale, 4, case_text(op, &want, LAYOUT_CONTIGUOUS, ""));
    struct host got = host_read(t);
    bool ends = got.v && n > 1 && !suite.is_null;
    if (ends && (got.v[n - 1] != quantized(dtype, stop) || got.v[0] != quantized(dtype, start)))
        record_mistake("linspace of %lld goes from %.9Lg to %.9Lg, not %.9g to %.9g", (long long)n, got.v[0],
                       got.v[n - 1], start, stop);
    host_free(&got);
    host_free(&want);
    host_free(&scale);
}

// Integers are what lies on the line, rounded down.
static void whole_line(const char *op, int dtype, double start, double stop, int64_t n)
{
    struct host want = host_new(dtype, 1, &n);
    for (int64_t i = 0; i < n; i++)
        want.v[i] = wrapped(dtype, (int64_t)floorl(n == 1 ? start : start + ((long double)stop - start) * i / (n - 1)));
    check_equal(kiln_linspace(suite.dev, (kiln_dtype)dtype, start, stop, n), &want,
                case_text(op, &want, LAYOUT_CONTIGUOUS, ""));
    host_free(&want);
}

void conform_linspace(const char *op)
{
    for (int64_t n = 2; n < 200; n++) line(op, KILN_F32 + n % 2, 0.1 * (double)n, 0.7, n);
    line(op, KILN_F32, -3e38, 3e38, 2);
    line(op, KILN_F64, -1.5e308, 1.5e308, 5);
    for (int dtype = KILN_U8; dtype <= KILN_I64; dtype++) {
        whole_line(op, dtype, 0, 10, 5);
        whole_line(op, dtype, 3, 4, 8);
        whole_line(op, dtype, 0.5, 7.25, 10);
        whole_line(op, dtype, 9, 2, 50);
        whole_line(op, dtype, 2, 9, 1);
        whole_line(op, dtype, 2, 9, 0);
        if (dtype == KILN_U8) continue;
        whole_line(op, dtype, 10, -10, 7);
        whole_line(op, dtype, -0.5, -7.5, 4);
    }
    whole_line(op, KILN_I64, 0x1p60, 0x1p60 + 0x1p40, 3);
    whole_line(op, KILN_I32, 0, 7, 50);
    for (int dtype = KILN_F16; dtype <= KILN_F64; dtype++) {
        line(op, dtype, 0, 1, 11);
        line(op, dtype, -2, 3, 50);
        line(op, dtype, 5, -5, 7);
        line(op, dtype, 2, 9, 1);
        line(op, dtype, 2, 9, 0);
        line(op, dtype, 0, 0.3, 8);
    }
    if (kiln_linspace(suite.dev, KILN_F32, 0, 1, -1)) record_mistake("linspace of -1 values");
    expect_error(KILN_E_ARGUMENT, op, "a negative count");
}

// Values of `from` that try the limits of `to`, then random ones.
static struct host cast_values(int from, int to)
{
    const int64_t n = 96;
    struct host h = host_new(from, 1, &n);
    const long double limits[] = {0,
                                  -0.0L,
                                  1,
                                  -1,
                                  0.5L,
                                  -0.5L,
                                  0.99L,
                                  1.5L,
                                  2.5L,
                                  -2.5L,
                                  127,
                                  128,
                                  -128,
                                  -129,
                                  255,
                                  256,
                                  32767,
                                  32768,
                                  -32769,
                                  65504,
                                  65519,
                                  65520,
                                  65536,
                                  2147483520,
                                  2147483648.0L,
                                  -2147483648.0L,
                                  16777217,
                                  9.2e18L,
                                  -9.3e18L,
                                  1e30L,
                                  -1e30L,
                                  1e-30L,
                                  1e-8L,
                                  6e-8L,
                                  INFINITY,
                                  -INFINITY,
                                  9223372036854776833.0L,
                                  18446744073709551615.0L,
                                  1.7e19L,
                                  1.9e19L,
                                  4294967295.0L,
                                  4294967296.0L,
                                  9007199254740993.0L,
                                  NAN,
                                  1e39L,
                                  257,
                                  259,
                                  300,
                                  -300,
                                  3.3895e38L,
                                  1e-40L};
    int k = 0;
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        if (!is_float(from) && !(limits[i] >= integer_min(from) && limits[i] <= integer_max(from))) continue;
        h.v[k++] = converted(KILN_F64, from, limits[i]);
    }
    (void)to;
    for (; k < n; k++) {
        long double v = random_between(&structured_random, -300, 300);
        h.v[k] = is_float(from) ? quantized(from, v) : wrapped(from, (int64_t)v);
    }
    return h;
}

static long double cast_value(int from, int to, long double v)
{
    // 16-bit floats are made from f32.
    if (to == KILN_F16 || to == KILN_BF16) v = quantized(KILN_F32, v);
    return converted(is_float(to) ? to : from, to, v);
}

static void cast(const char *op, int from, int to, enum host_layout layout)
{
    kiln_scope *scope = kiln_scope_begin();
    struct host x = cast_values(from, to);
    if (layout != LAYOUT_CONTIGUOUS) x.rank = 3, x.dims[0] = 4, x.dims[1] = 6, x.dims[2] = 4;
    if (layout == LAYOUT_EXPANDED) host_repeat_first(&x);
    struct host want = host_new(to, x.rank, x.dims);
    for (int64_t i = 0; i < x.n; i++) want.v[i] = cast_value(from, to, x.v[i]);
    kiln_tensor *t = host_tensor(suite.dev, &x, layout);
    check_equal(kiln_cast(t, (kiln_dtype)to), &want, case_text(op, &x, layout, kiln_dtype_name((kiln_dtype)to)));
    host_free(&x);
    host_free(&want);
    kiln_scope_end(&scope);
}

void conform_cast(const char *op)
{
    for (int from = 0; from < DTYPES; from++)
        for (int to = 0; to < DTYPES; to++)
            for (int layout = 0; layout < LAYOUT_COUNT; layout++)
                if (layout == LAYOUT_CONTIGUOUS || !thinned(from * 3 + to * 5 + layout, 6))
                    cast(op, from, to, (enum host_layout)layout);
    kiln_tensor *x = kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(2)),
                *none = kiln_zeros(suite.dev, KILN_I8, KILN_SHAPE(0, 3));
    struct host empty = host_new(KILN_F32, 2, (const int64_t[]){0, 3});
    check_equal(kiln_cast(none, KILN_F32), &empty, "cast of nothing");
    host_free(&empty);
    if (kiln_cast(x, (kiln_dtype)77)) record_mistake("cast takes dtype 77");
    expect_error(KILN_E_DTYPE, op, "a dtype that is none");
}

// The bytes of x, row by row, read as the other dtype.
static struct host reread(const struct host *x, int to)
{
    size_t from_B = element_size_B(x->dtype), to_B = element_size_B(to);
    int64_t dims[HOST_MAX_RANK];
    unsigned char *bytes = malloc((size_t)x->n * from_B + 1);
    memcpy(dims, x->dims, sizeof dims);
    dims[x->rank - 1] = dims[x->rank - 1] * (int64_t)from_B / (int64_t)to_B;
    struct host y = host_new(to, x->rank, dims);
    for (int64_t i = 0; i < x->n; i++) encode(x->dtype, x->v[i], bytes + (size_t)i * from_B);
    for (int64_t i = 0; i < y.n; i++) y.v[i] = decode(to, bytes + (size_t)i * to_B);
    free(bytes);
    return y;
}

void conform_bitcast(const char *op)
{
    for (int from = 0; from < DTYPES; from++)
        for (int to = KILN_U8; to < DTYPES; to++)
            for (int layout = 0; layout < LAYOUT_COUNT; layout++) {
                if (layout != LAYOUT_CONTIGUOUS && thinned(from * 3 + to * 5 + layout, 6)) continue;
                struct host x;
                kiln_tensor *t = random_tensor(&x, from, 3, (const int64_t[]){3, 5, 8}, (enum host_layout)layout, 0, 9);
                struct host want = reread(&x, to);
                kiln_tensor *y = kiln_bitcast(t, (kiln_dtype)to);
                check_equal(y, &want, case_text(op, &x, (enum host_layout)layout, kiln_dtype_name((kiln_dtype)to)));
                host_free(&want);
                host_free(&x);
            }
    kiln_tensor *x = kiln_ones(suite.dev, KILN_U8, KILN_SHAPE(2, 6)),
                *one = kiln_ones(suite.dev, KILN_F32, KILN_SHAPE0);
    if (kiln_bitcast(x, KILN_F32)) record_mistake("bitcast takes one and a half elements");
    expect_error(KILN_E_SHAPE, op, "6 bytes as f32");
    if (kiln_bitcast(one, KILN_U8)) record_mistake("bitcast takes rank 0 apart");
    expect_error(KILN_E_SHAPE, op, "rank 0 in another size");
    if (kiln_bitcast(x, (kiln_dtype)77)) record_mistake("bitcast takes dtype 77");
    expect_error(KILN_E_DTYPE, op, "a dtype that is none");
}

void conform_contiguous(const char *op)
{
    for (int dtype = 0; dtype < DTYPES; dtype++)
        for (int layout = 0; layout < LAYOUT_COUNT; layout++) {
            if (thinned(dtype + layout, 2)) continue;
            struct host x;
            kiln_tensor *t = random_tensor(&x, dtype, 3, (const int64_t[]){4, 7, 9}, (enum host_layout)layout, -99, 99);
            kiln_tensor *y = kiln_contiguous(t);
            check_equal(y, &x, case_text(op, &x, (enum host_layout)layout, ""));
            if (y && (!kiln_is_contiguous(y) || kiln_is_view_of(y, t)))
                record_mistake("contiguous is not a copy in row-major order");
            host_free(&x);
        }
}
