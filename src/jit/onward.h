// A backward inside a captured function that goes on outside: in each call it comes to inputs that were made of
// parameters, and has to run on along the tape that the inputs of this call have.
#pragma once
#include "grad/reach.h"
#include "jit/capture/capture.h"

struct onward {
    struct tape_edge *edges; // by step; references
    struct tape_reach reach; // all that lies behind them
};
// Before the program runs, which may write what the tape needs to be found. Without an error where nothing goes on.
kiln_status onward_begin(const struct captured *c, const char *name, kiln_tensor *const *in, struct onward *o);
// After it: outputs are those of the program. Gradients of leaves in the reach are made here.
kiln_status onward_run(const struct captured *c, kiln_tensor *const *in, kiln_tensor *const *outputs,
                       const struct onward *o);
// The first n steps of a call that has failed, for all leaves, with their values.
kiln_status onward_catch_up(const struct captured *c, kiln_tensor *const *in, kiln_tensor *const *values, size_t n,
                            const struct onward *o);
void onward_finish(const struct captured *c, struct onward *o);
