// Nodes that are what their one region gives: its nodes take their place.
#include "pass/passes.h"
#include <stdlib.h>

static bool is_inlined(const struct ir_node *n)
{
    const struct op_regions_rule *rule = op_regions_rule(n->op);
    return rule && rule->inlined;
}

static kiln_status visit(struct ir_rewrite *r, int32_t node, void *user)
{
    const struct kiln_graph *g = r->from;
    const struct ir_node *n = &g->nodes.v[node];
    if (!is_inlined(n)) return ir_rewrite_copy(r, node);
    const struct ir_region *region = &g->regions.v[n->first_region];
    for (int32_t i = 0; i < n->n_out; i++) {
        int32_t result = ir_rewrite_value(r, g->operands.v[region->first_result + i]);
        TRY(ir_rewrite_map(r, n->first_out + i, result));
    }
    return KILN_OK;
}

kiln_status pass_inline(const struct kiln_graph *from, const struct pass_options *o, struct kiln_graph **to)
{
    bool *inlined = calloc(from->regions.n + 1, sizeof *inlined);
    if (!inlined) return error_set(KILN_E_MEMORY, "passes: out of memory");
    for (size_t i = 0; i < from->nodes.n; i++)
        for (int32_t k = 0; k < from->nodes.v[i].n_regions; k++)
            inlined[from->nodes.v[i].first_region + k] = is_inlined(&from->nodes.v[i]);
    const struct ir_rewrite_choice choice = {.inlined = inlined};
    kiln_status status = ir_rewrite_some(from, &choice, visit, NULL, to);
    free(inlined);
    return status;
}
