// Kernels that were compiled while the program runs: a function over ranges of work units.
#pragma once
#include "base/base.h"

typedef void cpu_compiled_fn(const uint64_t *args, int64_t begin, int64_t end);
typedef void cpu_compiled_end_fn(const uint64_t *args);

// Runs fn over [0, units) on the device's threads, then end_fn (NULL: none) on the calling one. A unit costs unit_cost
// elements of a cheap loop; little work stays on the calling thread.
kiln_status cpu_run_compiled(cpu_compiled_fn *fn, cpu_compiled_end_fn *end_fn, const uint64_t *args, int64_t units,
                             int64_t unit_cost);
