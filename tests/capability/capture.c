// Rows 1, 3 to 10, 24, 27 to 29, 34, 42, 43, 45 to 48 and 64: modes, captured functions, guards, constants.
#include "capability.h"

#include <kiln/ops.h>

static kiln_status chain(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    if (user) ++*(int *)user;
    out[0] = kiln_relu(kiln_sub(kiln_mul(in[0], in[1]), kiln_scalar(1)));
    return kiln_error();
}

static kiln_tensor *pair[2];
static kiln_tensor *const *make_pair(kiln_device *dev)
{
    pair[0] = from(dev, NUMBERS(1, 2, 3), KILN_SHAPE(3));
    pair[1] = from(dev, NUMBERS(4, 5, -6), KILN_SHAPE(3));
    return pair;
}

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

void capability_01(void **state)
{
    on_each_device(whole_graph);
}

// --- 3: the mode of a thread

void capability_03(void **state)
{
    assert_int_equal(kiln_get_mode(), KILN_MODE_EAGER);
    must(kiln_set_mode(KILN_MODE_GRAPH));
    assert_int_equal(kiln_get_mode(), KILN_MODE_GRAPH);
    must(kiln_set_mode(KILN_MODE_EAGER));
    must(kiln_set_device(cpu()));
    assert_ptr_equal(kiln_get_device(), cpu());
}

// --- 4: single ops, plain functions, networks, and the gradient alone, in each mode

