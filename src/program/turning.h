// The trips of a loop: where what they carry lies, and what their children are given. Whoever decides how many there
// are, the host or the device, makes them by these.
#pragma once
#include "program/region.h"
#include "program/run.h"

// What a child is given: its inputs, in order.
struct arguments {
    struct program_argument *v;
    int n;
};
void arguments_add_memory(struct arguments *a, uint64_t address);
// An operand that is neither carried nor scanned; a known number is none of the child's inputs.
void arguments_add_operand(struct arguments *a, const struct program_call *call, const struct region_operand *o);
uint64_t region_address_of(const struct program_call *call, const struct region_operand *o);
struct rng region_number(const struct program_call *call, const struct program_region *r); // of the random ones

// A turn is a run of the body, which makes `each` trips, the last one what is left; where the device decides, one.
struct turning {
    const struct program_call *call;
    const struct program_region *r;
    uint64_t workspace;
    struct arguments a;
    int64_t trips, turns; // -1: unknown
    int64_t each;
    struct rng number;
};

uint64_t turning_out(const struct turning *t, int k);                      // where result k lies
uint64_t turning_carried_at(const struct turning *t, int64_t turn, int k); // that the turn reads
kiln_status turning_start(struct turning *t);
// Behind a gate, or behind that of the call.
kiln_status turning_cond(struct turning *t, int64_t turn, struct device_gate *gate); // gives the flag
kiln_status turning_turn(struct turning *t, int64_t turn, struct device_gate *gate);
void turning_add_turn(struct turning *t, int64_t turn); // all that the body is given
void turning_add_cond(struct turning *t, int64_t turn); // ... and cond
