// From ops to nodes, and the public functions of graphs.
#include "tensor/graph.h"
#include "base/handles.h"
#include "base/caller.h"
#include "tensor/apply.h"
#include <kiln/graph.h>
#include <stdlib.h>
#include <string.h>

kiln_tensor *graph_tensor(struct ir_builder *b, const struct type *type, int32_t value)
{
    kiln_tensor *t = value < 0 ? NULL : tensor_new();
    if (!t) return NULL;
    t->type = *type;
    layout_contiguous(type, &t->layout);
    t->builder = b;
    t->capture = thread_state.capture;
    t->value = value;
    return t;
}

// A tensor that has data becomes a constant; the graph names its storage, the caller keeps it alive.
static int32_t value_of(struct ir_builder *b, const kiln_tensor *t)
{
    if (!t) return -1;
    if (t->builder == b) return t->value;
    if (t->builder) {
        error_set(KILN_E_STATE, "graph: an abstract value of another capture");
        return -1;
    }
    if (t->storage) return ir_add_constant(b->graph, &t->type, t->storage);
    return ir_add_number(b->graph, &t->type, t->number, t->integer);
}

static kiln_status add_node(struct ir_builder *b, struct op_call *c, kiln_tensor *const *in, int32_t *values,
                            kiln_tensor **out)
{
    for (int i = 0; i < c->n_in; i++) {
        values[i] = value_of(b, in[i]);
        if (values[i] < 0 && in[i]) return error_pending;
    }
    int32_t first = ir_add_node(b->graph, c, values, caller_find());
    if (first < 0) return error_pending;
    for (int i = 0; i < c->n_out; i++) {
        out[i] = graph_tensor(b, &c->out[i], first + i);
        if (!out[i]) return error_pending;
    }
    return tensor_wants_tape(c->n_in, in) ? tensor_tape.record(c, in, out) : KILN_OK;
}

static kiln_status graph_apply(struct sink *s, struct op_call *c, kiln_device *dev, kiln_tensor *const *in,
                               kiln_tensor **out)
{
    struct graph_sink *g = (struct graph_sink *)s;
    int32_t few[16], *values = c->n_in > 16 ? malloc(sizeof *values * (size_t)c->n_in) : few;
    if (!values) return error_set(KILN_E_MEMORY, "graph: out of memory");
    kiln_status status = add_node(&g->builder, c, in, values, out);
    if (values != few) free(values);
    for (int i = 0; i < c->n_out && status; i++) {
        if (out[i]) tensor_destroy(out[i]);
        out[i] = NULL;
    }
    return status;
}

void graph_sink_init(struct graph_sink *s, struct kiln_graph *g)
{
    *s = (struct graph_sink){{.apply = graph_apply}, {g}};
}

static kiln_status write_text(const char *function, const kiln_graph *g, FILE *f,
                              void (*text)(const struct kiln_graph *, struct str *))
{
    if (error_pending) return error_pending;
    TRY(handle_check(function, "g", HANDLE_GRAPH, g));
    if (!f) return error_set(KILN_E_ARGUMENT, "%s: f is NULL", function);
    struct str s;
    str_init(&s);
    text(g, &s);
    kiln_status status = str_check(&s);
    if (!status && fputs(str_text(&s), f) < 0)
        status = error_set(KILN_E_IO, "%s: the file cannot be written", function);
    str_free(&s);
    return status;
}

kiln_status kiln_graph_print(const kiln_graph *g, FILE *f)
{
    return write_text("graph_print", g, f, ir_graph_text);
}

kiln_status kiln_graph_dot(const kiln_graph *g, FILE *f)
{
    return write_text("graph_dot", g, f, ir_graph_dot_text);
}

kiln_graph *kiln_graph_parse(const char *text)
{
    if (error_pending) return NULL;
    if (text) return ir_parse(text, strlen(text), "graph");
    error_set(KILN_E_ARGUMENT, "graph_parse: text is NULL");
    return NULL;
}

// NULL has nothing in it, without an error.
static bool has_any(const char *function, const kiln_graph *g)
{
    return g && !handle_check(function, "g", HANDLE_GRAPH, g);
}

size_t kiln_graph_input_count(const kiln_graph *g)
{
    size_t n = 0;
    if (!has_any("graph_input_count", g)) return 0;
    for (size_t i = 0; i < g->values.n; i++) n += g->values.v[i].kind == IR_INPUT;
    return n;
}

size_t kiln_graph_output_count(const kiln_graph *g)
{
    return has_any("graph_output_count", g) ? g->outputs.n : 0;
}

size_t kiln_graph_node_count(const kiln_graph *g)
{
    return has_any("graph_node_count", g) ? g->nodes.n : 0;
}

const char *kiln_graph_node_op(const kiln_graph *g, size_t i)
{
    if (error_pending || handle_check("graph_node_op", "g", HANDLE_GRAPH, g)) return NULL;
    if (i < g->nodes.n) return g->nodes.v[i].op->name;
    error_set(KILN_E_ARGUMENT, "graph_node_op: node %zu is asked for, the graph has %zu", i, g->nodes.n);
    return NULL;
}

void kiln_graph_free(kiln_graph **g)
{
    if (handle_may_free("graph_free", HANDLE_GRAPH, g)) ir_graph_destroy(g);
}

struct sink *tensor_capture_around(const kiln_tensor *t)
{
    struct sink *s = thread_state.sink->around;
    while (s && s->number != t->capture) s = s->around;
    return s;
}
