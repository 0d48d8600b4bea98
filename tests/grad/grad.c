// Gradients as the user sees them: functional and by backward, writes in place, hooks, rules, errors.
#include "grad_fixture.h"
#include <pthread.h>

static const char *device_name;

static kiln_tensor *vec(size_t n, const float *v)
{
    return kiln_from_data(dev, KILN_F32, KILN_SHAPE((int64_t)n), v);
}
#define VEC(...)         vec(sizeof((float[]){__VA_ARGS__}) / sizeof(float), (float[]){__VA_ARGS__})
#define PARAM(name, ...) kiln_parameter(VEC(__VA_ARGS__), name)

static void expect(int line, kiln_tensor *t, size_t n, const double *want)
{
    if (!t) {
        print_error("line %d: no tensor: %s\n", line, kiln_error_message());
        fail();
    }
    assert_int_equal(kiln_numel(t), n);
    kiln_tensor *wide = kiln_cast(t, KILN_F64);
    double got[64];
    assert_int_equal(kiln_read(wide, got, n * sizeof *got), KILN_OK);
    for (size_t i = 0; i < n; i++)
        if (!(fabs(got[i] - want[i]) <= 2e-6 * fmax(1, fabs(want[i])))) {
            print_error("line %d: element %zu is %.9g, expected %.9g\n", line, i, got[i], want[i]);
            fail();
        }
}
#define EXPECT(t, ...) expect(__LINE__, t, sizeof((double[]){__VA_ARGS__}) / sizeof(double), (double[]){__VA_ARGS__})

static void expect_error(int line, kiln_status code, const char *part)
{
    if (kiln_error() != code || !strstr(kiln_error_message(), part)) {
        print_error("line %d: %s \"%s\", expected %s with \"%s\"\n", line, kiln_status_name(kiln_error()),
                    kiln_error_message(), kiln_status_name(code), part);
        fail();
    }
    kiln_error_clear();
}
#define EXPECT_ERROR(code, part) expect_error(__LINE__, code, part)

// Functional gradients

FN(mul_matmul)
{
    out[0] = kiln_matmul(kiln_mul(in[0], in[2]), in[1]);
    return kiln_error();
}

static void capability_20_e3_matmul(void **state)
{
    const float x[] = {0.8f, 0.6f, 0.2f, 1.8f, 1.3f, 1.1f},
                y[] = {0.11f, 3.3f, 1.1f, 1.1f, 0.2f, 1.4f, 1.1f, 2.2f, 0.3f};
    kiln_tensor *in[] = {kiln_from_data(dev, KILN_F32, KILN_SHAPE(2, 3), x),
                         kiln_from_data(dev, KILN_F32, KILN_SHAPE(3, 3), y), VEC(2)};
    kiln_tensor *g[3];
    kiln_grad(mul_matmul, NULL, in, 3, NULL, g, 1);
    EXPECT(g[0], 9.02, 5.4, 7.2, 9.02, 5.4, 7.2);
    // Capability 22: the same by another position.
    kiln_grad(mul_matmul, NULL, in, 3, KILN_GRAD(.wrt = KILN_ARGS(2, 1)), g, 2);
    EXPECT(g[0], 21.536);
    EXPECT(g[1], 5.2, 5.2, 5.2, 3.8, 3.8, 3.8, 2.6, 2.6, 2.6);
}

FN(product_of_three)
{
    out[0] = kiln_mul(kiln_mul(in[0], in[1]), in[2]);
    return kiln_error();
}

static void capability_22_d8_positions(void **state)
{
    kiln_tensor *in[] = {VEC(1, 2), VEC(-2, 3), VEC(0, 3)}, *g[2];
    kiln_grad(product_of_three, NULL, in, 3, KILN_GRAD(.wrt = KILN_ARGS(1, 2)), g, 2);
    EXPECT(g[0], 0, 6);
    EXPECT(g[1], -2, 6);
}

FN(with_aux)
{
    out[0] = kiln_mul(kiln_mul(in[0], kiln_exp(in[1])), kiln_pow(in[2], kiln_scalar(2)));
    out[1] = in[2];
    return kiln_error();
}

static void d9_aux_outputs_are_returned(void **state)
{
    kiln_tensor *in[] = {VEC(3, 3), VEC(0, 0), VEC(5, 5)}, *r[4];
    kiln_grad(with_aux, NULL, in, 3, KILN_GRAD(.wrt = KILN_ARGS(1, 2), .outputs = 2, .has_aux = true), r, 3);
    EXPECT(r[0], 75, 75);
    EXPECT(r[1], 30, 30);
    EXPECT(r[2], 5, 5);
    kiln_value_and_grad(with_aux, NULL, in, 3, KILN_GRAD(.outputs = 2, .has_aux = true), r, 3);
    EXPECT(r[0], 75, 75);
    EXPECT(r[1], 5, 5);
    EXPECT(r[2], 25, 25);
    // Without aux: the gradient of the sum of both outputs.
    kiln_grad(with_aux, NULL, in, 3, KILN_GRAD(.wrt = KILN_ARGS(2), .outputs = 2), r, 1);
    EXPECT(r[0], 31, 31);
}

FN(sum_of_three)
{
    out[0] = kiln_add(kiln_add(in[0], in[1]), in[2]);
    return kiln_error();
}

static void d11_integers_have_integer_gradients(void **state)
{
    const int64_t one = 1, three = 3;
    kiln_tensor *x = kiln_from_data(dev, KILN_I64, KILN_SHAPE(1), &one),
                *z = kiln_from_data(dev, KILN_I64, KILN_SHAPE(1), &three);
    kiln_tensor *in[] = {x, kiln_scalar_int(2), z}, *g[3];
    kiln_grad(sum_of_three, NULL, in, 3, KILN_GRAD(.wrt = KILN_ARGS(0, 2)), g, 2);
    EXPECT(g[0], 1);
    EXPECT(g[1], 1);
    assert_int_equal(kiln_tensor_dtype(g[0]), KILN_I64);
    assert_int_equal(kiln_tensor_dtype(g[1]), KILN_I64);
    // A number that is asked for gets the gradient of a scalar.
    kiln_grad(sum_of_three, NULL, in, 3, KILN_GRAD(.wrt = KILN_ARGS(1)), g, 1);
    EXPECT(g[0], 1);
    assert_int_equal(kiln_rank(g[0]), 0);
    assert_int_equal(kiln_tensor_dtype(g[0]), KILN_I64);
}

