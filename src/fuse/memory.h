// A plan of memory: where in one arena each temporary of a run lies, known before anything runs.
#pragma once
#include "base/base.h"

enum { PLAN_ALIGN_B = 256 };
enum plan_flags {
    PLAN_INPUT = 1, // these three lie elsewhere: they get no place in the arena
    PLAN_OUTPUT = 2,
    PLAN_CONSTANT = 4,
    PLAN_RESULT = 8, // has memory of its own, and lives from its first use to the end: until then others may lie there
    PLAN_GIVEN = 16, // the caller's, who has no more use for it: there when the run begins, free behind its last use
    PLAN_ARENA = 32, // a temporary that lies in the arena
};

// Steps are numbers in the order of execution. A buffer is live from its first use, which writes it, to its last, both
// included.
struct plan_buffer {
    uint64_t size_B;
    int32_t first, last;
    uint32_t flags;
};

// Buffer `a`, written first at `step`, may take the place of `b`, used last there.
struct plan_candidate {
    int32_t a, b, step;
};

struct memory_plan {
    uint64_t *offset_B; // one a buffer; PLAN_NOWHERE where it has no place
    int32_t *in_place;  // the buffer in whose place in the arena it lies, -1: none
    int32_t *within;    // the RESULT or GIVEN buffer at whose beginning it lies instead, -1: none
    uint64_t total_B;   // size of the arena
    uint64_t naive_B;   // the sum of all temporaries' sizes
    uint64_t bound_B;   // the most that is live at one step; no plan is smaller, but one with more in place
};
#define PLAN_NOWHERE UINT64_MAX

// The same input gives the same plan. KILN_E_ARGUMENT for a buffer that ends before it begins or a candidate that does
// not fit its buffers' steps; KILN_E_SHAPE where sizes overflow.
kiln_status memory_plan_make(const struct plan_buffer *buffers, int32_t n, const struct plan_candidate *candidates,
                             int32_t n_candidates, struct memory_plan *out);
void memory_plan_free(struct memory_plan *p);
