// Ops that users registered, on the CPU: their expression, block by block, in the scalar layer's interpreter.
#pragma once
#include "cpu/kernels/kernel.h"

bool cpu_user_supports(const struct launch *l);
kiln_status cpu_user_launch(const struct cpu_isa *isa, const struct launch *l);
