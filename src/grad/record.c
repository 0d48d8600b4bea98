// Recording: one node an op, with the values its rule asks for. A value is kept only if an input whose gradient takes
// it requires one.
//
// A write in place comes in two halves. Before it, what the rule will need of the values that are about to go is
// copied. After it, the written tensor gets a node whose first edge leads to its old history, and its family learns of
// it (family.c).
#include "grad/tape.h"
#include "base/where.h"
#include "device/profile.h"
#include "grad/registry.h"
#include "ops/families.h"
#include "tensor/apply.h"
#include "tensor/watch.h"
#include <kiln/ops.h>
#include <stdlib.h>
#include <string.h>

#define FEW 16

static void drop_node(struct tape_node *n)
{
    if (n->kind == NODE_LEAF && atomic_fetch_sub(&n->leaf->handles, 1) == 1 && n->leaf->gradient) {
        kiln_tensor *gradient = n->leaf->gradient;
        n->leaf->gradient = NULL;
        tensor_destroy(gradient);
    }
    node_unref(n);
}

// A state is one still when its value gets a history.
void tape_set_node(kiln_tensor *t, struct tape_node *n, uint32_t out)
{
    struct tape_node *old = t->node, *state = t->state;
    if (n && n->kind == NODE_LEAF) atomic_fetch_add(&n->leaf->handles, 1);
    t->node = node_ref(n);
    t->node_out = out;
    if (KILN_UNLIKELY(state && n && n->kind == NODE_LEAF)) {
        t->state = NULL;
        drop_node(state);
    }
    if (!old) return;
    if (n && n->kind != NODE_LEAF && old->kind == NODE_LEAF && !old->leaf->requires_grad && !t->state)
        t->state = old;
    else
        drop_node(old);
}

static void release(kiln_tensor *t)
{
    struct tape_node *state = t->state;
    t->state = NULL;
    if (KILN_UNLIKELY(state)) drop_node(state);
    tape_set_node(t, NULL, 0);
    family_unref(t->family);
    t->family = NULL;
}

kiln_status tape_current(kiln_tensor *t, struct tape_edge *out)
{
    struct sink *capture = KILN_UNLIKELY(t->variable) ? tensor_capture(t) : NULL;
    if (capture) TRY(capture->capture->refresh(capture, t));
    if (KILN_UNLIKELY(t->family && t->generation != t->family->generation)) TRY(family_refresh(t));
    out->node = node_requires_grad(t->node) ? t->node : NULL;
    out->out = t->node_out;
    return KILN_OK;
}

bool tensor_requires_grad(const kiln_tensor *t)
{
    struct tape_edge e;
    return !tape_current((kiln_tensor *)t, &e) && e.node;
}

static void set_value(struct tape_node *n, struct tape_value *v, int *dims_at, const struct type *t,
                      const struct layout *l)
{
    v->state = t ? VALUE_TYPE : VALUE_ABSENT;
    v->lazy = v->constant = false;
    v->storage = NULL;
    v->rank = 0;
    if (!t) return;
    v->dims_at = (uint16_t)*dims_at;
    v->dtype = t->dtype;
    v->rank = t->rank;
    v->weak = t->weak;
    v->offset = l ? l->offset : 0;
    int64_t *dims = n->dims + *dims_at, *strides = dims + t->rank, stride = 1;
    for (int i = t->rank - 1; i >= 0; i--) {
        dims[i] = t->dims[i];
        strides[i] = l ? l->strides[i] : stride;
        stride *= t->dims[i];
    }
    *dims_at += 2 * t->rank;
}

