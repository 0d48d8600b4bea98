// Gradients of gradients of control flow: what a region computes, run once more under a tape.
#pragma once
#include "jit/capture/region.h"

struct region_again {
    struct kiln_graph *graph; // of the region: owned
    int32_t *values;          // n_values: of the graph, as a run under a tape gives them
    bool *gives;              // n_values: a gradient may come to it
    size_t n_values, n_sources;
    bool is_unlike; // it writes memory in a way that such a run does not follow
};

// Takes the graph of a region whose node has been made, and whose gradient has been derived.
kiln_status again_take(struct region_again *a, struct region_record *r);
void again_finish(struct region_again *a);

// A handle on a value that a node keeps, whose place on the tape is its own to be set.
kiln_tensor *again_handle(kiln_tensor *kept);

struct again_call {
    const struct region_again *of;
    const char *op;
    kiln_device *dev;
    kiln_tensor *const *sources; // of->n_sources, in the order of the graph's inputs
    kiln_tensor *const *dout;    // of->n_values; NULL: none arrived
    const int64_t *wrt;          // n_wrt sources
    size_t n_wrt;
};
// By each of wrt the gradient, zeros where there is none, as new handles with a tape.
kiln_status again_differentiate(const struct again_call *c, kiln_tensor **out);
