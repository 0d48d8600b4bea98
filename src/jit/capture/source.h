// Where the inputs of a captured graph come from at each call.
#pragma once
#include "grad/tape.h"
#include <stdio.h>

enum source_kind {
    SOURCE_INPUT,    // an input of the call
    SOURCE_NUMBER,   // an input that is a number
    SOURCE_SPAN,     // the memory that some inputs lie in, from the first element to the last
    SOURCE_MEMORY,   // a storage that parameters or states, and perhaps inputs, lie in
    SOURCE_HOST,     // a number that a function of the user's gives
    SOURCE_LEAF,     // a parameter or state
    SOURCE_GRADIENT, // the gradient of a parameter
    SOURCE_OUTER,    // of a region: what a variable of the capture around it holds
    SOURCE_CARRIED,  // of a region: a value that each of its runs is given anew
};

struct source {
    uint8_t kind;
    bool row_major;
    bool pinned; // INPUT, SPAN: the function reached this very memory from outside, too
    bool placed; // INPUT, SPAN: the function named places in the memory by their number
    bool written;
    bool again;       // gradients of gradients compute with its value
    int32_t value;    // in the graph
    int32_t variable; // in the recorder
    size_t input;     // of the call; SPAN: the first one
    int64_t shift;    // SPAN: of its first element from that input's
    double (*number)(void *user);
    void *user;
    struct tape_node *leaf;   // a reference
    struct storage *storage;  // LEAF, MEMORY, or pinned: a reference
    kiln_tensor *gradient;    // LEAF, INPUT, while it is captured: what the parameter had before; owned
    bool grad;                // SOURCE_LEAF: it requires a gradient
    bool history;             // LEAF: a state whose value requires a gradient, as what was written to it
    struct tape_node *place;  // of such a state, while it is captured: what its value is on the tape; a reference
    bool gradient_read;       // LEAF, INPUT: after a backward that goes on outside, the function reads its gradient
    bool changed;             // LEAF, INPUT: the function gave it a gradient, or took it away
    bool no_gradient;         // LEAF, INPUT: the function found that it has none
    bool of_input;            // GRADIENT: of the parameter that `input` is, not of `leaf`
    int32_t outer;            // OUTER: the variable there; CARRIED: -1
    struct tape_edge outside; // OUTER: where it lies on the tape there; a reference, until the capture has ended
    int32_t outside_place;    // OUTER: by which of that variable's places
    struct type type;
    struct layout layout;
};

// The program holds the storage.
static inline bool source_holds_storage(const struct source *s)
{
    return s->kind == SOURCE_LEAF || s->kind == SOURCE_MEMORY || s->pinned;
}

// The parameter that it is, or whose gradient it is, in this call. An INPUT: if it is one.
static inline struct tape_node *source_leaf(const struct source *s, kiln_tensor *const *in)
{
    return s->kind == SOURCE_INPUT || s->of_input ? in[s->input]->node : s->leaf;
}

// It comes as a number, without memory.
static inline bool source_is_number(const struct source *s)
{
    return s->kind == SOURCE_NUMBER || s->kind == SOURCE_HOST;
}

// Memory in which sources overlap of which one is written.
struct joined {
    struct storage *storage; // a reference
    bool whole;              // all of it is one source
};
