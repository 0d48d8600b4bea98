// Kernels as GLSL compute shaders. The text stands on the templates in shaders/, which it includes by name.
#pragma once
#include "codegen/catalogue/kernel.h"

// How many partial values a row kernel saves between phases: one a reduction that the root needs. 0 for pointwise.
int glsl_reduction_count(const struct kernel *k);
