// Results of launches that touch more than caches hold, which go past them by whole lines: rows that begin anywhere in
// a line, eagerly and captured, read at once by another op; and in place, where they do not.
#include "device/cpu_fixture.h"
#include <string.h>

enum { ROWS = 3001, COLUMNS = 3001 };

static kiln_status sum_of(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_add(in[0], in[1]);
    return kiln_error();
}

static float element(int64_t row, int64_t column)
{
    return (float)((row * 31 + column * 7) % 4093);
}

static void expect(kiln_tensor *t, float *got, float shift, const char *what)
{
    assert_int_equal(kiln_read(t, got, sizeof *got * ROWS * COLUMNS), KILN_OK);
    for (int64_t r = 0; r < ROWS; r++)
        for (int64_t c = 0; c < COLUMNS; c++)
            if (got[r * COLUMNS + c] != element(r, c) + (float)(c % 11) + shift)
                fail_msg("%s: element %lld of row %lld is %g", what, (long long)c, (long long)r,
                         (double)got[r * COLUMNS + c]);
}

static void test_rows(void **state)
{
    float *bytes = malloc(sizeof *bytes * ROWS * COLUMNS), line[COLUMNS];
    assert_non_null(bytes);
    for (int64_t i = 0; i < (int64_t)ROWS * COLUMNS; i++) bytes[i] = element(i / COLUMNS, i % COLUMNS);
    for (int64_t c = 0; c < COLUMNS; c++) line[c] = (float)(c % 11);
    kiln_scope *scope = kiln_scope_begin();
    kiln_function *f = kiln_jit(sum_of, NULL, NULL);
    kiln_tensor *in[] = {kiln_from_data(dev, KILN_F32, KILN_SHAPE(ROWS, COLUMNS), bytes),
                         kiln_from_data(dev, KILN_F32, KILN_SHAPE(COLUMNS), line)},
                *y;
    for (int again = 0; again < 2; again++) {
        expect(kiln_add(in[0], in[1]), bytes, 0, "eagerly");
        assert_int_equal(kiln_call(f, in, 2, &y, 1), KILN_OK);
        expect(kiln_add(y, kiln_scalar(1)), bytes, 1, "captured, and read");
    }
    kiln_add_(in[0], in[1]);
    expect(in[0], bytes, 0, "in place");
    kiln_function_free(&f);
    kiln_scope_end(&scope);
    free(bytes);
}

// Running sums along and across rows; all of them are whole numbers below 2^24.
static void test_sums(void **state)
{
    float *got = malloc(sizeof *got * ROWS * COLUMNS), *sums = calloc(COLUMNS, sizeof *sums);
    assert_non_null(got);
    assert_non_null(sums);
    for (int64_t i = 0; i < (int64_t)ROWS * COLUMNS; i++) got[i] = element(i / COLUMNS, i % COLUMNS);
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *x = kiln_from_data(dev, KILN_F32, KILN_SHAPE(ROWS, COLUMNS), got);
    for (int axis = 0; axis < 2; axis++) {
        memset(got, 0xff, sizeof *got * ROWS * COLUMNS);
        assert_int_equal(kiln_read(kiln_cumsum(x, axis), got, sizeof *got * ROWS * COLUMNS), KILN_OK);
        memset(sums, 0, sizeof *sums * COLUMNS);
        for (int64_t r = 0; r < ROWS; r++) {
            float along = 0;
            for (int64_t c = 0; c < COLUMNS; c++) {
                along += element(r, c);
                sums[c] += element(r, c);
                if (got[r * COLUMNS + c] != (axis ? along : sums[c]))
                    fail_msg("axis %d: sum %lld of row %lld is %g", axis, (long long)c, (long long)r,
                             (double)got[r * COLUMNS + c]);
            }
        }
    }
    kiln_scope_end(&scope);
    free(sums);
    free(got);
}

// Kernels that pass over rows several times: each has the bits that it has among few, which caches hold.
static void expect_same_rows(kiln_tensor *(*op)(kiln_tensor *x), int64_t rows, int64_t columns)
{
    enum { FEW = 100 };
    const int64_t most = rows < FEW ? 1 : FEW;
    size_t size_B = (size_t)columns * sizeof(float);
    char *all = malloc((size_t)rows * size_B), *few = malloc((size_t)most * size_B);
    assert_true(all && few);
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *x = kiln_uniform(dev, KILN_F32, KILN_SHAPE(rows, columns), -3, 3);
    assert_int_equal(kiln_read(op(x), all, (size_t)rows * size_B), KILN_OK);
    for (int64_t r = 0; r < rows; r += most) {
        int64_t n = rows - r < most ? rows - r : most;
        assert_int_equal(kiln_read(op(kiln_narrow(x, 0, r, n)), few, (size_t)n * size_B), KILN_OK);
        if (memcmp(all + (size_t)r * size_B, few, (size_t)n * size_B))
            fail_msg("rows of %lld from row %lld on", (long long)columns, (long long)r);
    }
    kiln_scope_end(&scope);
    free(few);
    free(all);
}

