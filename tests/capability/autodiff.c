// Rows 17 to 23 and 72: the tape, the rules and their registry, both interfaces, the sensitivity, parameters.
#include "capability.h"

static const double xs[] = {0.8, 0.6, 0.2, 1.8, 1.3, 1.1}, ys[] = {0.11, 3.3, 1.1, 1.1, 0.2, 1.4, 1.1, 2.2, 0.3};

// matmul(x * z, y), z the third input.
static kiln_status net(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_matmul(kiln_mul(in[0], in[2]), in[1]);
    return kiln_error();
}

static void net_inputs(kiln_device *dev, kiln_tensor **in)
{
    in[0] = from(dev, xs, KILN_SHAPE(2, 3));
    in[1] = from(dev, ys, KILN_SHAPE(3, 3));
    in[2] = from(dev, NUMBERS(2), KILN_SHAPE(1));
}

// The text of a reverse graph; the caller frees it.
static char *graph_text(kiln_tensor *t, size_t *n_nodes)
{
    kiln_graph *g = kiln_backward_graph(t);
    if (!g) fail_msg("%s", kiln_error_message());
    char *text = NULL;
    size_t size_B = 0;
    FILE *f = open_memstream(&text, &size_B);
    assert_non_null(f);
    assert_int_equal(kiln_graph_print(g, f), KILN_OK);
    fclose(f);
    *n_nodes = kiln_graph_node_count(g);
    for (size_t i = 0; i < *n_nodes; i++) assert_non_null(strstr(text, kiln_graph_node_op(g, i)));
    kiln_graph_free(&g);
    return text;
}

// --- 17: all ops applied to tensors are recorded, each one's reverse found, chained, and run on the device

static void record_all(kiln_device *dev)
{
    kiln_tensor *x = kiln_parameter(from(dev, NUMBERS(0.5, -1, 2, 3), KILN_SHAPE(2, 2)), "x");
    kiln_tensor *y = kiln_exp(x);                                                           // e^x
    y = kiln_transpose(y, 0, 1);                                                            // a view
    y = kiln_concat((kiln_tensor *const[]){y, kiln_square(kiln_transpose(x, 0, 1))}, 2, 0); // and x^2 beside
    y = kiln_sum(kiln_mul(y, kiln_scalar(3)), NULL);
    size_t n = 0;
    char *text = graph_text(y, &n);
    // One reverse op at least for each of the seven that were recorded, without any of them having run.
    assert_true(n >= 7);
    assert_non_null(strstr(text, "transpose"));
    assert_non_null(strstr(text, "f32[2,2]"));
    free(text);
    uint64_t launches = stats_of(dev).launches;
    assert_int_equal(kiln_backward(y, NULL), KILN_OK);
    assert_true(stats_of(dev).launches >= launches + 3);
    kiln_tensor *dx = kiln_gradient(x);
    assert_ptr_equal(kiln_tensor_device(dx), dev);
    EXPECT(dx, 1e-5, 3 * (exp(0.5) + 1), 3 * (exp(-1) - 2), 3 * (exp(2) + 4), 3 * (exp(3) + 6));
}

void capability_17(void **state)
{
    on_each_device(record_all);
}

// --- 18: a rule a op, registered by its name; the gradients of broadcast inputs are reduced for it

static int calls;

// Ten times the true gradient, so that it shows whose rule ran.
static kiln_status tenfold(void *user, kiln_tensor *const *in, kiln_tensor *const *out, kiln_tensor *const *dout,
                           kiln_tensor **din)
{
    calls++;
    assert_ptr_equal(user, &calls);
    if (kiln_rule_wants(0)) din[0] = kiln_mul(kiln_mul(in[1], dout[0]), kiln_scalar(10));
    if (kiln_rule_wants(1)) din[1] = kiln_mul(kiln_mul(in[0], dout[0]), kiln_scalar(10));
    return kiln_error();
}

