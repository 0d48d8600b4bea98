// Runs a node with regions: the host decides, the children compute.
#include "base/leave.h"
#include "program/gated.h"
#include "program/series.h"
#include "tensor/flow.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static kiln_status read_integer(const struct program_call *call, const struct program_region *r, int64_t *out)
{
    const struct region_operand *o = &r->in[r->n_in - 1];
    union {
        uint8_t u8;
        int8_t i8;
        int16_t i16;
        int32_t i32;
        int64_t i64;
    } v = {.i64 = 0};
    if (o->buffer < 0) {
        *out = o->input < 0 ? 0 : call->args[o->input].integer;
        return KILN_OK;
    }
    TRY(device_download(call->p->dev, &v, region_address_of(call, o), dtype_size_B[r->index_dtype]));
    switch (r->index_dtype) {
    case KILN_BOOL:
    case KILN_U8: *out = v.u8; return KILN_OK;
    case KILN_I8: *out = v.i8; return KILN_OK;
    case KILN_I16: *out = v.i16; return KILN_OK;
    case KILN_I32: *out = v.i32; return KILN_OK;
    default: *out = v.i64; return KILN_OK;
    }
}

static kiln_status run_switch(const struct program_call *call, const struct program_region *r, uint64_t workspace,
                              struct arguments *a)
{
    int64_t at;
    if (region_runs_gated(call, r)) return region_switch_gated(call, r, workspace, a);
    TRY(read_integer(call, r, &at));
    if (r->index_dtype == KILN_BOOL) at = !at;
    if (at < 0 || at >= r->n_branches)
        return error_set(KILN_E_ARGUMENT, "switch: index is %" PRId64 ", there are %d branches, in %s", at,
                         r->n_branches, call->p->name);
    for (int i = 0; i < r->n_taken; i++) arguments_add_operand(a, call, &r->in[i]);
    for (int i = 0; i < r->n_out; i++) arguments_add_memory(a, call->base[r->out[i]]);
    const struct rng number = region_number(call, r), rng = rng_of_trip(&number, 0);
    return call->run_child(r->branches[at], a->v, &rng, workspace + r->child_at, call->gate);
}

// --- loops

static kiln_status goes_on(struct turning *t, int64_t turn, bool *more)
{
    uint8_t flag;
    *more = t->trips < 0 || turn < t->turns;
    if (!t->r->child[1] || !*more) return KILN_OK;
    TRY(turning_cond(t, turn, t->call->gate));
    TRY(device_download(t->call->p->dev, &flag, t->workspace + t->r->flag_at, 1));
    *more = flag;
    return KILN_OK;
}

enum { SERIES_LEAST = 4, SERIES_FROM = 3 };

// What a child is given in three trips that follow each other: two, and by what the next ones differ.
static kiln_status find_turns(struct turning *t, int64_t first, bool cond, struct arena *memory, struct series_child *c)
{
    const struct program_region *r = t->r;
    size_t most = (size_t)(r->n_in + r->n_out + 2);
    struct program_argument *turns[3];
    int64_t *step = arena_alloc(memory, sizeof *step * most);
    for (int i = 0; i < 3; i++) {
        turns[i] = arena_alloc(memory, sizeof **turns * most);
        if (!turns[i] || !step) return error_pending;
        if (cond)
            turning_add_cond(t, first + i);
        else
            turning_add_turn(t, first + i);
        memcpy(turns[i], t->a.v, sizeof *t->a.v * (size_t)t->a.n);
    }
    for (int i = 0; i < t->a.n; i++) step[i] = (int64_t)(turns[2][i].address - turns[0][i].address);
    c->p = r->child[cond];
    c->turns[first & 1] = turns[0];
    c->turns[1 - (first & 1)] = turns[1];
    c->step = step;
    c->number = t->a.n - 2 - (cond ? 0 : r->n_out - r->n_stay);
    return KILN_OK;
}

