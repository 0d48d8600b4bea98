// A part of the tape that the ops of one segment left, as one node with a compiled backward.
//
// Input: nodes of the tape, of which those that steps left know their step. Output: one node, whose backward program is
// kept at the last step and found again by what may differ between walks along one path: which edges lead where, what
// is saved, what leaves the part, and which gradients arrived in the last backward.
#include "jit/auto/part.h"
#include <stdlib.h>
#include <string.h>

enum { GRADIENTS_OF_STEP = 16 };

static struct segment *segment_of(const struct tape_part *p, struct auto_step **at)
{
    struct segment *s = NULL;
    for (size_t i = 0; i < p->n_nodes; i++) {
        if (!auto_is_tagged(p->nodes[i])) continue;
        s = p->nodes[i]->held;
        *at = (struct auto_step *)p->nodes[i]->held_place;
    }
    return s;
}

// Keys

struct part_key {
    VEC(int64_t) v;
};

static kiln_status put(struct part_key *k, int64_t v)
{
    return vec_push(&k->v, v);
}

static kiln_status put_attr(struct part_key *k, const struct attr *a)
{
    TRY(put(k, a->kind << 1 | a->set));
    if (a->kind != ATTR_INTS) return put(k, a->i);
    TRY(put(k, a->count));
    for (int i = 0; i < a->count && i < MAX_RANK; i++) TRY(put(k, a->v[i]));
    return KILN_OK;
}

// Of a step, all but its place follows from the path.
static kiln_status put_op(struct part_key *k, const struct tape_node *n)
{
    const struct auto_step *s = auto_step_of(n);
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

static kiln_status put_node(struct part_key *k, const struct tape_node *n, const int32_t *places)
{
    TRY(put_op(k, n));
    TRY(put(k, n->n_in));
    for (int i = 0; i < n->n_in; i++) TRY(put(k, (int64_t)places[i] * 256 + n->edges[i].out));
    for (int i = 0; i < n->n_in + n->n_out; i++) TRY(put(k, n->values[i].state));
    return KILN_OK;
}

static kiln_status make_key(const struct tape_part *p, struct part_key *k)
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

static bool is_for(const struct auto_gradient *g, const struct part_key *k)
{
    return g->n_key == k->v.n && !memcmp(g->key, k->v.v, k->v.n * sizeof *g->key);
}

// The one used last; `present`: for these gradients.
static struct auto_gradient *find(struct auto_step *at, const struct part_key *k, const bool *present, size_t n)
{
    for (struct auto_gradient **p = &at->gradients, *g; (g = *p); p = &g->next) {
        if (!is_for(g, k) || (present && memcmp(g->present, present, n) != 0)) continue;
        *p = g->next;
        g->next = at->gradients;
        return at->gradients = g;
    }
    return NULL;
}

static void tell(kiln_function *f, const struct tape_part *p, const struct entry *e)
{
    pthread_mutex_lock(&f->lock);
    if (e)
        function_note(f, "backward: %zu ops are one graph of %zu nodes, which needs %zu values", p->n_nodes,
                      e->captured.gradient.all.graph->nodes.n, e->captured.n_sources);
    else
        function_note(f, "backward op by op: %s", kiln_error_message());
    pthread_mutex_unlock(&f->lock);
}

// What could not be derived stays op by op.
static kiln_status add(struct trie *t, const struct tape_part *p, struct segment *s, struct auto_step *at,
                       struct auto_gradient *g)
{
    if (auto_derive(t, p, s, at, g)) entry_unref(&g->entry);
    tell(t->f, p, g->entry);
    kiln_error_clear();
    g->next = at->gradients;
    at->gradients = g;
    return KILN_OK;
}

static kiln_status make_new(const struct tape_part *p, const struct part_key *k, const bool *present,
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
    if (g) auto_gradient_free(g);
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

static kiln_status get(struct trie *t, const struct tape_part *p, struct segment *s, struct auto_step *at,
                       struct auto_gradient **out)
{
    struct part_key k = {{0}};
    bool arrived[UINT8_MAX], changed = false;
    kiln_status status = make_key(p, &k);
    size_t n = 0;
    *out = status ? NULL : find(at, &k, NULL, 0);
    if (*out) changed = has_changed(*out, p->n_leaving, arrived);
    if (changed) *out = find(at, &k, arrived, p->n_leaving);
    for (const struct auto_gradient *g = at->gradients; g; g = g->next) n++;
    if (!status && !*out && n < GRADIENTS_OF_STEP && !t->closed) {
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
        *out = auto_number_tensor(&s->numbers.v[from.value]);
        return *out ? KILN_OK : error_pending;
    }
    const struct tape_node *n = p->nodes[from.node];
    const struct tape_value *v = &n->values[from.value];
    if (v->state == VALUE_WEAK) {
        const struct auto_number number = {v->dtype, v->number, v->integer};
        *out = auto_number_tensor(&number);
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
    const struct rng rng = {s->seed, s->offset};
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
    struct auto_step *at = NULL;
    struct segment *s = segment_of(part, &at);
    *out = NULL;
    kiln_status status = s && t->f ? get(t, part, s, at, &g) : KILN_OK;
    if (!status && g && g->entry) return make_node(g, s, part, onward, out);
    part_free(part);
    return status;
}
