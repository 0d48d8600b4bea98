// Who owns a handle: scopes, keep, own, free; functions of the user's; cells.
#include "lifetime.h"

#include <pthread.h>

static kiln_tensor *ones(void)
{
    return kiln_ones(dev, KILN_F32, KILN_SHAPE(4));
}

static double first(kiln_tensor *t)
{
    float v[4] = {0};
    assert_int_equal(kiln_read(t, v, sizeof v), KILN_OK);
    return (double)v[0];
}

void a_scope_frees_what_was_made_in_it(void **state)
{
    uint64_t before = stats_now().tensors;
    kiln_tensor *outside = ones();
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *y = kiln_add(kiln_mul(ones(), outside), kiln_exp(ones()));
    assert_non_null(y);
    assert_int_equal(stats_now().tensors, before + 6);
    kiln_scope_end(&scope);
    assert_null(scope);
    assert_int_equal(stats_now().tensors, before + 1);
    assert_true(first(outside) == 1);
    kiln_free(&outside);
    kiln_scope_end(&scope);
    kiln_scope_end(NULL);
    EXPECT_NO_ERROR();
}

void keep_moves_one_scope_out(void **state)
{
    uint64_t before = stats_now().tensors;
    kiln_scope *outer = kiln_scope_begin(), *middle = kiln_scope_begin(), *inner = kiln_scope_begin();
    kiln_tensor *once = kiln_keep(ones()), *twice = kiln_keep(kiln_keep(ones())), *out = ones();
    assert_ptr_equal(kiln_keep(kiln_keep(kiln_keep(out))), out);
    // In nobody's scope, keep leaves it the caller's.
    assert_ptr_equal(kiln_keep(out), out);
    kiln_scope_end(&inner);
    assert_int_equal(stats_now().tensors, before + 3);
    assert_true(first(once) == 1);
    kiln_scope_end(&middle);
    assert_int_equal(stats_now().tensors, before + 2);
    assert_true(first(twice) == 1);
    kiln_scope_end(&outer);
    assert_int_equal(stats_now().tensors, before + 1);
    assert_true(first(out) == 1);
    kiln_free(&out);
}

void own_takes_out_of_all_scopes(void **state)
{
    uint64_t before = stats_now().tensors;
    kiln_scope *outer = kiln_scope_begin(), *inner = kiln_scope_begin();
    kiln_tensor *mine = ones();
    ones();
    assert_ptr_equal(kiln_own(mine), mine);
    kiln_scope_end(&inner);
    kiln_scope_end(&outer);
    assert_int_equal(stats_now().tensors, before + 1);
    assert_true(first(mine) == 1);
    kiln_free(&mine);
    assert_null(mine);
}

static uint64_t used_B(void)
{
    return stats_now().heap_used_B;
}

// The memory of what is replaced serves what comes next; that of a chain with names does not.
void replace_frees_what_it_replaces(void **state)
{
    enum { N = 1 << 16 };
    uint64_t before = stats_now().tensors, free_B = used_B();
    kiln_tensor *h = kiln_ones(dev, KILN_F32, KILN_SHAPE(N));
    uint64_t one_B = used_B() - free_B;
    for (int i = 0; i < 8; i++) {
        assert_int_equal(kiln_replace(&h, kiln_add(h, 1)), KILN_OK);
        assert_int_equal(stats_now().tensors, before + 1);
        assert_int_equal(used_B() - free_B, one_B);
    }
    kiln_replace(&h, kiln_max(h, NULL));
    assert_true(kiln_item(h) == 9);
    kiln_free(&h);
}

