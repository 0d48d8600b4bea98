// Kernels of graphs: of a text, and of the folder that a program left.
#pragma once
#include "shader_target.h"

struct shader_request {
    const char *op;     // kernels whose name matches; NULL: all
    const char *device; // of a text
    bool list, glsl, spirv, llvm, stats;
    const struct target_request *target; // NULL: none
};
int shader_graph(const char *path, const struct shader_request *r); // exit statuses
int shader_dump(const char *folder, const struct shader_request *r);
