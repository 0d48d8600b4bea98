// Numbers of ops and kernel families, in the order of the tables. Gradient rows made by the build follow after the
// last.
#pragma once

#define UNARY(name, ...)            FAMILY_##name,
#define BINARY                      UNARY
#define TERNARY                     UNARY
#define POINTWISE_KERNEL(name, ...) FAMILY_##name,
#define ROW_KERNEL                  POINTWISE_KERNEL
#define CUSTOM_KERNEL               POINTWISE_KERNEL
enum family {
#include "ops/elementwise.def"
#include "ops/kernels.def"
    FAMILY_GRADIENTS
};
#undef UNARY
#undef POINTWISE_KERNEL

#define UNARY(name, ...)      OP_##name,
#define STRUCTURED(name, ...) OP_##name,
enum op_index {
#include "ops/elementwise.def"
#include "ops/structured.def"
    OP_GRADIENTS
};
#undef UNARY
#undef BINARY
#undef TERNARY
#undef ROW_KERNEL
#undef CUSTOM_KERNEL
#undef STRUCTURED

struct attr;
struct type;
// The three attributes of `full` for a tensor of this type.
void op_full_attrs(const struct type *t, double value, struct attr *attrs);
