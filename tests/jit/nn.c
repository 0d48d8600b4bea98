// Cells and optimisers in captured functions; the documents' programs in each way to run them; traces.
#include "jit_fixture.h"

static kiln_cell *make_net(struct fixture *f)
{
    ok(kiln_seed(f->dev, 7));
    kiln_cell *net = kiln_nn_sequential(KILN_CELLS(
        kiln_nn_conv2d(f->dev, 1, 3, 3, KILN_NN_CONV2D(.pad_mode = "same")), kiln_nn_batch_norm2d(f->dev, 3, NULL),
        kiln_nn_relu(), kiln_nn_flatten(), kiln_nn_dropout(0.25), kiln_nn_dense(f->dev, 48, 5, NULL)));
    assert_non_null(net);
    return net;
}

struct trainer {
    kiln_cell *net;
    kiln_optim *opt;
};

static struct trainer make_trainer(struct fixture *f, int kind)
{
    struct trainer t = {make_net(f), NULL};
    kiln_tensor *params[8];
    size_t n = kiln_cell_parameters(t.net, params, 8);
    ok(kiln_cell_set_training(t.net, true));
    if (kind == 0)
        t.opt = kiln_optim_adamw(params, n, KILN_ADAM(.lr = 0.01));
    else if (kind == 1)
        t.opt = kiln_optim_sgd(params, n, KILN_SGD(.lr = 0.05, .momentum = 0.9));
    else
        t.opt = kiln_optim_rmsprop(params, n, KILN_RMSPROP(.lr = 0.01, .momentum = 0.5));
    ok(kiln_optim_set_schedule(t.opt, kiln_schedule_exponential(0.02, 0.7)));
    return t;
}

static void free_trainer(struct trainer *t)
{
    kiln_optim_free(&t->opt);
    kiln_cell_free(&t->net);
}

static kiln_status train_step(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct trainer *t = user;
    out[0] = kiln_cross_entropy(kiln_cell_call(t->net, in[0]), in[1], NULL);
    TRY_(kiln_optim_zero_grad(t->opt));
    TRY_(kiln_backward(out[0], NULL));
    return kiln_optim_step(t->opt);
}

static void training_is_that_of_eager(void **state)
{
    struct fixture *f = *state;
    for (int kind = 0; kind < 3; kind++) {
        struct trainer a = make_trainer(f, kind), b = make_trainer(f, kind);
        const int64_t labels[] = {0, 3};
        kiln_tensor *x = kiln_uniform(f->dev, KILN_F32, KILN_SHAPE(2, 1, 4, 4), 0, 1);
        kiln_tensor *in[] = {x, kiln_from_data(f->dev, KILN_I64, KILN_SHAPE(2), labels)};
        kiln_function *j = kiln_jit(train_step, &a, NULL);
        for (int i = 0; i < 4; i++) {
            kiln_tensor *loss = NULL, *want = NULL, *as[16], *bs[16];
            ok(kiln_seed(f->dev, (uint64_t)i));
            ok(kiln_call(j, in, 2, &loss, 1));
            ok(kiln_seed(f->dev, (uint64_t)i));
            ok(train_step(&b, in, 2, &want, 1));
            assert_true(fabs(kiln_item(loss) - kiln_item(want)) < 1e-4 * fabs(kiln_item(want)));
            size_t n = kiln_cell_state(a.net, NULL, as, 16);
            kiln_cell_state(b.net, NULL, bs, 16);
            for (size_t k = 0; k < n; k++) near(as[k], bs[k], 1e-3);
        }
        assert_int_equal(kiln_optim_steps(a.opt), 4);
        assert_true(stats_of(j).captures <= 2);
        kiln_function_free(&j);
        free_trainer(&a);
        free_trainer(&b);
    }
}

