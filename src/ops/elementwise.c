// The type rule of elementwise ops, and their lowering: one launch.
#include "ops/elementwise.h"
#include "ops/family.h"

// True for inputs that are bool by the row (the condition of a choice), whatever the others are.
static bool is_condition(const struct op_elementwise *e, int i)
{
    return e->condition_mask >> i & 1;
}

static kiln_status check_kind(const struct op_call *c, unsigned dtype)
{
    unsigned kind = dtype_kind_of[dtype];
    switch (c->op->elementwise->type) {
    case TYPE_NUMERIC:
    case TYPE_REAL:
    case TYPE_TEST:
        if (kind == KIND_BOOL && !c->op->elementwise->bexpr)
            return op_fail(c, KILN_E_DTYPE, "takes integers and floats, %s is %s; cast it first", c->op->in_names[0],
                           type_string(c->in[0]).s);
        return KILN_OK;
    case TYPE_BITWISE:
        if (kind == KIND_FLOAT) return op_fail(c, KILN_E_DTYPE, "takes integers and bool, not %s", dtype_name(dtype));
        return KILN_OK;
    case TYPE_INTEGER:
        if (kind != KIND_INT) return op_fail(c, KILN_E_DTYPE, "takes integers, not %s", dtype_name(dtype));
        return KILN_OK;
    default: return KILN_OK;
    }
}

// Sizes are compared from the last axis on; a vector along another one needs an axis behind it.
static const char *axis_hint(const struct type *a, const struct type *b)
{
    if (b->rank == 1 && a->rank == 2 && a->dims[0] == b->dims[0])
        return "; along axis 0 of a it is kiln_unsqueeze(b, 1)";
    if (a->rank == 1 && b->rank == 2 && b->dims[0] == a->dims[0])
        return "; along axis 0 of b it is kiln_unsqueeze(a, 1)";
    return "";
}

static kiln_status broadcast_inputs(struct op_call *c, struct type *out)
{
    type_copy(out, c->in[0]);
    for (int i = 1; i < c->n_in; i++) {
        if (shape_broadcast(out, c->in[i], out)) continue;
        const char *const *names = c->op->in_names;
        if (c->n_in == 2)
            return op_fail(c, KILN_E_SHAPE, "shapes do not broadcast: %s is %s, %s is %s%s", names[0],
                           type_string(c->in[0]).s, names[1], type_string(c->in[1]).s, axis_hint(c->in[0], c->in[1]));
        return op_fail(c, KILN_E_SHAPE, "shapes do not broadcast: %s is %s against %s", names[i],
                       type_string(c->in[i]).s, type_string(out).s);
    }
    return KILN_OK;
}

// The dtype in which the op computes and, but for comparisons, the result's.
static kiln_status compute_dtype(const struct op_call *c, uint8_t *dtype)
{
    const struct op_elementwise *e = c->op->elementwise;
    struct type acc; // without a shape
    acc.dtype = KILN_BOOL;
    acc.weak = false;
    bool first = true;
    for (int i = 0; i < c->n_in; i++) {
        if (is_condition(e, i)) {
            if (c->in[i]->dtype != KILN_BOOL)
                return op_fail(c, KILN_E_DTYPE, "%s must be bool, it is %s", c->op->in_names[i],
                               type_string(c->in[i]).s);
            continue;
        }
        if (first) {
            acc.dtype = c->in[i]->dtype;
            acc.weak = c->in[i]->weak;
        } else {
            bool weak;
            uint8_t d;
            if (!type_promote(&acc, c->in[i], &d, &weak)) return op_no_common_dtype(c, acc.dtype, c->in[i]->dtype);
            acc.dtype = d;
            acc.weak = weak;
        }
        first = false;
    }
    if (acc.weak && acc.dtype == KILN_F64) acc.dtype = KILN_F32;
    if (e->type == TYPE_FLOAT && dtype_kind_of[acc.dtype] != KIND_FLOAT) acc.dtype = KILN_F32;
    *dtype = acc.dtype;
    return e->type == TYPE_LOGICAL ? KILN_OK : check_kind(c, acc.dtype);
}

kiln_status elementwise_infer(struct op_call *c)
{
    const struct op_elementwise *e = c->op->elementwise;
    struct type *out = &c->out[0];
    uint8_t dtype;
    // The common case first: operands of one type.
    if (KILN_LIKELY(e->condition_mask == 0 && (c->n_in == 1 || (c->n_in == 2 && type_equal(c->in[0], c->in[1]))) &&
                    !c->in[0]->weak)) {
        dtype = c->in[0]->dtype;
        if (e->type == TYPE_FLOAT && dtype_kind_of[dtype] != KIND_FLOAT) dtype = KILN_F32;
        if (e->type != TYPE_LOGICAL) TRY(check_kind(c, dtype));
        type_copy(out, c->in[0]);
    } else {
        TRY(compute_dtype(c, &dtype));
        TRY(broadcast_inputs(c, out));
    }
    c->compute_dtype = dtype;
    out->weak = false;
    out->dtype = e->type == TYPE_COMPARE || e->type == TYPE_TEST || e->type == TYPE_LOGICAL ? KILN_BOOL : dtype;
    return KILN_OK;
}

kiln_status elementwise_lower(const struct op_call *c, struct lowering *lo)
{
    const struct op_elementwise *e = c->op->elementwise;
    enum scalar_class cls = e->type == TYPE_LOGICAL ? CLASS_BOOL : dtype_class(c->compute_dtype);
    double params[ELEMENTWISE_MAX_PARAMS];
    for (int i = 0; i < c->op->n_attrs; i++) params[i] = c->attrs[i].f;
    kernel_id k = kernel_of(c->op->family, cls);
    if (kernel_info(k)->kind == KERNEL_NONE)
        return op_fail(c, KILN_E_UNSUPPORTED, "is not defined for %s", dtype_name(c->compute_dtype));
    return lower_pointwise(lo, c->op->family, cls, c->n_in, c->vin, &c->vout[0], c->op->n_attrs, params);
}

const struct op_functions elementwise_functions = {elementwise_infer, elementwise_lower, NULL};
