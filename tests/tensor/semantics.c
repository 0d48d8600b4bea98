// The promises about scalars, one by one and in numbers: wrapping, division, shifts, conversion, NaN, rounding, bool,
// promotion. The argument is the device.
#include "conformance/suite.h"
#include "ir/op.h"
#include <kiln/composites.h>
#include <setjmp.h>
#include <string.h>

#include <cmocka.h>

typedef kiln_tensor *(*unary_fn)(kiln_tensor *);
typedef kiln_tensor *(*binary_fn)(kiln_tensor *, kiln_tensor *);

static kiln_scope *scope;

static int begin(void **state)
{
    kiln_error_clear();
    scope = kiln_scope_begin();
    return scope ? 0 : -1;
}

static int end(void **state)
{
    kiln_scope_end(&scope);
    kiln_error_clear();
    return 0;
}

static kiln_tensor *list(int dtype, size_t n, const double *v)
{
    unsigned char bytes[64 * 8];
    int64_t dims = (int64_t)n;
    assert_true(n <= 64);
    for (size_t i = 0; i < n; i++) encode(dtype, v[i], bytes + i * element_size_B(dtype));
    return kiln_from_data(suite.dev, (kiln_dtype)dtype, 1, &dims, bytes);
}
#define LIST(dtype, ...) list(dtype, sizeof((double[]){__VA_ARGS__}) / sizeof(double), (double[]){__VA_ARGS__})

static void expect(kiln_tensor *t, int dtype, size_t n, const double *want, int line)
{
    char where[40];
    snprintf(where, sizeof where, "line %d", line);
    if (kiln_error()) fail_msg("%s: %s", where, kiln_error_message());
    if ((int)kiln_tensor_dtype(t) != dtype)
        fail_msg("%s: dtype %s, expected %s", where, kiln_dtype_name(kiln_tensor_dtype(t)),
                 kiln_dtype_name((kiln_dtype)dtype));
    assert_int_equal(kiln_numel(t), (int64_t)n);
    struct host got = host_read(t);
    assert_non_null(got.v);
    for (size_t i = 0; i < n && !suite.is_null; i++) {
        // The greatest i64 is not a double; 2^63 stands for it.
        long double w = dtype == KILN_I64 && want[i] == 0x1p63 ? INT64_MAX : quantized(dtype, want[i]);
        bool same = isnan(w) ? isnan(got.v[i])
                             : got.v[i] == w && (w != 0 || !is_float(dtype) || !signbit(w) == !signbit(got.v[i]));
        if (!same) fail_msg("%s: element %zu is %.10Lg, expected %.10Lg", where, i, got.v[i], w);
    }
    host_free(&got);
}
#define EXPECT(t, dtype, ...) \
    expect(t, dtype, sizeof((double[]){__VA_ARGS__}) / sizeof(double), (double[]){__VA_ARGS__}, __LINE__)

// --- integers

static void integers_wrap(void **state)
{
    EXPECT(kiln_add(LIST(KILN_I8, 127, -128, 100), LIST(KILN_I8, 1, -1, 100)), KILN_I8, -128, 127, -56);
    EXPECT(kiln_add(LIST(KILN_U8, 200, 255), LIST(KILN_U8, 100, 1)), KILN_U8, 44, 0);
    EXPECT(kiln_sub(LIST(KILN_U8, 0, 5), LIST(KILN_U8, 1, 10)), KILN_U8, 255, 251);
    EXPECT(kiln_mul(LIST(KILN_I16, 300, -32768), LIST(KILN_I16, 300, -1)), KILN_I16, 24464, -32768);
    EXPECT(kiln_add(LIST(KILN_I32, 2147483647, -2147483648.0), LIST(KILN_I32, 1, -1)), KILN_I32, -2147483648.0,
           2147483647);
    EXPECT(kiln_mul(LIST(KILN_I32, 65536, 2147483647), LIST(KILN_I32, 65536, 2)), KILN_I32, 0, -2);
    EXPECT(kiln_mul(LIST(KILN_I64, 4294967296.0, 0x1p62), LIST(KILN_I64, 4294967296.0, 2)), KILN_I64, 0, -0x1p63);
    EXPECT(kiln_neg(LIST(KILN_I8, -128, 5)), KILN_I8, -128, -5);
    EXPECT(kiln_neg(LIST(KILN_U8, 1, 0)), KILN_U8, 255, 0);
    EXPECT(kiln_abs(LIST(KILN_I32, -2147483648.0, -7)), KILN_I32, -2147483648.0, 7);
    EXPECT(kiln_square(LIST(KILN_I8, 16, -12)), KILN_I8, 0, -112);
    EXPECT(kiln_sum(LIST(KILN_I64, 0x1p62, 0x1p62), NULL), KILN_I64, -0x1p63);
    EXPECT(kiln_sum(LIST(KILN_I8, 127, 127, 127), NULL), KILN_I64, 381);
    EXPECT(kiln_prod(LIST(KILN_I64, 0x1p32, 0x1p31), NULL), KILN_I64, -0x1p63);
}

