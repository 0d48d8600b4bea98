// What the family files share: attributes, axes and messages. A message names the op, the argument and the values.
#pragma once
#include "ops/attrs.h"
#include "ops/families.h"
#include "ops/family_fns.h"
#include "ops/lower.h"
#include "ops/row.h"
#include <string.h>

#define OP_FAIL(c, code, ...) op_fail(c, code, __VA_ARGS__)
// "sum: axis 3 is out of range for x of f32[2,3]"
kiln_status op_fail(const struct op_call *c, kiln_status code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// "add: u64 and i64 have no dtype in common"
kiln_status op_no_common_dtype(const struct op_call *c, unsigned a, unsigned b);
struct type_string {
    char s[TYPE_TEXT_MAX];
};
struct type_string type_string(const struct type *t);

static inline int64_t attr_int(const struct op_call *c, int i)
{
    return c->attrs[i].i;
}
static inline double attr_float(const struct op_call *c, int i)
{
    return c->attrs[i].f;
}

// A shape attribute, and one of the dtype, as a type, checked.
kiln_status op_shape(const struct op_call *c, int shape_attr, uint8_t dtype, struct type *out);
kiln_status op_shape_attr(const struct op_call *c, int dtype_attr, int shape_attr, struct type *out);
kiln_status lower_iota(struct lowering *lo, double start, double step, const struct view *out);
// One axis attribute, checked against input `in`.
kiln_status op_axis(const struct op_call *c, int attr, int in, int *axis);
// A list of axes as a mask; an empty list means all. Rejects repeats.
kiln_status op_axes(const struct op_call *c, int attr, int in, uint32_t *mask);
