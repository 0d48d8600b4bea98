// Regions in which capture is off: outside of captures, in those of AUTO, and where they are refused.
#include "jit_fixture.h"
#include <kiln/nn.h>

static kiln_status chain(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    count_run(user);
    out[0] = kiln_sub(kiln_exp(kiln_neg(in[0])), kiln_scalar(1));
    return kiln_error();
}

static void expect_chain(kiln_tensor *out)
{
    expect(out, 2, 0., exp(-1) - 1);
}

// Launches of a call whose ops run one by one.
enum { OPS = 3 };

static void functions_run_op_by_op(void **state)
{
    struct fixture *f = *state;
    const kiln_capture captures[] = {KILN_CAPTURE_STRICT, KILN_CAPTURE_AUTO, KILN_CAPTURE_TRACE};
    for (int k = 0; k < 3; k++) {
        int runs = 0;
        kiln_function *j = kiln_jit(chain, &runs, KILN_JIT(.capture = captures[k]));
        kiln_tensor *x = vec(f, 2, 0, 1), *out = NULL;
        uint64_t before = launches_of(f);
        ok(kiln_no_capture_begin());
        ok(kiln_no_capture_begin());
        ok(kiln_call(j, &x, 1, &out, 1));
        kiln_no_capture_end();
        ok(kiln_call(j, &x, 1, &out, 1));
        kiln_no_capture_end();
        assert_int_equal(launches_of(f) - before, 2 * OPS);
        expect_chain(out);
        kiln_jit_stats s = stats_of(j);
        assert_int_equal(s.captures, 0);
        assert_int_equal(s.fallbacks, 2);
        for (int i = 0; i < 2; i++) ok(kiln_call(j, &x, 1, &out, 1)); // on again
        expect_chain(out);
        assert_int_equal(stats_of(j).captures, 1);
        assert_int_equal(runs, captures[k] == KILN_CAPTURE_AUTO ? 4 : 3);
        kiln_function_free(&j);
    }
    kiln_no_capture_end();
    fails(kiln_error(), KILN_E_STATE, "no_capture_end: without kiln_no_capture_begin");
}

