// AUTO and the tape: what leaves a function is on one node a segment, with a compiled backward, and its gradients are
// those of eager mode.
#include "net_fixture.h"
#include <pthread.h>

static bool explains(kiln_function *j, const char *part)
{
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    kiln_explain_with(j, file, KILN_EXPLAIN(.level = KILN_EXPLAIN_DETAIL));
    fclose(file);
    bool found = strstr(text, part) != NULL;
    free(text);
    return found;
}

static kiln_status branches(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct net *n = user;
    kiln_tensor *h = hidden(n, in[0]);
    for (int i = 0; i < 4 && kiln_item(kiln_sum(kiln_square(h), NULL)) > .5; i++)
        h = kiln_mul(kiln_softmax(h, -1), kiln_add(h, n->w[1]));
    if (kiln_item(kiln_select(kiln_reshape(h, KILN_SHAPE(-1)), 0, 0)) > 0) h = kiln_neg(h);
    out[0] = kiln_sum(kiln_matmul(h, n->w[2]), NULL);
    return kiln_error();
}

static kiln_status partly_off_the_tape(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct net *n = user;
    kiln_tensor *h = hidden(n, in[0]);
    kiln_no_grad_begin();
    kiln_tensor *scale = kiln_rsqrt(kiln_add(kiln_sum(kiln_square(h), NULL), kiln_scalar(1)));
    kiln_no_grad_end();
    kiln_tensor *still = kiln_stop_gradient(kiln_exp(h));
    n->read = kiln_item(scale);
    out[0] = kiln_sum(kiln_mul(kiln_mul(kiln_matmul(h, n->w[2]), scale), kiln_mean(still, NULL)), NULL);
    return kiln_error();
}

static kiln_status writes(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct net *n = user;
    kiln_tensor *h = kiln_matmul(in[0], n->w[0]), *row = kiln_select(h, 0, 1), *t = kiln_transpose(h, 0, 1);
    TRY_(kiln_mul_(row, n->w[1]));
    TRY_(kiln_add_(t, kiln_scalar(.5)));
    if (!n->silent) n->read = kiln_item(kiln_sum(h, NULL));
    TRY_(kiln_assign(kiln_narrow(h, 1, 0, 2), kiln_narrow(kiln_exp(in[0]), 1, 1, 2)));
    TRY_(kiln_mul_(kiln_narrow(h, 1, 2, 1), n->w[2] ? kiln_select(n->w[1], 0, 2) : NULL));
    out[0] = kiln_sum(kiln_tanh(kiln_matmul(t, h)), NULL);
    return kiln_error();
}

static kiln_status drops(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct net *n = user;
    kiln_tensor *h = kiln_dropout(hidden(n, in[0]), .5);
    n->read = kiln_item(kiln_sum(h, NULL));
    kiln_tensor *g = kiln_dropout(hidden(n, h), .25);
    out[0] = kiln_sum(kiln_matmul(kiln_mul(g, h), n->w[2]), NULL);
    return kiln_error();
}

static kiln_status numbers(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct net *n = user;
    n->read += .25; // another one at each call
    kiln_tensor *h = kiln_mul(hidden(n, in[0]), kiln_scalar(n->read));
    TRY_(kiln_mul_(h, kiln_scalar(n->read)));
    out[0] = kiln_sum(kiln_pow(kiln_exp(h), kiln_scalar(n->read)), NULL);
    return kiln_error();
}

static const kiln_fn functions[] = {no_break, one_break, two_breaks, branches, partly_off_the_tape,
                                    writes,   drops,     numbers};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

static void gradients_are_those_of_eager(void **state)
{
    struct fixture *f = *state;
    for (int k = 0; k < FUNCTIONS; k++) {
        struct net a = make_net(f), b = make_net(f);
        kiln_function *j = automatic(functions[k], &a);
        ok(kiln_seed(f->dev, 3));
        uint64_t seed, offset = 0, other = 0;
        for (int i = 0; i < 5; i++) {
            kiln_scope *s = kiln_scope_begin();
            kiln_tensor *x = kiln_parameter(batch(f, i), "x"), *y = kiln_parameter(batch(f, i), "y");
            kiln_tensor *mine = NULL, *want = NULL;
            ok(kiln_set_rng_state(f->dev, 3, offset));
            ok(kiln_call(j, &x, 1, &mine, 1));
            ok(kiln_rng_state(f->dev, &seed, &other));
            ok(kiln_set_rng_state(f->dev, 3, offset));
            ok(functions[k](&b, &y, 1, &want, 1));
            offset = other;
            assert_true(a.read == b.read || fabs(a.read - b.read) < 1e-5);
            same(mine, want);
            ok(kiln_backward(mine, NULL));
            ok(kiln_backward(want, NULL));
            same_gradients(&a, &b, x, y);
            kiln_scope_end(&s);
        }
        if (!explains(j, "backward: ") || explains(j, "backward op by op")) print_error("function %d\n", k);
        assert_true(explains(j, "backward: "));
        assert_false(explains(j, "backward op by op"));
        kiln_function_free(&j);
    }
}

