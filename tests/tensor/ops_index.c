// Movement, indices, scans and sorting against plain loops, on the CPU and, where there is a driver, on Vulkan.
#include "ops_check.h"

static bool on_gpu;

static uint32_t noise_state = 1;
static uint32_t noise(void)
{
    noise_state = noise_state * 1664525u + 1013904223u;
    return noise_state >> 8;
}

// A tensor of numbers [low, low + range) as `dtype`, and the same on the host.
static kiln_tensor *numbers(kiln_dtype dtype, size_t rank, const int64_t *dims, int low, int range, double *host)
{
    int64_t n = 1;
    for (size_t i = 0; i < rank; i++) n *= dims[i];
    for (int64_t i = 0; i < n; i++) host[i] = low + (int)(noise() % (uint32_t)range);
    kiln_tensor *wide = kiln_from_data(dev, KILN_F64, rank, dims, host);
    kiln_tensor *t = kiln_cast(wide, dtype);
    OK();
    return t;
}

static kiln_tensor *line(kiln_dtype dtype, double start, double n)
{
    return kiln_arange(dev, dtype, start, start + n, 1);
}

static const kiln_dtype some_dtypes[] = {KILN_U8, KILN_I16, KILN_I32, KILN_I64, KILN_F16, KILN_F32, KILN_F64};
#define N_DTYPES (sizeof some_dtypes / sizeof *some_dtypes)

TEST_BODY(test_concat)
{
    for (size_t d = 0; d < N_DTYPES; d++) {
        double a[24], b[36], want[60];
        kiln_tensor *x = numbers(some_dtypes[d], KILN_SHAPE(2, 3, 4), 0, 100, a),
                    *y = numbers(some_dtypes[d], KILN_SHAPE(2, 3, 6), 0, 100, b);
        for (int i = 0; i < 6; i++) {
            for (int k = 0; k < 4; k++) want[i * 10 + k] = a[i * 4 + k];
            for (int k = 0; k < 6; k++) want[i * 10 + 4 + k] = b[i * 6 + k];
        }
        kiln_tensor *const both[] = {x, y};
        EXPECT(kiln_concat(both, 2, -1), want, 60);
    }
    kiln_tensor *const mixed[] = {line(KILN_I32, 0, 2), line(KILN_F16, 5, 1), line(KILN_I32, 0, 0)};
    kiln_tensor *t = kiln_concat(mixed, 3, 0);
    EXPECT_LIST(t, 0, 1, 5);
    assert_int_equal(kiln_tensor_dtype(t), KILN_F16);
    kiln_tensor *const bad[] = {line(KILN_I32, 0, 2), kiln_zeros(dev, KILN_I32, KILN_SHAPE(2, 2))};
    assert_null(kiln_concat(bad, 2, 0));
    EXPECT_FAILURE(KILN_E_SHAPE, "concat");
    assert_null(kiln_concat(mixed, 2, 1));
    EXPECT_FAILURE(KILN_E_AXIS, "concat");
}

TEST_BODY(test_stack)
{
    kiln_tensor *const both[] = {line(KILN_F32, 0, 3), line(KILN_F32, 10, 3)};
    kiln_tensor *rows = kiln_stack(both, 2, 0), *columns = kiln_stack(both, 2, -1);
    EXPECT_SHAPE(rows, 2, 3);
    EXPECT_LIST(rows, 0, 1, 2, 10, 11, 12);
    EXPECT_SHAPE(columns, 3, 2);
    EXPECT_LIST(columns, 0, 10, 1, 11, 2, 12);
    assert_null(kiln_stack(both, 2, 2));
    EXPECT_FAILURE(KILN_E_AXIS, "stack");
    kiln_tensor *many[20];
    for (int i = 0; i < 20; i++) many[i] = line(KILN_I64, i, 2);
    kiln_tensor *t = kiln_stack(many, 20, 0);
    EXPECT_SHAPE(t, 20, 2);
    for (int i = 0; i < 20; i++) assert_int_equal(kiln_item_int(kiln_select(kiln_select(t, 0, i), 0, 1)), i + 1);
}

