// What a tensor is to a capture.
//
// Input: a handle that user code gave to an op. Output: the value of the graph that it stands for. An abstract tensor
// stands for its value as of now; a parameter, or its gradient, for an input of the graph that is made at its first
// use; what the function made of host data, or was told is a constant, for a constant. Any other tensor is refused: its
// value would go stale.
#include "jit/capture/recorder.h"
#include "ops/families.h"
#include <stdio.h>
#include <string.h>

// The known parameter whose gradient t is.
static const struct source *owner_of_gradient(const struct recorder *r, const kiln_tensor *t)
{
    for (size_t i = 0; i < r->sources.n; i++) {
        const struct source *s = &r->sources.v[i];
        if (!s->leaf || s->kind == SOURCE_GRADIENT) continue;
        bool before = s->gradient && s->gradient->storage == t->storage;
        if (before || leaf_gradient_is_on(s->leaf, t->storage)) return s;
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

// A parameter, or a state, in memory that is one source, with whatever else lies there: no gradient comes to it by
// itself.
static kiln_status check_shared(const struct recorder *r, const char *op, kiln_tensor *t, struct tape_node *leaf)
{
    if (!node_requires_grad(leaf)) TRY(family_of_state(t, leaf));
    if (thread_state.no_grad) return KILN_OK;
    if (node_requires_grad(leaf))
        return error_set(KILN_E_UNSUPPORTED,
                         "%s: %s writes memory that the parameter %s shares with another tensor, and the parameter "
                         "requires a gradient; give one of them memory of its own",
                         op, r->name, leaf->leaf->name ? leaf->leaf->name : "without a name");
    if (family_has_history(leaf))
        return error_set(KILN_E_UNSUPPORTED,
                         "%s: %s writes memory that the state %s shares with another tensor, and the state was written "
                         "with a gradient; give one of them memory of its own, or use KILN_CAPTURE_AUTO",
                         op, r->name, leaf->leaf->name ? leaf->leaf->name : "without a name");
    return KILN_OK;
}

static kiln_status add_shared(struct recorder *r, const char *op, kiln_tensor *t, struct tape_node *leaf,
                              int32_t *variable)
{
    TRY(check_shared(r, op, t, leaf));
    TRY(recorder_add_memory(r, t->storage, t->type.dtype, variable));
    return recorder_watch(r, leaf);
}

// What was written to a state may require a gradient, also where it is met without gradients first. The program is told
// by its family.
static kiln_status find_history(const struct recorder *r, kiln_tensor *t, struct source *s)
{
    const struct tape_edge none = {NULL, 0};
    if (s->grad) return KILN_OK;
    TRY(family_of_state(t, s->leaf));
    s->history = !r->no_grad && family_has_history(s->leaf);
    if (!s->history) return KILN_OK;
    s->place = node_input(&s->type, &none);
    return s->place ? KILN_OK : error_pending;
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
    const struct joined *joined = recorder_joined(r, t->storage);
    if (leaf && joined && joined->whole) return add_shared(r, op, t, leaf, variable);
    if (leaf) {
        if (leaf->leaf->name)
            snprintf(name, sizeof name, "%s", leaf->leaf->name);
        else
            snprintf(name, sizeof name, "state%zu", r->sources.n);
        TRY(find_history(r, t, &s));
        kiln_status status = recorder_add_parameter(r, &s, name, variable);
        if (status) node_unref(s.place);
        TRY(status);
        return recorder_check_apart(r, *variable, false);
    }
    const struct source *owner = owner_of_gradient(r, t);
    if (!owner && r->types_alone) return recorder_add_memory(r, t->storage, t->type.dtype, variable);
    if (!owner) return recorder_overlaps(r, t) ? recorder_join(r, t->storage, true) : recorder_refuse(r, op, t);
    struct tape_node *of = owner->leaf; // the gradient itself has no place on the tape
    s.kind = SOURCE_GRADIENT;
    s.of_input = owner->kind == SOURCE_INPUT;
    s.input = owner->input;
    snprintf(name, sizeof name, "d %s", of->leaf->name ? of->leaf->name : "state");
    TRY(recorder_add_source(r, &s, &t->type, name, variable));
    return recorder_set_leaf(r, (int32_t)r->sources.n - 1, of);
}

// An input that the function also reaches from outside is that input from now on.
static void pin(struct source *s)
{
    if (s->pinned || (s->kind != SOURCE_INPUT && s->kind != SOURCE_SPAN)) return;
    s->pinned = true;
    storage_ref(s->storage);
}

// Where a variable was found for a leaf that it was not made for: whether the leaf's gradients can do without.
static kiln_status check_found(const struct recorder *r, const char *op, kiln_tensor *t, struct tape_node *leaf,
                               int32_t *variable)
{
    int32_t at = r->variables.v[*variable].source;
    if (at < 0 || r->sources.v[at].leaf == leaf) return KILN_OK;
    if (r->sources.v[at].kind == SOURCE_MEMORY) return check_shared(r, op, t, leaf);
    if (node_requires_grad(leaf)) return KILN_OK;
    TRY(family_of_state(t, leaf));
    const struct tape_node *of = r->sources.v[at].leaf;
    if (of && of->leaf->family == leaf->leaf->family) return KILN_OK;
    if (!thread_state.no_grad && family_has_history(leaf)) *variable = 0;
    return KILN_OK;
}

kiln_status recorder_resolve(struct recorder *r, const char *op, kiln_tensor *t, kiln_tensor **out)
{
    *out = t;
    if (!t || is_number(t)) return KILN_OK;
    if (t->builder) {
        if (t->capture == r->capture) return variable_refresh(r, t);
        return r->outer ? recorder_resolve_outer(r, op, t, false, out) : recorder_not_mine(r, op, t);
    }
    int32_t variable = recorder_find(r, t);
    struct tape_node *leaf = recorder_leaf_of(t);
    if (variable && leaf) TRY(check_found(r, op, t, leaf, &variable));
    int32_t source = variable ? r->variables.v[variable].source : -1;
    if (source >= 0) pin(&r->sources.v[source]);
    if (!variable && recorder_is_constant(r, t)) return KILN_OK;
    if (!variable && r->outer) return recorder_resolve_outer(r, op, t, false, out);
    if (!variable)
        TRY(add_outside(r, op, t, &variable));
    else if (leaf) {
        TRY(recorder_watch(r, leaf));
        r->variables.v[variable].parted |=
            !node_requires_grad(leaf) && source >= 0 && r->sources.v[source].leaf != leaf;
    }
    if (t->place && t->capture == r->capture) return variable_show_at(r, variable, t->place, &t->type, &t->layout, out);
    TRY(variable_show(r, variable, &t->type, &t->layout, out));
    const struct source *in =
        r->variables.v[variable].source >= 0 ? &r->sources.v[r->variables.v[variable].source] : NULL;
    bool of_another = leaf && in && in->history && in->leaf != leaf && !family_has_history(leaf);
    bool stopped = in && in->kind == SOURCE_LEAF && (!t->node || of_another);
    if (stopped) tape_set_node(*out, NULL, 0); // by kiln_stop_gradient
    return KILN_OK;
}
