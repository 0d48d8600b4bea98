// How the passes of a kernel divide its DAG: shared by the writers of C.
#pragma once
#include "codegen/catalogue/c.h"

struct c_plan {
    const struct kernel *k;
    int n_reduce, reduce_node[C_MAX_REDUCE]; // in the order of nodes
    int n_keep, keep_node[C_MAX_KEEP];       // element values kept for later passes
    int keep_pass[C_MAX_KEEP];               // the pass that computes them
    int cost;                                // arithmetic steps an element, all passes together
    // What one pass needs; filled by c_plan_pass, n_nodes each:
    uint8_t *element;  // element values it computes
    uint8_t *kept;     // element values it reads from an earlier pass's keep
    uint8_t *row;      // row values it computes before the loop
    uint8_t *frontier; // row values that the element values (or the row output) read; constants are not among them
};

kiln_status c_plan_make(struct arena *a, const struct kernel *k, struct c_plan *out);
// Fills the four masks for pass 0 .. n_stages.
void c_plan_pass(struct c_plan *p, int pass);
// Index into reduce_node of a node, or into keep_node; -1 when it is not there.
int c_plan_reduce(const struct c_plan *p, int node);
int c_plan_keep(const struct c_plan *p, int node);
