// What a call of an op is, for a profile: made while one is taken, handed to each of the call's launches.
#pragma once
#include "ir/launch_facts.h"
#include "ir/op.h"

struct call_facts {
    struct launch_facts facts;
    uintptr_t place;
    bool multiplied; // the call's products are another launch's
    char in[600], out[300];
};
void call_facts_make(struct call_facts *f, const struct op_call *c);
void call_facts_of_launch(struct call_facts *f, const struct op_call *c, const struct launch *l);
// "f32[2,3] f32[3] number"; NULL types are left out, and what finds no room.
void types_text(const struct type *const *types, int n, char *out, size_t size_B);
