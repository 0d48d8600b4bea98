// What a launch, a copy or a call does, for those who look at it afterwards.
#pragma once
#include <stdint.h>

struct launch_facts {
    const char *op;           // "matmul", of a fused kernel "add+relu"; NULL: none
    const char *in, *out;     // types: "f32[8,4] f32[4]"; NULL: not known
    double read_B, written_B; // memory that is touched, each byte once
    double flops;             // negative: not known
    const uintptr_t *places;  // of its ops, see base/where.h; the last is that of the op whose result it gives
    int n_places;
};
