// Functions of files inside of captures: random numbers, weights as results, gradients that are left, writes. All is
// what it is where nothing is captured.
#include "model_fixture.h"
#include <kiln/control.h>

#define FN(name) \
    static kiln_status name(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)

enum { CALLS = 3, WAYS = 4, RESULTS = 3, WEIGHTS = 2 }; // ways: none, STRICT, AUTO, TRACE

static kiln_tensor *w, *s;

// --- functions of files

FN(draws)
{
    kiln_tensor *mask = kiln_greater(kiln_uniform(NULL, KILN_F32, KILN_SHAPE(3), 0, 1), kiln_scalar(0.5));
    out[0] = kiln_mul(kiln_mul(in[0], w), kiln_cast(mask, KILN_F32));
    out[1] = kiln_uniform(NULL, KILN_F32, KILN_SHAPE(5), 0, 1);
    out[2] = kiln_add(s, kiln_scalar(0));
    return kiln_error();
}

FN(adds_drawn)
{
    out[0] = kiln_add(in[n_in - 1], kiln_uniform(NULL, KILN_F32, KILN_SHAPE(3), 0, 1));
    return kiln_error();
}

FN(doubles)
{
    out[0] = kiln_mul(in[0], kiln_scalar(2));
    return kiln_error();
}

FN(draws_in_branch)
{
    kiln_tensor *large = kiln_greater(kiln_sum(in[1], NULL), kiln_scalar(9));
    TRY_(kiln_cond(large, adds_drawn, doubles, NULL, in + 1, 1, out, 1));
    out[0] = kiln_add(out[0], kiln_uniform(NULL, KILN_F32, KILN_SHAPE(3), 0, 1));
    return kiln_error();
}

FN(draws_in_regions)
{
    kiln_tensor *y = kiln_mul(in[0], w), *drawn;
    TRY_(kiln_cond(kiln_greater(kiln_sum(in[0], NULL), kiln_scalar(9)), adds_drawn, doubles, NULL, &y, 1, out, 1));
    TRY_(kiln_for(kiln_scalar_int(3), draws_in_branch, NULL, &y, 1, NULL, &drawn, 1));
    out[1] = drawn;
    out[2] = kiln_uniform(NULL, KILN_F32, KILN_SHAPE(3), 0, 1);
    return kiln_error();
}

FN(gives_weights)
{
    out[0] = w;
    out[1] = kiln_transpose(kiln_reshape(w, KILN_SHAPE(3, 1)), 0, 1);
    out[2] = s;
    return kiln_error();
}

FN(gives_parts)
{
    out[0] = kiln_narrow(w, 0, 1, 1);
    out[1] = in[0];
    out[2] = kiln_narrow(s, 0, 0, 2);
    return kiln_error();
}

FN(leaves)
{
    out[0] = kiln_sum(kiln_mul(kiln_square(w), in[0]), NULL);
    out[1] = kiln_mul(in[0], kiln_scalar(2));
    out[2] = kiln_add(s, kiln_scalar(1));
    return kiln_backward(out[0], NULL);
}

FN(adds_to_gradient)
{
    out[0] = kiln_sum(kiln_mul(kiln_square(w), in[0]), NULL);
    out[1] = kiln_mul(kiln_gradient(w), kiln_scalar(5));
    TRY_(kiln_backward_with(out[0], KILN_BACKWARD(.accumulate = true)));
    out[2] = kiln_mul(kiln_gradient(w), kiln_scalar(7));
    return kiln_error();
}

FN(drops_gradient)
{
    for (int i = 0; i < RESULTS; i++) out[i] = kiln_mul(in[0], kiln_gradient(w));
    return kiln_set_gradient(w, NULL);
}

FN(square)
{
    out[0] = kiln_sum(kiln_mul(kiln_square(in[0]), user), NULL);
    return kiln_error();
}

