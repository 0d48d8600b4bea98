// Complex tensors across the borders of functions: inputs, results, parameters, gradients, guards; writes; text; what
// refuses them.
#include <kiln/kiln.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static kiln_device *dev;
static const kiln_capture captures[] = {KILN_CAPTURE_STRICT, KILN_CAPTURE_AUTO, KILN_CAPTURE_TRACE};

#define must(x)                                                 \
    do {                                                        \
        (void)(x);                                              \
        if (kiln_error()) fail_msg("%s", kiln_error_message()); \
    } while (0)

static int begin(void **state)
{
    *state = kiln_scope_begin();
    return 0;
}

static int end(void **state)
{
    kiln_scope *scope = *state;
    kiln_scope_end(&scope);
    return kiln_error() ? -1 : 0;
}

static kiln_tensor *numbers(kiln_dtype dtype)
{
    static const float v[] = {1, 2, -3, 0.5f, 0, -1, 4, 2.5f};
    if (dtype == KILN_C64) return kiln_from_data(dev, KILN_C64, KILN_SHAPE(4), v);
    return kiln_from_data(dev, KILN_F32, KILN_SHAPE(4, 2), v);
}

static void check(kiln_tensor *t, kiln_dtype dtype, int64_t n, const float *want, double tolerance)
{
    float got[64];
    must(t);
    assert_int_equal(kiln_tensor_dtype(t), dtype);
    assert_int_equal(kiln_numel(t), n);
    n *= dtype == KILN_C64 ? 2 : 1;
    must(kiln_read(t, got, sizeof *got * (size_t)n));
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - (double)want[i]) <= tolerance))
            fail_msg("number %d is %g, expected %g", (int)i, (double)got[i], (double)want[i]);
}

// y = z^2, |z|^2; of real pairs x^2 and their sum.
static kiln_status squares(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = kiln_square(in[0]);
    out[1] = kiln_square(kiln_abs(in[0]));
    return kiln_error();
}

static void functions_take_and_give_complex_tensors(void **state)
{
    static const float complex_square[] = {-3, 4, 8.75f, -3, -1, 0, 9.75f, 20}, size[] = {5, 9.25f, 1, 22.25f};
    static const float real_square[] = {1, 4, 9, 0.25f, 0, 1, 16, 6.25f};
    for (size_t k = 0; k < 3; k++) {
        kiln_function *f = kiln_jit(squares, NULL, KILN_JIT(.capture = captures[k]));
        for (int again = 0; again < 3; again++) {
            kiln_tensor *in = numbers(KILN_C64), *out[2];
            must(kiln_call(f, &in, 1, out, 2));
            check(out[0], KILN_C64, 4, complex_square, 1e-5);
            check(out[1], KILN_F32, 4, size, 1e-5);
            in = numbers(KILN_F32); // the same memory, seen as pairs
            must(kiln_call(f, &in, 1, out, 2));
            check(out[0], KILN_F32, 8, real_square, 1e-5);
            check(out[1], KILN_F32, 8, real_square, 1e-5);
        }
        kiln_jit_stats s = {.size = sizeof s};
        kiln_function_stats(f, &s);
        if (captures[k] != KILN_CAPTURE_AUTO) assert_int_equal(s.captures, 2);
        assert_int_equal(s.fallbacks, 0);
        kiln_function_free(&f);
    }
}

// L = sum |z - a|^2 has the gradient 2 (z - a).
static kiln_status distance(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    (void)n_in, (void)n_out;
    kiln_tensor *other = user ? user : in[1];
    out[0] = kiln_sum(kiln_square(kiln_abs(kiln_sub(in[0], other))), NULL);
    return kiln_error();
}

static kiln_status gradient_of_distance(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                        size_t n_out)
{
    return kiln_grad(distance, user, in, n_in, KILN_GRAD(.wrt = KILN_ARGS(0, 1)), out, n_out);
}