static void integers_divide_downwards(void **state)
{
    EXPECT(kiln_floor_divide(LIST(KILN_I32, 7, -7, 7, -7, 6), LIST(KILN_I32, 2, 2, -2, -2, -3)), KILN_I32, 3, -4, -4, 3,
           -2);
    EXPECT(kiln_remainder(LIST(KILN_I32, 7, -7, 7, -7, 6), LIST(KILN_I32, 2, 2, -2, -2, -3)), KILN_I32, 1, 1, -1, -1,
           0);
    EXPECT(kiln_floor_divide(LIST(KILN_I8, -7, 100), LIST(KILN_I8, 3, -7)), KILN_I8, -3, -15);
    EXPECT(kiln_remainder(LIST(KILN_I16, -7, 100), LIST(KILN_I16, 3, -7)), KILN_I16, 2, -5);
    EXPECT(kiln_floor_divide(LIST(KILN_U8, 250, 7), LIST(KILN_U8, 7, 250)), KILN_U8, 35, 0);
    EXPECT(kiln_floor_divide(LIST(KILN_I64, -0x1p62, 5), LIST(KILN_I64, 0x1p40, -2)), KILN_I64, -0x1p22, -3);
    EXPECT(kiln_fmod(LIST(KILN_I32, 7, -7, 7, -7), LIST(KILN_I32, 2, 2, -2, -2)), KILN_I32, 1, -1, 1, -1);
    EXPECT(kiln_div(LIST(KILN_I32, 7, -1), LIST(KILN_I32, 2, 4)), KILN_F32, 3.5, -0.25);
}

static void integer_division_by_zero_gives_zero(void **state)
{
    for (int dtype = KILN_U8; dtype <= KILN_I64; dtype++) {
        EXPECT(kiln_floor_divide(LIST(dtype, 5, 0, 100), LIST(dtype, 0, 0, 0)), dtype, 0, 0, 0);
        EXPECT(kiln_remainder(LIST(dtype, 5, 0, 100), LIST(dtype, 0, 0, 0)), dtype, 0, 0, 0);
    }
    EXPECT(kiln_div(LIST(KILN_I32, 1, -1, 0), LIST(KILN_I32, 0, 0, 0)), KILN_F32, INFINITY, -INFINITY, NAN);
}

static void least_integer_by_minus_one_is_itself(void **state)
{
    EXPECT(kiln_floor_divide(LIST(KILN_I8, -128), LIST(KILN_I8, -1)), KILN_I8, -128);
    EXPECT(kiln_floor_divide(LIST(KILN_I16, -32768), LIST(KILN_I16, -1)), KILN_I16, -32768);
    EXPECT(kiln_floor_divide(LIST(KILN_I32, -0x1p31), LIST(KILN_I32, -1)), KILN_I32, -0x1p31);
    EXPECT(kiln_floor_divide(LIST(KILN_I64, -0x1p63), LIST(KILN_I64, -1)), KILN_I64, -0x1p63);
    EXPECT(kiln_remainder(LIST(KILN_I32, -0x1p31), LIST(KILN_I32, -1)), KILN_I32, 0);
    EXPECT(kiln_remainder(LIST(KILN_I64, -0x1p63), LIST(KILN_I64, -1)), KILN_I64, 0);
    EXPECT(kiln_fmod(LIST(KILN_I64, -0x1p63), LIST(KILN_I64, -1)), KILN_I64, 0);
}

static void shifts_past_the_width(void **state)
{
    EXPECT(kiln_bitwise_left_shift(LIST(KILN_I32, 1, 1, 1, -1, 3), LIST(KILN_I32, 4, 31, 32, 100, 31)), KILN_I32, 16,
           -0x1p31, 0, 0, -0x1p31);
    EXPECT(kiln_bitwise_right_shift(LIST(KILN_I32, -16, -16, 16, -1, 5), LIST(KILN_I32, 2, 32, 32, 31, 1)), KILN_I32,
           -4, -1, 0, -1, 2);
    EXPECT(kiln_bitwise_left_shift(LIST(KILN_I64, 1, 1, 1), LIST(KILN_I64, 40, 63, 64)), KILN_I64, 0x1p40, -0x1p63, 0);
    EXPECT(kiln_bitwise_right_shift(LIST(KILN_I64, -0x1p63, 0x1p62, -1), LIST(KILN_I64, 63, 64, 64)), KILN_I64, -1, 0,
           -1);
    EXPECT(kiln_bitwise_left_shift(LIST(KILN_U8, 1, 255, 1, 1), LIST(KILN_U8, 7, 4, 8, 255)), KILN_U8, 128, 240, 0, 0);
    EXPECT(kiln_bitwise_right_shift(LIST(KILN_I8, -128, -128, 127), LIST(KILN_I8, 3, 8, 100)), KILN_I8, -16, -1, 0);
    EXPECT(kiln_bitwise_right_shift(LIST(KILN_U8, 200, 200), LIST(KILN_U8, 3, 8)), KILN_U8, 25, 0);
    // A negative distance counts as one past the width.
    EXPECT(kiln_bitwise_left_shift(LIST(KILN_I32, 5), LIST(KILN_I32, -1)), KILN_I32, 0);
    EXPECT(kiln_bitwise_right_shift(LIST(KILN_I32, -5, 5), LIST(KILN_I32, -1, -1)), KILN_I32, -1, 0);
}