kiln_status tape_node_make(const struct op *op, int n_in, const struct tape_edge *edges, const struct type *const *in,
                           const struct layout *const *layouts, int n_out, const struct type *out,
                           const struct attr *attrs, struct tape_node **result)
{
    int n_dims = 0, at = 0;
    for (int i = 0; i < n_in; i++) n_dims += in[i] ? 2 * in[i]->rank : 0;
    for (int i = 0; i < n_out; i++) n_dims += 2 * out[i].rank;
    struct tape_node *n = node_new(NODE_OP, n_in, n_out, op->n_attrs, n_dims);
    if (!n) return error_pending;
    n->op = op;
    n->rule = grad_rule_of(op);
    // A capture is run under profiles that begin later.
    n->where = thread_state.capture || values_watched() || profile_on() ? where_now() : 0;
    for (int i = 0; i < n_in; i++) {
        n->edges[i] = edges[i];
        node_ref(edges[i].node);
        set_value(n, &n->values[i], &at, in[i], layouts ? layouts[i] : NULL);
    }
    for (int i = 0; i < n_out; i++) set_value(n, &n->values[n_in + i], &at, &out[i], NULL);
    for (int i = 0; i < op->n_attrs; i++) n->attrs[i] = attrs[i];
    *result = n;
    return KILN_OK;
}

static void keep(struct tape_node *n, struct tape_value *v, const kiln_tensor *t)
{
    if (t->builder) {
        v->state = VALUE_ABSTRACT;
        v->builder = t->builder;
        v->value = t->value;
    } else if (t->storage) {
        v->state = VALUE_STORAGE;
        v->storage = storage_save(t->storage);
        v->version = t->storage->version;
        v->constant = t->constant;
        v->offset = t->layout.offset;
        for (int i = 0; i < v->rank; i++) n->dims[v->dims_at + v->rank + i] = t->layout.strides[i];
    } else {
        v->state = VALUE_WEAK;
        v->number = t->number;
        v->integer = t->integer;
    }
}

void tape_keep(struct tape_node *n, int index, const kiln_tensor *t)
{
    keep(n, &n->values[index], t);
}

// What to keep, and which edges lead somewhere: an elementwise op may have no gradient by some input.
static void choose(const struct op *op, int n_in, struct tape_edge *edges, uint32_t *in, uint32_t *out)
{
    const struct grad_rule *rule = grad_rule_of(op);
    *in = *out = 0;
    if (!rule) return;
    if (rule->fn) {
        *out = rule->needs_out;
        *in = rule->by_input ? 0 : rule->needs_in;
        for (int i = 0; rule->by_input && i < n_in && i < 4; i++)
            if (edges[i].node) *in |= rule->needs_for[i];
        return;
    }
    if (!op->gradients) {
        *in = UINT32_MAX;
        return;
    }
    struct elementwise_needs e = grad_elementwise_needs(op);
    for (int i = 0; i < n_in; i++) {
        if (!(e.some >> i & 1)) edges[i].node = NULL;
        if (!edges[i].node) continue;
        *in |= e.in[i];
        *out |= e.y >> i & 1;
    }
}

static bool in_mask(uint32_t mask, int i)
{
    return i < 32 ? mask >> i & 1 : mask == UINT32_MAX;
}

// What takes the place of a value has nothing of it.
static bool replaces(const struct op_call *c, int input)
{
    return input == 0 && c->op == &op_instances[OP_assign];
}

// An input without a tape that was kept has an edge to what says so.
static kiln_status find_edges(const struct op_call *c, kiln_tensor *const *in, struct tape_edge *edges, bool *any)
{
    *any = false;
    for (int i = 0; i < c->n_in; i++) {
        edges[i] = (struct tape_edge){NULL, 0};
        if (!in[i] || !dtype_has_gradient(in[i]->type.dtype)) continue;
        TRY(tape_current(in[i], &edges[i]));
        if (KILN_UNLIKELY(node_is_cut(in[i]->node))) edges[i] = (struct tape_edge){in[i]->node, 0};
        if (replaces(c, i)) edges[i] = (struct tape_edge){NULL, 0};
        *any |= edges[i].node != NULL;
    }
    return KILN_OK;
}

