// Functions that have a short way for most arguments (rare() of the scalar language): sines of vectors in which one
// element, or none, or all are far from 0. An element has the bits that it has alone, wherever it stands, eagerly and
// captured, and they are near the exact value.
#include "device/cpu_fixture.h"

#include <math.h>

enum { MOST = 1100, N_FARS = 8 };

typedef kiln_tensor *unary_fn(kiln_tensor *x);

static const struct {
    const char *name;
    unary_fn *fn;
    long double (*exact)(long double);
    double bound; // units in the last place
} functions[] = {{"sin", kiln_sin, sinl, 2}, {"cos", kiln_cos, cosl, 2}, {"tan", kiln_tan, tanl, 4}};

static const double fars[N_FARS] = {3200.001, -3300, 1e5, -7.3e8, 1.1e9, -1e15, 1e22, 1e30};

static double argument(int i, int n, int how)
{
    double near = (i * 7919 % 1009 - 504) * 0.0123;
    bool far = how == 1 ? i == n / 2 : how == 2 ? i == n - 1 : how == 3 ? i == 0 : how == 4;
    if (far) return fars[(i + n) % N_FARS];
    return i % 13 == 5 ? 0 : i % 17 == 3 ? near * 400 : near;
}

static double step_of(double v, bool single)
{
    int e;
    frexp(v, &e);
    return ldexp(1, e - (single ? 24 : 53));
}

static double at(const char *bytes, kiln_dtype dtype, int i)
{
    return dtype == KILN_F32 ? (double)((const float *)(const void *)bytes)[i]
                             : ((const double *)(const void *)bytes)[i];
}

static void fill(char *bytes, kiln_dtype dtype, int n, int how)
{
    for (int i = 0; i < n; i++) {
        if (dtype == KILN_F32)
            ((float *)(void *)bytes)[i] = (float)argument(i, n, how);
        else
            ((double *)(void *)bytes)[i] = argument(i, n, how);
    }
}

// Beside other readers of the argument, and of what the long way begins with.
static kiln_status call(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    unary_fn *fn = functions[*(const int *)user].fn;
    out[0] = fn(in[0]);
    out[1] = kiln_abs(in[0]);
    out[2] = kiln_add(out[0], kiln_mul(out[1], kiln_scalar(2)));
    return kiln_error();
}

static void expect_same(const char *what, int f, const char *got, const char *want, kiln_dtype dtype, int n, int how)
{
    size_t size_B = kiln_dtype_size(dtype);
    for (int i = 0; i < n; i++)
        if (memcmp(got + (size_t)i * size_B, want + (size_t)i * size_B, size_B))
            fail_msg("%s of %d elements, %d: element %d, of %g, is %a %s, %a alone", functions[f].name, n, how, i,
                     argument(i, n, how), at(got, dtype, i), what, at(want, dtype, i));
}

static void alone(int f, const char *x, char *y, kiln_dtype dtype, int n)
{
    size_t size_B = kiln_dtype_size(dtype);
    for (int i = 0; i < n; i++) {
        kiln_scope *scope = kiln_scope_begin();
        kiln_tensor *one = functions[f].fn(kiln_from_data(dev, dtype, KILN_SHAPE(1), x + (size_t)i * size_B));
        assert_int_equal(kiln_read(one, y + (size_t)i * size_B, size_B), KILN_OK);
        kiln_scope_end(&scope);
        double v = at(x, dtype, i), got = at(y, dtype, i), exact = (double)functions[f].exact((long double)v);
        if (fabs(v) < 1e17 && fabs(got - exact) > functions[f].bound * step_of(exact, dtype == KILN_F32))
            fail_msg("%s(%a) is %a, not %a", functions[f].name, v, got, exact);
    }
}

