// Runs a node with regions: the host decides, the children compute.
#include "program/region.h"
#include "program/run.h"
#include "tensor/flow.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static uint64_t address_of(const struct program_call *call, const struct region_operand *o)
{
    return call->base[o->buffer] + o->at_B;
}

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
    TRY(device_download(call->p->dev, &v, address_of(call, o), dtype_size_B[r->index_dtype]));
    switch (r->index_dtype) {
    case KILN_BOOL:
    case KILN_U8: *out = v.u8; return KILN_OK;
    case KILN_I8: *out = v.i8; return KILN_OK;
    case KILN_I16: *out = v.i16; return KILN_OK;
    case KILN_I32: *out = v.i32; return KILN_OK;
    default: *out = v.i64; return KILN_OK;
    }
}

// What a child is given: its inputs, in order.
struct arguments {
    struct program_argument *v;
    int n;
};

static void add_memory(struct arguments *a, uint64_t address)
{
    a->v[a->n++] = (struct program_argument){.address = address};
}

// An operand that is neither carried nor scanned; a known number is none of the child's inputs.
static void add_operand(const struct program_call *call, const struct region_operand *o, struct arguments *a)
{
    if (o->buffer >= 0)
        add_memory(a, address_of(call, o));
    else if (o->input >= 0)
        a->v[a->n++] = call->args[o->input];
}

// The random number that the node takes of the run.
static struct rng number_of(const struct program_call *call, const struct program_region *r)
{
    return call->rng ? (struct rng){call->rng->seed, call->rng->offset + r->number} : (struct rng){0, 0};
}

static kiln_status run_switch(const struct program_call *call, const struct program_region *r, uint64_t workspace,
                              struct arguments *a)
{
    int64_t at;
    TRY(read_integer(call, r, &at));
    if (r->index_dtype == KILN_BOOL) at = !at;
    if (at < 0 || at >= r->n_branches)
        return error_set(KILN_E_ARGUMENT, "switch: index is %" PRId64 ", there are %d branches, in %s", at,
                         r->n_branches, call->p->name);
    for (int i = 0; i < r->n_taken; i++) add_operand(call, &r->in[i], a);
    for (int i = 0; i < r->n_out; i++) add_memory(a, call->base[r->out[i]]);
    const struct rng number = number_of(call, r), rng = rng_of_trip(&number, 0);
    return call->run_child(r->branches[at], a->v, &rng, workspace + r->child_at);
}

// --- loops

struct turning {
    const struct program_call *call;
    const struct program_region *r;
    uint64_t workspace;
    struct arguments a;
    int64_t trips; // -1: unknown
    struct rng number;
    int64_t turns; // runs of the body, each of which makes `each` trips but the last one, which makes the rest
    int64_t each;
};

static uint64_t out_of(const struct turning *t, int k)
{
    return t->call->base[t->r->out[k]];
}

// Carried values lie by turns in the results and in the workspace, so that the last turn writes the results if it is
// known which one that is. What is changed in place lies in the results.
static bool writes_out(const struct turning *t, int64_t turn)
{
    return t->trips < 0 ? turn % 2 == 1 : (t->turns - 1 - turn) % 2 == 0;
}

static uint64_t written_at(const struct turning *t, int64_t turn, int k)
{
    return t->r->in_place[k] || writes_out(t, turn) ? out_of(t, k) : t->workspace + t->r->carried_at[k];
}

// What the turn reads.
static uint64_t carried_at(const struct turning *t, int64_t turn, int k)
{
    if (turn > 0) return written_at(t, turn - 1, k);
    if (t->r->in_place[k]) return out_of(t, k);
    if (!t->r->copied[k]) return address_of(t->call, &t->r->in[k]);
    return writes_out(t, 0) ? t->workspace + t->r->carried_at[k] : out_of(t, k);
}

static int64_t row_of(const struct turning *t, int64_t trip)
{
    return t->r->reverse ? t->trips - 1 - trip : trip;
}

static void add_taken(struct turning *t, int64_t turn)
{
    const struct program_region *r = t->r;
    int64_t trip = turn * t->each, row = row_of(t, trip);
    t->a.n = 0;
    for (int k = 0; k < r->n_carried; k++) add_memory(&t->a, carried_at(t, turn, k));
    for (int k = r->n_carried; k < r->n_taken; k++)
        if (k < r->n_carried + r->n_scanned)
            add_memory(&t->a, address_of(t->call, &r->in[k]) + (uint64_t)row * r->in[k].row_B);
        else
            add_operand(t->call, &r->in[k], &t->a);
    t->a.v[t->a.n++] = (struct program_argument){.number = (double)trip, .integer = trip};
}

static kiln_status start(struct turning *t)
{
    const struct program_region *r = t->r;
    t->a.n = 0;
    for (int k = 0; k < r->n_carried && r->start; k++) {
        if (!r->copied[k]) continue;
        add_operand(t->call, &r->in[k], &t->a);
        add_memory(&t->a, carried_at(t, 0, k));
    }
    return r->start ? t->call->run_child(r->start, t->a.v, NULL, t->workspace + r->child_at) : KILN_OK;
}

