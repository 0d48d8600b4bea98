// The backward graph of a part of the tape.
//
// Input: the nodes, and the path to the last step that left one. Output: a backward graph, and where each value that it
// needs comes from.
//
// It is made as that of a captured function. The path gives the forward graph; copies of the nodes, whose saved values
// are those of the graph, are run back under a recorder; the joint graph is split. What the backward half needs is
// among what the nodes have saved, so the forward half need not run again: it is recorded in the segment, and its
// values are asked for, or learnt, like any others. An input of the segment is at hand only if a node has saved it, for
// eager mode lets all others be written before backward.
#include "jit/auto/part.h"
#include "jit/capture/recorder.h"
#include <kiln/graph.h>
#include <stdlib.h>
#include <string.h>

static bool is_saved(const struct tape_value *v)
{
    return v->state == VALUE_STORAGE || v->state == VALUE_WEAK;
}

struct derivation {
    const struct tape_part *p;
    struct recorder r;
    struct auto_forward forward;
    VEC(struct ref) wanted;
    VEC(int32_t) sources;        // inputs of the forward graph
    VEC(struct origin) origins;  // of the sources
    bool *written;               // by source
    VEC(int32_t) known;          // values of the graph that a node has saved
    VEC(struct origin) known_as; // by which
    struct tape_node **inputs, **copies;
    bool copied;
    uint64_t since, until;
};

// What the step says that a saved value of its node is.
static struct ref ref_of(const struct tape_node *n, int i)
{
    const struct auto_step *s = auto_step_of(n);
    if (!s) return (struct ref){.kind = REF_NONE};
    return i < n->n_in ? s->in[i] : (struct ref){.kind = REF_STEP, .index = s->n_values + i - n->n_in};
}

static kiln_status find_wanted(struct derivation *d)
{
    for (size_t i = 0; i < d->p->n_nodes; i++) {
        const struct tape_node *n = d->p->nodes[i];
        for (int k = 0; k < n->n_in + n->n_out; k++) {
            struct ref r = ref_of(n, k);
            bool in_path = r.kind == REF_STEP || r.kind == REF_INPUT || r.kind == REF_RUN_TIME;
            if (is_saved(&n->values[k]) && in_path) TRY(vec_push(&d->wanted, r));
        }
    }
    return KILN_OK;
}

static kiln_status add_source(struct derivation *d, int32_t value, struct origin from)
{
    TRY(vec_push(&d->origins, from));
    return vec_push(&d->sources, value);
}

static int32_t value_of(const struct derivation *d, const struct ref *r)
{
    switch (r->kind) {
    case REF_STEP: return d->forward.values[r->index];
    case REF_INPUT: return d->forward.inputs[r->index];
    case REF_RUN_TIME: return d->forward.numbers[r->index];
    default: return -1;
    }
}

// The saved value in the forward graph; -1: it is not in there.
static int32_t find_value(const struct derivation *d, const struct tape_node *n, int k)
{
    struct ref r = ref_of(n, k);
    struct type type;
    int32_t value = value_of(d, &r);
    node_value_type(n, &n->values[k], &type);
    if (value < 0 || r.kind == REF_RUN_TIME) return value;
    const struct type *found = &d->r.sink.builder.graph->values.v[value].type;
    return found->dtype == type.dtype && type_same_shape(found, &type) ? value : -1;
}

static struct origin find_known(const struct derivation *d, int32_t value)
{
    for (size_t i = 0; i < d->known.n; i++)
        if (d->known.v[i] == value) return d->known_as.v[i];
    return (struct origin){ORIGIN_NUMBER, -1};
}

// An input that nothing in the path stands for.
static kiln_status add_saved_input(struct derivation *d, const struct tape_node *n, int k, struct origin from,
                                   int32_t *value)
{
    struct type type;
    char name[24];
    node_value_type(n, &n->values[k], &type);
    type.weak = n->values[k].state == VALUE_WEAK;
    if (type.weak && type.dtype == KILN_F64) type.dtype = KILN_F32;
    snprintf(name, sizeof name, "saved%zu", d->sources.n);
    *value = ir_add_input(d->r.sink.builder.graph, &type, name);
    return *value < 0 ? error_pending : add_source(d, *value, from);
}

