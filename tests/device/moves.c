// Copies between layouts on the CPU against the same elements picked on the host: each size of elements, axes in any
// order, steps ahead and back, sides around those of tiles and vectors, on one thread and on several; for the
// instruction set that KILN_CPU_ISA names. Kernels of several ops over such views; gathers along rows that are fetched
// ahead.
#include "device/cpu_fixture.h"

#include <omp.h>
#include <stdio.h>

static const struct {
    kiln_dtype dtype;
    size_t size_B;
} sizes[] = {{KILN_U8, 1}, {KILN_BF16, 2}, {KILN_F32, 4}, {KILN_F64, 8}};

enum { MOST_RANK = 4 };

struct layout {
    int rank;
    int64_t dims[MOST_RANK];
    int order[MOST_RANK];    // axis of the result to axis of x
    int64_t step[MOST_RANK]; // of x
};

// As many bytes as the elements have, no two neighbours alike.
static char *make_bytes(int64_t n, size_t size_B)
{
    uint32_t seed = 99;
    char *bytes = malloc((size_t)n * size_B + 1);
    for (size_t i = 0; i < (size_t)n * size_B; i++) {
        seed = seed * 1664525u + 1013904223u;
        bytes[i] = (char)((seed >> 24) % 120); // no NaN of any dtype
    }
    return bytes;
}

static int64_t stepped(int64_t size, int64_t step)
{
    return step > 0 ? (size + step - 1) / step : (size - step - 1) / -step;
}

static kiln_tensor *view_of(kiln_tensor *x, const struct layout *l)
{
    int64_t start[MOST_RANK], stop[MOST_RANK], axes[MOST_RANK];
    for (int d = 0; d < l->rank; d++) {
        start[d] = l->step[d] > 0 ? 0 : KILN_END;
        stop[d] = KILN_END;
        axes[d] = l->order[d];
    }
    size_t rank = (size_t)l->rank;
    return kiln_permute(
        kiln_slice(x, KILN_SLICE(.start = {rank, start}, .stop = {rank, stop}, .step = {rank, l->step})),
        (kiln_ints){rank, axes});
}

static int64_t place(const struct layout *l, const int64_t *out, int64_t i)
{
    int64_t in[MOST_RANK], at = 0;
    for (int d = l->rank - 1; d >= 0; d--) {
        int axis = l->order[d];
        int64_t k = i % out[d];
        i /= out[d];
        in[axis] = l->step[axis] > 0 ? k * l->step[axis] : l->dims[axis] - 1 + k * l->step[axis];
    }
    for (int d = 0; d < l->rank; d++) at = at * l->dims[d] + in[d];
    return at;
}

static void check_copy(const struct layout *l, kiln_dtype dtype, size_t size_B)
{
    int64_t n = 1, m = 1, out[MOST_RANK];
    for (int d = 0; d < l->rank; d++) n *= l->dims[d];
    for (int d = 0; d < l->rank; d++) m *= out[d] = stepped(l->dims[l->order[d]], l->step[l->order[d]]);
    char *x = make_bytes(n, size_B), *got = calloc((size_t)m + 1, size_B);
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *t = kiln_from_data(dev, dtype, (size_t)l->rank, l->dims, x);
    kiln_tensor *y = kiln_contiguous(view_of(t, l));
    assert_int_equal(kiln_numel(y), m);
    assert_int_equal(kiln_read(y, got, (size_t)m * size_B), KILN_OK);
    kiln_scope_end(&scope);
    for (int64_t i = 0; i < m; i++)
        if (memcmp(got + i * (int64_t)size_B, x + place(l, out, i) * (int64_t)size_B, size_B))
            fail_msg("element %lld of %lld, %zu bytes each, order %d %d %d %d, steps %lld %lld %lld %lld", (long long)i,
                     (long long)m, size_B, l->order[0], l->order[1], l->order[2], l->order[3], (long long)l->step[0],
                     (long long)l->step[1], (long long)l->step[2], (long long)l->step[3]);
    free(x);
    free(got);
}