void replaced_handles_hand_on_their_scope(void **state)
{
    uint64_t before = stats_now().tensors;
    kiln_scope *outer = kiln_scope_begin();
    kiln_tensor *in_scope = ones(), *mine = kiln_own(ones()), *empty = NULL;
    for (int i = 0; i < 3; i++) {
        kiln_scope *turn = kiln_scope_begin();
        kiln_replace(&in_scope, kiln_add(kiln_mul(in_scope, ones()), ones()));
        kiln_replace(&mine, kiln_add(mine, ones()));
        kiln_scope_end(&turn);
        assert_true(first(in_scope) == 2 + i && first(mine) == 2 + i);
    }
    // What lives longer than the old handle keeps its owner, and so does what comes to an empty place.
    kiln_scope *turn = kiln_scope_begin();
    kiln_tensor *short_lived = ones(), *made = ones();
    kiln_replace(&short_lived, in_scope);
    kiln_replace(&empty, made);
    assert_ptr_equal(short_lived, in_scope);
    assert_ptr_equal(empty, made);
    kiln_scope_end(&turn);
    assert_int_equal(stats_now().tensors, before + 2);
    assert_true(first(in_scope) == 4);
    kiln_scope_end(&outer);
    assert_int_equal(stats_now().tensors, before + 1);
    assert_true(first(mine) == 4);
    kiln_free(&mine);
}

void replace_without_a_value_keeps_the_old_one(void **state)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *h = ones(), *gone = ones(), *stale = gone;
    kiln_replace(&h, kiln_add(h, kiln_ones(dev, KILN_F32, KILN_SHAPE(3))));
    expect_error(KILN_E_SHAPE, "add: ", "broadcast");
    assert_int_equal(kiln_replace(&h, NULL), KILN_E_ARGUMENT);
    expect_error(KILN_E_ARGUMENT, "replace: ", "next is NULL");
    assert_int_equal(kiln_replace(&h, h), KILN_OK);
    kiln_free(&gone);
    assert_int_equal(kiln_replace(&h, stale), KILN_E_HANDLE);
    expect_error(KILN_E_HANDLE, "replace: ", "next is a handle that was freed");
    assert_int_equal(kiln_replace(&stale, h), KILN_E_HANDLE);
    expect_error(KILN_E_HANDLE, "replace: ", "freed already");
    assert_int_equal(kiln_replace(NULL, h), KILN_E_ARGUMENT);
    expect_error(KILN_E_ARGUMENT, "replace: ", "t is NULL");
    assert_true(first(h) == 1);
    kiln_scope_end(&scope);
}

// What gradients need of a handle outlives it.
void a_replaced_handle_leaves_its_gradient(void **state)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *w = kiln_full(dev, KILN_F32, KILN_SHAPE(4), 3);
    kiln_set_requires_grad(w, true);
    kiln_tensor *h = kiln_mul(w, w);
    kiln_replace(&h, kiln_mul(h, h));
    kiln_replace(&h, kiln_sum(h, NULL));
    assert_int_equal(kiln_backward(h, NULL), KILN_OK);
    assert_true(first(kiln_gradient(w)) == 4 * 27);
    kiln_scope_end(&scope);
}

static kiln_status replaces(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    (void)n_in, (void)n_out;
    kiln_tensor *h = kiln_mul(in[0], in[1]);
    for (int i = 0; i < 3; i++) {
        kiln_scope *turn = kiln_scope_begin();
        kiln_replace(&h, kiln_add(kiln_mul(h, in[1]), kiln_scalar(1)));
        if (user) kiln_replace(&h, kiln_add(h, kiln_ones(dev, KILN_F32, KILN_SHAPE(3))));
        kiln_scope_end(&turn);
    }
    out[0] = h;
    return kiln_error();
}

static kiln_status calls(void *function, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    return kiln_call(function, in, n_in, out, n_out);
}