static void gradients_are_complex(void **state)
{
    static const float at[] = {0.5f, 1, 1, 1, 2, 2, 0, 0}, want[] = {1, 2, -8, -1, -4, -6, 8, 5};
    float minus[8];
    for (int i = 0; i < 8; i++) minus[i] = -want[i];
    kiln_tensor *in[] = {numbers(KILN_C64), kiln_from_data(dev, KILN_C64, KILN_SHAPE(4), at)}, *out[2];
    must(gradient_of_distance(NULL, in, 2, out, 2));
    check(out[0], KILN_C64, 4, want, 1e-5);
    check(out[1], KILN_C64, 4, minus, 1e-5);
    for (size_t k = 0; k < 3; k++) {
        kiln_function *f = kiln_jit(gradient_of_distance, NULL, KILN_JIT(.capture = captures[k]));
        for (int again = 0; again < 2; again++) {
            must(kiln_call(f, in, 2, out, 2));
            check(out[0], KILN_C64, 4, want, 1e-5);
            check(out[1], KILN_C64, 4, minus, 1e-5);
        }
        kiln_function_free(&f);
    }
}

// Steps along the gradient bring a complex parameter to its target, also where the loss is a captured function.
static void parameters_learn(void **state)
{
    static const float target[] = {0.5f, 1, 1, 1, 2, 2, 0, 0};
    kiln_tensor *to = kiln_from_data(dev, KILN_C64, KILN_SHAPE(4), target);
    for (size_t k = 0; k < 4; k++) {
        kiln_function *f = k < 3 ? kiln_jit(distance, NULL, KILN_JIT(.capture = captures[k])) : NULL;
        kiln_tensor *p = kiln_parameter(numbers(KILN_C64), "p");
        assert_int_equal(kiln_tensor_dtype(p), KILN_C64);
        for (int step = 0; step < 60; step++) {
            kiln_scope *scope = kiln_scope_begin();
            kiln_tensor *in[] = {p, to}, *loss;
            must(f ? kiln_call(f, in, 2, &loss, 1) : distance(NULL, in, 2, &loss, 1));
            must(kiln_backward(loss, NULL));
            kiln_tensor *g = kiln_gradient(p);
            assert_int_equal(kiln_tensor_dtype(g), KILN_C64);
            kiln_no_grad_begin();
            must(kiln_assign(p, kiln_sub(p, kiln_mul(g, kiln_scalar(0.1)))));
            kiln_no_grad_end();
            must(kiln_set_gradient(p, NULL));
            kiln_scope_end(&scope);
        }
        check(p, KILN_C64, 4, target, 1e-4);
        kiln_free(&p);
        if (f) kiln_function_free(&f);
    }
}

static void writes_reach_the_pairs(void **state)
{
    static const float want[] = {2, 4, -3, 0.5f, 7, 0, 4, 2.5f};
    kiln_tensor *z = numbers(KILN_C64), *pairs = kiln_view_as_real(z);
    must(kiln_mul_(kiln_narrow(z, 0, 0, 1), kiln_scalar(2)));
    must(kiln_assign(kiln_narrow(z, 0, 2, 1), kiln_scalar(7)));
    check(pairs, KILN_F32, 8, want, 0);
    assert_true(kiln_is_view_of(pairs, z));
    must(kiln_add_(kiln_real(z), kiln_scalar(1)));
    float parts[8];
    must(kiln_read(z, parts, sizeof parts));
    assert_true(parts[0] == 3 && parts[1] == 4 && parts[4] == 8);
    assert_int_equal(kiln_dtype_size(KILN_C64), 8);
    assert_int_equal(kiln_dtype_size(KILN_C128), 16);
}

