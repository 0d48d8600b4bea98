// Small branches as selections: of a condition with two regions of a few cheap ops both are computed, and each result
// is taken from one of them.
//
// Cheap are elementwise ops, views and tensors of one number: none of them fails, draws or has an effect. They may be
// SELECT_NODES in all, beside the views, and no result of theirs may have more than SELECT_ELEMENTS elements. Then both
// fuse with what is around, and nobody waits for the condition. A selection takes the bits of one side, whatever the
// other one is. Its gradient would not: 0 times infinity is no number. So this happens in programs alone, of which
// nothing is differentiated any more.
#include "pass/weave.h"
#include "ops/families.h"
#include <stdlib.h>

enum { SELECT_NODES = 16, SELECT_ELEMENTS = 16384 };

static bool is_cheap(const struct kiln_graph *g, const struct ir_node *n, int *count)
{
    const struct type *t = &g->values.v[n->first_out].type;
    if (n->op->index >= (unsigned)op_count || op_regions_rule(n->op)) return false;
    if (n->op->flags & (OP_EFFECT | OP_RANDOM | OP_HOST | OP_STORAGE_VIEW)) return false;
    bool made = n->op->flags & OP_ELEMENTWISE || n->op == op_table[OP_full] || n->op == op_table[OP_full_int];
    *count += made;
    return (made || n->op->flags & OP_VIEW) && n->n_out == 1 && (!made || type_numel(t) <= SELECT_ELEMENTS);
}

static bool is_small(const struct kiln_graph *g, const struct ir_node *n)
{
    int count = 0;
    int32_t index = ir_operands(g, n)[n->n_in - 1];
    if (n->n_regions != 2 || !n->n_out || g->values.v[index].type.dtype != KILN_BOOL) return false;
    if (g->values.v[index].type.weak || weave_gives_weak(g, n)) return false;
    for (int i = 0; i < 2; i++) {
        const struct ir_region *r = &g->regions.v[n->first_region + i];
        for (int32_t k = r->first_node; k < r->first_node + r->n_nodes; k++)
            if (!is_cheap(g, &g->nodes.v[k], &count)) return false;
    }
    for (int i = 0; i < n->n_out; i++)
        if (type_numel(&g->values.v[n->first_out + i].type) > SELECT_ELEMENTS) return false;
    return count <= SELECT_NODES;
}

static kiln_status add_both(struct ir_graft *c, const struct ir_node *n, int32_t *results)
{
    const struct kiln_graph *g = c->from;
    for (int k = 0; k < 2; k++) {
        const struct ir_region *r = &g->regions.v[n->first_region + k];
        for (int32_t i = 0; i < r->n_params; i++)
            TRY(weave_map(c, r->first_param + i, weave_value(c, ir_operands(g, n)[i])));
        TRY(weave_inline(c, r));
        for (int i = 0; i < n->n_out; i++) results[2 * i + k] = c->map[g->operands.v[r->first_result + i]];
    }
    return KILN_OK;
}

static kiln_status select_all(struct ir_graft *c, const struct ir_node *n, int32_t *results)
{
    TRY(add_both(c, n, results));
    int32_t index = weave_value(c, ir_operands(c->from, n)[n->n_in - 1]);
    for (int i = 0; i < n->n_out; i++) {
        const int32_t in[] = {index, results[2 * i], results[2 * i + 1]};
        int32_t value = in[1] == in[2] ? in[1] : weave_emit(c, op_table[OP_where], 3, in, NULL, n->caller);
        TRY(weave_map(c, n->first_out + i, value));
    }
    return KILN_OK;
}

static kiln_status visit(struct ir_graft *c, int32_t node, bool *done)
{
    const struct ir_node *n = &c->from->nodes.v[node];
    if (!weave_is_switch(c->from, node) || !is_small(c->from, n)) return KILN_OK;
    int32_t *results = malloc(2 * (size_t)n->n_out * sizeof *results);
    *done = true;
    if (!results) return error_set(KILN_E_MEMORY, "passes: out of memory");
    kiln_status status = select_all(c, n, results);
    free(results);
    return status;
}

kiln_status pass_select(const struct kiln_graph *from, const struct pass_options *o, struct kiln_graph **to)
{
    (void)o;
    return weave_graph(from, visit, NULL, to);
}