static void cells_run_as_graphs(void **state)
{
    struct fixture *f = *state;
    kiln_cell *net = make_net(f);
    kiln_tensor *x = kiln_uniform(f->dev, KILN_F32, KILN_SHAPE(2, 1, 4, 4), 0, 1);
    kiln_tensor *want = kiln_cell_call(net, x);
    assert_null(kiln_cell_function(net));
    ok(kiln_set_mode(KILN_MODE_GRAPH));
    for (int i = 0; i < 2; i++) near(kiln_cell_call(net, x), want, 1e-5);
    assert_int_equal(stats_of(kiln_cell_function(net)).captures, 1);
    assert_null(kiln_cell_function(kiln_cell_child(net, "0")));
    // Training mode is another graph, which updates the running statistics.
    ok(kiln_cell_set_training(net, true));
    kiln_tensor *before = kiln_mul(kiln_cell_parameter(net, "1.moving_mean"), kiln_scalar(1));
    assert_non_null(kiln_cell_call(net, x));
    assert_int_equal(stats_of(kiln_cell_function(net)).captures, 2);
    assert_false(equal(before, kiln_cell_parameter(net, "1.moving_mean")));
    ok(kiln_cell_set_training(net, false));
    kiln_tensor *graph = kiln_cell_call(net, x);
    assert_int_equal(stats_of(kiln_cell_function(net)).captures, 2);
    ok(kiln_set_mode(KILN_MODE_EAGER));
    near(graph, kiln_cell_call(net, x), 1e-5);
    kiln_cell_free(&net);
}

static void a_marked_cell_is_a_graph_in_eager_mode(void **state)
{
    struct fixture *f = *state;
    kiln_cell *net = make_net(f), *first = kiln_cell_child(net, "0");
    kiln_tensor *x = kiln_uniform(f->dev, KILN_F32, KILN_SHAPE(2, 1, 4, 4), 0, 1);
    kiln_tensor *w = kiln_cell_parameter(net, "0.weight");
    ok(kiln_backward(kiln_sum(kiln_cell_call(net, x), NULL), NULL));
    kiln_tensor *want = kiln_mul(kiln_gradient(w), kiln_scalar(1));
    ok(kiln_cell_jit(first, NULL));
    ok(kiln_backward(kiln_sum(kiln_cell_call(net, x), NULL), NULL));
    near(kiln_gradient(w), want, 1e-4);
    assert_int_equal(stats_of(kiln_cell_function(first)).captures, 1);
    // Its weights are never stale: they move to another device and back.
    kiln_device *other = kiln_device_open("cpu");
    ok(kiln_cell_to_device(net, other));
    kiln_tensor *y = kiln_to_device(x, other);
    near(kiln_to_device(kiln_cell_call(net, y), f->dev), kiln_cell_call(net, y), 1e-6);
    assert_int_equal(stats_of(kiln_cell_function(first)).captures, 2);
    fails(kiln_cell_jit(NULL, NULL), KILN_E_ARGUMENT, "cell is NULL");
    kiln_cell_free(&net);
    kiln_scope_end(&f->scope);
    kiln_device_close(&other);
    f->scope = kiln_scope_begin();
}

// The documents' programs

static kiln_status tensor_cal(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_add(kiln_matmul(in[0], in[1]), in[2]);
    return kiln_error();
}

static kiln_status multiply(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_mul(in[0], in[1]);
    return kiln_error();
}

static kiln_status scaled_product(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_matmul(kiln_mul(in[0], in[2]), in[1]);
    return kiln_error();
}

static kiln_status add_mul_mul(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *x = kiln_mul(kiln_add(in[0], in[0]), user);
    out[0] = kiln_mul(x, x);
    return kiln_error();
}

static kiln_status call_it(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    return kiln_call(user, in, n_in, out, n_out);
}

