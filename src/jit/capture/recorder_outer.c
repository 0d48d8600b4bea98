// What a region reaches of the capture around it.
//
// A region has a recorder and a graph of its own. A tensor that is not its own is what the capture around it takes it
// for: a constant, or a variable there, which becomes an input of the region's graph, whole, as a storage is one of a
// captured function's. Views are parts of it, and writes are seen through all of them.
#include "base/caller.h"
#include "ir/overlap.h"
#include "jit/capture/recorder.h"
#include <stdio.h>

struct recorder_switch recorder_enter(struct recorder *r)
{
    const struct recorder_switch before = {thread_state.sink, thread_state.capture};
    thread_state.sink = &r->sink.base;
    thread_state.capture = r->capture;
    return before;
}

void recorder_leave(const struct recorder_switch *before)
{
    thread_state.sink = before->sink;
    thread_state.capture = before->capture;
}

kiln_status recorder_not_mine(const struct recorder *r, const char *op, const kiln_tensor *t)
{
    char place[CALLER_TEXT_MAX];
    for (; r; r = r->outer)
        for (size_t i = 0; i < r->ended.n; i++) {
            const struct ended_region *e = &r->ended.v[i];
            if (e->capture != t->capture) continue;
            caller_describe(e->caller, place, sizeof place);
            return error_set(KILN_E_STATE,
                             "%s: a tensor that was made in a region of %s at %s and is used outside of "
                             "it; return it as an output of the region",
                             op, e->op, place);
        }
    return error_set(KILN_E_STATE, "%s: an abstract value of a capture that has ended", op);
}

// Handles on all of a variable may each have a node of their own; what shows a part goes by what its memory has.
static struct tape_edge edge_of(const struct recorder *o, const kiln_tensor *there)
{
    const struct variable *v = &o->variables.v[there->variable];
    if (variable_is_at(v, there)) return (struct tape_edge){there->node, there->node_out};
    if (!there->place) return (struct tape_edge){v->current->node, v->current->node_out};
    const struct own_place *place = &o->places.v[there->place - 1];
    return (struct tape_edge){place->node, place->out};
}

static bool is_forced(const struct recorder *r, int32_t variable)
{
    for (size_t i = 0; r->n_forced && i < *r->n_forced; i++)
        if ((*r->forced)[i] == variable) return true;
    return false;
}

// The region sees a leaf as that leaf, and anything else that requires a gradient as an input of its own.
static kiln_status place_on_tape(struct recorder *r, struct source *s, struct tape_node *outside)
{
    const struct tape_edge none = {NULL, 0};
    kiln_tensor *current = r->variables.v[s->variable].current;
    bool wanted = outside && (node_requires_grad(outside) || node_is_cut(outside));
    if (!wanted && !is_forced(r, s->outer))
        return replayed_outer(r, s->value, r->outer->variables.v[s->outer].current->value);
    bool itself = wanted && (outside->kind == NODE_LEAF || node_is_cut(outside));
    s->place = itself ? node_ref(outside) : node_input(&current->type, &none);
    if (!s->place) return error_pending;
    tape_set_node(current, s->place, 0);
    return replayed_source(r, s->value, s->place);
}

static kiln_status add_outer(struct recorder *r, const kiln_tensor *there, const struct tape_edge *at,
                             int32_t *variable)
{
    char name[32];
    const struct variable *v = &r->outer->variables.v[there->variable];
    struct source s = {.kind = SOURCE_OUTER, .outer = there->variable, .type = v->current->type, .layout = v->layout};
    snprintf(name, sizeof name, "outer%zu", r->sources.n);
    TRY(recorder_add_source(r, &s, &s.type, name, variable));
    struct source *added = &r->sources.v[r->sources.n - 1];
    added->outside = (struct tape_edge){node_ref(at->node), at->out};
    added->outside_place = there->place;
    return place_on_tape(r, added, at->node);
}

// One part of a memory that is a variable by itself: the tape of all of it does not lead there alone.
static bool is_variable_part(const struct recorder *o, const kiln_tensor *there)
{
    const struct tape_node *n = there->node;
    return node_requires_grad(n) && (n->kind == NODE_INPUT || n->kind == NODE_LEAF) &&
           !variable_is_at(&o->variables.v[there->variable], there);
}

// Of tensors in one memory that a function is differentiated by, the memory's place on the tape is that of the last.
static bool is_of_another(const struct recorder *o, const kiln_tensor *there, bool write)
{
    if (!there->place || !o->places.v[there->place - 1].shared) return false;
    return write || !variable_is_at(&o->variables.v[there->variable], there);
}

