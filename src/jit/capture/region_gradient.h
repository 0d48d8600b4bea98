// A node with regions on the tape.
#pragma once
#include "jit/capture/region.h"
#include "ir/graft.h"

struct region_node {
    const char *op;
    struct recorder *o;
    struct region_record *records;
    size_t n_records;
    const struct region_variables *read;
    kiln_tensor *const *operands; // by what is read
    kiln_tensor *index;
    kiln_tensor *const *results; // n_results that are differentiated, then what each region has saved
    size_t n_results;
    int64_t number; // of the random ones, that the node has
};

// Gives the results a node of the tape, if anything that they come of requires a gradient.
kiln_status region_place_on_tape(const struct region_node *n);
kiln_status capture_branches(struct sink *sink, const struct control_branches *b, kiln_tensor **out, bool *taken);
