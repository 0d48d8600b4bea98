// Gradients of gradients of a loop: the rule of its node as two loops that are recorded with a tape of their own.
//
// The first runs the body again and gives what each trip was given of what is carried, as rows. The second goes the
// other way: in each trip it differentiates the body, run once more, at the rows of that trip.
#include "grad/rule.h"
#include "jit/capture/loop_gradient.h"
#include "jit/capture/replay.h"
#include <kiln/ops.h>
#include <stdlib.h>
#include <string.h>

void loop_again_finish(struct loop_again *a)
{
    again_finish(&a->of);
    free(a->sources);
    free(a->first);
    free(a->target_source);
}

struct again_run {
    const struct loop_held *h;
    const struct loop_again *a;
    kiln_tensor **kept;       // handles, each at its place on the tape
    kiln_tensor *const *dout; // by result
    bool *given;              // by row of the loop's results: whether a gradient came to it
};

static kiln_tensor *source_of(const struct again_run *c, const struct loop_source *s, kiln_tensor *number,
                              kiln_tensor *const *carried, kiln_tensor *const *scanned)
{
    switch (s->from) {
    case SOURCE_IS_CARRIED: return carried[s->at];
    case SOURCE_IS_SCANNED: return scanned[s->at];
    case SOURCE_IS_NUMBER: return number;
    default: return c->kept[s->at];
    }
}

static void find_sources(const struct again_run *c, kiln_tensor *number, kiln_tensor *const *carried,
                         kiln_tensor *const *scanned, kiln_tensor **sources)
{
    for (size_t i = 0; i < c->a->of.n_sources; i++)
        sources[i] = source_of(c, &c->a->sources[i], number, carried, scanned);
}

// --- the first loop

// `in`: the number, what is carried, rows. Gives the new values, then the old ones.
static kiln_status body_again(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct again_run *c = user;
    const struct loop_again *a = c->a;
    kiln_tensor **sources = calloc(a->of.n_sources + 1, sizeof *sources);
    (void)n_in, (void)n_out;
    if (!sources) return error_set(KILN_E_MEMORY, "backward: out of memory");
    find_sources(c, in[0], in + 1, in + 1 + a->n_carried, sources);
    kiln_status status = graph_evaluate(a->of.graph, c->h->dev, sources, NULL, a->n_carried, a->of.values, out);
    for (size_t i = 0; i < a->n_carried; i++) out[a->n_carried + i] = in[1 + i];
    free(sources);
    return status;
}

// made: what is carried in the end, then rows of it. The last value of all is asked for by nobody.
static kiln_status run_forward(const struct again_run *c, kiln_tensor **made)
{
    const struct loop_again *a = c->a;
    kiln_tensor **in = calloc(a->n_carried + a->n_scanned + 1, sizeof *in);
    if (!in) return error_set(KILN_E_MEMORY, "backward: out of memory");
    for (size_t i = 0; i < a->n_carried + a->n_scanned; i++) in[i] = c->kept[a->first[i]];
    for (size_t i = 0; i < a->n_carried && !error_pending; i++) loop_check_row(c->h->op, &in[i]->type);
    struct control_loop l = loop_of_trips(c->h, c->kept, c->h->reverse);
    l.body = body_again;
    l.user = (void *)(uintptr_t)c;
    l.in = in;
    l.n_carried = l.n_stacked = a->n_carried;
    l.n_scanned = a->n_scanned;
    kiln_status status = error_pending ? error_pending : loop_take(&l, made);
    free(in);
    return status;
}

// --- the second loop: it carries gradients of states, then sums; it scans rows of what was carried, what was scanned,
// and the gradients that came to rows

static size_t count_given(const struct again_run *c)
{
    size_t n = 0;
    for (size_t i = c->a->n_carried; i < c->h->n_results; i++) n += c->given[i];
    return n;
}

static kiln_status differentiate_trip(const struct again_run *c, kiln_tensor *const *in, kiln_tensor **room,
                                      kiln_tensor **out)
{
    const struct loop_held *h = c->h;
    const struct loop_again *a = c->a;
    kiln_tensor *const *states = in + 1, *const *carried = states + h->n_states + h->n_sums;
    kiln_tensor *const *scanned = carried + a->n_carried, *const *rows = scanned + a->n_scanned;
    kiln_tensor **sources = room, **dout = sources + a->of.n_sources, **made = dout + h->n_results;
    kiln_tensor *number = kiln_sub(loop_last_trip(h, c->kept), in[0]);
    if (!number) return error_pending;
    find_sources(c, number, carried, scanned, sources);
    for (size_t k = 0; k < h->n_states; k++) dout[h->states[k]] = states[k];
    for (size_t i = a->n_carried; i < h->n_results; i++)
        if (c->given[i]) dout[i] = *rows++;
    const struct again_call call = {&a->of, h->op, h->dev, sources, dout, a->target_source, h->n_targets};
    TRY(again_differentiate(&call, made));
    for (size_t k = 0; k < h->n_states; k++) out[k] = NULL;
    for (size_t i = 0; i < h->n_targets; i++) {
        const struct backward_target *t = &h->targets[i];
        if (t->of == OF_STATE) out[t->at] = made[i];
        if (t->of == OF_SUM) out[h->n_states + t->at] = kiln_add(states[h->n_states + t->at], made[i]);
        if (t->of == OF_ROWS) out[h->n_states + h->n_sums + t->at] = made[i];
    }
    for (size_t k = 0; k < h->n_states; k++)
        if (!out[k]) out[k] = region_zeros_of(&h->types[h->n_targets + h->states[k]]);
    return error_pending;
}

