// Storage dtypes across the borders of functions: inputs, results, guards, writes, text, gradients.
#include <kiln/kiln.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static kiln_device *dev;
static const kiln_capture captures[] = {KILN_CAPTURE_STRICT, KILN_CAPTURE_AUTO, KILN_CAPTURE_TRACE};
static const kiln_dtype stored[] = {KILN_F8_E4M3, KILN_F8_E5M2, KILN_I4, KILN_U4};

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

static void same(kiln_tensor *got, kiln_tensor *want, const char *what)
{
    float a[512], b[512];
    must(got);
    must(want);
    assert_int_equal(kiln_tensor_dtype(got), kiln_tensor_dtype(want));
    assert_int_equal(kiln_rank(got), kiln_rank(want));
    for (size_t d = 0; d < kiln_rank(want); d++) assert_int_equal(kiln_dims(got)[d], kiln_dims(want)[d]);
    size_t n = (size_t)kiln_numel(want);
    must(kiln_read(kiln_cast(got, KILN_F32), a, n * sizeof *a));
    must(kiln_read(kiln_cast(want, KILN_F32), b, n * sizeof *b));
    if (memcmp(a, b, n * sizeof *a)) fail_msg("%s differs", what);
}

static kiln_tensor *numbers(int at, int64_t n)
{
    float v[64];
    for (int i = 0; i < n; i++) v[i] = (float)((i + at) * 7 % 13) * 0.75f - 3;
    return kiln_from_data(dev, KILN_F32, KILN_SHAPE(n / 4, 4), v);
}

enum { N_OUT = 7 };

// All that there is of them: from numbers and to them, views, moved elements, bits, one as another, the input itself.
static kiln_status everything(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const kiln_dtype *to = user;
    (void)n_in, (void)n_out;
    kiln_tensor *x = kiln_mul(in[0], kiln_scalar(1.5)), *s = kiln_cast(x, *to);
    out[0] = s;
    out[1] = kiln_add(kiln_cast(s, KILN_F32), kiln_cast(in[1], KILN_F32));
    out[2] = kiln_flip(in[1], KILN_AXES(0));
    out[3] = kiln_concat((kiln_tensor *[]){kiln_narrow(s, 0, 1, 2), in[1]}, 2, 0);
    out[4] = kiln_bitcast(in[1], KILN_U8);
    out[5] = kiln_cast(in[1], *to == KILN_U4 ? KILN_F8_E5M2 : KILN_U4);
    out[6] = kiln_alias(in[1]);
    return kiln_error();
}

static void captured_as_eagerly(void **state)
{
    for (int k = 0; k < 4; k++)
        for (size_t c = 0; c < 3; c++) {
            kiln_function *f = kiln_jit(everything, (void *)&stored[k], KILN_JIT(.capture = captures[c]));
            for (int i = 0; i < 3; i++) {
                kiln_tensor *in[] = {numbers(i, 32), kiln_cast(numbers(i + 5, 32), stored[k])}, *out[N_OUT],
                            *want[N_OUT];
                must(everything((void *)&stored[k], in, 2, want, N_OUT));
                must(kiln_call(f, in, 2, out, N_OUT));
                for (int o = 0; o < N_OUT; o++) {
                    char what[64];
                    snprintf(what, sizeof what, "%s, result %d, call %d", kiln_dtype_name(stored[k]), o, i);
                    same(out[o], want[o], what);
                }
            }
            kiln_jit_stats s = {.size = sizeof s};
            kiln_function_stats(f, &s);
            if (captures[c] != KILN_CAPTURE_AUTO) assert_int_equal(s.captures, 1);
            assert_int_equal(s.fallbacks, 0);
            kiln_function_free(&f);
        }
}

static kiln_status to_floats(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = kiln_add(kiln_cast(in[0], KILN_F32), kiln_scalar(1));
    return kiln_error();
}