static void bits_of_bool_and_integers(void **state)
{
    EXPECT(kiln_bitwise_invert(LIST(KILN_BOOL, 0, 1)), KILN_BOOL, 1, 0);
    EXPECT(kiln_bitwise_invert(LIST(KILN_U8, 0, 170)), KILN_U8, 255, 85);
    EXPECT(kiln_bitwise_invert(LIST(KILN_I32, 0, -1)), KILN_I32, -1, 0);
    EXPECT(kiln_bitwise_xor(LIST(KILN_BOOL, 0, 1, 1), LIST(KILN_BOOL, 1, 1, 0)), KILN_BOOL, 1, 0, 1);
    EXPECT(kiln_bitwise_and(LIST(KILN_I16, -1, 12), LIST(KILN_U8, 200, 10)), KILN_I16, 200, 8);
}

// --- floats

static void floats_divide_downwards(void **state)
{
    // A zero dividend gives a zero of the quotient's sign.
    EXPECT(kiln_floor_divide(LIST(KILN_F32, 0.0, -0.0, 0.0, -0.0), LIST(KILN_F32, 2, 2, -2, -2)), KILN_F32, 0.0, -0.0,
           -0.0, 0.0);
    EXPECT(kiln_floor_divide(LIST(KILN_F32, 7.5, -7.5, 7.5, 1), LIST(KILN_F32, 2, 2, -2, 0)), KILN_F32, 3, -4, -4,
           INFINITY);
    EXPECT(kiln_remainder(LIST(KILN_F32, 7.5, -7.5, 7.5, -7.5, 1), LIST(KILN_F32, 2, 2, -2, -2, 0)), KILN_F32, 1.5, 0.5,
           -0.5, -1.5, NAN);
    EXPECT(kiln_fmod(LIST(KILN_F32, 7.5, -7.5, 7.5, -7.5), LIST(KILN_F32, 2, 2, -2, -2)), KILN_F32, 1.5, -1.5, 1.5,
           -1.5);
    EXPECT(kiln_div(LIST(KILN_F32, 1, -1, 0), LIST(KILN_F32, 0, 0, 0)), KILN_F32, INFINITY, -INFINITY, NAN);
}

static void rounding_is_half_to_even(void **state)
{
    for (int dtype = KILN_F16; dtype <= KILN_F64; dtype++) {
        EXPECT(kiln_round(LIST(dtype, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 2.75, -3.25, 100)), dtype, 0, 2, 2, -0.0, -2, -2,
               3, -3, 100);
        EXPECT(kiln_trunc(LIST(dtype, 1.75, -1.75, 0.5)), dtype, 1, -1, 0);
        EXPECT(kiln_floor(LIST(dtype, 1.75, -1.75, -0.5)), dtype, 1, -2, -1);
        EXPECT(kiln_ceil(LIST(dtype, 1.25, -1.75, -0.5)), dtype, 2, -1, -0.0);
    }
    EXPECT(kiln_round(LIST(KILN_F32, 8388607.5, 8388608.5, 16777217)), KILN_F32, 8388608, 8388608, 16777216);
    EXPECT(kiln_round(LIST(KILN_I32, 5, -3)), KILN_I32, 5, -3);
    // Stores round the same way.
    EXPECT(kiln_cast(LIST(KILN_F32, 1 + 0x1p-11, 1 + 3 * 0x1p-11, 2049), KILN_F16), KILN_F16, 1, 1 + 0x1p-9, 2048);
    EXPECT(kiln_cast(LIST(KILN_F32, 1 + 0x1p-8, 1 + 3 * 0x1p-8, 257), KILN_BF16), KILN_BF16, 1, 1 + 0x1p-6, 256);
    EXPECT(kiln_cast(LIST(KILN_I32, 16777217, 16777219), KILN_F32), KILN_F32, 16777216, 16777220);
}

