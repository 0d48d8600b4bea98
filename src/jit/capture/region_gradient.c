// The gradient of control flow.
//
// A node with regions is one node of the tape. While a region was recorded, its backward graph was derived; what that
// asks for of the forward graph are further outputs of the node. The rule of the tape's node makes another node with
// regions: in each the backward graph is run again, op by op, so that it is recorded as anything else is, and has
// gradients of its own.
#include "jit/capture/region_gradient.h"
#include "grad/fit.h"
#include "grad/registry.h"
#include "grad/rule.h"
#include "jit/capture/region_again.h"
#include "jit/capture/region_thin.h"
#include "ops/families.h"
#include <kiln/ops.h>
#include <stdlib.h>
#include <string.h>

// The backward graph of one region.
struct half {
    struct kiln_graph *graph;     // NULL: no gradient goes through
    struct error_record *failure; // why there is none; NULL: none is wanted
    int32_t *inputs;              // of the graph: -1 - i: the gradient of result i; else what the node keeps
    size_t n_inputs, n_douts;     // n_douts: gradients, the first of them
    int32_t *outputs;             // by target of the node: which output of the graph; -1: no gradient
    size_t n_outputs;
    struct region_again again;
    int32_t *sources;   // by source of the region: what the node keeps
    int32_t *source_of; // by target of the node; -1: the region does not read it
};

struct held {
    const char *op;
    kiln_device *dev;
    struct half *halves;
    size_t n_halves, n_targets, n_results;
    struct type *types; // n_targets, then n_results: of gradients
    int64_t number;     // of the random ones, which other runs of the regions have as well
};

static void drop_held(void *at)
{
    struct held *h = at;
    for (size_t k = 0; h->halves && k < h->n_halves; k++) {
        ir_graph_destroy(&h->halves[k].graph);
        free(h->halves[k].failure);
        free(h->halves[k].inputs);
        free(h->halves[k].outputs);
        free(h->halves[k].sources);
        free(h->halves[k].source_of);
        again_finish(&h->halves[k].again);
    }
    free(h->halves);
    free(h->types);
    free(h);
}

// --- the rule

struct backward_call {
    const struct held *h;
    const struct half *half;
    struct thinned thin;
    kiln_tensor *const *kept, *const *dout;
    const int32_t *given; // by output of the region: the target; common to all regions
    size_t n_given;
};

// The place of a target's gradient in what the graph gives; -1: none.
static int32_t place_of(const struct backward_call *c, size_t target)
{
    int32_t output = c->half->graph ? c->half->outputs[target] : -1;
    return output < 0 ? -1 : c->thin.places[output];
}

static kiln_status run_half(const struct backward_call *c, kiln_tensor **in, kiln_tensor **made, kiln_tensor **out)
{
    const struct held *h = c->h;
    for (size_t i = 0; i < c->half->n_inputs; i++) {
        int32_t from = c->half->inputs[i];
        in[i] = from >= 0 ? c->kept[from] : c->dout[-1 - from];
    }
    if (c->half->graph) TRY(graph_replay(c->thin.graph, h->dev, in, NULL, made));
    for (size_t i = 0; i < c->n_given; i++) {
        int32_t at = place_of(c, (size_t)c->given[i]);
        out[i] = at >= 0 ? made[at] : region_zeros_of(&h->types[c->given[i]]);
        if (!out[i]) return error_pending;
    }
    return KILN_OK;
}

static kiln_status backward_of_region(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct backward_call *c = user;
    kiln_tensor **room = calloc(c->half->n_inputs + c->half->n_outputs + 1, sizeof *room);
    (void)in, (void)n_in, (void)n_out;
    if (!room) return error_set(KILN_E_MEMORY, "backward: out of memory");
    kiln_status status = run_half(c, room, room + c->half->n_inputs, out);
    free(room);
    return status;
}

static kiln_status thin(struct backward_call *c)
{
    const struct half *half = c->half;
    if (half->failure) return error_raise(half->failure);
    if (!half->graph) return KILN_OK;
    bool *arrived = calloc(half->n_douts + 1, sizeof *arrived);
    if (!arrived) return error_set(KILN_E_MEMORY, "backward: out of memory");
    for (size_t i = 0; i < half->n_douts; i++) arrived[i] = c->dout[-1 - half->inputs[i]];
    kiln_status status = region_thin(half->graph, arrived, half->n_douts, &c->thin);
    free(arrived);
    return status;
}

