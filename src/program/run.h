// A run of a program, inside.
#pragma once
#include "program/impl.h"

// What a run gives for an input.
struct program_argument {
    uint64_t address; // 0: a number
    double number;
    int64_t integer;
};

// A weak scalar in the class that a kernel takes it in.
static inline uint64_t program_number_bits(const struct program_argument *t, uint8_t cls)
{
    switch (cls) {
    case CLASS_F32: return bits_f32((float)t->number);
    case CLASS_F64: return bits_f64(t->number);
    case CLASS_I32: return (uint32_t)(int32_t)t->integer;
    case CLASS_I64: return (uint64_t)t->integer;
    default: return t->number != 0 || t->integer != 0;
    }
}

struct program_call {
    const struct program *p;
    kiln_tensor *const *in; // NULL: a child's
    const struct program_argument *args;
    struct storage *const *fresh;
    uint64_t arena;
    uint64_t *base;               // by buffer
    struct device_gate *gate;     // behind which all of it runs; NULL: there is none
    struct device_record *record; // into which launches go; NULL: they run
    const struct rng *rng;
    // A program without results of its own, whose memory in between lies at `arena`.
    kiln_status (*run_child)(const struct program *p, const struct program_argument *args, const struct rng *rng,
                             uint64_t arena, struct device_gate *gate);
};
