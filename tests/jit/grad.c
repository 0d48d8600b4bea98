// Captured functions and gradients: from outside, from inside, of higher order, with memory that is written.
#include "jit_fixture.h"

static kiln_status mlp(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *const *w = user;
    kiln_tensor *h = kiln_tanh(kiln_add(kiln_matmul(in[0], w[0]), w[1]));
    out[0] = kiln_mean(kiln_square(kiln_sub(kiln_matmul(h, w[2]), in[1])), NULL);
    if (n_out > 1) out[1] = h;
    return kiln_error();
}

struct net {
    kiln_tensor *w[3];
};

static struct net make_net(struct fixture *f)
{
    struct net n;
    n.w[0] = kiln_parameter(mat(f, 2, 3, .1, -.2, .3, .4, .5, -.6), "a");
    n.w[1] = kiln_parameter(vec(f, 3, .1, .2, .3), "b");
    n.w[2] = kiln_parameter(mat(f, 3, 1, .7, -.8, .9), "c");
    return n;
}

static void gradients_of_calls_are_those_of_eager(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *in[] = {mat(f, 2, 2, 1., 2., 3., 4.), mat(f, 2, 1, .5, -.5)};
    struct net a = make_net(f), b = make_net(f);
    kiln_function *j = kiln_jit(mlp, a.w, NULL);
    for (int i = 0; i < 3; i++) {
        kiln_tensor *x = NULL, *y = NULL;
        ok(kiln_call(j, in, 2, &x, 1));
        ok(mlp(b.w, in, 2, &y, 1));
        same(x, y);
        assert_true(kiln_requires_grad(x));
        ok(kiln_backward(kiln_mul(x, kiln_scalar(2)), NULL));
        ok(kiln_backward(kiln_mul(y, kiln_scalar(2)), NULL));
        kiln_no_grad_begin();
        for (int k = 0; k < 3; k++) {
            same(kiln_gradient(a.w[k]), kiln_gradient(b.w[k]));
            kiln_sub_(a.w[k], kiln_mul(kiln_gradient(a.w[k]), kiln_scalar(.1)));
            kiln_sub_(b.w[k], kiln_mul(kiln_gradient(b.w[k]), kiln_scalar(.1)));
        }
        kiln_no_grad_end();
        fails(kiln_backward(x, NULL), KILN_E_GRADIENT, "used up by an earlier backward");
    }
    assert_int_equal(stats_of(j).captures, 1);
    kiln_function_free(&j);
}

static kiln_status many(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *t = kiln_exp(in[0]);
    for (size_t i = 0; i < n_out; i++) out[i] = i == 3 ? in[1] : kiln_mul(t, kiln_pow(in[1], kiln_scalar((double)i)));
    return kiln_error();
}

static kiln_status sum_many(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *t[7], *sum = NULL;
    TRY_(user ? kiln_call(user, in, 2, t, 7) : many(NULL, in, 2, t, 7));
    for (int i = 1; i < 7; i += 2) sum = sum ? kiln_add(sum, kiln_mul(t[i], kiln_scalar(i))) : t[i];
    out[0] = kiln_sum(sum, NULL);
    return kiln_error();
}

static void many_outputs_and_inputs_have_gradients(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *in[] = {vec(f, 2, .5, -.5), vec(f, 2, 2, 3)}, *a[2], *b[2];
    kiln_function *j = kiln_jit(many, NULL, NULL);
    for (int i = 0; i < 2; i++) {
        ok(kiln_grad(sum_many, j, in, 2, KILN_GRAD(.wrt = KILN_ARGS(0, 1)), a, 2));
        ok(kiln_grad(sum_many, NULL, in, 2, KILN_GRAD(.wrt = KILN_ARGS(0, 1)), b, 2));
        same(a[0], b[0]);
        same(a[1], b[1]);
        ok(kiln_grad(sum_many, j, in, 2, KILN_GRAD(.wrt = KILN_ARGS(1)), a, 1));
        same(a[0], b[1]);
    }
    // Once a set of inputs that require gradients.
    assert_int_equal(stats_of(j).captures, 2);
    kiln_function_free(&j);
}

