// A call of a captured function on the tape: one node, whose rule runs the backward program.
//
// The node's values are: one of each target (types only), one of each input of the graph, one of each saved output.
// What the backward program reads is checked against later writes, as any rule's values are. The other inputs of the
// graph are kept for gradients of gradients alone: then the forward graph is run again, op by op under the tape.
//
// A node for a part of the tape has one value of each place that the part leads to instead of the targets, and of each
// saved value instead of the inputs. For gradients of gradients it keeps the nodes of the part.
#include "grad/registry.h"
#include "grad/rule.h"
#include "jit/function.h"
#include "jit/capture/replay.h"
#include <kiln/ops.h>
#include <stdlib.h>
#include <string.h>

static const char *const value_names[] = {"value"};
static const struct op call_op = {
    .name = "jit", .flags = OP_HIDDEN | OP_VARIADIC, .min_in = 0, .max_in = 255, .n_out = 1, .in_names = value_names};

// What the node holds: which program, the random numbers of this call, and the nodes that it stands for, if it does.
struct held {
    struct entry *entry;
    struct rng rng;
    struct tape_part *part;
};

static void drop_held(void *at)
{
    struct held *h = at;
    entry_unref(&h->entry);
    part_free(h->part);
    free(h);
}

// Gradients of gradients

struct again {
    const struct held *h;
    int32_t values[UINT8_MAX]; // of the forward graph, whose gradients arrived
    kiln_tensor *sens[UINT8_MAX];
    size_t n;
};

static kiln_status forward_again(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct again *a = user;
    const struct captured *c = &a->h->entry->captured;
    (void)n_in, (void)n_out;
    return graph_evaluate(c->graph, c->dev, in, &a->h->rng, a->n, a->values, out);
}

static void find_arrived(const struct gradient *g, kiln_tensor *const *dout, struct again *a)
{
    for (size_t i = 0; i < g->n_outputs; i++) {
        if (g->values[i] < 0 || !dout[i]) continue;
        a->values[a->n] = g->values[i];
        a->sens[a->n++] = dout[i];
    }
}

static kiln_status differentiate_again(const struct held *h, const struct tape_node *n, kiln_tensor *const *in,
                                       kiln_tensor *const *dout, kiln_tensor **din)
{
    const struct captured *c = &h->entry->captured;
    const struct gradient *g = &c->gradient;
    kiln_tensor **sources = calloc(c->n_sources + g->n_targets + 1, sizeof *sources);
    int64_t *wrt = calloc(g->n_targets + 1, sizeof *wrt);
    kiln_status status = sources && wrt ? KILN_OK : error_set(KILN_E_MEMORY, "backward: out of memory");
    struct again again = {.h = h};
    if (!status && g->is_unlike_replay)
        status = error_set(KILN_E_UNSUPPORTED,
                           "backward: %s writes memory without gradients in a way that gradients of its gradients do "
                           "not follow; call it eagerly, or with KILN_CAPTURE_AUTO",
                           h->entry->name);
    kiln_tensor *unread = status ? NULL : kiln_scalar(0); // not kept
    if (!status && !unread) status = error_pending;
    for (size_t i = 0; i < c->n_sources && !status; i++)
        sources[i] = in[g->n_targets + i] ? in[g->n_targets + i] : unread;
    for (size_t i = 0; i < g->n_targets && !status; i++) {
        kiln_tensor **at = &sources[g->targets[i].source];
        *at = grad_second_handle(*at);
        if (!*at)
            status = error_pending;
        else
            tape_set_node(*at, n->edges[i].node, n->edges[i].out);
        wrt[i] = g->targets[i].source;
    }
    find_arrived(g, dout, &again);
    kiln_grad_opts o = {
        .size = sizeof o, .wrt = {g->n_targets, wrt}, .sens = {again.n, again.sens}, .outputs = again.n};
    if (!status) status = kiln_grad(forward_again, &again, sources, c->n_sources, &o, din, g->n_targets);
    free(sources);
    free(wrt);
    return status;
}

static kiln_status rule(void *user, kiln_tensor *const *in, kiln_tensor *const *out, kiln_tensor *const *dout,
                        kiln_tensor **din)
{
    (void)user, (void)out;
    const struct tape_node *n = rule_node();
    const struct held *h = n->held;
    const struct gradient *g = &h->entry->captured.gradient;
    if (g->failure) return error_raise(g->failure);
    if (!thread_state.no_grad) return differentiate_again(h, n, in, dout, din);
    bool compiled = !thread_state.sink && h->entry->program; // abstract values: node by node
    return entry_run_backward(h->entry, compiled, in + g->n_targets, &h->rng, dout, din);
}

