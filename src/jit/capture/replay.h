// A graph run node by node through the front door: on eager tensors, with or without a tape, or on abstract ones.
#pragma once
#include "ir/graph.h"
#include "jit/capture/gradient_step.h"
#include "program/program.h"

// `in`: a tensor for each IR_INPUT value in order. Fills a new handle, of the scope that is open, for each output
// without a target; the others are written into the input or constant that they name, in order. `rng`: the piece of the
// stream that the graph's random nodes take; NULL where it has none. `dev`: where tensors without operands are made.
kiln_status graph_replay(const struct kiln_graph *g, kiln_device *dev, kiln_tensor *const *in, const struct rng *rng,
                         kiln_tensor **out);
// A write into the memory of an input while the graph was captured.
struct happened {
    int32_t value, target; // of the graph: the input's new value, and the input
    size_t n_nodes;        // that stood there when it was done
    int32_t region;        // in which it was done; -1: none
};
struct catching_up {
    const struct happened *writes;
    size_t n_writes;
    const struct gradient_step *steps;
    size_t n_steps;
    kiln_tensor **values;     // n_steps: of the steps before the error, as new handles; NULL: it has none
    size_t n_taken;           // steps that came before it
    struct error_record *why; // as the op says
    kiln_tensor **of_regions; // n_writes: what a region that was not left had written; owned by the run
};
// Runs the graph up to the op that fails, and does the writes that came before it. No error is left.
void graph_catch_up(const struct kiln_graph *g, kiln_device *dev, kiln_tensor *const *in, const struct rng *rng,
                    struct catching_up *c);
// The values asked for, as new handles; nothing that they do not need is run, and nothing written.
kiln_status graph_evaluate(const struct kiln_graph *g, kiln_device *dev, kiln_tensor *const *in, const struct rng *rng,
                           size_t n, const int32_t *values, kiln_tensor **out);
