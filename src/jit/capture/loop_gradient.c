// The gradient of a loop: a loop in the other direction.
//
// It carries the gradients of what the loop carries, and sums of gradients by what all trips read; it scans the
// gradients of the rows, and what the trips have saved, which the loop gives as further rows. What each trip was given
// of what is carried is among that, if the backward graph of the body asks for it.
#include "grad/fit.h"
#include "grad/registry.h"
#include "grad/rule.h"
#include "jit/capture/loop_gradient.h"
#include <inttypes.h>
#include <kiln/ops.h>
#include <stdlib.h>
#include <string.h>

static void drop_held(void *at)
{
    struct loop_held *h = at;
    loop_held_finish(h);
    loop_again_finish(&h->again);
    ir_graph_destroy(&h->graph);
    free(h->failure);
    free(h->types);
    free(h);
}

// --- the rule

struct backward_call {
    const struct loop_held *h;
    const struct kiln_graph *graph;
    kiln_tensor *const *kept;
};

static const struct backward_target *target_of_state(const struct loop_held *h, size_t state)
{
    for (size_t t = 0; t < h->n_targets; t++)
        if (h->targets[t].of == OF_STATE && h->targets[t].at == state) return &h->targets[t];
    return NULL;
}

// `in`: the number, the states, the sums, the rows.
static kiln_status find_inputs(const struct backward_call *c, kiln_tensor *const *in, kiln_tensor **of_graph)
{
    const struct loop_held *h = c->h;
    kiln_tensor *const *states = in + 1, *const *rows = states + h->n_states + h->n_sums;
    for (size_t i = 0; i < h->n_inputs; i++) {
        const struct backward_input *from = &h->inputs[i];
        if (from->from == FROM_NONE) continue;
        of_graph[i] = from->from == FROM_STATE ? states[from->at]
                      : from->from == FROM_ROW ? rows[from->at]
                      : from->from == FROM_ALL ? c->kept[from->at]
                                               : kiln_sub(loop_last_trip(h, c->kept), in[0]);
        if (!of_graph[i]) return error_pending;
    }
    return KILN_OK;
}

static kiln_status give(const struct loop_held *h, kiln_tensor *const *in, kiln_tensor *const *made, kiln_tensor **out)
{
    kiln_tensor *const *sums = in + 1 + h->n_states;
    for (size_t k = 0; k < h->n_states; k++) {
        const struct backward_target *t = target_of_state(h, k);
        out[k] = t && t->output >= 0 ? made[t->output] : region_zeros_of(&h->types[h->n_targets + h->states[k]]);
    }
    for (size_t i = 0; i < h->n_targets; i++) {
        const struct backward_target *t = &h->targets[i];
        if (t->of == OF_SUM) out[h->n_states + t->at] = kiln_add(sums[t->at], made[t->output]);
        if (t->of == OF_ROWS) out[h->n_states + h->n_sums + t->at] = made[t->output];
    }
    return error_pending;
}

static kiln_status backward_of_trip(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct backward_call *c = user;
    kiln_tensor **room = calloc(c->h->n_inputs + c->h->n_outputs + 1, sizeof *room);
    (void)n_in, (void)n_out;
    if (!room) return error_set(KILN_E_MEMORY, "backward: out of memory");
    kiln_status status = find_inputs(c, in, room);
    if (!status) status = graph_replay(c->graph, c->h->dev, room, NULL, room + c->h->n_inputs);
    if (!status) status = give(c->h, in, room + c->h->n_inputs, out);
    free(room);
    return status;
}

// What the backward loop is given: states, sums, rows.
static kiln_status find_start(const struct loop_held *h, kiln_tensor *const *kept, kiln_tensor *const *dout,
                              kiln_tensor **in)
{
    for (size_t k = 0; k < h->n_states; k++) {
        kiln_tensor *d = dout[h->states[k]];
        *in++ = d ? d : region_zeros_of(&h->types[h->n_targets + h->states[k]]);
    }
    for (size_t i = 0; i < h->n_targets; i++)
        if (h->targets[i].of == OF_SUM) *in++ = region_zeros_of(&h->types[i]);
    for (size_t i = 0; i < h->n_rows; i++) {
        const struct backward_row *r = &h->rows[i];
        *in++ = r->is_gradient ? dout[r->at] : kept[r->at];
    }
    return error_pending;
}

