// A loop while it is recorded.
#pragma once
#include "ir/graft.h"
#include "jit/capture/region.h"
#include "jit/capture/region_leaves.h"

// What the body is given in each trip.
struct loop_param {
    struct type type;
    bool grad;
};

struct looping {
    const struct control_loop *l;
    struct recorder *o;
    struct region_record body, cond;
    struct loop_param *params; // n_params: carried, scanned, the number
    size_t n_params;
    int rounds;
    kiln_tensor **in;   // of the capture: carried at first, scanned
    kiln_tensor *count; // of the capture; NULL: trips are known
    int64_t trips;      // -1: as long as cond holds
    int64_t rows;       // of what is scanned and given by trip: the trips, or .bound where their number is not known
    bool counts;        // the last carried value is the number of trips
    struct region_variables written, read, forced;
    struct region_leaves *leaves; // whose gradients the body leaves
    kiln_tensor **operands;       // of the node, as handles of the capture
    kiln_tensor **results;        // carried, written, stacked, then what the backward asks for
    size_t n_operands, n_results;
    int64_t number; // of the random ones, that the node has
    uintptr_t caller;
};

// The node, and its place on the tape. Fills c->results.
kiln_status loop_add_node(struct looping *c);
kiln_status loop_place_on_tape(struct looping *c);
// Which parameter of the body a source is; -1: none, it is of the capture around.
static inline int32_t loop_param_of(const struct looping *c, int32_t source)
{
    return (size_t)source < c->n_params ? source : -1;
}
// Whether values of the type can be kept for each trip.
kiln_status loop_check_row(const char *op, const struct type *t);
// loop_blocks.c: as loops of .save_every trips in a loop that keeps what each of them begins with.
kiln_status loop_take_blocks(const struct control_loop *l, int64_t trips, kiln_tensor **out);
// loop_rows.c: what a scan of no trips stacks, by types alone; on which device.
kiln_status loop_rows(const struct control_loop *l, struct type *rows, kiln_device **dev);
kiln_status capture_loop(struct sink *sink, const struct control_loop *l, kiln_tensor **out, bool *taken);
