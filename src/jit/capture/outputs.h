// What a call gives. A function of tensors fills the list of its caller; one of bundles gives as many tensors as it
// likes, which is known when it has run, and the form of the bundle that they are in.
#pragma once
#include "bundle/bundle.h"

struct outputs {
    kiln_tensor **v; // new handles of the caller's scope
    size_t n;
    struct bundle_run *run; // how the function is run; NULL: on tensors. `v` is allocated then
    double flops;           // of the program that ran, while a profile is taken; 0: not known
};