// What a copy of the node sees as this value.
static kiln_status place_value(struct derivation *d, size_t node, int k, struct tape_node *copy)
{
    const struct tape_node *n = d->p->nodes[node];
    const struct origin from = {(int32_t)node, k};
    struct tape_value *v = &copy->values[k];
    if (!is_saved(&n->values[k]) || ref_of(n, k).kind == REF_NUMBER) return KILN_OK;
    int32_t value = find_value(d, n, k);
    if (value < 0) TRY(add_saved_input(d, n, k, from, &value));
    if (n->values[k].state == VALUE_STORAGE) {
        TRY(vec_push(&d->known, value));
        TRY(vec_push(&d->known_as, from));
    }
    v->state = VALUE_ABSTRACT;
    v->builder = &d->r.sink.builder;
    v->value = value;
    return KILN_OK;
}

static kiln_status make_copies(struct derivation *d)
{
    d->since = node_sequence();
    TRY(part_copy(d->p, NULL, false, d->inputs, d->copies));
    d->copied = true;
    d->until = d->inputs[d->p->n_outside - 1]->sequence;
    for (size_t i = 0; i < d->p->n_nodes; i++) {
        const struct tape_node *n = d->p->nodes[i];
        const struct auto_step *s = auto_step_of(n);
        if (s) d->copies[i]->where = s->caller;
        if (s && n->op->n_attrs) memcpy(d->copies[i]->attrs, s->attrs, n->op->n_attrs * sizeof *s->attrs);
        for (int k = 0; k < n->n_in + n->n_out; k++) TRY(place_value(d, i, k, d->copies[i]));
    }
    return KILN_OK;
}

static kiln_status make_forward(struct derivation *d, const struct auto_step *at)
{
    d->forward.at = at;
    d->forward.g = d->r.sink.builder.graph;
    TRY(find_wanted(d));
    TRY(auto_forward_make(&d->forward, d->wanted.v, d->wanted.n));
    for (size_t i = 0; i < d->forward.n_order; i++) {
        const struct ref *r = &d->forward.order[i];
        TRY(add_source(d, value_of(d, r), (struct origin){ORIGIN_NUMBER, r->index}));
    }
    return KILN_OK;
}

// Sources that are inputs of the path: those that a node has saved are at hand.
static kiln_status find_at_hand(struct derivation *d)
{
    d->written = calloc(d->sources.n + 1, sizeof *d->written);
    if (!d->written) return error_set(KILN_E_MEMORY, "jit: out of memory");
    for (size_t i = 0; i < d->forward.n_order; i++) {
        if (d->forward.order[i].kind != REF_INPUT) continue;
        d->origins.v[i] = find_known(d, d->sources.v[i]);
        d->written[i] = d->origins.v[i].node < 0;
    }
    return KILN_OK;
}

static kiln_status make_roots(struct derivation *d, const bool *present, kiln_tensor **roots)
{
    for (size_t i = 0; i < d->p->n_leaving; i++) {
        const struct tape_edge *e = &d->p->leaving[i];
        struct type type;
        node_value_type(e->node, &e->node->values[e->node->n_in + (int)e->out], &type);
        roots[i] = variable_handle(&d->r, &type, 0);
        if (!roots[i]) return error_pending;
        if (present[i]) tape_set_node(roots[i], d->copies[part_index(d->p, e->node)], e->out);
    }
    return KILN_OK;
}

static kiln_status differentiate(struct derivation *d, const bool *present, kiln_tensor **roots, struct gradient *g)
{
    TRY(make_copies(d));
    TRY(find_at_hand(d));
    kiln_status status = make_roots(d, present, roots);
    const struct part_graph p = {.sources = d->sources.v,
                                 .written = d->written,
                                 .n_sources = d->sources.n,
                                 .roots = roots,
                                 .n_roots = d->p->n_leaving,
                                 .targets = d->inputs,
                                 .n_targets = d->p->n_outside,
                                 .since = d->since,
                                 .until = d->until};
    if (!status) status = gradient_of_part(&d->r, &p, g);
    if (status) return status;
    // Values from elsewhere, which could go stale.
    if (d->r.sources.n || d->r.random_counters || d->r.hosts.n)
        return error_set(KILN_E_UNSUPPORTED, "backward: a rule uses what is not in the graph");
    return KILN_OK;
}

