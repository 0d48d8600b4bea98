// Where the inputs of a captured graph come from at each call.
#pragma once
#include "grad/tape.h"
#include <stdio.h>

enum source_kind {
    SOURCE_INPUT,    // an input of the call
    SOURCE_NUMBER,   // an input that is a number
    SOURCE_STORAGE,  // the whole storage of an input that others share
    SOURCE_HOST,     // a number that a function of the user's gives
    SOURCE_LEAF,     // a parameter or state
    SOURCE_GRADIENT, // the gradient of a parameter
};

struct source {
    uint8_t kind;
    bool row_major;
    bool pinned;      // SOURCE_INPUT: the function reached this very memory from outside, too
    int32_t value;    // in the graph
    int32_t variable; // in the recorder
    size_t input;     // of the call
    double (*number)(void *user);
    void *user;
    struct tape_node *leaf;  // a reference
    struct storage *storage; // SOURCE_LEAF, or pinned: a reference
    kiln_tensor *gradient;   // SOURCE_LEAF, while it is captured: what the parameter had before; owned
    bool grad;               // SOURCE_LEAF: it requires a gradient
    bool no_gradient;        // SOURCE_LEAF: the function found that it has none
    struct type type;
    struct layout layout;
};

// It comes as a number, without memory.
static inline bool source_is_number(const struct source *s)
{
    return s->kind == SOURCE_NUMBER || s->kind == SOURCE_HOST;
}

// What kiln_print was asked for inside.
struct printed {
    int32_t output; // of the program
    FILE *file;     // the user's
};
