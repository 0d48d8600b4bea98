// One capture of a function: its graph, where the graph's inputs come from, and what becomes of its outputs.
#pragma once
#include "ir/graph.h"
#include "bundle/bundle.h"
#include "jit/capture/gradient.h"
#include "jit/capture/gradient_step.h"
#include "jit/capture/replay.h"
#include "program/program.h"
#include "jit/capture/source.h"
#include <kiln/jit.h>
#include <string.h>

enum result_kind {
    RESULT_OUTPUT, // an output of the program, or a part of it
    RESULT_SOURCE, // what an input of the graph shows: the caller's memory
    RESULT_NUMBER,
};
struct result {
    uint8_t kind;
    bool part;     // `layout` tells where in the output it lies
    bool dense;    // row-major in memory, where passes may have found a view
    bool alone;    // no other result is that output
    uint8_t shown; // enum shown_as: how the caller sees it
    int32_t index; // of the output or source
    struct type type;
    struct layout layout; // RESULT_SOURCE: in the memory, as if the source lay where it lay at capture
    double number;
    int64_t integer;
};

struct capture_request;

// Whether a result is all that its source shows. A view of it may have the same type.
static inline bool result_is_whole(const struct source *s, const struct result *r)
{
    return type_equal(&s->type, &r->type) && s->layout.offset == r->layout.offset &&
           !memcmp(s->layout.strides, r->layout.strides, sizeof *r->layout.strides * r->type.rank);
}

// A gradient that kiln_backward, called inside, left in a parameter.
struct left_gradient {
    int32_t source; // whose leaf
    int32_t output; // -1: it was dropped
};

struct captured {
    struct kiln_graph *graph;
    kiln_device *dev;
    struct source *sources; // in the order of the graph's inputs
    size_t n_sources;
    int32_t *source_of;        // by input of the call; -1: it is a constant
    struct tape_node **leaves; // that lie in the source of another; references
    size_t n_leaves;
    bool asks_sharing;
    struct result *results;
    size_t n_results;
    struct left_gradient *left;
    size_t n_left;
    struct gradient_step *gradient_steps;
    size_t n_gradient_steps;
    bool goes_on;             // a backward inside comes to inputs, and goes on outside
    struct host_call **hosts; // that nodes of the graph name; references
    size_t n_hosts;
    struct gradient gradient; // graph NULL: none
    kiln_tensor **constants;  // held by the graph; owned
    size_t n_constants;
    struct happened *happened; // the writes of sources, in order
    size_t n_happened;
    uint64_t counters;           // of the random stream, for a run
    size_t n_outputs;            // of the program, those that are written back not counted
    struct bundle_result form;   // of the results, where they are in a bundle
    struct bundle_seen *bundles; // from outside, that the function has read
    size_t n_bundles;
};

// What stands in for the code of a function: graphs that are there before it is called.
struct capture_origin {
    // The graph for these inputs, as if it had been captured; on an error *out is empty.
    kiln_status (*captured)(void *user, const struct capture_request *q, struct captured *out);
    void (*drop)(void *user);
    void *user;
};

struct capture_request {
    const struct capture_origin *origin; // NULL: the function is code
    kiln_fn fn;
    void *user;
    const char *name;
    kiln_capture kind;
    kiln_syntax syntax;
    uint64_t max_nodes;
    kiln_tensor *const *in;
    size_t n_in, n_out;
    const uint8_t *run_time; // n_in: which numbers are inputs of the graph
    struct bundle_run *run;  // how the function is run, instead of fn; it tells n_out then
    const struct joined *joined;
    size_t n_joined;
    // Out, where the capture has failed: what must be otherwise.
    int must_be_constant;   // a number that the function read; -1: none
    struct joined conflict; // memory that must be one source; storage NULL: none
};

kiln_status capture_run(struct capture_request *q, struct captured *out);
// What the function left as output i.
kiln_status captured_check_output(const char *name, size_t i, size_t n, const kiln_tensor *t);
void captured_finish(struct captured *c);
// The tensor that an input of the graph gets in a call, of the open scope or borrowed.
kiln_status source_tensor(const struct source *s, kiln_tensor *const *in, kiln_tensor **out);
// Where the value of such a state is on the tape now.
kiln_status source_history(const struct source *s, struct tape_edge *out);
// The handles of a call that has run, of the open scope. `fresh`: outputs are handles of their own, which may be given
// on.
kiln_status captured_results(const struct captured *c, kiln_tensor *const *in, kiln_tensor *const *sources,
                             kiln_tensor *const *outputs, bool fresh, kiln_tensor **out);
size_t captured_unread(const struct captured *c); // inputs that neither the graph nor the caller reads
