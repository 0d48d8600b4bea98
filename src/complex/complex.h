// Ops on complex tensors as ops on their pairs and parts. The front door hands a call here when an operand is complex,
// or its dtype is; a rule for the op, looked up by name as gradient rules are, makes the result of public ops. So
// devices, captures, fusion and gradients know nothing of complex numbers, and an op without a rule refuses them.
#pragma once
#include "tensor/apply.h"
#include "tensor/tensor.h"
#include <kiln/ops.h>

struct complex_call {
    const struct op *op;
    kiln_device *dev;
    int n_in;
    kiln_tensor *const *in; // complex or not; an optional one may be NULL
    struct attr *attrs;
};

// Returns the result, a new handle of the open scope, or NULL with an error.
typedef kiln_tensor *complex_fn(const struct complex_call *c);
struct complex_rule {
    const char *op;
    complex_fn *fn;
};
#define COMPLEX_RULES(name) extern const struct complex_rule complex_##name[];
COMPLEX_RULES(arithmetic)
COMPLEX_RULES(create)
COMPLEX_RULES(functions)
COMPLEX_RULES(parts)
COMPLEX_RULES(views)
#undef COMPLEX_RULES

// Real and imaginary part of a tensor; of a real one itself, and zeros.
kiln_tensor *real_part(kiln_tensor *t);
kiln_tensor *imaginary_part(kiln_tensor *t);
// The complex tensor of these parts, which are broadcast; f64 where one is.
kiln_tensor *from_parts(kiln_tensor *re, kiln_tensor *im);
// The op on other operands, or with other attributes.
kiln_tensor *same_op(const struct complex_call *c, kiln_tensor *const *in);
kiln_tensor *same_op_with(const struct complex_call *c, kiln_tensor *const *in, struct attr *attrs);
// Where the op has an attribute of this name: its place; else -1.
static inline int attr_at(const struct complex_call *c, const char *name)
{
    return op_attr_index(c->op, name);
}
size_t complex_rank(const kiln_tensor *t); // as the user sees it

kiln_tensor *complex_product(kiln_tensor *a, kiln_tensor *b);
kiln_tensor *complex_quotient(kiln_tensor *a, kiln_tensor *b);
kiln_tensor *complex_magnitude(kiln_tensor *z); // its gradient at 0 is 0
kiln_tensor *complex_angle(kiln_tensor *z);