// The same bytes, seen as five dtypes, are five programs.
static void a_guard_tells_them_apart(void **state)
{
    static const uint8_t bytes[] = {0x38, 0x40, 0x7b, 0xc5};
    static const float want[5][8] = {{57, 65, 124, 198},
                                     {2, 3, 353, -2.25f},
                                     {1.5f, 3, 57345, -4},
                                     {-7, 4, 1, 5, -4, 8, 6, -3},
                                     {9, 4, 1, 5, 12, 8, 6, 13}};
    for (size_t c = 0; c < 3; c++) {
        kiln_function *f = kiln_jit(to_floats, NULL, KILN_JIT(.capture = captures[c]));
        for (int again = 0; again < 3; again++)
            for (int k = 0; k < 5; k++) {
                kiln_dtype d = k ? stored[k - 1] : KILN_U8;
                int64_t n = k > 2 ? 8 : 4;
                kiln_tensor *in = kiln_from_data(dev, d, KILN_SHAPE(n), bytes), *out;
                float got[8];
                must(kiln_call(f, &in, 1, &out, 1));
                assert_int_equal(kiln_numel(out), n);
                must(kiln_read(out, got, sizeof *got * (size_t)n));
                for (int i = 0; i < n; i++)
                    if (got[i] != want[k][i]) fail_msg("%s: number %d is %g", kiln_dtype_name(d), i, (double)got[i]);
            }
        kiln_jit_stats s = {.size = sizeof s};
        kiln_function_stats(f, &s);
        if (captures[c] != KILN_CAPTURE_AUTO) assert_int_equal(s.captures, 5);
        kiln_function_free(&f);
    }
}

// in[0] keeps what came last, rounded.
static kiln_status keep(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    (void)user, (void)n_in, (void)n_out;
    kiln_tensor *before = kiln_cast(in[0], KILN_F32);
    out[0] = kiln_add(before, in[1]);
    return kiln_assign(in[0], kiln_cast(in[1], kiln_tensor_dtype(in[0])));
}

static void functions_write_to_them(void **state)
{
    for (int k = 0; k < 4; k++)
        for (size_t c = 0; c < 3; c++) {
            kiln_function *f = kiln_jit(keep, NULL, KILN_JIT(.capture = captures[c]));
            kiln_tensor *kept = kiln_zeros(dev, stored[k], KILN_SHAPE(8, 4)), *mine = kiln_cast(kept, stored[k]);
            for (int i = 0; i < 3; i++) {
                kiln_tensor *in[] = {kept, numbers(i, 32)}, *out, *want;
                must(kiln_call(f, in, 2, &out, 1));
                in[0] = mine;
                must(keep(NULL, in, 2, &want, 1));
                same(out, want, "the sum");
                same(kept, mine, "what is kept");
            }
            kiln_function_free(&f);
        }
}

// By a weight from outside, which it gives, too.
static kiln_status by_constant(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    (void)n_in, (void)n_out;
    kiln_tensor *w = kiln_constant(user);
    out[0] = kiln_mul(in[0], kiln_cast(w, KILN_F32));
    out[1] = w;
    out[2] = kiln_select(w, 0, 1);
    return kiln_error();
}

static void constants_are_weights(void **state)
{
    for (int k = 0; k < 4; k++)
        for (size_t c = 0; c < 3; c++) {
            kiln_tensor *w = kiln_cast(numbers(1, 32), stored[k]), *in = numbers(k, 32), *out[3], *want[3];
            kiln_function *f = kiln_jit(by_constant, w, KILN_JIT(.capture = captures[c]));
            must(by_constant(w, &in, 1, want, 3));
            for (int again = 0; again < 2; again++) {
                must(kiln_call(f, &in, 1, out, 3));
                for (int o = 0; o < 3; o++) same(out[o], want[o], "a result by a constant");
            }
            kiln_function_free(&f);
        }
}

static kiln_status through(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    (void)n_in, (void)n_out;
    const kiln_dtype *to = user;
    kiln_tensor *x = in[0], *r = kiln_cast(kiln_cast(kiln_stop_gradient(x), *to), KILN_F32);
    kiln_tensor *y = kiln_add(x, kiln_stop_gradient(kiln_sub(r, x)));
    out[0] = kiln_sum(kiln_mul(y, y), NULL);
    out[1] = kiln_cast(kiln_stop_gradient(y), *to);
    return kiln_error();
}

