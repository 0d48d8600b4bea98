// What a captured function reaches beside its inputs, and numbers: state that others write too, views of constants,
// numbers where an op wants a tensor.
#include "jit_fixture.h"

static const kiln_capture captures[] = {KILN_CAPTURE_STRICT, KILN_CAPTURE_TRACE, KILN_CAPTURE_AUTO};
enum { CAPTURES = sizeof captures / sizeof *captures };

static kiln_status adds_state(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_add(in[0], (kiln_tensor *)user);
    return kiln_error();
}

// A write through another handle changes the value of state, not that it is state.
static void state_that_its_base_writes(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < CAPTURES; i++) {
        kiln_tensor *base = vec(f, 6, 1, 2, 3, 4, 5, 6), *s = kiln_narrow(base, 0, 2, 2), *x = vec(f, 2, 10, 20), *y;
        ok(kiln_state(s));
        ok(kiln_assign(base, vec(f, 6, 0, 0, 7, 8, 0, 0)));
        kiln_function *j = kiln_jit(adds_state, s, KILN_JIT(.capture = captures[i]));
        ok(kiln_call(j, &x, 1, &y, 1));
        expect(y, 2, 17., 28.);
        ok(kiln_mul_(base, kiln_scalar(2)));
        ok(kiln_call(j, &x, 1, &y, 1));
        expect(y, 2, 24., 36.);
        kiln_function_free(&j);
    }
}

static void a_second_state_in_one_storage(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < CAPTURES; i++) {
        kiln_tensor *base = vec(f, 6, 1, 2, 3, 4, 5, 6), *s = kiln_narrow(base, 0, 2, 2), *x = vec(f, 2, 10, 20), *y;
        ok(kiln_state(s));
        ok(kiln_state(kiln_narrow(base, 0, 1, 2)));
        kiln_function *j = kiln_jit(adds_state, s, KILN_JIT(.capture = captures[i]));
        ok(kiln_call(j, &x, 1, &y, 1));
        expect(y, 2, 13., 24.);
        kiln_function_free(&j);
    }
}

static kiln_status square_beside_state(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_sum(kiln_square(in[0]), NULL);
    out[1] = kiln_alias(user);
    return kiln_error();
}

static kiln_status slope_beside_state(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const kiln_grad_opts *o = KILN_GRAD(.outputs = 2, .has_aux = true);
    return kiln_value_and_grad(square_beside_state, user, in, n_in, o, out, n_out);
}

// A handle on state that is gone leaves nothing behind.
static void state_that_is_returned(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < CAPTURES; i++) {
        kiln_tensor *s = vec(f, 2, 3, 4), *x = vec(f, 2, 1, 2), *y[3];
        ok(kiln_state(s));
        ok(kiln_set_requires_grad(x, true));
        kiln_function *j = kiln_jit(slope_beside_state, s, KILN_JIT(.capture = captures[i]));
        for (int call = 0; call < 3; call++) {
            ok(kiln_call(j, &x, 1, y, 3));
            expect(y[0], 1, 5.);
            expect(y[1], 2, 3., 4.);
            expect(y[2], 2, 2., 4.);
        }
        kiln_function_free(&j);
    }
}

static kiln_status adds_row_of_constant(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                        size_t n_out)
{
    kiln_tensor *c = kiln_constant(user);
    out[0] = kiln_add(in[0], kiln_select(kiln_transpose(c, 0, 1), 0, 1));
    return kiln_error();
}

static void views_of_constants(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < CAPTURES; i++) {
        kiln_tensor *c = mat(f, 2, 3, 1., 2., 3., 4., 5., 6.), *x = vec(f, 2, 10, 20), *y;
        kiln_function *j = kiln_jit(adds_row_of_constant, c, KILN_JIT(.capture = captures[i]));
        for (int call = 0; call < 2; call++) {
            ok(kiln_call(j, &x, 1, &y, 1));
            expect(y, 2, 12., 25.);
        }
        kiln_function_free(&j);
    }
}

