// The graph IR: building by the sink, text, drawing.
#include "tensor/graph.h"
#include <kiln/kiln.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct fixture {
    struct kiln_graph *g;
    struct graph_sink sink;
    kiln_device *dev;
    kiln_scope *scope;
};

static int setup(void **state)
{
    static struct fixture f;
    f.dev = kiln_device_open("cpu");
    f.g = ir_graph_create();
    f.scope = kiln_scope_begin();
    graph_sink_init(&f.sink, f.g);
    thread_state.sink = &f.sink.base;
    *state = &f;
    return f.dev && f.g ? 0 : -1;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    thread_state.sink = NULL;
    kiln_scope_end(&f->scope);
    ir_graph_destroy(&f->g);
    kiln_device_close(&f->dev);
    return kiln_error() ? -1 : 0;
}

static kiln_tensor *input(struct fixture *f, const char *name, int rank, int64_t rows, int64_t cols)
{
    struct type t = {.dtype = KILN_F32, .rank = (uint8_t)rank, .dims = {rows, cols}};
    return graph_tensor(&f->sink.builder, &t, ir_add_input(f->g, &t, name));
}

static char *text_of(kiln_status (*write)(const kiln_graph *, FILE *), const kiln_graph *g)
{
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    assert_int_equal(write(g, file), KILN_OK);
    fclose(file);
    return text;
}

static void ops_become_nodes(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = input(f, "x", 2, 2, 3), *w = input(f, "w", 2, 3, 2);
    kiln_tensor *y = kiln_softmax(kiln_add(kiln_mul(kiln_matmul(x, w), kiln_scalar(2.5)), kiln_scalar_int(1)), -1);
    assert_non_null(y);
    kiln_tensor *values, *indices;
    assert_int_equal(kiln_sort(y, 0, true, &values, &indices), KILN_OK);
    ir_add_output(f->g, values->value, "sorted");
    char *text = text_of(kiln_graph_print, f->g);
    const char *want = "%0: f32[2,3] = input \"x\"\n"
                       "%1: f32[3,2] = input \"w\"\n"
                       "%2: f32[2,2] = matmul(%0, %1)\n"
                       "%4: f32[2,2] = mul(%2, 2.5)\n"
                       "%6: f32[2,2] = add(%4, 1)\n"
                       "%7: f32[2,2] = softmax(%6) {axis = -1}\n"
                       "%8: f32[2,2], %9: i64[2,2] = sort(%7) {axis = 0, descending = true}\n"
                       "return %8 \"sorted\"\n";
    assert_string_equal(text, want);
    free(text);
    assert_int_equal(kiln_graph_node_count(f->g), 5);
    assert_string_equal(kiln_graph_node_op(f->g, 0), "matmul");
    assert_null(kiln_graph_node_op(f->g, 5));
    assert_int_equal(kiln_error(), KILN_E_ARGUMENT);
    kiln_error_clear();
    for (size_t i = 0; i < f->g->nodes.n; i++) assert_true(f->g->nodes.v[i].caller != 0);
}

static void tensors_with_data_are_constants(void **state)
{
    struct fixture *f = *state;
    thread_state.sink = NULL;
    kiln_tensor *c = kiln_ones(f->dev, KILN_F32, KILN_SHAPE(3));
    thread_state.sink = &f->sink.base;
    kiln_tensor *x = input(f, "x", 1, 3, 0), *y = kiln_mul(kiln_add(x, c), c);
    assert_non_null(y);
    assert_null(y->storage);
    char *text = text_of(kiln_graph_print, f->g);
    assert_string_equal(
        text, "%0: f32[3] = input \"x\"\n%1: f32[3] = constant\n%2: f32[3] = add(%0, %1)\n%3: f32[3] = mul(%2, %1)\n");
    free(text);
}

static void a_number_is_a_node_for_structured_ops(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = input(f, "x", 1, 3, 0);
    kiln_tensor *y = kiln_concat((kiln_tensor *[]){x, kiln_reshape(kiln_scalar(4), KILN_SHAPE(1))}, 2, 0);
    assert_int_equal(kiln_dim(y, 0), 4);
    char *text = text_of(kiln_graph_print, f->g);
    assert_non_null(strstr(text, "= cast(4.0) {dtype = f32}"));
    free(text);
}

static void abstract_values_have_no_data(void **state)
{
    struct fixture *f = *state;
    float v[3];
    kiln_tensor *x = input(f, "x", 1, 3, 0), *one = input(f, "one", 1, 1, 0);
    kiln_read(x, v, sizeof v);
    assert_int_equal(kiln_error(), KILN_E_STATE);
    kiln_error_clear();
    kiln_item(one);
    assert_int_equal(kiln_error(), KILN_E_STATE);
    kiln_error_clear();
    kiln_add_(x, x);
    assert_int_equal(kiln_error(), KILN_E_ARGUMENT);
    kiln_error_clear();
    assert_int_equal(kiln_rank(x), 1);
    assert_true(kiln_is_contiguous(x));
}

static void graphs_are_drawn(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = input(f, "x", 1, 3, 0), *y = kiln_mul(kiln_exp(x), kiln_scalar(2));
    ir_add_output(f->g, y->value, "y");
    char *text = text_of(kiln_graph_dot, f->g);
    const char *want =
        "digraph kiln {\n    node [shape=box];\n    v0 [label=\"x\\nf32[3]\", shape=ellipse];\n"
        "    n0 [label=\"exp\\nf32[3]\"];\n    v0 -> n0;\n    n1 [label=\"mul\\nf32[3]\"];\n    n0 -> n1;\n"
        "    r0 [label=\"y\", shape=ellipse];\n    n1 -> r0;\n}\n";
    assert_string_equal(text, want);
    free(text);
}

static kiln_status cube(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_mul(kiln_mul(in[0], in[0]), in[0]);
    return kiln_error();
}

static void gradients_are_taken_in_a_graph(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = input(f, "x", 1, 3, 0), *g = NULL;
    assert_int_equal(kiln_grad(cube, NULL, &x, 1, NULL, &g, 1), KILN_OK);
    assert_true(g->builder == &f->sink.builder);
    assert_int_equal(kiln_numel(g), 3);
    char *text = text_of(kiln_graph_print, f->g);
    assert_non_null(strstr(text, "= mul.grad0("));
    free(text);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(ops_become_nodes),
        T(tensors_with_data_are_constants),
        T(a_number_is_a_node_for_structured_ops),
        T(abstract_values_have_no_data),
        T(graphs_are_drawn),
        T(gradients_are_taken_in_a_graph),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
