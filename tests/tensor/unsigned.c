// u16, u32 and u64: numbers above those of signed integers, in each kind of capture too. The argument is the device.
#include "conformance/suite.h"
#include <kiln/control.h>
#include <kiln/io.h>
#include <kiln/jit.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdlib.h>
#include <unistd.h>
#include <string.h>

#include <cmocka.h>

enum { N = 12 };
static const uint64_t large[N] = {0,
                                  1,
                                  2,
                                  63,
                                  (uint64_t)1 << 53 | 1,
                                  INT64_MAX,
                                  (uint64_t)1 << 63,
                                  ((uint64_t)1 << 63) + 1025,
                                  0xfffffffffffff400u,
                                  UINT64_MAX - 1,
                                  UINT64_MAX,
                                  12345678901234567890u};
static const uint64_t other[N] = {
    3, 0, 64, 62, 7, UINT64_MAX, 10, (uint64_t)1 << 63, 5, 1, UINT64_MAX, 987654321987654321u};

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

static kiln_tensor *of(const uint64_t *v)
{
    return kiln_from_data(suite.dev, KILN_U64, KILN_SHAPE(N), v);
}

static void expect(const char *what, kiln_tensor *t, kiln_dtype dtype, const void *want)
{
    unsigned char got[8 * N];
    if (kiln_error()) fail_msg("%s: %s", what, kiln_error_message());
    if (kiln_tensor_dtype(t) != dtype) fail_msg("%s: is %s", what, kiln_dtype_name(kiln_tensor_dtype(t)));
    size_t size_B = (size_t)kiln_numel(t) * kiln_dtype_size(dtype);
    assert_int_equal(kiln_read(t, got, size_B), KILN_OK);
    if (suite.is_null || !memcmp(got, want, size_B)) return;
    for (size_t i = 0; i < size_B / kiln_dtype_size(dtype); i++) {
        size_t item_B = kiln_dtype_size(dtype);
        uint64_t g = 0, w = 0;
        memcpy(&g, got + i * item_B, item_B);
        memcpy(&w, (const unsigned char *)want + i * item_B, item_B);
        if (g != w) fail_msg("%s: element %zu has the bits %" PRIx64 ", expected %" PRIx64, what, i, g, w);
    }
}

// --- what programs do with them, eagerly and captured; results are all u64 but where told

enum { OUT = 19 };
static const char *const names[OUT] = {
    "add",     "sub",         "mul",        "floor_divide", "remainder",     "fmod",           "maximum",
    "minimum", "shift right", "shift left", "less",         "greater_equal", "abs_difference", "clip",
    "f32",     "f64",         "from f32",   "sorted",       "cummax"};

