// Ops of tensors and numbers. A number is a weak scalar that lies on the stack for as long as the op is checked, run or
// recorded: whatever keeps an operand longer keeps its storage or its value, never the handle.
#include "ops/elementwise.h"
#include "tensor/apply.h"
#include "tensor/tensor.h"
#include <inttypes.h>

enum { OPERANDS = 3 };

// The handle of an operand; a number's is made in `room`.
static kiln_tensor *handle_of(const kiln_operand *o, struct kiln_tensor *room)
{
    switch (o->kind) {
    case KILN_OPERAND_FLOAT: return tensor_weak_in(room, KILN_F64, o->v.number, number_to_int(o->v.number));
    case KILN_OPERAND_INT: return tensor_weak_in(room, KILN_I64, (double)o->v.integer, o->v.integer);
    case KILN_OPERAND_BOOL: return tensor_weak_in(room, KILN_BOOL, o->v.integer != 0, o->v.integer != 0);
    default: return o->v.tensor;
    }
}

static kiln_status check(const struct op *op, int i, const kiln_operand *o)
{
    if (o->kind == KILN_OPERAND_UNSIGNED)
        return error_set(KILN_E_ARGUMENT, "%s: %s is %" PRIu64 ", above the largest number of i64", op->name,
                         op->in_names[i], (uint64_t)o->v.integer);
    if (o->kind < 0 || o->kind > KILN_OPERAND_UNSIGNED)
        return error_set(KILN_E_ARGUMENT,
                         "%s: %s is an operand of kind %d, which there is not; make operands with "
                         "KILN_OPERAND",
                         op->name, op->in_names[i], o->kind);
    return KILN_OK;
}

// What the op is where its second operand is this number, or the op. A whole number keeps the first operand's dtype,
// one of a float only where that is a float.
static const struct op *op_at_number(const struct op *op, const kiln_operand *operands)
{
    const struct op_elementwise *e = op->elementwise;
    if (KILN_LIKELY(!e->n_at) || operands[0].kind != KILN_OPERAND_TENSOR || !operands[0].v.tensor) return op;
    const struct type *x = &operands[0].v.tensor->type;
    bool is_int = operands[1].kind == KILN_OPERAND_INT, is_float = dtype_kind_of[x->dtype] == KIND_FLOAT;
    if (x->weak || operands[0].v.tensor->shown != SHOWN_PLAIN ||
        !(is_int || (is_float && operands[1].kind == KILN_OPERAND_FLOAT)))
        return op;
    if (!is_float && x->dtype != KILN_I32 && x->dtype != KILN_I64) return op;
    double number = is_int ? (double)operands[1].v.integer : operands[1].v.number;
    for (int i = 0; i < e->n_at; i++) {
        const struct op *other = op_table[e->at[i].op];
        if (e->at[i].number == number && (is_float || other->elementwise->type == e->type)) return other;
    }
    return op;
}

kiln_tensor *op_apply_numbers(const struct op *op, const kiln_operand *operands, struct attr *attrs)
{
    struct kiln_tensor room[OPERANDS];
    kiln_tensor *in[OPERANDS];
    if (error_pending) return NULL;
    for (int i = 0; i < op->max_in; i++) {
        if (check(op, i, &operands[i])) return NULL;
        in[i] = handle_of(&operands[i], &room[i]);
    }
    op = op_at_number(op, operands);
    return op_apply1(op, NULL, op->max_in, in, attrs);
}

kiln_status op_apply_numbers_inplace(const struct op *op, kiln_tensor *target, const kiln_operand *operands)
{
    struct kiln_tensor room[OPERANDS];
    kiln_tensor *in[OPERANDS] = {target};
    if (error_pending) return error_pending;
    for (int i = 1; i < op->max_in; i++) {
        TRY(check(op, i, &operands[i - 1]));
        in[i] = handle_of(&operands[i - 1], &room[i]);
    }
    return op_apply_inplace(op, op->max_in, in, NULL);
}
