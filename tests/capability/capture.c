// Rows 1, 4 to 10, 24, 27 and 28: modes, captured functions, one way to differentiate, one form of graphs.
#include "captured.h"

#include "ir/graph.h"

#include <kiln/ops.h>
#include <unistd.h>

// --- 1: a static graph first, then run whole

static void whole_graph(kiln_device *dev)
{
    kiln_tensor *const *in = make_pair(dev), *out = NULL;
    kiln_function *f = kiln_jit(chain, NULL, NULL);
    must(kiln_call(f, in, 2, &out, 1));
    uint64_t launches = stats_of(dev).launches;
    must(kiln_call(f, in, 2, &out, 1));
    // Three ops, one kernel; where none can be compiled, each by itself.
    assert_int_equal(stats_of(dev).launches, launches + (dev != cpu() || KILN_WITH_LLVM ? 1 : 3));
    EXPECT(out, 1e-6, 3, 9, 0);
    assert_int_equal(jit_stats_of(f).nodes, 3);
    kiln_function_free(&f);
}

// Sums along rows, none of which fuses with another: each is a launch, and a call is one submission.
enum { SUMS = 40 };

static kiln_status many_launches(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = in[0];
    for (int i = 0; i < SUMS; i++) out[0] = kiln_cumsum(kiln_flip(out[0], KILN_AXES(0)), 0);
    return kiln_error();
}

static void one_submission(kiln_device *dev)
{
    float eager[3], captured[3];
    kiln_tensor *x = from(dev, NUMBERS(0.25, 0.5, -0.125), KILN_SHAPE(3)), *out = NULL;
    must(many_launches(NULL, &x, 1, &out, 1));
    must(kiln_read(out, eager, sizeof eager));
    kiln_function *f = kiln_jit(many_launches, NULL, NULL);
    must(kiln_call(f, &x, 1, &out, 1));
    for (int i = 0; i < 5; i++) {
        must(kiln_device_synchronize(dev));
        kiln_device_stats before = stats_of(dev), after;
        must(kiln_call(f, &x, 1, &out, 1));
        must(kiln_read(out, captured, sizeof captured));
        after = stats_of(dev);
        assert_true(after.launches - before.launches >= SUMS);
        assert_int_equal(after.submits - before.submits, dev == cpu() ? 0 : 1);
        assert_memory_equal(captured, eager, sizeof eager);
    }
    kiln_function_free(&f);
}

void capability_01(void **state)
{
    on_each_device(whole_graph);
    on_each_device(one_submission);
}

// --- 4: single ops, plain functions, networks, and the gradient alone, in each mode

static void single_op(kiln_device *dev, bool graph)
{
    kiln_tensor *const *in = make_pair(dev);
    uint64_t launches = stats_of(dev).launches;
    kiln_tensor *y = kiln_add(in[0], in[1]);
    assert_int_equal(stats_of(dev).launches, launches + 1); // at once, in either mode
    EXPECT(y, 1e-6, 5, 7, -3);
}

static void plain_function(kiln_device *dev, bool graph)
{
    int runs = 0;
    kiln_tensor *const *in = make_pair(dev), *out = NULL;
    uint64_t launches = stats_of(dev).launches;
    for (int i = 0; i < 3; i++) must(chain(&runs, in, 2, &out, 1));
    assert_int_equal(stats_of(dev).launches, launches + 9); // op by op, at each call
    assert_int_equal(runs, 3);
    EXPECT(out, 1e-6, 3, 9, 0);
}

static kiln_status chain_construct(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                   size_t n_out)
{
    return chain(user, in, n_in, out, n_out);
}

