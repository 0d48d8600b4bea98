// The part of a plan of memory that needs no arena.
#pragma once
#include "fuse/memory.h"

// Fills within[n], as in struct memory_plan.
kiln_status memory_find_hosts(const struct plan_buffer *buffers, int32_t n, const struct plan_candidate *candidates,
                              int32_t n_candidates, int32_t *within);
