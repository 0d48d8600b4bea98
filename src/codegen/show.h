// What a step of a schedule is, as texts for people: its nodes, its kernel, and what the kernel becomes.
#pragma once
#include "spirv/spirv.h"
#include "fuse/fuse.h"

struct show_target {
    const struct device_caps *caps;
    spirv_include_fn include; // of shader templates; NULL: the device takes no shaders
};

// Empty where there is none. A text that cannot be had is a comment that says why.
struct show_step {
    struct str nodes;             // of the graph, one a line
    struct str kernel;            // fused_text
    struct str glsl, spirv, llvm; // of the kernel, on devices that take it
    struct spirv module;          // what `spirv` is the text of
};

void show_step_init(struct show_step *s);
void show_step_free(struct show_step *s);
kiln_status show_step(const struct units *u, const struct fuse_step *step, const struct show_target *t,
                      struct show_step *s);
// The kernel's name, or that of the op that runs by itself.
const char *show_step_name(const struct units *u, const struct fuse_step *step);
// Why it was not fused with what it reads or feeds; NULL: it was fused with all that it could be.
const char *show_step_why(const struct units *u, const struct fuse_step *step);
