// Threads and scratch memory of the CPU device.
#pragma once
#include "base/base.h"

// Work units [begin, end). On failure it has called error_set on the thread it ran on.
typedef kiln_status cpu_range_fn(void *user, int64_t begin, int64_t end);

// Runs fn over [0, units) in one contiguous range a thread. A unit costs unit_cost elements of a cheap loop; little
// work stays on the calling thread, for starting a parallel region costs about as much as 20,000 elements. An error of
// any range becomes the calling thread's.
kiln_status cpu_parallel(int64_t units, int64_t unit_cost, cpu_range_fn *fn, void *user);

// The threads of OpenMP are in use, by cpu_parallel or by a library: in a child, where there are none, the thread that
// forked works alone.
void cpu_pool_used(void);

// Before anything that takes threads from the pool: in a child, takes what fork has noted into account.
void cpu_pool_settle(void);

int cpu_threads(void); // how many threads cpu_parallel uses at most; the first time, tries whether they can be started

// The same without the trial. A process that has started a thread pays more for each allocation, so that opening a
// device starts none.
int cpu_threads_wanted(void);

// Between the two a library that uses the pool works on the calling thread alone. cpu_pool_leave gives what
// cpu_pool_return takes.
int cpu_pool_leave(void);
void cpu_pool_return(int threads);

// Memory of the calling thread, 64-byte aligned, kept until the thread ends; a later call for the same slot may move
// it. NULL and an error when memory is out.
enum cpu_scratch_slot {
    CPU_SCRATCH_BLOCKS,
    CPU_SCRATCH_KEEP,
    CPU_SCRATCH_STATE,
    CPU_SCRATCH_CUSTOM,
    CPU_SCRATCH_PANELS, // of a product: what is packed for all threads, what for one, sums between chunks, and of
                        // pieces
    CPU_SCRATCH_ROWS,
    CPU_SCRATCH_SUMS,
    CPU_SCRATCH_PIECES,
    CPU_SCRATCH_COUNT
};
void *cpu_scratch(enum cpu_scratch_slot slot, size_t size_B);
