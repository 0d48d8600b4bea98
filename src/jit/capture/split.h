// A joint graph, forward and backward, as two: the forward one, which gives what the backward one needs of it, too.
#pragma once
#include "ir/graph.h"

// An input of the backward graph, after the gradients of the outputs.
struct saved {
    int32_t source; // an input of the forward graph, by its place among them; -1: an output
    int32_t output; // of the forward graph, by its place among those without a target
    struct type type;
};

struct split {
    // Given.
    size_t n_nodes, n_values, n_operands, n_regions; // of the joint graph: where the backward part begins
    const int32_t *sources;                          // the values of the forward inputs
    const bool *written;                             // by source: its memory has another value after a run
    size_t n_sources;
    const int32_t *douts; // the values of the gradients of outputs, inputs of the joint graph
    size_t n_douts;
    const int32_t *grads; // what the backward graph gives; -1: nothing
    size_t n_grads;
    bool again; // what can be computed again is not saved
    // Made.
    struct kiln_graph *backward;
    struct saved *saved; // allocated
    size_t n_saved;
};

// Cuts the joint graph `g` down to the forward part.
kiln_status split_graph(struct kiln_graph *g, struct split *s);