// A backward comes to what is differentiated by inside, and ends there.
FN(leaves_behind_a_slope)
{
    kiln_tensor *d, *x = kiln_square(in[0]);
    TRY_(kiln_grad(square, w, &x, 1, KILN_GRAD(.create_graph = true), &d, 1));
    for (int i = 0; i < RESULTS; i++) out[i] = kiln_mul(kiln_stop_gradient(d), kiln_scalar(i + 1));
    return kiln_backward(kiln_sum(d, NULL), NULL);
}

FN(trains)
{
    TRY_(leaves(user, in, n_in, out, n_out));
    kiln_no_grad_begin();
    kiln_sub_(w, kiln_mul(kiln_gradient(w), kiln_scalar(0.125)));
    kiln_add_(s, in[0]);
    kiln_no_grad_end();
    return kiln_error();
}

FN(writes_with_a_history)
{
    TRY_(kiln_assign(s, kiln_mul(w, in[0])));
    TRY_(kiln_mul_(in[0], w));
    for (int i = 0; i < RESULTS; i++) out[i] = kiln_add(s, kiln_scalar(i));
    return kiln_error();
}

// --- around them

FN(around)
{
    kiln_tensor *x = kiln_mul(in[0], kiln_scalar(2)), *view = kiln_narrow(x, 0, 0, 3), *y[RESULTS] = {NULL};
    kiln_tensor *before = kiln_uniform(NULL, KILN_F32, KILN_SHAPE(2), 0, 1);
    TRY_(kiln_call(user, &x, 1, y, RESULTS));
    kiln_tensor *after = kiln_uniform(NULL, KILN_F32, KILN_SHAPE(3), 0, 1);
    out[0] = kiln_add(kiln_mul(y[0], kiln_scalar(3)), kiln_sum(before, NULL));
    out[1] = kiln_mul(kiln_add(kiln_sum(y[1], NULL), view), x);
    out[2] = kiln_add(kiln_sum(y[2], NULL), after);
    return kiln_error();
}

static bool differentiated;

// The call is made in a region, as often as that runs.
FN(once_in_a_region)
{
    kiln_tensor *x = differentiated ? in[1] : kiln_stop_gradient(in[1]), *y[RESULTS] = {NULL};
    TRY_(kiln_call(user, &x, 1, y, RESULTS));
    out[0] = kiln_add(kiln_add(kiln_sum(y[0], NULL), kiln_sum(y[1], NULL)), kiln_mul(in[1], kiln_scalar(0.5)));
    return kiln_error();
}

FN(around_a_region)
{
    kiln_tensor *x = kiln_mul(in[0], kiln_scalar(2));
    TRY_(kiln_for(kiln_scalar_int(2), once_in_a_region, user, &x, 1, NULL, out, 1));
    out[1] = kiln_uniform(NULL, KILN_F32, KILN_SHAPE(3), 0, 1);
    out[2] = kiln_add(x, kiln_scalar(1));
    return kiln_error();
}

// --- all that a call leaves

struct left {
    kiln_tensor *v[CALLS * (RESULTS + 2 * WEIGHTS + 1)];
    int n;
    uint64_t offset;
};

static void note(struct left *l, kiln_tensor *t)
{
    kiln_no_grad_begin();
    l->v[l->n] = t ? kiln_zeros_like(t) : NULL;
    if (t) ok(kiln_assign(l->v[l->n], t));
    kiln_no_grad_end();
    l->n++;
}

static void note_call(struct left *l, kiln_tensor *const *y, kiln_tensor *x, kiln_tensor *const *weights)
{
    for (int i = 0; i < RESULTS; i++) note(l, y[i]);
    for (int i = 0; i < WEIGHTS; i++) note(l, weights[i]);
    for (int i = 0; i < WEIGHTS; i++) note(l, weights[i] ? kiln_gradient(weights[i]) : NULL);
    note(l, kiln_gradient(x));
}

static kiln_tensor *loss_of(kiln_tensor *const *y)
{
    kiln_tensor *loss = kiln_scalar(0);
    for (int i = 0; i < RESULTS; i++) loss = kiln_add(loss, kiln_sum(kiln_mul(y[i], kiln_scalar(i + 1)), NULL));
    return loss;
}