static void check_all(const struct layout *l)
{
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) check_copy(l, sizes[s].dtype, sizes[s].size_B);
}

static void test_orders(void **state)
{
    static const int64_t shapes[][3] = {{5, 7, 3},   {9, 2, 130}, {3, 65, 63}, {17, 129, 2}, {2, 8, 8},
                                        {67, 3, 64}, {1, 31, 33}, {4, 16, 1},  {0, 5, 6},    {11, 1, 257}};
    static const int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
        for (size_t o = 0; o < sizeof orders / sizeof orders[0]; o++) {
            struct layout l = {.rank = 3, .step = {1, 1, 1, 1}};
            memcpy(l.dims, shapes[s], sizeof shapes[s]);
            memcpy(l.order, orders[o], sizeof orders[o]);
            check_all(&l);
        }
}

static void test_steps(void **state)
{
    static const int64_t steps[] = {2, 3, 4, 5, 7, -1, -2, -3, -5};
    static const int64_t lengths[] = {1, 2, 5, 31, 32, 33, 64, 127, 301};
    for (size_t s = 0; s < sizeof steps / sizeof steps[0]; s++)
        for (size_t n = 0; n < sizeof lengths / sizeof lengths[0]; n++) {
            check_all(&(struct layout){2, {3, lengths[n]}, {0, 1}, {1, steps[s]}});
            check_all(&(struct layout){2, {lengths[n], 3}, {0, 1}, {steps[s], 1}});
            check_all(&(struct layout){2, {lengths[n], 5}, {1, 0}, {steps[s], -1}});
        }
}

// Short last axes, which are moved as one element where they lie well; and long ones.
static void test_last_axes(void **state)
{
    for (int64_t last = 1; last <= 9; last++) {
        check_all(&(struct layout){4, {3, 21, 10, last}, {0, 2, 1, 3}, {1, 1, 1, 1}});
        check_all(&(struct layout){4, {3, 21, 10, last}, {2, 1, 0, 3}, {1, 2, 1, 1}});
        check_all(&(struct layout){4, {3, 6, 10, last}, {0, 2, 1, 3}, {-1, 1, 1, -1}});
    }
    check_all(&(struct layout){3, {2, 3, 9000}, {1, 0, 2}, {1, 1, 1}});
    check_all(&(struct layout){3, {2, 3, 17000}, {1, 0, 2}, {1, 1, 2}});
}

// Enough for several threads: the same bytes on one.
static void test_threads(void **state)
{
    for (int threads = 1; threads <= 3; threads++) {
        omp_set_num_threads(threads);
        check_copy(&(struct layout){4, {4, 129, 8, 64}, {0, 2, 1, 3}, {1, 1, 1, 1}}, KILN_F32, 4);
        check_copy(&(struct layout){3, {8, 195, 161}, {0, 2, 1}, {1, 1, 1}}, KILN_F32, 4);
        check_copy(&(struct layout){2, {260, 1025}, {0, 1}, {1, 2}}, KILN_F64, 8);
    }
}

// Results that are written past the caches: tiles that are one piece and tiles of pieces, rows that begin anywhere.
static void test_large(void **state)
{
    omp_set_num_threads(2);
    check_copy(&(struct layout){3, {33, 64, 2101}, {0, 2, 1}, {1, 1, 1}}, KILN_F32, 4);
    check_copy(&(struct layout){3, {5, 701, 613}, {0, 2, 1}, {1, 1, 1}}, KILN_F64, 8);
    check_copy(&(struct layout){4, {9, 129, 8, 521}, {0, 2, 1, 3}, {1, 1, 1, 1}}, KILN_F32, 4);
}

// --- sums of what has steps

