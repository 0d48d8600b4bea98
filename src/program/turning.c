// What the turns of a loop read and write.
//
// Carried values lie by turns in the results and in the workspace. Where the number of turns is known, the last one
// writes the results; else those of odd numbers do. What is changed in place lies in the results.
#include "program/turning.h"
#include "tensor/flow.h"

uint64_t region_address_of(const struct program_call *call, const struct region_operand *o)
{
    return call->base[o->buffer] + o->at_B;
}

void arguments_add_memory(struct arguments *a, uint64_t address)
{
    a->v[a->n++] = (struct program_argument){.address = address};
}

void arguments_add_operand(struct arguments *a, const struct program_call *call, const struct region_operand *o)
{
    if (o->buffer >= 0)
        arguments_add_memory(a, region_address_of(call, o));
    else if (o->input >= 0)
        a->v[a->n++] = call->args[o->input];
}

struct rng region_number(const struct program_call *call, const struct program_region *r)
{
    return call->rng ? (struct rng){call->rng->seed, call->rng->offset + r->number} : (struct rng){0, 0};
}

uint64_t turning_out(const struct turning *t, int k)
{
    return t->call->base[t->r->out[k]];
}

static bool writes_out(const struct turning *t, int64_t turn)
{
    return t->trips < 0 ? turn % 2 == 1 : (t->turns - 1 - turn) % 2 == 0;
}

static uint64_t written_at(const struct turning *t, int64_t turn, int k)
{
    return t->r->in_place[k] || writes_out(t, turn) ? turning_out(t, k) : t->workspace + t->r->carried_at[k];
}

uint64_t turning_carried_at(const struct turning *t, int64_t turn, int k)
{
    if (turn > 0) return written_at(t, turn - 1, k);
    if (t->r->in_place[k]) return turning_out(t, k);
    if (!t->r->copied[k]) return region_address_of(t->call, &t->r->in[k]);
    return writes_out(t, 0) ? t->workspace + t->r->carried_at[k] : turning_out(t, k);
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
    for (int k = 0; k < r->n_carried; k++) arguments_add_memory(&t->a, turning_carried_at(t, turn, k));
    for (int k = r->n_carried; k < r->n_taken; k++)
        if (k < r->n_carried + r->n_scanned)
            arguments_add_memory(&t->a, region_address_of(t->call, &r->in[k]) + (uint64_t)row * r->in[k].row_B);
        else
            arguments_add_operand(&t->a, t->call, &r->in[k]);
    t->a.v[t->a.n++] = (struct program_argument){.number = (double)trip, .integer = trip};
}

static kiln_status run(struct turning *t, const struct program *child, const struct rng *rng, struct device_gate *gate)
{
    return t->call->run_child(child, t->a.v, rng, t->workspace + t->r->child_at, gate);
}

kiln_status turning_start(struct turning *t)
{
    const struct program_region *r = t->r;
    t->a.n = 0;
    for (int k = 0; k < r->n_carried && r->start; k++) {
        if (!r->copied[k]) continue;
        arguments_add_operand(&t->a, t->call, &r->in[k]);
        arguments_add_memory(&t->a, turning_carried_at(t, 0, k));
    }
    return r->start ? run(t, r->start, NULL, t->call->gate) : KILN_OK;
}

void turning_add_cond(struct turning *t, int64_t turn)
{
    add_taken(t, turn);
    arguments_add_memory(&t->a, t->workspace + t->r->flag_at);
}

kiln_status turning_cond(struct turning *t, int64_t turn, struct device_gate *gate)
{
    const struct rng rng = rng_of_condition(&t->number, turn);
    turning_add_cond(t, turn);
    return run(t, t->r->child[1], &rng, gate);
}

void turning_add_turn(struct turning *t, int64_t turn)
{
    const struct program_region *r = t->r;
    int64_t trip = turn * t->each, row = row_of(t, trip), left = t->trips - trip;
    add_taken(t, turn);
    for (int k = 0; k < r->n_out; k++) {
        if (k >= r->n_carried)
            arguments_add_memory(&t->a, turning_out(t, k) + (uint64_t)row * r->out_B[k]);
        else if (!r->in_place[k])
            arguments_add_memory(&t->a, written_at(t, turn, k));
    }
    t->a.v[t->a.n++] = (struct program_argument){.integer = t->trips >= 0 && left < t->each ? left : t->each};
}

kiln_status turning_turn(struct turning *t, int64_t turn, struct device_gate *gate)
{
    const struct rng rng = rng_of_trip(&t->number, row_of(t, turn * t->each));
    turning_add_turn(t, turn);
    thread_state.trips->trip = turn * t->each;
    return run(t, t->r->child[0], &rng, gate);
}