FN(add_in_place)
{
    if (kiln_add_(in[0], in[1])) return kiln_error();
    out[0] = in[0];
    return kiln_error();
}

static void d12_inputs_may_be_written(void **state)
{
    const int32_t two = 2, three = 3;
    kiln_tensor *in[] = {kiln_from_data(dev, KILN_I32, KILN_SHAPE(1), &two),
                         kiln_from_data(dev, KILN_I32, KILN_SHAPE(1), &three)},
                *r[3];
    kiln_value_and_grad(add_in_place, NULL, in, 2, KILN_GRAD(.wrt = KILN_ARGS(0, 1)), r, 3);
    EXPECT(r[0], 5);
    EXPECT(r[1], 1);
    EXPECT(r[2], 1);
    assert_false(kiln_requires_grad(in[0]));
    EXPECT(kiln_mul(in[0], in[0]), 25);
}

FN(square_in_place_through_view)
{
    kiln_tensor *view = kiln_reshape(in[0], KILN_SHAPE(-1)), *part = kiln_narrow(view, 0, 0, 1);
    if (kiln_mul_(part, part)) return kiln_error();
    out[0] = kiln_sum(kiln_mul(in[0], in[0]), NULL);
    return kiln_error();
}

static void an_input_written_through_a_view(void **state)
{
    kiln_tensor *in[] = {VEC(2, 3)}, *g[1];
    kiln_grad(square_in_place_through_view, NULL, in, 1, NULL, g, 1);
    EXPECT(g[0], 32, 6); // d(x0^4 + x1^2)
    // Again: nothing of the first call is left on the caller's tensor.
    kiln_grad(square_in_place_through_view, NULL, in, 1, NULL, g, 1);
    EXPECT(g[0], 256, 6);
}

static void a_parameter_written_as_an_input_stays_a_leaf(void **state)
{
    kiln_tensor *w = PARAM("w", 2, 3), *in[] = {w, VEC(1, 1)}, *r[2];
    kiln_value_and_grad(add_in_place, NULL, in, 2, NULL, r, 2);
    EXPECT(r[0], 3, 4);
    EXPECT(r[1], 1, 1);
    EXPECT(w, 3, 4);
    assert_true(kiln_is_leaf(w) && kiln_requires_grad(w));
    kiln_backward(kiln_square(w), NULL);
    EXPECT(kiln_gradient(w), 6, 8);
    // What depends on a tape outside takes its new value there.
    kiln_tensor *h = kiln_square(w);
    in[0] = h;
    in[1] = w;
    kiln_grad(add_in_place, NULL, in, 2, NULL, r, 1);
    EXPECT(h, 12, 20);
    kiln_backward(h, NULL);
    EXPECT(kiln_gradient(w), 7, 9);
}

FN(uses_first_only)
{
    out[0] = kiln_square(in[0]);
    return kiln_error();
}

static void what_is_unused_gets_zeros(void **state)
{
    kiln_tensor *w = PARAM("w", 1, 2), *in[] = {VEC(1, 2), VEC(4, 5)}, *g[3];
    kiln_grad(uses_first_only, NULL, in, 2, KILN_GRAD(.wrt = KILN_ARGS(1, 0), .params = KILN_PARAMS(w)), g, 3);
    EXPECT(g[0], 0, 0);
    EXPECT(g[1], 2, 4);
    EXPECT(g[2], 0, 0);
}

FN(constant_output)
{
    out[0] = kiln_floor(in[0]);
    return kiln_error();
}

static void a_constant_result_has_zero_gradient(void **state)
{
    kiln_tensor *in[] = {VEC(1.5f, 2)}, *g[1];
    kiln_grad(constant_output, NULL, in, 1, NULL, g, 1);
    EXPECT(g[0], 0, 0);
}

static kiln_tensor *weight;
FN(times_parameter)
{
    out[0] = kiln_mul(in[0], weight);
    return kiln_error();
}

static void capability_23_parameters_take_part(void **state)
{
    weight = PARAM("z", 2, 3);
    assert_string_equal(kiln_name(weight), "z");
    kiln_tensor *in[] = {VEC(5, 7)}, *g[2];
    kiln_grad(times_parameter, NULL, in, 1, NULL, g, 1);
    EXPECT(g[0], 2, 3);
    kiln_grad(times_parameter, NULL, in, 1, KILN_GRAD(.params = KILN_PARAMS(weight)), g, 1);
    EXPECT(g[0], 5, 7);
    kiln_grad(times_parameter, NULL, in, 1, KILN_GRAD(.wrt = KILN_ARGS(0), .params = KILN_PARAMS(weight)), g, 2);
    EXPECT(g[0], 2, 3);
    EXPECT(g[1], 5, 7);
    assert_null(kiln_gradient(weight));
}

static void capability_21_sens(void **state)
{
    kiln_tensor *in[] = {VEC(1, 2), VEC(-2, 3), VEC(1, 3)}, *g[1], *s = VEC(10, 100);
    kiln_grad(product_of_three, NULL, in, 3, KILN_GRAD(.sens = KILN_TENSORS(s)), g, 1);
    EXPECT(g[0], -20, 900);
    kiln_grad(product_of_three, NULL, in, 3, KILN_GRAD(.sens = KILN_TENSORS(VEC(1, 2, 3))), g, 1);
    EXPECT_ERROR(KILN_E_SHAPE, "sens should have the shape of output 0, f32[2], it is f32[3]");
    kiln_grad(product_of_three, NULL, in, 3, KILN_GRAD(.sens = KILN_TENSORS(kiln_cast(s, KILN_F64))), g, 1);
    EXPECT_ERROR(KILN_E_DTYPE, "sens should have the dtype of output 0, f32, it is f64");
    kiln_grad(product_of_three, NULL, in, 3, KILN_GRAD(.sens = KILN_TENSORS(s, s)), g, 1);
    EXPECT_ERROR(KILN_E_SHAPE, "sens size should be same as output");
}