static kiln_status under_recorder(struct derivation *d, const struct auto_step *at, const bool *present,
                                  struct gradient *g)
{
    struct sink *sink = thread_state.sink;
    uint32_t capture = thread_state.capture;
    size_t n_nodes = d->p->n_nodes, n_outside = d->p->n_outside;
    void **room = calloc(n_nodes + n_outside + d->p->n_leaving, sizeof *room);
    if (!room) return error_set(KILN_E_MEMORY, "jit: out of memory");
    d->inputs = (struct tape_node **)room;
    d->copies = d->inputs + n_outside;
    struct kiln_scope scope;
    scope_enter(&scope);
    thread_state.sink = &d->r.sink.base;
    thread_state.capture = d->r.capture;
    kiln_status status = make_forward(d, at);
    if (!status) status = differentiate(d, present, (kiln_tensor **)(room + n_nodes + n_outside), g);
    thread_state.sink = sink;
    thread_state.capture = capture;
    scope_leave(&scope, NULL, 0);
    if (d->copied) {
        part_drop(n_nodes, d->copies);
        part_drop(n_outside, d->inputs);
    }
    free(room);
    return status;
}

static void finish(struct derivation *d)
{
    recorder_finish(&d->r);
    auto_forward_finish(&d->forward);
    vec_free(&d->wanted);
    vec_free(&d->sources);
    vec_free(&d->origins);
    vec_free(&d->known);
    vec_free(&d->known_as);
    free(d->written);
}

// Which of the forward graph's values a further output is.
static int32_t output_value(const struct kiln_graph *g, int32_t output)
{
    for (size_t i = 0; i < g->outputs.n; i++)
        if (g->outputs.v[i].target < 0 && output-- == 0) return g->outputs.v[i].value;
    return -1;
}

static kiln_status describe_source(const struct derivation *d, const struct saved *s, struct origin *from,
                                   struct source *out)
{
    *from = s->source >= 0 ? d->origins.v[s->source] : find_known(d, output_value(d->r.sink.builder.graph, s->output));
    *out = (struct source){.kind = SOURCE_NUMBER, .type = s->type};
    if (from->node < 0 && from->value < 0)
        return error_set(KILN_E_UNSUPPORTED, "backward: a value that no node has saved");
    const struct tape_node *n = from->node < 0 ? NULL : d->p->nodes[from->node];
    if (!n || n->values[from->value].state == VALUE_WEAK) return KILN_OK;
    out->kind = SOURCE_INPUT;
    node_value_layout(n, &n->values[from->value], &out->layout);
    out->row_major = layout_is_contiguous(&out->type, &out->layout);
    return KILN_OK;
}

// What the gradient needs becomes the sources of an entry.
static kiln_status fill_entry(struct derivation *d, struct captured *c, struct origin **origins)
{
    struct gradient *g = &c->gradient;
    c->sources = calloc(g->n_saved + 1, sizeof *c->sources);
    c->constants = calloc(d->r.constants.n + 1, sizeof *c->constants);
    *origins = calloc(g->n_saved + 1, sizeof **origins);
    if (!c->sources || !c->constants || !*origins) return error_set(KILN_E_MEMORY, "jit: out of memory");
    for (size_t i = 0; i < d->r.constants.n; i++) {
        c->constants[c->n_constants++] = d->r.constants.v[i].tensor;
        d->r.constants.v[i].tensor = NULL;
    }
    for (size_t i = 0; i < g->n_saved; i++) {
        TRY(describe_source(d, &g->saved[i], &(*origins)[i], &c->sources[i]));
        g->saved[i].source = (int32_t)i;
        g->saved[i].output = -1;
        c->n_sources++;
    }
    return KILN_OK;
}

kiln_status auto_derive(struct trie *t, const struct tape_part *p, struct segment *s, const struct auto_step *at,
                        struct auto_gradient *g)
{
    struct derivation d = {.p = p};
    TRY(entry_new(t->f, &g->entry));
    struct captured *c = &g->entry->captured;
    TRY(recorder_init(&d.r, t->f->name, KILN_CAPTURE_STRICT, KILN_SYNTAX_LAX));
    d.r.dev = c->dev = s->dev;
    kiln_status status = under_recorder(&d, at, g->present, &c->gradient);
    if (!status) status = fill_entry(&d, c, &g->origins);
    if (!status && t->f->o.print_after_all) status = kiln_graph_print(c->gradient.all.graph, stderr);
    finish(&d);
    return status;
}
