// Types of nodes with regions, by the rules of their ops.
#pragma once
#include "ir/graph.h"

struct ir_regions_types {
    struct op_regions r;
    struct op_region *regions;
    const struct type **types; // what r.in and the regions point to
};

// Asks the rule of n->op for the types of the outputs, which are t->r.out. `n` may not be in the graph yet. *t is to be
// finished in any case.
kiln_status ir_regions_infer(const struct kiln_graph *g, const struct ir_new_node *n, struct ir_regions_types *t);
void ir_regions_finish(struct ir_regions_types *t);
struct ir_new_node ir_node_again(const struct kiln_graph *g, int32_t node); // as it was when it was added

// Whether the region sees its parameters alone, and is no part of the graph around it.
static inline bool ir_region_is_closed(const struct kiln_graph *g, int32_t region)
{
    const struct op_regions_rule *rule = op_regions_rule(g->nodes.v[g->regions.v[region].owner].op);
    return rule && !rule->inlined;
}

// Where two types that are not the same begin to differ: "in dtype", "in rank", "in dimension 0", and the code for it.
kiln_status type_difference(const struct type *a, const struct type *b, char *text, size_t size_B);
// For rules. KILN_E_SHAPE or KILN_E_DTYPE when the types differ: "call: operand 1 is f32[2], parameter 1 is f32[3]:
// they differ in dimension 0". `what` and `other` are formats for the number i.
kiln_status op_types_agree(const struct op *op, int i, const char *what, const struct type *a, const char *other,
                           const struct type *b);
// Each region takes the first n operands, with their types, for parameters.
kiln_status op_regions_take_operands(const struct op_regions *r, int n);
