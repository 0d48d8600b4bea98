// Dead code: what no output, write or effect needs.
//
// Backwards over the nodes, which come after all that they use: a node stays when it has an effect, when it has no
// results, or when one of them is used by what stays. A random draw stays too: a run reserves the numbers of the draws
// in its graph, and eager mode draws whether the result is used or not. An owner of regions stays also when a node
// inside must. Where its op has a rule for regions, outputs and parameters that nothing uses go; else all results of
// its regions are used. Inputs stay.
#include "pass/passes.h"
#include <stdlib.h>

struct liveness {
    const struct kiln_graph *g;
    bool *nodes, *values, *unused;
    bool changed;
};

static void use(struct liveness *l, const int32_t *v, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        if (v[i] < 0 || l->values[v[i]]) continue;
        l->values[v[i]] = true;
        l->changed |= l->g->values.v[v[i]].kind == IR_PARAM; // what it takes lies behind
    }
}

// The parameters of the regions that take operand i: one that is used in any of them is used.
static bool takes(const struct liveness *l, const struct ir_node *n, int32_t i)
{
    const struct op_regions_rule *rule = op_regions_rule(n->op);
    for (int32_t k = 0; k < n->n_regions; k++) {
        const struct ir_region *r = &l->g->regions.v[n->first_region + k];
        if (rule && rule->keeps_param && rule->keeps_param(n->attrs, r->n_params, i)) return true;
        if (i >= r->n_params || l->values[r->first_param + i]) return true;
    }
    return !n->n_regions;
}

static bool gives(const struct liveness *l, const struct ir_node *n, int32_t i)
{
    const struct op_regions_rule *rule = op_regions_rule(n->op);
    return i >= n->n_out || l->values[n->first_out + i] || (rule->keeps_result && rule->keeps_result(n->attrs, i));
}

// Of an op with a rule for regions what nothing uses goes: results of which the output is not used, and operands of
// which no parameter is. Its regions lie before it, so whether a parameter is used is known in the next round.
static void use_by_rule(struct liveness *l, const struct ir_node *n)
{
    const struct kiln_graph *g = l->g;
    for (int32_t i = 0; i < n->n_in; i++)
        if (takes(l, n, i)) use(l, ir_operands(g, n) + i, 1);
    for (int32_t k = 0; k < n->n_regions; k++) {
        const struct ir_region *r = &g->regions.v[n->first_region + k];
        for (int32_t i = 0; i < r->n_results; i++)
            if (gives(l, n, i)) use(l, g->operands.v + r->first_result + i, 1);
    }
}

// What must run, and the owners around it.
static void mark_effects(struct liveness *l)
{
    for (size_t i = 0; i < l->g->nodes.n; i++) {
        const struct ir_node *n = &l->g->nodes.v[i];
        bool gives = ir_node_outputs(n) || op_regions_rule(n->op);
        if (!(n->op->flags & (OP_EFFECT | OP_RANDOM | OP_HOST)) && gives) continue;
        int32_t node = (int32_t)i;
        l->nodes[node] = true;
        for (int32_t region = l->g->nodes.v[node].region; region >= 0; region = l->g->nodes.v[node].region) {
            node = l->g->regions.v[region].owner;
            l->nodes[node] = true;
        }
    }
}

static void mark_nodes(struct liveness *l)
{
    const struct kiln_graph *g = l->g;
    l->changed = false;
    for (size_t i = g->nodes.n; i-- > 0;) {
        const struct ir_node *n = &g->nodes.v[i];
        for (int k = 0; k < ir_node_outputs(n); k++) l->nodes[i] |= l->values[n->first_out + k];
        if (!l->nodes[i]) continue;
        if (op_regions_rule(n->op)) {
            use_by_rule(l, n);
            continue;
        }
        use(l, ir_operands(g, n), n->n_in);
        for (int32_t k = 0; k < n->n_regions; k++) {
            const struct ir_region *region = &g->regions.v[n->first_region + k];
            use(l, g->operands.v + region->first_result, region->n_results);
        }
    }
}

static void mark(struct liveness *l)
{
    const struct kiln_graph *g = l->g;
    mark_effects(l);
    for (size_t i = 0; i < g->outputs.n; i++) use(l, &g->outputs.v[i].value, 1);
    do mark_nodes(l);
    while (l->changed);
    for (size_t i = 0; i < g->nodes.n; i++) {
        const struct ir_node *n = &g->nodes.v[i];
        if (!l->nodes[i] || !op_regions_rule(n->op)) continue;
        for (int32_t k = 0; k < n->n_out; k++) l->unused[n->first_out + k] = !gives(l, n, k);
        for (int32_t k = 0; k < n->n_regions; k++) {
            const struct ir_region *r = &g->regions.v[n->first_region + k];
            for (int32_t p = 0; p < r->n_params; p++) l->unused[r->first_param + p] = !takes(l, n, p);
        }
    }
}

static kiln_status copy(struct ir_rewrite *r, int32_t node, void *user)
{
    return ir_rewrite_copy(r, node);
}

kiln_status pass_dce(const struct kiln_graph *from, const struct pass_options *o, struct kiln_graph **to)
{
    struct liveness l = {from, calloc(from->nodes.n + 1, sizeof(bool)), calloc(from->values.n + 1, sizeof(bool)),
                         calloc(from->values.n + 1, sizeof(bool)), false};
    const struct ir_rewrite_choice choice = {.keep = l.nodes, .unused = l.unused};
    kiln_status status = KILN_OK;
    if (!l.nodes || !l.values || !l.unused)
        status = error_set(KILN_E_MEMORY, "passes: out of memory");
    else {
        mark(&l);
        status = ir_rewrite_some(from, &choice, copy, NULL, to);
    }
    free(l.unused);
    free(l.nodes);
    free(l.values);
    return status;
}
