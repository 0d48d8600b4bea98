// The backward engine.
#pragma once
#include "grad/map.h"
#include "grad/tape.h"

struct run_entry;
struct leaf_result {
    struct tape_node *leaf; // or an input behind which nothing is
    kiln_tensor *grad;
    kiln_tensor *raw; // in a capture: before the leaf's hooks
};
struct run {
    // Set by the caller.
    bool keep;             // leave the tape
    bool create_graph;     // record the backward itself; implies keep
    bool accumulate;       // leaves: add to the gradients that are there
    uint64_t since;        // nodes that are not newer are not used up
    uint64_t inputs_until; // INPUT nodes from since to here are where the gradient ends
    bool only_new;         // nodes not newer than `since` lead to no target
    size_t n_targets;      // 0: the gradient is left in the leaves
    struct tape_node *const *targets;
    const uint32_t *outs;   // n_targets: which output, and the gradient goes on to other targets; NULL: 0, and it ends
    kiln_tensor **captured; // n_targets: gradients, NULL where none arrived; in the scope that is open
    bool may_be_absent;     // a graph is made, of which gradients that do not arrive will be taken out
    bool cuts;              // with targets: what kept no tape may have led to them
    struct tape_node *const *also; // n_also: looked at for what is_outside says alone
    size_t n_also;
    struct ir_builder *builder; // build a graph instead: saved values become inputs
    bool enters;     // result: there are ways to inputs of the capture in progress, behind which lies who knows what
    bool is_outside; // result, with targets: there are ways that end at leaves, or at nodes not newer than `since`
    // The engine's own.
    struct run_entry **heap;
    size_t n_heap, cap_heap;
    struct run_entry *spare;
    struct run_entry *now;   // it is being run
    struct node_map entries; // pending nodes
    struct node_map info;    // with targets: which nodes matter
    struct node_map by_out;  // where not all outputs of one do: which, as bools
    struct leaf_result *results;
    size_t n_results, cap_results;
    struct leaf_result *arrived; // in a capture: at inputs
    size_t n_arrived, cap_arrived;
};
kiln_status run_add(struct run *r, const struct tape_edge *at, kiln_tensor *grad); // takes the handle
kiln_status run_backward(struct run *r);
void run_finish(struct run *r);
kiln_status run_note(const struct gradient_note *n); // tells the capture of this thread, if there is one