static void network(kiln_device *dev, bool graph)
{
    int runs = 0;
    kiln_tensor *const *in = make_pair(dev), *out = NULL;
    kiln_cell *net = kiln_cell_create(
        KILN_CELL(.kind = "chain", .construct = chain_construct, .user = &runs, .n_in = 2, .n_out = 1));
    must(kiln_cell_call_n(net, in, 2, &out, 1));
    uint64_t launches = stats_of(dev).launches;
    for (int i = 0; i < 3; i++) must(kiln_cell_call_n(net, in, 2, &out, 1));
    assert_int_equal(stats_of(dev).launches - launches, graph && fuses(dev) ? 3 : 9);
    EXPECT(out, 1e-6, 3, 9, 0);
    assert_int_equal(kiln_cell_function(net) != NULL, graph);
    assert_int_equal(runs, graph ? 1 : 4); // compiled once, or run each time
    kiln_cell_free(&net);
}

static void gradient_alone(kiln_device *dev, bool graph)
{
    int runs = 0;
    kiln_tensor *const *in = make_pair(dev), *g = NULL;
    must(kiln_grad(chain, NULL, in, 2, NULL, &g, 1));
    EXPECT(g, 1e-6, 4, 5, 0);
    kiln_cell *net = kiln_cell_create(
        KILN_CELL(.kind = "chain", .construct = chain_construct, .user = &runs, .n_in = 2, .n_out = 1));
    for (int i = 0; i < 3; i++) {
        must(kiln_grad(kiln_cell_fn, net, in, 2, NULL, &g, 1));
        EXPECT(g, 1e-6, 4, 5, 0);
    }
    assert_int_equal(runs, graph ? 1 : 3);
    kiln_cell_free(&net);
}

static void four_kinds(kiln_device *dev)
{
    void (*const kinds[])(kiln_device * dev, bool graph) = {single_op, plain_function, network, gradient_alone};
    for (int graph = 0; graph < 2; graph++) {
        must(kiln_set_mode(graph ? KILN_MODE_GRAPH : KILN_MODE_EAGER));
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) kinds[i](dev, graph);
    }
    must(kiln_set_mode(KILN_MODE_EAGER));
}

void capability_04(void **state)
{
    on_each_device(four_kinds);
}

// --- 5: in graph mode cells and captured functions are graphs, loose ops stay eager

static void only_cells(kiln_device *dev)
{
    must(kiln_set_mode(KILN_MODE_GRAPH));
    uint64_t launches = stats_of(dev).launches;
    kiln_tensor *x = kiln_neg(make_pair(dev)[0]);
    assert_int_equal(stats_of(dev).launches, launches + 1);
    kiln_cell *net = kiln_nn_sequential(KILN_CELLS(kiln_nn_relu(), kiln_nn_relu()));
    EXPECT(kiln_cell_call(net, x), 1e-6, 0, 0, 0);
    assert_int_equal(jit_stats_of(kiln_cell_function(net)).captures, 1);
    must(kiln_set_mode(KILN_MODE_EAGER));
    kiln_cell_free(&net);
}

void capability_05(void **state)
{
    on_each_device(only_cells);
}

// --- 6 and 24: one way to differentiate: a rule of the user's is used by the tape and in graphs

static int rule_runs;
static kiln_status square_rule(void *user, kiln_tensor *const *in, kiln_tensor *const *out, kiln_tensor *const *dout,
                               kiln_tensor **din)
{
    rule_runs++;
    din[0] = kiln_mul(dout[0], kiln_scalar(100));
    return kiln_error();
}

static kiln_status square(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_square(in[0]);
    return kiln_error();
}

static kiln_status call_function(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    return kiln_call(user, in, n_in, out, n_out);
}

