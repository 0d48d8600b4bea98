// The instruction sets that kernels were compiled for, and the one this machine runs.
#pragma once
#include "base/base.h"
#include "cpu/kernels/kernel.h"

// The best one that was built and that the machine has; $KILN_CPU_ISA names a lower one. KILN_E_UNSUPPORTED when there
// is none, KILN_E_ARGUMENT for a name that was not built or that the machine cannot run.
kiln_status cpu_isa_choose(const struct cpu_isa **out);