// Whether the gradients arrived that the program was made for. The next one is made for those that did.
static bool is_made_for(struct gradient *g, kiln_tensor *const *dout)
{
    bool same = true;
    pthread_mutex_lock(&g->lock);
    if (!g->arrived) g->arrived = calloc(g->n_outputs + 1, sizeof *g->arrived);
    for (size_t i = 0; i < g->n_outputs; i++) {
        same &= (g->douts[i] >= 0) == (dout[i] != NULL);
        if (g->arrived) g->arrived[i] = dout[i] != NULL;
    }
    pthread_mutex_unlock(&g->lock);
    return same;
}

// Whether something that the node keeps was written since. The gradients that arrived may not need it.
static bool has_changed(const struct tape_node *n, kiln_tensor *const *in)
{
    for (int i = 0; i < n->n_in; i++)
        if (n->values[i].state == VALUE_STORAGE && !n->values[i].lazy && !in[i]) return true;
    return false;
}

// Of a part of the tape. What the program was not made for goes op by op, as what single ops left would.
static kiln_status part_rule_fn(void *user, kiln_tensor *const *in, kiln_tensor *const *out, kiln_tensor *const *dout,
                                kiln_tensor **din)
{
    (void)user, (void)out;
    const struct tape_node *n = rule_node();
    const struct held *h = n->held;
    struct gradient *g = &h->entry->captured.gradient;
    bool create_graph = !thread_state.no_grad;
    bool op_by_op = create_graph || has_changed(n, in) || part_graph_of(h->part, dout);
    if (op_by_op || !is_made_for(g, dout)) return part_gradients(h->part, n->edges, create_graph, dout, din);
    bool compiled = !thread_state.sink && !debug_flag("replay");
    return entry_run_backward(h->entry, compiled, in + g->n_targets, &h->rng, dout, din);
}

// Edges beyond the targets lead to what tells that no tape was kept.
static bool call_leads(const struct tape_node *n, int out, int in)
{
    const struct held *h = n->held;
    return (size_t)in >= h->entry->captured.gradient.n_targets || entry_leads(h->entry, (size_t)out, (size_t)in);
}

static bool part_leads(const struct tape_node *n, int out, int in)
{
    const struct held *h = n->held;
    size_t n_outside = h->part->n_outside;
    return (size_t)in < n_outside && h->part->leads[(size_t)out * n_outside + (size_t)in];
}

static const struct grad_rule call_rule = {.fn = rule, .takes_missing = true, .leads = call_leads};
static const struct grad_rule part_rule = {
    .fn = part_rule_fn, .takes_missing = true, .takes_changed = true, .leads = part_leads};

// Recording

static bool reads_source(const struct gradient *g, size_t source)
{
    for (size_t i = 0; i < g->n_saved; i++)
        if (g->saved[i].source == (int32_t)source) return true;
    return false;
}

static struct tape_node *cut_of_input(const struct source *s, kiln_tensor *const *in)
{
    if (s->kind != SOURCE_INPUT && s->kind != SOURCE_NUMBER) return NULL;
    struct tape_node *n = in[s->input]->node;
    return n && node_is_cut(n) ? n : NULL;
}

struct places {
    struct tape_edge *edges;
    const struct type **types;
    const struct layout **layouts;
};

static kiln_status find_places(const struct captured *c, kiln_tensor *const *in, kiln_tensor *const *sources,
                               const struct places *p)
{
    const struct gradient *g = &c->gradient;
    for (size_t i = 0; i < g->n_targets; i++) {
        const struct target *t = &g->targets[i];
        if (t->input >= 0)
            TRY(tape_current(in[t->input], &p->edges[i]));
        else if (c->sources[t->source].history)
            TRY(source_history(&c->sources[t->source], &p->edges[i]));
        else
            p->edges[i] = (struct tape_edge){c->sources[t->source].leaf, 0};
        p->types[i] = &sources[t->source]->type;
    }
    for (size_t i = 0; i < c->n_sources; i++) {
        struct tape_node *cut = cut_of_input(&c->sources[i], in);
        if (cut) p->edges[g->n_targets + i] = (struct tape_edge){cut, 0};
    }
    return KILN_OK;
}

static void find_part_places(const struct gradient *g, const struct tape_part *part, const struct tape_edge *onward,
                             const struct places *p)
{
    for (size_t i = 0; i < g->n_targets; i++) {
        p->edges[i] = onward[i];
        p->types[i] = &part->types[i];
    }
}

// The call writes it, and it may be differentiated by again. A parameter that is updated is not: as in eager mode, its
// gradients of gradients end with the update.
static bool is_lost(const struct source *s)
{
    bool parameter = node_requires_grad(s->leaf) && s->kind != SOURCE_GRADIENT;
    return s->written && !source_is_number(s) && !parameter;
}

