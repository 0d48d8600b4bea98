// From the front door to the rule.
#include "ops/families.h"
#include "stored/stored.h"
#include <string.h>

const struct stored_rule *stored_rule_of(const struct op *op)
{
    const struct stored_rule *r = stored_rules;
    while (r->op && strcmp(r->op, op->name)) r++;
    return r->op ? r : NULL;
}

// The first operand that is no plain tensor is what is told of.
static kiln_status refuse(const struct op *op, int n_in, kiln_tensor *const *in, const struct attr *attrs)
{
    for (int i = 0; i < n_in; i++)
        if (in[i]) TRY(tensor_check(op->name, stored_name(op, i), in[i]));
    for (int i = 0; attrs && i < op->n_attrs; i++)
        if (attrs[i].kind == ATTR_DTYPE && dtype_is_stored(attrs[i].i))
            return error_set(KILN_E_DTYPE, "%s: makes no %s: convert its result by kiln_cast", op->name,
                             dtype_name((unsigned)attrs[i].i));
    return error_set(KILN_E_DTYPE, "%s: takes no storage dtype", op->name);
}

static kiln_status check(const struct op *op, int n_in, kiln_tensor *const *in)
{
    if (n_in < op->min_in || n_in > op->max_in)
        return error_set(KILN_E_ARGUMENT, "%s: takes %d to %d tensors, %d are given", op->name, op->min_in, op->max_in,
                         n_in);
    for (int i = 0; i < n_in; i++)
        if (in[i] || i < op->min_in || op->flags & OP_VARIADIC)
            TRY(tensor_check_any(op->name, stored_name(op, i), in[i]));
    return KILN_OK;
}

static kiln_status apply(const struct op *op, kiln_device *dev, int n_in, kiln_tensor *const *in, struct attr *attrs,
                         kiln_tensor **out)
{
    const struct stored_rule *rule = stored_rule_of(op);
    if (!rule) return refuse(op, n_in, in, attrs);
    TRY(check(op, n_in, in));
    struct kiln_scope scope;
    struct stored_call c = {op, dev, n_in, in, attrs};
    scope_enter(&scope);
    out[0] = rule->fn ? rule->fn(&c) : stored_move(&c, rule);
    if (error_pending) out[0] = NULL;
    error_name_op(op->name);
    scope_leave(&scope, out, out[0] ? 1 : 0);
    return error_pending;
}

static kiln_status assign(kiln_tensor *to, kiln_tensor *from)
{
    char a[TYPE_TEXT_MAX], b[TYPE_TEXT_MAX];
    tensor_text(to, a, sizeof a), tensor_text(from, b, sizeof b);
    if (to->shown != from->shown)
        return error_set(KILN_E_DTYPE, "assign: src is %s, dst is %s: convert it by kiln_cast", b, a);
    bool packed = shown_is_packed(to->shown);
    // What is broadcast along the last axis would be bytes.
    if (packed && from->type.dims[from->type.rank - 1] != to->type.dims[to->type.rank - 1])
        return error_set(KILN_E_SHAPE, "assign: the last axes of src, %s, and dst, %s, differ", b, a);
    kiln_tensor *both[] = {tensor_shown_as(to, SHOWN_PLAIN), tensor_shown_as(from, SHOWN_PLAIN)};
    return error_pending ? error_pending : op_apply_inplace(&op_instances[OP_assign], 2, both, NULL);
}

static kiln_status write(const struct op *op, int n_in, kiln_tensor *const *in)
{
    if (op != &op_instances[OP_assign]) return refuse(op, n_in, in, NULL);
    TRY(check(op, n_in, in));
    struct kiln_scope scope;
    scope_enter(&scope);
    kiln_status status = assign(in[0], in[1]);
    scope_leave(&scope, NULL, 0);
    return status;
}

__attribute__((constructor)) static void install(void)
{
    tensor_apply_stored = apply;
    tensor_write_stored = write;
}