static void one_rule(kiln_device *dev)
{
    kiln_tensor *x = make_pair(dev)[0], *g = NULL;
    must(kiln_register_bprop("square", square_rule, NULL));
    rule_runs = 0;
    must(kiln_grad(square, NULL, &x, 1, NULL, &g, 1));
    EXPECT(g, 1e-6, 100, 100, 100);
    assert_int_equal(rule_runs, 1);
    static const struct {
        kiln_capture capture;
        int runs;
    } ways[] = {{KILN_CAPTURE_STRICT, 1}, {KILN_CAPTURE_TRACE, 1}, {KILN_CAPTURE_AUTO, 3}};
    for (int k = 0; k < 3; k++) {
        kiln_function *f = kiln_jit(square, NULL, KILN_JIT(.capture = ways[k].capture));
        rule_runs = 0;
        for (int i = 0; i < 3; i++) {
            must(kiln_grad(call_function, f, &x, 1, NULL, &g, 1));
            EXPECT(g, 1e-6, 100, 100, 100);
        }
        assert_int_equal(rule_runs, ways[k].runs); // once while the backward graph was made; in AUTO at each backward
        kiln_function_free(&f);
    }
    must(kiln_register_bprop("square", NULL, NULL));
    // And without it the built-in one, everywhere.
    for (int k = 0; k < 3; k++) {
        kiln_function *f = kiln_jit(square, NULL, KILN_JIT(.capture = ways[k].capture));
        for (int i = 0; i < 3; i++) {
            must(kiln_grad(call_function, f, &x, 1, NULL, &g, 1));
            EXPECT(g, 1e-6, 2, 4, 6);
        }
        kiln_function_free(&f);
    }
}

void capability_06(void **state)
{
    on_each_device(one_rule);
}

static kiln_status product(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_sum(kiln_matmul(in[0], in[1]), NULL);
    return kiln_error();
}

// `user`: how many gradients are asked for; as many results are given as the call wants.
static kiln_status gradients_of_product(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                        size_t n_out)
{
    kiln_tensor *g[2];
    const int64_t wrt[] = {0, 1};
    size_t n = *(const size_t *)user;
    TRY(kiln_grad(product, NULL, in, 2, KILN_GRAD(.wrt = {n, wrt}), g, n));
    for (size_t i = 0; i < n_out; i++) out[i] = g[i];
    return kiln_error();
}

static uint64_t launches_of_gradients(kiln_device *dev, size_t n_asked, size_t n_out)
{
    kiln_tensor *in[] = {from(dev, NUMBERS(1, 2, 3, 4, 5, 6), KILN_SHAPE(2, 3)),
                         from(dev, NUMBERS(1, 0, -1, 2, 0.5, 3), KILN_SHAPE(3, 2))};
    kiln_tensor *out[2];
    kiln_function *f = kiln_jit(gradients_of_product, &n_asked, NULL);
    must(kiln_call(f, in, 2, out, n_out));
    uint64_t launches = stats_of(dev).launches;
    must(kiln_call(f, in, 2, out, n_out));
    launches = stats_of(dev).launches - launches;
    EXPECT(out[0], 1e-6, 1, 1, 3.5, 1, 1, 3.5);
    if (n_out == 2) EXPECT(out[1], 1e-6, 5, 5, 7, 7, 9, 9);
    kiln_function_free(&f);
    return launches;
}

// A gradient that nobody uses costs nothing.
static void joint_graph(kiln_device *dev)
{
    uint64_t one = launches_of_gradients(dev, 1, 1), unused = launches_of_gradients(dev, 2, 1),
             both = launches_of_gradients(dev, 2, 2);
    assert_int_equal(unused, one);
    assert_true(both > one);
}

void capability_24(void **state)
{
    on_each_device(one_rule);
    on_each_device(joint_graph);
}

// --- 7 and 28: static syntax: what needs a value is an error that names the call, the line and the remedy

static void strict_errors(kiln_device *dev)
{
    kiln_tensor *x = make_pair(dev)[0], *out = NULL;
    must(branch(NULL, &x, 1, &out, 1));
    EXPECT(out, 1e-6, -1, -2, -3);
    kiln_function *f = kiln_jit(branch, NULL, NULL);
    assert_int_equal(kiln_call(f, &x, 1, &out, 1), KILN_E_STATE);
    EXPECT_ERROR(KILN_E_STATE, "item: ", "kiln_where", "read it outside", "KILN_CAPTURE_AUTO", "(captured.h:");
    kiln_function_free(&f);
}

static kiln_status branch_construct(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                    size_t n_out)
{
    return branch(user, in, n_in, out, n_out);
}