// h = x y^4 + y^2 + y + 1, with its gradients, of which each turn's values are needed; and what fails in a turn.
void captures_replace_as_eager_runs_do(void **state)
{
    static const kiln_capture captures[] = {KILN_CAPTURE_STRICT, KILN_CAPTURE_AUTO, KILN_CAPTURE_TRACE};
    for (int c = 0; c < 4; c++) {
        kiln_scope *scope = kiln_scope_begin();
        kiln_tensor *in[] = {kiln_full(dev, KILN_F32, KILN_SHAPE(4), 3), kiln_full(dev, KILN_F32, KILN_SHAPE(4), 2)};
        kiln_tensor *out = NULL, *d[2] = {NULL};
        kiln_jit_opts opts = {.size = sizeof opts, .capture = c < 3 ? captures[c] : KILN_CAPTURE_STRICT};
        kiln_function *f = c < 3 ? kiln_jit(replaces, NULL, &opts) : NULL;
        for (int again = 0; again < 2; again++) {
            kiln_status status = f ? kiln_call(f, in, 2, &out, 1) : replaces(NULL, in, 2, &out, 1);
            assert_int_equal(status, KILN_OK);
            assert_true(first(out) == 3 * 16 + 4 + 2 + 1);
            assert_int_equal(kiln_grad(f ? calls : replaces, f, in, 2, KILN_GRAD(.wrt = KILN_ARGS(0, 1)), d, 2),
                             KILN_OK);
            assert_true(first(d[0]) == 16 && first(d[1]) == 3 * 4 * 8 + 2 * 2 + 1);
        }
        kiln_function_free(&f);
        f = c < 3 ? kiln_jit(replaces, &opts, &opts) : NULL; // the turn that fails
        kiln_status status = f ? kiln_call(f, in, 2, &out, 1) : replaces(&opts, in, 2, &out, 1);
        assert_int_equal(status, KILN_E_SHAPE);
        expect_error(KILN_E_SHAPE, "add: ", "broadcast");
        kiln_function_free(&f);
        kiln_scope_end(&scope);
    }
}

void ending_an_outer_scope_ends_the_inner_ones(void **state)
{
    uint64_t before = stats_now().tensors;
    kiln_scope *outer = kiln_scope_begin();
    ones();
    kiln_scope *inner = kiln_scope_begin(), *innermost = kiln_scope_begin();
    ones();
    kiln_scope_end(&outer);
    assert_int_equal(stats_now().tensors, before);
    // Their handles are stale now; ending them is an error that does no harm.
    kiln_scope_end(&inner);
    assert_null(inner);
    expect_error(KILN_E_STATE, "scope_end: ", "not open");
    kiln_scope_end(&innermost);
    expect_error(KILN_E_STATE, "scope_end: ", "scopes.c:");
    // What is made afterwards is the caller's again.
    kiln_tensor *t = ones();
    assert_true(first(t) == 1);
    kiln_free(&t);
}

static void *end_scope(void *scope)
{
    kiln_scope *s = scope;
    kiln_scope_end(&s);
    kiln_status status = kiln_error();
    bool said = strstr(kiln_error_message(), "not open on this thread") != NULL;
    kiln_error_clear();
    return (void *)(uintptr_t)(said ? status : KILN_OK);
}

void a_scope_ends_on_its_own_thread_only(void **state)
{
    pthread_t thread;
    void *status = NULL;
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *t = ones();
    assert_int_equal(pthread_create(&thread, NULL, end_scope, scope), 0);
    assert_int_equal(pthread_join(thread, &status), 0);
    assert_int_equal((uintptr_t)status, KILN_E_STATE);
    EXPECT_NO_ERROR();
    assert_true(first(t) == 1);
    kiln_scope_end(&scope);
}

void freeing_early_and_twice(void **state)
{
    uint64_t before = stats_now().tensors;
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *a = ones(), *again = a, *b = ones();
    kiln_free(&a);
    assert_null(a);
    assert_int_equal(stats_now().tensors, before + 1);
    kiln_free(&a);
    EXPECT_NO_ERROR();
    kiln_free(&again);
    expect_error(KILN_E_HANDLE, "free: ", "scopes.c:");
    assert_null(kiln_relu(again));
    expect_error(KILN_E_HANDLE, "relu: x is a handle that was freed", "scopes.c:");
    // Works while an error is pending, too.
    assert_null(kiln_matmul(b, NULL));
    kiln_free(&b);
    assert_null(b);
    kiln_scope_end(&scope);
    assert_int_equal(stats_now().tensors, before);
    expect_error(KILN_E_ARGUMENT, "matmul: ", "NULL");
}

