// Passes over graphs. A pass makes a new graph that computes the same from an old one; the runner does all that is not
// the pass's own business: time, statistics, printing, verification, leaving passes out.
//
// What "the same" means: every result has the same bits on every input, NaN, infinities, signed zeros and integers that
// wrap included; but for the payload of a NaN. Passes that do more ask options->inexact first.
#pragma once
#include "ir/rewrite.h"
#include <stdio.h>

struct pass_stats {
    int pass;  // row of pass_table
    int round; // of pass_run_all
    size_t nodes_before, nodes_after;
    uint64_t time_ns;
    bool changed;
};

struct pass_options {
    bool print_before, print_after;
    bool verify;     // the graph after each pass
    bool inexact;    // rewrites that change rounding, signs of zeros or NaN are allowed
    bool unseen;     // a pass is taken to have changed the graph: nobody looks
    uint64_t skip;   // bit i: leave out row i of pass_table
    FILE *log;       // of print_*; NULL: stderr
    const char *why; // what is compiled, for the log; may be NULL
    // After each run of a pass, with the graph as it is then; may be NULL.
    void (*each)(void *user, const struct pass_stats *s, const struct kiln_graph *g);
    void *user;
};

struct pass {
    const char *name;
    // *to is a new graph; `from` stays as it is.
    kiln_status (*run)(const struct kiln_graph *from, const struct pass_options *o, struct kiln_graph **to);
    const char *doc; // one sentence
    bool regions;    // without regions a graph stays as it is
};

extern const struct pass pass_table[]; // in the order of the pipeline
extern const int pass_count;
int pass_find(const char *name); // row of pass_table, -1: none

struct pass_report {
    VEC(struct pass_stats) runs;
    int rounds;
    bool settled; // no pass of the table would change it
};

// KILN_DEBUG=passes (print after each), verify, skip=NAME.
void pass_options_from_debug(struct pass_options *o);

// Replaces *g by the pass's result, unless that is the same graph. On an error *g is as before. `report` may be NULL.
kiln_status pass_run(int pass, struct kiln_graph **g, const struct pass_options *o, struct pass_report *report);
// The whole table, again and again until a round changes nothing, at most PASS_ROUNDS_MAX times.
#define PASS_ROUNDS_MAX 8
kiln_status pass_run_all(struct kiln_graph **g, const struct pass_options *o, struct pass_report *report);
void pass_report_free(struct pass_report *r);