// The weights of a model that was just read.
static kiln_function *fresh(struct fixture *f, kiln_function *j, kiln_tensor *x, kiln_tensor **weights)
{
    ok(kiln_graph_export(j, &x, 1, RESULTS, model_file(), NULL));
    kiln_model *m = kiln_graph_import(f->dev, model_file());
    assert_non_null(m);
    unlink(model_file());
    kiln_function *g = kiln_model_function(m, "main");
    assert_non_null(g);
    weights[0] = weights[1] = NULL;
    kiln_model_weights(m, NULL, weights, WEIGHTS);
    for (int i = 0; i < WEIGHTS; i++)
        if (weights[i]) weights[i] = kiln_alias(weights[i]);
    kiln_model_free(&m);
    return g;
}

struct given {
    kiln_fn fn, around;
    bool gradient; // the parameters have one before each call
    bool outside;  // a backward outside, through the call
};

static struct left run(struct fixture *f, const struct given *c, int way)
{
    static const kiln_capture captures[WAYS] = {0, KILN_CAPTURE_STRICT, KILN_CAPTURE_AUTO, KILN_CAPTURE_TRACE};
    struct left l = {.n = 0};
    differentiated = c->outside;
    kiln_tensor *weights[WEIGHTS], *y[RESULTS];
    kiln_tensor *x = vec(f, 3, 1., 2., 3.);
    if (c->outside) x = kiln_parameter(x, "x");
    if (c->gradient) ok(kiln_set_gradient(w, vec(f, 3, 1., 1., 1.)));
    kiln_function *j = kiln_jit(c->fn, NULL, NULL), *g = fresh(f, j, kiln_mul(x, kiln_scalar(2)), weights);
    ok(kiln_set_gradient(w, NULL));
    kiln_function *o = kiln_jit(c->around, g, KILN_JIT(.capture = captures[way]));
    ok(kiln_seed(f->dev, 5));
    for (int k = 0; k < CALLS; k++) {
        for (int i = 0; i < WEIGHTS && c->gradient; i++)
            if (weights[i] && kiln_requires_grad(weights[i]) && !kiln_gradient(weights[i]))
                ok(kiln_set_gradient(weights[i], vec(f, 3, 1., 2., k)));
        ok(way ? kiln_call(o, &x, 1, y, RESULTS) : c->around(g, &x, 1, y, RESULTS));
        if (c->outside) ok(kiln_backward(loss_of(y), NULL));
        note_call(&l, y, x, weights);
        if (c->outside) ok(kiln_set_gradient(x, NULL));
    }
    ok(kiln_rng_state(f->dev, NULL, &l.offset));
    kiln_function_free(&o);
    kiln_function_free(&g);
    kiln_function_free(&j);
    return l;
}

static void compare(struct fixture *f, const struct given *c)
{
    struct left want = run(f, c, 0);
    for (int way = 1; way < WAYS; way++) {
        struct left got = run(f, c, way);
        assert_int_equal(got.offset, want.offset);
        assert_int_equal(got.n, want.n);
        for (int i = 0; i < want.n; i++) {
            if (!got.v[i] != !want.v[i]) print_error("way %d, thing %d is%s there\n", way, i, got.v[i] ? "" : " not");
            assert_true(!got.v[i] == !want.v[i]);
            if (want.v[i] && !equal(got.v[i], want.v[i])) {
                print_error("way %d, thing %d of %d:\n", way, i, want.n / CALLS);
                kiln_print(got.v[i], stderr);
                kiln_print(want.v[i], stderr);
                fail();
            }
        }
    }
}

static void make_weights(struct fixture *f)
{
    kiln_set_device(f->dev);
    w = kiln_parameter(vec(f, 3, 2., 3., 4.), "w");
    s = vec(f, 3, 7., 8., 9.);
    ok(kiln_state(s));
}

// --- tests

static void random_numbers(void **state)
{
    struct fixture *f = *state;
    make_weights(f);
    compare(f, &(struct given){draws, around});
    compare(f, &(struct given){draws, around, .outside = true});
    compare(f, &(struct given){draws_in_regions, around});
    compare(f, &(struct given){draws_in_regions, around, .outside = true});
    compare(f, &(struct given){draws_in_regions, around_a_region});
}