static kiln_tensor *copy_of(kiln_tensor *t)
{
    kiln_tensor *copy = tensor_empty(t->storage->dev, &t->type);
    thread_state.no_grad++;
    if (copy) kiln_assign(copy, t);
    thread_state.no_grad--;
    return error_pending ? NULL : copy;
}

static kiln_status make_node(const struct captured *c, const struct places *p, const struct grad_rule *of,
                             kiln_tensor *const *sources, struct tape_node **out)
{
    const struct gradient *g = &c->gradient;
    size_t n = g->n_targets + c->n_sources + g->n_saved;
    for (size_t i = 0; i < g->n_targets; i++)
        if (g->all.outputs[i] < 0 && !g->failure && of == &call_rule) p->edges[i].node = NULL; // nothing to hand on
    for (size_t i = 0; i < c->n_sources; i++) {
        p->types[g->n_targets + i] = &sources[i]->type;
        p->layouts[g->n_targets + i] = &sources[i]->layout;
    }
    for (size_t i = 0; i < g->n_saved; i++) p->types[g->n_targets + c->n_sources + i] = &g->saved[i].type;
    TRY(tape_node_make(&call_op, (int)n, p->edges, p->types, p->layouts, (int)g->n_outputs, g->types, NULL, out));
    (*out)->rule = of;
    for (size_t i = 0; i < c->n_sources; i++) {
        int at = (int)(g->n_targets + i);
        kiln_tensor *t = sources[i];
        if (of == &call_rule && !c->sources[i].again && !reads_source(g, i)) continue;
        bool lost = of == &call_rule && t->storage && is_lost(&c->sources[i]); // an abstract value stays
        if (lost && !(t = copy_of(t))) return error_pending;
        tape_keep(*out, at, t);
        (*out)->values[at].lazy = !reads_source(g, i);
    }
    return KILN_OK;
}

// `part`: what the node stands for; NULL: a call with the inputs `in`.
static kiln_status place_node(struct entry *e, kiln_tensor *const *in, const struct tape_part *part,
                              const struct tape_edge *onward, kiln_tensor *const *sources, struct tape_node **out)
{
    const struct captured *c = &e->captured;
    const struct gradient *g = &c->gradient;
    size_t n = g->n_targets + c->n_sources + g->n_saved;
    if (n > UINT16_MAX) return error_set(KILN_E_UNSUPPORTED, "call: %s has too many values for a gradient", e->name);
    struct places p = {calloc(n, sizeof *p.edges), calloc(n, sizeof *p.types), calloc(n, sizeof *p.layouts)};
    kiln_status status = p.edges && p.types && p.layouts ? KILN_OK : error_set(KILN_E_MEMORY, "call: out of memory");
    if (!status && part)
        find_part_places(g, part, onward, &p);
    else if (!status)
        status = find_places(c, in, sources, &p);
    if (!status) status = make_node(c, &p, part ? &part_rule : &call_rule, sources, out);
    free(p.edges);
    free((void *)p.types);
    free((void *)p.layouts);
    return status;
}

static kiln_status hold(struct entry *e, struct tape_node *n, const struct rng *rng, struct tape_part *part)
{
    struct held *h = malloc(sizeof *h);
    if (!h) return error_set(KILN_E_MEMORY, "call: out of memory");
    *h = (struct held){entry_ref(e), *rng, part};
    n->held = h;
    n->drop = drop_held;
    return KILN_OK;
}

kiln_status gradient_begin(struct entry *e, kiln_tensor *const *in, kiln_tensor *const *sources,
                           struct gradient_call *call)
{
    const struct gradient *g = &e->captured.gradient;
    call->node = NULL;
    return g->all.graph || g->failure ? place_node(e, in, NULL, NULL, sources, &call->node) : KILN_OK;
}

kiln_status gradient_node(struct entry *e, struct tape_part *part, const struct tape_edge *onward,
                          kiln_tensor *const *sources, const struct rng *rng, struct tape_node **out)
{
    *out = NULL;
    kiln_status status = place_node(e, NULL, part, onward, sources, out);
    if (!status) status = hold(e, *out, rng, part);
    if (!status) return KILN_OK;
    part_free(part);
    node_unref(*out);
    *out = NULL;
    return status;
}

static kiln_status place_state(const struct source *s, const struct tape_edge *edge)
{
    return family_state_written(s->leaf, s->storage, &s->type, &s->layout, edge);
}

// A place that a backward inside the function has used up: the next one says so.
static kiln_status used_up(const struct gradient *g, size_t i, struct tape_node **out)
{
    *out = NULL;
    if (!g->used_up[i]) return KILN_OK;
    TRY(tape_node_make(&call_op, 0, NULL, NULL, NULL, 1, &g->types[i], NULL, out));
    (*out)->op = g->used_up[i];
    node_release_saved(*out);
    return KILN_OK;
}