TEST_BODY(test_tile_and_repeat)
{
    kiln_tensor *x = kiln_reshape(line(KILN_I32, 0, 6), KILN_SHAPE(2, 3));
    EXPECT_LIST(kiln_tile(x, KILN_SHAPE(2)), 0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5);
    kiln_tensor *t = kiln_tile(x, KILN_SHAPE(2, 2, 1));
    EXPECT_SHAPE(t, 2, 4, 3);
    EXPECT_LIST(t, 0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5);
    EXPECT_SHAPE(kiln_tile(x, KILN_SHAPE(0, 2)), 0, 6);
    // Five repeated axes of five: more dimensions than one space has.
    double host[32];
    kiln_tensor *y = numbers(KILN_F32, KILN_SHAPE(2, 2, 2, 2, 2), 0, 50, host),
                *z = kiln_tile(y, KILN_SHAPE(2, 2, 2, 2, 2));
    double want[1024];
    for (int i = 0; i < 1024; i++) {
        int from = 0;
        for (int a = 0; a < 5; a++) from = from * 2 + (i >> (2 * (4 - a)) & 3) % 2;
        want[i] = host[from];
    }
    EXPECT(z, want, 1024);
    EXPECT_LIST(kiln_repeat_interleave(x, 2, 1), 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5);
    EXPECT_LIST(kiln_repeat_interleave(x, 2, 0), 0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5);
    kiln_tensor *deep = kiln_reshape(line(KILN_F32, 0, 2), KILN_SHAPE(1, 1, 1, 1, 1, 1, 1, 2));
    EXPECT_LIST(kiln_repeat_interleave(deep, 2, -1), 0, 0, 1, 1);
    assert_null(kiln_tile(x, KILN_SHAPE(-1)));
    EXPECT_FAILURE(KILN_E_ARGUMENT, "tile");
}

TEST_BODY(test_roll)
{
    kiln_tensor *x = kiln_reshape(line(KILN_F32, 0, 6), KILN_SHAPE(2, 3));
    EXPECT_LIST(kiln_roll(x, KILN_AXES(1), KILN_AXES(-1)), 2, 0, 1, 5, 3, 4);
    EXPECT_LIST(kiln_roll(x, KILN_AXES(-8), KILN_AXES0), 2, 3, 4, 5, 0, 1);
    EXPECT_LIST(kiln_roll(x, KILN_AXES(1, -1), KILN_AXES(0, 1)), 4, 5, 3, 1, 2, 0);
    EXPECT_LIST(kiln_roll(kiln_transpose(x, 0, 1), KILN_AXES(1), KILN_AXES0), 5, 0, 3, 1, 4, 2);
    assert_null(kiln_roll(x, KILN_AXES(1, 1), KILN_AXES0));
    EXPECT_FAILURE(KILN_E_ARGUMENT, "roll");
}

static int64_t padded_from(int64_t i, int64_t before, int64_t n, int mode)
{
    int64_t k = i - before;
    if (k >= 0 && k < n) return k;
    if (mode == KILN_PAD_CONSTANT) return -1;
    if (mode == KILN_PAD_REFLECT) return k < 0 ? -k : 2 * (n - 1) - k;
    if (mode == KILN_PAD_EDGE) return k < 0 ? 0 : n - 1;
    return (k + n) % n;
}

TEST_BODY(test_pad)
{
    for (int mode = 0; mode < 4; mode++)
        for (size_t d = 0; d < N_DTYPES; d++) {
            double host[60], want[4 * 9 * 6];
            kiln_tensor *x = numbers(some_dtypes[d], KILN_SHAPE(3, 4, 5), 0, 100, host);
            kiln_tensor *y =
                kiln_pad(x, KILN_PAD(.before = KILN_ARGS(1, 2), .after = KILN_ARGS(0, 3, 1), .value = 7, .mode = mode));
            EXPECT_SHAPE(y, 4, 9, 6);
            for (int i = 0; i < 4 * 9 * 6; i++) {
                int64_t a = padded_from(i / 54, 1, 3, mode), b = padded_from(i / 6 % 9, 2, 4, mode),
                        c = padded_from(i % 6, 0, 5, mode);
                want[i] = a < 0 || b < 0 || c < 0 ? 7 : host[a * 20 + b * 5 + c];
            }
            EXPECT(y, want, 4 * 9 * 6);
        }
    kiln_tensor *x = kiln_zeros(dev, KILN_F32, KILN_SHAPE(3));
    assert_null(kiln_pad(x, KILN_PAD(.before = KILN_ARGS(3), .mode = KILN_PAD_REFLECT)));
    EXPECT_FAILURE(KILN_E_ARGUMENT, "pad");
    assert_null(kiln_pad(x, KILN_PAD(.before = KILN_ARGS(1, 1))));
    EXPECT_FAILURE(KILN_E_SHAPE, "pad");
    EXPECT_LIST(kiln_pad(x, NULL), 0, 0, 0);
}

TEST_BODY(test_triangles)
{
    for (size_t d = 0; d < N_DTYPES; d++)
        for (int k = -3; k <= 3; k++) {
            double host[40], low[40], high[40];
            kiln_tensor *x = numbers(some_dtypes[d], KILN_SHAPE(2, 4, 5), 1, 90, host);
            for (int i = 0; i < 40; i++) {
                int row = i / 5 % 4, column = i % 5;
                low[i] = column - row <= k ? host[i] : 0;
                high[i] = column - row >= k ? host[i] : 0;
            }
            EXPECT(kiln_tril(x, k), low, 40);
            EXPECT(kiln_triu(x, k), high, 40);
        }
    EXPECT_LIST(kiln_eye(dev, KILN_I64, 2, 3), 1, 0, 0, 0, 1, 0);
    EXPECT_LIST(kiln_eye(dev, KILN_BOOL, 3, 1), 1, 0, 0);
    kiln_tensor *x = kiln_zeros(dev, KILN_F16, KILN_SHAPE(2, 1));
    EXPECT_LIST(kiln_full_like(x, 2.5), 2.5, 2.5);
    EXPECT_LIST(kiln_ones_like(x), 1, 1);
    EXPECT_LIST(kiln_zeros_like(x), 0, 0);
    assert_int_equal(kiln_tensor_dtype(kiln_ones_like(x)), KILN_F16);
}

