// Making a graph from another: the one way in which passes change anything.
//
// The rewriter walks the nodes of `from` in order and asks `visit` about each. The visitor copies the node, emits other
// nodes, or maps the node's outputs to values that are there already; what it leaves unmapped must not be used later.
// Inputs keep their order and names; numbers and constants are copied when something uses them; regions are opened and
// closed on the way, so that a node lands in the region of the node that it comes from. Outputs and writes are copied
// last.
#pragma once
#include "ir/graph.h"

struct ir_opening {
    int32_t node, owner, region;
};

struct ir_rewrite_choice;
struct ir_rewrite {
    const struct kiln_graph *from;
    struct kiln_graph *to;
    int32_t *map;               // value of `from` -> value of `to`, -1: none yet
    int32_t *regions;           // region of `from` -> region of `to`, -1: dropped, -2: inlined
    struct ir_opening *opening; // regions of `from` that stay, in the order in which the walk meets them
    int32_t n_opening, at;
    VEC(int32_t) open; // regions of `from`
    uintptr_t caller;  // of the node being visited
    const struct ir_rewrite_choice *choice;
    void *user;
};

typedef kiln_status (*ir_rewrite_visit)(struct ir_rewrite *r, int32_t node, void *user);

// What a walk leaves out by itself. Each may be NULL.
struct ir_rewrite_choice {
    const bool *keep; // by node: false: it is left out, with the regions that it owns, without being visited
    // By value, of nodes whose op has a rule for regions: outputs that go, with the results that give them, and
    // parameters that go in all regions of a node, with the operand that they take.
    const bool *unused;
    // By region: its nodes land in the region around, on the operands of its owner instead of its parameters.
    const bool *inlined;
    kiln_status (*opened)(struct ir_rewrite *r, int32_t region, void *user); // its parameters are there
};

// *to belongs to the caller; on an error it is NULL.
kiln_status ir_rewrite_some(const struct kiln_graph *from, const struct ir_rewrite_choice *choice,
                            ir_rewrite_visit visit, void *user, struct kiln_graph **to);
// keep: as above.
kiln_status ir_rewrite_graph(const struct kiln_graph *from, const bool *keep, ir_rewrite_visit visit, void *user,
                             struct kiln_graph **to);

// For visitors. Values named `v` are of `from`, the others of `to`; each function answers -1 with an error pending.
int32_t ir_rewrite_value(struct ir_rewrite *r, int32_t v); // -1, absent, stays -1 without an error
kiln_status ir_rewrite_copy(struct ir_rewrite *r, int32_t node);
// The same node over operands given as values of `to`, whose types are those of the old ones.
kiln_status ir_rewrite_copy_over(struct ir_rewrite *r, int32_t node, const int32_t *in);
// Stands for `v` from now on. The types must be the same: a pass never changes what a value is.
kiln_status ir_rewrite_map(struct ir_rewrite *r, int32_t v, int32_t value);
// A new node, types inferred. The first of its outputs.
int32_t ir_rewrite_emit(struct ir_rewrite *r, const struct op *op, int n_in, const int32_t *in, struct attr *attrs);

// What infer says of an op over values of a graph, without adding it. `types` has room for n_in.
kiln_status ir_infer(const struct kiln_graph *g, const struct op *op, int n_in, const int32_t *in, struct attr *attrs,
                     const struct type **types, struct op_call *c);
bool ir_attr_equal(const struct attr *a, const struct attr *b);
bool ir_type_same(const struct type *a, const struct type *b); // weakness too
// Values in the order in which text names them: a number just before the node that takes it, once for each use; numbers
// and constants that nothing uses are dropped. ir_rewrite_graph ends with it.
kiln_status ir_renumber(struct kiln_graph *g);
