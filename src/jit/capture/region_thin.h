// Backward graphs of regions without the gradients that did not arrive.
#pragma once
#include "ir/graph.h"

struct thinned {
    const struct kiln_graph *graph;
    struct kiln_graph *made; // owned; NULL: all arrived, and the graph is the one that it was made of
    int32_t *places;         // by output of that one: which of `graph`; -1: nothing that arrived leads to it
};
// The first n inputs of `graph` are gradients, and stay inputs. After an error thinned_finish may be called, too.
kiln_status region_thin(const struct kiln_graph *graph, const bool *arrived, size_t n, struct thinned *out);
void thinned_finish(struct thinned *t);
