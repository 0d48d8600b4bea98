// Which results may be computed into the storage of something that the graph was given.
#pragma once
#include "ir/graph.h"

struct pass_donation {
    int32_t output;     // index in graph.outputs
    int32_t target;     // the input or constant whose storage the output takes, -1: none
    int32_t safe_after; // the last node, of those outside regions, that reads the old value; -1: none does
    bool at_once;       // the output's own node may write there while it reads; else its reads must be over
};

// One a graph output, into out[0 .. g->outputs.n). A write takes the storage of its target, a result that of an input
// which the caller gives away: `given[i]` says so of value i; NULL: nothing is given away. Each storage is taken once.
// An output with target -1 needs memory of its own; a write then copies at the end.
kiln_status pass_donations(const struct kiln_graph *g, const bool *given, struct pass_donation *out);