static void denormals_are_kept(void **state)
{
    EXPECT(kiln_mul(LIST(KILN_F32, 0x1p-140, 0x1p-149, -0x1p-130), LIST(KILN_F32, 1, 1, 0.5)), KILN_F32, 0x1p-140,
           0x1p-149, -0x1p-131);
    EXPECT(kiln_add(LIST(KILN_F32, 0x1p-149), LIST(KILN_F32, 0x1p-149)), KILN_F32, 0x1p-148);
    EXPECT(kiln_mul(LIST(KILN_F64, 0x1p-1074, 0x1p-1022), LIST(KILN_F64, 3, 0.5)), KILN_F64, 0x1.8p-1073, 0x1p-1023);
    EXPECT(kiln_mul(LIST(KILN_F16, 0x1p-24, 0x1p-14), LIST(KILN_F16, 3, 0.5)), KILN_F16, 3 * 0x1p-24, 0x1p-15);
    EXPECT(kiln_mul(LIST(KILN_BF16, 0x1p-133, 0x1p-126), LIST(KILN_BF16, 1, 0.5)), KILN_BF16, 0x1p-133, 0x1p-127);
}

static void nan_wins_in_choices(void **state)
{
    for (int dtype = KILN_F16; dtype <= KILN_F64; dtype++) {
        EXPECT(kiln_maximum(LIST(dtype, NAN, 1, NAN, 2), LIST(dtype, 1, NAN, NAN, 3)), dtype, NAN, NAN, NAN, 3);
        EXPECT(kiln_minimum(LIST(dtype, NAN, 1, -INFINITY), LIST(dtype, 1, NAN, NAN)), dtype, NAN, NAN, NAN);
        EXPECT(kiln_clip(LIST(dtype, NAN, 5, -5), kiln_scalar(-1), kiln_scalar(1)), dtype, NAN, 1, -1);
        EXPECT(kiln_relu(LIST(dtype, NAN, -1, 2)), dtype, NAN, 0, 2);
        EXPECT(kiln_relu6(LIST(dtype, NAN, -1, 7)), dtype, NAN, 0, 6);
    }
    EXPECT(kiln_equal(LIST(KILN_F32, NAN, 0), LIST(KILN_F32, NAN, -0.0)), KILN_BOOL, 0, 1);
    EXPECT(kiln_not_equal(LIST(KILN_F32, NAN, 1), LIST(KILN_F32, NAN, 1)), KILN_BOOL, 1, 0);
    EXPECT(kiln_less(LIST(KILN_F32, NAN, 1), LIST(KILN_F32, 1, NAN)), KILN_BOOL, 0, 0);
    EXPECT(kiln_greater_equal(LIST(KILN_F32, NAN, 1), LIST(KILN_F32, 1, NAN)), KILN_BOOL, 0, 0);
    // What is not taken does not matter.
    EXPECT(kiln_where(LIST(KILN_BOOL, 1, 0), LIST(KILN_F32, 1, NAN), LIST(KILN_F32, NAN, 2)), KILN_F32, 1, 2);
}

static void nan_wins_in_reductions(void **state)
{
    for (int dtype = KILN_F16; dtype <= KILN_F64; dtype++) {
        EXPECT(kiln_max(LIST(dtype, 1, NAN, 3), NULL), dtype, NAN);
        EXPECT(kiln_min(LIST(dtype, NAN, 2, 3), NULL), dtype, NAN);
        EXPECT(kiln_sum(LIST(dtype, 1, NAN), NULL), dtype, NAN);
        EXPECT(kiln_argmax(LIST(dtype, 1, NAN, 9, NAN), NULL), KILN_I64, 1);
        EXPECT(kiln_argmin(LIST(dtype, 1, 0, NAN, -9, NAN), NULL), KILN_I64, 2);
    }
    EXPECT(kiln_any(LIST(KILN_F32, 0, NAN), NULL), KILN_BOOL, 1);
    EXPECT(kiln_all(LIST(KILN_F32, 1, NAN), NULL), KILN_BOOL, 1);
}

static void first_of_equals_is_the_argument(void **state)
{
    EXPECT(kiln_argmax(LIST(KILN_I32, 3, 7, 7, 1, 7), NULL), KILN_I64, 1);
    EXPECT(kiln_argmin(LIST(KILN_I32, 3, 1, 7, 1), NULL), KILN_I64, 1);
    EXPECT(kiln_argmax(LIST(KILN_F32, -INFINITY, -INFINITY), NULL), KILN_I64, 0);
    EXPECT(kiln_argmax(LIST(KILN_F32, -0.0, 0), NULL), KILN_I64, 0);
    EXPECT(kiln_argmax(kiln_zeros(suite.dev, KILN_F32, KILN_SHAPE(3000)), NULL), KILN_I64, 0);
}

static void nothing_reduces_to_the_identity(void **state)
{
    kiln_tensor *f = kiln_zeros(suite.dev, KILN_F32, KILN_SHAPE(0)),
                *i = kiln_zeros(suite.dev, KILN_I32, KILN_SHAPE(0));
    EXPECT(kiln_sum(f, NULL), KILN_F32, 0);
    EXPECT(kiln_prod(f, NULL), KILN_F32, 1);
    EXPECT(kiln_sum(i, NULL), KILN_I64, 0);
    EXPECT(kiln_prod(i, NULL), KILN_I64, 1);
    EXPECT(kiln_any(i, NULL), KILN_BOOL, 0);
    EXPECT(kiln_all(i, NULL), KILN_BOOL, 1);
    EXPECT(kiln_mean(f, NULL), KILN_F32, NAN);
    assert_null(kiln_max(f, NULL));
    assert_int_equal(kiln_error(), KILN_E_SHAPE);
}