static void wrong_calls_say_what_is_wrong(void **state)
{
    kiln_tensor *in[] = {VEC(1, 2), VEC(1, 2)}, *g[3], *w = PARAM("w", 1, 2);
    kiln_grad(uses_first_only, NULL, in, 2, KILN_GRAD(.wrt = KILN_ARGS(0, 2)), g, 2);
    EXPECT_ERROR(KILN_E_ARGUMENT, ".wrt names input 2, fn has 2");
    kiln_grad(uses_first_only, NULL, in, 2, KILN_GRAD(.wrt = KILN_ARGS(1, 1)), g, 2);
    EXPECT_ERROR(KILN_E_ARGUMENT, ".wrt names input 1 twice");
    kiln_grad(uses_first_only, NULL, in, 2, KILN_GRAD(.wrt = KILN_ARGS(-1)), g, 1);
    EXPECT_ERROR(KILN_E_ARGUMENT, ".wrt names input -1");
    kiln_grad(uses_first_only, NULL, NULL, 0, NULL, g, 1);
    EXPECT_ERROR(KILN_E_ARGUMENT, "nothing to differentiate by");
    kiln_grad(uses_first_only, NULL, in, 2, NULL, g, 2);
    EXPECT_ERROR(KILN_E_ARGUMENT, "the call has 1 results, room is given for 2");
    kiln_grad(uses_first_only, NULL, in, 2, KILN_GRAD(.params = KILN_PARAMS(in[0])), g, 1);
    EXPECT_ERROR(KILN_E_ARGUMENT, "no parameter that requires a gradient");
    kiln_grad(uses_first_only, NULL, in, 2, KILN_GRAD(.params = KILN_PARAMS(w, w)), g, 2);
    EXPECT_ERROR(KILN_E_ARGUMENT, ".params has w twice");
    kiln_grad(NULL, NULL, in, 2, NULL, g, 1);
    EXPECT_ERROR(KILN_E_ARGUMENT, "fn is NULL");
    assert_null(g[0]);
}

FN(leaves_output)
{
    return KILN_OK;
}
FN(fails)
{
    return KILN_E_IO;
}
FN(fails_in_op)
{
    out[0] = kiln_add(in[0], in[1]);
    return KILN_OK;
}

static void failures_of_fn_are_reported(void **state)
{
    kiln_tensor *in[] = {VEC(1, 2), VEC(1, 2, 3)}, *g[1];
    kiln_grad(leaves_output, NULL, in, 1, NULL, g, 1);
    EXPECT_ERROR(KILN_E_ARGUMENT, "fn left output 0 of 1 NULL: set each out[i], or ask for fewer");
    kiln_grad(fails, NULL, in, 1, NULL, g, 1);
    EXPECT_ERROR(KILN_E_IO, "fn failed");
    kiln_grad(fails_in_op, NULL, in, 2, NULL, g, 1);
    EXPECT_ERROR(KILN_E_SHAPE, "add: shapes do not broadcast");
    kiln_grad(uses_first_only, NULL, in, 1, NULL, g, 1);
    EXPECT(g[0], 2, 4);
}

// Higher orders

FN(cube)
{
    out[0] = kiln_mul(kiln_mul(in[0], in[0]), in[0]);
    return kiln_error();
}
FN(d_cube)
{
    return kiln_grad(cube, NULL, in, 1, NULL, out, 1);
}
FN(d2_cube)
{
    return kiln_grad(d_cube, NULL, in, 1, NULL, out, 1);
}
FN(sin_of)
{
    out[0] = kiln_sin(in[0]);
    return kiln_error();
}
FN(d_sin)
{
    return kiln_grad(sin_of, NULL, in, 1, NULL, out, 1);
}
FN(d2_sin)
{
    return kiln_grad(d_sin, NULL, in, 1, NULL, out, 1);
}
FN(d3_sin)
{
    return kiln_grad(d2_sin, NULL, in, 1, NULL, out, 1);
}
FN(d4_sin)
{
    return kiln_grad(d3_sin, NULL, in, 1, NULL, out, 1);
}

static void orders_nest(void **state)
{
    kiln_tensor *in[] = {VEC(2, 3)}, *g[1];
    kiln_grad(cube, NULL, in, 1, NULL, g, 1);
    EXPECT(g[0], 12, 27);
    kiln_grad(d_cube, NULL, in, 1, NULL, g, 1);
    EXPECT(g[0], 12, 18);
    kiln_grad(d2_cube, NULL, in, 1, NULL, g, 1);
    EXPECT(g[0], 6, 6);
    in[0] = VEC(0.5f);
    kiln_grad(d3_sin, NULL, in, 1, NULL, g, 1);
    EXPECT(g[0], sin(0.5));
    kiln_grad(d4_sin, NULL, in, 1, NULL, g, 1);
    EXPECT(g[0], cos(0.5));
}

static void create_graph_makes_the_backward_differentiable(void **state)
{
    kiln_tensor *w = PARAM("w", 2, 3);
    kiln_backward_with(kiln_sum(kiln_mul(kiln_mul(w, w), w), NULL), KILN_BACKWARD(.create_graph = true));
    kiln_tensor *g = kiln_gradient(w);
    EXPECT(g, 12, 27);
    assert_true(kiln_requires_grad(g));
    kiln_tensor *penalty = kiln_sum(kiln_square(g), NULL);
    kiln_backward(penalty, NULL); // sum (3 w^2)^2 -> 36 w^3
    EXPECT(kiln_gradient(w), 288, 972);
}

static void grad_inside_an_eager_tape(void **state)
{
    kiln_tensor *w = PARAM("w", 2, 3), *h = kiln_square(w), *g[1];
    kiln_grad(cube, NULL, &h, 1, NULL, g, 1); // 3 h^2 = 3 w^4
    kiln_backward(kiln_sum(g[0], NULL), NULL);
    EXPECT(kiln_gradient(w), 96, 324);
    kiln_no_grad_begin();
    kiln_grad(cube, NULL, &h, 1, NULL, g, 1);
    kiln_no_grad_end();
    EXPECT(g[0], 48, 243);
    assert_false(kiln_requires_grad(g[0]));
}

