// Constants of a capture: what the function made of host data, and what kiln_constant told of. The graph holds them;
// one that is differentiated by is a value of the graph, at its place on the tape.
#include "jit/capture/recorder.h"
#include "ops/families.h"
#include <string.h>

// Of a constant, in a region: whether it lies on the tape of what is around.
bool recorder_lies_outside(const struct recorder *r, kiln_tensor *t)
{
    struct tape_edge edge;
    return r->outer && !tape_current(t, &edge) && edge.node && edge.node->sequence <= r->since;
}

// Whether the capture may keep the value that t has now.
bool recorder_is_constant(const struct recorder *r, kiln_tensor *t)
{
    if (is_number(t)) return true;
    if (t->builder || recorder_find(r, t) || recorder_lies_outside(r, t)) return false;
    return t->constant || t->storage->capture == r->capture;
}

static kiln_tensor *copy_of(kiln_tensor *t)
{
    kiln_tensor *copy = tensor_empty(t->storage->dev, &t->type);
    if (!copy) return NULL;
    struct sink *sink = thread_state.sink;
    thread_state.sink = NULL;
    thread_state.no_grad++;
    kiln_tensor *const in[] = {copy, t};
    tensor_show(copy, t->shown);
    kiln_status status = op_apply_inplace(&op_instances[OP_assign], 2, in, NULL);
    tensor_show(copy, SHOWN_PLAIN);
    thread_state.no_grad--;
    thread_state.sink = sink;
    if (!status) return copy;
    tensor_destroy(copy);
    return NULL;
}

// The tensor that the graph holds for a constant: of one from outside, a copy.
static kiln_status hold_constant(struct recorder *r, const char *op, kiln_tensor *t, kiln_tensor **out)
{
    for (size_t i = 0; i < r->constants.n; i++) {
        const struct constant *c = &r->constants.v[i];
        if (c->storage != t->storage || !type_equal(&c->tensor->type, &t->type) ||
            memcmp(&c->layout.offset, &t->layout.offset, sizeof c->layout.offset) ||
            memcmp(c->layout.strides, t->layout.strides, sizeof *c->layout.strides * t->type.rank))
            continue;
        *out = c->tensor;
        return KILN_OK;
    }
    TRY(recorder_check_device(r, op, t->storage->dev));
    bool inside = t->storage->capture == r->capture;
    kiln_tensor *held = inside ? tensor_on(t->storage, &t->type, &t->layout) : copy_of(t);
    if (!held) return error_pending;
    struct constant c = {kiln_own(held), t->storage, t->layout};
    if (vec_push(&r->constants, c)) {
        tensor_destroy(held);
        return error_pending;
    }
    storage_ref(t->storage);
    *out = held;
    return KILN_OK;
}

kiln_status recorder_value(struct recorder *r, kiln_tensor *t, int32_t *value)
{
    struct kiln_graph *g = r->sink.builder.graph;
    kiln_tensor *held;
    *value = -1;
    if (!t) return KILN_OK;
    if (t->builder)
        *value = t->value;
    else if (!t->storage)
        *value = ir_add_number(g, &t->type, t->number, t->integer);
    else {
        TRY(hold_constant(r, "jit", t, &held));
        *value = ir_add_constant(g, &held->type, held);
    }
    return *value < 0 ? error_pending : KILN_OK;
}

// By a constant one may differentiate, too: its place on the tape is that of a value of the graph. Any other is what
// the graph holds.
kiln_status recorder_show_constant(struct recorder *r, int32_t value, kiln_tensor **t)
{
    const struct ir_value *v = &r->sink.builder.graph->values.v[value];
    struct tape_edge edge;
    TRY(tape_current(*t, &edge));
    *t = edge.node ? variable_handle(r, &v->type, value) : (kiln_tensor *)v->held;
    if (edge.node && *t) tape_set_node(*t, edge.node, edge.out);
    return *t ? KILN_OK : error_pending;
}

kiln_status recorder_hold(struct recorder *r, const char *op, kiln_tensor **t)
{
    int32_t value;
    kiln_tensor *held;
    if (!*t || (*t)->builder || !(*t)->storage) return KILN_OK;
    TRY(hold_constant(r, op, *t, &held));
    TRY(recorder_value(r, *t, &value));
    return recorder_show_constant(r, value, t);
}