static kiln_status number_as_tensor(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_tile(in[1], KILN_SHAPE(2));
    out[1] = kiln_stack((kiln_tensor *[]){in[1], in[1]}, 2, 0);
    out[2] = kiln_concat((kiln_tensor *[]){in[0], kiln_reshape(in[1], KILN_SHAPE(1))}, 2, 0);
    out[3] = kiln_zeros_like(in[1]);
    out[4] = kiln_mul(in[0], kiln_scalar(1));
    return kiln_set_slice(out[4], KILN_SLICE(.stop = KILN_ARGS(1)), in[1]);
}

// In ops that are not elementwise a number is an f32 tensor, whether programs take it at run time or not.
static void numbers_where_tensors_are_wanted(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 2 * CAPTURES; i++) {
        kiln_function *j = kiln_jit(number_as_tensor, NULL, KILN_JIT(.capture = captures[i / 2]));
        for (int call = 0; call < 4; call++) {
            double v = call - 1.5;
            kiln_tensor *in[] = {vec(f, 2, 7, 8), i % 2 ? kiln_mutable(v) : kiln_scalar(v)}, *out[5];
            ok(kiln_call(j, in, 2, out, 5));
            for (int k = 0; k < 5; k++) assert_int_equal(kiln_tensor_dtype(out[k]), KILN_F32);
            expect(out[0], 2, v, v);
            expect(out[1], 2, v, v);
            expect(out[2], 3, 7., 8., v);
            expect(out[3], 1, 0.);
            expect(out[4], 2, v, 8.);
        }
        kiln_function_free(&j);
    }
}

static kiln_status times_number(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_sum(kiln_mul(kiln_unsqueeze(in[1], 0), in[0]), NULL);
    return kiln_error();
}

static kiln_status slopes(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    return kiln_value_and_grad(times_number, NULL, in, n_in, KILN_GRAD(.wrt = KILN_ARGS(0, 1)), out, n_out);
}

static void numbers_where_tensors_are_wanted_have_gradients(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 2 * CAPTURES; i++) {
        uint64_t captures_before = 0;
        kiln_function *j = kiln_jit(slopes, NULL, KILN_JIT(.capture = captures[i / 2]));
        for (int call = 0; call < 5; call++) {
            kiln_tensor *in[] = {vec(f, 2, 7, 8), i % 2 ? kiln_mutable(call) : kiln_scalar(call)}, *out[3];
            ok(kiln_call(j, in, 2, out, 3));
            expect(out[0], 1, 15. * call);
            expect(out[1], 2, (double)call, (double)call);
            expect(out[2], 1, 15.);
            if (call > 2) assert_int_equal(stats_of(j).captures, captures_before);
            captures_before = stats_of(j).captures;
        }
        kiln_function_free(&j);
    }
}

static double minus_half(void *user)
{
    return *(double *)user -= .5;
}

static kiln_status returns_host_number(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_host_number(minus_half, user);
    out[1] = in[0];
    out[2] = kiln_add(kiln_add(in[1], out[0]), in[0]);
    return kiln_error();
}

// A result that is a number has its value, and takes the dtype of what it meets as it did before.
static void numbers_returned(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 2 * CAPTURES; i++) {
        double host = 4;
        kiln_function *j = kiln_jit(returns_host_number, &host, KILN_JIT(.capture = captures[i / 2]));
        for (int call = 0; call < 4; call++) {
            kiln_tensor *in[] = {i % 2 ? kiln_mutable(call) : kiln_scalar(call), vec(f, 1, 10)}, *out[3];
            ok(kiln_call(j, in, 2, out, 3));
            expect(out[0], 1, host);
            expect(out[1], 1, (double)call);
            expect(out[2], 1, 10 + host + call);
            for (int k = 0; k < 2; k++) assert_int_equal(kiln_tensor_dtype(kiln_mul(out[k], in[1])), KILN_F32);
        }
        kiln_function_free(&j);
    }
}

static kiln_status assigns(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_abs(in[0]);
    out[1] = kiln_narrow(out[0], 0, 0, 2);
    out[2] = kiln_neg(in[0]);
    out[3] = kiln_exp(in[0]);
    TRY_(kiln_assign(out[0], in[0]));
    return kiln_assign(out[3], out[2]);
}

static kiln_status first_input(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_square(in[0]);
    return kiln_error();
}

