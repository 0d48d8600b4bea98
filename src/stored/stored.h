// Ops on tensors of storage dtypes (floats of 8 bits, integers of 4) as ops on their bytes. The front door hands a call
// here when an operand is of one, or its dtype is; a rule for the op, looked up by name, makes the result of public
// ops. Ops that move elements move bytes, casts are what reads them as numbers, and any other op refuses them.
#pragma once
#include "tensor/apply.h"
#include "tensor/tensor.h"
#include <kiln/ops.h>

struct stored_call {
    const struct op *op;
    kiln_device *dev;
    int n_in;
    kiln_tensor *const *in; // of storage dtypes or not; an optional one may be NULL
    struct attr *attrs;
};

// Returns the result, a new handle of the open scope, or NULL with an error.
typedef kiln_tensor *stored_fn(const struct stored_call *c);

// Two numbers lie in a byte along the last axis. Says in attributes what the op is to do with bytes; an error where it
// would take a byte apart, or find no whole one.
typedef void packed_fn(const struct stored_call *c, struct attr *attrs);

struct stored_rule {
    const char *op;
    stored_fn *fn;     // NULL: it moves elements, by `packed` and `apart`
    packed_fn *packed; // NULL: none of two in a byte
    unsigned apart;    // operands that are no elements: indices, conditions
};
extern const struct stored_rule stored_rules[];                // to one without an op
const struct stored_rule *stored_rule_of(const struct op *op); // NULL: it refuses them

kiln_tensor *stored_move(const struct stored_call *c, const struct stored_rule *r);
stored_fn stored_cast, stored_bitcast, stored_created, stored_filled, stored_squeeze;
packed_fn packed_as_is, packed_axis, packed_new_axis, packed_axes, packed_squeeze, packed_two_axes, packed_permute,
    packed_reshape, packed_expand, packed_slice, packed_tile;

// The dtype that users see.
static inline kiln_dtype stored_dtype(const kiln_tensor *t)
{
    return shown_dtype(t->shown, t->type.dtype);
}
// The name of input i of the op.
static inline const char *stored_name(const struct op *op, int i)
{
    return op->in_names[op->flags & OP_VARIADIC ? 0 : i];
}