// n: the call's, NULL: it has none.
static kiln_status place_one(const struct gradient *g, size_t i, struct tape_node *n, struct tape_edge *edge)
{
    *edge = (struct tape_edge){NULL, 0};
    if (n && g->values[i] >= 0) *edge = (struct tape_edge){node_ref(n), (uint32_t)i};
    return edge->node ? KILN_OK : used_up(g, i, &edge->node);
}

// Of a value of a capture around the call: all that shows its memory there has that place.
static kiln_status place_abstract(kiln_tensor *t, const struct tape_edge *edge)
{
    struct sink *around = tensor_capture(t);
    tape_set_node(t, edge->node, edge->out);
    return around ? around->capture->rebase(around, t) : KILN_OK;
}

static kiln_status place_written(const struct captured *c, const struct rewritten *w, kiln_tensor *const *in,
                                 kiln_tensor *const *sources, const struct tape_edge *edge)
{
    kiln_tensor *t = sources[w->input >= 0 ? c->source_of[w->input] : w->source];
    if (t->builder) return place_abstract(t, edge);
    return w->input >= 0 ? family_written(in[w->input], edge) : place_state(&c->sources[w->source], edge);
}

static kiln_status place_results(const struct captured *c, struct tape_node *n, kiln_tensor *const *in,
                                 kiln_tensor *const *sources, kiln_tensor *const *out)
{
    const struct gradient *g = &c->gradient;
    struct tape_edge edge;
    kiln_status status = KILN_OK;
    if (!g->n_targets) return KILN_OK;
    for (size_t i = 0; i < c->n_results; i++) {
        TRY(place_one(g, i, n, &edge));
        if (edge.node) tape_set_node(out[i], edge.node, edge.out);
        node_unref(edge.node);
    }
    for (size_t i = 0; i < g->n_rewritten && !status; i++) {
        const struct rewritten *w = &g->rewritten[i];
        TRY(place_one(g, (size_t)w->output, n, &edge));
        status = place_written(c, w, in, sources, &edge);
        node_unref(edge.node);
    }
    return status;
}

static kiln_tensor *dense_copy(kiln_tensor *t)
{
    thread_state.no_grad++;
    kiln_tensor *copy = kiln_contiguous(t);
    thread_state.no_grad--;
    return copy;
}

// What comes of values without a tape that was kept has none either.
static void cut_results(const struct captured *c, kiln_tensor *const *in, kiln_tensor *const *out)
{
    struct tape_node *all = NULL;
    for (size_t i = 0; i < c->n_sources && !all; i++) all = cut_of_input(&c->sources[i], in);
    for (size_t i = 0; i < c->n_results && (all || c->gradient.cuts); i++) {
        struct tape_node *cut = c->gradient.cuts && c->gradient.cuts[i] ? c->gradient.cuts[i] : all;
        if (cut && !out[i]->node && dtype_kind_of[out[i]->type.dtype] == KIND_FLOAT) tape_set_node(out[i], cut, 0);
    }
}

// What the call has written lies apart from what it has only read, and counts as a write to the storage of both.
static void renew_versions(const struct captured *c, struct tape_node *n)
{
    bool any = false;
    for (size_t i = 0; i < c->n_sources; i++) any |= c->sources[i].written;
    for (size_t i = 0; i < c->n_sources && any; i++) {
        struct tape_value *v = &n->values[c->gradient.n_targets + i];
        if (v->state == VALUE_STORAGE && !c->sources[i].written) v->version = v->storage->version;
    }
}

kiln_status gradient_end(struct entry *e, struct gradient_call *call, const struct rng *rng, kiln_tensor *const *in,
                         kiln_tensor *const *sources, kiln_tensor *const *outputs, kiln_tensor *const *out)
{
    const struct captured *c = &e->captured;
    const struct gradient *g = &c->gradient;
    struct tape_node *n = call->node;
    if (!n && !thread_state.no_grad) {
        if (g->n_targets) TRY(place_results(c, NULL, in, sources, out));
        cut_results(c, in, out);
    }
    if (!n) return KILN_OK;
    TRY(hold(e, n, rng, NULL));
    renew_versions(c, n);
    for (size_t i = 0; i < g->n_saved; i++) {
        if (g->saved[i].source >= 0) continue;
        kiln_tensor *t = outputs[g->saved[i].output]; // without a program it may be a view
        if (!layout_is_contiguous(&t->type, &t->layout)) t = dense_copy(t);
        if (!t) return error_pending;
        tape_keep(n, (int)(g->n_targets + c->n_sources + i), t);
    }
    TRY(place_results(c, n, in, sources, out));
    cut_results(c, in, out);
    return KILN_OK;
}
