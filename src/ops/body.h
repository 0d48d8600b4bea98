// The body of a kernel of the catalogue, while the program runs: what fusion puts together.
#pragma once
#include "base/arena.h"
#include "ir/launch.h"
#include "ops/cost.h"
#include "ops/row.h"
#include "scalar/scalar.h"

// What a kernel computes, over its inputs, then its run-time scalars (SCALAR_INPUT); an input that is gathered from is
// a SCALAR_LOAD of its number. Expanded.
struct kernel_body {
    struct scalar_dag dag;
    enum scalar_class in_cls[MAX_OPERANDS]; // into which each input is loaded
    bool moves;                             // the output is an element of the first input as it is, whatever its dtype
    bool places;                            // the first input is read at a place that is computed
    struct kernel_work work;                // as the row says it, before functions are expanded
    int check;                              // a node that must hold everywhere; -1: none
};

bool kernel_has_body(kernel_id k);
bool kernel_multiplies(kernel_id k); // written by hand for the CPU, an anchor of fused kernels elsewhere
// The launch of such a kernel as its expression sees it: see struct kernel_row. Returns the number of windows.
int kernel_unfold(kernel_id k, struct launch *l, struct launch_window *windows);
// Parsed at the first use and kept for the life of the process; NULL with an error for kernels that have none. Safe
// from any thread.
const struct kernel_body *kernel_body(kernel_id k);