static void weights_as_results(void **state)
{
    struct fixture *f = *state;
    make_weights(f);
    compare(f, &(struct given){gives_weights, around});
    compare(f, &(struct given){gives_weights, around, .outside = true});
    compare(f, &(struct given){gives_weights, around_a_region, .outside = true});
    compare(f, &(struct given){gives_parts, around, .outside = true});
}

static void gradients_that_are_left(void **state)
{
    struct fixture *f = *state;
    make_weights(f);
    compare(f, &(struct given){leaves, around});
    compare(f, &(struct given){leaves, around_a_region});
    compare(f, &(struct given){adds_to_gradient, around, .gradient = true});
    compare(f, &(struct given){drops_gradient, around, .gradient = true});
    compare(f, &(struct given){leaves_behind_a_slope, around});
    compare(f, &(struct given){trains, around});
    compare(f, &(struct given){trains, around_a_region});
}

static void writes_with_gradients(void **state)
{
    struct fixture *f = *state;
    make_weights(f);
    compare(f, &(struct given){writes_with_a_history, around, .outside = true});
}

FN(adds_only)
{
    for (int i = 0; i < RESULTS; i++) out[i] = kiln_sum(kiln_mul(w, in[0]), NULL);
    return kiln_backward_with(out[0], KILN_BACKWARD(.accumulate = true));
}

// What was added where there was no gradient does not add to one.
static void a_gradient_that_was_not_there(void **state)
{
    struct fixture *f = *state;
    make_weights(f);
    for (int way = 0; way < WAYS; way++) {
        kiln_tensor *x = vec(f, 3, 1., 2., 3.), *weights[WEIGHTS], *y[RESULTS];
        kiln_function *j = kiln_jit(adds_only, NULL, NULL), *g = fresh(f, j, x, weights);
        kiln_function *o = kiln_jit(around, g, KILN_JIT(.capture = (kiln_capture)(way % 3)));
        for (int k = 0; k < 4; k++) {
            kiln_status status = way ? kiln_call(o, &x, 1, y, RESULTS) : around(g, &x, 1, y, RESULTS);
            if (k % 2)
                fails(status, KILN_E_GRADIENT, "was added when w had no gradient, and adds to it or reads it");
            else
                ok(status);
            if (k % 2) ok(kiln_set_gradient(weights[0], NULL));
        }
        kiln_function_free(&o);
        kiln_function_free(&g);
        kiln_function_free(&j);
    }
}

FN(around_a_constant)
{
    kiln_tensor *x = kiln_from_data(NULL, KILN_F32, KILN_SHAPE(3), (float[]){4, 4, 4});
    TRY_(kiln_call(user, &x, 1, out, RESULTS));
    out[0] = kiln_add(out[0], in[0]);
    return kiln_error();
}

// It would be no region of the capture, and have no stream of its own.
static void regions_that_constants_choose(void **state)
{
    struct fixture *f = *state;
    make_weights(f);
    kiln_tensor *x = vec(f, 3, 1., 2., 3.), *weights[WEIGHTS], *y[RESULTS];
    kiln_function *j = kiln_jit(draws_in_regions, NULL, NULL), *g = fresh(f, j, x, weights);
    kiln_function *o = kiln_jit(around_a_constant, g, NULL);
    fails(kiln_call(o, &x, 1, y, RESULTS), KILN_E_UNSUPPORTED, "inside of a capture chose a region that draws");
    ok(around_a_constant(g, &x, 1, y, RESULTS));
    kiln_function_free(&o);
    kiln_function_free(&g);
    kiln_function_free(&j);
}

int main(int argc, char **argv)
{
    if (choose_device(argc, argv)) return 77;
    const struct CMUnitTest tests[] = {
        FIXTURE(random_numbers),
        FIXTURE(weights_as_results),
        FIXTURE(gradients_that_are_left),
        FIXTURE(writes_with_gradients),
        FIXTURE(a_gradient_that_was_not_there),
        FIXTURE(regions_that_constants_choose),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
