// Dead code: what no output, write or effect needs.
//
// Backwards over the nodes, which come after all that they use: a node stays when it has an effect, when it has no
// results, or when one of them is used by what stays. A random draw stays too: a run reserves the numbers of the draws
// in its graph, and eager mode draws whether the result is used or not. An owner of regions stays also when a node
// inside must; then all results of its regions are used. One pass over the operands; inputs stay.
#include "pass/passes.h"
#include <stdlib.h>

struct liveness {
    const struct kiln_graph *g;
    bool *nodes, *values;
};

static void use(struct liveness *l, const int32_t *v, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (v[i] >= 0) l->values[v[i]] = true;
}

// What must run, and the owners around it.
static void mark_effects(struct liveness *l)
{
    for (size_t i = 0; i < l->g->nodes.n; i++) {
        const struct ir_node *n = &l->g->nodes.v[i];
        if (!(n->op->flags & (OP_EFFECT | OP_RANDOM)) && ir_node_outputs(n)) continue;
        int32_t node = (int32_t)i;
        l->nodes[node] = true;
        for (int32_t region = l->g->nodes.v[node].region; region >= 0; region = l->g->nodes.v[node].region) {
            node = l->g->regions.v[region].owner;
            l->nodes[node] = true;
        }
    }
}

static void mark(struct liveness *l)
{
    const struct kiln_graph *g = l->g;
    mark_effects(l);
    for (size_t i = 0; i < g->outputs.n; i++) use(l, &g->outputs.v[i].value, 1);
    for (size_t i = g->nodes.n; i-- > 0;) {
        const struct ir_node *n = &g->nodes.v[i];
        for (int k = 0; k < ir_node_outputs(n); k++) l->nodes[i] |= l->values[n->first_out + k];
        if (!l->nodes[i]) continue;
        use(l, ir_operands(g, n), n->n_in);
        for (int32_t k = 0; k < n->n_regions; k++) {
            const struct ir_region *region = &g->regions.v[n->first_region + k];
            use(l, g->operands.v + region->first_result, region->n_results);
        }
    }
}

static kiln_status copy(struct ir_rewrite *r, int32_t node, void *user)
{
    return ir_rewrite_copy(r, node);
}

kiln_status pass_dce(const struct kiln_graph *from, const struct pass_options *o, struct kiln_graph **to)
{
    struct liveness l = {from, calloc(from->nodes.n + 1, sizeof(bool)), calloc(from->values.n + 1, sizeof(bool))};
    kiln_status status = KILN_OK;
    if (!l.nodes || !l.values)
        status = error_set(KILN_E_MEMORY, "passes: out of memory");
    else {
        mark(&l);
        status = ir_rewrite_graph(from, l.nodes, copy, NULL, to);
    }
    free(l.nodes);
    free(l.values);
    return status;
}