static kiln_status goes_on(struct turning *t, int64_t turn, bool *more)
{
    uint8_t flag;
    *more = t->trips < 0 || turn < t->turns;
    if (!t->r->child[1] || !*more) return KILN_OK;
    add_taken(t, turn);
    add_memory(&t->a, t->workspace + t->r->flag_at);
    const struct rng rng = rng_of_condition(&t->number, turn);
    TRY(t->call->run_child(t->r->child[1], t->a.v, &rng, t->workspace + t->r->child_at));
    TRY(device_download(t->call->p->dev, &flag, t->workspace + t->r->flag_at, 1));
    *more = flag;
    return KILN_OK;
}

// All that the body is given.
static void add_turn(struct turning *t, int64_t turn)
{
    const struct program_region *r = t->r;
    int64_t trip = turn * t->each, row = row_of(t, trip), left = t->trips - trip;
    add_taken(t, turn);
    for (int k = 0; k < r->n_out; k++) {
        if (k >= r->n_carried)
            add_memory(&t->a, out_of(t, k) + (uint64_t)row * r->out_B[k]);
        else if (!r->in_place[k])
            add_memory(&t->a, written_at(t, turn, k));
    }
    t->a.v[t->a.n++] = (struct program_argument){.integer = left < t->each ? left : t->each};
}

static kiln_status turn(struct turning *t, int64_t turn)
{
    int64_t trip = turn * t->each;
    add_turn(t, turn);
    thread_state.trips->trip = trip;
    const struct rng rng = rng_of_trip(&t->number, row_of(t, trip));
    return t->call->run_child(t->r->child[0], t->a.v, &rng, t->workspace + t->r->child_at);
}

enum { FEW_ARGUMENTS = 32, SERIES_LEAST = 4 };

// The trips after the first, of which every second one is given the same, but for rows, which go on.
static kiln_status run_series(struct turning *t, int64_t *trip)
{
    const struct program_region *r = t->r;
    struct program_argument turns[3][FEW_ARGUMENTS];
    int64_t step[FEW_ARGUMENTS];
    bool known = t->trips >= 0 && !r->child[1] && (!r->bound || t->trips <= r->bound);
    if (*trip != 1 || t->each > 1 || !known || t->trips < SERIES_LEAST || r->n_in + r->n_out + 2 > FEW_ARGUMENTS)
        return KILN_OK;
    for (int i = 0; i < 3; i++) {
        add_turn(t, i + 1);
        memcpy(turns[i], t->a.v, sizeof *t->a.v * (size_t)t->a.n);
    }
    int number = t->a.n - (r->n_out - r->n_stay) - 2;
    for (int i = 0; i < t->a.n; i++) step[i] = (int64_t)(turns[2][i].address - turns[0][i].address);
    const struct program_series s = {{turns[1], turns[0]}, step, number, 1, t->trips};
    bool taken;
    TRY(t->call->run_series(r->child[0], &s, t->workspace + r->child_at, &taken));
    if (taken) *trip = t->trips;
    return KILN_OK;
}

// After so many turns.
static kiln_status end(struct turning *t, int64_t turns)
{
    for (int k = 0; k < t->r->n_carried; k++) {
        uint64_t from = carried_at(t, turns, k), to = out_of(t, k);
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
    if (r->counted) TRY(read_integer(t->call, r, &t->trips));
    if (r->counted && t->trips < 0)
        return error_set(KILN_E_ARGUMENT, "for: count is %" PRId64 ", in %s", t->trips, t->call->p->name);
    if (r->counted && r->reverse && r->bound && t->trips > r->bound) // its last row would come first
        return error_set(KILN_E_STATE, "for: count is %" PRId64 ", .bound is %" PRId64 ", in %s", t->trips, r->bound,
                         t->call->p->name);
    set_turns(t);
    TRY(start(t));
    for (int64_t i = 0;; i++) {
        bool more;
        TRY(run_series(t, &i));
        TRY(goes_on(t, i, &more));
        if (!more) return end(t, i);
        if (r->bound && (i >= r->bound || (t->each > 1 && t->trips > r->bound)))
            return error_set(KILN_E_STATE,
                             "%s: the loop goes on after %" PRId64 " trips, its .bound, in %s; what it would have "
                             "given and written is dropped",
                             r->child[1] ? "while" : "for", r->bound, t->call->p->name);
        TRY(turn(t, i));
    }
}

kiln_status program_region_run(const struct program_call *call, const struct program_region *r, uint64_t workspace)
{
    struct program_argument few[32], *v = few;
    int most = r->n_in + r->n_out + 2;
    if (most > 32) v = malloc(sizeof *v * (size_t)most);
    if (!v) return error_set(KILN_E_MEMORY, "%s: out of memory for a run", call->p->name);
    struct turning t = {.call = call, .r = r, .workspace = workspace, .a = {v, 0}, .number = number_of(call, r)};
    struct flow_trip trip;
    if (!r->n_branches) flow_enter(&trip);
    kiln_status status = r->n_branches ? run_switch(call, r, workspace, &t.a) : run_loop(&t);
    if (!r->n_branches) flow_leave(&trip);
    if (v != few) free(v);
    return status;
}
