// Copying nodes of one graph to where another is being built.
#pragma once
#include "ir/graph.h"

struct ir_graft {
    const struct kiln_graph *from;
    struct kiln_graph *to;
    int32_t *map; // value of `from` -> value of `to`; -1: not there. Whoever copies sets inputs and parameters
    // Of each node in its turn, before it is copied; *done: what stands for its outputs is in `map`. NULL: none.
    kiln_status (*visit)(struct ir_graft *c, int32_t node, bool *done);
    bool marks; // `to` has the same symbols, and values keep their marks
};

kiln_status ir_graft_begin(struct ir_graft *c, const struct kiln_graph *from, struct kiln_graph *to);
void ir_graft_end(struct ir_graft *c);
// The nodes that lie in the region themselves, in order, with the regions that they own; -1: those in none.
kiln_status ir_graft_nodes(struct ir_graft *c, int32_t region);
kiln_status ir_graft_node(struct ir_graft *c, int32_t node);
kiln_status ir_graft_value(struct ir_graft *c, int32_t value);            // a number or a constant that no node may use
kiln_status ir_graft_mark(struct ir_graft *c, int32_t value, int32_t as); // with c->marks: those of a value of `from`
// A region of `from` as the region `to`, which ir_add_regions made.
kiln_status ir_graft_region(struct ir_graft *c, int32_t from, int32_t to);