static void nan_is_sorted_last(void **state)
{
    kiln_tensor *values = NULL, *places = NULL;
    for (int descending = 0; descending < 2; descending++) {
        assert_int_equal(kiln_sort(LIST(KILN_F32, 2, NAN, -1, INFINITY, NAN, 2), 0, descending, &values, &places),
                         KILN_OK);
        if (descending) {
            EXPECT(values, KILN_F32, INFINITY, 2, 2, -1, NAN, NAN);
            EXPECT(places, KILN_I64, 3, 0, 5, 2, 1, 4);
        } else {
            EXPECT(values, KILN_F32, -1, 2, 2, INFINITY, NAN, NAN);
            EXPECT(places, KILN_I64, 2, 0, 5, 3, 1, 4);
        }
    }
    assert_int_equal(kiln_topk(LIST(KILN_F32, NAN, 1, 3), 2, 0, true, &values, &places), KILN_OK);
    EXPECT(values, KILN_F32, 3, 1);
    EXPECT(places, KILN_I64, 2, 1);
}

// --- writing in place

static void ops_in_place_write_the_storage(void **state)
{
    kiln_tensor *x = LIST(KILN_F32, 1, 2, 3, 4), *row = kiln_narrow(x, 0, 1, 2);
    uint64_t version = kiln_tensor_version(x);
    assert_int_equal(kiln_add_(x, kiln_scalar(10)), KILN_OK);
    EXPECT(row, KILN_F32, 12, 13);
    assert_true(kiln_tensor_version(x) > version);
    assert_int_equal(kiln_mul_(row, LIST(KILN_F32, -1, 2)), KILN_OK);
    EXPECT(x, KILN_F32, 11, -12, 26, 14);
    assert_int_equal(kiln_relu_(x), KILN_OK);
    EXPECT(x, KILN_F32, 11, 0, 26, 14);
    // The operands of another dtype are converted within their kind; the result keeps the first one's.
    kiln_tensor *i = LIST(KILN_I8, 100, -100);
    assert_int_equal(kiln_add_(i, LIST(KILN_I8, 100, -100)), KILN_OK);
    EXPECT(i, KILN_I8, -56, 56);
    kiln_tensor *h = LIST(KILN_F16, 1, 2);
    assert_int_equal(kiln_add_(h, LIST(KILN_F32, 0.5, 0.25)), KILN_OK);
    EXPECT(h, KILN_F16, 1.5, 2.25);
    // What overlaps is read before it is written.
    kiln_tensor *y = LIST(KILN_F32, 1, 2, 3, 4);
    assert_int_equal(kiln_add_(kiln_narrow(y, 0, 1, 3), kiln_narrow(y, 0, 0, 3)), KILN_OK);
    EXPECT(y, KILN_F32, 1, 3, 5, 7);
}

static void what_does_not_fit_is_not_written(void **state)
{
    kiln_tensor *i = LIST(KILN_I32, 1, 2), *f = LIST(KILN_F32, 1, 2);
    assert_int_equal(kiln_add_(i, f), KILN_E_DTYPE);
    kiln_error_clear();
    assert_int_equal(kiln_add_(f, kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(3, 2))), KILN_E_SHAPE);
    kiln_error_clear();
    EXPECT(f, KILN_F32, 1, 2);
    EXPECT(i, KILN_I32, 1, 2);
}

// --- conversion

static void floats_become_integers_truncated_and_saturated(void **state)
{
    EXPECT(kiln_cast(LIST(KILN_F32, 1.9, -1.9, 0.5, -0.5, NAN), KILN_I32), KILN_I32, 1, -1, 0, 0, 0);
    EXPECT(kiln_cast(LIST(KILN_F32, 3e9, -3e9, INFINITY, -INFINITY, 2147483520), KILN_I32), KILN_I32, 2147483647,
           -0x1p31, 2147483647, -0x1p31, 2147483520);
    EXPECT(kiln_cast(LIST(KILN_F32, 300, -300, 127.5, NAN, 1e20), KILN_I8), KILN_I8, 127, -128, 127, 0, 127);
    EXPECT(kiln_cast(LIST(KILN_F32, 300, -5, 255.9, NAN, -0.9), KILN_U8), KILN_U8, 255, 0, 255, 0, 0);
    EXPECT(kiln_cast(LIST(KILN_F16, 65504, -65504, NAN), KILN_I16), KILN_I16, 32767, -32768, 0);
    EXPECT(kiln_cast(LIST(KILN_F64, 1e300, -1e300, 0x1p62, NAN), KILN_I64), KILN_I64, 0x1p63, -0x1p63, 0x1p62, 0);
    EXPECT(kiln_cast(LIST(KILN_F64, 4294967296.0, -4294967297.0), KILN_I32), KILN_I32, 2147483647, -0x1p31);
    EXPECT(kiln_cast(LIST(KILN_BF16, 1e30, -2.5), KILN_I64), KILN_I64, 0x1p63, -2);
}