static void register_rule(kiln_device *dev)
{
    kiln_tensor *in[3], *grads[2] = {NULL};
    net_inputs(dev, in);
    calls = 0;
    assert_int_equal(kiln_register_bprop("Mul", tenfold, &calls), KILN_OK);
    assert_int_equal(kiln_grad(net, NULL, in, 3, KILN_GRAD(.wrt = KILN_ARGS(0, 2)), grads, 2), KILN_OK);
    assert_int_equal(calls, 1);
    EXPECT(grads[0], 1e-6, 90.2, 54, 72, 90.2, 54, 72);
    assert_int_equal(kiln_rank(grads[1]), 1);
    EXPECT(grads[1], 1e-6, 10 * (2.6 * 4.51 + 1.9 * 2.7 + 1.3 * 3.6));
    assert_int_equal(kiln_register_bprop("mul", NULL, NULL), KILN_OK);
    assert_int_equal(kiln_grad(net, NULL, in, 3, NULL, grads, 1), KILN_OK);
    assert_int_equal(calls, 1);
    EXPECT(grads[0], 1e-6, 9.02, 5.4, 7.2, 9.02, 5.4, 7.2);
    assert_int_not_equal(kiln_register_bprop("frobnicate", tenfold, NULL), KILN_OK);
    EXPECT_ERROR(KILN_E_ARGUMENT, "frobnicate", "autodiff.c:");
}

void capability_18(void **state)
{
    on_each_device(register_rule);
}

// --- 19: a rule sees the values of inputs, outputs and output gradients; they are kept as references, the unused not
// at all

struct seen {
    double in, out, dout;
    size_t n_in, n_out;
    bool had_in, had_out;
};

static kiln_status look(void *user, kiln_tensor *const *in, kiln_tensor *const *out, kiln_tensor *const *dout,
                        kiln_tensor **din)
{
    struct seen *s = user;
    s->n_in = kiln_rule_n_in();
    s->n_out = kiln_rule_n_out();
    s->had_in = in[0] != NULL;
    s->had_out = out[0] != NULL;
    if (in[0]) s->in = kiln_item(in[0]);
    if (out[0]) s->out = kiln_item(out[0]);
    s->dout = kiln_item(dout[0]);
    din[0] = kiln_full_like(dout[0], 42);
    return kiln_error();
}

static void keep_values(kiln_device *dev)
{
    struct seen s = {0};
    assert_int_equal(kiln_register_bprop("exp", look, &s), KILN_OK);
    kiln_tensor *x = kiln_parameter(from(dev, NUMBERS(0.5), KILN_SHAPE0), "x"),
                *sens = from(dev, NUMBERS(7), KILN_SHAPE0);
    assert_int_equal(kiln_backward(kiln_exp(x), sens), KILN_OK);
    assert_true(s.n_in == 1 && s.n_out == 1 && s.had_in && s.had_out);
    assert_true(s.in == 0.5 && fabs(s.out - exp(0.5)) < 1e-6 && s.dout == 7);
    EXPECT(kiln_gradient(x), 0, 42);
    // Asked for nothing, it is given nothing.
    assert_int_equal(kiln_register_rule(KILN_RULE(.op = "exp", .fn = look, .user = &s, .needs_out = 1)), KILN_OK);
    assert_int_equal(kiln_backward(kiln_exp(x), NULL), KILN_OK);
    assert_true(!s.had_in && s.had_out && s.dout == 1);
    assert_int_equal(kiln_register_bprop("exp", NULL, NULL), KILN_OK);

    // References, not copies: what the tape keeps adds no storage, what no rule asks for goes with its handle.
    kiln_tensor *w = kiln_parameter(kiln_ones(dev, KILN_F32, KILN_SHAPE(64)), "w");
    uint64_t before = stats_of(dev).tensors;
    kiln_tensor *a = kiln_exp(w);    // the rule takes the output
    kiln_tensor *b = kiln_add(a, w); // takes nothing
    kiln_tensor *c = kiln_neg(b);    // takes nothing
    assert_int_equal(stats_of(dev).tensors, before + 3);
    kiln_free(&b);
    assert_int_equal(stats_of(dev).tensors, before + 2);
    kiln_free(&a);
    assert_int_equal(stats_of(dev).tensors, before + 2);
    kiln_tensor *loss = kiln_sum(c, NULL);
    kiln_free(&c);
    assert_int_equal(stats_of(dev).tensors, before + 2);
    assert_int_equal(kiln_backward(loss, NULL), KILN_OK);
    kiln_free(&loss);
    assert_int_equal(stats_of(dev).tensors, before + 1); // the gradient
    EXPECT(kiln_select(kiln_gradient(w), 0, 5), 1e-6, -exp(1) - 1);
}

void capability_19(void **state)
{
    on_each_device(keep_values);
}

// --- 20: gradients of functions and by backward from a value: the same numbers