// No trip: what is carried is what was given, and nothing else was read.
static kiln_status pass_by(const struct loop_held *h, kiln_tensor *const *dout, kiln_tensor **din)
{
    for (size_t i = 0; i < h->n_targets; i++)
        if (h->targets[i].of == OF_STATE) din[i] = dout[h->states[h->targets[i].at]];
    return KILN_OK;
}

static kiln_status run_back(const struct backward_call *c, kiln_tensor *const *dout, kiln_tensor **din)
{
    const struct loop_held *h = c->h;
    size_t n_carried = h->n_states + h->n_sums;
    kiln_tensor **room = calloc(2 * n_carried + h->n_rows + h->n_given + 1, sizeof *room);
    kiln_tensor **made = room + n_carried + h->n_rows;
    if (!room) return error_set(KILN_E_MEMORY, "backward: out of memory");
    struct control_loop l = loop_of_trips(h, c->kept, !h->reverse);
    l.body = backward_of_trip;
    l.user = (void *)(uintptr_t)c;
    l.in = room;
    l.n_carried = n_carried;
    l.n_scanned = h->n_rows;
    l.n_stacked = h->n_given;
    kiln_status status = find_start(h, c->kept, dout, room);
    if (!status) status = loop_take(&l, made);
    for (size_t i = 0; i < h->n_targets && !status; i++) {
        const struct backward_target *t = &h->targets[i];
        if (t->of == OF_NONE) continue;
        din[i] = made[t->of == OF_STATE ? t->at : t->of == OF_SUM ? h->n_states + t->at : n_carried + t->at];
    }
    free(room);
    return status;
}

static kiln_status rule(void *user, kiln_tensor *const *in, kiln_tensor *const *out, kiln_tensor *const *dout,
                        kiln_tensor **din)
{
    (void)user, (void)out;
    const struct loop_held *h = rule_node()->held;
    if (h->failure) return error_raise(h->failure);
    if (h->trips == 0) return pass_by(h, dout, din);
    if (!thread_state.no_grad) return loop_again_rule(rule_node(), in, dout, din);
    struct loop_held thinner;
    struct thinned graph;
    kiln_status status = loop_thin(h, dout, &thinner, &graph);
    const struct backward_call call = {&thinner, graph.graph, in + h->n_targets};
    if (!status && thinner.n_states + thinner.n_sums + thinner.n_given) status = run_back(&call, dout, din);
    loop_held_finish(&thinner);
    thinned_finish(&graph);
    return status;
}

static const struct grad_rule loop_rule = {.fn = rule, .takes_missing = true};

// --- what the node keeps

struct placing {
    struct looping *c;
    struct loop_held *h;
    VEC(kiln_tensor *) kept;
    VEC(struct backward_row) rows;
};

static size_t n_carried(const struct looping *c)
{
    return c->l->n_carried + c->written.v.n;
}

static kiln_status keep(struct placing *p, kiln_tensor *t, size_t *at)
{
    for (*at = 0; *at < p->kept.n; ++*at)
        if (p->kept.v[*at] == t) return KILN_OK;
    return vec_push(&p->kept, t);
}

static kiln_status add_row(struct placing *p, bool is_gradient, size_t of, size_t *at)
{
    *at = p->rows.n;
    return vec_push(&p->rows, ((struct backward_row){is_gradient, of}));
}

// The result that gives the source's value of the next trip; -1: it is no carried value.
static int32_t result_of(const struct looping *c, int32_t source)
{
    int32_t param = loop_param_of(c, source);
    if (param >= 0) return (size_t)param < c->l->n_carried ? param : -1;
    int32_t at = region_find(&c->written, c->body.r.sources.v[source].outer);
    return at < 0 ? -1 : (int32_t)c->l->n_carried + at;
}

