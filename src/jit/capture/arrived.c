// Taking gradients that did not arrive out of a backward graph.
//
// A value is absent where it depends on gradients and on none that arrived. The nodes that make such values go. A node
// over absent values and others takes the other part of a sum, or zeros, as rules of ops with several results do. What
// makes it of the gradients that arrived is linear but for rules of the user's, between whose gradients and what they
// are made of the engine puts if_arrived (grad/arrive.c). A node with regions counts as a whole.
#include "jit/capture/arrived.h"
#include "ir/rewrite.h"
#include "ops/families.h"
#include <stdlib.h>
#include <string.h>

enum arrival { FREE, ABSENT, PRESENT }; // FREE: it depends on no gradient

void backward_finish(struct backward *b)
{
    struct program *p = atomic_load(&b->program);
    program_destroy(&p);
    ir_graph_destroy(&b->graph);
    free(b->outputs);
    free(b->arrived);
    *b = (struct backward){0};
}

static void mark_values(const struct kiln_graph *g, const bool *arrived, size_t n, uint8_t *is)
{
    size_t input = 0;
    for (size_t i = 0; i < g->values.n; i++) {
        is[i] = FREE;
        if (g->values.v[i].kind != IR_INPUT) continue;
        if (input < n) is[i] = arrived[input] ? PRESENT : ABSENT;
        input++;
    }
    for (size_t i = 0; i < g->nodes.n; i++) {
        const struct ir_node *node = &g->nodes.v[i];
        uint8_t of = FREE;
        for (int k = 0; k < node->n_in; k++) {
            int32_t v = ir_operands(g, node)[k];
            if (v >= 0 && is[v] > of) of = is[v];
        }
        for (int k = 0; k < ir_node_outputs(node); k++) is[node->first_out + k] = of;
    }
}

static int32_t zeros(struct ir_rewrite *r, const struct type *t)
{
    struct attr attrs[3];
    if (t->weak) return ir_add_number(r->to, t, 0, 0);
    op_full_attrs(t, 0, attrs);
    return ir_rewrite_emit(r, op_table[OP_full], 0, NULL, attrs);
}

// What a sum is without its absent part; -1: it is no sum.
static int32_t rest_of_sum(const struct kiln_graph *g, const struct ir_node *n, const uint8_t *is)
{
    const int32_t *in = ir_operands(g, n);
    if (!(n->op->flags & OP_SUM)) return -1;
    int32_t rest = is[in[0]] == ABSENT ? in[1] : in[0];
    return ir_type_same(&g->values.v[rest].type, &g->values.v[n->first_out].type) ? rest : -1;
}

static kiln_status copy_with_zeros(struct ir_rewrite *r, int32_t node, const uint8_t *is)
{
    const struct ir_node *n = &r->from->nodes.v[node];
    int32_t *in = malloc(sizeof *in * (size_t)(n->n_in + 1));
    kiln_status status = in ? KILN_OK : error_set(KILN_E_MEMORY, "jit: out of memory");
    for (int i = 0; i < n->n_in && !status; i++) {
        int32_t v = ir_operands(r->from, n)[i];
        in[i] = v >= 0 && is[v] == ABSENT ? zeros(r, &r->from->values.v[v].type) : ir_rewrite_value(r, v);
        if (in[i] < 0 && v >= 0) status = error_pending;
    }
    if (!status) status = ir_rewrite_copy_over(r, node, in);
    free(in);
    return status;
}

static kiln_status visit(struct ir_rewrite *r, int32_t node, void *user)
{
    const uint8_t *is = user;
    const struct ir_node *n = &r->from->nodes.v[node];
    bool any_absent = false;
    for (int i = 0; i < n->n_in; i++) {
        int32_t v = ir_operands(r->from, n)[i];
        any_absent |= v >= 0 && is[v] == ABSENT;
    }
    if (!any_absent) return ir_rewrite_copy(r, node);
    int32_t rest = rest_of_sum(r->from, n, is);
    return rest >= 0 ? ir_rewrite_map(r, n->first_out, ir_rewrite_value(r, rest)) : copy_with_zeros(r, node, is);
}

static kiln_status rewrite(const struct kiln_graph *graph, uint8_t *is, bool *keep, struct ir_output *outputs,
                           bool *absent, struct kiln_graph **out)
{
    struct kiln_graph thinner = *graph; // with fewer outputs; all else is shared, and only read
    thinner.outputs.v = outputs;
    thinner.outputs.n = 0;
    for (size_t i = 0; i < graph->outputs.n; i++) {
        absent[i] = is[graph->outputs.v[i].value] == ABSENT;
        if (!absent[i]) outputs[thinner.outputs.n++] = graph->outputs.v[i];
    }
    for (size_t i = 0; i < graph->nodes.n; i++) keep[i] = is[graph->nodes.v[i].first_out] != ABSENT;
    return ir_rewrite_graph(&thinner, keep, visit, is, out);
}

kiln_status graph_of_arrived(const struct kiln_graph *graph, const bool *arrived, size_t n, bool *absent,
                             struct kiln_graph **out)
{
    uint8_t *is = malloc(graph->values.n + 1);
    bool *keep = malloc(graph->nodes.n + 1);
    struct ir_output *outputs = malloc(sizeof *outputs * (graph->outputs.n + 1));
    *out = NULL;
    kiln_status status = is && keep && outputs ? KILN_OK : error_set(KILN_E_MEMORY, "jit: out of memory");
    if (!status) {
        mark_values(graph, arrived, n, is);
        status = rewrite(graph, is, keep, outputs, absent, out);
    }
    free(is);
    free(keep);
    free(outputs);
    return status;
}
