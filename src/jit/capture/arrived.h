// Backward graphs for the gradients that arrive.
//
// Eager mode computes nothing of a gradient that nothing gave. A zero in its place is another number where it meets
// what is infinite or no number: 0 times that is no number. So a result that no gradient comes to is taken out of the
// backward graph, with all that was made of it alone.
#pragma once
#include "program/program.h"

struct backward {
    struct backward *next;
    struct kiln_graph *graph;          // NULL: none
    int32_t *outputs;                  // by target: the place of its gradient among what the graph gives; -1: none
    bool *arrived;                     // by input of the graph that is a gradient; NULL: all
    _Atomic(struct program *) program; // made at the first backward
};
void backward_finish(struct backward *b);

// The first `n` inputs of `graph` are gradients. *out is the graph without those that did not arrive: they stay inputs
// and are not read. absent: by output, filled; what came of them alone is no output any more. The graph must be linear
// in the gradients, but between nodes if_arrived.
kiln_status graph_of_arrived(const struct kiln_graph *graph, const bool *arrived, size_t n, bool *absent,
                             struct kiln_graph **out);