static size_t state_of(const struct loop_held *h, size_t result)
{
    size_t k = 0;
    while (k < h->n_states && h->states[k] != result) k++;
    return k;
}

static kiln_status find_states(struct placing *p)
{
    const struct looping *c = p->c;
    p->h->states = calloc(n_carried(c) + 1, sizeof *p->h->states);
    if (!p->h->states) return error_set(KILN_E_MEMORY, "jit: out of memory");
    for (size_t i = 0; i < n_carried(c); i++) {
        bool is = c->body.g.douts[i] >= 0;
        for (size_t t = 0; t < c->body.n_targets; t++) is |= result_of(c, c->body.targets[t].source) == (int32_t)i;
        if (is) p->h->states[p->h->n_states++] = i;
    }
    return KILN_OK;
}

static kiln_status find_targets(struct placing *p)
{
    const struct looping *c = p->c;
    struct loop_held *h = p->h;
    h->targets = calloc(c->body.n_targets + 1, sizeof *h->targets);
    if (!h->targets) return error_set(KILN_E_MEMORY, "jit: out of memory");
    for (size_t i = 0; i < c->body.n_targets; i++) {
        struct backward_target *t = &h->targets[h->n_targets++];
        int32_t source = c->body.targets[i].source, result = result_of(c, source);
        t->output = c->body.g.all.outputs[i];
        h->n_outputs += t->output >= 0;
        if (result >= 0)
            t->of = OF_STATE, t->at = state_of(h, (size_t)result);
        else if (loop_param_of(c, source) >= 0)
            t->of = OF_ROWS, t->at = h->n_given++;
        else
            t->of = OF_SUM, t->at = h->n_sums++;
    }
    return KILN_OK;
}

static kiln_status describe_saved(struct placing *p, const struct saved *s, size_t *n_stacked,
                                  struct backward_input *in)
{
    const struct looping *c = p->c;
    int32_t param = s->source < 0 ? -1 : loop_param_of(c, s->source);
    size_t at, n_params = c->l->n_carried + c->l->n_scanned;
    in->from = FROM_ROW;
    if (s->source < 0 || result_of(c, s->source) >= 0) {
        TRY(keep(p, c->results[c->n_results + (*n_stacked)++], &at));
        return add_row(p, false, at, &in->at);
    }
    if (param >= 0 && (size_t)param < n_params) {
        TRY(keep(p, c->in[param], &at));
        return add_row(p, false, at, &in->at);
    }
    in->from = param >= 0 ? FROM_NUMBER : FROM_ALL;
    if (param >= 0) return KILN_OK;
    size_t first = n_carried(c) + c->l->n_scanned;
    return keep(p, c->operands[first + (size_t)region_find(&c->read, c->body.r.sources.v[s->source].outer)], &in->at);
}

static kiln_status describe_inputs(struct placing *p)
{
    const struct looping *c = p->c;
    const struct gradient *g = &c->body.g;
    struct loop_held *h = p->h;
    size_t n_stacked = 0;
    h->n_inputs = g->n_douts + g->n_saved;
    h->n_douts = g->n_douts;
    h->inputs = calloc(h->n_inputs + 1, sizeof *h->inputs);
    if (!h->inputs) return error_set(KILN_E_MEMORY, "jit: out of memory");
    for (size_t i = 0; i < c->n_results; i++) {
        if (g->douts[i] < 0) continue;
        struct backward_input *in = &h->inputs[g->douts[i]];
        if (i < n_carried(c))
            *in = (struct backward_input){FROM_STATE, state_of(h, i)};
        else {
            in->from = FROM_ROW;
            TRY(add_row(p, true, i, &in->at));
        }
    }
    for (size_t i = 0; i < g->n_saved; i++)
        TRY(describe_saved(p, &g->saved[i], &n_stacked, &h->inputs[g->n_douts + i]));
    h->n_rows = p->rows.n;
    h->rows = p->rows.v;
    p->rows.v = NULL;
    return KILN_OK;
}