static void both_ways(kiln_device *dev)
{
    kiln_tensor *in[3], *dx = NULL, *results[4] = {NULL};
    net_inputs(dev, in);
    assert_int_equal(kiln_grad(net, NULL, in, 3, NULL, &dx, 1), KILN_OK);
    EXPECT(dx, 1e-6, 9.02, 5.4, 7.2, 9.02, 5.4, 7.2);
    assert_int_equal(kiln_value_and_grad(net, NULL, in, 3, KILN_GRAD(.wrt = KILN_ARGS(0, 1, 2)), results, 4), KILN_OK);
    EXPECT(results[1], 1e-6, 9.02, 5.4, 7.2, 9.02, 5.4, 7.2);
    EXPECT(results[2], 1e-6, 5.2, 5.2, 5.2, 3.8, 3.8, 3.8, 2.6, 2.6, 2.6);

    kiln_tensor *p[3], *out = NULL;
    for (int i = 0; i < 3; i++) p[i] = kiln_parameter(in[i], "p");
    assert_int_equal(net(NULL, p, 3, &out, 1), KILN_OK);
    assert_int_equal(kiln_backward(out, NULL), KILN_OK);
    for (int i = 0; i < 3; i++) {
        kiln_tensor *far = kiln_max(kiln_abs(kiln_sub(kiln_gradient(p[i]), results[i + 1])), NULL);
        assert_true(kiln_item(far) == 0);
    }
    // The tape is gone after it.
    assert_int_not_equal(kiln_backward(out, NULL), KILN_OK);
    EXPECT_ERROR(KILN_E_GRADIENT, "backward");
}

void capability_20(void **state)
{
    on_each_device(both_ways);
}

// --- 21: the gradient given for the output: ones, or a scale

static void scale(kiln_device *dev)
{
    kiln_tensor *in[3], *dx = NULL;
    net_inputs(dev, in);
    assert_int_equal(kiln_grad(net, NULL, in, 3, NULL, &dx, 1), KILN_OK);
    EXPECT(dx, 1e-6, 9.02, 5.4, 7.2, 9.02, 5.4, 7.2);
    kiln_tensor *ones = kiln_ones(dev, KILN_F32, KILN_SHAPE(2, 3)), *sens = kiln_mul(ones, kiln_scalar(0.5));
    assert_int_equal(kiln_grad(net, NULL, in, 3, KILN_GRAD(.sens = KILN_TENSORS(ones)), &dx, 1), KILN_OK);
    EXPECT(dx, 1e-6, 9.02, 5.4, 7.2, 9.02, 5.4, 7.2);
    assert_int_equal(kiln_grad(net, NULL, in, 3, KILN_GRAD(.sens = KILN_TENSORS(sens)), &dx, 1), KILN_OK);
    EXPECT(dx, 1e-6, 4.51, 2.7, 3.6, 4.51, 2.7, 3.6);
    // Only the second row of the output counts.
    kiln_tensor *row = from(dev, NUMBERS(0, 0, 0, 1, 1, 1), KILN_SHAPE(2, 3));
    assert_int_equal(kiln_grad(net, NULL, in, 3, KILN_GRAD(.sens = KILN_TENSORS(row)), &dx, 1), KILN_OK);
    EXPECT(dx, 1e-6, 0, 0, 0, 9.02, 5.4, 7.2);
    kiln_tensor *wrong = kiln_ones(dev, KILN_F32, KILN_SHAPE(3, 2));
    assert_int_not_equal(kiln_grad(net, NULL, in, 3, KILN_GRAD(.sens = KILN_TENSORS(wrong)), &dx, 1), KILN_OK);
    EXPECT_ERROR(KILN_E_SHAPE, "[2,3]", "[3,2]", "autodiff.c:");
}

void capability_21(void **state)
{
    on_each_device(scale);
}

// --- 22: by the second input

static void second(kiln_device *dev)
{
    kiln_tensor *in[3], *grads[2] = {NULL};
    net_inputs(dev, in);
    assert_int_equal(kiln_grad(net, NULL, in, 3, KILN_GRAD(.wrt = KILN_ARGS(1)), grads, 1), KILN_OK);
    EXPECT(grads[0], 1e-6, 5.2, 5.2, 5.2, 3.8, 3.8, 3.8, 2.6, 2.6, 2.6);
    assert_int_equal(kiln_grad(net, NULL, in, 3, KILN_GRAD(.wrt = KILN_ARGS(1, 0)), grads, 2), KILN_OK);
    EXPECT(grads[0], 1e-6, 5.2, 5.2, 5.2, 3.8, 3.8, 3.8, 2.6, 2.6, 2.6);
    EXPECT(grads[1], 1e-6, 9.02, 5.4, 7.2, 9.02, 5.4, 7.2);
    assert_int_not_equal(kiln_grad(net, NULL, in, 3, KILN_GRAD(.wrt = KILN_ARGS(3)), grads, 1), KILN_OK);
    EXPECT_ERROR(KILN_E_ARGUMENT, "grad", "3", "autodiff.c:");
}