static void integers_become_narrower_by_wrapping(void **state)
{
    EXPECT(kiln_cast(LIST(KILN_I32, 300, -1, 128, -129), KILN_I8), KILN_I8, 44, -1, -128, 127);
    EXPECT(kiln_cast(LIST(KILN_I32, 300, -1, 256), KILN_U8), KILN_U8, 44, 255, 0);
    EXPECT(kiln_cast(LIST(KILN_I64, 4294967296.0 + 5, -1), KILN_I32), KILN_I32, 5, -1);
    EXPECT(kiln_cast(LIST(KILN_U8, 200), KILN_I8), KILN_I8, -56);
    EXPECT(kiln_cast(LIST(KILN_I8, -1), KILN_I64), KILN_I64, -1);
    EXPECT(kiln_cast(LIST(KILN_U8, 255), KILN_I16), KILN_I16, 255);
}

static void overflow_of_narrow_floats_is_infinite(void **state)
{
    EXPECT(kiln_cast(LIST(KILN_F32, 65504, 65519, 65520, -70000, 1e-8, NAN), KILN_F16), KILN_F16, 65504, 65504,
           INFINITY, -INFINITY, 0, NAN);
    EXPECT(kiln_mul(LIST(KILN_F16, 300, -300), LIST(KILN_F16, 300, 300)), KILN_F16, INFINITY, -INFINITY);
    EXPECT(kiln_cast(LIST(KILN_F64, 1e39, -1e39, 1e-50), KILN_F32), KILN_F32, INFINITY, -INFINITY, 0);
}

static void bool_is_zero_or_one(void **state)
{
    kiln_tensor *made[] = {
        kiln_cast(LIST(KILN_F32, 0.25, 0, -0.0, NAN, -3), KILN_BOOL),
        kiln_cast(LIST(KILN_I32, 256, 0, 0, 65536, -1), KILN_BOOL),
        kiln_cast(LIST(KILN_I64, 0x1p40, 0, 0, 1, -1), KILN_BOOL),
        kiln_not_equal(LIST(KILN_F32, 1, 0, 0, 5, NAN), LIST(KILN_F32, 0, 0, 0, 0, 0)),
        kiln_logical_or(LIST(KILN_F32, 0.5, 0, 0, 2, 3), LIST(KILN_F32, 0, 0, -0.0, 0, 0)),
        kiln_cast(LIST(KILN_U8, 2, 0, 0, 255, 128), KILN_BOOL),
        kiln_logical_and(LIST(KILN_I32, 2, 0, 1, 256, 4), LIST(KILN_I32, 4, 1, 0, 1, 2)),
    };
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++) {
        uint8_t bytes[5] = {9, 9, 9, 9, 9};
        if (kiln_error()) fail_msg("%s", kiln_error_message());
        assert_int_equal(kiln_read(made[i], bytes, sizeof bytes), KILN_OK);
        const uint8_t want[5] = {1, 0, 0, 1, 1};
        if (!suite.is_null) assert_memory_equal(bytes, want, sizeof bytes);
    }
    EXPECT(kiln_sum(LIST(KILN_BOOL, 1, 1, 0, 1), NULL), KILN_I64, 3);
    EXPECT(kiln_cast(LIST(KILN_BOOL, 1, 0), KILN_F32), KILN_F32, 1, 0);
    EXPECT(kiln_exp(LIST(KILN_BOOL, 0)), KILN_F32, 1);
}

// --- promotion

static kiln_tensor *one(int dtype)
{
    return kiln_ones(suite.dev, (kiln_dtype)dtype, KILN_SHAPE(2));
}

static void all_pairs_promote(void **state)
{
    kiln_tensor *condition = one(KILN_BOOL);
    for (int a = 0; a < DTYPES; a++)
        for (int b = 0; b < DTYPES; b++) {
            int d = promoted(a, b);
            if (d < 0) {
                assert_null(kiln_add(one(a), one(b)));
                assert_int_equal(kiln_error(), KILN_E_DTYPE);
                kiln_error_clear();
                continue;
            }
            EXPECT(kiln_where(condition, one(a), one(b)), d, 1, 1);
            EXPECT(kiln_equal(one(a), one(b)), KILN_BOOL, 1, 1);
            EXPECT(kiln_atan2(kiln_sub(one(KILN_U8), one(KILN_U8)), one(b)), is_float(b) ? b : KILN_F32, 0, 0);
            if (d != KILN_BOOL) EXPECT(kiln_add(one(a), one(b)), d, 2, 2);
            if (is_integer(d)) EXPECT(kiln_bitwise_or(one(a), one(b)), d, 1, 1);
        }
    assert_null(kiln_add(one(KILN_BOOL), one(KILN_BOOL)));
    assert_int_equal(kiln_error(), KILN_E_DTYPE);
}