static kiln_status cube(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_sum(kiln_mul(kiln_mul(in[0], in[0]), kiln_mul(in[0], in[1])), NULL);
    return kiln_error();
}

static kiln_status call_it(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    return kiln_call(user, in, n_in, out, n_out);
}

static kiln_status gradient_of_it(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *g = NULL;
    TRY_(kiln_grad(user ? call_it : cube, user, in, n_in, NULL, &g, 1));
    out[0] = kiln_sum(g, NULL);
    return kiln_error();
}

static void gradients_have_gradients(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *in[] = {vec(f, 3, 1, 2, 3), vec(f, 3, .5, 2, -1)}, *a[2], *b[2];
    kiln_function *j = kiln_jit(cube, NULL, NULL);
    ok(kiln_grad(gradient_of_it, j, in, 2, KILN_GRAD(.wrt = KILN_ARGS(0, 1)), a, 2));
    ok(kiln_grad(gradient_of_it, NULL, in, 2, KILN_GRAD(.wrt = KILN_ARGS(0, 1)), b, 2));
    expect(b[0], 3, 3., 24., -18.);
    same(a[0], b[0]);
    same(a[1], b[1]);
    kiln_function_free(&j);
    // The same, all of it captured.
    j = kiln_jit(gradient_of_it, NULL, NULL);
    ok(kiln_grad(call_it, j, in, 2, KILN_GRAD(.wrt = KILN_ARGS(0, 1)), a, 2));
    same(a[0], b[0]);
    same(a[1], b[1]);
    kiln_function_free(&j);
}

// D8, D9 and D11 of the documents, D12, with the gradient inside the captured function.

struct inside {
    kiln_fn fn;
    const kiln_grad_opts *o;
};

static kiln_status take_gradient(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct inside *i = user;
    return kiln_grad(i->fn, NULL, in, n_in, i->o, out, n_out);
}

static kiln_status product(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_mul(kiln_mul(in[0], in[1]), in[2]);
    return kiln_error();
}

static kiln_status with_aux(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_mul(kiln_mul(in[0], kiln_exp(in[1])), kiln_pow(in[2], kiln_scalar(2)));
    out[1] = in[2];
    return kiln_error();
}

static kiln_status sum3(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_add(kiln_add(in[0], in[1]), in[2]);
    return kiln_error();
}

static kiln_status add_in_place(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    TRY_(kiln_add_(in[0], in[1]));
    out[0] = in[0];
    return kiln_error();
}