TEST_BODY(test_gather)
{
    static const kiln_dtype index_dtypes[] = {KILN_I32, KILN_I64, KILN_I16, KILN_I8};
    for (size_t d = 0; d < N_DTYPES; d++) {
        double host[120], index[72], want[72];
        kiln_tensor *x = numbers(some_dtypes[d], KILN_SHAPE(4, 5, 6), 0, 100, host);
        kiln_tensor *i = numbers(index_dtypes[d % 4], KILN_SHAPE(4, 3, 6), -5, 10, index);
        for (int k = 0; k < 72; k++) {
            int at = (int)index[k] < 0 ? (int)index[k] + 5 : (int)index[k];
            want[k] = host[k / 18 * 30 + at * 6 + k % 6];
        }
        EXPECT(kiln_gather(x, 1, i), want, 72);
        // The same through views whose axes lie otherwise.
        kiln_tensor *xt = kiln_transpose(kiln_contiguous(kiln_transpose(x, 0, 2)), 0, 2);
        EXPECT(kiln_gather(xt, -2, i), want, 72);
        kiln_tensor *rows =
            kiln_embedding(kiln_select(x, 0, 1),
                           kiln_cast(kiln_from_data(dev, KILN_I32, KILN_SHAPE(2, 2), (const int32_t[]){4, 0, -1, 2}),
                                     index_dtypes[d % 4]));
        EXPECT_SHAPE(rows, 2, 2, 6);
        static const int ids[] = {4, 0, 4, 2};
        for (int k = 0; k < 24; k++) want[k] = host[30 + ids[k / 6] * 6 + k % 6];
        EXPECT(rows, want, 24);
    }
    kiln_tensor *x = line(KILN_F32, 0, 3), *bad = kiln_from_data(dev, KILN_I64, KILN_SHAPE(2), (const int64_t[]){1, 3});
    if (on_gpu)
        EXPECT_LIST(kiln_gather(x, 0, bad), 1, 0);
    else {
        assert_null(kiln_gather(x, 0, bad));
        assert_non_null(strstr(kiln_error_message(), "index 3 "));
        EXPECT_FAILURE(KILN_E_ARGUMENT, "gather");
    }
    assert_null(kiln_gather(x, 0, x));
    EXPECT_FAILURE(KILN_E_DTYPE, "gather");
    assert_null(kiln_gather(x, 0, kiln_zeros(dev, KILN_I32, KILN_SHAPE(1, 1))));
    EXPECT_FAILURE(KILN_E_SHAPE, "gather");
}

TEST_BODY(test_take)
{
    double host[60], want[96];
    kiln_tensor *x = numbers(KILN_F32, KILN_SHAPE(4, 5, 3), 0, 100, host);
    static const int32_t ids[] = {0, 4, -1, 2, 2, 1, 3, -5};
    kiln_tensor *index = kiln_from_data(dev, KILN_I32, KILN_SHAPE(2, 4), ids);
    for (int i = 0; i < 96; i++) {
        int id = ids[i / 3 % 8];
        want[i] = host[i / 24 * 15 + (id < 0 ? id + 5 : id) * 3 + i % 3];
    }
    kiln_tensor *t = kiln_take(x, 1, index);
    EXPECT_SHAPE(t, 4, 2, 4, 3);
    EXPECT(t, want, 96);
    EXPECT(kiln_index_select(x, 1, kiln_reshape(index, KILN_SHAPE(8))), want, 96);
    EXPECT_LIST(kiln_take(line(KILN_I64, 10, 5), 0, kiln_from_data(dev, KILN_I64, KILN_SHAPE0, (const int64_t[]){2})),
                12);
    assert_null(kiln_index_select(x, 1, index));
    EXPECT_FAILURE(KILN_E_SHAPE, "index_select");
    assert_null(kiln_take(kiln_zeros(dev, KILN_F32, KILN_SHAPE(0, 2)), 0, index));
    EXPECT_FAILURE(KILN_E_SHAPE, "take");
    EXPECT_SHAPE(kiln_take(x, 0, kiln_zeros(dev, KILN_I32, KILN_SHAPE(0))), 0, 5, 3);
}

