// kiln_while, kiln_for and kiln_scan as nodes of a graph.
//
// The body is recorded until it gives what it takes: a number that is carried becomes of the dtype that the body makes
// of it, and what is carried requires a gradient once it does after a trip. Then it is recorded for good. What it
// writes of the capture around is carried, too.
#include "base/caller.h"
#include "grad/state.h"
#include "ir/regions.h"
#include "jit/capture/region_gradient.h"
#include "jit/capture/region_loop.h"
#include "ops/attrs.h"
#include "ops/families.h"
#include <kiln/ops.h>
#include <stdlib.h>
#include <string.h>

static struct type slice_of(const struct type *t)
{
    struct type slice = *t;
    slice.rank--;
    memmove(slice.dims, slice.dims + 1, sizeof *slice.dims * slice.rank);
    return slice;
}

static kiln_status find_start(struct looping *c)
{
    const struct control_loop *l = c->l;
    size_t n = l->n_carried + l->n_scanned;
    c->n_params = n + l->numbered;
    c->params = calloc(c->n_params + 1, sizeof *c->params);
    c->in = calloc(n + 1, sizeof *c->in);
    if (!c->params || !c->in) return error_set(KILN_E_MEMORY, "%s: out of memory", l->op);
    for (size_t i = 0; i < n; i++) {
        struct tape_edge edge;
        TRY(recorder_resolve(c->o, l->op, l->in[i], &c->in[i]));
        TRY(recorder_hold(c->o, l->op, &c->in[i]));
        TRY(tape_current(c->in[i], &edge));
        c->params[i].type = i < l->n_carried ? c->in[i]->type : slice_of(&c->in[i]->type);
        c->params[i].grad = edge.node && !thread_state.no_grad;
    }
    if (l->numbered) c->params[n].type = (struct type){.dtype = KILN_I64, .weak = true};
    return KILN_OK;
}

// --- the body

// A handle of the region on what each trip is given.
static kiln_status add_param(struct recorder *r, const struct loop_param *p, kiln_tensor **out)
{
    const struct tape_edge none = {NULL, 0};
    int32_t variable;
    struct source s = {.kind = SOURCE_CARRIED, .type = p->type, .outer = -1};
    layout_contiguous(&s.type, &s.layout);
    TRY(recorder_add_source(r, &s, &s.type, "carried", &variable));
    if (p->grad) {
        struct tape_node *n = node_input(&s.type, &none);
        if (!n) return error_pending;
        r->sources.v[r->sources.n - 1].place = n;
        tape_set_node(r->variables.v[variable].current, n, 0);
        TRY(replayed_source(r, r->sources.v[r->sources.n - 1].value, n));
    }
    return variable_show(r, variable, &s.type, &s.layout, out);
}

struct with_params {
    const struct looping *c;
    struct recorder *r;
    kiln_fn fn;
    bool of_cond; // it is given what is carried alone
};

// The user's function on the parameters of its region: the number first.
static kiln_status run_with_params(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct with_params *w = user;
    const struct control_loop *l = w->c->l;
    size_t n = l->n_carried + l->n_scanned, first = l->numbered && !w->of_cond;
    kiln_tensor **params = calloc(w->c->n_params + 2, sizeof *params);
    if (!params) return error_set(KILN_E_MEMORY, "%s: out of memory", l->op);
    struct leave left;
    leave_push(&left, free, params);
    kiln_status status = KILN_OK;
    (void)in, (void)n_in;
    for (size_t i = 0; i < w->c->n_params && !status; i++) {
        kiln_tensor *t;
        status = add_param(w->r, &w->c->params[i], &t);
        if (i < n)
            params[first + i] = t;
        else if (first)
            params[0] = t;
    }
    size_t n_given = w->of_cond ? l->n_carried : first + n;
    if (!status) status = state_call(w->fn, l->user, params, n_given, out, n_out);
    leave_pop(&left);
    free(params);
    return status;
}

static kiln_status record(struct looping *c, struct region_record *r, bool of_cond, size_t n_out)
{
    const struct control_loop *l = c->l;
    r->made = calloc(n_out + 1, sizeof *r->made);
    if (!r->made) return error_set(KILN_E_MEMORY, "%s: out of memory", l->op);
    struct with_params w = {c, &r->r, of_cond ? l->cond : l->body, of_cond};
    const struct region region = {l->op, of_cond ? "cond" : "the body", run_with_params, &w};
    r->forced = &c->forced;
    return region_record(r, c->o, &region, NULL, 0, r->made, n_out);
}

