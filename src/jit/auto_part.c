// A part of the tape that the ops of one segment left, as one node with a compiled backward.
//
// Input: nodes of the tape, of which those that steps left know their step. Output: one node, whose backward program is
// kept at the last step and found again by what may differ between walks along one path: which edges lead where, what
// is saved, and what leaves the part.
//
// The program is made as that of a captured function. The path up to the last step gives the forward graph; copies of
// the nodes, whose saved values are those of the graph, are run back under a recorder; the joint graph is split. What
// the backward half needs is among what the nodes have saved, so the forward half need not run again: it is recorded in
// the segment, and its values are asked for, or learnt, like any others. An input of the segment is at hand only if a
// node has saved it, for eager mode lets all others be written before backward.
#include "base/caller.h"
#include "jit/auto.h"
#include "jit/recorder.h"
#include "ops/families.h"
#include <kiln/graph.h>
#include <stdlib.h>
#include <string.h>

enum { GRADIENTS_OF_STEP = 16 };
enum { ORIGIN_NUMBER = -1 };

// Where a saved value comes from at each call: a value of a node, or a run-time number of the segment.
struct origin {
    int32_t node, value;
};

struct auto_gradient {
    struct auto_gradient *next;
    int64_t *key;
    size_t n_key;
    bool *present;       // by what leaves the part: whether a gradient arrives
    struct entry *entry; // NULL: it cannot be compiled
    struct origin *origins;
};

static const struct step *step_of(const struct tape_node *n)
{
    return auto_is_tagged(n) ? n->held_place : NULL;
}

static struct segment *segment_of(const struct tape_part *p, struct step **at)
{
    struct segment *s = NULL;
    for (size_t i = 0; i < p->n_nodes; i++) {
        if (!auto_is_tagged(p->nodes[i])) continue;
        s = p->nodes[i]->held;
        *at = (struct step *)p->nodes[i]->held_place;
    }
    return s;
}

static bool is_saved(const struct tape_value *v)
{
    return v->state == VALUE_STORAGE || v->state == VALUE_WEAK;
}

// Keys

struct key {
    VEC(int64_t) v;
};

static kiln_status put(struct key *k, int64_t v)
{
    return vec_push(&k->v, v);
}

static kiln_status put_attr(struct key *k, const struct attr *a)
{
    TRY(put(k, a->kind << 1 | a->set));
    if (a->kind != ATTR_INTS) return put(k, a->i);
    TRY(put(k, a->count));
    for (int i = 0; i < a->count && i < MAX_RANK; i++) TRY(put(k, a->v[i]));
    return KILN_OK;
}

// Of a step, all but its place follows from the path.
static kiln_status put_op(struct key *k, const struct tape_node *n)
{
    const struct step *s = step_of(n);
    if (s) return put(k, s->depth);
    TRY(put(k, -(int64_t)(uintptr_t)n->op));
    for (int i = 0; i < n->op->n_attrs; i++) TRY(put_attr(k, &n->attrs[i]));
    for (int i = 0; i < n->n_in + n->n_out; i++) {
        const struct tape_value *v = &n->values[i];
        TRY(put(k, v->dtype << 8 | v->rank << 1 | v->weak));
        for (int d = 0; d < 2 * v->rank; d++) TRY(put(k, n->dims[v->dims_at + d]));
    }
    return KILN_OK;
}

static kiln_status put_node(struct key *k, const struct tape_node *n, const int32_t *places)
{
    TRY(put_op(k, n));
    TRY(put(k, n->n_in));
    for (int i = 0; i < n->n_in; i++) TRY(put(k, (int64_t)places[i] * 256 + n->edges[i].out));
    for (int i = 0; i < n->n_in + n->n_out; i++) TRY(put(k, n->values[i].state));
    return KILN_OK;
}

static kiln_status make_key(const struct tape_part *p, struct key *k)
{
    size_t at = 0;
    for (size_t i = 0; i < p->n_nodes; i++) {
        TRY(put_node(k, p->nodes[i], p->places + at));
        at += p->nodes[i]->n_in;
    }
    for (size_t i = 0; i < p->n_leaving; i++)
        TRY(put(k, (int64_t)part_index(p, p->leaving[i].node) << 8 | p->leaving[i].out));
    return KILN_OK;
}

