// A run of a program, inside.
#pragma once
#include "program/impl.h"

// What a run gives for an input.
struct program_argument {
    uint64_t address; // 0: a number
    double number;
    int64_t integer;
};

struct program_call {
    const struct program *p;
    kiln_tensor *const *in; // NULL: a child's
    const struct program_argument *args;
    struct storage *const *fresh;
    uint64_t arena;
    uint64_t *base; // by buffer
    const struct program_rng *rng;
    // A program without results of its own, whose memory in between lies at `arena`.
    kiln_status (*run_child)(const struct program *p, const struct program_argument *args, uint64_t arena);
};
