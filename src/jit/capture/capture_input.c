// The inputs of a capture: sources, and the abstract tensors that the function gets.
//
// Inputs that overlap, and one of which is written, become views of one source, so that the write is seen through the
// others (recorder_memory.c).
#include "jit/capture/capturing.h"
#include "tensor/reach.h"
#include <string.h>

static bool same_place(const kiln_tensor *a, const kiln_tensor *b)
{
    return type_equal(&a->type, &b->type) && a->layout.offset == b->layout.offset &&
           !memcmp(a->layout.strides, b->layout.strides, sizeof *a->layout.strides * a->type.rank);
}

// The same memory, and the same place on the tape.
static bool is_twin(kiln_tensor *a, kiln_tensor *b)
{
    struct tape_edge x, y;
    if (a->storage != b->storage || !same_place(a, b) || tape_current(a, &x) || tape_current(b, &y)) return false;
    return x.node == y.node && x.out == y.out;
}

struct span {
    int64_t first, last;
    bool alone; // all inputs in it lie in the same place
};

// Of input i and all that overlap with it, and with those; false where it has no elements.
static bool find_span(const struct capture_request *q, size_t i, struct span *s)
{
    const kiln_tensor *t = q->in[i];
    if (!layout_reach(&t->type, &t->layout, &s->first, &s->last)) return false;
    s->alone = true;
    for (bool grown = true; grown;) {
        grown = false;
        for (size_t k = 0; k < q->n_in; k++) {
            int64_t first, last;
            const kiln_tensor *other = q->in[k];
            if (other->storage != t->storage || !layout_reach(&other->type, &other->layout, &first, &last)) continue;
            if (first > s->last || last < s->first) continue;
            grown |= first < s->first || last > s->last;
            s->first = first < s->first ? first : s->first;
            s->last = last > s->last ? last : s->last;
            s->alone &= same_place(t, other);
        }
    }
    return true;
}

// What an earlier input that is the same tensor became.
static kiln_tensor *twin_of(const struct capturing *c, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (c->q->in[k]->storage && is_twin(c->q->in[k], c->q->in[i])) return c->inner[k];
    return NULL;
}

// The function sees what kept no tape as that: a backward inside that would have to go through it says so.
static void place_cut(struct capturing *c, kiln_tensor *t, struct tape_node *outside)
{
    struct tape_node *cut = node_is_cut(outside) && !thread_state.no_grad ? outside : NULL;
    tape_set_node(t, cut, 0);
    kiln_tensor *current = c->r.variables.v[t->variable].current;
    if (cut && current->value == t->value && !current->node) tape_set_node(current, cut, 0);
}

// The function sees a leaf as that leaf, and anything else that requires a gradient as an input of its own.
static kiln_status place_on_tape(struct capturing *c, size_t i, const struct tape_node *outside)
{
    kiln_tensor *t = c->inner[i], *twin = twin_of(c, i);
    if (twin)
        tape_set_node(t, twin->node, twin->node_out);
    else if (c->q->in[i]->node && c->q->in[i]->node->kind == NODE_LEAF)
        tape_set_node(t, c->q->in[i]->node, 0);
    else if (thread_state.no_grad || !node_requires_grad(outside))
        place_cut(c, t, c->q->in[i]->node);
    else {
        const struct tape_edge none = {NULL, 0};
        struct tape_node *n = node_input(&t->type, &none);
        if (!n) return error_pending;
        tape_set_node(t, n, 0);
        node_unref(n);
        kiln_tensor *current = c->r.variables.v[t->variable].current;
        if (current->value == t->value && !current->node) tape_set_node(current, n, 0);
    }
    c->nodes[i] = node_ref(t->node);
    return replayed_source(&c->r, t->value, t->node);
}