// Whether the next trip may take what this one gives; what has to be otherwise is noted.
static kiln_status compare(struct looping *c, bool *same)
{
    const struct control_loop *l = c->l;
    *same = true;
    for (size_t i = 0; i < l->n_carried; i++) {
        struct loop_param *p = &c->params[i];
        const kiln_tensor *t = c->body.made[i];
        const struct type *now = &t->type;
        if (!type_equal(&p->type, now) || p->type.weak != now->weak) {
            bool number = p->type.weak && !now->rank && c->rounds < 3;
            bool from_number = now->weak && !p->type.rank && !p->type.weak; // of the dtype that is carried
            if (!number && !from_number) TRY(carried_check(l->op, i, 0, &p->type, now));
            if (number) p->type = *now;
            *same &= !number;
        }
        if (!p->grad && node_requires_grad(t->node) && !thread_state.no_grad) *same = !(p->grad = true);
    }
    for (size_t i = 0; i < c->written.v.n; i++) {
        int32_t variable = c->written.v.v[i];
        if (!region_gains_gradient(&c->body, variable) || region_find(&c->forced, variable) >= 0) continue;
        TRY(vec_push(&c->forced.v, variable));
        *same = false;
    }
    return KILN_OK;
}

static uint64_t count_taken(const struct recorder *r)
{
    return r ? r->taken + count_taken(r->outer) : 0;
}

// Once more, where the body has written what it had read as a constant before.
static kiln_status record_body(struct looping *c)
{
    const struct control_loop *l = c->l;
    for (bool same = false; !same; c->rounds++) {
        uint64_t taken = count_taken(c->o);
        region_finish(&c->body, l->op, c->caller);
        c->body = (struct region_record){.begun = false};
        c->written.v.n = 0;
        TRY(record(c, &c->body, false, l->n_carried + l->n_stacked));
        TRY(region_leaves_find(c->leaves, &c->body.r));
        TRY(region_find_written(&c->body, &c->written));
        TRY(compare(c, &same));
        same &= taken == count_taken(c->o);
    }
    return KILN_OK;
}

// What is carried is of one type throughout.
static kiln_status place_numbers(struct looping *c)
{
    for (size_t i = 0; i < c->l->n_carried; i++) {
        const struct type *t = &c->params[i].type;
        if (c->in[i]->type.weak && !t->weak && !(c->in[i] = kiln_cast(c->in[i], (kiln_dtype)t->dtype)))
            return error_pending;
        if (!c->body.made[i]->type.weak || t->weak) continue;
        struct recorder_switch before = recorder_enter(&c->body.r);
        c->body.made[i] = kiln_cast(c->body.made[i], (kiln_dtype)t->dtype);
        recorder_leave(&before);
        if (!c->body.made[i]) return error_pending;
    }
    return KILN_OK;
}

static kiln_status record_cond(struct looping *c)
{
    struct region_variables written = {{0}};
    TRY(record(c, &c->cond, true, 1));
    TRY(region_check_bool(c->l->op, "what cond gives", c->cond.made[0]));
    kiln_status status = region_find_written(&c->cond, &written);
    size_t n = written.v.n;
    vec_free(&written.v);
    TRY(status);
    if (n) return error_set(KILN_E_UNSUPPORTED, "%s: cond writes tensors from outside; do that in the body", c->l->op);
    c->cond.n_values = 1;
    c->cond.values = calloc(1, sizeof *c->cond.values);
    if (!c->cond.values) return error_set(KILN_E_MEMORY, "%s: out of memory", c->l->op);
    thread_state.no_grad++;
    status = region_close(&c->cond, c->l->op);
    thread_state.no_grad--;
    return status;
}

// The gradient asks for rows, one a trip.
static kiln_status check_rows(const struct looping *c)
{
    for (size_t i = 0; i < region_saved(&c->body); i++) TRY(loop_check_row(c->l->op, &c->body.g.saved[i].type));
    return KILN_OK;
}

// What the body gives: carried values, those of what is written, rows; then its backward graph.
static kiln_status close_body(struct looping *c)
{
    const struct control_loop *l = c->l;
    struct region_record *r = &c->body;
    size_t n_written = c->written.v.n, n_given = l->n_carried + l->n_stacked;
    r->n_values = n_given + n_written;
    r->values = calloc(r->n_values + 1, sizeof *r->values);
    kiln_tensor **made = calloc(r->n_values + 1, sizeof *made);
    if (!r->values || !made) {
        free(made);
        return error_set(KILN_E_MEMORY, "%s: out of memory", l->op);
    }
    memcpy(made, r->made, l->n_carried * sizeof *made);
    memcpy(made + l->n_carried + n_written, r->made + l->n_carried, l->n_stacked * sizeof *made);
    free(r->made);
    r->made = made;
    struct recorder_switch before = recorder_enter(&r->r);
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < n_written && !status; i++)
        status = region_show_outer(r, r, 1, c->written.v.v[i], &r->made[l->n_carried + i]);
    for (size_t i = 0; i < l->n_stacked && !status; i++) {
        kiln_tensor **row = &r->made[l->n_carried + n_written + i];
        if (!(*row)->type.weak) continue;
        uint8_t dtype = (*row)->type.dtype == KILN_F64 ? KILN_F32 : (*row)->type.dtype;
        *row = kiln_cast(*row, (kiln_dtype)dtype); // as kiln_stack places it
        if (!*row) status = error_pending;
    }
    recorder_leave(&before);
    r->without_backward = c->rows < 0;
    r->computed_again = l->save_every > 0;
    TRY(status);
    TRY(region_close(r, l->op));
    return check_rows(c);
}