static void test_add_steps(void **state)
{
    enum { ROWS = 5, MOST = 700 };
    static const kiln_dtype dtypes[] = {KILN_F32, KILN_F64, KILN_F16, KILN_BF16, KILN_I32, KILN_U8};
    for (size_t t = 0; t < sizeof dtypes / sizeof dtypes[0]; t++)
        for (int64_t step = -3; step <= 5; step++)
            for (int64_t cols = 97; step && cols <= MOST; cols += 201) {
                double x[ROWS * MOST], got[ROWS * MOST];
                int64_t m = stepped(cols, step), start[] = {0, step > 0 ? 0 : KILN_END};
                for (int64_t i = 0; i < ROWS * cols; i++) x[i] = (double)(i * 7 % 61);
                kiln_scope *scope = kiln_scope_begin();
                kiln_tensor *a = kiln_cast(kiln_from_data(dev, KILN_F64, KILN_SHAPE(ROWS, cols), x), dtypes[t]);
                kiln_tensor *v = kiln_slice(a, KILN_SLICE(.start = {2, start}, .stop = KILN_ARGS(KILN_END, KILN_END),
                                                          .step = KILN_ARGS(1, step)));
                assert_int_equal(kiln_read(kiln_cast(kiln_add(v, v), KILN_F64), got, (size_t)(ROWS * m) * 8), KILN_OK);
                kiln_scope_end(&scope);
                for (int64_t i = 0; i < ROWS * m; i++) {
                    int64_t c = i % m * step + (step > 0 ? 0 : cols - 1);
                    assert_true(got[i] == 2 * x[i / m * cols + c]);
                }
            }
}

// The same captured: a compiled kernel reads what has steps itself.
static kiln_status chain(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    int64_t step = *(const int64_t *)user, start[] = {0, step > 0 ? 0 : KILN_END};
    kiln_tensor *v = kiln_slice(
        in[0], KILN_SLICE(.start = {2, start}, .stop = KILN_ARGS(KILN_END, KILN_END), .step = KILN_ARGS(1, step)));
    out[0] = kiln_sub(kiln_add(kiln_mul(v, v), v), kiln_relu(kiln_neg(v)));
    return kiln_error();
}

static void check_captured(kiln_dtype dtype, int64_t step, int64_t cols)
{
    enum { ROWS = 3, MOST = 1100 };
    static double x[ROWS * MOST], got[ROWS * MOST];
    int64_t m = stepped(cols, step);
    kiln_scope *scope = kiln_scope_begin();
    kiln_function *f = kiln_jit(chain, &step, NULL);
    for (int64_t i = 0; i < ROWS * cols; i++) x[i] = (double)(i * 5 % 13 - 6);
    kiln_tensor *in = kiln_cast(kiln_from_data(dev, KILN_F64, KILN_SHAPE(ROWS, cols), x), dtype), *y;
    assert_int_equal(kiln_call(f, &in, 1, &y, 1), KILN_OK);
    assert_int_equal(kiln_read(kiln_cast(y, KILN_F64), got, (size_t)(ROWS * m) * 8), KILN_OK);
    for (int64_t i = 0; i < ROWS * m; i++) {
        double v = x[i / m * cols + i % m * step + (step > 0 ? 0 : cols - 1)];
        assert_true(got[i] == v * v + v - (v < 0 ? -v : 0));
    }
    kiln_function_free(&f);
    kiln_scope_end(&scope);
}

static void test_captured_steps(void **state)
{
    static const kiln_dtype dtypes[] = {KILN_F32, KILN_F64, KILN_BF16, KILN_I32};
    static const int64_t lengths[] = {1, 2, 3, 31, 32, 33, 63, 64, 65, 129, 1021};
    for (size_t t = 0; t < sizeof dtypes / sizeof dtypes[0]; t++)
        for (size_t n = 0; n < sizeof lengths / sizeof lengths[0]; n++) {
            check_captured(dtypes[t], 2, lengths[n]);
            check_captured(dtypes[t], n % 2 ? 3 : -2, lengths[n]);
        }
}

// --- gathers