static kiln_status add_number(struct capturing *c, size_t i)
{
    kiln_tensor *t = c->q->in[i];
    bool run_time = t->run_time || t->node || (c->q->run_time && c->q->run_time[i]);
    if (!run_time) {
        c->inner[i] = tensor_second(t);
        return c->inner[i] ? KILN_OK : error_pending;
    }
    char name[32];
    struct source s = {.kind = SOURCE_NUMBER, .input = i, .type = t->type};
    snprintf(name, sizeof name, "in%zu", i);
    int32_t variable;
    TRY(recorder_add_source(&c->r, &s, &s.type, name, &variable));
    c->source_of[i] = c->r.variables.v[variable].source;
    struct tape_edge edge;
    TRY(tape_current(t, &edge));
    TRY(variable_show(&c->r, variable, &s.type, &s.layout, &c->inner[i]));
    return place_on_tape(c, i, edge.node);
}

// The variable of an earlier input that i lies in; 0: none.
static int32_t find_earlier(const struct capturing *c, size_t i, const struct span *span)
{
    for (size_t k = 0; k < i; k++) {
        int64_t first, last;
        kiln_tensor *t = c->q->in[k];
        if (t->storage != c->q->in[i]->storage) continue;
        bool inside =
            span && layout_reach(&t->type, &t->layout, &first, &last) && span->first <= first && last <= span->last;
        if (inside || is_twin(t, c->q->in[i])) return c->r.sources.v[c->source_of[k]].variable;
    }
    return 0;
}

static kiln_status add_source_of(struct capturing *c, size_t i, const struct span *span, int32_t *variable)
{
    kiln_tensor *t = c->q->in[i];
    char name[32];
    struct source s = {.kind = SOURCE_INPUT, .input = i, .storage = t->storage, .type = t->type, .layout = t->layout};
    if (span && !span->alone) {
        s.kind = SOURCE_SPAN;
        s.type = (struct type){.dtype = t->type.dtype, .rank = 1};
        s.type.dims[0] = span->last - span->first + 1;
        s.layout = (struct layout){span->first, {1}};
        s.shift = span->first - t->layout.offset;
    } else if (t->node && t->node->kind == NODE_LEAF)
        s.leaf = t->node;
    snprintf(name, sizeof name, "in%zu", i);
    return s.leaf ? recorder_add_parameter(&c->r, &s, name, variable)
                  : recorder_add_source(&c->r, &s, &s.type, name, variable);
}

static kiln_status find_variable(struct capturing *c, size_t i, int32_t *variable)
{
    kiln_tensor *t = c->q->in[i];
    struct span span;
    const struct joined *joined = recorder_joined(&c->r, t->storage);
    if (joined && joined->whole) return recorder_add_memory(&c->r, t->storage, t->type.dtype, variable);
    bool spans = joined && find_span(c->q, i, &span);
    *variable = find_earlier(c, i, spans ? &span : NULL);
    return *variable ? KILN_OK : add_source_of(c, i, spans ? &span : NULL, variable);
}

static kiln_status add_tensor(struct capturing *c, size_t i)
{
    kiln_tensor *t = c->q->in[i];
    struct tape_edge edge;
    int32_t variable;
    TRY(tape_current(t, &edge));
    TRY(find_variable(c, i, &variable));
    c->source_of[i] = c->r.variables.v[variable].source;
    TRY(variable_show(&c->r, variable, &t->type, &t->layout, &c->inner[i]));
    c->inner[i]->detached = t->detached;
    tensor_show(c->inner[i], t->shown);
    recorder_meet(&c->r, variable, t);
    return place_on_tape(c, i, edge.node);
}

kiln_status capture_add_inputs(struct capturing *c)
{
    for (size_t i = 0; i < c->q->n_in; i++) {
        const struct storage *s = c->q->in[i]->storage;
        if (s && !c->r.dev) c->r.dev = s->dev;
        if (s && s->dev != c->r.dev)
            return error_set(KILN_E_DEVICE_MISMATCH, "call: input %zu of %s is on %s, another one on %s", i, c->q->name,
                             s->dev->name, c->r.dev->name);
        TRY(s ? add_tensor(c, i) : add_number(c, i));
    }
    return KILN_OK;
}
