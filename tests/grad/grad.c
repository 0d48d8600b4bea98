// Gradients of functions, to any order: positions, parameters, results beside them, errors, how they are checked.
#include "grad_values.h"
#include <pthread.h>

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
    int status = open_device(argc, argv);
    if (status) return status;
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
        CASE(million_ops_deep),
        CASE(gradcheck_finds_a_wrong_gradient),
        CASE(gradcheck_sees_small_derivatives_beside_large_results),
        CASE(threads_share_parameters),
        CASE(a_parameter_written_as_an_input_stays_a_leaf),
    };
    return cmocka_run_group_tests(tests, NULL, group_teardown);
}
