// Inside fusion: steps whose kernels have equal bodies become one launch.
#pragma once
#include "pass/fuse_roots.h"

struct table_input {
    struct schedule *out;
    const struct roots *r;
    int32_t *step_of;              // by root
    struct fused_kernel **kernels; // by step; NULL: it has none, or none of its own
};

// On a device where launches cost little (the CPU), a step that is a single unit stays as it is.
kiln_status fuse_tables(struct table_input *in, bool cheap_launches);