static void gradients_are_taken_inside(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *out[3];
    for (int capture = KILN_CAPTURE_STRICT; capture <= KILN_CAPTURE_TRACE; capture += 2)
        for (int mode = KILN_MODE_EAGER; mode <= KILN_MODE_GRAPH; mode++) {
            ok(kiln_set_mode((kiln_mode)mode));
            const kiln_jit_opts *o = KILN_JIT(.capture = (kiln_capture)capture);
            kiln_tensor *d8[] = {vec(f, 2, 1, 2), vec(f, 2, -2, 3), vec(f, 2, 0, 3)};
            struct inside i = {product, KILN_GRAD(.wrt = KILN_ARGS(1, 2))};
            kiln_function *j = kiln_jit(take_gradient, &i, o);
            for (int k = 0; k < 2; k++) {
                ok(kiln_call(j, d8, 3, out, 2));
                expect(out[0], 2, 0., 6.);
                expect(out[1], 2, -2., 6.);
            }
            kiln_function_free(&j);
            kiln_tensor *d9[] = {vec(f, 2, 3, 3), vec(f, 2, 0, 0), vec(f, 2, 5, 5)};
            i = (struct inside){with_aux, KILN_GRAD(.wrt = KILN_ARGS(1, 2), .outputs = 2, .has_aux = true)};
            j = kiln_jit(take_gradient, &i, o);
            ok(kiln_call(j, d9, 3, out, 3));
            expect(out[0], 2, 75., 75.);
            expect(out[1], 2, 30., 30.);
            expect(out[2], 2, 5., 5.);
            kiln_function_free(&j);
            const int64_t one = 1, three = 3;
            kiln_tensor *d11[] = {kiln_from_data(f->dev, KILN_I64, KILN_SHAPE(1), &one), kiln_scalar_int(2),
                                  kiln_from_data(f->dev, KILN_I64, KILN_SHAPE(1), &three)};
            i = (struct inside){sum3, KILN_GRAD(.wrt = KILN_ARGS(0, 2))};
            j = kiln_jit(take_gradient, &i, o);
            ok(kiln_call(j, d11, 3, out, 2));
            for (int k = 0; k < 2; k++) {
                assert_int_equal(kiln_tensor_dtype(out[k]), KILN_I64);
                expect(out[k], 1, 1.);
            }
            kiln_function_free(&j);
            const int32_t two = 2, more = 3;
            kiln_tensor *d12[] = {kiln_from_data(f->dev, KILN_I32, KILN_SHAPE0, &two),
                                  kiln_from_data(f->dev, KILN_I32, KILN_SHAPE0, &more)};
            i = (struct inside){add_in_place, NULL};
            j = kiln_jit(take_gradient, &i, o);
            ok(kiln_call(j, d12, 2, out, 1));
            expect(out[0], 1, 1.);
            assert_int_equal(kiln_item_int(d12[0]), 5);
            kiln_function_free(&j);
        }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

// Memory

static kiln_status write_and_square(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *x = kiln_mul(in[0], kiln_scalar(3)), *view = kiln_narrow(x, 0, 0, 1);
    kiln_tensor *before = kiln_square(x);
    TRY_(kiln_mul_(view, in[1]));
    out[0] = kiln_sum(kiln_mul(kiln_square(x), before), NULL);
    return kiln_error();
}

static void writes_inside_have_gradients(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *in[] = {vec(f, 2, 1, 2), vec(f, 1, 5)}, *a[2];
    kiln_function *j = kiln_jit(write_and_square, NULL, NULL);
    // Eager mode refuses: the old value of x is gone when its gradient is taken. A graph still has it. The function is
    // 81 x0^4 s^2 + 81 x1^4.
    fails(kiln_grad(write_and_square, NULL, in, 2, NULL, a, 1), KILN_E_GRADIENT, "which mul_ has changed since");
    ok(kiln_grad(call_it, j, in, 2, KILN_GRAD(.wrt = KILN_ARGS(0, 1)), a, 2));
    expect(a[0], 2, 8100., 2592.);
    expect(a[1], 1, 810.);
    kiln_function_free(&j);
}

static kiln_status scale_in_place(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    TRY_(kiln_mul_(in[0], in[1]));
    return kiln_error();
}

static kiln_status use_scaled(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *x = kiln_mul(in[0], kiln_scalar(2)), *view = kiln_narrow(x, 0, 1, 1);
    kiln_tensor *args[] = {x, in[1]};
    TRY_(user ? kiln_call(user, args, 2, NULL, 0) : scale_in_place(NULL, args, 2, NULL, 0));
    out[0] = kiln_sum(kiln_add(kiln_square(x), view), NULL);
    return kiln_error();
}

static void a_written_input_has_a_new_history(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *in[] = {vec(f, 2, 1, 2), vec(f, 2, 3, 4)}, *a[2], *b[2];
    kiln_function *j = kiln_jit(scale_in_place, NULL, NULL);
    for (int i = 0; i < 2; i++) {
        ok(kiln_grad(use_scaled, j, in, 2, KILN_GRAD(.wrt = KILN_ARGS(0, 1)), a, 2));
        ok(kiln_grad(use_scaled, NULL, in, 2, KILN_GRAD(.wrt = KILN_ARGS(0, 1)), b, 2));
        same(a[0], b[0]);
        same(a[1], b[1]);
    }
    assert_int_equal(stats_of(j).captures, 1);
    kiln_function_free(&j);
}

static void later_writes_are_noticed(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *in[] = {vec(f, 3, 1, 2, 3), vec(f, 3, .5, 2, -1)}, *out = NULL;
    ok(kiln_set_requires_grad(in[0], true));
    kiln_function *j = kiln_jit(cube, NULL, NULL);
    ok(kiln_call(j, in, 2, &out, 1));
    ok(kiln_mul_(in[1], kiln_scalar(2)));
    fails(kiln_backward(out, NULL), KILN_E_GRADIENT, "which mul_ has changed since");
    kiln_function_free(&j);
}

static kiln_status step_on(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    TRY_(kiln_add_(user, in[0]));
    return kiln_error();
}

static void leaves_are_not_written_under_gradients(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = vec(f, 2, 1, 2), *w = kiln_parameter(vec(f, 2, 1, 1), "w");
    kiln_function *j = kiln_jit(step_on, w, NULL);
    fails(kiln_call(j, &x, 1, NULL, 0), KILN_E_GRADIENT, "w is a leaf that requires a gradient");
    kiln_no_grad_begin();
    ok(kiln_call(j, &x, 1, NULL, 0));
    kiln_no_grad_end();
    expect(w, 2, 2., 3.);
    kiln_function_free(&j);
}

static kiln_status drop(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_sum(kiln_dropout(in[0], .5), NULL);
    return kiln_error();
}

static void backward_draws_the_numbers_of_forward(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = kiln_ones(f->dev, KILN_F32, KILN_SHAPE(20)), *a = NULL, *b = NULL;
    kiln_function *j = kiln_jit(drop, NULL, NULL);
    for (int i = 0; i < 2; i++) {
        ok(kiln_seed(f->dev, 3));
        ok(kiln_grad(call_it, j, &x, 1, NULL, &a, 1));
        ok(kiln_seed(f->dev, 3));
        ok(kiln_grad(drop, NULL, &x, 1, NULL, &b, 1));
        same(a, b);
    }
    kiln_function_free(&j);
}

static kiln_status times(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_sum(kiln_mul(kiln_mul(in[0], in[0]), in[1]), NULL);
    return kiln_error();
}

static void mutable_numbers_are_differentiable(void **state)
{
    struct fixture *f = *state;
    kiln_function *j = kiln_jit(times, NULL, NULL);
    for (int i = 1; i < 4; i++) {
        kiln_tensor *in[] = {vec(f, 2, 1, 2), kiln_mutable(i)}, *g[2];
        ok(kiln_grad(call_it, j, in, 2, KILN_GRAD(.wrt = KILN_ARGS(0, 1)), g, 2));
        expect(g[0], 2, 2. * i, 4. * i);
        expect(g[1], 1, 5.);
    }
    assert_int_equal(stats_of(j).captures, 1);
    kiln_function_free(&j);
}

static kiln_status fail_halfway(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    TRY_(kiln_backward(kiln_sum(kiln_mul(user, in[0]), NULL), NULL));
    return kiln_matmul(in[0], kiln_reshape(in[0], KILN_SHAPE(2, 1))) && kiln_add(in[0], NULL) ? KILN_OK : kiln_error();
}

static void a_failed_capture_leaves_nothing(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = vec(f, 2, 1, 2), *w = kiln_parameter(vec(f, 2, 3, 4), "w");
    ok(kiln_backward(kiln_sum(kiln_square(w), NULL), NULL));
    kiln_function *j = kiln_jit(fail_halfway, w, NULL);
    fails(kiln_call(j, &x, 1, NULL, 0), KILN_E_ARGUMENT, "add: ");
    expect(kiln_gradient(w), 2, 6., 8.);
    assert_false(kiln_is_capturing());
    assert_int_equal(stats_of(j).captures, 0);
    kiln_function_free(&j);
}

static kiln_status stopped(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_sum(kiln_mul(kiln_mul(in[0], kiln_stop_gradient(user)), user), NULL);
    return kiln_error();
}

static void stopped_gradients_stay_stopped(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = vec(f, 2, 1, 2), *w = kiln_parameter(vec(f, 2, 3, 4), "w"), *y = NULL;
    kiln_function *j = kiln_jit(stopped, w, NULL);
    ok(kiln_call(j, &x, 1, &y, 1));
    ok(kiln_backward(y, NULL));
    expect(kiln_gradient(w), 2, 3., 8.);
    kiln_function_free(&j);
}

static kiln_status no_rule(void *user, kiln_tensor *const *in, kiln_tensor *const *out, kiln_tensor *const *dout,
                           kiln_tensor **din)
{
    return KILN_E_GRADIENT;
}

static kiln_status hard(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_sum(kiln_sinh(kiln_mul(in[0], in[0])), NULL);
    return kiln_error();
}

static void a_missing_rule_is_missed_by_backward(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = kiln_parameter(vec(f, 1, 0), "x"), *y = NULL;
    ok(kiln_register_bprop("sinh", no_rule, NULL));
    kiln_function *j = kiln_jit(hard, NULL, NULL);
    for (int i = 0; i < 2; i++) {
        ok(kiln_call(j, &x, 1, &y, 1));
        expect(y, 1, 0.);
        fails(kiln_backward(y, NULL), KILN_E_GRADIENT, "the rule of sinh failed");
    }
    ok(kiln_register_bprop("sinh", NULL, NULL));
    kiln_function_free(&j);
}

static kiln_status accumulate(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    return kiln_backward_with(kiln_sum(kiln_mul(user, in[0]), NULL), KILN_BACKWARD(.accumulate = true));
}

static void gradients_accumulate(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = vec(f, 2, 1, 2), *w = kiln_parameter(vec(f, 2, 1, 1), "w");
    kiln_function *j = kiln_jit(accumulate, w, NULL);
    for (int i = 1; i < 4; i++) {
        ok(kiln_call(j, &x, 1, NULL, 0));
        expect(kiln_gradient(w), 2, 1. * i, 2. * i);
    }
    ok(kiln_set_gradient(w, NULL));
    ok(kiln_call(j, &x, 1, NULL, 0));
    expect(kiln_gradient(w), 2, 1., 2.);
    assert_int_equal(stats_of(j).captures, 2);
    kiln_function_free(&j);
}

// The gradient of a maximum looks for the elements that equal it. What they were made of is rounded to halves once,
// when it is kept, and again when they are computed anew.
static kiln_status peak_of_halves(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const int64_t last = -1;
    const kiln_reduce_opts row = {.size = sizeof row, .axes = {1, &last}, .keepdims = true};
    kiln_tensor *x = in[0], *scale = in[1];
    kiln_tensor *sum = kiln_sum(kiln_abs(kiln_tanh(kiln_mul(x, scale))), &row);
    kiln_tensor *y = kiln_add(kiln_mul(x, sum), kiln_logsumexp(x, NULL));
    out[0] = kiln_add(kiln_mul(y, kiln_min(kiln_tanh(kiln_mul(y, scale)), &row)), kiln_logsumexp(y, NULL));
    return kiln_error();
}

static kiln_tensor *gradient_of_peak(kiln_function *j, kiln_tensor *x, kiln_tensor *scale)
{
    kiln_tensor *leaf = kiln_neg(kiln_neg(x)), *in[] = {leaf, scale}, *out = NULL;
    ok(kiln_set_requires_grad(leaf, true));
    ok(j ? kiln_call(j, in, 2, &out, 1) : peak_of_halves(NULL, in, 2, &out, 1));
    ok(kiln_backward(kiln_sum(out, NULL), NULL));
    return kiln_gradient(leaf);
}

static void extrema_find_what_was_made_of_halves(void **state)
{
    static const double v[] = {.3, .7, -.2, 1.5, 2, -1};
    static const kiln_dtype halves[] = {KILN_F16, KILN_BF16}, wides[] = {KILN_F16, KILN_BF16, KILN_F32, KILN_F64};
    struct fixture *f = *state;
    for (int h = 0; h < 2; h++)
        for (int w = 0; w < 4; w++) {
            kiln_function *j = kiln_jit(peak_of_halves, NULL, NULL);
            kiln_tensor *x = kiln_cast(vec_(f, 6, v), halves[h]), *scale = kiln_full(f->dev, wides[w], 0, NULL, -.5);
            near(gradient_of_peak(j, x, scale), gradient_of_peak(NULL, x, scale), h ? 0x1p-4 : 0x1p-7);
            kiln_function_free(&j);
        }
}

// A number of the host has no dtype of its own; memory that it is assigned to has.
static kiln_status assign_a_number(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_assign(in[0], in[1]);
    out[0] = kiln_mul(in[0], kiln_exp(in[2]));
    return kiln_error();
}

static kiln_status assign_what_comes_of_a_number(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                                 size_t n_out)
{
    kiln_assign(in[0], kiln_log_sigmoid(in[1]));
    out[0] = in[0];
    return kiln_error();
}

static void numbers_are_assigned_to_nothing(void **state)
{
    struct fixture *f = *state;
    for (int64_t n = 0; n < 3; n++) {
        kiln_function *j = kiln_jit(assign_what_comes_of_a_number, NULL, NULL);
        for (int t = 0; t < 3; t++) {
            kiln_tensor *x = kiln_zeros(f->dev, KILN_F32, KILN_SHAPE(n)), *in[] = {x, kiln_scalar(t)}, *y, *want;
            ok(kiln_call(j, in, 2, &y, 1));
            ok(assign_what_comes_of_a_number(NULL, in, 2, &want, 1));
            same(y, want);
        }
        kiln_function_free(&j);
    }
}

static void numbers_are_assigned(void **state)
{
    static const kiln_dtype dtypes[] = {KILN_F64, KILN_F32, KILN_I64};
    struct fixture *f = *state;
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (int rank = 0; rank < 2; rank++) {
            kiln_function *j = kiln_jit(assign_a_number, NULL, NULL);
            for (int t = 1; t < 4; t++) {
                kiln_tensor *x = kiln_full(f->dev, dtypes[d], (size_t)rank, (const int64_t[]){1}, 9), *y;
                kiln_tensor *in[] = {x, dtypes[d] == KILN_I64 ? kiln_scalar_int(t) : kiln_scalar(t), vec(f, 1, 0)};
                ok(kiln_call(j, in, 3, &y, 1));
                expect(y, 1, 1. * t);
                expect(x, 1, 1. * t);
                assert_int_equal(kiln_tensor_dtype(y), dtypes[d] == KILN_F64 ? KILN_F64 : KILN_F32);
            }
            kiln_function_free(&j);
        }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FIXTURE(gradients_of_calls_are_those_of_eager),
        FIXTURE(many_outputs_and_inputs_have_gradients),
        FIXTURE(gradients_have_gradients),
        FIXTURE(gradients_are_taken_inside),
        FIXTURE(writes_inside_have_gradients),
        FIXTURE(a_written_input_has_a_new_history),
        FIXTURE(later_writes_are_noticed),
        FIXTURE(leaves_are_not_written_under_gradients),
        FIXTURE(backward_draws_the_numbers_of_forward),
        FIXTURE(a_failed_capture_leaves_nothing),
        FIXTURE(stopped_gradients_stay_stopped),
        FIXTURE(a_missing_rule_is_missed_by_backward),
        FIXTURE(gradients_accumulate),
        FIXTURE(mutable_numbers_are_differentiable),
        FIXTURE(extrema_find_what_was_made_of_halves),
        FIXTURE(numbers_are_assigned),
        FIXTURE(numbers_are_assigned_to_nothing),
    };
    if (choose_device(argc, argv)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
