// What a call of a captured function is, for a profile.
#pragma once
#include "ir/launch_facts.h"
#include "jit/capture/outputs.h"
#include "tensor/tensor.h"

struct call_told {
    struct launch_facts facts;
    uintptr_t place;
    char in[600], out[600];
};
// Before the call, which may free inputs, and behind it, with an error or without.
void call_told_begin(struct call_told *t, kiln_tensor *const *in, size_t n_in);
void call_told_end(struct call_told *t, const struct outputs *o);
