// Where carried values lie by turns, in kernels that make the trips of a loop with all points together
// (fused_trips.together): in the outputs in the last trip, and every second one before it, else in the workspace.
#pragma once
#include "fuse/kernel.h"

// What the packers put into the step of an access that takes turns, in bytes. Of an output: from the workspace to its
// point 0, once that has room for it; *room_B counts that. Of an input: from point 0 of the output whose values it has
// to its own.
static inline int64_t trips_turn_B(const struct fused_kernel *k, int access, int64_t *room_B)
{
    enum { ALIGNED_B = 16 };
    const struct fused_access *a = fused_access_at(k, access);
    int64_t size_B = dtype_size_B[a->dtype], lo_B, hi_B;
    if (access < k->n_in) return (a->offset - k->out[k->trips.carried[access] - 1].to.offset) * size_B;
    fused_range(k, a, &lo_B, &hi_B);
    int64_t at_B = *room_B - lo_B + a->offset * size_B;
    *room_B += (hi_B - lo_B + ALIGNED_B - 1) / ALIGNED_B * ALIGNED_B;
    return at_B;
}
