// The gradient of a captured function: a backward graph, and what a call leaves on the tape.
#pragma once
#include "base/process.h"
#include "grad/part.h"
#include "program/program.h"
#include "jit/capture/arrived.h"
#include "jit/capture/source.h"
#include "jit/capture/split.h"
#include <pthread.h>

// What is differentiated by.
struct target {
    int32_t input; // of the call; -1: the parameter that the source is
    int32_t source;
};

// An input or state that the function wrote, and whose place on the tape its caller sees.
struct rewritten {
    int32_t input;  // of the call; -1: the state that the source is
    int32_t source; // a state's
    int32_t output;
};

enum { BACKWARDS_MAX = 16 }; // of those for some of the gradients

struct gradient {
    struct backward all;          // for the gradients of all outputs
    struct backward *some;        // for some of them; with the lock
    struct error_record *failure; // why there is none, for whoever asks for it; owned
    struct target *targets;
    size_t n_targets;
    struct saved *saved;
    size_t n_saved;
    struct rewritten *rewritten;
    size_t n_rewritten;
    // The outputs of the node: the results of the call, then what was rewritten. Some depend on nothing.
    size_t n_outputs;
    // Of a part of the tape, by output: whether a gradient arrived in the last backward. NULL: there was none yet.
    bool *arrived;
    bool *leads; // n_outputs * n_targets, found when it is asked for, with the lock: which results lead where
    struct type *types;
    int32_t *values;           // in the forward graph; -1: nothing flows back from it
    const struct op **used_up; // by output: the op whose tape a backward inside has used up; NULL: there is none
    struct tape_node **cuts;   // by result: what says that it kept no tape; NULL: all did, or none was wanted
    bool is_unlike_replay;     // gradients of gradients would be wrong
    int32_t *douts;            // the place of its gradient among the backward graph's inputs; -1: none
    size_t n_douts;
    pthread_mutex_t lock; // of who makes a program, for as long as that takes
    struct guarded guarded;
};
void gradient_finish(struct gradient *g);

struct recorder;
struct captured;
struct entry;
// While the capture lasts: differentiates what it gave, and cuts the graph in two. `made`: the results; `nodes`: the
// places on the tape that the inputs had at entry, of which those that the capture made are newer than `since` and not
// newer than `until`.
kiln_status gradient_make(struct recorder *r, struct captured *c, kiln_tensor *const *in, size_t n_in,
                          kiln_tensor *const *made, struct tape_node *const *nodes, uint64_t since, uint64_t until);

// The same of a part of the tape. `r` holds the forward graph and records; what else it needs of it becomes further
// outputs. The source of target i is -1, the results are what leaves the part.
struct part_graph {
    const int32_t *sources; // inputs of the forward graph
    const bool *written;    // by source: its value is not at hand afterwards
    size_t n_sources;
    kiln_tensor *const *roots; // abstract tensors; those without a place on the tape get no gradient
    size_t n_roots;
    struct tape_node *const *targets;
    size_t n_targets;
    uint64_t since, until; // between them the targets were made
    bool again;            // what can be computed again is not saved
};
kiln_status gradient_of_part(struct recorder *r, const struct part_graph *p, struct gradient *g);

// One node on the tape for a call. Begun before the program runs, ended when its results are there.
struct gradient_call {
    struct tape_node *node; // NULL: no gradient
};
kiln_status gradient_begin(struct entry *e, kiln_tensor *const *in, kiln_tensor *const *sources,
                           struct gradient_call *call);
kiln_status gradient_end(struct entry *e, struct gradient_call *call, const struct rng *rng, kiln_tensor *const *in,
                         kiln_tensor *const *sources, kiln_tensor *const *outputs, kiln_tensor *const *out);
// One node for a part of the tape, whose saved values `sources` hold. Takes over `part`, with an error too.
kiln_status gradient_node(struct entry *e, struct tape_part *part, const struct tape_edge *onward,
                          kiln_tensor *const *sources, const struct rng *rng, struct tape_node **out);