// Each by an entry of its own: what is kept for the backward graph may lie elsewhere on the tape.
static kiln_status keep_again(struct placing *p, kiln_tensor *t, size_t *at)
{
    *at = p->kept.n;
    return vec_push(&p->kept, t);
}

static kiln_status describe_source(struct placing *p, int32_t source, struct loop_source *out)
{
    const struct looping *c = p->c;
    int32_t param = loop_param_of(c, source), result = result_of(c, source);
    *out = (struct loop_source){SOURCE_IS_NUMBER, 0};
    if (result >= 0)
        *out = (struct loop_source){SOURCE_IS_CARRIED, (size_t)result};
    else if (param >= 0 && (size_t)param < c->l->n_carried + c->l->n_scanned)
        *out = (struct loop_source){SOURCE_IS_SCANNED, (size_t)param - c->l->n_carried};
    if (result >= 0 || param >= 0) return KILN_OK;
    out->from = SOURCE_IS_OUTER;
    size_t first = n_carried(c) + c->l->n_scanned;
    size_t operand = first + (size_t)region_find(&c->read, c->body.r.sources.v[source].outer);
    return keep_again(p, c->operands[operand], &out->at);
}

// All that the loop is given and reads, for gradients of gradients.
static kiln_status describe_again(struct placing *p)
{
    struct looping *c = p->c;
    struct loop_again *a = &p->h->again;
    size_t n_sources = c->body.r.sources.n;
    a->n_carried = n_carried(c);
    a->n_scanned = c->l->n_scanned;
    a->sources = calloc(n_sources + 1, sizeof *a->sources);
    a->first = calloc(a->n_carried + a->n_scanned + 1, sizeof *a->first);
    a->target_source = calloc(c->body.n_targets + 1, sizeof *a->target_source);
    if (!a->sources || !a->first || !a->target_source) return error_set(KILN_E_MEMORY, "jit: out of memory");
    for (size_t i = 0; i < a->n_carried + a->n_scanned; i++) TRY(keep_again(p, c->operands[i], &a->first[i]));
    for (size_t i = 0; i < n_sources; i++) TRY(describe_source(p, (int32_t)i, &a->sources[i]));
    for (size_t i = 0; i < c->body.n_targets; i++) a->target_source[i] = c->body.targets[i].source;
    return again_take(&a->of, &c->body);
}

static kiln_tensor *given(const struct looping *c, const struct region_target *t)
{
    int32_t param = loop_param_of(c, t->source);
    return param >= 0 ? c->in[param] : c->o->variables.v[t->variable].current;
}

static kiln_status fill_types(struct placing *p)
{
    const struct looping *c = p->c;
    struct loop_held *h = p->h;
    h->n_results = c->n_results;
    h->types = calloc(h->n_targets + h->n_results + 1, sizeof *h->types);
    if (!h->types) return error_set(KILN_E_MEMORY, "jit: out of memory");
    for (size_t i = 0; i < h->n_targets; i++) {
        int32_t param = loop_param_of(c, c->body.targets[i].source);
        const struct type *t = param >= 0 ? &c->params[param].type : &given(c, &c->body.targets[i])->type;
        grad_type_of(t, &h->types[i]); // of a scanned input: of a row
    }
    for (size_t i = 0; i < h->n_results; i++) grad_type_of(&c->results[i]->type, &h->types[h->n_targets + i]);
    return KILN_OK;
}

static struct tape_edge edge_of(const struct looping *c, const struct region_target *t)
{
    if (loop_param_of(c, t->source) < 0) return t->at;
    const kiln_tensor *now = given(c, t);
    return (struct tape_edge){node_requires_grad(now->node) ? now->node : NULL, now->node_out};
}