static void run_documents(struct fixture *f, const kiln_jit_opts *o)
{
    kiln_tensor *out = NULL;
    kiln_tensor *e1[] = {vec(f, 3, 1, 2, 3), vec(f, 3, 4, 5, 6)};
    kiln_function *j = kiln_jit(multiply, NULL, o);
    ok(kiln_call(j, e1, 2, &out, 1));
    expect(out, 3, 4., 10., 18.);
    kiln_function_free(&j);
    kiln_tensor *e3[] = {mat(f, 2, 3, .8, .6, .2, 1.8, 1.3, 1.1),
                         mat(f, 3, 3, .11, 3.3, 1.1, 1.1, .2, 1.4, 1.1, 2.2, .3), vec(f, 1, 2)};
    j = kiln_jit(scaled_product, NULL, o);
    ok(kiln_grad(call_it, j, e3, 3, NULL, &out, 1));
    expect(out, 6, 9.02, 5.4, 7.2, 9.02, 5.4, 7.2);
    kiln_function_free(&j);
    kiln_tensor *p = kiln_parameter(kiln_full(f->dev, KILN_F32, KILN_SHAPE0, .5), "p"), *x = vec(f, 2, 4, 3);
    j = kiln_jit(add_mul_mul, p, o);
    ok(kiln_call(j, &x, 1, &out, 1));
    expect(out, 2, 16., 9.);
    kiln_function_free(&j);
    kiln_tensor *e5[] = {kiln_ones(f->dev, KILN_F32, KILN_SHAPE(2, 3)), kiln_ones(f->dev, KILN_F32, KILN_SHAPE(3, 4)),
                         kiln_ones(f->dev, KILN_F32, KILN_SHAPE(2, 4))};
    j = kiln_jit(tensor_cal, NULL, o);
    ok(kiln_call(j, e5, 3, &out, 1));
    expect(out, 8, 4., 4., 4., 4., 4., 4., 4., 4.);
    kiln_tensor *d10[] = {mat(f, 2, 3, .5, .6, .4, 1.2, 1.3, 1.1),
                          mat(f, 3, 3, .01, .3, 1.1, .1, .2, 1.3, 2.1, 1.2, 3.3),
                          kiln_zeros(f->dev, KILN_F32, KILN_SHAPE(2, 3))},
                *g[2];
    ok(kiln_grad(call_it, j, d10, 3, KILN_GRAD(.wrt = KILN_ARGS(0, 1)), g, 2));
    expect(g[0], 6, 1.41, 1.6, 6.6, 1.41, 1.6, 6.6);
    expect(g[1], 9, 1.7, 1.7, 1.7, 1.9, 1.9, 1.9, 1.5, 1.5, 1.5);
    kiln_function_free(&j);
}