static kiln_status gradient_through(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    return kiln_value_and_grad(through, user, in, n_in, KILN_GRAD(.outputs = 2, .has_aux = true), out, n_out);
}

static void gradients_go_by(void **state)
{
    for (int k = 0; k < 4; k++)
        for (size_t c = 0; c < 3; c++) {
            kiln_function *f = kiln_jit(gradient_through, (void *)&stored[k], KILN_JIT(.capture = captures[c]));
            kiln_tensor *in = numbers(k, 32), *out[3], *want[3];
            must(gradient_through((void *)&stored[k], &in, 1, want, 3));
            for (int again = 0; again < 2; again++) {
                must(kiln_call(f, &in, 1, out, 3));
                for (int o = 0; o < 3; o++) same(out[o], want[o], "a result beside gradients");
            }
            kiln_function_free(&f);
        }
}

static kiln_status not_through(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = kiln_sum(kiln_cast(kiln_cast(in[0], KILN_F8_E4M3), KILN_F32), NULL);
    return kiln_error();
}

static kiln_status gradient_not_through(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                        size_t n_out)
{
    return kiln_grad(not_through, user, in, n_in, NULL, out, n_out);
}

static void a_cast_without_gradient_says_so(void **state)
{
    kiln_tensor *in = numbers(0, 32), *out;
    for (size_t c = 0; c < 3; c++) {
        kiln_function *f = kiln_jit(gradient_not_through, NULL, KILN_JIT(.capture = captures[c]));
        kiln_call(f, &in, 1, &out, 1);
        if (!strstr(kiln_error_message(), "requires a gradient, which does not come through f8_e4m3fn"))
            fail_msg("%s", kiln_error_message());
        kiln_error_clear();
        kiln_function_free(&f);
    }
}

static kiln_status printing(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    (void)n_in, (void)n_out;
    kiln_print(kiln_cast(kiln_mul(in[0], kiln_scalar(2)), KILN_I4), user);
    out[0] = kiln_cast(in[0], KILN_I4);
    return kiln_error();
}

static void functions_print_them(void **state)
{
    static const float v[] = {1, 2, 3, -4};
    for (size_t c = 0; c < 3; c++) {
        char *text = NULL;
        size_t n = 0;
        FILE *file = open_memstream(&text, &n);
        kiln_function *f = kiln_jit(printing, file, KILN_JIT(.capture = captures[c]));
        for (int again = 0; again < 2; again++) {
            kiln_tensor *in = kiln_from_data(dev, KILN_F32, KILN_SHAPE(4), v), *out;
            must(kiln_call(f, &in, 1, &out, 1));
            assert_int_equal(kiln_tensor_dtype(out), KILN_I4);
        }
        kiln_function_free(&f);
        fclose(file);
        assert_string_equal(text, "[ 2  4  6 -8]\n[ 2  4  6 -8]\n");
        free(text);
    }
}

int main(int argc, char **argv)
{
    dev = kiln_device_open(argc > 1 ? argv[1] : "cpu");
    if (!dev) {
        fprintf(stderr, "%s\n", kiln_error_message());
        return argc > 1 ? 77 : 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(captured_as_eagerly, begin, end),
        cmocka_unit_test_setup_teardown(a_guard_tells_them_apart, begin, end),
        cmocka_unit_test_setup_teardown(functions_write_to_them, begin, end),
        cmocka_unit_test_setup_teardown(constants_are_weights, begin, end),
        cmocka_unit_test_setup_teardown(gradients_go_by, begin, end),
        cmocka_unit_test_setup_teardown(a_cast_without_gradient_says_so, begin, end),
        cmocka_unit_test_setup_teardown(functions_print_them, begin, end),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    kiln_device_close(&dev);
    return failed;
}
