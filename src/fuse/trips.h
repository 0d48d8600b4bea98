// The body of a loop, one fused kernel, as a kernel that makes the trips itself.
#pragma once
#include "fuse/kernel.h"

// What the accesses of the body are to the loop.
struct trips_of {
    int16_t reads[FUSED_MAX_IN];   // the carried value that it reads; -1: none
    int16_t writes[FUSED_MAX_OUT]; // the result that it stores; those that are carried come first
    int n_carried;
    int64_t step_B[FUSED_MAX_IN + FUSED_MAX_OUT]; // from trip to trip
    uint16_t number, count;                       // inputs of the program: the first trip's number, how many there are
    int64_t few;                                  // elements that may go together
    int64_t most;                                 // of a launch
};

// NULL without an error: the trips of this kernel have to be launched one by one, and *why says why. The new kernel
// shares nothing that changes with `k`.
kiln_status fuse_trips(struct arena *a, const struct fused_kernel *k, const struct trips_of *of,
                       struct fused_kernel **out, const char **why);

// beside.c: kernels of which none reads what another one writes, as one. NULL without an error: their spaces do not
// fit.
kiln_status fuse_beside(struct arena *a, const struct fused_kernel *const *kernels, size_t n,
                        struct fused_kernel **out);