// An input that gradients of gradients do not need is not kept.
static void second_derivatives_beside_an_unread_input(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < CAPTURES; i++) {
        kiln_function *j = kiln_jit(first_input, NULL, KILN_JIT(.capture = captures[i]));
        for (int call = 0; call < 2; call++) {
            kiln_tensor *in[] = {kiln_parameter(vec(f, 2, 1, 2), "x"), vec(f, 1, 5)}, *y;
            ok(kiln_call(j, in, 2, &y, 1));
            ok(kiln_backward_with(y, KILN_BACKWARD(.create_graph = true)));
            kiln_tensor *slope = kiln_gradient(in[0]);
            expect(slope, 2, 2., 4.);
            ok(kiln_backward(kiln_sum(kiln_square(slope), NULL), NULL));
            expect(kiln_gradient(in[0]), 2, 8., 16.);
        }
        kiln_function_free(&j);
    }
}

static kiln_status assigns_twice(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = out[1] = kiln_abs(in[0]);
    return kiln_assign(out[0], in[1]);
}

// The same where the place on the tape is that of an input that lies somewhere in its memory.
static void results_that_were_assigned_a_leaf(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < CAPTURES; i++) {
        kiln_function *j = kiln_jit(assigns_twice, NULL, KILN_JIT(.capture = captures[i]));
        for (int call = 0; call < 2; call++) {
            kiln_tensor *base = vec(f, 4, 9, 1, 2, 9), *in[] = {vec(f, 2, 5, 6), kiln_narrow(base, 0, 1, 2)}, *y[2];
            ok(kiln_set_requires_grad(in[1], true));
            ok(kiln_call(j, in, 2, y, 2));
            for (int k = 0; k < 2; k++) expect(y[k], 2, 1., 2.);
            ok(kiln_backward(kiln_add(y[0], kiln_mul(y[1], kiln_scalar(2))), NULL));
            expect(kiln_gradient(in[1]), 2, 3., 3.);
        }
        kiln_function_free(&j);
    }
}

// What was assigned to memory made in the function is a copy: writes to a result reach neither the input nor another
// result, but those that lie in its memory.
static void results_that_were_assigned(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < CAPTURES; i++) {
        kiln_function *j = kiln_jit(assigns, NULL, KILN_JIT(.capture = captures[i]));
        for (int call = 0; call < 2; call++) {
            kiln_tensor *base = vec(f, 5, 9, 1, -2, 3, 9), *x = kiln_narrow(base, 0, 1, 3), *y[4];
            ok(kiln_call(j, &x, 1, y, 4));
            for (int k = 0; k < 4; k += 3) expect(y[k], 3, k ? -1. : 1., k ? 2. : -2., k ? -3. : 3.);
            expect(y[1], 2, 1., -2.);
            ok(kiln_assign(y[0], kiln_scalar(7)));
            ok(kiln_assign(y[2], kiln_scalar(8)));
            expect(base, 5, 9., 1., -2., 3., 9.);
            expect(y[1], 2, 7., 7.);
            expect(y[3], 3, -1., 2., -3.);
        }
        kiln_function_free(&j);
    }
}

// A state is written with a gradient at each call, and what it held is differentiated in the next one. What lies around
// it in its memory has no part in that.
static kiln_status learns_of_before(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_mul((kiln_tensor *)user, kiln_scalar(3));
    TRY_(kiln_assign(user, in[0]));
    return kiln_requires_grad(out[0]) ? kiln_backward(out[0], NULL) : kiln_error();
}

static void state_of_part_of_its_memory(void **state)
{
    struct fixture *f = *state;
    for (int ways = 0; ways < CAPTURES * CAPTURES; ways++) {
        kiln_tensor *s = kiln_narrow(vec(f, 4, 1, 2, 3, 4), 0, 1, 2), *leaf = vec(f, 2, 5, 6), *y;
        ok(kiln_set_requires_grad(leaf, true));
        ok(kiln_state(s));
        kiln_function *in_turn[] = {kiln_jit(learns_of_before, s, KILN_JIT(.capture = captures[ways % CAPTURES])),
                                    kiln_jit(learns_of_before, s, KILN_JIT(.capture = captures[ways / CAPTURES]))};
        for (int call = 0; call < 5; call++) {
            ok(kiln_set_gradient(leaf, NULL));
            ok(kiln_call(in_turn[call % 2], &leaf, 1, &y, 1));
            expect(y, 2, call ? 15. : 6., call ? 18. : 9.);
            if (call) expect(kiln_gradient(leaf), 2, 3., 3.);
        }
        for (int i = 0; i < 2; i++) kiln_function_free(&in_turn[i]);
    }
}