TEST_BODY(test_one_hot_and_isin)
{
    kiln_tensor *ids = kiln_from_data(dev, KILN_I32, KILN_SHAPE(3), (const int32_t[]){2, 0, 5});
    EXPECT_LIST(kiln_one_hot(ids, 3), 0, 0, 1, 1, 0, 0, 0, 0, 0);
    assert_int_equal(kiln_tensor_dtype(kiln_one_hot(ids, 3)), KILN_F32);
    kiln_tensor *values = kiln_from_data(dev, KILN_I64, KILN_SHAPE(2, 1), (const int64_t[]){5, 2});
    EXPECT_LIST(kiln_isin(ids, values), 1, 0, 1);
    EXPECT_LIST(kiln_isin(kiln_cast(ids, KILN_F16), kiln_cast(values, KILN_F32)), 1, 0, 1);
    EXPECT_LIST(kiln_isin(ids, kiln_zeros(dev, KILN_I32, KILN_SHAPE(0))), 0, 0, 0);
    assert_int_equal(kiln_tensor_dtype(kiln_isin(ids, values)), KILN_BOOL);
}

// scatter and scatter_add of n places into one axis of x; shapes [outer, n or size, inner].
static void check_scatter(kiln_dtype dtype, int64_t outer, int64_t size, int64_t n, int64_t inner, bool add)
{
    int64_t n_x = outer * size * inner, n_i = outer * n * inner;
    double *x = malloc(sizeof *x * (size_t)n_x), *index = malloc(sizeof *x * (size_t)n_i),
           *src = malloc(sizeof *x * (size_t)n_i);
    kiln_tensor *tx = numbers(dtype, KILN_SHAPE(outer, size, inner), 0, 9, x);
    kiln_tensor *ti = numbers(KILN_I32, KILN_SHAPE(outer, n, inner), (int)-size, (int)(2 * size), index);
    kiln_tensor *ts = numbers(dtype, KILN_SHAPE(outer, n, inner), 0, 9, src);
    kiln_tensor *t = add ? kiln_scatter_add(tx, 1, ti, ts) : kiln_scatter(tx, 1, ti, ts);
    for (int64_t i = 0; i < n_i; i++) {
        int64_t at = (int64_t)index[i] + (index[i] < 0 ? size : 0);
        double *to = &x[(i / (n * inner) * size + at) * inner + i % inner];
        *to = add ? *to + src[i] : src[i];
    }
    EXPECT(t, x, n_x);
    free(x);
    free(index);
    free(src);
}

TEST_BODY(test_scatter)
{
    for (size_t d = 0; d < N_DTYPES; d++)
        for (int add = 0; add < 2; add++) {
            check_scatter(some_dtypes[d], 2, 5, 9, 3, add);
            check_scatter(some_dtypes[d], 1, 40, 200, 1, add);
            check_scatter(some_dtypes[d], 3, 7, 100, 5, add);
            check_scatter(some_dtypes[d], 4, 300, 50, 1, add);
        }
    check_scatter(KILN_F32, 1, 2000, 5000, 1, false);
    check_scatter(KILN_F32, 1, 2000, 5000, 1, true);
    kiln_tensor *x = line(KILN_F32, 0, 3),
                *index = kiln_from_data(dev, KILN_I32, KILN_SHAPE(2), (const int32_t[]){2, 0});
    kiln_tensor *one = kiln_ones(dev, KILN_I32, KILN_SHAPE(1));
    EXPECT_LIST(kiln_scatter(x, 0, index, one), 1, 1, 1);
    EXPECT_LIST(kiln_scatter_add(x, 0, index, one), 1, 1, 3);
    kiln_tensor *bad = kiln_from_data(dev, KILN_I32, KILN_SHAPE(2), (const int32_t[]){-4, 0});
    if (on_gpu)
        EXPECT_LIST(kiln_scatter(x, 0, bad, one), 1, 1, 2);
    else {
        assert_null(kiln_scatter(x, 0, bad, one));
        assert_non_null(strstr(kiln_error_message(), "index -4 "));
        EXPECT_FAILURE(KILN_E_ARGUMENT, "scatter");
    }
    assert_null(kiln_scatter(one, 0, index, x));
    EXPECT_FAILURE(KILN_E_DTYPE, "scatter");
}

TEST_BODY(test_index_add)
{
    enum { V = 50, N = 300, D = 7 };
    double x[V * D], src[N * D], index[N];
    kiln_tensor *tx = numbers(KILN_F32, KILN_SHAPE(V, D), 0, 20, x),
                *ts = numbers(KILN_F32, KILN_SHAPE(N, D), 0, 20, src);
    kiln_tensor *ti = numbers(KILN_I64, KILN_SHAPE(N), -V, 2 * V, index);
    for (int i = 0; i < N * D; i++) x[(int)(index[i / D] + (index[i / D] < 0 ? V : 0)) * D + i % D] += src[i];
    EXPECT(kiln_index_add(tx, 0, ti, ts), x, V * D);
    kiln_tensor *wide = kiln_transpose(kiln_index_add(kiln_transpose(tx, 0, 1), 1, ti, kiln_transpose(ts, 0, 1)), 0, 1);
    EXPECT(wide, x, V * D);
    assert_null(kiln_index_add(tx, 0, ts, ts));
    EXPECT_FAILURE(KILN_E_DTYPE, "index_add");
    assert_null(kiln_index_add(tx, 1, ti, ts));
    EXPECT_FAILURE(KILN_E_SHAPE, "index_add");
}

