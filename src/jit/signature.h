// What a captured function was declared to take.
#pragma once
#include "ir/type.h"
#include <kiln/jit.h>

// Dimensions below 0 are open: -1, or a symbol.
struct signature {
    struct type *v; // n; owned. `weak`: a number, which functions of files tell from tensors
    size_t n;       // 0: anything
};

// Of .input_signature or .input_types, which it leaves without their lists.
kiln_status signature_take(struct signature *s, kiln_jit_opts *o);
void signature_finish(struct signature *s);
kiln_status signature_check(const struct signature *s, const char *name, kiln_tensor *const *in, size_t n_in);