static void programs_of_the_documents(void **state)
{
    struct fixture *f = *state;
    for (int mode = KILN_MODE_EAGER; mode <= KILN_MODE_GRAPH; mode++)
        for (int capture = KILN_CAPTURE_STRICT; capture <= KILN_CAPTURE_TRACE; capture++) {
            ok(kiln_set_mode((kiln_mode)mode));
            run_documents(f, KILN_JIT(.capture = (kiln_capture)capture));
        }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

static kiln_status from_host(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const int64_t v[] = {1, 2, 3};
    out[0] = kiln_from_data(NULL, KILN_I64, KILN_SHAPE(3), v);
    return kiln_error();
}

static void host_data_is_a_result(void **state)
{
    kiln_tensor *out = NULL;
    kiln_function *j = kiln_jit(from_host, NULL, NULL);
    for (int i = 0; i < 2; i++) {
        ok(kiln_call(j, NULL, 0, &out, 1));
        expect(out, 3, 1., 2., 3.);
        ok(kiln_mul_(out, kiln_scalar_int(5))); // the caller's own
    }
    kiln_function_free(&j);
    (void)state;
}

struct adder {
    double x;
};

static kiln_status add_x(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_add(kiln_add(in[0], kiln_scalar(((struct adder *)user)->x)), kiln_scalar(1));
    return kiln_error();
}

static void d5_and_d6_closures(void **state)
{
    struct fixture *f = *state;
    for (int capture = KILN_CAPTURE_STRICT; capture <= KILN_CAPTURE_TRACE; capture += 2) {
        struct adder outer = {2};
        kiln_tensor *one = vec(f, 1, 1), *two = vec(f, 1, 2), *out = NULL;
        kiln_function *j = kiln_jit(add_x, &outer, KILN_JIT(.capture = (kiln_capture)capture));
        ok(kiln_call(j, &one, 1, &out, 1));
        expect(out, 1, 4.);
        ok(kiln_call(j, &two, 1, &out, 1));
        expect(out, 1, 5.);
        outer.x = 10; // not perceived
        ok(kiln_call(j, &two, 1, &out, 1));
        expect(out, 1, 5.);
        kiln_function_free(&j);
    }
}

// Traces

static kiln_status count_up(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    count_run(user);
    int a = 0;
    for (int64_t m = kiln_item_int(kiln_mul(in[0], kiln_scalar_int(3))); m > 0; m--) a++;
    out[0] = kiln_add(in[0], kiln_scalar(a));
    return kiln_error();
}

static char *heard;
static void hear(void *user, const char *message)
{
    free(heard);
    heard = strdup(message);
}

static void traces_keep_what_they_read(void **state)
{
    struct fixture *f = *state;
    int runs = 0;
    kiln_tensor *one = vec(f, 1, 1), *two = vec(f, 1, 2), *out = NULL;
    kiln_function *j = kiln_jit(count_up, &runs, KILN_JIT(.capture = KILN_CAPTURE_TRACE));
    ok(kiln_call(j, &one, 1, &out, 1));
    expect(out, 1, 4.);
    ok(kiln_call(j, &two, 1, &out, 1));
    expect(out, 1, 5.); // D3: the loop of the first call
    assert_int_equal(runs, 1);
    kiln_function_free(&j);
}

static void verified_traces_notice_the_difference(void **state)
{
    struct fixture *f = *state;
    int runs = 0;
    kiln_tensor *one = vec(f, 1, 1), *two = vec(f, 1, 2), *out = NULL;
    kiln_function *j = kiln_jit(count_up, &runs, KILN_JIT(.capture = KILN_CAPTURE_TRACE, .verify = 2));
    kiln_set_log(hear, NULL);
    for (int i = 0; i < 4; i++) ok(kiln_call(j, &one, 1, &out, 1));
    assert_int_equal(runs, 3); // at the first, second and fourth call
    assert_null(heard);
    ok(kiln_call(j, &two, 1, &out, 1));
    expect(out, 1, 5.);
    ok(kiln_call(j, &two, 1, &out, 1)); // recorded anew
    expect(out, 1, 8.);
    kiln_set_log(NULL, NULL);
    assert_non_null(heard);
    assert_non_null(strstr(heard, "another recording than before"));
    free(heard);
    heard = NULL;
    ok(kiln_call(j, &two, 1, &out, 1));
    expect(out, 1, 8.);
    kiln_function_free(&j);
}

static kiln_status read_random(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *u = kiln_uniform(kiln_tensor_device(in[0]), KILN_F32, KILN_SHAPE(1), 0, 1);
    double v = kiln_item(u);
    out[0] = kiln_sub(u, kiln_scalar(v));
    TRY_(kiln_add_(in[0], kiln_scalar(1)));
    out[1] = kiln_full(NULL, KILN_F32, KILN_SHAPE0, kiln_item(in[0]));
    return kiln_error();
}

static void traces_read_the_values_of_their_call(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = vec(f, 1, 41), *out[2];
    kiln_function *j = kiln_jit(read_random, NULL, KILN_JIT(.capture = KILN_CAPTURE_TRACE));
    ok(kiln_call(j, &x, 1, out, 2));
    assert_true(kiln_item(out[0]) == 0);
    assert_true(kiln_item(out[1]) == 42);
    assert_true(kiln_item(x) == 42);
    kiln_function_free(&j);
}

static double next_of(void *user)
{
    return ++*(int *)user;
}

static kiln_status ask_host(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *a = kiln_host_number(next_of, user), *b = kiln_host_number(next_of, user);
    out[0] = kiln_add(kiln_mul(in[0], a), b);
    return kiln_error();
}

static void the_host_is_asked_at_each_call(void **state)
{
    struct fixture *f = *state;
    int n = 0;
    kiln_tensor *x = vec(f, 1, 10), *out = NULL;
    assert_false(kiln_is_capturing());
    kiln_function *j = kiln_jit(ask_host, &n, NULL);
    for (int i = 0; i < 3; i++) {
        ok(kiln_call(j, &x, 1, &out, 1));
        expect(out, 1, 10. * (2 * i + 1) + 2 * i + 2);
    }
    ok(ask_host(&n, &x, 1, &out, 1));
    expect(out, 1, 78.);
    assert_null(kiln_host_number(NULL, NULL));
    fails(kiln_error(), KILN_E_ARGUMENT, "fn is NULL");
    kiln_function_free(&j);
}

static void auto_is_void_in_graph_mode(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = vec(f, 1, 1), *out = NULL;
    kiln_function *j = kiln_jit(count_up, NULL, KILN_JIT(.capture = KILN_CAPTURE_AUTO));
    kiln_set_log(hear, NULL);
    ok(kiln_call(j, &x, 1, &out, 1));
    expect(out, 1, 4.);
    ok(kiln_set_mode(KILN_MODE_GRAPH));
    ok(kiln_call(j, &x, 1, &out, 1));
    expect(out, 1, 4.);
    ok(kiln_set_mode(KILN_MODE_EAGER));
    kiln_set_log(NULL, NULL);
    assert_non_null(heard);
    assert_non_null(strstr(heard, "runs as without capture"));
    free(heard);
    heard = NULL;
    kiln_function_free(&j);
}

// Messages say which cell it is: its path in the tree, and what it is.
static char said[2048];
static void listen(void *user, const char *message)
{
    size_t n = strlen(said);
    snprintf(said + n, sizeof said - n, "%s\n", message);
}

static void expect_explanation(kiln_function *j, const char *beginning)
{
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    kiln_explain_with(j, file, KILN_EXPLAIN(.level = KILN_EXPLAIN_DETAIL));
    fclose(file);
    if (strncmp(text, beginning, strlen(beginning)) != 0) fail_msg("%s does not begin with %s", text, beginning);
    free(text);
}

static void messages_name_cells(void **state)
{
    struct fixture *f = *state;
    kiln_cell *encoder = kiln_nn_sequential(KILN_CELLS(kiln_nn_relu(), kiln_nn_dense(f->dev, 4, 4, NULL)));
    kiln_cell *net = kiln_nn_sequential(KILN_CELLS(encoder, kiln_nn_tanh()));
    kiln_cell *dense = kiln_cell_child(net, "0.1");
    ok(kiln_cell_jit(dense, KILN_JIT(.recompile_limit = 1)));
    said[0] = '\0';
    kiln_set_log(listen, NULL);
    for (int64_t i = 1; i < 5; i++)
        assert_non_null(kiln_cell_call(dense, kiln_ones(f->dev, KILN_F32, (size_t)i, (int64_t[]){1, 1, 1, 4} + 4 - i)));
    kiln_set_log(NULL, NULL);
    expect_explanation(kiln_cell_function(dense), "cell \"0.1\" (dense), capture STRICT\n");
    assert_non_null(strstr(said, "cell \"0.1\" (dense) was captured 2 times, its limit"));
    assert_null(strstr(said, "the function at"));
    fails(kiln_call(kiln_cell_function(dense), NULL, 1, NULL, 0), KILN_E_ARGUMENT, "of cell \"0.1\" (dense)");
    ok(kiln_set_mode(KILN_MODE_GRAPH));
    assert_non_null(kiln_cell_call(encoder, kiln_ones(f->dev, KILN_F32, KILN_SHAPE(1, 4))));
    char line[64];
    snprintf(line, sizeof line, "the cell at nn.c:%d (sequential), capture STRICT\n", __LINE__ + 1);
    assert_non_null(kiln_cell_call(net, kiln_ones(f->dev, KILN_F32, KILN_SHAPE(1, 4))));
    ok(kiln_set_mode(KILN_MODE_EAGER));
    expect_explanation(kiln_cell_function(encoder), "cell \"0\" (sequential), ");
    expect_explanation(kiln_cell_function(net), line);
    kiln_cell_free(&net);
    // A user's own name, and code of the library's, which stands for what its caller makes of it.
    char name[] = "the step";
    kiln_function *named = kiln_jit(train_step, NULL, KILN_JIT(.name = name));
    name[0] = 'T';
    expect_explanation(named, "the step, capture");
    kiln_function_free(&named);
    snprintf(line, sizeof line, "the function at nn.c:%d, ", __LINE__ + 1);
    kiln_function *bare = kiln_jit(kiln_cell_fn, NULL, NULL);
    expect_explanation(bare, line);
    kiln_function_free(&bare);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FIXTURE(messages_name_cells),
        FIXTURE(training_is_that_of_eager),
        FIXTURE(cells_run_as_graphs),
        FIXTURE(a_marked_cell_is_a_graph_in_eager_mode),
        FIXTURE(programs_of_the_documents),
        FIXTURE(host_data_is_a_result),
        FIXTURE(d5_and_d6_closures),
        FIXTURE(traces_keep_what_they_read),
        FIXTURE(verified_traces_notice_the_difference),
        FIXTURE(traces_read_the_values_of_their_call),
        FIXTURE(the_host_is_asked_at_each_call),
        FIXTURE(auto_is_void_in_graph_mode),
    };
    if (choose_device(argc, argv)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