static void check_gather(int64_t rows, int64_t cols, int64_t count, kiln_dtype dtype, size_t size_B, bool narrow,
                         bool forward)
{
    char *x = make_bytes(rows * cols, size_B), *got = calloc((size_t)(rows * count) + 1, size_B);
    int64_t *index = calloc((size_t)(rows * count) + 1, sizeof *index);
    for (int64_t i = 0; i < rows * count; i++) index[i] = forward ? i * 7919 % cols : i * 7919 % (2 * cols) - cols;
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *at = kiln_from_data(dev, KILN_I64, KILN_SHAPE(rows, count), index);
    if (narrow) at = kiln_cast(at, KILN_I32);
    kiln_tensor *y = kiln_gather(kiln_from_data(dev, dtype, KILN_SHAPE(rows, cols), x), 1, at);
    assert_int_equal(kiln_read(y, got, (size_t)(rows * count) * size_B), KILN_OK);
    kiln_scope_end(&scope);
    for (int64_t i = 0; i < rows * count; i++) {
        int64_t from = i / count * cols + index[i] + (index[i] < 0 ? cols : 0);
        assert_memory_equal(got + i * (int64_t)size_B, x + from * (int64_t)size_B, size_B);
    }
    free(x);
    free(got);
    free(index);
}

static void test_gather(void **state)
{
    static const int64_t shapes[][3] = {{1, 1, 1},    {3, 17, 5},     {7, 1024, 255}, {9, 1000, 700},
                                        {5, 3, 1030}, {2, 40000, 64}, {300, 300, 301}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
            for (int narrow = 0; narrow < 2; narrow++)
                check_gather(shapes[i][0], shapes[i][1], shapes[i][2], sizes[s].dtype, sizes[s].size_B, narrow, false);
}

// From rows of more bytes than a near cache has; some indices from the end, or none.
static void test_gather_far(void **state)
{
    static const int64_t counts[] = {1, 127, 128, 129, 4096, 4097, 9001};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
            for (int forward = 0; forward < 2; forward++)
                check_gather(2, ((int64_t)1 << 20) / (int64_t)sizes[s].size_B + 11, counts[i], sizes[s].dtype,
                             sizes[s].size_B, false, forward);
    kiln_scope *scope = kiln_scope_begin();
    int64_t index[600] = {0};
    index[401] = 400000;
    kiln_tensor *x = kiln_zeros(dev, KILN_F32, KILN_SHAPE(400000));
    assert_null(kiln_take(x, 0, kiln_from_data(dev, KILN_I64, KILN_SHAPE(600), index)));
    assert_non_null(strstr(kiln_error_message(), "index 400000"));
    kiln_error_clear();
    kiln_scope_end(&scope);
}

static void test_gather_out_of_range(void **state)
{
    kiln_scope *scope = kiln_scope_begin();
    int64_t index[600] = {0};
    kiln_tensor *x = kiln_zeros(dev, KILN_F32, KILN_SHAPE(3, 500));
    for (int i = 0; i < 2; i++) {
        index[599] = i ? -501 : 500;
        kiln_tensor *at = kiln_from_data(dev, KILN_I64, KILN_SHAPE(3, 200), index);
        assert_null(kiln_gather(x, 1, at));
        assert_int_equal(kiln_error(), KILN_E_ARGUMENT);
        assert_non_null(strstr(kiln_error_message(), i ? "index -501" : "index 500"));
        kiln_error_clear();
    }
    kiln_scope_end(&scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_orders),         cmocka_unit_test(test_steps),
        cmocka_unit_test(test_last_axes),      cmocka_unit_test(test_threads),
        cmocka_unit_test(test_large),          cmocka_unit_test(test_add_steps),
        cmocka_unit_test(test_captured_steps), cmocka_unit_test(test_gather),
        cmocka_unit_test(test_gather_far),     cmocka_unit_test(test_gather_out_of_range),
    };
    if (lacks_instructions()) return TEST_SKIPPED;
    return cmocka_run_group_tests(tests, open_device, close_device);
}