void views_hold_their_storage(void **state)
{
    uint64_t before = stats_now().tensors;
    kiln_tensor *base = kiln_arange(dev, KILN_F32, 0, 8, 1), *view = kiln_narrow(base, 0, 4, 4),
                *twin = kiln_alias(base);
    assert_int_equal(stats_now().tensors, before + 1);
    assert_true(kiln_is_view_of(view, base) && kiln_is_view_of(twin, base));
    kiln_free(&base);
    assert_true(first(view) == 4);
    kiln_tensor *nine = kiln_scalar(9);
    assert_int_equal(kiln_assign(view, nine), KILN_OK);
    kiln_free(&nine);
    assert_int_equal(stats_now().tensors, before + 1);
    kiln_free(&view);
    float v[8];
    assert_int_equal(kiln_read(twin, v, sizeof v), KILN_OK);
    assert_true(v[3] == 3 && v[4] == 9);
    kiln_free(&twin);
    assert_int_equal(stats_now().tensors, before);
}

// Makes what nobody frees, opens a scope that nobody ends, and returns its input.
static kiln_status careless(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_scope **left = user;
    kiln_exp(kiln_neg(in[0]));
    *left = kiln_scope_begin();
    kiln_square(in[0]);
    out[0] = in[0];
    out[1] = kiln_add(in[0], kiln_scalar(1));
    return kiln_error();
}

void user_functions_run_in_a_scope_of_their_own(void **state)
{
    uint64_t before = stats_now().tensors;
    kiln_scope *left = NULL;
    kiln_tensor *x = ones(), *results[3] = {NULL};
    assert_int_equal(kiln_value_and_grad(careless, &left, &x, 1, KILN_GRAD(.outputs = 2), results, 3), KILN_OK);
    // A result that is the input is a handle of its own.
    assert_ptr_not_equal(results[0], x);
    assert_true(first(results[0]) == 1 && first(results[1]) == 2 && first(results[2]) == 2);
    kiln_scope_end(&left);
    expect_error(KILN_E_STATE, "scope_end", "not open");
    kiln_free(&x);
    assert_true(first(results[0]) == 1);
    for (int i = 0; i < 3; i++) kiln_free(&results[i]);
    assert_int_equal(stats_now().tensors, before);
}

static kiln_status careless_cell(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                 size_t n_out)
{
    return careless(user, in, n_in, out, n_out);
}

void user_cells_run_in_a_scope_of_their_own(void **state)
{
    uint64_t before = stats_now().tensors;
    kiln_scope *left = NULL, *scope = kiln_scope_begin();
    kiln_cell *cell = kiln_cell_create(KILN_CELL(.construct = careless_cell, .user = &left, .n_in = 1, .n_out = 2));
    kiln_tensor *x = ones(), *results[2] = {NULL};
    assert_int_equal(kiln_cell_call_n(cell, &x, 1, results, 2), KILN_OK);
    assert_int_equal(stats_now().tensors, before + 2);
    assert_ptr_not_equal(results[0], x);
    assert_true(first(results[0]) == 1 && first(results[1]) == 2);
    kiln_cell_free(&cell);
    // They belong to the scope of the caller.
    kiln_scope_end(&scope);
    assert_int_equal(stats_now().tensors, before);
}

void cells_own_what_they_hold(void **state)
{
    uint64_t before = stats_now().tensors;
    kiln_scope *scope = kiln_scope_begin();
    kiln_cell *net = kiln_nn_dense(dev, 4, 2, KILN_NN_DENSE(.weight_init = "ones"));
    kiln_tensor *params[2] = {NULL};
    assert_int_equal(kiln_cell_parameters(net, params, 2), 2);
    kiln_optim *opt = kiln_optim_sgd(params, 2, KILN_SGD(.lr = 1, .momentum = 0.5));
    kiln_backward(kiln_sum(kiln_cell_call(net, kiln_ones(dev, KILN_F32, KILN_SHAPE(1, 4))), NULL), NULL);
    assert_int_equal(kiln_optim_step(opt), KILN_OK);
    kiln_scope_end(&scope);
    // Parameters, gradients and momenta are still there.
    assert_int_equal(stats_now().tensors, before + 6);
    assert_int_equal(kiln_optim_step(opt), KILN_OK);
    float w[8];
    assert_int_equal(kiln_read(params[0], w, sizeof w), KILN_OK);
    assert_true(w[0] == 1 - 1 - 1.5f);
    kiln_optim_free(&opt);
    kiln_cell_free(&net);
    assert_int_equal(stats_now().tensors, before);
}
