// Ops that the user registers: values, dtypes, gradients, mistakes.
#include <kiln/kiln.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static kiln_device *dev;
static const char *device_name;

static int teardown(void **state)
{
    kiln_device_close(&dev);
    return kiln_error() ? -1 : 0;
}

static void expect_error(int line, kiln_status code, const char *part)
{
    if (kiln_error() != code || !strstr(kiln_error_message(), part)) {
        print_error("line %d: %s \"%s\"\n", line, kiln_status_name(kiln_error()), kiln_error_message());
        fail();
    }
    kiln_error_clear();
}
#define EXPECT_ERROR(code, part) expect_error(__LINE__, code, part)

static void expect(int line, kiln_tensor *t, size_t n, const double *want, double tolerance)
{
    double got[32];
    kiln_tensor *wide = t ? kiln_cast(t, KILN_F64) : NULL;
    if (!wide || kiln_numel(t) != (int64_t)n || kiln_read(wide, got, n * sizeof *got)) {
        print_error("line %d: %s\n", line, kiln_error_message());
        fail();
    }
    for (size_t i = 0; i < n; i++)
        if (!(fabs(got[i] - want[i]) <= tolerance * fmax(1, fabs(want[i])))) {
            print_error("line %d: element %zu is %.9g, expected %.9g\n", line, i, got[i], want[i]);
            fail();
        }
}
#define EXPECT(t, ...) \
    expect(__LINE__, t, sizeof((double[]){__VA_ARGS__}) / sizeof(double), (double[]){__VA_ARGS__}, 2e-6)

static kiln_tensor *f32(size_t rank, const int64_t *dims, const float *v)
{
    return kiln_from_data(dev, KILN_F32, rank, dims, v);
}

static void register_ops(void **state)
{
    assert_int_equal(kiln_register_op(KILN_OP(.name = "t_scale_square", .n_in = 2, .expr = "a * b * b",
                                              .grad = {"dy * b * b", "dy * 2 * a * b"})),
                     KILN_OK);
    assert_int_equal(kiln_register_op(KILN_OP(.name = "t_bump", .n_in = 1, .expr = "exp(-1 / (1 - x * x))",
                                              .grad = {"d = 1 - x * x; -dy * y * 2 * x / (d * d)"})),
                     KILN_OK);
    assert_int_equal(kiln_register_op(KILN_OP(.name = "t_plus_square", .n_in = 2, .expr = "a + b * b",
                                              .grad = {"dy", "2 * b * dy"})),
                     KILN_OK);
    assert_int_equal(kiln_register_op(KILN_OP(.name = "t_between", .n_in = 3, .expr = "b <= a && a < c")), KILN_OK);
    assert_int_equal(kiln_register_op(KILN_OP(.name = "t_glsl", .n_in = 1, .glsl = "x + 1.0")), KILN_OK);
}

static void it_computes_and_broadcasts(void **state)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *a = f32(KILN_SHAPE(2, 3), (float[]){1, 2, 3, 4, 5, 6}),
                *b = f32(KILN_SHAPE(3), (float[]){1, -2, 0.5f});
    EXPECT(kiln_apply("t_scale_square", (kiln_tensor *[]){a, b}, 2), 1, 8, 0.75, 4, 20, 1.5);
    EXPECT(kiln_apply("t_scale_square", (kiln_tensor *[]){kiln_transpose(a, 0, 1), kiln_scalar(2)}, 2), 4, 16, 8, 20,
           12, 24);
    EXPECT(kiln_apply("t_scale_square", (kiln_tensor *[]){kiln_cast(a, KILN_F16), kiln_cast(b, KILN_F64)}, 2), 1, 8,
           0.75, 4, 20, 1.5);
    // Many elements, so that blocks and threads take part.
    const int64_t n = 100003;
    kiln_tensor *x = kiln_arange(dev, KILN_F64, 0, (double)n, 1),
                *y = kiln_apply("t_scale_square", (kiln_tensor *[]){x, x}, 2);
    kiln_tensor *same = kiln_all(kiln_equal(y, kiln_mul(kiln_mul(x, x), x)), NULL);
    assert_int_equal(kiln_item_int(same), 1);
    kiln_scope_end(&scope);
}

static void dtypes_follow_the_expression(void **state)
{
    kiln_scope *scope = kiln_scope_begin();
    const int32_t v[] = {2, 3};
    const int8_t narrow[] = {100, 3};
    kiln_tensor *i = kiln_from_data(dev, KILN_I32, KILN_SHAPE(2), v),
                *c = kiln_from_data(dev, KILN_I8, KILN_SHAPE(2), narrow);
    kiln_tensor *y = kiln_apply("t_scale_square", (kiln_tensor *[]){i, i}, 2);
    assert_int_equal(kiln_tensor_dtype(y), KILN_I32);
    EXPECT(y, 8, 27);
    EXPECT(kiln_apply("t_scale_square", (kiln_tensor *[]){c, c}, 2), 64, 27); // 1000000 wraps
    kiln_tensor *half =
        kiln_apply("t_bump", (kiln_tensor *[]){kiln_from_data(dev, KILN_I32, KILN_SHAPE(1), (int32_t[]){0})}, 1);
    assert_int_equal(kiln_tensor_dtype(half), KILN_F32);
    EXPECT(half, exp(-1));
    kiln_tensor *test = kiln_apply("t_between", (kiln_tensor *[]){i, kiln_scalar(2), kiln_scalar(3)}, 3);
    assert_int_equal(kiln_tensor_dtype(test), KILN_BOOL);
    EXPECT(test, 1, 0);
    kiln_scope_end(&scope);
}

static kiln_status call(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_apply(user, in, n_in);
    return kiln_error();
}