static kiln_status make_node(struct placing *p, struct tape_node **out)
{
    const struct looping *c = p->c;
    size_t n_targets = c->body.n_targets, n = n_targets + p->kept.n;
    struct tape_edge *edges = calloc(n + 1, sizeof *edges);
    const struct type **in = calloc(n + 1, sizeof *in);
    struct type *results = calloc(c->n_results + 1, sizeof *results);
    kiln_status status = edges && in && results ? KILN_OK : error_set(KILN_E_MEMORY, "jit: out of memory");
    for (size_t t = 0; t < n_targets && !status; t++) {
        edges[t] = edge_of(c, &c->body.targets[t]);
        in[t] = &given(c, &c->body.targets[t])->type;
    }
    for (size_t i = 0; i < p->kept.n && !status; i++) in[n_targets + i] = &p->kept.v[i]->type;
    for (size_t i = 0; i < c->n_results && !status; i++) results[i] = c->results[i]->type;
    if (!status)
        status = tape_node_make(region_op(c->l->op), (int)n, edges, in, NULL, (int)c->n_results, results, NULL, out);
    for (size_t i = 0; i < p->kept.n && !status; i++) tape_keep(*out, (int)(n_targets + i), p->kept.v[i]);
    free(edges);
    free(in);
    free(results);
    return status;
}

// A gradient needs as many rows as there are trips.
static kiln_status note_unknown(struct placing *p)
{
    const struct looping *c = p->c;
    if (p->h->failure || c->rows >= 0) return KILN_OK;
    error_set(KILN_E_GRADIENT,
              "backward: how many trips the loop of kiln_%s makes is not known when %s is captured, so that it has no "
              "gradient there; give the loop a .bound, the count as a number, or capture with KILN_CAPTURE_AUTO",
              c->l->op, c->o->name);
    p->h->failure = malloc(sizeof *p->h->failure);
    if (!p->h->failure) return error_pending;
    error_capture(p->h->failure);
    return KILN_OK;
}

static kiln_status place(struct placing *p)
{
    struct looping *c = p->c;
    struct tape_node *node;
    if (c->n_results > UINT8_MAX)
        return error_set(KILN_E_UNSUPPORTED, "%s: %zu outputs and written tensors; a gradient takes %d at most",
                         c->l->op, c->n_results, UINT8_MAX);
    p->h->failure = c->body.failure;
    c->body.failure = NULL;
    TRY(note_unknown(p));
    if (c->body.g.all.graph) {
        TRY(find_states(p));
        TRY(find_targets(p));
        TRY(describe_inputs(p));
        TRY(fill_types(p));
        TRY(describe_again(p));
        if (c->trips < 0) TRY(keep_again(p, c->counts ? c->results[c->l->n_carried - 1] : c->count, &p->h->count));
        p->h->graph = c->body.g.all.graph;
        c->body.g.all.graph = NULL; // its lock goes with the record
    }
    TRY(make_node(p, &node));
    node->rule = &loop_rule;
    node->held = p->h;
    node->drop = drop_held;
    bool failed = p->h->failure;
    p->h = NULL;
    for (size_t i = 0; i < c->n_results; i++)
        if (failed || (c->body.g.douts && c->body.g.douts[i] >= 0)) tape_set_node(c->results[i], node, (uint32_t)i);
    node_unref(node);
    return KILN_OK;
}

kiln_status loop_place_on_tape(struct looping *c)
{
    struct placing p = {.c = c};
    if (!c->body.n_targets) return KILN_OK;
    p.h = calloc(1, sizeof *p.h);
    if (!p.h) return error_set(KILN_E_MEMORY, "jit: out of memory");
    *p.h = (struct loop_held){.op = c->l->op,
                              .dev = c->o->dev,
                              .trips = c->trips,
                              .bound = c->l->bound,
                              .unroll = c->l->unroll,
                              .reverse = c->l->reverse,
                              .number = c->number};
    kiln_status status = place(&p);
    if (p.h) drop_held(p.h);
    vec_free(&p.kept);
    vec_free(&p.rows);
    return status;
}
