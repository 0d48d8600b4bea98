// Gradients of parameters that regions leave, as results of their node.
#pragma once
#include "jit/capture/recorder.h"
#include "jit/control/control.h"

struct region_leaf {
    struct tape_node *leaf; // a reference
    bool none;              // no gradient is left, in place of one
    bool used;              // what there was before
};
struct region_leaves {
    VEC(struct region_leaf) v;
    size_t n_given; // that are not `none`
    bool more;      // the regions leave others: they are recorded once more
};

void region_leaves_finish(struct region_leaves *l);
// Adds what a region that has been recorded leaves; an error where there is more than was known.
kiln_status region_leaves_find(struct region_leaves *l, const struct recorder *r);
// capture_branches and capture_loop, once more with what was found.
typedef kiln_status branches_taker(struct sink *s, const struct control_branches *b, struct region_leaves *l,
                                   kiln_tensor **out, bool *taken);
kiln_status region_leaves_of_branches(struct sink *s, const struct control_branches *b, branches_taker *take,
                                      kiln_tensor **out, bool *taken);
typedef kiln_status loop_taker(struct sink *s, const struct control_loop *l, struct region_leaves *leaves,
                               kiln_tensor **out);
kiln_status region_leaves_of_loop(struct sink *s, const struct control_loop *l, loop_taker *take, kiln_tensor **out);