static bool is_for(const struct auto_gradient *g, const struct key *k)
{
    return g->n_key == k->v.n && !memcmp(g->key, k->v.v, k->v.n * sizeof *g->key);
}

// The one used last; `present`: for these gradients.
static struct auto_gradient *find(struct step *at, const struct key *k, const bool *present, size_t n)
{
    for (struct auto_gradient **p = &at->gradients, *g; (g = *p); p = &g->next) {
        if (!is_for(g, k) || (present && memcmp(g->present, present, n) != 0)) continue;
        *p = g->next;
        g->next = at->gradients;
        return at->gradients = g;
    }
    return NULL;
}

static void free_one(struct auto_gradient *g)
{
    entry_unref(&g->entry);
    free(g->key);
    free(g->present);
    free(g->origins);
    free(g);
}

void auto_gradients_free(struct step *s)
{
    while (s->gradients) {
        struct auto_gradient *g = s->gradients;
        s->gradients = g->next;
        free_one(g);
    }
}

// Deriving

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
    const struct step *s = step_of(n);
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
        const struct step *s = step_of(n);
        if (s && n->op->n_attrs) memcpy(d->copies[i]->attrs, s->attrs, n->op->n_attrs * sizeof *s->attrs);
        for (int k = 0; k < n->n_in + n->n_out; k++) TRY(place_value(d, i, k, d->copies[i]));
    }
    return KILN_OK;
}

static kiln_status make_forward(struct derivation *d, const struct step *at)
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
    if (d->r.sources.n || d->r.random_counters || d->r.prints.n)
        return error_set(KILN_E_UNSUPPORTED, "backward: a rule uses what is not in the graph");
    return KILN_OK;
}

static kiln_status under_recorder(struct derivation *d, const struct step *at, const bool *present, struct gradient *g)
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

static kiln_status derive(struct trie *t, const struct tape_part *p, struct segment *s, const struct step *at,
                          struct auto_gradient *g)
{
    struct derivation d = {.p = p};
    TRY(entry_new(t->f->name, &g->entry));
    struct captured *c = &g->entry->captured;
    TRY(recorder_init(&d.r, t->f->name, KILN_CAPTURE_STRICT, KILN_SYNTAX_LAX));
    d.r.dev = c->dev = s->dev;
    kiln_status status = under_recorder(&d, at, g->present, &c->gradient);
    if (!status) status = fill_entry(&d, c, &g->origins);
    if (!status && t->f->o.print_after_all) status = kiln_graph_print(c->gradient.graph, stderr);
    finish(&d);
    return status;
}

static void tell(kiln_function *f, const struct tape_part *p, const struct entry *e)
{
    pthread_mutex_lock(&f->lock);
    if (e)
        function_note(f, "backward: %zu ops are one graph of %zu nodes, which needs %zu values", p->n_nodes,
                      e->captured.gradient.graph->nodes.n, e->captured.n_sources);
    else
        function_note(f, "backward op by op: %s", kiln_error_message());
    pthread_mutex_unlock(&f->lock);
}

// What could not be derived stays op by op.
static kiln_status add(struct trie *t, const struct tape_part *p, struct segment *s, struct step *at,
                       struct auto_gradient *g)
{
    if (derive(t, p, s, at, g)) entry_unref(&g->entry);
    tell(t->f, p, g->entry);
    kiln_error_clear();
    g->next = at->gradients;
    at->gradients = g;
    return KILN_OK;
}

static kiln_status make_new(const struct tape_part *p, const struct key *k, const bool *present,
                            struct auto_gradient **out)
{
    struct auto_gradient *g = calloc(1, sizeof *g);
    if (g) g->key = malloc(k->v.n * sizeof *g->key);
    if (g) g->present = malloc(p->n_leaving);
    *out = g;
    if (g && g->key && g->present) {
        g->n_key = k->v.n;
        memcpy(g->key, k->v.v, k->v.n * sizeof *g->key);
        if (present)
            memcpy(g->present, present, p->n_leaving);
        else
            memset(g->present, true, p->n_leaving);
        return KILN_OK;
    }
    if (g) free_one(g);
    return error_set(KILN_E_MEMORY, "jit: out of memory");
}