static kiln_status run_series_in(struct turning *t, int64_t *trip, bool *ended, struct arena *memory)
{
    const struct program_region *r = t->r;
    struct program_series s = {.arena = t->workspace + r->child_at,
                               .at = thread_state.trips,
                               .code = r->code,
                               .first = *trip,
                               .end = t->trips >= 0 ? t->trips : INT64_MAX};
    if (r->bound && r->bound < s.end) s.end = r->bound;
    TRY(find_turns(t, *trip, false, memory, &s.body));
    if (r->child[1]) {
        s.flag = (const uint8_t *)(uintptr_t)(t->workspace + r->flag_at);
        TRY(find_turns(t, *trip, true, memory, &s.cond));
    }
    return program_series_run(&s, memory, trip, ended);
}

// The trips after the first, of which every second one is given the same, but for rows, which go on. Where nobody knows
// how many there are, after the first few.
static kiln_status run_series(struct turning *t, int64_t *trip, bool *ended)
{
    *ended = false;
    if (*trip != (t->trips >= 0 ? 1 : SERIES_FROM) || t->each > 1 || t->r->one_by_one || t->call->gate) return KILN_OK;
    if (t->trips >= 0 && t->trips < SERIES_LEAST) return KILN_OK;
    struct arena memory;
    arena_init(&memory);
    kiln_status status = run_series_in(t, trip, ended, &memory);
    arena_finish(&memory);
    return status;
}

// After so many turns.
static kiln_status end(struct turning *t, int64_t turns)
{
    for (int k = 0; k < t->r->n_carried; k++) {
        uint64_t from = turning_carried_at(t, turns, k), to = turning_out(t, k);
        if (from != to && t->r->out_B[k]) TRY(device_copy(t->call->p->dev, to, from, t->r->out_B[k]));
    }
    return KILN_OK;
}

// A body whose kernel makes trips itself is given as many at a time as it takes.
static void set_turns(struct turning *t)
{
    int64_t most = t->r->child[0]->trips_at_once;
    t->each = t->trips < most ? t->trips : most;
    if (t->each < 1) t->each = 1;
    t->turns = t->trips < 0 ? -1 : (t->trips - 1) / t->each + (t->trips > 0);
}

static kiln_status run_loop(struct turning *t)
{
    const struct program_region *r = t->r;
    t->trips = r->trips;
    if (region_runs_gated(t->call, r)) return region_loop_gated(t);
    if (r->counted) TRY(read_integer(t->call, r, &t->trips));
    if (r->counted && t->trips < 0)
        return error_set(KILN_E_ARGUMENT, "for: count is %" PRId64 ", in %s", t->trips, t->call->p->name);
    if (r->counted && r->reverse && r->bound && t->trips > r->bound) // its last row would come first
        return error_set(KILN_E_STATE, "for: count is %" PRId64 ", .bound is %" PRId64 ", in %s", t->trips, r->bound,
                         t->call->p->name);
    set_turns(t);
    TRY(turning_start(t));
    for (int64_t i = 0;; i++) {
        bool more, ended;
        TRY(run_series(t, &i, &ended));
        if (ended) return end(t, i);
        TRY(goes_on(t, i, &more));
        if (!more) return end(t, i);
        if (r->bound && (i >= r->bound || (t->each > 1 && t->trips > r->bound)))
            return error_set(KILN_E_STATE,
                             "%s: the loop goes on after %" PRId64 " trips, its .bound, in %s; what it would have "
                             "given and written is dropped",
                             r->child[1] ? "while" : "for", r->bound, t->call->p->name);
        TRY(turning_turn(t, i, t->call->gate));
    }
}

kiln_status program_region_run(const struct program_call *call, const struct program_region *r, uint64_t workspace)
{
    struct program_argument few[32], *v = few;
    int most = r->n_in + r->n_out + 2;
    if (most > 32) v = malloc(sizeof *v * (size_t)most);
    if (!v) return error_set(KILN_E_MEMORY, "%s: out of memory for a run", call->p->name);
    struct turning t = {
        .call = call, .r = r, .workspace = workspace, .a = {v, 0}, .each = 1, .number = region_number(call, r)};
    struct flow_trip trip;
    struct leave left;
    leave_push(&left, free, v != few ? v : NULL);
    if (!r->n_branches) flow_enter(&trip);
    kiln_status status = r->n_branches ? run_switch(call, r, workspace, &t.a) : run_loop(&t);
    if (!r->n_branches) flow_leave(&trip);
    leave_pop(&left);
    if (v != few) free(v);
    return status;
}
