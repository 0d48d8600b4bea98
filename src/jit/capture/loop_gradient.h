// The gradient of a loop on the tape: what its node holds.
#pragma once
#include "jit/capture/region_again.h"
#include "jit/capture/region_loop.h"
#include "jit/capture/region_thin.h"

// What an input of the backward graph is in a trip.
enum from { FROM_STATE, FROM_ROW, FROM_NUMBER, FROM_ALL, FROM_NONE };
struct backward_input {
    enum from from; // NONE: no gradient arrived, nothing reads it
    size_t at;      // STATE, ROW: which; ALL: what the node keeps
};

// What a gradient that the node gives is.
enum of { OF_STATE, OF_ROWS, OF_SUM, OF_NONE };
struct backward_target {
    enum of of;     // NONE: nothing that arrived leads to it
    size_t at;      // STATE: which; ROWS, SUM: in order
    int32_t output; // of the backward graph; -1: none
};

// What is scanned backwards: gradients of rows, or what the node keeps.
struct backward_row {
    bool is_gradient;
    size_t at; // the result, or what is kept
};

// What a source of the body is, for gradients of gradients.
enum loop_source_of { SOURCE_IS_CARRIED, SOURCE_IS_SCANNED, SOURCE_IS_NUMBER, SOURCE_IS_OUTER };
struct loop_source {
    enum loop_source_of from;
    size_t at; // CARRIED, SCANNED: which; OUTER: what the node keeps
};

struct loop_again {
    struct region_again of;      // the body
    struct loop_source *sources; // of.n_sources
    size_t *first;               // n_carried, then n_scanned: what the node keeps
    int64_t *target_source;      // by target
    size_t n_carried, n_scanned; // n_carried: with what is written
};

struct loop_held {
    const char *op;
    kiln_device *dev;
    struct kiln_graph *graph; // of the body
    struct error_record *failure;
    struct backward_input *inputs;
    size_t n_inputs, n_douts, n_outputs; // n_douts: gradients, the first inputs
    struct backward_target *targets;
    size_t n_targets, n_sums, n_given; // n_given: gradients of rows
    size_t *states;                    // n_states: the result whose gradient each carries
    size_t n_states;
    struct backward_row *rows;
    size_t n_rows;
    struct type *types; // n_targets, then n_results: of gradients
    size_t n_results;
    int64_t trips; // -1: what the node keeps at `count` tells, .bound at most
    int64_t bound, unroll;
    size_t count;
    bool reverse;
    int64_t number; // of the random ones, which other runs of the body have as well
    struct loop_again again;
};

// loop_again.c: the rule under a tape.
kiln_status loop_again_rule(const struct tape_node *n, kiln_tensor *const *in, kiln_tensor *const *dout,
                            kiln_tensor **din);
void loop_again_finish(struct loop_again *a);

// The loop over the same trips, in the other direction or the same; the count is among `kept`.
struct control_loop loop_of_trips(const struct loop_held *h, kiln_tensor *const *kept, bool reverse);
kiln_tensor *loop_last_trip(const struct loop_held *h, kiln_tensor *const *kept); // its number

void loop_held_finish(struct loop_held *h); // parts that a thinner copy has of its own

// loop_thin.c: without the gradients that did not arrive. *out has parts of its own, and what it shares with h. Its
// graph lives as long as *graph. After an error both may be finished, too.
kiln_status loop_thin(const struct loop_held *h, kiln_tensor *const *dout, struct loop_held *out,
                      struct thinned *graph);