static void check_scan(kiln_dtype dtype, int64_t outer, int64_t n, int64_t inner, bool product)
{
    int64_t count = outer * n * inner;
    double *x = malloc(sizeof *x * (size_t)count);
    kiln_tensor *t = numbers(dtype, KILN_SHAPE(outer, n, inner), product ? 1 : 0, 2, x);
    if (product) t = kiln_sub(kiln_cast(t, KILN_F32), kiln_scalar(1.5));
    for (int64_t i = 0; product && i < count; i++) x[i] -= 1.5;
    for (int64_t i = 0; i < count; i++) {
        if (i / inner % n == 0) continue;
        x[i] = product ? x[i] * x[i - inner] : x[i] + x[i - inner];
    }
    EXPECT(product ? kiln_cumprod(t, 1) : kiln_cumsum(t, -2), x, count);
    free(x);
}

TEST_BODY(test_scan)
{
    for (size_t d = 0; d < N_DTYPES; d++) {
        check_scan(some_dtypes[d], 3, 7, 5, false);
        check_scan(some_dtypes[d], 3, 70, 1, false);
    }
    check_scan(KILN_F32, 2, 10, 3, true);
    check_scan(KILN_F32, 1, 30000, 1, false);
    check_scan(KILN_I32, 2, 9000, 3, false);
    check_scan(KILN_F32, 300, 40, 200, false);
    kiln_tensor *t = kiln_cumsum(kiln_ones(dev, KILN_BOOL, KILN_SHAPE(3)), 0);
    assert_int_equal(kiln_tensor_dtype(t), KILN_I64);
    EXPECT_LIST(t, 1, 2, 3);
    EXPECT_LIST(kiln_cumprod(line(KILN_I32, 1, 5), 0), 1, 2, 6, 24, 120);
}

// Host side: a stable sort of places by value, NaN last.
static const double *sort_values;
static bool sort_down;
static int by_value(const void *a, const void *b)
{
    int64_t i = *(const int64_t *)a, j = *(const int64_t *)b;
    double x = sort_values[i], y = sort_values[j];
    if (isnan(x) != isnan(y)) return isnan(x) ? 1 : -1;
    if (x != y && !isnan(x)) return (x < y) != sort_down ? -1 : 1;
    return i < j ? -1 : i > j;
}

static void check_sort(kiln_dtype dtype, int64_t rows, int64_t n, int64_t k, bool down, int range)
{
    double *x = malloc(sizeof *x * (size_t)(rows * n)), *values = malloc(sizeof *x * (size_t)(rows * n));
    double *places = malloc(sizeof *x * (size_t)(rows * n));
    int64_t *order = malloc(sizeof *order * (size_t)n);
    kiln_tensor *t = numbers(dtype, KILN_SHAPE(rows, n), dtype == KILN_U8 ? 0 : -range / 2, range, x);
    if (dtype == KILN_F32 && n > 20) {
        for (int64_t i = 3; i < rows * n; i += 17) x[i] = i % 2 ? NAN : i % 4 ? -0.0 : INFINITY;
        t = kiln_cast(kiln_from_data(dev, KILN_F64, KILN_SHAPE(rows, n), x), KILN_F32);
    }
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t i = 0; i < n; i++) order[i] = i;
        sort_values = x + r * n, sort_down = down;
        qsort(order, (size_t)n, sizeof *order, by_value);
        for (int64_t i = 0; i < k; i++) values[r * k + i] = x[r * n + order[i]], places[r * k + i] = (double)order[i];
    }
    kiln_tensor *v = NULL, *i = NULL;
    if (k < n)
        kiln_topk(t, k, -1, down, &v, &i);
    else
        kiln_sort(t, 1, down, &v, &i);
    EXPECT(v, values, rows * k);
    EXPECT(i, places, rows * k);
    if (k == n) EXPECT(kiln_transpose(kiln_argsort(kiln_transpose(t, 0, 1), 0, down), 0, 1), places, rows * k);
    free(x);
    free(values);
    free(places);
    free(order);
}

