// Ops on u64 whose result depends on the order of numbers, of ops on i64. Kernels have the bits of u64 as i64; with
// the upper bit flipped they are *keys*, which as i64 have the order that the numbers have as u64.
#pragma once
#include "tensor/apply.h"
#include "tensor/tensor.h"
#include <kiln/ops.h>

// Makes an op on u64 of others. False where it has no way, or the operands are not promoted to u64.
bool unsigned_apply(const struct op *op, int n_in, kiln_tensor *const *in, struct attr *attrs, kiln_tensor **out);

struct unsigned_call {
    const struct op *op;
    int n_in;
    uint16_t numbers;       // bit i: input i is one of the numbers
    kiln_tensor *const *in; // numbers are u64
    struct attr *attrs;
};
typedef void unsigned_fn(const struct unsigned_call *c, kiln_tensor **out);

kiln_tensor *unsigned_bits(kiln_tensor *x);   // as i64
kiln_tensor *unsigned_number(kiln_tensor *x); // and back
kiln_tensor *unsigned_key(kiln_tensor *x);    // of u64
kiln_tensor *unsigned_of_key(kiln_tensor *k);

// unsigned_divide.c
unsigned_fn unsigned_quotient, unsigned_remainder, unsigned_shift_right;
