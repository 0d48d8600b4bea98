// Errors of ops, and the reading of axes out of attributes.
#include "ops/family.h"
#include <stdarg.h>
#include <stdio.h>

kiln_status op_fail(const struct op_call *c, kiln_status code, const char *format, ...)
{
    char text[600];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return error_set(code, "%s: %s", c->op->name, text);
}

kiln_status op_no_common_dtype(const struct op_call *c, unsigned a, unsigned b)
{
    return op_fail(c, KILN_E_DTYPE, "%s and %s have no dtype in common; cast one", dtype_name(a), dtype_name(b));
}

struct type_string type_string(const struct type *t)
{
    struct type_string s;
    type_text(t, s.s, sizeof s.s);
    return s;
}

static kiln_status fail_axis(const struct op_call *c, const char *name, int64_t axis, int in)
{
    const struct type *t = c->in[in];
    if (!t->rank)
        return op_fail(c, KILN_E_AXIS, "%s %lld is out of range for %s of %s, which has no axes", name, (long long)axis,
                       c->op->in_names[in], type_string(t).s);
    return op_fail(c, KILN_E_AXIS, "%s %lld is out of range for %s of %s, whose axes are %d to %d", name,
                   (long long)axis, c->op->in_names[in], type_string(t).s, -t->rank, t->rank - 1);
}

kiln_status op_axis(const struct op_call *c, int attr, int in, int *axis)
{
    const struct type *t = c->in[in];
    *axis = axis_normalize(c->attrs[attr].i, t->rank);
    if (*axis >= 0) return KILN_OK;
    return fail_axis(c, c->op->attrs[attr].name, c->attrs[attr].i, in);
}

kiln_status op_axes(const struct op_call *c, int attr, int in, uint32_t *mask)
{
    const struct type *t = c->in[in];
    const struct attr *a = &c->attrs[attr];
    *mask = 0;
    if (a->count == 0) {
        *mask = (1u << t->rank) - 1;
        return KILN_OK;
    }
    for (int i = 0; i < a->count; i++) {
        int axis = axis_normalize(a->v[i], t->rank);
        if (axis < 0) return fail_axis(c, "axis", a->v[i], in);
        if (*mask & 1u << axis)
            return op_fail(c, KILN_E_AXIS, "axis %lld of %s of %s is given twice", (long long)a->v[i],
                           c->op->in_names[in], type_string(t).s);
        *mask |= 1u << axis;
    }
    return KILN_OK;
}