TEST_BODY(test_sort)
{
    for (size_t d = 0; d < N_DTYPES; d++)
        for (int down = 0; down < 2; down++) {
            check_sort(some_dtypes[d], 3, 20, 20, down, 100);
            check_sort(some_dtypes[d], 2, 500, 500, down, 100);
            check_sort(some_dtypes[d], 2, 400, 7, down, 100);
            check_sort(some_dtypes[d], 2, 40, 30, down, 100);
        }
    check_sort(KILN_F32, 2, 5000, 5000, false, 1 << 20);
    check_sort(KILN_I64, 3, 3000, 3000, true, 1 << 20);
    check_sort(KILN_F32, 2, 5000, 1500, true, 1 << 20);
    check_sort(KILN_I32, 1, 1, 1, true, 10);
    kiln_tensor *v = NULL, *i = NULL, *x = kiln_zeros(dev, KILN_F32, KILN_SHAPE(3, 0));
    kiln_sort(x, 1, false, &v, &i);
    EXPECT_SHAPE(v, 3, 0);
    kiln_topk(line(KILN_F32, 0, 3), 4, 0, true, &v, &i);
    EXPECT_FAILURE(KILN_E_ARGUMENT, "topk");
}

TEST_BODY(test_selection)
{
    static const float v[] = {3, 0, 1, 3, 0, 2};
    kiln_tensor *x = kiln_from_data(dev, KILN_F32, KILN_SHAPE(2, 3), v), *nonzero = kiln_nonzero(x);
    EXPECT_SHAPE(nonzero, 4, 2);
    EXPECT_LIST(nonzero, 0, 0, 0, 2, 1, 0, 1, 2);
    EXPECT_SHAPE(kiln_nonzero(kiln_zeros_like(x)), 0, 2);
    EXPECT_SHAPE(kiln_nonzero(kiln_zeros(dev, KILN_I32, KILN_SHAPE(0, 3))), 0, 2);
    EXPECT_SHAPE(kiln_nonzero(kiln_ones(dev, KILN_I32, KILN_SHAPE0)), 1, 0);
    EXPECT_LIST(kiln_masked_select(x, kiln_less(x, kiln_scalar(2.5))), 0, 1, 0, 2);
    static const uint8_t columns[] = {1, 0, 1};
    kiln_tensor *mask = kiln_from_data(dev, KILN_BOOL, KILN_SHAPE(3), columns);
    EXPECT_LIST(kiln_masked_select(x, mask), 3, 1, 3, 2);
    EXPECT_LIST(kiln_masked_select(kiln_transpose(x, 0, 1), kiln_unsqueeze(mask, 1)), 3, 3, 1, 2);
    assert_null(kiln_masked_select(x, x));
    EXPECT_FAILURE(KILN_E_DTYPE, "masked_select");
    kiln_tensor *values, *inverse, *counts;
    kiln_unique(x, &values, &inverse, &counts);
    EXPECT_LIST(values, 0, 1, 2, 3);
    EXPECT_SHAPE(inverse, 2, 3);
    EXPECT_LIST(inverse, 3, 0, 1, 3, 0, 2);
    EXPECT_LIST(counts, 2, 1, 1, 2);
    kiln_unique(kiln_zeros(dev, KILN_I32, KILN_SHAPE(0)), &values, NULL, &counts);
    EXPECT_SHAPE(values, 0);
    kiln_tensor *rows[2], *grid[2], *const lines[] = {line(KILN_I32, 0, 2), line(KILN_I32, 5, 3)};
    kiln_unstack(x, 0, rows, 2);
    EXPECT_LIST(rows[1], 3, 0, 2);
    kiln_unstack(x, 1, rows, 2);
    EXPECT_FAILURE(KILN_E_SHAPE, "unstack");
    kiln_meshgrid(lines, 2, grid);
    EXPECT_LIST(grid[0], 0, 0, 0, 1, 1, 1);
    EXPECT_LIST(grid[1], 5, 6, 7, 5, 6, 7);
}

// Gradients, against differences.
struct gradient_case {
    const char *name;
    kiln_fn fn;
    size_t n_in;
    int order;
};

static kiln_tensor *grad_index; // i64 [2, 3, 2], with repeats and negatives