static int32_t find_outer(const struct recorder *r, const kiln_tensor *there, const struct tape_edge *at)
{
    for (size_t i = 0; i < r->sources.n; i++) {
        const struct source *s = &r->sources.v[i];
        if (s->kind == SOURCE_OUTER && s->outer == there->variable && s->outside.node == at->node &&
            s->outside.out == at->out)
            return s->variable;
    }
    return 0;
}

// The variable that holds the value, and no memory that anybody writes; 0: none.
static int32_t find_value(const struct recorder *o, const kiln_tensor *t)
{
    for (size_t i = 1; i < o->variables.n; i++) {
        const kiln_tensor *now = o->variables.v[i].current;
        bool value = o->variables.v[i].source < 0 && !o->variables.v[i].written && now->value == t->value;
        if (value && now->node == t->node && now->node_out == t->node_out) return (int32_t)i;
    }
    return 0;
}

static bool has_gradient(const struct variable *v, const kiln_tensor *there)
{
    return node_requires_grad(v->current->node) || node_requires_grad(there->node);
}

// With a gradient a view of memory that shows elements several times is a value by itself: what comes to a place in
// that memory belongs to one of those elements.
static kiln_status part_from_repeated(struct recorder *o, const char *op, bool write, kiln_tensor **there)
{
    const struct variable *v = &o->variables.v[(*there)->variable];
    if (!layout_overlaps(&v->current->type, &v->layout) || variable_is_at(v, *there)) return KILN_OK;
    if (!has_gradient(v, *there)) return KILN_OK;
    if (write)
        return error_set(
            KILN_E_UNSUPPORTED,
            "%s: in a region of %s it writes a view of a tensor that requires a gradient and shows "
            "elements several times; write a copy of it (kiln_contiguous), or capture with KILN_CAPTURE_AUTO",
            op, o->name);
    const kiln_tensor *shown = *there;
    int32_t variable = find_value(o, shown);
    if (!(*there = variable_handle(o, &shown->type, shown->value))) return error_pending;
    tape_set_node(*there, shown->node, shown->node_out);
    layout_contiguous(&shown->type, &(*there)->layout);
    if (!variable) return variable_own(o, *there);
    (*there)->variable = variable;
    return KILN_OK;
}

static kiln_status not_of_one(const struct recorder *r, const char *op)
{
    return error_set(KILN_E_UNSUPPORTED,
                     "%s: a tensor that %s is differentiated by shares its memory with another one, and a region "
                     "uses it; give one of them a memory of its own",
                     op, r->name);
}

// A view is read where it is made, and written here.
kiln_status recorder_check_target(const struct recorder *r, const char *op, const kiln_tensor *t)
{
    for (int32_t variable = t->variable; r->outer && variable; r = r->outer) {
        const struct variable *v = &r->variables.v[variable];
        const struct source *from = v->source < 0 ? NULL : &r->sources.v[v->source];
        if (!from || from->kind != SOURCE_OUTER) break;
        if (from->outside_place && r->outer->places.v[from->outside_place - 1].shared) return not_of_one(r, op);
        variable = from->outer;
    }
    return KILN_OK;
}

// A constant there that requires a gradient becomes a value of the graph there.
static kiln_status show_constant(struct recorder *r, const char *op, kiln_tensor **there)
{
    if ((*there)->builder || !recorder_lies_outside(r, *there)) return KILN_OK;
    struct recorder_switch before = recorder_enter(r->outer);
    kiln_status status = recorder_hold(r->outer, op, there);
    if (!status) status = variable_own(r->outer, *there);
    recorder_leave(&before);
    return status;
}

kiln_status recorder_resolve_outer(struct recorder *r, const char *op, kiln_tensor *t, bool write, kiln_tensor **out)
{
    kiln_tensor *there;
    struct sink *around = &r->outer->sink.base;
    TRY(around->capture->reach(around, op, t, write, &there));
    TRY(recorder_check_device(r, op, r->outer->dev));
    TRY(show_constant(r, op, &there));
    if (!there->builder) {
        *out = t;
        return KILN_OK;
    }
    TRY(part_from_repeated(r->outer, op, write, &there));
    if (is_variable_part(r->outer, there) || is_of_another(r->outer, there, write)) return not_of_one(r, op);
    struct tape_edge at = edge_of(r->outer, there);
    int32_t variable = find_outer(r, there, &at);
    if (!variable) TRY(add_outer(r, there, &at, &variable));
    TRY(variable_show(r, variable, &t->type, &there->layout, out));
    if (!there->node && at.node && (*out)->node) tape_set_node(*out, NULL, 0); // by kiln_stop_gradient
    return KILN_OK;
}
