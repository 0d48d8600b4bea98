// Functions of the user's as parts of control flow.
#pragma once
#include "tensor/tensor.h"
#include <kiln/control.h>

// What runs, and how messages name it: "while: the body".
struct region {
    const char *op, *part;
    kiln_fn fn;
    void *user;
};

// Runs it in a scope of its own; its outputs are given as new handles of the scope that is open. With an error none is
// given.
kiln_status region_run(const struct region *r, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out);
// Whether output i of it is a tensor.
kiln_status region_check_output(const struct region *r, size_t i, size_t n, const kiln_tensor *t);
// Whether t is one bool of rank 0; `what` names it in messages.
kiln_status region_check_bool(const char *op, const char *what, const kiln_tensor *t);

// What is carried has the type that it had. A number takes the body's.
kiln_status carried_check(const char *op, size_t i, int64_t trip, const struct type *before, const struct type *after);
