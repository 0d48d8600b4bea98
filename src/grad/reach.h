// What a backward from some places on the tape may come to, without running it: more than it will, where a rule has no
// gradient for an input.
#pragma once
#include "base/vec.h"
#include "grad/map.h"
#include "grad/tape.h"

struct tape_reach {
    struct node_map seen;
    VEC(const struct tape_node *) nodes;
};
kiln_status reach_from(struct tape_reach *r, const struct tape_node *n); // and from where it was asked for before
bool reach_has(const struct tape_reach *r, const struct tape_node *n);
void reach_finish(struct tape_reach *r);
