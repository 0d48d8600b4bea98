// What goes on with a product's result, see ir/launch_after.h.
#pragma once
#include "cpu/kernels/kernel.h"
#include "ir/launch_after.h"

// Slices [begin, end), on the calling thread.
kiln_status CPU_FN(cpu_after)(const struct launch_after *a, int64_t begin, int64_t end);
// All of them, on the device's threads.
kiln_status CPU_FN(cpu_after_all)(const struct launch_after *a);
