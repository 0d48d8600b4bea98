// Regions of control flow while they are recorded: each by a recorder of its own, into a graph of its own, which then
// becomes a region of the graph around it.
#pragma once
#include "ir/graft.h"
#include "jit/capture/gradient.h"
#include "jit/capture/recorder.h"
#include "jit/control/control.h"

// What is differentiated by: a place on the tape of the capture around.
struct region_target {
    int32_t variable;       // there
    struct tape_edge at;    // there
    int32_t source;         // in the region
    struct tape_node *node; // in the region; borrowed of its source
};

// Variables of the capture around, in the order of their first use.
struct region_variables {
    VEC(int32_t) v;
};

struct region_record {
    struct recorder r;
    bool begun;
    bool without_backward;                 // targets are found, no backward graph is made
    bool computed_again;                   // the backward graph begins with what the region is given
    const struct region_variables *forced; // that require a gradient though they do not outside; NULL: none
    uint64_t since;                        // nodes that are newer are the region's
    // By output, then by variable of the capture around that any region of the node writes. In the scope around.
    kiln_tensor **made;
    int32_t *values;
    int32_t *again; // the same, as a run of the graph under a tape gives it; NULL: no gradient is wanted
    size_t n_values;
    struct region_target *targets;
    size_t n_targets;
    struct gradient g;
    struct error_record *failure; // why there is no gradient; owned
};

// Runs the region under its recorder. `made` gets its outputs, of the scope that is open.
kiln_status region_record(struct region_record *c, struct recorder *outer, const struct region *region,
                          kiln_tensor *const *in, size_t n_in, kiln_tensor **made, size_t n_out);
// The region's handle on all of a variable of the capture around, which some of all n regions have reached.
kiln_status region_show_outer(struct region_record *c, const struct region_record *all, size_t n, int32_t variable,
                              kiln_tensor **out);
// The values of c->made; with that the backward graph, if a gradient is wanted.
kiln_status region_close(struct region_record *c, const char *op);
void region_finish(struct region_record *c, const char *op, uintptr_t caller); // constants move to the capture around

kiln_status region_find_read(const struct region_record *c, struct region_variables *out);
kiln_status region_find_written(const struct region_record *c, struct region_variables *out);
int32_t region_find(const struct region_variables *v, int32_t variable);     // its place; -1: not among them
bool region_gains_gradient(const struct region_record *c, int32_t variable); // by being written
// A handle of the capture around on a variable, at the place on the tape by which some of all n regions have reached
// it.
kiln_status region_operand(struct recorder *o, const struct region_record *all, size_t n, int32_t variable,
                           kiln_tensor **out);
// The variable that some of the regions wrote has another value, and unless none did so with a gradient, another place
// on the tape.
kiln_status region_write_outer(struct recorder *o, const struct region_record *c, size_t n, int32_t variable,
                               const kiln_tensor *value);
// For a run that fails inside of the node: what the region has written, once it has been grafted as `region`; of the
// body of a loop, that each trip begins with `param` for the variable.
kiln_status region_take_writes(const struct region_record *c, struct ir_graft *graft, int32_t region);
kiln_status region_note_start(struct recorder *o, int32_t variable, int32_t param, int32_t region);
// Whether the node takes a random number: a tensor tells the device that it is on, or something is drawn.
bool region_takes_number(const struct region_record *c, size_t n, const kiln_tensor *first, kiln_tensor *const *in,
                         size_t n_in);
kiln_tensor *region_zeros_of(const struct type *t); // a gradient that nothing comes to
const struct op *region_op(const char *name);       // for its node on the tape
size_t region_saved(const struct region_record *c); // values of the forward graph that the backward graph asks for
int32_t region_saved_value(const struct region_record *c, size_t i);