static void finish(void *at)
{
    struct looping *c = at;
    region_finish(&c->body, c->l->op, c->caller);
    region_finish(&c->cond, c->l->op, c->caller);
    vec_free(&c->written.v);
    vec_free(&c->read.v);
    vec_free(&c->forced.v);
    free(c->params);
    free(c->in);
    free(c->operands);
    free(c->results);
}

static kiln_status find_count(struct looping *c)
{
    const struct control_loop *l = c->l;
    c->trips = l->count;
    if (l->count_of) {
        TRY(recorder_resolve(c->o, l->op, l->count_of, &c->count));
        c->trips = -1;
        if (!c->count->builder) {
            c->count = NULL;
            TRY(loop_read_count(l, &c->trips));
        }
    }
    c->rows = c->trips >= 0 ? c->trips : l->bound ? l->bound : -1;
    return KILN_OK;
}

static kiln_status give(struct looping *c, kiln_tensor **out)
{
    const struct control_loop *l = c->l;
    size_t n_written = c->written.v.n;
    for (size_t i = 0; i < n_written; i++) {
        int32_t variable = c->written.v.v[i];
        TRY(region_write_outer(c->o, &c->body, 1, variable, c->results[l->n_carried + i]));
    }
    for (size_t i = 0; i < l->n_carried; i++) out[i] = c->results[i];
    for (size_t i = 0; i < l->n_stacked; i++) out[l->n_carried + i] = c->results[l->n_carried + n_written + i];
    return KILN_OK;
}

static kiln_status make(struct looping *c, kiln_tensor **out)
{
    TRY(find_count(c));
    TRY(find_start(c));
    TRY(record_body(c));
    TRY(place_numbers(c));
    if (c->l->cond) TRY(record_cond(c));
    TRY(close_body(c));
    TRY(loop_add_node(c));
    return give(c, out);
}

// --- a loop whose trips are counted, so that its gradient makes as many

struct counting {
    const struct control_loop *l;
};

// The count lies behind what is carried.
static kiln_status run_counted(const struct control_loop *l, kiln_tensor *const *in, size_t n_in, kiln_tensor **room,
                               kiln_tensor **out)
{
    size_t at = l->numbered + l->n_carried, n_made = l->n_carried + l->n_stacked;
    kiln_tensor **args = room, **made = room + n_in;
    memcpy(args, in, at * sizeof *in);
    memcpy(args + at, in + at + 1, (n_in - at - 1) * sizeof *in);
    const struct region body = {l->op, "the body", l->body, l->user};
    TRY(state_call(l->body, l->user, args, n_in - 1, made, n_made));
    for (size_t i = 0; i < n_made && !error_pending; i++) TRY(region_check_output(&body, i, n_made, made[i]));
    memcpy(out, made, l->n_carried * sizeof *out);
    memcpy(out + l->n_carried + 1, made + l->n_carried, l->n_stacked * sizeof *out);
    out[l->n_carried] = kiln_add(in[at], kiln_scalar_int(1));
    return error_pending;
}

static kiln_status count_body(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor **room = calloc(n_in + n_out + 1, sizeof *room);
    if (!room) return error_set(KILN_E_MEMORY, "loop: out of memory");
    struct leave left;
    leave_push(&left, free, room);
    kiln_status status = run_counted(((const struct counting *)user)->l, in, n_in, room, out);
    leave_pop(&left);
    free(room);
    return status;
}

static kiln_status count_cond(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct control_loop *l = ((const struct counting *)user)->l;
    return state_call(l->cond, l->user, in, n_in - 1, out, n_out);
}