// Backward

static void capability_17_backward_reaches_leaves(void **state)
{
    kiln_tensor *w = PARAM("w", 1, 2, 3), *b = PARAM("b", 0.5f);
    kiln_tensor *y = kiln_add(kiln_mul(w, VEC(2, 2, 2)), b);
    assert_true(kiln_requires_grad(y) && !kiln_is_leaf(y) && kiln_is_leaf(w));
    kiln_backward(y, NULL);
    EXPECT(kiln_gradient(w), 2, 2, 2);
    EXPECT(kiln_gradient(b), 3);
    assert_false(kiln_requires_grad(kiln_gradient(w)));
}

static void gradients_are_replaced_or_added(void **state)
{
    kiln_tensor *w = PARAM("w", 1, 2);
    for (int i = 0; i < 2; i++) kiln_backward(kiln_square(w), NULL);
    EXPECT(kiln_gradient(w), 2, 4);
    kiln_backward_with(kiln_square(w), KILN_BACKWARD(.accumulate = true));
    EXPECT(kiln_gradient(w), 4, 8);
    kiln_backward_with(kiln_square(w), KILN_BACKWARD(.sens = VEC(10, 1), .accumulate = true));
    EXPECT(kiln_gradient(w), 24, 12);
    kiln_set_gradient(w, VEC(7, 8));
    EXPECT(kiln_gradient(w), 7, 8);
    kiln_set_gradient(w, VEC(7, 8, 9));
    EXPECT_ERROR(KILN_E_SHAPE, "grad is f32[3], param is f32[2]");
    kiln_set_gradient(w, NULL);
    assert_null(kiln_gradient(w));
    assert_int_equal(kiln_error(), KILN_OK);
}

static void the_tape_is_used_up_unless_kept(void **state)
{
    kiln_tensor *w = PARAM("w", 1, 2), *y = kiln_exp(kiln_square(w));
    kiln_backward_with(y, KILN_BACKWARD(.keep_tape = true));
    kiln_tensor *first = kiln_alias(kiln_gradient(w));
    kiln_backward(y, NULL);
    kiln_tensor *difference = kiln_sub(first, kiln_gradient(w));
    EXPECT(difference, 0, 0);
    kiln_backward(y, NULL);
    EXPECT_ERROR(KILN_E_GRADIENT, "the tape of exp was used up by an earlier backward");
    // What depends on no parameter has no gradient to set.
    assert_int_equal(kiln_backward(VEC(1, 2), NULL), KILN_OK);
}

static void paths_add_up(void **state)
{
    kiln_tensor *w = PARAM("w", 3), *a = kiln_square(w), *b = kiln_mul(a, w), *c = kiln_add(kiln_mul(a, b), a);
    kiln_backward(c, NULL); // w^5 + w^2
    EXPECT(kiln_gradient(w), 5 * 81 + 6);
}

static void broadcasting_is_undone(void **state)
{
    kiln_tensor *a = kiln_parameter(kiln_ones(dev, KILN_F32, KILN_SHAPE(2, 1, 3)), "a");
    kiln_tensor *b = kiln_parameter(kiln_ones(dev, KILN_F16, KILN_SHAPE(4, 1)), "b");
    kiln_backward(kiln_mul(a, b), NULL);
    EXPECT(kiln_gradient(a), 4, 4, 4, 4, 4, 4);
    EXPECT(kiln_gradient(b), 6, 6, 6, 6);
    assert_int_equal(kiln_tensor_dtype(kiln_gradient(b)), KILN_F16);
}

static void nothing_is_recorded_without_need(void **state)
{
    kiln_tensor *w = PARAM("w", 1, 2);
    kiln_no_grad_begin();
    assert_false(kiln_grad_enabled());
    kiln_no_grad_begin();
    kiln_no_grad_end();
    kiln_tensor *y = kiln_square(w);
    kiln_no_grad_end();
    assert_true(kiln_grad_enabled());
    assert_false(kiln_requires_grad(y));
    assert_false(kiln_requires_grad(kiln_stop_gradient(kiln_square(w))));
    assert_false(kiln_requires_grad(kiln_argmax(w, NULL)));
    kiln_set_requires_grad(w, false);
    assert_false(kiln_requires_grad(kiln_square(w)));
    kiln_set_requires_grad(w, true);
    assert_true(kiln_requires_grad(kiln_square(w)));
    kiln_set_requires_grad(kiln_square(w), false);
    EXPECT_ERROR(KILN_E_GRADIENT, "t is no leaf, it is the result of square");
    kiln_tensor *mixed = kiln_mul(w, kiln_stop_gradient(w));
    kiln_backward(mixed, NULL);
    EXPECT(kiln_gradient(w), 1, 2);
}

static void a_gradient_is_a_tensor_of_its_own(void **state)
{
    kiln_tensor *w = PARAM("w", 1, 2), *sens = VEC(3, 4);
    kiln_backward(kiln_positive(w), sens);
    kiln_mul_(kiln_gradient(w), kiln_scalar(10));
    EXPECT(kiln_gradient(w), 30, 40);
    EXPECT(sens, 3, 4);
    kiln_backward(kiln_sum(w, NULL), NULL);
    kiln_add_(kiln_gradient(w), VEC(1, 2));
    EXPECT(kiln_gradient(w), 2, 3);
}

static void million_ops_deep(void **state)
{
    const int depth = strcmp(device_name, "cpu") ? 20000 : 1000000;
    kiln_tensor *w = PARAM("w", 1, 2), *h = kiln_own(kiln_neg(w));
    for (int i = 1; i < depth; i++) {
        kiln_tensor *next = kiln_own(kiln_neg(h));
        kiln_free(&h);
        h = next;
    }
    kiln_backward_with(h, KILN_BACKWARD(.keep_tape = true));
    EXPECT(kiln_gradient(w), 1, 1);
    kiln_tensor *in[] = {w}, *unused[1];
    kiln_grad(uses_first_only, NULL, in, 1, NULL, unused, 1);
    kiln_free(&h); // frees the chain without recursion
}