// `saved`: where the values of the inputs are to be taken from. The node has one reference. It is none of the op's own
// where every edge leads to a tape that was not kept: a chain of such ops keeps nothing.
static kiln_status make(const struct op_call *c, struct tape_edge *edges, kiln_tensor *const *in,
                        kiln_tensor *const *saved, kiln_tensor *const *out, struct tape_node **result)
{
    const struct layout *few[FEW], **layouts = c->n_in > FEW ? malloc(sizeof *layouts * (size_t)c->n_in) : few;
    if (!layouts) return error_set(KILN_E_MEMORY, "%s: out of memory for the tape", c->op->name);
    struct type types[OP_MAX_OUT];
    uint32_t keep_in, keep_out;
    choose(c->op, c->n_in, edges, &keep_in, &keep_out);
    for (int i = 0; i < c->n_in; i++) layouts[i] = in[i] && in[i]->storage ? &in[i]->layout : NULL;
    for (int i = 0; i < c->n_out; i++) types[i] = out[i]->type;
    bool any = false;
    struct tape_node *n = NULL, *cut = NULL;
    for (int i = 0; i < c->n_in; i++) {
        any |= edges[i].node && !node_is_cut(edges[i].node);
        if (KILN_UNLIKELY(node_is_cut(edges[i].node))) cut = edges[i].node;
    }
    if (KILN_UNLIKELY(!any && cut)) {
        if (layouts != few) free(layouts);
        *result = node_ref(cut);
        return KILN_OK;
    }
    kiln_status status =
        any ? tape_node_make(c->op, c->n_in, edges, c->in, layouts, c->n_out, types, c->attrs, &n) : KILN_OK;
    if (layouts != few) free(layouts);
    if (status) return status;
    for (int i = 0; n && i < c->n_in; i++)
        if (saved[i] && in_mask(keep_in, i)) keep(n, &n->values[i], saved[i]);
    for (int i = 0; n && i < c->n_out; i++)
        if (keep_out >> i & 1) keep(n, &n->values[c->n_in + i], out[i]);
    *result = n;
    return KILN_OK;
}

static kiln_status record(const struct op_call *c, kiln_tensor *const *in, kiln_tensor *const *out)
{
    bool without = c->op->flags & OP_ZERO_GRAD || (c->n_out == 1 && !dtype_has_gradient(out[0]->type.dtype));
    if (without) return KILN_OK;
    struct tape_edge few[FEW], *edges = c->n_in > FEW ? malloc(sizeof *edges * (size_t)c->n_in) : few;
    bool any = false;
    struct tape_node *n = NULL;
    if (!edges) return error_set(KILN_E_MEMORY, "%s: out of memory for the tape", c->op->name);
    kiln_status status = find_edges(c, in, edges, &any);
    if (!status && any) status = make(c, edges, in, in, out, &n);
    if (edges != few) free(edges);
    if (status || !n) return status;
    for (int i = 0; i < c->n_out; i++) {
        bool place = i && dtype_kind_of[out[i]->type.dtype] != KIND_FLOAT; // where a value was found has no gradient
        if (!place) tape_set_node(out[i], n, node_is_cut(n) ? 0 : (uint32_t)i);
    }
    node_unref(n);
    return KILN_OK;
}

// Writes

static kiln_status check_target(const struct op_call *c, kiln_tensor *t, bool any)
{
    bool assigns = c->op->flags & OP_HIDDEN;
    const char *op = c->op->name, *mark = assigns ? "" : "_";
    if (t->node && t->node->kind == NODE_LEAF && t->node->leaf->requires_grad)
        return error_set(KILN_E_GRADIENT,
                         "%s%s: %s is a leaf that requires a gradient; write it between kiln_no_grad_begin and _end",
                         op, mark, t->node->leaf->name ? t->node->leaf->name : c->op->in_names[0]);
    struct sink *capture = tensor_capture(t);
    if (capture && capture->capture->is_of_leaf ? capture->capture->is_of_leaf(capture, t) : family_is_of_leaf(t))
        return error_set(
            KILN_E_GRADIENT,
            "%s%s: %s is a view of a leaf that requires a gradient; write it between kiln_no_grad_begin and _end", op,
            mark, c->op->in_names[0]);
    if (t->detached && any)
        return error_set(
            KILN_E_GRADIENT,
            "%s%s: %s is a view that was made without gradients; what requires one cannot be written to it", op, mark,
            c->op->in_names[0]);
    return KILN_OK;
}

