// The front door: every public op comes through op_apply, which checks once, infers types and hands the call to the
// thread's sink.
#pragma once
#include "ir/op.h"
#include <kiln/operand.h>
#include <kiln/tensor.h>

extern const struct op op_instances[];

// Runs `op` on borrowed inputs (NULL for an optional one that is absent) and fills op->n_out new handles. `dev` only
// for ops that create. On failure the outputs are NULL and the error is pending.
kiln_status op_apply(const struct op *op, kiln_device *dev, int n_in, kiln_tensor *const *in, struct attr *attrs,
                     kiln_tensor **out);
// The same for ops with one output: the handle, or NULL.
kiln_tensor *op_apply1(const struct op *op, kiln_device *dev, int n_in, kiln_tensor *const *in, struct attr *attrs);
// Into the storage of in[0].
kiln_status op_apply_inplace(const struct op *op, int n_in, kiln_tensor *const *in, struct attr *attrs);
// The same of elementwise ops for tensors and numbers, op->max_in of them; in place those behind the target.
kiln_tensor *op_apply_numbers(const struct op *op, const kiln_operand *operands, struct attr *attrs);
kiln_status op_apply_numbers_inplace(const struct op *op, kiln_tensor *target, const kiln_operand *operands);

// None clears the room for a list.
static inline struct attr attr_of_int(int64_t v)
{
    struct attr a;
    a.kind = ATTR_INT;
    a.set = true;
    a.count = 0;
    a.i = v;
    return a;
}
static inline struct attr attr_of_bool(bool v)
{
    struct attr a = attr_of_int(v);
    a.kind = ATTR_BOOL;
    return a;
}
static inline struct attr attr_of_dtype(kiln_dtype v)
{
    struct attr a = attr_of_int(v);
    a.kind = ATTR_DTYPE;
    return a;
}
static inline struct attr attr_of_float(double v)
{
    struct attr a;
    a.kind = ATTR_FLOAT;
    a.set = true;
    a.count = 0;
    a.f = v;
    return a;
}
// An option: 0 means the default, KILN_ZERO means 0.
static inline struct attr attr_of_option(double v, double fallback)
{
    struct attr a = attr_of_float(v == 0 ? fallback : v == KILN_ZERO ? 0 : v);
    a.set = v != 0;
    return a;
}
// More than MAX_RANK entries are kept as that count, which op_apply refuses.
struct attr attr_of_ints(size_t n, const int64_t *v);