void capability_22(void **state)
{
    on_each_device(second);
}

// --- 23: a parameter takes part as one, by its name

static kiln_status with_parameter(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                  size_t n_out)
{
    out[0] = kiln_matmul(kiln_mul(in[0], kiln_cell_parameter(cell, "z")), in[1]);
    return kiln_error();
}

static void named(kiln_device *dev)
{
    kiln_tensor *in[3], *grads[2] = {NULL};
    net_inputs(dev, in);
    kiln_cell *cell = kiln_cell_create(KILN_CELL(.construct = with_parameter, .n_in = 2, .n_out = 1));
    kiln_cell_add_parameter(cell, "z", kiln_parameter(in[2], "z"));
    kiln_tensor *z = kiln_cell_parameter(cell, "z");
    assert_non_null(z);
    assert_string_equal(kiln_name(z), "z");
    assert_true(kiln_requires_grad(z) && kiln_is_leaf(z));
    assert_int_equal(kiln_grad(kiln_cell_fn, cell, in, 2, NULL, grads, 1), KILN_OK);
    EXPECT(grads[0], 1e-6, 9.02, 5.4, 7.2, 9.02, 5.4, 7.2);
    assert_int_equal(kiln_grad(kiln_cell_fn, cell, in, 2, KILN_GRAD(.params = KILN_PARAMS(z)), grads, 1), KILN_OK);
    EXPECT(grads[0], 1e-6, 2.6 * 4.51 + 1.9 * 2.7 + 1.3 * 3.6);
    // Its value is read anew at each call.
    kiln_no_grad_begin();
    assert_int_equal(kiln_assign(z, kiln_scalar(3)), KILN_OK);
    kiln_no_grad_end();
    assert_int_equal(kiln_grad(kiln_cell_fn, cell, in, 2, NULL, grads, 1), KILN_OK);
    EXPECT(grads[0], 1e-6, 13.53, 8.1, 10.8, 13.53, 8.1, 10.8);
    kiln_cell_free(&cell);
}

void capability_23(void **state)
{
    on_each_device(named);
}

// --- 72: backward graphs are built from the registered rules, and can be looked at

static kiln_status by_sine(void *user, kiln_tensor *const *in, kiln_tensor *const *out, kiln_tensor *const *dout,
                           kiln_tensor **din)
{
    din[0] = kiln_mul(kiln_sin(in[0]), dout[0]);
    return kiln_error();
}

static void show_graph(kiln_device *dev)
{
    size_t n = 0;
    kiln_tensor *x = kiln_parameter(from(dev, NUMBERS(0.5, 1), KILN_SHAPE(2)), "x");
    kiln_tensor *built_in = kiln_square(x);
    char *text = graph_text(built_in, &n);
    assert_true(n >= 1);
    assert_null(strstr(text, "sin("));
    free(text);
    assert_int_equal(kiln_register_bprop("square", by_sine, NULL), KILN_OK);
    kiln_tensor *replaced = kiln_square(x);
    text = graph_text(replaced, &n);
    assert_int_equal(n, 2);
    assert_non_null(strstr(text, "sin("));
    assert_non_null(strstr(text, "mul("));
    free(text);
    // What is on the tape already keeps its rule.
    assert_int_equal(kiln_backward(built_in, NULL), KILN_OK);
    EXPECT(kiln_gradient(x), 1e-6, 1, 2);
    assert_int_equal(kiln_backward(replaced, NULL), KILN_OK);
    EXPECT(kiln_gradient(x), 1e-6, sin(0.5), sin(1));
    assert_int_equal(kiln_register_bprop("square", NULL, NULL), KILN_OK);

    kiln_tensor *again = kiln_square(x);
    kiln_graph *g = kiln_backward_graph(again);
    assert_non_null(g);
    char dot[4096] = "";
    FILE *f = fmemopen(dot, sizeof dot, "w");
    assert_int_equal(kiln_graph_dot(g, f), KILN_OK);
    fclose(f);
    assert_non_null(strstr(dot, "digraph"));
    assert_non_null(strstr(dot, "->"));
    kiln_graph_free(&g);
}

void capability_72(void **state)
{
    on_each_device(show_graph);
}