static kiln_status take(struct sink *sink, const struct control_loop *l, bool counts, struct region_leaves *leaves,
                        kiln_tensor **out)
{
    struct looping c = {.l = l, .o = recorder_of(sink), .counts = counts, .leaves = leaves, .caller = caller_find()};
    struct kiln_scope scope;
    size_t n_out = l->n_carried + l->n_stacked;
    scope_enter(&scope);
    struct state_leave left;
    state_push(&left, finish, &c);
    kiln_status status = make(&c, out);
    state_pop(&left);
    finish(&c);
    scope_leave(&scope, out, status ? 0 : n_out);
    for (size_t i = 0; i < n_out && status; i++) out[i] = NULL;
    return status;
}

static kiln_status take_counted(struct sink *sink, const struct control_loop *l, struct region_leaves *leaves,
                                kiln_tensor **room, kiln_tensor **out)
{
    struct counting user = {l};
    struct control_loop counted = *l;
    size_t n = l->n_carried;
    kiln_tensor **in = room, **made = room + n + l->n_scanned + 1;
    memcpy(in, l->in, n * sizeof *in);
    memcpy(in + n + 1, l->in + n, l->n_scanned * sizeof *in);
    if (!(in[n] = kiln_zeros(NULL, KILN_I64, 0, NULL))) return error_pending;
    counted.cond = count_cond;
    counted.body = count_body;
    counted.user = &user;
    counted.in = in;
    counted.n_carried++;
    TRY(take(sink, &counted, true, leaves, made));
    memcpy(out, made, n * sizeof *out);
    memcpy(out + n, made + n + 1, l->n_stacked * sizeof *out);
    return KILN_OK;
}

static kiln_status take_any(struct sink *sink, const struct control_loop *l, struct region_leaves *leaves,
                            kiln_tensor **out)
{
    if (!l->cond || !l->bound || thread_state.no_grad) return take(sink, l, false, leaves, out);
    kiln_tensor **room = calloc(2 * l->n_carried + l->n_scanned + l->n_stacked + 2, sizeof *room);
    if (!room) return error_set(KILN_E_MEMORY, "%s: out of memory", l->op);
    struct leave left;
    leave_push(&left, free, room);
    kiln_status status = take_counted(sink, l, leaves, room, out);
    leave_pop(&left);
    free(room);
    return status;
}

// --- a loop of which every k-th trip is kept

static bool draws_or_calls(const struct kiln_graph *g)
{
    for (size_t i = 0; i < g->nodes.n; i++)
        if (g->nodes.v[i].op->flags & OP_HOST || ir_node_draws(&g->nodes.v[i])) return true;
    return false;
}

static bool wants_gradient(const struct recorder *r)
{
    for (size_t i = 0; i < r->sources.n; i++)
        if (node_requires_grad(r->sources.v[i].place)) return true;
    return false;
}

// Rows of blocks have one dimension more than rows of trips.
static bool rows_fit(const struct looping *c)
{
    const struct control_loop *l = c->l;
    for (size_t i = l->n_carried; i < l->n_carried + l->n_scanned; i++)
        if (c->in[i]->type.rank >= KILN_MAX_RANK) return false;
    for (size_t i = l->n_carried; i < l->n_carried + l->n_stacked; i++)
        if (c->body.made[i]->type.rank + 2 > KILN_MAX_RANK) return false;
    return true;
}

static kiln_status survey(struct looping *c, bool *blocks)
{
    const struct recorder *r = &c->body.r;
    *blocks = false;
    TRY(find_count(c));
    if (c->trips <= c->l->save_every) return KILN_OK;
    TRY(find_start(c));
    TRY(record_body(c));
    *blocks = !c->leaves->v.n && wants_gradient(r) && !draws_or_calls(r->sink.builder.graph) && rows_fit(c);
    return KILN_OK;
}

// Whether it is to be cut in blocks, by a recording of its body that leaves nothing behind.
static kiln_status is_cut(struct sink *sink, const struct control_loop *l, int64_t *trips, bool *blocks)
{
    struct region_leaves leaves = {.n_given = 0};
    struct looping c = {.l = l, .o = recorder_of(sink), .leaves = &leaves, .caller = caller_find()};
    struct kiln_scope scope;
    scope_enter(&scope);
    struct state_leave left;
    state_push(&left, finish, &c);
    kiln_status status = survey(&c, blocks);
    *trips = c.trips;
    state_pop(&left);
    finish(&c);
    region_leaves_finish(&leaves);
    scope_leave(&scope, NULL, 0);
    return status;
}

kiln_status capture_loop(struct sink *sink, const struct control_loop *l, kiln_tensor **out, bool *taken)
{
    bool blocks = false;
    int64_t trips = -1;
    *taken = true;
    if (l->save_every > 1 && !l->cond && !thread_state.no_grad) TRY(is_cut(sink, l, &trips, &blocks));
    return blocks ? loop_take_blocks(l, trips, out) : region_leaves_of_loop(sink, l, take_any, out);
}