// --- what it costs

static kiln_status chain(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *y = kiln_sigmoid(kiln_mul(kiln_tanh(kiln_add(kiln_mul(in[0], in[1]), in[2])), in[1]));
    out[0] = kiln_mul(kiln_exp(kiln_neg(y)), kiln_sin(y));
    return kiln_error();
}

static uint64_t backward_launches(struct fixture *f, kiln_function *j, uint64_t *forward)
{
    uint64_t before = 0, last = 0;
    kiln_tensor *sens = vec(f, 3, 1, -1, 2);
    for (int i = 0; i < 3; i++) {
        kiln_tensor *in[] = {vec(f, 3, 1, 2, 3), kiln_parameter(vec(f, 3, .5, 2, -1), "w"),
                             kiln_parameter(vec(f, 3, 1, 1, 1), "b")};
        kiln_tensor *y = NULL;
        before = launches_of(f);
        if (j)
            ok(kiln_call(j, in, 3, &y, 1));
        else
            ok(chain(NULL, in, 3, &y, 1));
        *forward = launches_of(f) - before;
        before = launches_of(f);
        ok(kiln_backward(y, sens));
        last = launches_of(f) - before;
        assert_non_null(kiln_gradient(in[1]));
        assert_non_null(kiln_gradient(in[2]));
    }
    return last;
}

static void backward_of_a_chain_is_that_of_strict(void **state)
{
    struct fixture *f = *state;
    bool fused = fuses(f);
    uint64_t forward[3];
    kiln_function *a = automatic(chain, NULL), *s = kiln_jit(chain, NULL, NULL);
    uint64_t mine = backward_launches(f, a, &forward[0]), strict = backward_launches(f, s, &forward[1]);
    uint64_t eager = backward_launches(f, NULL, &forward[2]);
    if (fused) {
        assert_int_equal(mine, strict);
        assert_int_equal(forward[0], 1);
        assert_true(mine < eager);
    }
    kiln_function_free(&a);
    kiln_function_free(&s);
}

static void memory_does_not_grow(void **state)
{
    struct fixture *f = *state;
    struct net a = make_net(f);
    kiln_function *j = automatic(two_breaks, &a);
    kiln_optim *o = kiln_optim_sgd(a.w, 3, KILN_SGD(.lr = 1e-4));
    kiln_tensor *x = batch(f, 1);
    uint64_t tensors = 0, used_B = 0;
    for (int i = 0; i < 1000; i++) {
        kiln_scope *s = kiln_scope_begin();
        kiln_tensor *y = NULL;
        ok(kiln_call(j, &x, 1, &y, 1));
        ok(kiln_backward(y, NULL));
        ok(kiln_optim_step(o));
        ok(kiln_optim_zero_grad(o));
        kiln_scope_end(&s);
        kiln_device_stats d = {.size = sizeof d};
        kiln_device_get_stats(f->dev, &d);
        if (i == 10) tensors = d.tensors, used_B = d.heap_used_B;
        if (i > 10) assert_int_equal(d.tensors, tensors);
        if (i > 10) assert_true(d.heap_used_B <= used_B);
    }
    assert_true(stats_of(j).captures <= 2);
    kiln_optim_free(&o);
    kiln_function_free(&j);
}

// --- higher orders

static kiln_status smooth(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *y = kiln_mul(kiln_exp(kiln_mul(in[0], in[1])), in[0]);
    kiln_tensor *still = kiln_stop_gradient(kiln_square(in[0]));
    if (user) (void)kiln_item(kiln_sum(y, NULL));
    out[0] = kiln_sum(kiln_mul(kiln_mul(kiln_sin(y), y), still), NULL);
    return kiln_error();
}