static void cells_and_blocks_do_too(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = vec(f, 2, -1, 1);
    kiln_cell *net = kiln_nn_sequential(KILN_CELLS(kiln_nn_relu(), kiln_nn_tanh()));
    ok(kiln_cell_jit(net, NULL));
    for (int graph = 0; graph < 2; graph++) {
        ok(kiln_set_mode(graph ? KILN_MODE_GRAPH : KILN_MODE_EAGER));
        KILN_NO_CAPTURE
        {
            uint64_t before = launches_of(f);
            expect(kiln_cell_call(net, x), 2, 0., tanh(1));
            assert_true(launches_of(f) - before >= 2);
            before = launches_of(f);
            KILN_CAPTURE(f->dev)
            {
                kiln_exp(kiln_neg(x));
                assert_int_equal(launches_of(f) - before, 2); // at once
            }
        }
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
    assert_int_equal(stats_of(kiln_cell_function(net)).captures, 0);
    expect(kiln_cell_call(net, x), 2, 0., tanh(1));
    assert_int_equal(stats_of(kiln_cell_function(net)).captures, 1);
    kiln_cell_free(&net);
}

// In AUTO: the graph up to the region, the region op by op, the graph after it.
struct middle {
    struct fixture *f;
    kiln_tensor *state;
    uint64_t launched;
    int runs;
    bool writes, breaks_out;
};

static kiln_status off_in_the_middle(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct middle *m = user;
    m->runs++;
    kiln_tensor *a = kiln_mul(kiln_add(in[0], kiln_scalar(1)), kiln_scalar(2)), *b = NULL;
    if (m->writes) TRY_(kiln_add_(m->state, kiln_scalar(1)));
    KILN_NO_CAPTURE
    {
        uint64_t before = launches_of(m->f);
        b = kiln_keep(kiln_exp(in[0]));
        m->launched = launches_of(m->f) - before;
        b = kiln_mul(b, a); // what is pending breaks the graph
        if (m->writes) TRY_(kiln_mul_(m->state, kiln_scalar(2)));
        if (m->breaks_out) break;
        b = kiln_neg(b);
    }
    if (m->writes) TRY_(kiln_add_(m->state, kiln_scalar(3)));
    out[0] = kiln_sub(kiln_square(b), a);
    return kiln_error();
}

static void in_a_walk_ops_run_at_once(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = vec(f, 2, 0, 1), *out = NULL;
    for (int way = 0; way < 2; way++) {
        struct middle m = {.f = f, .writes = true, .breaks_out = way, .state = vec(f, 1, 0)};
        ok(kiln_state(m.state));
        double want = 0;
        kiln_function *j = automatic(off_in_the_middle, &m);
        for (int i = 0; i < 4; i++) {
            ok(kiln_call(j, &x, 1, &out, 1));
            expect(out, 2, 2., 16 * exp(2) - 4);
            assert_int_equal(m.launched, 1);
            want = (want + 1) * 2 + 3;
            expect(m.state, 1, want);
        }
        kiln_jit_stats s = stats_of(j);
        assert_int_equal(m.runs, 4);
        assert_int_equal(s.captures, 1);
        assert_true(s.breaks >= 4 && s.single_ops >= 8);
        if (fuses(f)) assert_true(s.graph_ops >= 16);
        kiln_function_free(&j);
    }
}

static kiln_status loss_with_region(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *a = kiln_mul(in[0], in[1]), *b = NULL;
    KILN_NO_CAPTURE
    {
        b = kiln_tanh(kiln_mul(a, in[0]));
    }
    out[0] = kiln_sum(kiln_square(kiln_add(b, a)), NULL);
    return kiln_error();
}

static kiln_status call_function(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    return kiln_call(user, in, n_in, out, n_out);
}

static void gradients_go_through(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *in[] = {vec(f, 3, 1, -2, 3), vec(f, 3, 0.5, 1, -1)}, *want[2] = {NULL}, *g[2] = {NULL};
    const int64_t wrt[] = {0, 1};
    ok(kiln_grad(loss_with_region, NULL, in, 2, KILN_GRAD(.wrt = {2, wrt}), want, 2));
    kiln_function *j = automatic(loss_with_region, NULL);
    for (int i = 0; i < 4; i++) {
        ok(kiln_grad(call_function, j, in, 2, KILN_GRAD(.wrt = {2, wrt}), g, 2));
        for (int k = 0; k < 2; k++) same(g[k], want[k]);
    }
    kiln_function_free(&j);
}

// STRICT and TRACE have nothing to run on, and say so; one graph is no graph with a hole.
static void refused_where_values_are_not_known(void **state)
{
    struct fixture *f = *state;
    struct middle m = {.f = f};
    const kiln_jit_opts ways[] = {{.size = sizeof *ways}, {.size = sizeof *ways, .capture = KILN_CAPTURE_TRACE}};
    kiln_tensor *x = vec(f, 2, 0, 1), *out = NULL;
    for (int k = 0; k < 2; k++) {
        kiln_function *j = kiln_jit(off_in_the_middle, &m, &ways[k]);
        for (int i = 0; i < 2; i++) {
            kiln_status status = kiln_call(j, &x, 1, &out, 1);
            assert_non_null(strstr(kiln_error_message(), "(no_capture.c:"));
            fails(status, KILN_E_STATE, "no_capture_begin: the function at no_capture.c:");
            assert_null(out);
        }
        kiln_function_free(&j);
        j = kiln_jit(chain, NULL, NULL); // it was ended all the same
        for (int i = 0; i < 2; i++) ok(kiln_call(j, &x, 1, &out, 1));
        assert_int_equal(stats_of(j).captures, 1);
        assert_int_equal(stats_of(j).fallbacks, 0);
        kiln_function_free(&j);
    }
    kiln_function *j = kiln_jit(off_in_the_middle, &m, KILN_JIT(.capture = KILN_CAPTURE_AUTO, .fullgraph = true));
    fails(kiln_call(j, &x, 1, &out, 1), KILN_E_STATE, "which .fullgraph does not allow: mul of f32[2], made by mul");
    kiln_function_free(&j);
}

// A region that touches nothing of the graph does not break it.
static kiln_status beside(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *a = kiln_neg(in[0]), *b = NULL;
    KILN_NO_CAPTURE
    {
        b = kiln_exp(in[0]);
        if (kiln_item(kiln_sum(b, NULL)) < 0) return kiln_error();
    }
    out[0] = kiln_mul(a, b);
    return kiln_error();
}

static void regions_beside_the_graph(void **state)
{
    struct fixture *f = *state;
    kiln_function *j = kiln_jit(beside, NULL, KILN_JIT(.capture = KILN_CAPTURE_AUTO, .fullgraph = true));
    kiln_tensor *x = vec(f, 2, 0, 1), *out = NULL;
    for (int i = 0; i < 3; i++) {
        ok(kiln_call(j, &x, 1, &out, 1));
        expect(out, 2, 0., -exp(1));
    }
    assert_int_equal(stats_of(j).breaks, 0);
    kiln_function_free(&j);
}

static jmp_buf far;

__attribute__((noinline)) static kiln_status jumps(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                                   size_t n_out)
{
    KILN_NO_CAPTURE
    {
        kiln_neg(in[0]);
        longjmp(far, 1);
    }
    return kiln_error();
}

static kiln_status returns(kiln_tensor *x)
{
    KILN_NO_CAPTURE
    {
        KILN_NO_CAPTURE
        {
            if (kiln_item(x) > 0) return kiln_error();
        }
    }
    return kiln_error();
}

static void expect_on(struct fixture *f)
{
    kiln_function *j = kiln_jit(chain, NULL, NULL);
    kiln_tensor *x = vec(f, 2, 0, 1), *out = NULL;
    ok(kiln_call(j, &x, 1, &out, 1));
    assert_int_equal(stats_of(j).captures, 1);
    kiln_function_free(&j);
}

static void blocks_are_left_in_any_way(void **state)
{
    struct fixture *f = *state;
    ok(returns(vec(f, 1, 1)));
    expect_on(f);
    for (int i = 0; i < 3; i++) KILN_NO_CAPTURE
        {
            if (i == 1) continue;
            if (i == 2) break;
        }
    expect_on(f);
#ifdef __GLIBC__
    kiln_tensor *volatile x = vec(f, 1, 1);
    kiln_function *volatile j = automatic(jumps, NULL);
    if (!setjmp(far)) {
        kiln_function *g = j;
        kiln_tensor *in = x, *out = NULL;
        kiln_call(g, &in, 1, &out, 1);
        fail_msg("it did not jump");
    }
    expect_on(f);
    if (!setjmp(far)) {
        kiln_tensor *in = x;
        jumps(NULL, &in, 1, NULL, 0); // of no call of the library's
    }
    expect_on(f);
    kiln_function *g = j;
    kiln_function_free(&g);
#endif
}

int main(int argc, char **argv)
{
    if (choose_device(argc, argv)) return 77;
    const struct CMUnitTest tests[] = {FIXTURE(functions_run_op_by_op),
                                       FIXTURE(cells_and_blocks_do_too),
                                       FIXTURE(in_a_walk_ops_run_at_once),
                                       FIXTURE(gradients_go_through),
                                       FIXTURE(refused_where_values_are_not_known),
                                       FIXTURE(regions_beside_the_graph),
                                       FIXTURE(blocks_are_left_in_any_way)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
