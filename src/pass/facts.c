// What several passes ask of a graph.
#include "pass/passes.h"
#include <stdlib.h>

int32_t *pass_count_uses(const struct kiln_graph *g)
{
    int32_t *uses = calloc(g->values.n + 1, sizeof *uses);
    if (!uses) {
        error_set(KILN_E_MEMORY, "passes: out of memory");
        return NULL;
    }
    for (size_t i = 0; i < g->nodes.n; i++)
        for (int32_t k = 0; k < g->nodes.v[i].n_in; k++) {
            int32_t v = ir_operands(g, &g->nodes.v[i])[k];
            if (v >= 0) uses[v]++;
        }
    for (size_t i = 0; i < g->regions.n; i++)
        for (int32_t k = 0; k < g->regions.v[i].n_results; k++) {
            int32_t v = g->operands.v[g->regions.v[i].first_result + k];
            if (v >= 0) uses[v]++;
        }
    for (size_t i = 0; i < g->outputs.n; i++) {
        uses[g->outputs.v[i].value]++;
        if (g->outputs.v[i].target >= 0) uses[g->outputs.v[i].target]++;
    }
    return uses;
}

bool pass_view_layout(const struct kiln_graph *g, const struct ir_node *n, struct layout *out)
{
    if (!(n->op->flags & OP_VIEW)) return false;
    struct op_call c;
    struct layout in;
    const struct type *types[16];
    bool copy = false;
    if (ir_infer(g, n->op, n->n_in, ir_operands(g, n), (struct attr *)n->attrs, types, &c)) {
        kiln_error_clear();
        return false;
    }
    layout_contiguous(types[0], &in);
    return !n->op->fn->view(&c, &in, out, &copy) && !copy;
}

bool pass_has_symbols(const struct ir_value *v)
{
    for (int i = 0; i < v->type.rank; i++)
        if (v->symbols && v->symbols[i]) return true;
    return false;
}
