// The statements of control flow, checked, and how each is carried out.
#pragma once
#include "jit/control/region.h"
#include "base/rng.h"

// The number of the stream of random numbers that a node takes (base/rng.h): the next one, or that of the node which it
// is another run of.
struct control_draws {
    bool given;
    int64_t place;          // among the numbers of the run
    const struct rng *base; // of the run; NULL: where a graph is recorded
    bool late;              // no tensor tells its device: taken when something is drawn first
};

struct control_branches {
    const char *op;     // "cond" or "switch"
    kiln_tensor *index; // the bool, or the integer
    const kiln_fn *fn;  // n; of a cond that for true first
    size_t n;
    void *user;
    void *const *users; // one for each, in place of `user`; NULL: none
    kiln_tensor *const *in;
    size_t n_in, n_out;
    struct control_draws draws;
};

struct control_loop {
    const char *op; // "while", "for" or "scan"
    kiln_fn cond;   // while; NULL: none
    kiln_fn body;
    void *user;
    kiln_tensor *const *in; // n_carried, then n_scanned
    size_t n_carried, n_scanned, n_stacked;
    int64_t count;         // trips; -1: as long as cond holds
    kiln_tensor *count_of; // that tells the count; NULL: it is known
    int64_t bound;         // at most; 0: any number
    int64_t unroll;        // a graph makes so many of them one trip
    bool numbered;         // the body gets the trip's number first
    int64_t save_every;    // what its gradient in a graph keeps, see kiln_loop_opts
    bool reverse;
    bool is_node; // of a graph that is run op by op: what the body writes are results of it, lost if it fails
    const struct type *rows; // n_stacked: of all rows of an output, where no trip tells; NULL: not known
    struct control_draws draws;
};

// control.c: in a capture that takes it a node of its graph, else carried out. Checked; the index is read.
kiln_status branches_take(const struct control_branches *b, kiln_tensor **out);
kiln_status loop_take(const struct control_loop *l, kiln_tensor **out);
kiln_status loop_read_count(const struct control_loop *l, int64_t *count); // of l->count_of

// eager.c
char *branches_name(const struct control_branches *b, size_t k, char *text, size_t size_B); // "then_fn", "branches[2]"
kiln_status branches_run(const struct control_branches *b, size_t taken, kiln_tensor **out);
kiln_status loop_run(const struct control_loop *l, kiln_tensor **out); // n_carried + n_stacked
// Installed by the layer of captures: the types of all rows of the outputs, n_stacked, of a loop that makes no trip,
// and the device on which they are; NULL: none in particular. The body runs on types alone, without effects.
extern kiln_status (*control_rows)(const struct control_loop *l, struct type *rows, kiln_device **dev);