static kiln_status compute(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *a = kiln_bitwise_invert(kiln_bitwise_invert(in[0])),
                *b = kiln_bitwise_xor(in[1], kiln_zeros_like(in[1])), *places;
    out[0] = kiln_add(a, b);
    out[1] = kiln_sub(a, b);
    out[2] = kiln_mul(a, b);
    out[3] = kiln_floor_divide(a, b);
    out[4] = kiln_remainder(a, b);
    out[5] = kiln_fmod(a, b);
    out[6] = kiln_maximum(a, b);
    out[7] = kiln_minimum(a, b);
    out[8] = kiln_bitwise_right_shift(a, b);
    out[9] = kiln_bitwise_left_shift(a, b);
    out[10] = kiln_cast(kiln_less(a, b), KILN_U64);
    out[11] = kiln_cast(kiln_greater_equal(a, b), KILN_U64);
    out[12] = kiln_abs_difference(a, b);
    out[13] = kiln_clip(a, kiln_scalar_int(2), kiln_cast(kiln_scalar_int(-2), KILN_U64));
    out[14] = kiln_cast(a, KILN_F32);
    out[15] = kiln_cast(a, KILN_F64);
    out[16] = kiln_cast(kiln_cast(a, KILN_F32), KILN_U64);
    kiln_sort(a, 0, false, &out[17], &places);
    out[18] = kiln_cummax(a, 0);
    return kiln_error();
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static uint64_t saturated(float x)
{
    return x >= 0x1p64f ? UINT64_MAX : (uint64_t)x;
}

static void exact(uint64_t want[OUT][N], float f32[N], double f64[N])
{
    for (int i = 0; i < N; i++) {
        uint64_t a = large[i], b = other[i], least = a < 2 ? 2 : a;
        f32[i] = (float)a;
        f64[i] = (double)a;
        const uint64_t of_both[OUT] = {a + b,
                                       a - b,
                                       a * b,
                                       b ? a / b : 0,
                                       b ? a % b : 0,
                                       b ? a % b : 0,
                                       a > b ? a : b,
                                       a < b ? a : b,
                                       b < 64 ? a >> b : 0,
                                       b < 64 ? a << b : 0,
                                       a<b, a >= b, a> b ? a - b : b - a,
                                       least > UINT64_MAX - 1 ? UINT64_MAX - 1 : least,
                                       0,
                                       0,
                                       saturated(f32[i]),
                                       a,
                                       i && want[18][i - 1] > a ? want[18][i - 1] : a};
        for (int k = 0; k < OUT; k++) want[k][i] = of_both[k];
    }
    qsort(want[17], N, sizeof want[17][0], by_size);
}

static void check_all(const char *way, kiln_tensor *const *out)
{
    uint64_t want[OUT][N];
    float f32[N];
    double f64[N];
    char what[64];
    exact(want, f32, f64);
    for (int k = 0; k < OUT; k++) {
        snprintf(what, sizeof what, "%s, %s", way, names[k]);
        if (k == 14)
            expect(what, out[k], KILN_F32, f32);
        else if (k == 15)
            expect(what, out[k], KILN_F64, f64);
        else
            expect(what, out[k], KILN_U64, want[k]);
    }
}

static const struct {
    const char *name;
    kiln_capture capture;
} ways[] = {{"STRICT", KILN_CAPTURE_STRICT}, {"AUTO", KILN_CAPTURE_AUTO}, {"TRACE", KILN_CAPTURE_TRACE}};

static void ops_see_no_sign(void **state)
{
    kiln_tensor *in[] = {of(large), of(other)}, *out[OUT];
    assert_int_equal(compute(NULL, in, 2, out, OUT), KILN_OK);
    check_all("eager", out);
    for (size_t w = 0; w < 3; w++) {
        kiln_function *f = kiln_jit(compute, NULL, KILN_JIT(.capture = ways[w].capture));
        for (int k = 0; k < 3; k++) {
            if (kiln_call(f, in, 2, out, OUT)) fail_msg("%s: %s", ways[w].name, kiln_error_message());
            check_all(ways[w].name, out);
        }
        kiln_function_free(&f);
    }
}

static void reductions_see_no_sign(void **state)
{
    kiln_tensor *a = of(large);
    uint64_t sum = 0, product = 1, most = UINT64_MAX, least = 0;
    const int64_t at = 10, first = 0;
    for (int i = 0; i < N; i++) sum += large[i];
    for (int i = 4; i < N; i++) product *= large[i];
    expect("sum", kiln_sum(a, NULL), KILN_U64, &sum);
    expect("prod", kiln_prod(kiln_narrow(a, 0, 4, N - 4), NULL), KILN_U64, &product);
    expect("max", kiln_max(a, NULL), KILN_U64, &most);
    expect("min", kiln_min(a, NULL), KILN_U64, &least);
    expect("argmax", kiln_argmax(a, NULL), KILN_I64, &at);
    expect("argmin", kiln_argmin(a, NULL), KILN_I64, &first);
    double mean = 0;
    const uint64_t two[2] = {UINT64_MAX - 4095, 1};
    kiln_tensor *m = kiln_mean(kiln_from_data(suite.dev, KILN_U64, KILN_SHAPE(2), two), NULL);
    mean = kiln_item(m);
    if (!suite.is_null) assert_true(mean == 0x1p63);
}

static void writes_see_no_sign(void **state)
{
    kiln_tensor *a = of(large);
    uint64_t want[N];
    for (int i = 0; i < N; i++) want[i] = large[i] > other[i] ? large[i] : other[i];
    assert_int_equal(kiln_maximum_(a, of(other)), KILN_OK);
    expect("maximum_", a, KILN_U64, want);
    for (int i = 0; i < N; i++) want[i] += other[i];
    assert_int_equal(kiln_add_(a, of(other)), KILN_OK);
    expect("add_", a, KILN_U64, want);
}

// --- conversion

static void casts_keep_what_fits(void **state)
{
    const double floats[8] = {-1, -0.5, 3.75, 65535.5, 4294967295.0, 4294967296.0, 0x1.fffffffffffffp63, 0x1p64};
    const float singles[4] = {NAN, 0x1.fffffep63f, 0x1.8p63f, -INFINITY};
    const uint64_t of_floats[8] = {0, 0, 3, 65535, 4294967295u, 4294967296u, UINT64_MAX - 2047, UINT64_MAX};
    const uint64_t of_singles[4] = {0, UINT64_MAX - 0xffffffffffu, (uint64_t)3 << 62, 0};
    const uint32_t words[8] = {0, 0, 3, 65535, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX};
    const uint16_t halves[8] = {0, 0, 3, 65535, 65535, 65535, 65535, 65535};
    kiln_tensor *d = kiln_from_data(suite.dev, KILN_F64, KILN_SHAPE(8), floats);
    kiln_tensor *s = kiln_from_data(suite.dev, KILN_F32, KILN_SHAPE(4), singles);
    expect("f64 to u64", kiln_cast(d, KILN_U64), KILN_U64, of_floats);
    expect("f64 to u32", kiln_cast(d, KILN_U32), KILN_U32, words);
    expect("f64 to u16", kiln_cast(d, KILN_U16), KILN_U16, halves);
    expect("f32 to u64", kiln_cast(s, KILN_U64), KILN_U64, of_singles);
    const uint32_t w[3] = {UINT32_MAX, 0x80000001u, 5};
    const float f[3] = {0x1p32f, 0x1p31f, 5};
    const int64_t wide[3] = {UINT32_MAX, 0x80000001, 5};
    const int32_t narrow[3] = {-1, INT32_MIN + 1, 5};
    kiln_tensor *u = kiln_from_data(suite.dev, KILN_U32, KILN_SHAPE(3), w);
    expect("u32 to f32", kiln_cast(u, KILN_F32), KILN_F32, f);
    expect("u32 to i64", kiln_cast(u, KILN_I64), KILN_I64, wide);
    expect("u32 to i32", kiln_cast(u, KILN_I32), KILN_I32, narrow);
    expect("i32 to u32", kiln_cast(kiln_cast(u, KILN_I32), KILN_U32), KILN_U32, w);
    const uint64_t filled = 10000000000000000000u;
    expect("full", kiln_full(suite.dev, KILN_U64, KILN_SHAPE0, 1e19), KILN_U64, &filled);
    assert_null(kiln_full(suite.dev, KILN_U64, KILN_SHAPE0, 1e30)); // more than it holds
    assert_int_equal(kiln_error(), KILN_E_ARGUMENT);
    kiln_error_clear();
}

static void numbers_are_read_and_shown(void **state)
{
    const uint64_t v[3] = {0, UINT64_MAX, 77};
    kiln_tensor *t = kiln_from_data(suite.dev, KILN_U64, KILN_SHAPE(3), v);
    if (suite.is_null) return;
    char *text = kiln_to_string(t);
    assert_string_equal(text, "[                   0 18446744073709551615                   77]");
    free(text);
    kiln_tensor *most = kiln_select(t, 0, 1);
    assert_true(kiln_item(most) == 0x1p64);
    assert_true((uint64_t)kiln_item_int(most) == UINT64_MAX);
    char path[] = "/tmp/kiln-unsigned-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    const kiln_dtype dtypes[] = {KILN_U16, KILN_U32, KILN_U64};
    for (int i = 0; i < 3; i++) {
        unsigned char want[24];
        kiln_tensor *x = kiln_cast(t, dtypes[i]);
        assert_int_equal(kiln_read(x, want, 3 * kiln_dtype_size(dtypes[i])), KILN_OK);
        assert_int_equal(kiln_npy_save(path, x), KILN_OK);
        expect("npy", kiln_npy_load(suite.dev, path), dtypes[i], want);
    }
    unlink(path);
}

// --- loops: the digits of a number, added up and counted

static kiln_status has_digits(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_greater(in[0], kiln_scalar_int(0));
    return kiln_error();
}

static kiln_status next_digit(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *ten = kiln_cast(kiln_scalar_int(10), KILN_U64);
    out[0] = kiln_floor_divide(in[0], ten);
    out[1] = kiln_add(in[1], kiln_remainder(in[0], ten));
    out[2] = kiln_add(in[2], kiln_scalar_int(1));
    return kiln_error();
}

static kiln_status digits(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *carried[] = {in[0], kiln_zeros_like(in[0]), kiln_zeros_like(in[0])}, *end[3] = {NULL};
    kiln_while(has_digits, next_digit, NULL, carried, 3, NULL, end, 3);
    out[0] = end[1];
    out[1] = end[2];
    return kiln_error();
}

static void loops_carry_them(void **state)
{
    const uint64_t sum = 87, count = 20; // of 18446744073709551615
    kiln_tensor *in[] = {kiln_select(of(large), 0, 10)}, *out[2];
    if (suite.is_null) return;
    assert_int_equal(digits(NULL, in, 1, out, 2), KILN_OK);
    expect("eager, sum", out[0], KILN_U64, &sum);
    expect("eager, count", out[1], KILN_U64, &count);
    for (size_t w = 0; w < 3; w++) {
        kiln_function *f = kiln_jit(digits, NULL, KILN_JIT(.capture = ways[w].capture));
        for (int k = 0; k < 3; k++) {
            if (kiln_call(f, in, 1, out, 2)) fail_msg("%s: %s", ways[w].name, kiln_error_message());
            expect(ways[w].name, out[0], KILN_U64, &sum);
            expect(ways[w].name, out[1], KILN_U64, &count);
        }
        kiln_function_free(&f);
    }
}

// --- what is refused

static kiln_status polynomial(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *x = kiln_cast(in[0], KILN_U64), *two = kiln_scalar_int(2);
    kiln_tensor *y = kiln_addcmul(kiln_cube(x), kiln_squared_difference(x, two), kiln_sub(kiln_square(x), two));
    out[0] = kiln_where(kiln_equal(x, two), kiln_mul(x, kiln_neg(y)), kiln_maximum(x, y));
    out[1] = kiln_mul(kiln_cast(out[0], KILN_F32), in[0]);
    (void)user, (void)n_in, (void)n_out;
    return kiln_error();
}

// Of what is made of a parameter by way of u64 no gradient comes, and none is missed.
static void gradients_end(void **state)
{
    const float x[] = {1, 2, 3, 5}, want[] = {1, (float)UINT64_MAX - 31, 34, 332};
    for (int way = -1; way < 3; way++) {
        kiln_tensor *w = kiln_parameter(kiln_from_data(suite.dev, KILN_F32, KILN_SHAPE(4), x), "w"), *y[2] = {NULL};
        kiln_function *f = way < 0 ? NULL : kiln_jit(polynomial, NULL, KILN_JIT(.capture = ways[way].capture));
        kiln_status status = f ? kiln_call(f, &w, 1, y, 2) : polynomial(NULL, &w, 1, y, 2);
        if (status) fail_msg("%s: %s", way < 0 ? "eager" : ways[way].name, kiln_error_message());
        assert_false(kiln_requires_grad(y[0]));
        assert_int_equal(kiln_backward(kiln_sum(y[1], NULL), NULL), KILN_OK);
        expect(way < 0 ? "eager" : ways[way].name, kiln_gradient(w), KILN_F32, want);
        kiln_function_free(&f);
    }
    kiln_parameter(kiln_zeros(suite.dev, KILN_U64, KILN_SHAPE(2)), "w");
    assert_int_equal(kiln_error(), KILN_E_DTYPE);
    assert_non_null(strstr(kiln_error_message(), "parameter: a u64 has no gradient"));
    kiln_error_clear();
}

static void refused(kiln_tensor *t, kiln_status status, const char *part)
{
    assert_null(t);
    assert_int_equal(kiln_error(), status);
    if (!strstr(kiln_error_message(), part)) fail_msg("%s", kiln_error_message());
    kiln_error_clear();
}

static void what_would_be_wrong_is_refused(void **state)
{
    kiln_tensor *a = of(large), *i = kiln_ones(suite.dev, KILN_I8, KILN_SHAPE(N));
    refused(kiln_add(a, i), KILN_E_DTYPE, "add: u64 and i8 have no dtype in common");
    refused(kiln_less(i, a), KILN_E_DTYPE, "u64");
    refused(kiln_concat((kiln_tensor *[]){a, i}, 2, 0), KILN_E_DTYPE, "concat: u64 and i8");
    refused(kiln_take(i, 0, a), KILN_E_DTYPE, "take: index is u64");
    refused(kiln_slice_at(i, 0, kiln_select(a, 0, 1), 1), KILN_E_DTYPE, "slice_at");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(ops_see_no_sign),
        TEST(reductions_see_no_sign),
        TEST(writes_see_no_sign),
        TEST(casts_keep_what_fits),
        TEST(numbers_are_read_and_shown),
        TEST(what_would_be_wrong_is_refused),
        TEST(loops_carry_them),
        TEST(gradients_end),
    };
    suite.compiles = true;
    return suite_main(argc, argv, "unsigned", tests, sizeof tests / sizeof tests[0]);
}