static void four_kinds(kiln_device *dev)
{
    for (int mode = KILN_MODE_EAGER; mode <= KILN_MODE_GRAPH; mode++) {
        must(kiln_set_mode((kiln_mode)mode));
        kiln_tensor *const *in = make_pair(dev), *out = NULL, *grad = NULL;
        EXPECT(kiln_add(in[0], in[1]), 1e-6, 5, 7, -3);
        must(chain(NULL, in, 2, &out, 1));
        EXPECT(out, 1e-6, 3, 9, 0);
        kiln_cell *net = kiln_nn_dense(dev, 3, 1, KILN_NN_DENSE(.weight_init = "ones"));
        EXPECT(kiln_cell_call(net, kiln_reshape(in[0], KILN_SHAPE(1, 3))), 1e-6, 6);
        assert_int_equal(kiln_cell_function(net) != NULL, mode == KILN_MODE_GRAPH);
        must(kiln_grad(chain, NULL, in, 2, NULL, &grad, 1));
        EXPECT(grad, 1e-6, 4, 5, 0);
        kiln_cell_free(&net);
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
    kiln_function *f = kiln_jit(square, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        must(kiln_grad(call_function, f, &x, 1, NULL, &g, 1));
        EXPECT(g, 1e-6, 100, 100, 100);
    }
    assert_int_equal(rule_runs, 2); // once on the tape, once while the backward graph was made
    must(kiln_register_bprop("square", NULL, NULL));
    kiln_function_free(&f);
}

void capability_06(void **state)
{
    on_each_device(one_rule);
}

static kiln_status unused_gradient(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *g[2];
    must(kiln_grad(chain, NULL, in, 2, KILN_GRAD(.wrt = KILN_ARGS(0, 1)), g, 2));
    out[0] = g[0];
    return kiln_error();
}

static void joint_graph(kiln_device *dev)
{
    kiln_tensor *const *in = make_pair(dev), *out = NULL;
    kiln_function *f = kiln_jit(unused_gradient, NULL, NULL);
    for (int i = 0; i < 2; i++) {
        must(kiln_call(f, in, 2, &out, 1));
        EXPECT(out, 1e-6, 4, 5, 0);
    }
    kiln_function_free(&f);
}

void capability_24(void **state)
{
    on_each_device(one_rule);
    on_each_device(joint_graph);
}

// --- 7 and 28: static syntax: what needs a value is an error that names the call, the line and the remedy

static kiln_status branch(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_item(kiln_sum(in[0], NULL)) > 0 ? kiln_neg(in[0]) : in[0];
    return kiln_error();
}

static void strict_errors(kiln_device *dev)
{
    kiln_tensor *x = make_pair(dev)[0], *out = NULL;
    must(branch(NULL, &x, 1, &out, 1));
    EXPECT(out, 1e-6, -1, -2, -3);
    kiln_function *f = kiln_jit(branch, NULL, NULL);
    assert_int_equal(kiln_call(f, &x, 1, &out, 1), KILN_E_STATE);
    EXPECT_ERROR(KILN_E_STATE, "item: ", "kiln_where", "read it outside", "KILN_CAPTURE_AUTO", "(capture.c:");
    kiln_function_free(&f);
}

void capability_07(void **state)
{
    on_each_device(strict_errors);
}

void capability_28(void **state)
{
    on_each_device(strict_errors);
}

// --- 8: a captured function, and a captured cell, inside dynamic code

static void mixed(kiln_device *dev)
{
    kiln_tensor *x = kiln_parameter(from(dev, NUMBERS(2, 3), KILN_SHAPE(1, 2)), "x");
    kiln_cell *net = kiln_nn_sequential(KILN_CELLS(kiln_nn_dense(dev, 2, 1, KILN_NN_DENSE(.weight_init = "ones"))));
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

static void switched_off(kiln_device *dev)
{
    int runs = 0;
    kiln_tensor *const *in = make_pair(dev), *out = NULL;
    kiln_function *f = kiln_jit(chain, &runs, NULL);
    kiln_jit_enable(false);
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
    on_each_device(switched_off);
}

static void one_form(kiln_device *dev)
{
    kiln_tensor *const *in = make_pair(dev), *out = NULL;
    uint64_t nodes[2];
    for (int i = 0; i < 2; i++) {
        kiln_function *f = kiln_jit(chain, NULL, KILN_JIT(.capture = i ? KILN_CAPTURE_TRACE : KILN_CAPTURE_STRICT));
        must(kiln_call(f, in, 2, &out, 1));
        EXPECT(out, 1e-6, 3, 9, 0);
        nodes[i] = jit_stats_of(f).nodes;
        kiln_function_free(&f);
    }
    assert_int_equal(nodes[0], nodes[1]);
}

void capability_27(void **state)
{
    on_each_device(one_form);
}

// --- 29: advice at run time: small functions, constants that change

static kiln_status repeat(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_tile(in[0], KILN_SHAPE(kiln_item_int(in[1])));
    return kiln_error();
}

static void advice(kiln_device *dev)
{
    kiln_tensor *x = make_pair(dev)[0], *out = NULL;
    listen_to_log();
    kiln_function *f = kiln_jit(repeat, NULL, KILN_JIT(.recompile_limit = 2));
    for (int i = 1; i < 6; i++) {
        kiln_tensor *in[] = {x, kiln_scalar_int(i)};
        must(kiln_call(f, in, 2, &out, 1));
        assert_int_equal(kiln_numel(out), 3 * i);
    }
    kiln_set_log(NULL, NULL);
    assert_non_null(strstr(warned, "tiny-graph: "));
    assert_non_null(strstr(warned, "recompile-const: "));
    assert_non_null(strstr(warned, "run eagerly"));
    kiln_function_free(&f);
}

void capability_29(void **state)
{
    on_each_device(advice);
}

// --- 34: a trace runs for real, then replays

static void trace(kiln_device *dev)
{
    kiln_tensor *x = make_pair(dev)[0], *y = kiln_neg(x), *out = NULL;
    kiln_function *f = kiln_jit(branch, NULL, KILN_JIT(.capture = KILN_CAPTURE_TRACE));
    must(kiln_call(f, &x, 1, &out, 1));
    EXPECT(out, 1e-6, -1, -2, -3);
    must(kiln_call(f, &y, 1, &out, 1)); // the branch of the first call
    EXPECT(out, 1e-6, 1, 2, 3);
    kiln_function_free(&f);
}

void capability_34(void **state)
{
    on_each_device(trace);
}

// --- 42 and 43: guards, and the cache of what was compiled under them

static void guarded(kiln_device *dev)
{
    kiln_tensor *const *in = make_pair(dev), *out = NULL;
    kiln_tensor *longer[] = {kiln_concat(in, 2, 0), kiln_concat(in, 2, 0)};
    kiln_function *f = kiln_jit(chain, NULL, KILN_JIT(.cache_entries = 2));
    for (int i = 0; i < 4; i++) must(kiln_call(f, i % 2 ? longer : in, 2, &out, 1));
    kiln_jit_stats s = jit_stats_of(f);
    assert_int_equal(s.captures, 2);
    assert_int_equal(s.guard_misses, 1);
    assert_int_equal(s.programs, 2);
    char *text = explanation_of(f);
    assert_non_null(strstr(text, "guard dims: input 0 was f32[3], is f32[6]"));
    free(text);
    kiln_tensor *third[] = {kiln_cast(in[0], KILN_I32), kiln_cast(in[1], KILN_I32)};
    must(kiln_call(f, third, 2, &out, 1));
    s = jit_stats_of(f);
    assert_int_equal(s.programs, 2);
    assert_int_equal(s.evictions, 1);
    kiln_function_free(&f);
}

void capability_42(void **state)
{
    on_each_device(guarded);
}

void capability_43(void **state)
{
    on_each_device(guarded);
}

// --- 45: the options

static uint64_t hash_user(void *user)
{
    return *(uint64_t *)user;
}

static kiln_status add_user(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_relu(kiln_add(in[0], kiln_scalar((double)*(uint64_t *)user)));
    return kiln_error();
}

static void options(kiln_device *dev)
{
    uint64_t user = 1;
    kiln_tensor *x = make_pair(dev)[0], *out = NULL, *other = kiln_reshape(x, KILN_SHAPE(3, 1));
    kiln_function *f = kiln_jit(add_user, &user, KILN_JIT(.input_signature = KILN_TENSORS(x), .hash_args = hash_user));
    must(kiln_call(f, &x, 1, &out, 1));
    EXPECT(out, 1e-6, 2, 3, 4);
    user = 2;
    must(kiln_call(f, &x, 1, &out, 1));
    EXPECT(out, 1e-6, 3, 4, 5);
    assert_int_equal(kiln_call(f, &other, 1, &out, 1), KILN_E_SHAPE);
    EXPECT_ERROR(KILN_E_SHAPE, "f32[3,1]", "its signature says f32[3]");
    kiln_function_free(&f);
}

void capability_45(void **state)
{
    on_each_device(options);
}

// --- 46: AUTO counts as STRICT in graph mode, with a warning; 47: the inner one of two is a part of the outer

static void auto_in_graph_mode(kiln_device *dev)
{
    kiln_tensor *x = make_pair(dev)[0], *out = NULL;
    listen_to_log();
    kiln_function *f = kiln_jit(branch, NULL, KILN_JIT(.capture = KILN_CAPTURE_AUTO));
    must(kiln_call(f, &x, 1, &out, 1));
    EXPECT(out, 1e-6, -1, -2, -3);
    assert_string_equal(warned, "");
    must(kiln_set_mode(KILN_MODE_GRAPH));
    assert_int_equal(kiln_call(f, &x, 1, &out, 1), KILN_E_STATE);
    EXPECT_ERROR(KILN_E_STATE, "item: ");
    must(kiln_set_mode(KILN_MODE_EAGER));
    kiln_set_log(NULL, NULL);
    assert_non_null(strstr(warned, "in graph mode it is captured as STRICT"));
    kiln_function_free(&f);
}

void capability_46(void **state)
{
    on_each_device(auto_in_graph_mode);
}

static kiln_status call_inner(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *t = NULL;
    kiln_call(user, in, n_in, &t, 1);
    out[0] = kiln_neg(t);
    return kiln_error();
}

static void inner_is_inlined(kiln_device *dev)
{
    kiln_tensor *const *in = make_pair(dev), *out = NULL;
    kiln_function *inner = kiln_jit(chain, NULL, KILN_JIT(.capture = KILN_CAPTURE_AUTO)),
                  *f = kiln_jit(call_inner, inner, NULL);
    for (int i = 0; i < 2; i++) must(kiln_call(f, in, 2, &out, 1));
    EXPECT(out, 1e-6, -3, -9, 0);
    assert_int_equal(jit_stats_of(f).nodes, 4);
    assert_int_equal(jit_stats_of(inner).calls, 0);
    kiln_function_free(&f);
    kiln_function_free(&inner);
}

void capability_47(void **state)
{
    on_each_device(inner_is_inlined);
}

// --- 48: a constant that changes is a new program, once; a mutable number never

static void constants(kiln_device *dev)
{
    kiln_tensor *x = make_pair(dev)[0], *out = NULL;
    for (int mutable = 0; mutable < 2; mutable ++) {
        kiln_function *f = kiln_jit(chain, NULL, NULL);
        for (int i = 1; i < 6; i++) {
            kiln_tensor *in[] = {x, mutable ? kiln_mutable(i) : kiln_scalar(i)};
            must(kiln_call(f, in, 2, &out, 1));
            EXPECT(out, 1e-6, i - 1, 2 * i - 1, 3 * i - 1);
        }
        assert_int_equal(jit_stats_of(f).captures, mutable ? 1 : 2);
        kiln_function_free(&f);
    }
}

void capability_48(void **state)
{
    on_each_device(constants);
}

// --- 64: constants are evaluated while the function is captured, and printed

static kiln_status use_constants(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *c = from(NULL, NUMBERS(1, 2, 3), KILN_SHAPE(3));
    kiln_print(kiln_add(c, c), user);
    out[0] = kiln_mul(in[0], kiln_scalar(kiln_item(kiln_sum(c, NULL))));
    return kiln_error();
}

static void evaluated(kiln_device *dev)
{
    kiln_tensor *x = make_pair(dev)[0], *out = NULL;
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    kiln_function *f = kiln_jit(use_constants, file, NULL);
    for (int i = 0; i < 2; i++) must(kiln_call(f, &x, 1, &out, 1));
    EXPECT(out, 1e-6, 6, 12, 18);
    fclose(file);
    assert_string_equal(text, "[2. 4. 6.]\n");
    free(text);
    kiln_function_free(&f);
    f = kiln_jit(use_constants, stdout, KILN_JIT(.syntax = KILN_SYNTAX_STRICT));
    assert_int_equal(kiln_call(f, &x, 1, &out, 1), KILN_E_STATE);
    EXPECT_ERROR(KILN_E_STATE, "from_data: ", "KILN_SYNTAX_STRICT");
    kiln_function_free(&f);
}

void capability_64(void **state)
{
    on_each_device(evaluated);
}
