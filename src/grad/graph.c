// kiln_backward_graph: the rules of a tape, run on types alone. Each rule's results are nodes, each saved value is an
// input of the graph.
#include "tensor/graph.h"
#include "grad/backward.h"
#include "grad/fit.h"
#include "grad/rule.h"
#include "grad/run.h"
#include "grad/state.h"
#include <kiln/graph.h>
#include <stdio.h>

kiln_tensor *graph_placeholder(struct ir_builder *b, struct tape_node *n, int index)
{
    const struct tape_value *v = &n->values[index];
    struct type type;
    char name[96];
    node_value_type(n, v, &type);
    const char *what = index >= n->n_in             ? "y"
                       : n->op->flags & OP_VARIADIC ? n->op->in_names[0]
                                                    : n->op->in_names[index];
    if (v->state == VALUE_WEAK) return graph_tensor(b, &type, ir_add_number(b->graph, &type, v->number, v->integer));
    snprintf(name, sizeof name, "%s.%s", n->op->name, what);
    type.weak = false;
    return graph_tensor(b, &type, ir_add_input(b->graph, &type, name));
}

static kiln_status build(kiln_tensor *out, const struct tape_edge *root, struct graph_sink *sink)
{
    struct run r = {.keep = true, .builder = &sink->builder};
    struct type type;
    grad_type_of(&out->type, &type);
    kiln_tensor *dout = graph_tensor(&sink->builder, &type, ir_add_input(sink->builder.graph, &type, "dout"));
    kiln_status status = dout ? run_add(&r, root, dout) : error_pending;
    if (!status) status = run_backward(&r);
    for (size_t i = 0; i < r.n_results && !status; i++)
        status = ir_add_output(sink->builder.graph, r.results[i].grad->value, node_name(r.results[i].leaf));
    run_finish(&r);
    return status;
}

static void destroy_graph(void *at)
{
    struct kiln_graph *g = at;
    ir_graph_destroy(&g);
}

kiln_graph *kiln_backward_graph(kiln_tensor *out)
{
    struct tape_edge root;
    if (error_pending || tensor_check("backward_graph", "out", out) || tape_current(out, &root)) return NULL;
    if (!root.node) {
        backward_has_no_root("backward_graph", out);
        return NULL;
    }
    kiln_graph *g = ir_graph_create();
    if (!g) return NULL;
    struct graph_sink sink;
    graph_sink_init(&sink, g);
    struct sink *outer = thread_state.sink;
    struct kiln_scope scope;
    struct state_leave left;
    state_push(&left, destroy_graph, g);
    scope_enter(&scope);
    thread_state.sink = &sink.base;
    kiln_status status = build(out, &root, &sink);
    state_pop(&left);
    thread_state.sink = outer;
    scope_leave(&scope, NULL, 0);
    if (status) ir_graph_destroy(&g);
    return g;
}
