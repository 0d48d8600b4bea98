// Passes over nodes with regions: the graph is copied node by node, and a visitor makes others of those that it knows.
//
// The visitor sees each node after what lies before it and before its own regions are copied: it may copy these as they
// are, elsewhere, several times, or not at all.
#pragma once
#include "ir/graft.h"
#include "pass/passes.h"

struct weave {
    struct ir_graft c; // first: a visitor is given this
    void *user;
};

typedef kiln_status (*weave_visit)(struct ir_graft *c, int32_t node, bool *done);

// *to as of a pass. A graph with tokens is copied as it is.
kiln_status weave_graph(const struct kiln_graph *from, weave_visit visit, void *user, struct kiln_graph **to);

static inline void *weave_user(struct ir_graft *c)
{
    return ((struct weave *)c)->user;
}
// What stands for a value of c->from, -1 with an error. Numbers and constants are made where they are missing.
int32_t weave_value(struct ir_graft *c, int32_t value);
kiln_status weave_map(struct ir_graft *c, int32_t value, int32_t as); // `as`: of c->to; -1 with an error pending fails
// A new node without regions, types inferred; the first of its outputs, or -1.
int32_t weave_emit(struct ir_graft *c, const struct op *op, int n_in, const int32_t *in, struct attr *attrs,
                   uintptr_t caller);
// The same of the op of a node with regions, which are there. The outputs, or -1.
int32_t weave_owner(struct ir_graft *c, const struct ir_node *n, const struct attr *attrs, int n_in, const int32_t *in,
                    int32_t first_region, int n_regions);
// Parameters of a region of c->to, for those of one of c->from.
kiln_status weave_param(struct ir_graft *c, int32_t param);
// The nodes of a region where the graph is being built, on what its parameters are mapped to.
kiln_status weave_inline(struct ir_graft *c, const struct ir_region *region);

// --- what visitors ask of c->from

// A loop, its operands in their order: what is carried, scanned, what all trips read; the count.
struct weave_loop {
    const struct ir_region *body, *cond; // cond NULL: none
    int n_carried, n_scanned, n_taken;
    int64_t trips; // -1: not known
    bool counted;
};
bool weave_is_loop(const struct kiln_graph *g, int32_t node, struct weave_loop *l);
bool weave_is_switch(const struct kiln_graph *g, int32_t node);
bool weave_draws(const struct kiln_graph *g, const struct ir_node *n); // in a region
bool weave_gives_weak(const struct kiln_graph *g, const struct ir_node *n);
// An integer or bool of rank 0 that is known.
bool weave_known(const struct kiln_graph *g, int32_t value, int64_t *out);
