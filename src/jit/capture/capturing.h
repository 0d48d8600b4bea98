// Inside the capture: what is at hand while the function runs. See capture.c.
#pragma once
#include "grad/state.h"
#include "jit/capture/capture.h"
#include "jit/capture/recorder.h"

struct capturing {
    struct capture_request *q;
    struct recorder r;
    kiln_tensor **inner;      // n_in: the handles that the function gets
    kiln_tensor **made;       // n_out: what it gave
    struct tape_node **nodes; // n_in: the places on the tape of `inner` at entry; references
    int32_t *source_of;       // n_in
    uint64_t since, until;    // between them are the nodes made for inputs
    struct kiln_scope scope;  // of the function
    struct sink *sink;        // outside
    uint32_t capture;
    struct captured *out;
    struct bundle_watch watch;
};

// --- capture_input.c: a source and an abstract handle for each input ---

kiln_status capture_add_inputs(struct capturing *c);

// --- capture_result.c ---

// Results, gradients and writes become outputs of the graph.
kiln_status capture_collect(struct capturing *c, struct captured *out);