#define FN(name) \
    static kiln_status name(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
#define FN1(name, expr)                      \
    FN(name)                                 \
    {                                        \
        (void)user, (void)n_in, (void)n_out; \
        out[0] = expr;                       \
        return kiln_error();                 \
    }
#define X in[0]

static kiln_tensor *cubed(kiln_tensor *t)
{
    return kiln_mul(kiln_square(t), t);
}

FN1(f_concat, cubed(kiln_concat(in, 2, 1)))
FN1(f_stack, cubed(kiln_stack(in, 2, -1)))
FN1(f_tile, cubed(kiln_tile(X, KILN_SHAPE(2, 1, 3, 2))))
FN1(f_repeat, cubed(kiln_repeat_interleave(X, 3, 1)))
FN1(f_roll, kiln_mul(cubed(kiln_roll(X, KILN_AXES(1, -2), KILN_AXES(0, 2))), X))
FN1(f_pad, cubed(kiln_pad(X, KILN_PAD(.before = KILN_ARGS(1, 2), .after = KILN_ARGS(0, 1, 1), .value = 2))))
FN1(f_pad_reflect,
    cubed(kiln_pad(X, KILN_PAD(.before = KILN_ARGS(1, 2, 1), .after = KILN_ARGS(0, 1, 1), .mode = KILN_PAD_REFLECT))))
FN1(f_pad_edge,
    cubed(kiln_pad(X, KILN_PAD(.before = KILN_ARGS(1, 2), .after = KILN_ARGS(0, 1, 1), .mode = KILN_PAD_EDGE))))
FN1(f_pad_circular,
    cubed(kiln_pad(X, KILN_PAD(.before = KILN_ARGS(1, 2), .after = KILN_ARGS(0, 1, 1), .mode = KILN_PAD_CIRCULAR))))
FN1(f_tril, cubed(kiln_tril(X, -1)))
FN1(f_triu, cubed(kiln_triu(X, 1)))
FN1(f_gather, cubed(kiln_gather(X, 1, grad_index)))
FN1(f_take, cubed(kiln_take(X, -2, kiln_select(grad_index, 0, 0))))
FN1(f_embedding, cubed(kiln_embedding(kiln_select(X, 0, 0), grad_index)))
FN1(f_scatter, cubed(kiln_scatter(X, 1, grad_index, kiln_narrow(in[1], 1, 0, 3))))
FN1(f_scatter_add, cubed(kiln_scatter_add(X, 1, grad_index, kiln_narrow(in[1], 1, 0, 1))))
FN1(f_index_add, cubed(kiln_index_add(X, 1, kiln_reshape(kiln_narrow(grad_index, 0, 0, 1), KILN_SHAPE(6)),
                                      kiln_tile(in[1], KILN_SHAPE(2, 1)))))
FN1(f_cumsum, cubed(kiln_cumsum(X, 1)))
FN1(f_cumprod, cubed(kiln_cumprod(X, 1)))
FN1(f_cummax, cubed(kiln_cummax(X, 1)))
FN1(f_cummin, cubed(kiln_cummin(X, -1)))
FN1(f_gather_nd, cubed(kiln_gather_nd(X, kiln_remainder(grad_index, kiln_scalar_int(2)))))
FN1(f_scatter_nd, cubed(kiln_scatter_nd(kiln_remainder(grad_index, kiln_scalar_int(2)), X, KILN_SHAPE(2, 3, 3))))
FN1(f_masked_select, cubed(kiln_masked_select(X, kiln_less(X, kiln_scalar(1.5)))))
FN1(f_dropout, cubed(kiln_dropout_again(X, 0.4, 77, 5)))

FN(f_sort)
{
    (void)user, (void)n_in, (void)n_out;
    kiln_tensor *places = NULL;
    kiln_sort(X, 1, true, &out[0], &places);
    out[0] = kiln_mul(cubed(out[0]), X);
    return kiln_error();
}

FN(f_topk)
{
    (void)user, (void)n_in, (void)n_out;
    kiln_tensor *places = NULL;
    kiln_topk(X, 2, -2, false, &out[0], &places);
    out[0] = cubed(out[0]);
    return kiln_error();
}

static const struct gradient_case gradient_cases[] = {
    {"concat", f_concat, 2, 1},
    {"stack", f_stack, 2, 1},
    {"tile", f_tile, 1, 1},
    {"repeat", f_repeat, 1, 1},
    {"roll", f_roll, 1, 2},
    {"pad", f_pad, 1, 1},
    {"pad reflect", f_pad_reflect, 1, 1},
    {"pad edge", f_pad_edge, 1, 1},
    {"pad circular", f_pad_circular, 1, 1},
    {"tril", f_tril, 1, 1},
    {"triu", f_triu, 1, 1},
    {"gather", f_gather, 1, 2},
    {"take", f_take, 1, 1},
    {"embedding", f_embedding, 1, 1},
    {"scatter", f_scatter, 2, 1},
    {"scatter_add", f_scatter_add, 2, 2},
    {"index_add", f_index_add, 2, 1},
    {"cumsum", f_cumsum, 1, 2},
    {"cumprod", f_cumprod, 1, 2},
    {"dropout", f_dropout, 1, 1},
    {"sort", f_sort, 1, 1},
    {"topk", f_topk, 1, 1},
    {"cummax", f_cummax, 1, 1},
    {"masked_select", f_masked_select, 1, 1},
    {"cummin", f_cummin, 1, 1},
    {"gather_nd", f_gather_nd, 1, 2},
    {"scatter_nd", f_scatter_nd, 1, 1},
};

TEST_BODY(test_gradients)
{
    double a[18], b[18];
    for (int i = 0; i < 18; i++) a[i] = 0.3 + 0.17 * ((i * 7) % 18), b[i] = -1.4 + 0.21 * ((i * 5) % 18);
    static const int64_t index[] = {0, 2, 1, -1, 0, 1, -3, 0, 2, 0, -1, 0};
    kiln_tensor *in[] = {kiln_from_data(dev, KILN_F64, KILN_SHAPE(2, 3, 3), a),
                         kiln_from_data(dev, KILN_F64, KILN_SHAPE(2, 3, 3), b)};
    kiln_tensor *narrow[] = {kiln_contiguous(kiln_narrow(in[0], 2, 0, 2)),
                             kiln_contiguous(kiln_narrow(in[1], 2, 0, 2))};
    grad_index = kiln_from_data(dev, KILN_I64, KILN_SHAPE(2, 3, 2), index);
    int failures = 0;
    for (size_t i = 0; i < sizeof gradient_cases / sizeof *gradient_cases; i++) {
        const struct gradient_case *c = &gradient_cases[i];
        bool two = c->fn == f_scatter || c->fn == f_scatter_add || c->fn == f_index_add;
        kiln_gradcheck(c->fn, NULL, two ? narrow : in, c->n_in, KILN_GRADCHECK(.order = c->order));
        if (!kiln_error()) continue;
        print_error("gradient of %s: %s\n", c->name, kiln_error_message());
        kiln_error_clear();
        failures++;
    }
    assert_int_equal(failures, 0);
}

// At zeros the quotient in cumprod's rule has no value.
FN1(f_cumprod_sum, kiln_cumprod(X, 0))
TEST_BODY(test_cumprod_at_zeros)
{
    static const double x[] = {2, 0, 3, 0, 5};
    kiln_tensor *in[] = {kiln_from_data(dev, KILN_F64, KILN_SHAPE(5), x)}, *dx = NULL;
    kiln_grad(f_cumprod_sum, NULL, in, 1, NULL, &dx, 1);
    EXPECT_LIST(dx, 1, 8, 0, 0, 0);
}

// Only a label that equals .ignore_index to the last bit counts for nothing; without .ignore, none does.
static void expect_loss_of(int64_t label, bool ignore, int64_t ignored, double smoothing)
{
    bool counts = !ignore || label != ignored;
    kiln_tensor *x = kiln_zeros(dev, KILN_F32, KILN_SHAPE(2, 4)),
                *t = kiln_from_data(dev, KILN_I64, KILN_SHAPE(2), ((int64_t[]){1, label}));
    kiln_tensor *loss = kiln_cross_entropy(
        x, t,
        KILN_CROSS_ENTROPY(.reduction = 2, .label_smoothing = smoothing, .ignore = ignore, .ignore_index = ignored));
    if (counts && !on_gpu) {
        EXPECT_FAILURE(KILN_E_ARGUMENT, "cross_entropy: label");
    } else {
        EXPECT_NEAR(loss, ((double[]){log(4), counts ? NAN : 0}), 2, 1e-6);
        if (!counts) // the mean is over the one that is left
            EXPECT_NEAR(
                kiln_cross_entropy(
                    x, t, KILN_CROSS_ENTROPY(.label_smoothing = smoothing, .ignore = true, .ignore_index = ignored)),
                ((double[]){log(4)}), 1, 1e-6);
    }
    kiln_tensor *dx = kiln_cross_entropy_backward(x, t, kiln_ones(dev, KILN_F32, KILN_SHAPE(2)), 2, 0, ignore, ignored);
    EXPECT_LIST(kiln_isnan(kiln_select(dx, 0, 1)), counts, counts, counts, counts);
    if (!counts) EXPECT_LIST(kiln_select(dx, 0, 1), 0, 0, 0, 0);
}

TEST_BODY(test_labels_far_out)
{
    const int64_t exact = INT64_C(1) << 53,
                  far[] = {INT64_MIN, INT64_MIN / 2, -exact - 1, -exact, exact, exact + 1, INT64_MAX, INT64_MAX - 1};
    for (size_t i = 0; i < sizeof far / sizeof *far; i++) {
        for (int smooth = 0; smooth < 2; smooth++) {
            expect_loss_of(far[i], false, 0, 0.25 * smooth);
            expect_loss_of(far[i], true, far[i], 0.25 * smooth);
            expect_loss_of(far[i], true, far[i] ^ 1, 0.25 * smooth);
        }
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_labels_far_out),
    cmocka_unit_test(test_concat),
    cmocka_unit_test(test_stack),
    cmocka_unit_test(test_tile_and_repeat),
    cmocka_unit_test(test_roll),
    cmocka_unit_test(test_pad),
    cmocka_unit_test(test_triangles),
    cmocka_unit_test(test_gather),
    cmocka_unit_test(test_take),
    cmocka_unit_test(test_one_hot_and_isin),
    cmocka_unit_test(test_scatter),
    cmocka_unit_test(test_index_add),
    cmocka_unit_test(test_scan),
    cmocka_unit_test(test_sort),
    cmocka_unit_test(test_selection),
    cmocka_unit_test(test_gradients),
    cmocka_unit_test(test_cumprod_at_zeros),
};

int main(int argc, char **argv)
{
    on_gpu = argc > 1 && strcmp(argv[1], "cpu") != 0;
    return run_on_device(argc, argv, tests, sizeof tests / sizeof *tests);
}