static void weak_scalars_take_the_other_dtype(void **state)
{
    for (int d = KILN_U8; d < DTYPES; d++) {
        EXPECT(kiln_add(one(d), kiln_scalar_int(2)), d, 3, 3);
        EXPECT(kiln_add(kiln_scalar_int(2), one(d)), d, 3, 3);
        EXPECT(kiln_add(one(d), kiln_scalar_bool(true)), d, 2, 2);
        EXPECT(kiln_add(one(d), kiln_scalar(0.5)), is_float(d) ? d : KILN_F32, 1.5, 1.5);
        EXPECT(kiln_mul(kiln_scalar(0.5), one(d)), is_float(d) ? d : KILN_F32, 0.5, 0.5);
        EXPECT(kiln_less(one(d), kiln_scalar(1.5)), KILN_BOOL, 1, 1);
    }
    EXPECT(kiln_add(one(KILN_BOOL), kiln_scalar_int(2)), KILN_I64, 3, 3);
    EXPECT(kiln_mul(one(KILN_BOOL), kiln_scalar(0.5)), KILN_F32, 0.5, 0.5);
    EXPECT(kiln_logical_and(one(KILN_BOOL), kiln_scalar_bool(false)), KILN_BOOL, 0, 0);
    EXPECT(kiln_where(one(KILN_BOOL), kiln_scalar(2), one(KILN_F16)), KILN_F16, 2, 2);
    // A rank-0 tensor is not weak.
    EXPECT(kiln_add(one(KILN_F16), kiln_ones(suite.dev, KILN_F32, KILN_SHAPE0)), KILN_F32, 2, 2);
}

static void weak_scalars_alone(void **state)
{
    EXPECT(kiln_add(kiln_scalar(1.5), kiln_scalar(1)), KILN_F32, 2.5);
    EXPECT(kiln_add(kiln_scalar_int(1), kiln_scalar_int(2)), KILN_I64, 3);
    EXPECT(kiln_add(kiln_scalar_int(1), kiln_scalar(0.5)), KILN_F32, 1.5);
    EXPECT(kiln_exp(kiln_scalar(0)), KILN_F32, 1);
    EXPECT(kiln_neg(kiln_scalar_int(3)), KILN_I64, -3);
    EXPECT(kiln_logical_not(kiln_scalar_bool(true)), KILN_BOOL, 0);
    // The value is not rounded through a narrower dtype on its way.
    EXPECT(kiln_add(LIST(KILN_F64, 0), kiln_scalar(0.1)), KILN_F64, 0.1);
    kiln_tensor *odd = kiln_add(LIST(KILN_I64, 0), kiln_scalar_int(9007199254740993));
    if (!suite.is_null) assert_true(kiln_item_int(odd) == 9007199254740993);
}

// --- arguments

static void axes_are_an_argument_and_an_option(void **state)
{
    kiln_tensor *x = kiln_reshape(LIST(KILN_I64, 0, 1, 2, 3, 4, 5), KILN_SHAPE(1, 2, 3));
    kiln_ints kept = {2, (const int64_t[]){2, 1}};
    EXPECT(kiln_permute(x, KILN_AXES(2, 1, 0)), KILN_I64, 0, 3, 1, 4, 2, 5);
    EXPECT(kiln_flip(x, KILN_AXES(-1)), KILN_I64, 2, 1, 0, 5, 4, 3);
    EXPECT(kiln_flip(x, kept), KILN_I64, 5, 4, 3, 2, 1, 0);
    EXPECT(kiln_flip(x, KILN_AXES0), KILN_I64, 5, 4, 3, 2, 1, 0);
    EXPECT(kiln_roll(x, KILN_ARGS(1, 1), KILN_AXES(1, 2)), KILN_I64, 5, 3, 4, 2, 0, 1);
    EXPECT(kiln_roll(x, KILN_ARGS(2), KILN_AXES0), KILN_I64, 4, 5, 0, 1, 2, 3);
    EXPECT(kiln_moveaxis(x, KILN_AXES(0, 2), KILN_AXES(2, 0)), KILN_I64, 0, 3, 1, 4, 2, 5);
    EXPECT(kiln_sum(x, KILN_REDUCE(.axes = KILN_AXES(0, 2))), KILN_I64, 3, 12);
    EXPECT(kiln_sum(x, KILN_REDUCE(.axes = kept)), KILN_I64, 15);
    EXPECT(kiln_sum(x, KILN_REDUCE(.axes = KILN_AXES0)), KILN_I64, 15);
    kiln_tensor *line = kiln_squeeze(x, KILN_AXES(0));
    assert_int_equal(kiln_rank(line), 2);
    EXPECT(kiln_tensordot(line, line, KILN_AXES(1), KILN_AXES(1)), KILN_I64, 5, 14, 14, 50);
    assert_null(kiln_permute(x, KILN_AXES(0, 1, 1)));
    assert_non_null(strstr(kiln_error_message(), "permute: axis 1 is given twice for i64[1,2,3]"));
    kiln_error_clear();
    assert_null(kiln_squeeze(x, KILN_AXES(2)));
    assert_non_null(strstr(kiln_error_message(), "squeeze: "));
    kiln_error_clear();
    assert_null(kiln_flip(x, ((kiln_ints){2, NULL})));
    assert_int_equal(kiln_error(), KILN_E_ARGUMENT);
    kiln_error_clear();
}