static kiln_status may_write(const struct op_call *c, kiln_tensor *const *in)
{
    bool any = false;
    for (int i = 0; i < c->n_in; i++) {
        struct tape_edge edge = {NULL, 0};
        if (in[i]) TRY(tape_current(in[i], &edge));
        any |= edge.node != NULL;
    }
    return check_target(c, in[0], any);
}

static kiln_status before_write(const struct op_call *c, kiln_tensor *const *in, kiln_tensor **saved)
{
    struct tape_edge edges[FEW];
    uint32_t keep_in, keep_out;
    bool any;
    TRY(find_edges(c, in, edges, &any));
    bool wanted = false;
    for (int i = 0; i < c->n_in; i++) wanted |= node_requires_grad(edges[i].node);
    TRY(check_target(c, in[0], wanted));
    if (any) choose(c->op, c->n_in, edges, &keep_in, &keep_out);
    for (int i = 0; i < c->n_in; i++) {
        saved[i] = in[i];
        if (!any || !in[i] || !in_mask(keep_in, i) || in[i]->storage != in[0]->storage) continue;
        thread_state.no_grad++;
        saved[i] = kiln_contiguous(in[i]);
        thread_state.no_grad--;
        if (!saved[i]) return error_pending;
    }
    return KILN_OK;
}

static kiln_status after_write(const struct op_call *c, kiln_tensor *const *in, kiln_tensor *const *saved)
{
    struct tape_edge edges[FEW];
    struct tape_node *n = NULL;
    bool any;
    TRY(find_edges(c, in, edges, &any));
    if (any && !(c->op->flags & OP_ZERO_GRAD)) TRY(make(c, edges, in, saved, in, &n));
    // A leaf that requires no gradient stays what it is.
    struct tape_node *leaf = in[0]->node && in[0]->node->kind == NODE_LEAF ? in[0]->node : in[0]->state;
    struct tape_edge edge = {n ? n : leaf, 0};
    kiln_status status = family_written(in[0], &edge);
    node_unref(n);
    return status;
}

// Saved values

static kiln_status changed(const struct tape_node *n, int index)
{
    const struct storage *s = n->values[index].storage;
    const char *writer = s->writer ? s->writer : "a write",
               *mark = op_find(writer) && strcmp(writer, "assign") ? "_" : "";
    bool input = index < n->n_in;
    const char *const *names = n->op->in_names;
    const char *name = !input ? "" : n->op->flags & OP_VARIADIC ? names[0] : names[index];
    return error_set(KILN_E_GRADIENT,
                     "backward: the gradient of %s needs its %s%s%s, which %s%s has changed since: it is at version "
                     "%llu, expected version %llu",
                     n->op->name, input ? "input" : "result", input ? " " : "", name, writer, mark,
                     (unsigned long long)s->version, (unsigned long long)n->values[index].version);
}

kiln_status tape_unsave(struct tape_node *n, int index, kiln_tensor **out)
{
    const struct tape_value *v = &n->values[index];
    struct type type;
    *out = NULL;
    if (v->state <= VALUE_TYPE) return KILN_OK;
    node_value_type(n, v, &type);
    struct layout layout;
    node_value_layout(n, v, &layout);
    kiln_tensor *t;
    if (v->state == VALUE_STORAGE) {
        if (v->storage->version != v->version) return changed(n, index);
        t = tensor_on(v->storage, &type, &layout);
        if (t) t->constant = v->constant;
    } else {
        t = tensor_new();
        if (t) {
            t->type = type;
            t->layout = layout;
        }
        if (t && v->state == VALUE_WEAK) {
            t->number = v->number;
            t->integer = v->integer;
        } else if (t) {
            t->builder = v->builder;
            t->capture = thread_state.capture;
            t->value = (int32_t)v->value;
        }
    }
    if (!t) return error_pending;
    if (!thread_state.no_grad) {
        if (index >= n->n_in)
            tape_set_node(t, n, (uint32_t)(index - n->n_in));
        else if (n->edges[index].node)
            tape_set_node(t, n->edges[index].node, n->edges[index].out);
    }
    *out = t;
    return KILN_OK;
}

__attribute__((constructor)) static void install(void)
{
    tensor_tape =
        (struct tape_hooks){record, family_viewed, before_write, after_write, release, family_share, may_write};
}
