// What a program was made for: the conditions under which a call may run it.
#pragma once
#include "base/str.h"
#include "jit/source.h"
#include <kiln/jit.h>

enum guard_kind {
    GUARD_OK,
    GUARD_COUNT,
    GUARD_KIND, // a number or a tensor
    GUARD_DTYPE,
    GUARD_RANK,
    GUARD_DIMS,
    GUARD_STRIDES,
    GUARD_DEVICE,
    GUARD_GRADIENT,
    GUARD_ALIAS,
    GUARD_NUMBER,
    GUARD_PARAMETER,
    GUARD_HASH,
    GUARD_MODE,
    GUARD_GRAD_MODE,
};

struct guard_input {
    bool number, run_time; // run_time: a number that the program takes at run time
    bool row_major, grad;
    int32_t alias; // the first earlier input on the same storage; -1: none
    struct type type;
    int64_t strides[MAX_RANK];
    kiln_device *dev;
    double value; // of a number
    int64_t integer;
};

struct guard {
    size_t n_in;
    struct guard_input *in;
    kiln_mode mode;
    bool no_grad, sees_grad; // sees_grad: something requires a gradient, so that no_grad matters
    uint64_t hash;
    // Of the capture: what it reads from outside.
    const struct source *sources;
    size_t n_sources;
};

// `run_time`: n_in flags, or NULL. The guard owns its inputs.
kiln_status guard_make(struct guard *g, kiln_tensor *const *in, size_t n_in, const uint8_t *run_time, uint64_t hash);
void guard_finish(struct guard *g);
// The first condition that does not hold, and the input (or source) that it is about.
enum guard_kind guard_check(const struct guard *g, kiln_tensor *const *in, size_t n_in, uint64_t hash, size_t *at);
const char *guard_name(enum guard_kind kind);
// Both values: what the program was made for, and what the call has.
void guard_describe(const struct guard *g, enum guard_kind kind, size_t at, kiln_tensor *const *in, size_t n_in,
                    uint64_t hash, struct str *out);