static void text_is_numpys(void **state)
{
    static const struct {
        int64_t n;
        float v[8];
        const char *text;
    } cases[] = {
        {2, {1, 2, -3.5f, 4}, "[ 1. +2.j -3.5+4.j]"},
        {2, {1, -0.5f, 1e-9f, 3}, "[1.e+00-0.5j 1.e-09+3.j ]"},
        {2, {NAN, 1, INFINITY, -INFINITY}, "[nan +1.j inf-infj]"},
        {3, {0, 0, 0.25f, -12, 100, 3}, "[  0.   +0.j   0.25-12.j 100.   +3.j]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = kiln_to_string(kiln_from_data(dev, KILN_C64, KILN_SHAPE(cases[i].n), cases[i].v));
        must(text);
        assert_string_equal(text, cases[i].text);
        free(text);
    }
    static const struct {
        double v[2];
        const char *text;
    } scalars[] = {{{1, 2}, "(1+2j)"}, {{0, 2}, "2j"}, {{-0.5, -2.25}, "(-0.5-2.25j)"}, {{NAN, 1}, "(nan+1j)"}};
    for (size_t i = 0; i < sizeof scalars / sizeof *scalars; i++) {
        char *text = kiln_to_string(kiln_from_data(dev, KILN_C128, KILN_SHAPE0, scalars[i].v));
        must(text);
        assert_string_equal(text, scalars[i].text);
        free(text);
    }
}

static void files_keep_them(void **state)
{
    static const float want[] = {1, 2, -3, 0.5f, 0, -1, 4, 2.5f};
    char path[] = "complex-XXXXXX";
    const char *name = "z";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    kiln_tensor *z = numbers(KILN_C64), *wide = kiln_cast(z, KILN_C128);
    must(kiln_npy_save(path, z));
    check(kiln_npy_load(dev, path), KILN_C64, 4, want, 0);
    must(kiln_npy_save(path, wide));
    check(kiln_cast(kiln_npy_load(dev, path), KILN_C64), KILN_C64, 4, want, 0);
    must(kiln_safetensors_save(path, &name, &z, 1));
    kiln_archive *a = kiln_safetensors_load(path);
    must(a);
    check(kiln_archive_get(a, dev, name), KILN_C64, 4, want, 0);
    kiln_archive_free(&a);
    unlink(path);
}

// --- transforms along two axes, captured: the second takes the place of the first, if nothing else needs that

enum { LONGEST = 256 };

static kiln_status transforms(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    (void)n_in;
    bool used_later = *(const bool *)user;
    kiln_tensor *first = kiln_fft(in[0], 1, NULL), *second = kiln_fft(first, 0, NULL);
    out[0] = used_later ? kiln_add(second, first) : second;
    if (n_out > 1) out[1] = first;
    return kiln_error();
}

static void same_bits(kiln_tensor *a, kiln_tensor *b)
{
    static float x[2 * LONGEST * LONGEST], y[2 * LONGEST * LONGEST];
    size_t size_B = (size_t)kiln_numel(a) * 8;
    must(kiln_read(a, x, size_B));
    must(kiln_read(b, y, size_B));
    assert_memory_equal(x, y, size_B);
}

// How much more memory than before the second call took at most.
static uint64_t captured_as_eager(kiln_capture capture, int64_t n, bool used_later, size_t n_out)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_device_stats before = {.size = sizeof before}, after = {.size = sizeof after};
    kiln_tensor *z = kiln_complex(kiln_normal(dev, KILN_F32, KILN_SHAPE(n, n), 0, 1),
                                  kiln_normal(dev, KILN_F32, KILN_SHAPE(n, n), 0, 1));
    kiln_tensor *want[2], *got[2];
    kiln_function *j = kiln_jit(transforms, &used_later, KILN_JIT(.capture = capture));
    must(transforms(&used_later, &z, 1, want, n_out));
    must(kiln_call(j, &z, 1, got, n_out));
    must(kiln_device_synchronize(dev));
    kiln_device_reset_stats(dev);
    kiln_device_get_stats(dev, &before);
    must(kiln_call(j, &z, 1, got, n_out));
    must(kiln_device_synchronize(dev));
    kiln_device_get_stats(dev, &after);
    for (size_t i = 0; i < n_out; i++) same_bits(got[i], want[i]);
    kiln_function_free(&j);
    kiln_scope_end(&scope);
    return after.heap_peak_B - before.heap_used_B;
}

static void a_transform_takes_the_place_of_the_one_before(void **state)
{
    static const int64_t sizes[] = {LONGEST, 240, 31};
    const char *debug = getenv("KILN_DEBUG");
    bool plain = !debug || !*debug; // what is checked keeps more
    for (size_t c = 0; c < 3; c++)
        for (size_t i = 0; i < 3; i++) {
            captured_as_eager(captures[c], sizes[i], true, 1);
            captured_as_eager(captures[c], sizes[i], false, 2);
            uint64_t more_B = captured_as_eager(captures[c], sizes[i], false, 1), one_B = 8 * LONGEST * LONGEST;
            if (plain && captures[c] != KILN_CAPTURE_AUTO && sizes[i] == LONGEST && more_B > one_B + one_B / 2)
                fail_msg("capture %d took %llu bytes, its result has %llu", (int)captures[c],
                         (unsigned long long)more_B, (unsigned long long)one_B);
        }
}

// Of 5,000 and 8,192 numbers, which are done in two steps, forth and back.
static kiln_status long_lines(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = kiln_fft(in[0], 1, NULL);
    out[1] = kiln_ifft(kiln_mul(out[0], kiln_scalar(2)), 1, NULL);
    return kiln_error();
}

