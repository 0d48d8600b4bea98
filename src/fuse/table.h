// Inside fusion: steps whose kernels have equal bodies become one launch.
#pragma once
#include "fuse/roots.h"

struct table_input {
    struct fuse_schedule *out;
    const struct roots *r;
    int32_t *step_of;              // by root
    struct fused_kernel **kernels; // by step; NULL: it has none, or none of its own
};

// On a device where launches cost little, a step that is a single unit stays as it is.
kiln_status fuse_tables(struct table_input *in, bool cheap_launches);