// What the call of the rule makes; calloc'd.
struct ruling {
    struct backward_call *calls; // n_halves
    void **users;
    kiln_fn *fns;
    int32_t *given; // n_targets at most
    kiln_tensor **made;
};

static kiln_status take(const struct held *h, struct ruling *r, kiln_tensor *index, kiln_tensor **din)
{
    size_t n_given = 0;
    for (size_t t = 0; t < h->n_targets; t++) {
        bool given = false;
        for (size_t k = 0; k < h->n_halves; k++) given |= place_of(&r->calls[k], t) >= 0;
        if (given) r->given[n_given++] = (int32_t)t;
    }
    for (size_t k = 0; k < h->n_halves; k++) {
        r->calls[k].n_given = n_given;
        r->users[k] = &r->calls[k];
        r->fns[k] = backward_of_region;
    }
    const struct control_branches b = {.op = h->op,
                                       .index = index,
                                       .fn = r->fns,
                                       .n = h->n_halves,
                                       .users = r->users,
                                       .n_out = n_given,
                                       .draws = {.given = true, .place = h->number}};
    if (n_given) TRY(branches_take(&b, r->made));
    for (size_t i = 0; i < n_given; i++) din[r->given[i]] = r->made[i];
    return KILN_OK;
}

// --- the rule under a tape

struct again_of_region {
    const struct held *h;
    const struct half *half;
    kiln_tensor *const *kept, *const *dout; // kept: with their places on the tape
    const size_t *given;                    // n_given targets, common to all regions
    size_t n_given;
};

static kiln_status differentiate_half(const struct again_of_region *c, kiln_tensor **sources, int64_t *wrt,
                                      kiln_tensor **made, kiln_tensor **out)
{
    const struct half *half = c->half;
    size_t n_wrt = 0, next = 0;
    for (size_t i = 0; i < half->again.n_sources; i++) sources[i] = c->kept[half->sources[i]];
    for (size_t i = 0; i < c->n_given; i++)
        if (half->graph && half->source_of[c->given[i]] >= 0) wrt[n_wrt++] = half->source_of[c->given[i]];
    const struct again_call call = {&half->again, c->h->op, c->h->dev, sources, c->dout, wrt, n_wrt};
    TRY(again_differentiate(&call, made));
    for (size_t i = 0; i < c->n_given; i++) {
        bool reads = half->graph && half->source_of[c->given[i]] >= 0;
        out[i] = reads ? made[next++] : region_zeros_of(&c->h->types[c->given[i]]);
        if (!out[i]) return error_pending;
    }
    return KILN_OK;
}

static kiln_status again_of_region(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct again_of_region *c = user;
    size_t n_sources = c->half->again.n_sources;
    kiln_tensor **room = calloc(n_sources + n_out + 1, sizeof *room);
    int64_t *wrt = calloc(n_out + 1, sizeof *wrt);
    kiln_status status = room && wrt ? KILN_OK : error_set(KILN_E_MEMORY, "backward: out of memory");
    (void)in, (void)n_in;
    if (!status) status = differentiate_half(c, room, wrt, room + n_sources, out);
    free(room);
    free(wrt);
    return status;
}

// Handles on what the node keeps, each where the node's edge to it leads.
static kiln_status place_kept(const struct tape_node *n, size_t n_kept, kiln_tensor *const *in, kiln_tensor **kept)
{
    const struct held *h = n->held;
    for (size_t i = 0; i < n_kept; i++) {
        if (!in[h->n_targets + i]) continue;
        if (!(kept[i] = again_handle(in[h->n_targets + i]))) return error_pending;
    }
    for (size_t k = 0; k < h->n_halves; k++)
        for (size_t t = 0; t < h->n_targets && h->halves[k].graph; t++) {
            int32_t source = h->halves[k].source_of[t];
            if (source >= 0) tape_set_node(kept[h->halves[k].sources[source]], n->edges[t].node, n->edges[t].out);
        }
    return KILN_OK;
}

