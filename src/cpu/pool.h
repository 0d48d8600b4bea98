// The threads of the CPU device, and how they share the ranges of one loop.
#pragma once
#include "cpu/parallel.h"

// Runs fn over [0, units) on at most `threads` threads, the calling one among them. Ranges wait for no thread: what a
// thread that has no processor has not begun, others take. A loop inside of a loop, or beside that of another thread,
// runs on its own thread alone. Errors as cpu_parallel.
kiln_status cpu_pool_run(int threads, int64_t units, int pieces, cpu_range_fn *fn, void *user);

// In a child: none of the threads is there.
void cpu_pool_lost(void);
