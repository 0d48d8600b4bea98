// What a tensor is to a capture.
//
// Input: a handle that user code gave to an op. Output: the value of the graph that it stands for. An abstract tensor
// stands for its value as of now; a parameter, or its gradient, for an input of the graph that is made at its first
// use; what the function made of host data, or was told is a constant, for a constant. Any other tensor is refused: its
// value would go stale.
#include "jit/recorder.h"
#include "ops/families.h"
#include <stdio.h>
#include <string.h>

kiln_status recorder_add_source(struct recorder *r, struct source *s, const struct type *type, const char *name,
                                int32_t *variable)
{
    s->value = ir_add_input(r->sink.builder.graph, type, name);
    kiln_tensor *t = variable_handle(r, type, s->value);
    if (!t) return error_pending;
    if (s->leaf) tape_set_node(t, s->leaf, 0);
    kiln_status status = variable_new(r, t, &s->layout, variable);
    tensor_destroy(t);
    if (status) return status;
    struct variable *v = &r->variables.v[*variable];
    v->source = (int32_t)r->sources.n;
    v->storage = storage_ref(s->storage);
    s->variable = *variable;
    s->row_major = layout_is_contiguous(&s->type, &s->layout);
    TRY(vec_push(&r->sources, *s));
    node_ref(s->leaf);
    if (s->kind == SOURCE_LEAF) storage_ref(s->storage);
    return KILN_OK;
}

kiln_tensor *recorder_host_number(struct recorder *r, double (*fn)(void *user), void *user)
{
    char name[32];
    int32_t variable;
    struct source s = {.kind = SOURCE_HOST, .number = fn, .user = user, .type = {.dtype = KILN_F64, .weak = true}};
    snprintf(name, sizeof name, "host%zu", r->sources.n);
    return recorder_add_source(r, &s, &s.type, name, &variable) ? NULL : variable_handle(r, &s.type, s.value);
}

// What t is, where it comes from outside.

struct tape_node *recorder_leaf_of(kiln_tensor *t)
{
    struct tape_edge edge;
    if (tape_current(t, &edge) || !t->node || t->node->kind != NODE_LEAF) return NULL;
    return t->node;
}

// The known parameter whose gradient t is.
static struct tape_node *leaf_with_gradient(const struct recorder *r, const kiln_tensor *t)
{
    for (size_t i = 0; i < r->sources.n; i++) {
        struct tape_node *leaf = r->sources.v[i].leaf;
        const kiln_tensor *g = leaf ? leaf->leaf->gradient : NULL;
        if (g && g->storage == t->storage) return leaf;
    }
    return NULL;
}

kiln_status recorder_refuse(const struct recorder *r, const char *op, const kiln_tensor *t)
{
    char text[TYPE_TEXT_MAX];
    return error_set(KILN_E_STATE,
                     "%s: %s uses a tensor from outside, %s, made by %s: its value could change between calls; pass it "
                     "as an input, make it state with kiln_state, or wrap it in kiln_constant",
                     op, r->name, type_text(&t->type, text, sizeof text),
                     t->storage->writer ? t->storage->writer : "an op");
}

kiln_status recorder_check_device(struct recorder *r, const char *op, kiln_device *dev)
{
    if (!dev || dev == r->dev) return KILN_OK;
    if (r->dev)
        return error_set(KILN_E_DEVICE_MISMATCH, "%s: %s runs on %s, a tensor is on %s", op, r->name, r->dev->name,
                         dev->name);
    r->dev = dev;
    return KILN_OK;
}

static kiln_status add_outside(struct recorder *r, const char *op, kiln_tensor *t, int32_t *variable)
{
    struct tape_node *leaf = recorder_leaf_of(t);
    char name[64];
    struct source s = {.kind = SOURCE_LEAF,
                       .leaf = leaf,
                       .grad = node_requires_grad(leaf),
                       .storage = t->storage,
                       .type = t->type,
                       .layout = t->layout};
    TRY(error_pending);
    TRY(recorder_check_device(r, op, t->storage->dev));
    if (leaf) {
        if (leaf->leaf->name)
            snprintf(name, sizeof name, "%s", leaf->leaf->name);
        else
            snprintf(name, sizeof name, "state%zu", r->sources.n);
        if (leaf->leaf->gradient && !leaf->leaf->gradient->builder) {
            s.gradient = tensor_second(leaf->leaf->gradient);
            if (!s.gradient) return error_pending;
            kiln_own(s.gradient);
        }
        kiln_status status = recorder_add_source(r, &s, &t->type, name, variable);
        if (status && s.gradient) tensor_destroy(s.gradient);
        return status;
    }
    s.leaf = leaf_with_gradient(r, t);
    if (!s.leaf) return recorder_refuse(r, op, t);
    struct tape_node *of = s.leaf;
    s.kind = SOURCE_GRADIENT;
    s.leaf = NULL; // the gradient itself has no place on the tape
    snprintf(name, sizeof name, "d %s", of->leaf->name ? of->leaf->name : "state");
    TRY(recorder_add_source(r, &s, &t->type, name, variable));
    r->sources.v[r->sources.n - 1].leaf = node_ref(of);
    return KILN_OK;
}

// Whether the capture may keep the value that t has now.
bool recorder_is_constant(const struct recorder *r, const kiln_tensor *t)
{
    if (is_number(t)) return true;
    if (t->builder || variable_find(r, t->storage)) return false;
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
    kiln_status status = op_apply_inplace(&op_instances[OP_assign], 2, in, NULL);
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

// An input that the function also reaches from outside is that input from now on.
static void pin(struct source *s)
{
    if (s->pinned || (s->kind != SOURCE_INPUT && s->kind != SOURCE_STORAGE)) return;
    s->pinned = true;
    storage_ref(s->storage);
}

kiln_status recorder_resolve(struct recorder *r, const char *op, kiln_tensor *t, kiln_tensor **out)
{
    *out = t;
    if (!t || is_number(t)) return KILN_OK;
    if (t->builder) {
        if (t->capture == r->capture) return variable_refresh(r, t);
        return error_set(KILN_E_STATE, "%s: an abstract value of a capture that has ended", op);
    }
    int32_t variable = variable_find(r, t->storage);
    int32_t source = variable ? r->variables.v[variable].source : -1;
    if (source >= 0) pin(&r->sources.v[source]);
    if (!variable && recorder_is_constant(r, t)) return KILN_OK;
    if (!variable) TRY(add_outside(r, op, t, &variable));
    TRY(variable_show(r, variable, &t->type, &t->layout, out));
    bool stopped = !t->node && r->variables.v[variable].source >= 0 &&
                   r->sources.v[r->variables.v[variable].source].kind == SOURCE_LEAF;
    if (stopped) tape_set_node(*out, NULL, 0); // by kiln_stop_gradient
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