static kiln_status rule_again(const struct tape_node *n, kiln_tensor *const *in, kiln_tensor *const *dout,
                              kiln_tensor **din)
{
    const struct held *h = n->held;
    size_t n_kept = (size_t)n->n_in - h->n_targets, n_given = 0;
    kiln_tensor **kept = calloc(n_kept + h->n_targets + 1, sizeof *kept), **made = kept + n_kept;
    struct again_of_region *calls = calloc(h->n_halves, sizeof *calls);
    void **users = calloc(h->n_halves, sizeof *users);
    kiln_fn *fns = calloc(h->n_halves, sizeof *fns);
    size_t *given = calloc(h->n_targets + 1, sizeof *given);
    bool ok = kept && calls && users && fns && given;
    kiln_status status = ok ? place_kept(n, n_kept, in, kept) : error_set(KILN_E_MEMORY, "backward: out of memory");
    for (size_t t = 0; t < h->n_targets && !status; t++)
        if (n->edges[t].node) given[n_given++] = t;
    for (size_t k = 0; k < h->n_halves && !status; k++) {
        if (h->halves[k].failure) status = error_raise(h->halves[k].failure);
        calls[k] = (struct again_of_region){h, &h->halves[k], kept, dout, given, n_given};
        users[k] = &calls[k];
        fns[k] = again_of_region;
    }
    const struct control_branches b = {.op = h->op,
                                       .index = in[h->n_targets],
                                       .fn = fns,
                                       .n = h->n_halves,
                                       .users = users,
                                       .n_out = n_given,
                                       .draws = {.given = true, .place = h->number}};
    if (!status && n_given) status = branches_take(&b, made);
    for (size_t i = 0; i < n_given && !status; i++) din[given[i]] = made[i];
    free(kept);
    free(calls);
    free(users);
    free(fns);
    free(given);
    return status;
}

static kiln_status rule(void *user, kiln_tensor *const *in, kiln_tensor *const *out, kiln_tensor *const *dout,
                        kiln_tensor **din)
{
    (void)user, (void)out;
    const struct held *h = rule_node()->held;
    size_t n = h->n_halves;
    if (!thread_state.no_grad) return rule_again(rule_node(), in, dout, din);
    struct ruling r = {calloc(n + 1, sizeof *r.calls), calloc(n + 1, sizeof *r.users), calloc(n + 1, sizeof *r.fns),
                       calloc(h->n_targets + 1, sizeof *r.given), calloc(h->n_targets + 1, sizeof *r.made)};
    bool ok = r.calls && r.users && r.fns && r.given && r.made;
    kiln_status status = ok ? KILN_OK : error_set(KILN_E_MEMORY, "backward: out of memory");
    for (size_t k = 0; k < n && !status; k++) {
        r.calls[k] = (struct backward_call){
            .h = h, .half = &h->halves[k], .kept = in + h->n_targets, .dout = dout, .given = r.given};
        status = thin(&r.calls[k]);
    }
    if (!status) status = take(h, &r, in[h->n_targets], din);
    for (size_t k = 0; k < n && r.calls; k++) thinned_finish(&r.calls[k].thin);
    free(r.calls);
    free(r.users);
    free(r.fns);
    free(r.given);
    free(r.made);
    return status;
}

static const struct grad_rule region_rule = {.fn = rule, .takes_missing = true};

// --- what the node keeps

struct placing {
    const struct region_node *n;
    struct held *h;
    VEC(struct region_target) targets; // of all regions
    VEC(kiln_tensor *) kept;           // the index, then handles of the capture
    VEC(int32_t) kept_as;              // by what is kept: the operand, or operands + the result
};

static bool same_target(const struct region_target *a, const struct region_target *b)
{
    return a->variable == b->variable && a->at.node == b->at.node && a->at.out == b->at.out;
}

static kiln_status add_target(struct placing *p, const struct region_target *t)
{
    for (size_t i = 0; i < p->targets.n; i++)
        if (same_target(&p->targets.v[i], t)) return KILN_OK;
    return vec_push(&p->targets, *t);
}

static kiln_status keep(struct placing *p, int32_t as, kiln_tensor *t, int32_t *at)
{
    for (size_t i = 0; i < p->kept.n; i++)
        if (p->kept_as.v[i] == as) {
            *at = (int32_t)i;
            return KILN_OK;
        }
    *at = (int32_t)p->kept.n;
    TRY(vec_push(&p->kept_as, as));
    return vec_push(&p->kept, t);
}