// A network that runs in eager mode, then in graph mode.
static void switched_network(kiln_device *dev)
{
    kiln_tensor *x = make_pair(dev)[0];
    kiln_cell *net =
        kiln_cell_create(KILN_CELL(.kind = "branch", .construct = branch_construct, .n_in = 1, .n_out = 1));
    EXPECT(kiln_cell_call(net, x), 1e-6, -1, -2, -3);
    must(kiln_set_mode(KILN_MODE_GRAPH));
    for (int again = 0; again < 2; again++) {
        assert_null(kiln_cell_call(net, x));
        EXPECT_ERROR(KILN_E_STATE, "item: ", "kiln_where", "read it outside", "KILN_CAPTURE_AUTO", "(captured.h:");
    }
    must(kiln_set_mode(KILN_MODE_EAGER));
    EXPECT(kiln_cell_call(net, x), 1e-6, -1, -2, -3);
    kiln_cell_free(&net);
}

void capability_07(void **state)
{
    on_each_device(strict_errors);
    on_each_device(switched_network);
}

void capability_28(void **state)
{
    on_each_device(strict_errors);
}

// --- 8: a captured function, and a captured cell, inside dynamic code

static void mixed(kiln_device *dev)
{
    kiln_tensor *x = kiln_parameter(from(dev, NUMBERS(2, 3), KILN_SHAPE(1, 2)), "x");
    kiln_cell *net = kiln_nn_sequential(
        KILN_CELLS(kiln_nn_dense(dev, 2, 1, KILN_NN_DENSE(.weight_init = "ones", .bias_init = "zeros"))));
    must(kiln_cell_jit(kiln_cell_child(net, "0"), NULL));
    kiln_tensor *y = kiln_square(kiln_cell_call(net, kiln_mul(x, kiln_scalar(2))));
    EXPECT(y, 1e-6, 100);
    must(kiln_backward(y, NULL));
    EXPECT(kiln_gradient(x), 1e-6, 40, 40);
    EXPECT(kiln_gradient(kiln_cell_parameter(net, "0.weight")), 1e-6, 80, 120);
    assert_int_equal(jit_stats_of(kiln_cell_function(kiln_cell_child(net, "0"))).captures, 1);
    kiln_cell_free(&net);
}

void capability_08(void **state)
{
    on_each_device(mixed);
}

// --- 9: compiled first, executed later; 10: taken away and put back; 27: one representation

static void compiled_once(kiln_device *dev)
{
    int runs = 0;
    kiln_tensor *const *in = make_pair(dev), *out = NULL;
    kiln_function *f = kiln_jit(chain, &runs, NULL);
    assert_int_equal(runs, 0);
    for (int i = 0; i < 5; i++) must(kiln_call(f, in, 2, &out, 1));
    assert_int_equal(runs, 1);
    assert_int_equal(jit_stats_of(f).captures, 1);
    assert_int_equal(jit_stats_of(f).calls, 5);
    kiln_function_free(&f);
}

void capability_09(void **state)
{
    on_each_device(compiled_once);
}

// Calls of a captured function and of a network in graph mode, while captures are switched off.
static void runs_eagerly(kiln_device *dev)
{
    int runs = 0;
    kiln_tensor *const *in = make_pair(dev), *out = NULL;
    kiln_function *f = kiln_jit(chain, &runs, NULL);
    kiln_cell *net = kiln_cell_create(
        KILN_CELL(.kind = "chain", .construct = chain_construct, .user = &runs, .n_in = 2, .n_out = 1));
    uint64_t launches = stats_of(dev).launches;
    for (int i = 0; i < 3; i++) must(kiln_call(f, in, 2, &out, 1));
    EXPECT(out, 1e-6, 3, 9, 0);
    must(kiln_set_mode(KILN_MODE_GRAPH));
    for (int i = 0; i < 3; i++) must(kiln_cell_call_n(net, in, 2, &out, 1));
    must(kiln_set_mode(KILN_MODE_EAGER));
    EXPECT(out, 1e-6, 3, 9, 0);
    assert_int_equal(runs, 6);
    assert_int_equal(jit_stats_of(f).captures, 0);
    if (kiln_cell_function(net)) assert_int_equal(jit_stats_of(kiln_cell_function(net)).captures, 0);
    assert_true(stats_of(dev).launches - launches >= 18); // op by op
    kiln_cell_free(&net);
    kiln_function_free(&f);
}