// Writes

static void capability_19_saved_values_are_guarded(void **state)
{
    kiln_tensor *w = PARAM("w", 1, 2), *x = VEC(3, 4), *y = kiln_mul(w, x);
    kiln_add_(x, kiln_scalar(1));
    kiln_backward(y, NULL);
    EXPECT_ERROR(KILN_E_GRADIENT, "the gradient of mul needs its input b, which add_ has changed since");
    kiln_tensor *e = kiln_exp(w);
    kiln_mul_(e, kiln_scalar(2));
    kiln_backward(e, NULL);
    EXPECT_ERROR(KILN_E_GRADIENT, "the gradient of exp needs its result, which mul_ has changed since");
    // What no rule needs may change.
    y = kiln_add(w, x);
    kiln_add_(x, kiln_scalar(1));
    kiln_backward(y, NULL);
    EXPECT(kiln_gradient(w), 1, 1);
}

static void versions_belong_to_the_storage(void **state)
{
    kiln_tensor *w = PARAM("w", 1, 2), *x = VEC(3, 4), *part = kiln_narrow(x, 0, 0, 1), *y = kiln_mul(w, x);
    uint64_t before = kiln_tensor_version(x);
    kiln_assign(part, kiln_scalar(9));
    assert_int_equal(kiln_tensor_version(x), before + 1);
    kiln_backward(y, NULL);
    EXPECT_ERROR(KILN_E_GRADIENT, "which assign has changed since");
}

static void leaves_cannot_be_written(void **state)
{
    kiln_tensor *w = PARAM("w", 1, 2), *view = kiln_narrow(w, 0, 0, 1);
    kiln_add_(w, kiln_scalar(1));
    EXPECT_ERROR(KILN_E_GRADIENT, "add_: w is a leaf that requires a gradient");
    kiln_assign(view, kiln_scalar(1));
    EXPECT_ERROR(KILN_E_GRADIENT, "assign: dst is a view of a leaf that requires a gradient");
    kiln_tensor *init = VEC(5, 6), *p = kiln_parameter(init, "p");
    kiln_add_(init, kiln_scalar(1));
    EXPECT_ERROR(KILN_E_GRADIENT, "view of a leaf");
    kiln_no_grad_begin();
    kiln_assign(w, VEC(7, 8));
    kiln_no_grad_end();
    EXPECT(w, 7, 8);
    EXPECT(p, 5, 6);
    kiln_backward(kiln_square(w), NULL);
    EXPECT(kiln_gradient(w), 14, 16);
}

static void writes_rebase_history(void **state)
{
    kiln_tensor *w = PARAM("w", 2, 3), *x = kiln_square(w);
    kiln_mul_(x, w); // w^3: needs the old x
    kiln_mul_(x, x); // w^6: needs the old x twice
    kiln_exp_(kiln_neg(x));
    kiln_backward(x, NULL);
    EXPECT(kiln_gradient(w), 6 * 32, 6 * 243);
}

static void a_write_through_a_view_reaches_the_base(void **state)
{
    kiln_tensor *w = PARAM("w", 2, 3, 4), *x = kiln_mul(w, kiln_scalar(10));
    kiln_tensor *view = kiln_narrow(x, 0, 1, 2), *other = kiln_flip(x, KILN_AXES(0)), *twin = kiln_alias(x);
    kiln_mul_(view, kiln_narrow(w, 0, 0, 2)); // x = 10w0, 10 w1 w0, 10 w2 w1
    EXPECT(x, 20, 60, 120);
    kiln_backward_with(x, KILN_BACKWARD(.keep_tape = true));
    EXPECT(kiln_gradient(w), 10 + 30, 20 + 40, 30);
    // The other views show the new values, with the new gradient.
    kiln_backward_with(kiln_mul(other, VEC(1, 0, 0)), KILN_BACKWARD(.keep_tape = true));
    EXPECT(kiln_gradient(w), 0, 40, 30);
    kiln_backward_with(kiln_select(twin, 0, 1), KILN_BACKWARD(.keep_tape = true));
    EXPECT(kiln_gradient(w), 30, 20, 0);
    kiln_backward(view, NULL);
    EXPECT(kiln_gradient(w), 30, 60, 30);
}

static void a_buffer_is_filled_part_by_part(void **state)
{
    kiln_tensor *w = PARAM("w", 2, 3), *buffer = kiln_zeros(dev, KILN_F32, KILN_SHAPE(3, 2)),
                *early = kiln_transpose(buffer, 0, 1);
    for (int64_t i = 0; i < 3; i++)
        kiln_set_slice(buffer, KILN_SLICE(.start = KILN_ARGS(i), .stop = KILN_ARGS(i + 1)),
                       kiln_mul(w, kiln_scalar((double)(i + 1))));
    EXPECT(buffer, 2, 3, 4, 6, 6, 9);
    assert_true(kiln_requires_grad(buffer));
    kiln_tensor *y = kiln_square(early);
    kiln_backward(y, NULL);
    EXPECT(kiln_gradient(w), 2 * 2 * (1 + 4 + 9), 2 * 3 * (1 + 4 + 9));
}

static void an_overwritten_value_loses_its_gradient(void **state)
{
    kiln_tensor *w = PARAM("w", 2, 3), *x = kiln_square(w);
    kiln_assign(kiln_narrow(x, 0, 0, 1), VEC(5));
    kiln_backward_with(kiln_square(x), NULL);
    EXPECT(kiln_gradient(w), 0, 2 * 9 * 6);
    const float host[] = {1, 2};
    x = kiln_square(w);
    kiln_write(x, host, sizeof host);
    kiln_set_gradient(w, NULL);
    kiln_backward(x, NULL);
    assert_null(kiln_gradient(w));
}

