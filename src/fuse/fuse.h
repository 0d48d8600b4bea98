// Fusion: which units of a graph become one kernel, and the kernel that they become. It looks at spaces, strides and
// dependences, never at the names of ops.
#pragma once
#include "fuse/kernel.h"
#include "fuse/units.h"

// One step of a program: a fused kernel, or a unit as it is. A unit that is cheap to compute again may be part of
// several steps.
struct fuse_step {
    struct fused_kernel *kernel; // access.buffer: of the units; NULL: the unit runs by itself
    const int32_t *units;        // in order
    int n_units;
    const char *why; // why it was not fused with what it reads or feeds, or NULL
    int32_t table;   // steps that follow each other with the same number run as one launch; -1: by itself
    int32_t root;    // the first of its roots
};

struct fuse_schedule {
    struct arena arena;
    VEC(struct fuse_step) steps;
    struct fuse_plan *plan; // new decisions, the schedule's; NULL: the plan that was given was followed
    size_t plan_B;
};

struct fuse_options {
    bool off;                     // each unit that has an expression is a kernel of its own
    bool alone;                   // a unit that ends by itself becomes a kernel too; it runs as it is otherwise
    bool round_casts;             // see struct program_options
    bool verify;                  // fused_verify on each kernel
    const struct fuse_plan *plan; // what was decided about units of the same form; NULL: nothing is known
    size_t plan_B;
};

// Decisions that hold for units of one form: see plan.c. One block of memory without addresses; one that is no plan of
// these units is not followed.
struct fuse_plan;
// Appends the form. `exact`: with all sizes and numbers, so that search finds the same for equal bytes.
void fuse_form(const struct units *u, const struct fuse_options *o, bool exact, struct str *out);

kiln_status fuse(const struct units *u, const struct device_caps *caps, const struct fuse_options *o,
                 struct fuse_schedule *out);
void schedule_finish(struct fuse_schedule *s);

// --- anchor.c ---

// Steps, for each point of a product, of what is computed again on the way into it: once for each tile but the first
// along the other side.
double anchor_again(const struct fused_kernel *k);
// Why the product `alone` should not become `both`, or NULL.
const char *anchor_objects(const struct fused_kernel *alone, const struct fused_kernel *both);

// --- build.c ---

// The kernel of a set of units. NULL without an error: these units do not fit into one kernel, and *why says why.
struct fuse_set {
    const struct units *u;
    const int32_t *units; // in order
    int n_units;
    const bool *inside;  // by unit
    const bool *escapes; // by buffer: it is read outside the set, or kept
    bool round_casts;
    bool for_attention; // rows and their product, which only attention computes together
    bool checks;        // indices out of range are reported
};
kiln_status fuse_kernel(struct arena *a, const struct fuse_set *set, struct fused_kernel **out, const char **why);

// --- verify.c ---

// Checks a finished kernel whose accesses name these buffers. KILN_E_INTERNAL says what is wrong.
kiln_status fused_verify(const struct fused_kernel *k, const struct unit_buffer *buffers);