static void switched_off(kiln_device *dev)
{
    int runs = 0;
    kiln_tensor *const *in = make_pair(dev), *out = NULL;
    kiln_function *f = kiln_jit(chain, &runs, NULL);
    kiln_jit_enable(false);
    runs_eagerly(dev);
    for (int i = 0; i < 3; i++) must(kiln_call(f, in, 2, &out, 1));
    kiln_jit_enable(true);
    assert_int_equal(runs, 3);
    EXPECT(out, 1e-6, 3, 9, 0);
    must(kiln_call(f, in, 2, &out, 1));
    must(kiln_call(f, in, 2, &out, 1));
    assert_int_equal(runs, 4);
    EXPECT(out, 1e-6, 3, 9, 0);
    kiln_function_free(&f);
}

void capability_10(void **state)
{
    if (getenv("KILN_TEST_CHILD")) {
        on_each_device(runs_eagerly);
        return;
    }
    on_each_device(switched_off);
    run_child("capability_10", "KILN_JIT=0", (const char *const[]){"KILN_JIT", "0", NULL});
}

static char *file_in(const char *folder, const char *name)
{
    char command[256], *text = NULL;
    size_t size = 0;
    snprintf(command, sizeof command, "cat %s/*/%s", folder, name);
    FILE *from_shell = popen(command, "r"), *memory = open_memstream(&text, &size);
    assert_non_null(from_shell);
    assert_non_null(memory);
    for (int c; (c = fgetc(from_shell)) != EOF;) fputc(c, memory);
    fclose(memory);
    assert_int_equal(pclose(from_shell), 0);
    return text;
}

// The graph that a capture hands to the passes, and the one that they make of it.
static void captured_graphs(kiln_device *dev, kiln_capture capture, kiln_graph **out)
{
    char folder[] = "/tmp/kiln-test-XXXXXX", command[64];
    kiln_tensor *const *in = make_pair(dev), *result = NULL;
    assert_non_null(mkdtemp(folder));
    setenv("KILN_DUMP", folder, 1);
    kiln_function *f = kiln_jit(chain, NULL, KILN_JIT(.capture = capture));
    for (int i = 0; i < 3; i++) must(kiln_call(f, in, 2, &result, 1));
    EXPECT(result, 1e-6, 3, 9, 0);
    unsetenv("KILN_DUMP");
    kiln_function_free(&f);
    for (int i = 0; i < 2; i++) {
        char *text = file_in(folder, i ? "graph.kiln" : "00-captured.kiln");
        out[i] = kiln_graph_parse(text);
        if (!out[i]) fail_msg("%s in\n%s", kiln_error_message(), text);
        free(text);
    }
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

static void one_form(kiln_device *dev)
{
    const kiln_capture captures[] = {KILN_CAPTURE_STRICT, KILN_CAPTURE_TRACE, KILN_CAPTURE_AUTO};
    kiln_graph *graphs[3][2];
    for (int i = 0; i < 3; i++) captured_graphs(dev, captures[i], graphs[i]);
    for (int stage = 0; stage < 2; stage++) {
        assert_true(kiln_graph_node_count(graphs[0][stage]) == 3);
        for (int i = 1; i < 3; i++)
            if (!ir_graph_equal(graphs[0][stage], graphs[i][stage])) fail_msg("capture %d, stage %d", i, stage);
    }
    for (int i = 0; i < 6; i++) kiln_graph_free(&graphs[i / 2][i % 2]);
}

void capability_27(void **state)
{
    on_each_device(one_form);
}