// What takes the place of a value has its history alone: none, where it was made of constants.
static void an_assigned_constant_has_no_history(void **state)
{
    kiln_tensor *w = PARAM("w", 2, 3), *x = kiln_square(w), *early = kiln_narrow(x, 0, 0, 1);
    kiln_tensor *part = kiln_narrow(x, 0, 0, 1);
    kiln_assign(part, VEC(5));
    assert_true(kiln_requires_grad(x));
    assert_false(kiln_requires_grad(part) || kiln_requires_grad(early));
    kiln_assign(x, VEC(5, 6));
    assert_false(kiln_requires_grad(x) || kiln_requires_grad(part) || kiln_requires_grad(kiln_sum(x, NULL)));
    kiln_assign(part, kiln_narrow(w, 0, 1, 1));
    assert_true(kiln_requires_grad(x) && kiln_requires_grad(part) && kiln_requires_grad(early));
    kiln_backward(x, NULL);
    EXPECT(kiln_gradient(w), 0, 1);
    const float host[] = {1, 2};
    kiln_write(x, host, sizeof host);
    assert_false(kiln_requires_grad(x) || kiln_requires_grad(early));
}

static uint64_t count_tensors(void)
{
    kiln_device_stats s = {.size = sizeof s};
    kiln_device_get_stats(dev, &s);
    return s.tensors;
}

// Nor does it keep what was there alive.
static void an_assigned_value_keeps_no_other(void **state)
{
    kiln_tensor *w = PARAM("w", 2, 3), *x = kiln_zeros(dev, KILN_F32, KILN_SHAPE(2));
    uint64_t first = 0;
    for (int i = 0; i < 20; i++) {
        kiln_scope *own = kiln_scope_begin();
        kiln_assign(x, kiln_exp(w));
        kiln_scope_end(&own);
        if (!i) first = count_tensors();
    }
    assert_int_equal(count_tensors(), first);
    kiln_backward(x, NULL);
    assert_non_null(kiln_gradient(w));
}

static void views_without_gradients_are_guarded(void **state)
{
    kiln_tensor *w = PARAM("w", 2, 3), *x = kiln_square(w);
    kiln_no_grad_begin();
    kiln_tensor *view = kiln_narrow(x, 0, 0, 1);
    kiln_no_grad_end();
    kiln_assign(view, kiln_narrow(w, 0, 1, 1));
    EXPECT_ERROR(KILN_E_GRADIENT, "made without gradients");
}

// Hooks

static kiln_tensor *doubled(void *user, kiln_tensor *grad)
{
    ++*(int *)user;
    return kiln_mul(grad, kiln_scalar(2));
}
static kiln_tensor *watches(void *user, kiln_tensor *grad)
{
    *(double *)user = kiln_item(kiln_sum(grad, NULL));
    return NULL;
}
static kiln_tensor *misshapen(void *user, kiln_tensor *grad)
{
    return VEC(1, 2, 3);
}

static void hooks_see_and_replace(void **state)
{
    int calls = 0;
    double seen = 0;
    kiln_tensor *w = PARAM("w", 2, 3), *h = kiln_square(w), *y = kiln_mul(h, h);
    uint64_t id = kiln_register_hook(h, doubled, &calls);
    assert_true(id != 0);
    kiln_register_hook(h, watches, &seen);
    kiln_backward_with(y, KILN_BACKWARD(.keep_tape = true));
    EXPECT(kiln_gradient(w), 2 * 32, 2 * 108);
    assert_int_equal(calls, 1);
    assert_true(fabs(seen - 2 * (8 + 18)) < 1e-4);
    kiln_remove_hook(h, id);
    kiln_remove_hook(h, id);
    EXPECT_ERROR(KILN_E_ARGUMENT, "has no hook");
    kiln_register_hook(w, doubled, &calls);
    kiln_backward(y, NULL);
    EXPECT(kiln_gradient(w), 64, 216);
    assert_int_equal(calls, 2);
    assert_int_equal(kiln_register_hook(VEC(1), doubled, &calls), 0);
    EXPECT_ERROR(KILN_E_GRADIENT, "t requires no gradient");
    kiln_tensor *v = PARAM("v", 1, 2);
    kiln_register_hook(v, misshapen, NULL);
    kiln_backward(kiln_square(v), NULL);
    EXPECT_ERROR(KILN_E_SHAPE, "returned f32[3]");
    assert_null(kiln_gradient(v));
}

// Rules

static kiln_status my_mul(void *user, kiln_tensor *const *in, kiln_tensor *const *out, kiln_tensor *const *dout,
                          kiln_tensor **din)
{
    ++*(int *)user;
    assert_int_equal(kiln_rule_n_in(), 2);
    assert_non_null(in[0]);
    assert_non_null(out[0]);
    din[0] = kiln_mul(kiln_mul(in[1], dout[0]), kiln_scalar(100));
    din[1] = kiln_mul(in[0], dout[0]);
    return kiln_error();
}

static void capability_18_a_rule_is_replaced(void **state)
{
    int calls = 0;
    kiln_tensor *w = PARAM("w", 1, 2), *before = kiln_mul(w, VEC(3, 4));
    assert_int_equal(kiln_register_bprop("Mul", my_mul, &calls), KILN_OK);
    kiln_tensor *after = kiln_mul(w, VEC(3, 4)), *broadcast = kiln_mul(PARAM("v", 1), VEC(3, 4));
    kiln_backward(before, NULL);
    EXPECT(kiln_gradient(w), 3, 4); // recorded before
    assert_int_equal(calls, 0);
    kiln_backward(after, NULL);
    EXPECT(kiln_gradient(w), 300, 400);
    kiln_backward(broadcast, NULL); // un-broadcasting is not the rule's business
    assert_int_equal(calls, 2);
    kiln_register_bprop("mul", NULL, NULL);
    kiln_backward(kiln_mul(w, VEC(3, 4)), NULL);
    EXPECT(kiln_gradient(w), 3, 4);
    kiln_register_bprop("no_such_op", my_mul, NULL);
    EXPECT_ERROR(KILN_E_ARGUMENT, "no op is named \"no_such_op\"");
    kiln_rule_n_in();
    EXPECT_ERROR(KILN_E_STATE, "inside a rule only");
}