static kiln_status backward_again(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct again_run *c = user;
    kiln_tensor **room = calloc(c->a->of.n_sources + c->h->n_results + c->h->n_targets + 1, sizeof *room);
    (void)n_in, (void)n_out;
    if (!room) return error_set(KILN_E_MEMORY, "backward: out of memory");
    kiln_status status = differentiate_trip(c, in, room, out);
    free(room);
    return status;
}

static kiln_status find_start(const struct again_run *c, kiln_tensor *const *carried, kiln_tensor **in)
{
    const struct loop_held *h = c->h;
    for (size_t k = 0; k < h->n_states; k++) {
        kiln_tensor *d = c->dout[h->states[k]];
        *in++ = d ? d : region_zeros_of(&h->types[h->n_targets + h->states[k]]);
    }
    for (size_t i = 0; i < h->n_targets; i++)
        if (h->targets[i].of == OF_SUM) *in++ = region_zeros_of(&h->types[i]);
    for (size_t i = 0; i < c->a->n_carried; i++) *in++ = carried[i];
    for (size_t i = 0; i < c->a->n_scanned; i++) *in++ = c->kept[c->a->first[c->a->n_carried + i]];
    for (size_t i = c->a->n_carried; i < h->n_results; i++)
        if (c->given[i]) *in++ = c->dout[i];
    return error_pending;
}

static kiln_status run_backward_again(const struct again_run *c, kiln_tensor *const *carried, kiln_tensor **din)
{
    const struct loop_held *h = c->h;
    size_t n_carried = h->n_states + h->n_sums, n_scanned = c->a->n_carried + c->a->n_scanned + count_given(c);
    kiln_tensor **room = calloc(2 * n_carried + n_scanned + h->n_given + 1, sizeof *room);
    kiln_tensor **made = room + n_carried + n_scanned;
    if (!room) return error_set(KILN_E_MEMORY, "backward: out of memory");
    struct control_loop l = loop_of_trips(h, c->kept, !h->reverse);
    l.body = backward_again;
    l.user = (void *)(uintptr_t)c;
    l.in = room;
    l.n_carried = n_carried;
    l.n_scanned = n_scanned;
    l.n_stacked = h->n_given;
    kiln_status status = find_start(c, carried, room);
    if (!status) status = loop_take(&l, made);
    for (size_t i = 0; i < h->n_targets && !status; i++) {
        const struct backward_target *t = &h->targets[i];
        din[i] = made[t->of == OF_STATE ? t->at : t->of == OF_SUM ? h->n_states + t->at : n_carried + t->at];
    }
    free(room);
    return status;
}

// --- the rule

// Handles on what the node keeps, each where the node's edge to it leads.
static kiln_status place_kept(const struct tape_node *n, kiln_tensor *const *in, struct again_run *c)
{
    const struct loop_held *h = c->h;
    const struct loop_again *a = c->a;
    for (size_t i = 0; i < (size_t)n->n_in - h->n_targets; i++)
        if (in[h->n_targets + i] && !(c->kept[i] = again_handle(in[h->n_targets + i]))) return error_pending;
    for (size_t i = 0; i < h->n_targets; i++) {
        const struct loop_source *s = &a->sources[a->target_source[i]];
        size_t at = s->from == SOURCE_IS_OUTER     ? s->at
                    : s->from == SOURCE_IS_CARRIED ? a->first[s->at]
                                                   : a->first[a->n_carried + s->at];
        tape_set_node(c->kept[at], n->edges[i].node, n->edges[i].out);
    }
    for (size_t i = 0; i < h->n_results; i++) c->given[i] = i >= a->n_carried && c->dout[i] && a->of.gives[i];
    return KILN_OK;
}

kiln_status loop_again_rule(const struct tape_node *n, kiln_tensor *const *in, kiln_tensor *const *dout,
                            kiln_tensor **din)
{
    const struct loop_held *h = n->held;
    size_t n_kept = (size_t)n->n_in - h->n_targets, n_carried = h->again.n_carried;
    kiln_tensor **room = calloc(n_kept + 2 * n_carried + 1, sizeof *room), **made = room + n_kept;
    struct again_run c = {h, &h->again, room, dout, calloc(h->n_results + 1, sizeof *c.given)};
    kiln_status status = room && c.given ? KILN_OK : error_set(KILN_E_MEMORY, "backward: out of memory");
    if (!status) status = place_kept(n, in, &c);
    if (!status) status = run_forward(&c, made);
    if (!status) status = run_backward_again(&c, made + n_carried, din);
    free(room);
    free(c.given);
    return status;
}