// The tensor that is masked comes first, as in other functions that take a mask; names are those of messages.
static void masks_come_behind_what_they_mask(void **state)
{
    kiln_tensor *x = LIST(KILN_F32, 1, 2, 3), *mask = LIST(KILN_BOOL, 0, 1, 0);
    EXPECT(kiln_masked_fill(x, mask, -1), KILN_F32, 1, -1, 3);
    EXPECT(kiln_masked_fill(x, mask, LIST(KILN_F32, 7, 8, 9)), KILN_F32, 1, 8, 3);
    EXPECT(kiln_masked_fill(0, mask, x), KILN_F32, 0, 2, 0);
    EXPECT(kiln_masked_fill(x, (bool)true, 5), KILN_F32, 5, 5, 5);
    assert_null(kiln_masked_fill(mask, x, -1));
    assert_non_null(strstr(kiln_error_message(), "masked_fill: mask must be bool, it is f32[3]"));
    kiln_error_clear();
    assert_null(kiln_where(x, x, x));
    assert_non_null(strstr(kiln_error_message(), "where: condition must be bool, it is f32[3]"));
    kiln_error_clear();
    assert_null(kiln_clip(x, NULL, 1));
    assert_non_null(strstr(kiln_error_message(), "clip: low is NULL"));
    kiln_error_clear();
    kiln_tensor *p = kiln_parameter(x, "p"), *v = kiln_parameter(LIST(KILN_F32, 4), "v");
    kiln_backward(kiln_sum(kiln_masked_fill(p, mask, v), NULL), NULL);
    EXPECT(kiln_gradient(p), KILN_F32, 1, 0, 1);
    EXPECT(kiln_gradient(v), KILN_F32, 1);
}

// The compiler tells of the name before, which gives what the name of now gives, in files too.
static void names_before_go_on(void **state)
{
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    EXPECT(kiln_hardshrink(LIST(KILN_F32, -1, 0.25, 2), 0.5), KILN_F32, -1, 0, 2);
#pragma GCC diagnostic pop
    kiln_tensor *x = LIST(KILN_F32, -1, 0.25, 2);
    EXPECT(kiln_hard_shrink(x, 0.5), KILN_F32, -1, 0, 2);
    assert_ptr_equal(op_find("hardshrink"), op_find("hard_shrink"));
    assert_non_null(op_find("hardshrink.grad0"));
    assert_string_equal(op_find("hardshrink.grad0")->name, "hard_shrink.grad0");
    assert_null(op_find("hardshrink.grad7"));
    assert_null(op_find("hardshrin"));
    assert_null(op_find("hardshrinks"));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(integers_wrap),
        TEST(integers_divide_downwards),
        TEST(integer_division_by_zero_gives_zero),
        TEST(least_integer_by_minus_one_is_itself),
        TEST(shifts_past_the_width),
        TEST(bits_of_bool_and_integers),
        TEST(floats_divide_downwards),
        TEST(rounding_is_half_to_even),
        TEST(denormals_are_kept),
        TEST(nan_wins_in_choices),
        TEST(nan_wins_in_reductions),
        TEST(first_of_equals_is_the_argument),
        TEST(nothing_reduces_to_the_identity),
        TEST(nan_is_sorted_last),
        TEST(ops_in_place_write_the_storage),
        TEST(what_does_not_fit_is_not_written),
        TEST(floats_become_integers_truncated_and_saturated),
        TEST(integers_become_narrower_by_wrapping),
        TEST(overflow_of_narrow_floats_is_infinite),
        TEST(bool_is_zero_or_one),
        TEST(all_pairs_promote),
        TEST(weak_scalars_take_the_other_dtype),
        TEST(weak_scalars_alone),
        TEST(names_before_go_on),
        TEST(axes_are_an_argument_and_an_option),
        TEST(masks_come_behind_what_they_mask),
    };
    return suite_main(argc, argv, "semantics", tests, sizeof tests / sizeof tests[0]);
}