// Which gradients arrived in the last backward of it, where others did than it was made for.
static bool has_changed(const struct auto_gradient *g, size_t n, bool *arrived)
{
    bool changed = false;
    if (!g->entry) return false;
    struct gradient *of = &g->entry->captured.gradient;
    pthread_mutex_lock(&of->lock);
    if (of->arrived) memcpy(arrived, of->arrived, n);
    changed = of->arrived && memcmp(arrived, g->present, n) != 0;
    pthread_mutex_unlock(&of->lock);
    return changed;
}

static kiln_status get(struct trie *t, const struct tape_part *p, struct segment *s, struct step *at,
                       struct auto_gradient **out)
{
    struct key k = {{0}};
    bool arrived[UINT8_MAX], changed = false;
    kiln_status status = make_key(p, &k);
    size_t n = 0;
    *out = status ? NULL : find(at, &k, NULL, 0);
    if (*out) changed = has_changed(*out, p->n_leaving, arrived);
    if (changed) *out = find(at, &k, arrived, p->n_leaving);
    for (const struct auto_gradient *g = at->gradients; g; g = g->next) n++;
    if (!status && !*out && n < GRADIENTS_OF_STEP) {
        status = make_new(p, &k, changed ? arrived : NULL, out);
        if (!status) status = add(t, p, s, at, *out);
    }
    vec_free(&k.v);
    return status;
}

// Calls

// A value that was not computed yet is asked for with the segment, or where it ended already, in the next walk.
static kiln_status ask(const struct storage *st)
{
    struct lazy *l = st->lazy;
    if (!l || l->failed) return KILN_OK;
    if (!l->seg->ended) {
        l->asked = true;
        return KILN_OK;
    }
    struct break_point *end = l->seg->at->end;
    for (size_t i = 0; end && i < end->learnt.n; i++)
        if (ref_equal(&end->learnt.v[i], &l->value)) return KILN_OK;
    return end ? vec_push(&end->learnt, l->value) : KILN_OK;
}

static kiln_status source_now(const struct tape_part *p, const struct segment *s, struct origin from, kiln_tensor **out)
{
    struct type type;
    struct layout layout;
    if (from.node < 0) {
        *out = auto_number(&s->numbers.v[from.value]);
        return *out ? KILN_OK : error_pending;
    }
    const struct tape_node *n = p->nodes[from.node];
    const struct tape_value *v = &n->values[from.value];
    if (v->state == VALUE_WEAK) {
        const struct number number = {v->dtype, v->number, v->integer};
        *out = auto_number(&number);
        return *out ? KILN_OK : error_pending;
    }
    node_value_type(n, v, &type);
    node_value_layout(n, v, &layout);
    *out = tensor_on(v->storage, &type, &layout);
    return *out ? ask(v->storage) : error_pending;
}

static kiln_status make_node(struct auto_gradient *g, struct segment *s, struct tape_part *p,
                             const struct tape_edge *onward, struct tape_node **out)
{
    size_t n = g->entry->captured.n_sources;
    kiln_tensor **sources = calloc(n + 1, sizeof *sources);
    kiln_status status = sources ? KILN_OK : error_set(KILN_E_MEMORY, "jit: out of memory");
    struct kiln_scope scope;
    scope_enter(&scope);
    for (size_t i = 0; i < n && !status; i++) status = source_now(p, s, g->origins[i], &sources[i]);
    const struct program_rng rng = {s->seed, s->offset};
    if (!status)
        status = gradient_node(g->entry, p, onward, sources, &rng, out);
    else
        part_free(p);
    scope_leave(&scope, NULL, 0);
    free(sources);
    return status;
}

kiln_status auto_part_node(struct trie *t, struct tape_part *part, const struct tape_edge *onward,
                           struct tape_node **out)
{
    struct auto_gradient *g = NULL;
    struct step *at = NULL;
    struct segment *s = segment_of(part, &at);
    *out = NULL;
    kiln_status status = s && t->f ? get(t, part, s, at, &g) : KILN_OK;
    if (!status && g && g->entry) return make_node(g, s, part, onward, out);
    part_free(part);
    return status;
}
