// Kernels as a GPU's compiler makes them, printed.
#pragma once
#include "gpu_target.h"

struct target_request {
    struct gpu_target *target;
    bool stats, isa;
    const struct gpu_constant *constants; // given by the user: they come before what is typical
    size_t n_constants;
};

#define TARGET_CONSTANTS 64
// False: why stands on standard error.
bool target_show_words(const struct target_request *r, const char *name, const uint32_t *words, size_t n_words);
// A kernel of the catalogue, specialised as it typically runs.
bool target_show_kernel(const struct target_request *r, size_t kernel, const char *name);
bool target_show_module(const struct target_request *r, const char *name, const char *path);
// Each line of a file: a name, a kernel's symbol or a path of a module, and constants, ID=VALUE.
bool target_show_each(const struct target_request *r, const char *path);
// "3=17" or "3=0x11".
bool target_constant(const char *text, struct gpu_constant *out);