static void check(int f, kiln_dtype dtype, int n, int how, kiln_function *captured)
{
    static char x[8 * MOST], want[8 * MOST], got[8 * MOST];
    size_t size_B = (size_t)n * kiln_dtype_size(dtype);
    fill(x, dtype, n, how);
    alone(f, x, want, dtype, n);
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *t = kiln_from_data(dev, dtype, KILN_SHAPE(n), x), *out[3];
    assert_int_equal(kiln_read(functions[f].fn(t), got, size_B), KILN_OK);
    expect_same("eagerly", f, got, want, dtype, n, how);
    assert_int_equal(kiln_call(captured, &t, 1, out, 3), KILN_OK);
    assert_int_equal(kiln_read(out[0], got, size_B), KILN_OK);
    // Compiled code is for the machine, which may round a product with its sum once where the level that is asked for
    // rounds each.
    if (!getenv("KILN_CPU_ISA")) expect_same("captured", f, got, want, dtype, n, how);
    kiln_tensor *spread = kiln_reshape(kiln_stack((kiln_tensor *[]){t, t}, 2, 1), KILN_SHAPE(2 * n));
    kiln_tensor *stepped = kiln_slice(spread, KILN_SLICE(.step = KILN_ARGS(2)));
    assert_int_equal(kiln_read(functions[f].fn(stepped), got, size_B), KILN_OK);
    expect_same("with steps", f, got, want, dtype, n, how);
    kiln_scope_end(&scope);
}

static void test_elements_as_alone(void **state)
{
    static const int lengths[] = {1, 2, 15, 16, 17, 31, 64, 65, 127, 255, 256, 257, 1009};
    static const kiln_dtype dtypes[] = {KILN_F32, KILN_F64};
    for (int f = 0; f < 3; f++) {
        kiln_function *captured = kiln_jit(call, &f, NULL);
        for (int d = 0; d < 2; d++)
            for (size_t n = 0; n < sizeof lengths / sizeof lengths[0]; n++)
                for (int how = 0; how < 5; how++) check(f, dtypes[d], lengths[n], how, captured);
        kiln_function_free(&captured);
    }
}

static kiln_status call_alone(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = functions[*(const int *)user].fn(in[0]);
    return kiln_error();
}

static kiln_device_stats memory(void)
{
    kiln_device_stats s = {.size = sizeof s};
    kiln_device_get_stats(dev, &s);
    return s;
}

// The usual values of a block are there before it is known that they are not enough: then the argument still is, too.
static void test_over_the_argument(void **state)
{
    enum { N = 5 * 256 + 19 };
    static float x[N], want[N], got[N];
    for (int f = 0; f < 3; f++)
        for (int how = 0; how < 5; how++) {
            kiln_function *j = kiln_jit(call_alone, &f, KILN_JIT(.level = KILN_LEVEL_AS_IS, .donate = KILN_ARGS(0)));
            fill((char *)x, KILN_F32, N, how);
            if (how) x[700] = 1e9f;
            kiln_scope *scope = kiln_scope_begin();
            kiln_tensor *t = kiln_from_data(dev, KILN_F32, KILN_SHAPE(N), x), *y = NULL;
            assert_int_equal(kiln_read(functions[f].fn(t), want, sizeof want), KILN_OK);
            kiln_device_reset_stats(dev);
            uint64_t before_B = memory().heap_used_B;
            assert_int_equal(kiln_call(j, &t, 1, &y, 1), KILN_OK);
            assert_int_equal(memory().heap_peak_B, before_B); // the result has no other memory
            assert_int_equal(kiln_read(y, got, sizeof got), KILN_OK);
            expect_same("over its argument", f, (char *)got, (char *)want, KILN_F32, N, how);
            kiln_scope_end(&scope);
            kiln_function_free(&j);
        }
}

static void test_no_elements_and_no_numbers(void **state)
{
    static const float x[] = {INFINITY, 1, -INFINITY, NAN, -0.0f, 0};
    float y[6];
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *t = kiln_from_data(dev, KILN_F32, KILN_SHAPE(6), x);
    assert_int_equal(kiln_read(kiln_sin(t), y, sizeof y), KILN_OK);
    assert_true(isnan(y[0]) && isnan(y[2]) && isnan(y[3]) && fabsf(y[1] - 0.84147098f) < 1e-6f);
    assert_true(y[4] == 0 && signbit(y[4]) && y[5] == 0 && !signbit(y[5]));
    assert_int_equal(kiln_numel(kiln_sin(kiln_zeros(dev, KILN_F32, KILN_SHAPE(0)))), 0);
    kiln_scope_end(&scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elements_as_alone),
        cmocka_unit_test(test_over_the_argument),
        cmocka_unit_test(test_no_elements_and_no_numbers),
    };
    if (lacks_instructions()) return TEST_SKIPPED;
    return cmocka_run_group_tests(tests, open_device, close_device);
}