// `saved`: how many results regions before this one have saved.
static kiln_status describe_inputs(struct placing *p, size_t k, size_t *saved)
{
    struct half *half = &p->h->halves[k];
    const struct region_record *r = &p->n->records[k];
    const struct gradient *g = &r->g;
    half->n_inputs = g->n_douts + g->n_saved;
    half->n_douts = g->n_douts;
    half->inputs = calloc(half->n_inputs + 1, sizeof *half->inputs);
    if (!half->inputs) return error_set(KILN_E_MEMORY, "jit: out of memory");
    for (size_t i = 0; i < r->n_values; i++)
        if (g->douts[i] >= 0) half->inputs[g->douts[i]] = -1 - (int32_t)i;
    for (size_t i = 0; i < g->n_saved; i++) {
        int32_t as = (int32_t)(p->n->read->v.n + p->n->n_results + *saved), *at = &half->inputs[g->n_douts + i];
        const struct source *s = g->saved[i].source >= 0 ? &r->r.sources.v[g->saved[i].source] : NULL;
        if (s) {
            int32_t operand = region_find(p->n->read, s->outer);
            TRY(keep(p, operand, p->n->operands[operand], at));
        } else
            TRY(keep(p, as, p->n->results[p->n->n_results + (*saved)++], at));
    }
    return KILN_OK;
}

static kiln_status describe_outputs(struct placing *p, size_t k)
{
    struct half *half = &p->h->halves[k];
    const struct region_record *r = &p->n->records[k];
    half->outputs = malloc(sizeof *half->outputs * (p->targets.n + 1));
    if (!half->outputs) return error_set(KILN_E_MEMORY, "jit: out of memory");
    for (size_t t = 0; t < p->targets.n; t++) half->outputs[t] = -1;
    for (size_t i = 0; i < r->n_targets; i++) {
        for (size_t t = 0; t < p->targets.n; t++)
            if (same_target(&p->targets.v[t], &r->targets[i])) half->outputs[t] = r->g.all.outputs[i];
        half->n_outputs += r->g.all.outputs[i] >= 0;
    }
    return KILN_OK;
}

// All that the region reads, for gradients of gradients.
static kiln_status describe_again(struct placing *p, size_t k)
{
    struct half *half = &p->h->halves[k];
    struct region_record *r = &p->n->records[k];
    half->sources = calloc(r->r.sources.n + 1, sizeof *half->sources);
    half->source_of = malloc(sizeof *half->source_of * (p->targets.n + 1));
    if (!half->sources || !half->source_of) return error_set(KILN_E_MEMORY, "jit: out of memory");
    for (size_t i = 0; i < r->r.sources.n; i++) {
        // One for each place on the tape: what is kept for the backward graph may stand for several.
        TRY(vec_push(&p->kept_as, -2));
        half->sources[i] = (int32_t)p->kept.n;
        TRY(vec_push(&p->kept, p->n->operands[region_find(p->n->read, r->r.sources.v[i].outer)]));
    }
    for (size_t t = 0; t < p->targets.n; t++) half->source_of[t] = -1;
    for (size_t i = 0; i < r->n_targets; i++)
        for (size_t t = 0; t < p->targets.n; t++)
            if (same_target(&p->targets.v[t], &r->targets[i])) half->source_of[t] = r->targets[i].source;
    return again_take(&half->again, r);
}

static kiln_status fill_halves(struct placing *p)
{
    size_t saved = 0;
    for (size_t k = 0; k < p->n->n_records; k++) {
        struct region_record *r = &p->n->records[k];
        struct half *half = &p->h->halves[k];
        half->failure = r->failure;
        r->failure = NULL;
        if (!r->g.all.graph) continue;
        TRY(describe_inputs(p, k, &saved));
        TRY(describe_outputs(p, k));
        TRY(describe_again(p, k));
        half->graph = r->g.all.graph;
        r->g.all.graph = NULL; // its lock goes with the record
    }
    return KILN_OK;
}

