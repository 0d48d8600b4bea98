// From the front door to the rule.
#include "complex/complex.h"
#include <string.h>

static const struct complex_rule *const lists[] = {complex_arithmetic, complex_create, complex_functions, complex_parts,
                                                   complex_views};

static complex_fn *rule_of(const struct op *op)
{
    for (size_t i = 0; i < COUNT_OF(lists); i++)
        for (const struct complex_rule *r = lists[i]; r->op; r++)
            if (!strcmp(r->op, op->name)) return r->fn;
    return NULL;
}

static kiln_status refuse(const struct op *op, int n_in, kiln_tensor *const *in)
{
    for (int i = 0; i < n_in; i++)
        if (in[i]) TRY(tensor_check(op->name, op->in_names[op->flags & OP_VARIADIC ? 0 : i], in[i]));
    return error_set(KILN_E_DTYPE, "%s: takes no complex dtype", op->name);
}

static kiln_status check(const struct op *op, int n_in, kiln_tensor *const *in)
{
    if (n_in < op->min_in || n_in > op->max_in)
        return error_set(KILN_E_ARGUMENT, "%s: takes %d to %d tensors, %d are given", op->name, op->min_in, op->max_in,
                         n_in);
    for (int i = 0; i < n_in; i++)
        if (in[i] || i < op->min_in)
            TRY(tensor_check_any(op->name, op->in_names[op->flags & OP_VARIADIC ? 0 : i], in[i]));
    return KILN_OK;
}

static kiln_status apply(const struct op *op, kiln_device *dev, int n_in, kiln_tensor *const *in, struct attr *attrs,
                         kiln_tensor **out)
{
    complex_fn *rule = rule_of(op);
    if (!rule) return refuse(op, n_in, in);
    TRY(check(op, n_in, in));
    struct kiln_scope scope;
    struct complex_call c = {op, dev, n_in, in, attrs};
    scope_enter(&scope);
    out[0] = rule(&c);
    if (error_pending) out[0] = NULL;
    error_name_op(op->name);
    scope_leave(&scope, out, out[0] ? 1 : 0);
    return error_pending;
}

kiln_tensor *kiln_view_as_real(kiln_tensor *z)
{
    if (error_pending || tensor_check_any("view_as_real", "z", z)) return NULL;
    if (z->shown == SHOWN_COMPLEX) return tensor_as_pairs(z);
    char text[TYPE_TEXT_MAX];
    error_set(KILN_E_DTYPE, "view_as_real: z must be complex, it is %s", tensor_text(z, text, sizeof text));
    return NULL;
}

kiln_tensor *kiln_view_as_complex(kiln_tensor *pairs)
{
    if (error_pending || tensor_check("view_as_complex", "pairs", pairs)) return NULL;
    const struct type *t = &pairs->type;
    char text[TYPE_TEXT_MAX];
    bool floats = t->dtype == KILN_F32 || t->dtype == KILN_F64;
    if (floats && t->rank && t->dims[t->rank - 1] == 2) return tensor_as_complex(pairs);
    error_set(floats ? KILN_E_SHAPE : KILN_E_DTYPE, "view_as_complex: pairs must be f32 or f64 [..., 2], it is %s",
              type_text(t, text, sizeof text));
    return NULL;
}

__attribute__((constructor)) static void install(void)
{
    tensor_apply_complex = apply;
}