static void its_gradients_go_to_any_order(void **state)
{
    kiln_scope *scope = kiln_scope_begin();
    const double v[] = {0.3, -0.6, 0.1};
    kiln_tensor *x = kiln_from_data(dev, KILN_F64, KILN_SHAPE(3), v), *in[] = {x, kiln_neg(x)};
    assert_int_equal(kiln_gradcheck(call, (void *)"t_bump", in, 1, KILN_GRADCHECK(.order = 2, .atol = 1e-6)), KILN_OK);
    assert_int_equal(kiln_gradcheck(call, (void *)"t_scale_square", in, 2, KILN_GRADCHECK(.order = 2, .atol = 1e-6)),
                     KILN_OK);
    assert_int_equal(kiln_gradcheck(call, (void *)"t_plus_square", in, 2, KILN_GRADCHECK(.order = 2, .atol = 1e-6)),
                     KILN_OK);
    kiln_tensor *w = kiln_parameter(x, "w");
    assert_false(kiln_requires_grad(kiln_apply("t_between", (kiln_tensor *[]){w, x, x}, 3)));
    kiln_scope_end(&scope);
}

static kiln_status ten(void *user, kiln_tensor *const *in, kiln_tensor *const *out, kiln_tensor *const *dout,
                       kiln_tensor **din)
{
    din[0] = kiln_mul(dout[0], kiln_scalar(10));
    return kiln_error();
}

static void a_rule_takes_the_place_of_expressions(void **state)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *x = f32(KILN_SHAPE(1), (float[]){0.5f}), *g = NULL;
    kiln_register_bprop("t_bump", ten, NULL);
    kiln_grad(call, (void *)"t_bump", &x, 1, NULL, &g, 1);
    EXPECT(g, 10);
    kiln_register_bprop("t_bump", NULL, NULL);
    kiln_grad(call, (void *)"t_bump", &x, 1, NULL, &g, 1);
    EXPECT(g, -exp(-1 / 0.75) / (0.75 * 0.75));
    kiln_scope_end(&scope);
}

static void mistakes_are_found(void **state)
{
    kiln_register_op(KILN_OP(.name = "t_bump", .n_in = 1, .expr = "x"));
    EXPECT_ERROR(KILN_E_ARGUMENT, "there is an op named \"t_bump\"");
    kiln_register_op(KILN_OP(.name = "mul", .n_in = 2, .expr = "a * b"));
    EXPECT_ERROR(KILN_E_ARGUMENT, "there is an op named \"mul\"");
    kiln_register_op(KILN_OP(.name = "a b", .n_in = 1, .expr = "x"));
    EXPECT_ERROR(KILN_E_ARGUMENT, "\"a b\" is no name");
    kiln_register_op(KILN_OP(.name = "t_four", .n_in = 4, .expr = "x"));
    EXPECT_ERROR(KILN_E_ARGUMENT, "n_in is 4");
    kiln_register_op(KILN_OP(.name = "t_none", .n_in = 1));
    EXPECT_ERROR(KILN_E_ARGUMENT, "neither expr nor glsl");
    kiln_register_op(KILN_OP(.name = "t_wrong", .n_in = 1, .expr = "x +* 2"));
    EXPECT_ERROR(KILN_E_ARGUMENT, "at 4");
    kiln_register_op(KILN_OP(.name = "t_wrong", .n_in = 2, .expr = "a * x"));
    EXPECT_ERROR(KILN_E_ARGUMENT, "\"x\"");
    kiln_register_op(KILN_OP(.name = "t_wrong", .n_in = 1, .expr = "x", .grad = {"dz"}));
    EXPECT_ERROR(KILN_E_ARGUMENT, "\"dz\"");
    kiln_register_op(NULL);
    EXPECT_ERROR(KILN_E_ARGUMENT, "spec is NULL");
    kiln_apply("t_wrong", NULL, 0);
    EXPECT_ERROR(KILN_E_ARGUMENT, "no op is named \"t_wrong\"");
    kiln_apply("softmax", NULL, 0);
    EXPECT_ERROR(KILN_E_ARGUMENT, "call its function");
    kiln_apply("add", NULL, 0);
    EXPECT_ERROR(KILN_E_ARGUMENT, "add: takes 2 to 2 tensors, 0 are given");
}

static void glsl_alone_is_for_the_gpu(void **state)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *x = f32(KILN_SHAPE(1), (float[]){0.5f});
    kiln_device_stats before = {.size = sizeof before}, after = before;
    if (!strcmp(device_name, "cpu")) {
        assert_null(kiln_apply("t_glsl", &x, 1));
        EXPECT_ERROR(KILN_E_UNSUPPORTED, "t_glsl: the cpu device has no kernel");
    } else {
        // Compiled at the first use, and not again.
        kiln_device_get_stats(dev, &before);
        EXPECT(kiln_apply("t_glsl", &x, 1), 1.5);
        EXPECT(kiln_apply("t_glsl", &x, 1), 1.5);
        kiln_device_get_stats(dev, &after);
        assert_int_equal(after.user_compiles, before.user_compiles + 1);
        assert_true(before.user_compiles > 0);
    }
    kiln_scope_end(&scope);
}

int main(int argc, char **argv)
{
    device_name = argc > 1 ? argv[1] : "cpu";
    dev = kiln_device_open(device_name);
    if (!dev) {
        fprintf(stderr, "%s\n", kiln_error_message());
        return argc > 1 ? 77 : 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(register_ops),
        cmocka_unit_test(it_computes_and_broadcasts),
        cmocka_unit_test(dtypes_follow_the_expression),
        cmocka_unit_test(its_gradients_go_to_any_order),
        cmocka_unit_test(a_rule_takes_the_place_of_expressions),
        cmocka_unit_test(mistakes_are_found),
        cmocka_unit_test(glsl_alone_is_for_the_gpu),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