static kiln_status fill_types(struct placing *p)
{
    size_t n = p->n->n_results;
    p->h->types = calloc(p->targets.n + n + 1, sizeof *p->h->types);
    if (!p->h->types) return error_set(KILN_E_MEMORY, "jit: out of memory");
    for (size_t t = 0; t < p->targets.n; t++)
        grad_type_of(&p->n->o->variables.v[p->targets.v[t].variable].current->type, &p->h->types[t]);
    for (size_t i = 0; i < n; i++) grad_type_of(&p->n->results[i]->type, &p->h->types[p->targets.n + i]);
    return KILN_OK;
}

static kiln_status make_node(struct placing *p, struct tape_node **out)
{
    size_t n_targets = p->targets.n, n = n_targets + p->kept.n;
    struct tape_edge *edges = calloc(n + 1, sizeof *edges);
    const struct type **in = calloc(n + 1, sizeof *in);
    struct type *results = calloc(p->n->n_results + 1, sizeof *results);
    kiln_status status = edges && in && results ? KILN_OK : error_set(KILN_E_MEMORY, "jit: out of memory");
    for (size_t t = 0; t < n_targets && !status; t++) {
        edges[t] = p->targets.v[t].at;
        in[t] = &p->h->types[t];
    }
    for (size_t i = 0; i < p->kept.n && !status; i++) in[n_targets + i] = &p->kept.v[i]->type;
    for (size_t i = 0; i < p->n->n_results && !status; i++) results[i] = p->n->results[i]->type;
    if (!status)
        status = tape_node_make(region_op(p->n->op), (int)n, edges, in, NULL, (int)p->n->n_results, results, NULL, out);
    for (size_t i = 0; i < p->kept.n && !status; i++) tape_keep(*out, (int)(n_targets + i), p->kept.v[i]);
    free(edges);
    free(in);
    free(results);
    return status;
}

static bool region_gives_gradient(const struct region_node *n, size_t result)
{
    for (size_t k = 0; k < n->n_records; k++)
        if (n->records[k].failure || (n->records[k].g.douts && n->records[k].g.douts[result] >= 0)) return true;
    return false;
}

static kiln_status place(struct placing *p)
{
    bool gives[UINT8_MAX];
    int32_t first;
    struct tape_node *node;
    if (p->n->n_results > UINT8_MAX || p->targets.n > UINT8_MAX)
        return error_set(KILN_E_UNSUPPORTED, "%s: %zu outputs and written tensors; a gradient takes %d at most",
                         p->n->op, p->n->n_results, UINT8_MAX);
    for (size_t i = 0; i < p->n->n_results; i++) gives[i] = region_gives_gradient(p->n, i);
    p->h->halves = calloc(p->n->n_records, sizeof *p->h->halves);
    if (!p->h->halves) return error_set(KILN_E_MEMORY, "jit: out of memory");
    p->h->n_halves = p->n->n_records;
    TRY(keep(p, -1, p->n->index, &first));
    TRY(fill_halves(p));
    TRY(fill_types(p));
    TRY(make_node(p, &node));
    node->rule = &region_rule;
    node->held = p->h;
    node->drop = drop_held;
    p->h = NULL;
    for (size_t i = 0; i < p->n->n_results; i++)
        if (gives[i]) tape_set_node(p->n->results[i], node, (uint32_t)i);
    node_unref(node);
    return KILN_OK;
}

kiln_status region_place_on_tape(const struct region_node *n)
{
    struct placing p = {.n = n};
    kiln_status status = KILN_OK;
    for (size_t k = 0; k < n->n_records; k++)
        for (size_t i = 0; i < n->records[k].n_targets && !status; i++)
            status = add_target(&p, &n->records[k].targets[i]);
    if (!status && p.targets.n) {
        p.h = calloc(1, sizeof *p.h);
        if (!p.h) status = error_set(KILN_E_MEMORY, "jit: out of memory");
        if (p.h)
            *p.h = (struct held){.op = n->op,
                                 .dev = n->o->dev,
                                 .n_targets = p.targets.n,
                                 .n_results = n->n_results,
                                 .number = n->number};
        if (!status) status = place(&p);
        if (p.h) drop_held(p.h);
    }
    vec_free(&p.targets);
    vec_free(&p.kept);
    vec_free(&p.kept_as);
    return status;
}
