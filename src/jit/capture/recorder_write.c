// Writes while a function is captured.
//
// A write is an op whose result becomes the value of a variable. The target's variable is that of an abstract tensor,
// of an input or parameter, or one made now for what the function made of host data. Where everything is a constant
// that no node has used yet, the write is done at once.
#include "jit/capture/recorder.h"
#include "ops/families.h"
#include <string.h>

#define FEW 16

static bool in_graph(const struct recorder *r, const struct storage *s)
{
    for (size_t i = 0; i < r->constants.n; i++)
        if (r->constants.v[i].storage == s) return true;
    return false;
}

kiln_status recorder_take_memory(struct recorder *r, kiln_tensor *t, kiln_tensor **out)
{
    int32_t value, variable;
    struct type line = {.dtype = t->type.dtype, .rank = 1};
    line.dims[0] = (int64_t)(t->storage->block.size_B / dtype_size_B[t->type.dtype]);
    const struct layout whole = {0, {1}};
    kiln_tensor *all = tensor_on(t->storage, &line, &whole);
    if (!all) return error_pending;
    TRY(recorder_value(r, all, &value));
    struct tape_edge edge;
    TRY(tape_current(t, &edge));
    TRY(family_join_late(t, all));
    kiln_tensor *first = variable_handle(r, &line, value);
    if (!first) return error_pending;
    tape_set_node(first, all->node, all->node_out);
    TRY(variable_new(r, first, &whole, &variable));
    r->taken++;
    TRY(recorder_lay(r, variable, t->storage));
    TRY(variable_show(r, variable, &t->type, &t->layout, out));
    if (!edge.node || node_requires_grad(first->node)) return KILN_OK;
    tape_set_node(*out, edge.node, edge.out);
    return variable_rebase(r, *out, false);
}

// The target as an abstract value with a variable. What the function made of host data becomes one at its first write.
kiln_status recorder_resolve_target(struct recorder *r, const char *op, kiln_tensor *t, kiln_tensor **out)
{
    if (is_number(t)) return error_set(KILN_E_ARGUMENT, "%s: a number cannot be written", op);
    bool outer = r->outer && t->builder && t->capture != r->capture;
    TRY(outer ? recorder_resolve_outer(r, op, t, true, out) : recorder_resolve(r, op, t, out));
    if ((*out)->builder) {
        TRY(variable_own(r, *out));
        return recorder_check_target(r, op, *out);
    }
    if (r->outer && t->storage->capture != r->capture && !t->constant)
        return recorder_resolve_outer(r, op, t, true, out);
    if (t->constant) return error_set(KILN_E_STATE, "%s: a constant of %s cannot be written", op, r->name);
    return recorder_take_memory(r, t, out);
}

static kiln_status write_eagerly(const struct op *op, int n_in, kiln_tensor *const *in, struct attr *attrs)
{
    struct sink *sink = thread_state.sink;
    thread_state.sink = NULL;
    kiln_status status = op_apply_inplace(op, n_in, in, attrs);
    thread_state.sink = sink;
    return status;
}

// Memory that a leaf is copied to is not that leaf.
static bool is_leaf(kiln_tensor *t)
{
    struct tape_edge edge;
    return !thread_state.no_grad && !tape_current(t, &edge) && edge.node && edge.node->kind != NODE_OP;
}

// The value that `assign` writes: src in the shape and dtype of dst.
// Cast first: an integer's gradient is rounded once, when all has been added up.
static kiln_tensor *assigned(kiln_tensor *dst, kiln_tensor *src)
{
    const struct type *to = &dst->type;
    if (is_number(src)) {
        struct attr attrs[] = {attr_of_dtype((kiln_dtype)to->dtype), attr_of_ints(to->rank, to->dims),
                               attr_of_float(src->number)};
        return op_apply1(&op_instances[OP_full], NULL, 0, NULL, attrs);
    }
    if (type_same_shape(&src->type, to) && !is_leaf(src) && !src->type.weak) return src;
    struct attr attrs[] = {attr_of_ints(to->rank, to->dims)}, dtype[] = {attr_of_dtype((kiln_dtype)to->dtype)};
    if (src->type.dtype != to->dtype || src->type.weak) src = op_apply1(&op_instances[OP_cast], NULL, 1, &src, dtype);
    return src ? op_apply1(&op_instances[OP_expand], NULL, 1, &src, attrs) : NULL;
}

static kiln_status check_write(const struct op *op, const struct type *result, int n_in, kiln_tensor *const *in)
{
    struct op_call c = {.op = op, .n_in = n_in, .n_out = 1};
    const struct type *types[FEW];
    if (n_in > FEW) return error_set(KILN_E_UNSUPPORTED, "%s_: takes too many tensors in a capture", op->name);
    for (int i = 0; i < n_in; i++) types[i] = in[i] ? &in[i]->type : NULL;
    c.in = types;
    c.out[0] = *result;
    TRY(tensor_check_target(op, result, in[0]));
    return thread_state.no_grad ? KILN_OK : tensor_tape.may_write(&c, in);
}

static kiln_status record_write(struct recorder *r, const struct op *op, int n_in, kiln_tensor *const *in,
                                struct attr *attrs)
{
    bool assigns = op == &op_instances[OP_assign];
    kiln_tensor *resolved[FEW], *value;
    if (n_in > FEW) return error_set(KILN_E_UNSUPPORTED, "%s_: takes too many tensors in a capture", op->name);
    memcpy(resolved, in, sizeof *in * (size_t)n_in);
    TRY(recorder_resolve_target(r, op->name, in[0], &resolved[0]));
    value = assigns ? in[1] : op_apply1(op, NULL, n_in, resolved, attrs);
    if (!value) return error_pending;
    if (assigns) { // its own check of shapes
        struct op_call c = {.op = op, .n_in = 2, .in = (const struct type *[]){&in[0]->type, &in[1]->type}};
        TRY(op_infer(&c));
        TRY(recorder_resolve(r, op->name, in[1], &resolved[1]));
        value = assigned(resolved[0], resolved[1]);
        if (!value) return error_pending;
    }
    TRY(check_write(op, &value->type, n_in, resolved));
    if (value->type.dtype != in[0]->type.dtype) {
        struct attr to[] = {attr_of_dtype((kiln_dtype)in[0]->type.dtype)};
        value = op_apply1(&op_instances[OP_cast], NULL, 1, &value, to);
        if (!value) return error_pending;
    }
    if (!value->builder) { // a constant
        int32_t number;
        TRY(recorder_value(r, value, &number));
        value = variable_handle(r, &value->type, number);
        if (!value) return error_pending;
    }
    TRY(recorder_resolve(r, op->name, value, &value));
    TRY(variable_write(r, resolved[0], value));
    if (!in[0]->builder || in[0]->capture != r->capture) return KILN_OK;
    in[0]->value = resolved[0]->value;
    in[0]->variable = resolved[0]->variable;
    in[0]->seen = resolved[0]->seen;
    in[0]->generation = resolved[0]->generation;
    return KILN_OK;
}

kiln_status recorder_write(struct sink *s, const struct op *op, int n_in, kiln_tensor *const *in, struct attr *attrs)
{
    struct recorder *r = recorder_of(s);
    bool constant = !is_number(in[0]) && r->syntax == KILN_SYNTAX_LAX;
    for (int i = 0; i < n_in; i++) constant &= !in[i] || (recorder_is_constant(r, in[i]) && (i || !in[i]->constant));
    if (constant && !in_graph(r, in[0]->storage)) return write_eagerly(op, n_in, in, attrs);
    return record_write(r, op, n_in, in, attrs);
}