static kiln_status needs_little(void *user, kiln_tensor *const *in, kiln_tensor *const *out, kiln_tensor *const *dout,
                                kiln_tensor **din)
{
    const int64_t *dims, *axes;
    assert_null(in[0]);
    assert_null(out[0]);
    assert_int_equal(kiln_rule_in_shape(0, &dims), 2);
    assert_int_equal(dims[0] * 10 + dims[1], 23);
    assert_int_equal(kiln_rule_out_shape(0, NULL), 1);
    assert_int_equal(kiln_rule_ints("axes", &axes), 1);
    assert_int_equal(axes[0], 1);
    assert_false(kiln_rule_int("keepdims"));
    assert_true(kiln_rule_wants(0));
    assert_false(kiln_rule_wants(1));
    assert_int_equal(kiln_rule_in_dtype(0), KILN_F32);
    din[0] = kiln_expand(kiln_unsqueeze(dout[0], 1), KILN_SHAPE(2, 3));
    return kiln_error();
}

static void rules_keep_what_they_ask_for(void **state)
{
    kiln_register_rule(KILN_RULE(.op = "sum", .fn = needs_little));
    kiln_tensor *w = kiln_parameter(kiln_ones(dev, KILN_F32, KILN_SHAPE(2, 3)), "w");
    kiln_backward(kiln_sum(w, KILN_REDUCE(.axes = KILN_AXES(1))), NULL);
    kiln_register_bprop("sum", NULL, NULL);
    EXPECT(kiln_gradient(w), 1, 1, 1, 1, 1, 1);
}

// Of y, mean and var of batch_norm_train.
static kiln_status looks_at_missing(void *user, kiln_tensor *const *in, kiln_tensor *const *out,
                                    kiln_tensor *const *dout, kiln_tensor **din)
{
    int *seen = user;
    for (int i = 0; i < 3; i++) *seen |= dout[i] ? 1 << i : 0;
    din[0] = dout[0];
    return kiln_error();
}

static void rules_may_take_what_is_missing(void **state)
{
    for (int null = 0; null < 2; null++) {
        int seen = 0;
        kiln_register_rule(
            KILN_RULE(.op = "batch_norm_train", .fn = looks_at_missing, .user = &seen, .missing_is_null = null));
        kiln_tensor *w = kiln_parameter(kiln_ones(dev, KILN_F32, KILN_SHAPE(2, 3)), "w"), *made[3];
        kiln_batch_norm_train(w, NULL, &made[0], &made[1], &made[2]);
        kiln_backward(kiln_sum(made[0], NULL), NULL);
        EXPECT(kiln_gradient(w), 1, 1, 1, 1, 1, 1);
        assert_int_equal(seen, null ? 1 : 7);
    }
    kiln_register_bprop("batch_norm_train", NULL, NULL);
}

// Where no gradient reaches the statistics, nothing of x's size is made for them.
static void batch_norm_makes_no_gradients_of_nothing(void **state)
{
    enum { N = 1 << 16 };
    kiln_tensor *x = kiln_own(kiln_parameter(kiln_normal(dev, KILN_F32, KILN_SHAPE(N / 4, 4), 0, 1), "x")), *made[3];
    kiln_batch_norm_train(x, NULL, &made[0], &made[1], &made[2]);
    kiln_device_stats stats = {.size = sizeof stats};
    kiln_device_reset_stats(dev);
    kiln_device_get_stats(dev, &stats);
    uint64_t before = stats.heap_peak_B;
    kiln_backward(made[0], NULL);
    kiln_device_get_stats(dev, &stats);
    assert_in_range(stats.heap_peak_B - before, 1, 3 * N * sizeof(float));
    kiln_free(&x);
}

static kiln_status returns_nothing(void *user, kiln_tensor *const *in, kiln_tensor *const *out,
                                   kiln_tensor *const *dout, kiln_tensor **din)
{
    return KILN_OK;
}
static kiln_status returns_wrong_shape(void *user, kiln_tensor *const *in, kiln_tensor *const *out,
                                       kiln_tensor *const *dout, kiln_tensor **din)
{
    din[0] = VEC(1, 2, 3, 4);
    return KILN_OK;
}

static void rules_may_fail(void **state)
{
    kiln_tensor *w = PARAM("w", 1, 2);
    kiln_register_bprop("square", returns_nothing, NULL);
    kiln_backward(kiln_square(w), NULL);
    assert_null(kiln_gradient(w));
    kiln_register_bprop("square", returns_wrong_shape, NULL);
    kiln_backward(kiln_square(w), NULL);
    EXPECT_ERROR(KILN_E_SHAPE, "the rule of square returned f32[4] as the gradient by input 0 of f32[2]");
    kiln_register_bprop("square", NULL, NULL);
}

static void capability_72_the_backward_graph_shows_the_rules(void **state)
{
    int calls = 0;
    kiln_tensor *w = PARAM("w", 1, 2), *y = kiln_sum(kiln_mul(w, VEC(3, 4)), NULL);
    kiln_graph *g = kiln_backward_graph(y);
    assert_non_null(g);
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    kiln_graph_print(g, f);
    fclose(f);
    assert_non_null(strstr(text, "= input \"dout\""));
    assert_non_null(strstr(text, "f32[2] = input \"mul.b\""));
    assert_non_null(strstr(text, "mul.grad0("));
    assert_non_null(strstr(text, "return %"));
    assert_non_null(strstr(text, "\"w\""));
    free(text);
    kiln_graph_free(&g);
    assert_null(g);
    kiln_register_bprop("mul", my_mul, &calls);
    y = kiln_mul(w, VEC(3, 4));
    g = kiln_backward_graph(y);
    kiln_register_bprop("mul", NULL, NULL);
    assert_non_null(g);
    assert_int_equal(kiln_graph_node_count(g), 3);
    for (size_t i = 0; i < 3; i++) assert_string_equal(kiln_graph_node_op(g, i), "mul");
    kiln_graph_free(&g);
    kiln_backward(y, NULL); // the tape is still there
    EXPECT(kiln_gradient(w), 300, 400);
}

FN(wrong_gradient)
{
    out[0] = kiln_mul(in[0], kiln_stop_gradient(in[0]));
    return kiln_error();
}

