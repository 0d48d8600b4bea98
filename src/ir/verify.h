// The verifier's parts: arrays, values and regions (verify.c), single nodes (verify_node.c).
#pragma once
#include "ir/graph_text.h"

struct verifier {
    const struct kiln_graph *g;
    int32_t node;   // the one at fault, or -1
    uint8_t *used;  // of each value: a token that was taken
    int32_t *depth; // of each region
    int64_t
        *n_claimed; // of each region: nodes that say they are in it, those of regions inside counted with their owner
    const struct type **in; // for calls of infer
    size_t in_cap;
};

// "graph: ...": KILN_E_FORMAT.
kiln_status verify_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
// Whether region `inner` is `outer` or lies in it; -1 is the graph.
bool verify_inside(const struct kiln_graph *g, int32_t inner, int32_t outer);
// A value that is used in a region before value number `before` is made. `what` is for messages.
kiln_status verify_use(struct verifier *v, int32_t value, int32_t region, int32_t before, const char *what);
kiln_status verify_node(struct verifier *v, int32_t index); // when arrays, values and regions are right