static kiln_tensor *weights_of(kiln_tensor *x)
{
    return kiln_softmax(x, -1);
}

static kiln_tensor *normalised(kiln_tensor *x)
{
    return kiln_layer_norm(x, 1, NULL);
}

static void test_passes(void **state)
{
    expect_same_rows(weights_of, ROWS, COLUMNS);
    expect_same_rows(normalised, ROWS, COLUMNS);
    expect_same_rows(weights_of, 9000, 1000);
    expect_same_rows(normalised, 9000, 1000);
    expect_same_rows(normalised, 3, 4000001); // threads share out a row
}

// Transforms along the first axis: lines that lie side by side have the bits that they have among few, wherever the
// first begins. `by` lines are taken at once: vectors of them, and what is left.
static void expect_same_lines(kiln_dtype dtype, int64_t n, int64_t lines, int64_t first, int64_t by)
{
    const int64_t size_B = 2 * (dtype == KILN_F64 ? 8 : 4), row_B = (lines - first) * size_B;
    char *all = malloc((size_t)(n * row_B)), *few = malloc((size_t)(n * by * size_B));
    assert_true(all && few);
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *x = kiln_narrow(kiln_normal(dev, dtype, KILN_SHAPE(n, lines, 2), 0, 1), 1, first, lines - first);
    assert_int_equal(kiln_read(kiln_fft_pairs(x, 0, false), all, (size_t)(n * row_B)), KILN_OK);
    for (int64_t at = 0; at + by <= lines - first; at += by) {
        kiln_tensor *part = kiln_contiguous(kiln_narrow(x, 1, at, by));
        assert_int_equal(kiln_read(kiln_fft_pairs(part, 0, false), few, (size_t)(n * by * size_B)), KILN_OK);
        for (int64_t k = 0; k < n; k++)
            if (memcmp(all + k * row_B + at * size_B, few + k * by * size_B, (size_t)(by * size_B)))
                fail_msg("%lld lines of %lld numbers from %lld on: element %lld of lines from %lld on",
                         (long long)lines, (long long)n, (long long)first, (long long)k, (long long)at);
    }
    kiln_scope_end(&scope);
    free(few);
    free(all);
}

static void test_lines(void **state)
{
    static const int64_t lengths[] = {40, 256, 512, 1000, 1024, 2048, 4096};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        int64_t n = lengths[i], lines = ((3 << 20) / (8 * n) + 31) / 32 * 32;
        expect_same_lines(KILN_F32, n, lines, 0, 32);
        expect_same_lines(KILN_F32, n, lines + 3, 0, 21);
        expect_same_lines(KILN_F32, n, lines + 16, 5, 24);
        expect_same_lines(KILN_F64, n, lines, 0, 16);
    }
}

// A line of several megabytes, whose second step takes the place of its first: forth and back it is n times itself.
static void test_long_lines(void **state)
{
    static const int64_t lengths[] = {1 << 19, 500000, 531441};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        int64_t n = lengths[i];
        kiln_scope *scope = kiln_scope_begin();
        kiln_tensor *x = kiln_normal(dev, KILN_F32, KILN_SHAPE(n, 2), 0, 1);
        kiln_tensor *back = kiln_div(kiln_fft_pairs(kiln_fft_pairs(x, 0, false), 0, true), kiln_scalar((double)n));
        double error = kiln_item(kiln_max(kiln_abs(kiln_sub(back, x)), NULL));
        if (!(error < 1e-5)) fail_msg("%lld numbers: %g off, %s", (long long)n, error, kiln_error_message());
        kiln_scope_end(&scope);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_sums),
                                       cmocka_unit_test(test_passes), cmocka_unit_test(test_lines),
                                       cmocka_unit_test(test_long_lines)};
    if (lacks_instructions()) return TEST_SKIPPED;
    return cmocka_run_group_tests(tests, open_device, close_device);
}