struct twice {
    kiln_function *j; // NULL: eager
    void *user;
};

static kiln_status call_smooth(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct twice *t = user;
    return t->j ? kiln_call(t->j, in, n_in, out, n_out) : smooth(t->user, in, n_in, out, n_out);
}

static kiln_status gradient_of_smooth(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *g[2] = {NULL, NULL};
    TRY_(kiln_grad(call_smooth, user, in, n_in, KILN_GRAD(.wrt = KILN_ARGS(0, 1)), g, 2));
    out[0] = kiln_sum(kiln_mul(g[0], kiln_square(g[1])), NULL);
    return kiln_error();
}

static kiln_status third_order(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *g = NULL;
    TRY_(kiln_grad(gradient_of_smooth, user, in, n_in, NULL, &g, 1));
    out[0] = kiln_sum(g, NULL);
    return kiln_error();
}

static void gradients_have_gradients(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *in[] = {vec(f, 3, .1, .2, -.3), vec(f, 3, .5, 1, -1)}, *a[2], *b[2];
    for (int breaks = 0; breaks < 2; breaks++) {
        struct twice mine = {automatic(smooth, breaks ? f : NULL), NULL}, eager = {NULL, breaks ? f : NULL};
        for (int order = 0; order < 2; order++) {
            kiln_fn fn = order ? third_order : gradient_of_smooth;
            for (int i = 0; i < 3; i++) {
                ok(kiln_grad(fn, &mine, in, 2, KILN_GRAD(.wrt = KILN_ARGS(0, 1)), a, 2));
                ok(kiln_grad(fn, &eager, in, 2, KILN_GRAD(.wrt = KILN_ARGS(0, 1)), b, 2));
                near(a[0], b[0], 1e-5);
                near(a[1], b[1], 1e-5);
            }
        }
        kiln_function_free(&mine.j);
    }
}

// --- what is seen of the inside

static kiln_tensor *count_and_double(void *user, kiln_tensor *g)
{
    ++*(int *)user;
    return kiln_mul(g, kiln_scalar(2));
}

struct hooked {
    struct net net;
    kiln_tensor *kept;
    int hooks;
    bool hook, keep;
};

static kiln_status with_inside(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct hooked *h = user;
    kiln_tensor *y = hidden(&h->net, in[0]), *z = kiln_exp(y);
    if (h->hook) kiln_register_hook(z, count_and_double, &h->hooks);
    if (h->keep) h->kept = kiln_own(kiln_alias(z));
    out[0] = kiln_sum(kiln_sin(kiln_mul(z, y)), NULL);
    out[1] = kiln_mul(y, kiln_scalar(3));
    return kiln_error();
}

static void hooks_inside_see_whole_gradients(void **state)
{
    struct fixture *f = *state;
    struct hooked a = {.net = make_net(f), .hook = true}, b = {.net = make_net(f), .hook = true};
    kiln_function *j = automatic(with_inside, &a);
    for (int i = 0; i < 3; i++) {
        kiln_tensor *x = kiln_parameter(batch(f, i), "x"), *y = kiln_parameter(batch(f, i), "y"), *mine[2], *want[2];
        ok(kiln_call(j, &x, 1, mine, 2));
        ok(with_inside(&b, &y, 1, want, 2));
        ok(kiln_backward(mine[0], NULL));
        ok(kiln_backward(want[0], NULL));
        assert_int_equal(a.hooks, i + 1);
        assert_int_equal(b.hooks, i + 1);
        same_gradients(&a.net, &b.net, x, y);
    }
    kiln_function_free(&j);
}

static void what_is_kept_stays_on_the_tape(void **state)
{
    struct fixture *f = *state;
    struct hooked a = {.net = make_net(f), .keep = true}, b = {.net = make_net(f), .keep = true};
    kiln_function *j = automatic(with_inside, &a);
    for (int i = 0; i < 3; i++) {
        kiln_tensor *x = kiln_parameter(batch(f, i), "x"), *y = kiln_parameter(batch(f, i), "y"), *mine[2], *want[2];
        ok(kiln_call(j, &x, 1, mine, 2));
        ok(with_inside(&b, &y, 1, want, 2));
        kiln_register_hook(a.kept, count_and_double, &a.hooks);
        kiln_register_hook(b.kept, count_and_double, &b.hooks);
        ok(kiln_backward(kiln_add(mine[0], kiln_sum(a.kept, NULL)), NULL));
        ok(kiln_backward(kiln_add(want[0], kiln_sum(b.kept, NULL)), NULL));
        assert_int_equal(a.hooks, i + 1);
        same_gradients(&a.net, &b.net, x, y);
        kiln_free(&a.kept);
        kiln_free(&b.kept);
    }
    kiln_function_free(&j);
}