static void gradcheck_finds_a_wrong_gradient(void **state)
{
    const double v[] = {1, 2};
    kiln_tensor *in[] = {kiln_from_data(dev, KILN_F64, KILN_SHAPE(2), v), VEC(1, 2)};
    assert_int_equal(kiln_gradcheck(cube, NULL, in, 1, KILN_GRADCHECK(.order = 2, .atol = 1e-5)), KILN_OK);
    kiln_gradcheck(wrong_gradient, NULL, in, 1, NULL);
    EXPECT_ERROR(KILN_E_GRADIENT, "gradcheck: order 1, input 0, element");
    kiln_gradcheck(cube, NULL, in + 1, 1, NULL);
    EXPECT_ERROR(KILN_E_ARGUMENT, "no input is f64");
}

static kiln_status square(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_square(in[0]);
    return kiln_error();
}

// Beside a result of 1e8, what the small element adds is less than the sum's rounding.
static void gradcheck_sees_small_derivatives_beside_large_results(void **state)
{
    kiln_tensor *in[] = {kiln_from_data(dev, KILN_F64, KILN_SHAPE(2), (double[]){1e4, 1e-3})};
    assert_int_equal(kiln_gradcheck(square, NULL, in, 1, KILN_GRADCHECK(.order = 2)), KILN_OK);
}

static void a_parameter_takes_or_copies(void **state)
{
    kiln_tensor *x = kiln_from_data(dev, KILN_F32, KILN_SHAPE(2, 2), (float[]){1, 2, 3, 4});
    kiln_tensor *p = kiln_parameter(kiln_transpose(x, 0, 1), "p");
    EXPECT(p, 1, 3, 2, 4);
    assert_false(kiln_is_view_of(p, x));
    assert_true(kiln_is_contiguous(p));
    kiln_tensor *s = kiln_parameter(kiln_scalar(0.5), "s");
    EXPECT(s, 0.5);
    kiln_backward(kiln_mul(s, x), NULL);
    EXPECT(kiln_gradient(s), 10);
    assert_int_equal(kiln_tensor_dtype(kiln_gradient(s)), KILN_F32);
}

static void gradients_cross_devices(void **state)
{
    kiln_device *other = kiln_device_open("cpu");
    kiln_tensor *w = PARAM("w", 1, 2), *there = kiln_to_device(kiln_square(w), other);
    assert_ptr_equal(kiln_tensor_device(there), other);
    kiln_backward(kiln_mul(there, kiln_from_data(other, KILN_F32, KILN_SHAPE(2), (float[]){3, 4})), NULL);
    assert_ptr_equal(kiln_tensor_device(kiln_gradient(w)), dev);
    EXPECT(kiln_gradient(w), 6, 16);
    kiln_device_close(&other);
}

#define THREADS 4
#define ROUNDS  50
static void *one_thread(void *shared)
{
    kiln_tensor *w = shared;
    for (int i = 0; i < ROUNDS && !kiln_error(); i++) {
        kiln_scope *mine = kiln_scope_begin();
        kiln_tensor *view = kiln_transpose(kiln_reshape(w, KILN_SHAPE(1, 2)), 0, 1), *g[1], *in[] = {w};
        kiln_backward_with(kiln_sum(kiln_square(view), NULL), KILN_BACKWARD(.accumulate = true));
        kiln_grad(cube, NULL, in, 1, NULL, g, 1);
        kiln_scope_end(&mine);
    }
    return kiln_error() ? (void *)1 : NULL;
}

static void threads_share_parameters(void **state)
{
    kiln_tensor *w = PARAM("w", 1, 2);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, one_thread, w), 0);
    for (int i = 0; i < THREADS; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    EXPECT(kiln_gradient(w), 2 * THREADS * ROUNDS, 4 * THREADS * ROUNDS);
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
        CASE(capability_20_e3_matmul),
        CASE(capability_22_d8_positions),
        CASE(d9_aux_outputs_are_returned),
        CASE(d11_integers_have_integer_gradients),
        CASE(d12_inputs_may_be_written),
        CASE(an_input_written_through_a_view),
        CASE(what_is_unused_gets_zeros),
        CASE(a_constant_result_has_zero_gradient),
        CASE(capability_23_parameters_take_part),
        CASE(capability_21_sens),
        CASE(wrong_calls_say_what_is_wrong),
        CASE(failures_of_fn_are_reported),
        CASE(orders_nest),
        CASE(create_graph_makes_the_backward_differentiable),
        CASE(grad_inside_an_eager_tape),
        CASE(capability_17_backward_reaches_leaves),
        CASE(gradients_are_replaced_or_added),
        CASE(the_tape_is_used_up_unless_kept),
        CASE(paths_add_up),
        CASE(broadcasting_is_undone),
        CASE(nothing_is_recorded_without_need),
        CASE(a_gradient_is_a_tensor_of_its_own),
        CASE(million_ops_deep),
        CASE(capability_19_saved_values_are_guarded),
        CASE(versions_belong_to_the_storage),
        CASE(leaves_cannot_be_written),
        CASE(writes_rebase_history),
        CASE(a_write_through_a_view_reaches_the_base),
        CASE(a_buffer_is_filled_part_by_part),
        CASE(an_overwritten_value_loses_its_gradient),
        CASE(an_assigned_constant_has_no_history),
        CASE(an_assigned_value_keeps_no_other),
        CASE(views_without_gradients_are_guarded),
        CASE(hooks_see_and_replace),
        CASE(capability_18_a_rule_is_replaced),
        CASE(rules_keep_what_they_ask_for),
        CASE(rules_may_take_what_is_missing),
        CASE(batch_norm_makes_no_gradients_of_nothing),
        CASE(rules_may_fail),
        CASE(capability_72_the_backward_graph_shows_the_rules),
        CASE(gradcheck_finds_a_wrong_gradient),
        CASE(gradcheck_sees_small_derivatives_beside_large_results),
        CASE(a_parameter_takes_or_copies),
        CASE(gradients_cross_devices),
        CASE(threads_share_parameters),
        CASE(a_parameter_written_as_an_input_stays_a_leaf),
    };
    return cmocka_run_group_tests(tests, NULL, group_teardown);
}