static kiln_status writes_first(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    TRY_(kiln_assign(in[0], in[2]));
    out[0] = kiln_square(in[1]);
    return kiln_error();
}

// Views of one tensor learn of what is written through each other, gradients too; those of kiln_stop_gradient of it,
// and those made without gradients, of the values alone.
static void inputs_that_stopped_gradients(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < CAPTURES; i++) {
        bool is_auto = captures[i] == KILN_CAPTURE_AUTO;
        kiln_function *j = kiln_jit(writes_first, NULL, KILN_JIT(.capture = captures[i]));
        for (int call = 0; call < 4; call++) {
            kiln_tensor *base = vec(f, 4, 1, 2, 3, 4), *leaf = vec(f, 2, 5, 6), *y;
            ok(kiln_set_requires_grad(leaf, true));
            kiln_tensor *other = call == 1 ? kiln_stop_gradient(base) : base;
            if (call > 1) kiln_no_grad_begin();
            kiln_tensor *in[] = {kiln_narrow(base, 0, 1, 2), kiln_narrow(other, 0, 1, 2), leaf};
            if (call > 1) kiln_no_grad_end();
            if (call == 2) in[0] = kiln_narrow(base, 0, 1, 2);
            if (call == 3) {
                fails(kiln_call(j, in, 3, &y, 1), KILN_E_GRADIENT, "made without gradients");
                continue;
            }
            if (call == 1 && !is_auto) {
                fails(kiln_call(j, in, 3, &y, 1), KILN_E_UNSUPPORTED, "kiln_stop_gradient");
                continue;
            }
            ok(kiln_call(j, in, 3, &y, 1));
            expect(y, 2, 25., 36.);
            assert_int_equal(kiln_requires_grad(y), call == 0);
            if (call) continue;
            ok(kiln_backward(y, NULL));
            expect(kiln_gradient(leaf), 2, 10., 12.);
        }
        kiln_function_free(&j);
    }
}

// Two copies of one value by ops that are views of other layouts: whoever writes one does not write the other.
static kiln_status flattens_twice(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *turned = kiln_transpose(kiln_exp(in[0]), 0, 1);
    out[0] = kiln_flatten(turned, 0, -1);
    out[1] = kiln_flatten(turned, 0, -1);
    return kiln_error();
}

static void results_that_are_equal_copies(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < CAPTURES; i++) {
        kiln_function *j = kiln_jit(flattens_twice, NULL, KILN_JIT(.capture = captures[i]));
        for (int call = 0; call < 2; call++) {
            kiln_tensor *x = mat(f, 2, 2, 0., 0., 0., 0.), *y[2];
            ok(kiln_call(j, &x, 1, y, 2));
            ok(kiln_assign(y[0], kiln_scalar(7)));
            expect(y[0], 4, 7., 7., 7., 7.);
            expect(y[1], 4, 1., 1., 1., 1.);
        }
        kiln_function_free(&j);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FIXTURE(state_that_its_base_writes),
        FIXTURE(a_second_state_in_one_storage),
        FIXTURE(state_that_is_returned),
        FIXTURE(views_of_constants),
        FIXTURE(numbers_where_tensors_are_wanted),
        FIXTURE(numbers_where_tensors_are_wanted_have_gradients),
        FIXTURE(numbers_returned),
        FIXTURE(results_that_were_assigned),
        FIXTURE(second_derivatives_beside_an_unread_input),
        FIXTURE(results_that_were_assigned_a_leaf),
        FIXTURE(results_that_are_equal_copies),
        FIXTURE(state_of_part_of_its_memory),
        FIXTURE(inputs_that_stopped_gradients),
    };
    if (choose_device(argc, argv)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
