// A node with regions in a program: each region is a program of its own, a child, which reads and writes memory that
// the parent gives it. What a child needs in between lies in a workspace of the parent's action.
#pragma once
#include "program/impl.h"

// Where an operand of the node lies.
struct region_operand {
    int32_t buffer; // of the parent; -1: a number
    uint64_t at_B;  // of its first element
    int32_t input;  // a number: which of the parent's inputs it is; -1: it is known, and no input of a child
    uint64_t row_B; // scanned: from row to row
};

struct program_region {
    struct program *child[2]; // of a loop: body and cond
    struct program **branches;
    int n_branches;        // 0: a loop
    struct program *start; // of a loop: copies what it carries first, where that does not lie as a child reads it
    struct program *end;   // of a loop that is gated: copies what it carries from the workspace to the results
    int n_in, n_out;
    struct region_operand *in; // n_in
    int32_t *out;              // n_out buffers
    uint64_t *out_B;           // n_out: their sizes; of a stacked one, of a row
    uint8_t index_dtype;       // of a switch, and of a loop's count
    int n_carried, n_scanned, n_taken;
    int64_t trips, bound;
    bool counted, reverse;
    uint64_t number; // of the random ones of a run
    bool *copied;    // n_carried: by `start`
    bool *in_place;  // n_carried: each trip changes a part of it, where the result lies; n_stay of them
    int n_stay;
    uint64_t *carried_at;       // n_carried: in the workspace
    uint64_t flag_at, child_at; // what cond gives; the children's arena
    uint64_t workspace_B;
    const char *one_by_one;   // why launches are laid out anew in each trip; NULL: once, see series.h
    struct series_code *code; // of its trips, where they are many; NULL: never
    const char *host_decides; // why the device does not decide what runs; NULL: it can
    bool gated;               // it does, wherever the node stands
    bool reads_count;         // but for this loop, unless a gate is around: its trips are inside of a kernel
    int64_t chunk;            // trips
    uint64_t state_at;        // of the gate
    uint32_t fault;           // that its gate finds; 0: none
};

kiln_status program_region_make(struct program_maker *m, const struct unit *u, struct program_region **out);
// Its children; it lies in the parent's arena.
void program_region_destroy(kiln_device *dev, struct program_region *r, void (*destroy)(struct program **p));
kiln_status program_region_run(const struct program_call *call, const struct program_region *r, uint64_t workspace);
typedef void program_explain_fn(const struct program *p, struct str *out);
void program_region_explain(const struct program_region *r, const char *indent, program_explain_fn *explain,
                            struct str *out);