static void hooks_on_results_work(void **state)
{
    struct fixture *f = *state;
    struct hooked a = {.net = make_net(f)}, b = {.net = make_net(f)};
    kiln_function *j = automatic(with_inside, &a);
    for (int i = 0; i < 3; i++) {
        kiln_tensor *x = kiln_parameter(batch(f, i), "x"), *y = kiln_parameter(batch(f, i), "y"), *mine[2], *want[2];
        ok(kiln_call(j, &x, 1, mine, 2));
        ok(with_inside(&b, &y, 1, want, 2));
        kiln_register_hook(mine[1], count_and_double, &a.hooks);
        kiln_register_hook(want[1], count_and_double, &b.hooks);
        ok(kiln_backward_with(mine[0], KILN_BACKWARD(.keep_tape = true)));
        ok(kiln_backward_with(want[0], KILN_BACKWARD(.keep_tape = true)));
        assert_int_equal(a.hooks, b.hooks);
        ok(kiln_backward(kiln_sum(kiln_square(mine[1]), NULL), NULL));
        ok(kiln_backward(kiln_sum(kiln_square(want[1]), NULL), NULL));
        assert_int_equal(a.hooks, b.hooks);
        same_gradients(&a.net, &b.net, x, y);
        fails(kiln_backward(mine[0], NULL), KILN_E_GRADIENT, "used up by an earlier backward");
    }
    kiln_function_free(&j);
}

// d/dw sum((x w)^2) = 2 w sum(x^2), where x has n elements of 1.
static kiln_status square_of_product(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *y = kiln_mul(in[0], in[1]);
    if (kiln_item(kiln_sum(y, NULL)) < 0) y = kiln_neg(y);
    out[0] = kiln_sum(kiln_square(y), NULL);
    return kiln_error();
}

struct caller {
    struct fixture *f;
    kiln_function *j;
    int number;
    bool fine;
};

static void *call_and_run_back(void *at)
{
    struct caller *c = at;
    c->fine = true;
    for (int i = 0; i < 30 && c->fine; i++) {
        kiln_scope *s = kiln_scope_begin();
        int64_t n = 2 + (i + c->number) % 3; // three recordings, of which two are kept
        kiln_tensor *w = kiln_parameter(kiln_full(c->f->dev, KILN_F32, KILN_SHAPE0, c->number - 1.5), "w"), *y = NULL;
        kiln_tensor *in[] = {kiln_ones(c->f->dev, KILN_F32, KILN_SHAPE(n)), w};
        c->fine = !kiln_call(c->j, in, 2, &y, 1) && !kiln_backward(y, NULL);
        if (c->fine) c->fine = fabs(kiln_item(kiln_gradient(w)) - 2 * (c->number - 1.5) * (double)n) < 1e-4;
        kiln_scope_end(&s);
    }
    kiln_error_clear();
    return NULL;
}

static void threads_share_recordings_and_backwards(void **state)
{
    struct fixture *f = *state;
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    struct caller callers[THREADS];
    kiln_function *j = kiln_jit(square_of_product, NULL,
                                KILN_JIT(.capture = KILN_CAPTURE_AUTO, .cache_entries = 2, .recompile_limit = 1 << 20));
    for (int i = 0; i < THREADS; i++) {
        callers[i] = (struct caller){f, j, i, false};
        assert_int_equal(pthread_create(&threads[i], NULL, call_and_run_back, &callers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++) assert_true(callers[i].fine);
    kiln_function_free(&j);
}

int main(int argc, char **argv)
{
    if (choose_device(argc, argv)) return 77;
    const struct CMUnitTest tests[] = {
        FIXTURE(gradients_are_those_of_eager),
        FIXTURE(backward_of_a_chain_is_that_of_strict),
        FIXTURE(memory_does_not_grow),
        FIXTURE(gradients_have_gradients),
        FIXTURE(hooks_inside_see_whole_gradients),
        FIXTURE(what_is_kept_stays_on_the_tape),
        FIXTURE(hooks_on_results_work),
        FIXTURE(threads_share_recordings_and_backwards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