static void long_lines_are_transformed_as_in_eager_mode(void **state)
{
    for (size_t c = 0; c < 6; c++) {
        int64_t dims[] = {3, c % 2 ? 5000 : 8192};
        kiln_tensor *re = kiln_normal(dev, KILN_F32, 2, dims, 0, 1), *im = kiln_normal(dev, KILN_F32, 2, dims, 0, 1);
        kiln_tensor *z = kiln_complex(re, im), *want[2], *got[2];
        kiln_function *j = kiln_jit(long_lines, NULL, KILN_JIT(.capture = captures[c / 2]));
        must(long_lines(NULL, &z, 1, want, 2));
        for (int call = 0; call < 2; call++) {
            must(kiln_call(j, &z, 1, got, 2));
            for (int i = 0; i < 2; i++) same_bits(got[i], want[i]);
        }
        kiln_function_free(&j);
    }
}

static void refused(const char *beginning)
{
    if (!kiln_error() || strncmp(kiln_error_message(), beginning, strlen(beginning)))
        fail_msg("expected \"%s\", got \"%s\"", beginning, kiln_error_message());
    kiln_error_clear();
}

static void what_has_no_order_is_refused(void **state)
{
    kiln_tensor *z = numbers(KILN_C64), *x = numbers(KILN_F32), *values, *indices;
    kiln_max(z, NULL);
    refused("max: takes no complex numbers, x is c64[4]");
    kiln_less(x, z);
    refused("less: takes no complex numbers, b is c64[4]");
    kiln_sort(z, 0, false, &values, &indices);
    refused("sort: takes no complex numbers, x is c64[4]");
    kiln_nonzero(z);
    refused("nonzero: takes no complex numbers, x is c64[4]");
    kiln_cast(z, KILN_F32);
    refused("cast: c64[4] does not become f32");
    kiln_uniform(dev, KILN_C64, KILN_SHAPE(2), 0, 1);
    refused("uniform: takes no complex dtype");
    kiln_assign(x, z);
    refused("assign_: complex numbers do not go into f32");
    kiln_select(z, 1, 0);
    refused("select: axis 1 is out of range for c64[4]");
    kiln_view_as_complex(kiln_zeros(dev, KILN_F32, KILN_SHAPE(2, 3)));
    refused("view_as_complex: pairs must be f32 or f64 [..., 2], it is f32[2,3]");
    kiln_view_as_real(x);
    refused("view_as_real: z must be complex, it is f32[4,2]");
    kiln_item(kiln_sum(z, NULL));
    refused("item: takes no complex numbers");
    kiln_backward(kiln_sum(kiln_parameter(z, "p"), NULL), NULL);
    refused("backward: takes no complex numbers");
    kiln_fft(x, 2, NULL);
    refused("fft: axis 2 is out of range for f32[4,2]");
    kiln_fft(x, 0, KILN_FFT(.norm = 3));
    refused("fft: .norm is 3");
    kiln_rfft(z, 0, NULL);
    refused("rfft: x must be real, it is c64[4]");
    kiln_fftn(x, KILN_AXES(0, -2), NULL);
    refused("fftn: axis 0 of f32[4,2] is given twice");
    kiln_fft(kiln_zeros(dev, KILN_F32, KILN_SHAPE(0)), 0, NULL);
    refused("fft: a transform of no elements");
    kiln_stft(x, KILN_STFT(.n = 8));
    refused("stft: x has 2 samples, a piece has 8");
}

int main(int argc, char **argv)
{
    dev = kiln_device_open(argc > 1 ? argv[1] : "cpu");
    if (!dev) {
        fprintf(stderr, "%s\n", kiln_error_message());
        return argc > 1 ? 77 : 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(functions_take_and_give_complex_tensors, begin, end),
        cmocka_unit_test_setup_teardown(gradients_are_complex, begin, end),
        cmocka_unit_test_setup_teardown(parameters_learn, begin, end),
        cmocka_unit_test_setup_teardown(writes_reach_the_pairs, begin, end),
        cmocka_unit_test_setup_teardown(text_is_numpys, begin, end),
        cmocka_unit_test_setup_teardown(files_keep_them, begin, end),
        cmocka_unit_test_setup_teardown(a_transform_takes_the_place_of_the_one_before, begin, end),
        cmocka_unit_test_setup_teardown(long_lines_are_transformed_as_in_eager_mode, begin, end),
        cmocka_unit_test_setup_teardown(what_has_no_order_is_refused, begin, end),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    kiln_device_close(&dev);
    return failed;
}
