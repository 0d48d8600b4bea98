// Runs a node with regions of which the device decides: the host records all that may have to run, behind gates.
//
// A loop goes out in chunks. The state of its gate is looked at after half a chunk, and waited for once the next half
// is on the queue, so that the device never waits for the host, and what was recorded in vain is less than a chunk. A
// loop of at most one chunk is recorded whole, and nobody waits: where its last trip left what it carries, the device
// finds out by a last step of the gate. Where a count says how many trips there are, one look tells of all of them.
#include "program/gated.h"
#include "base/clock.h"
#include "ops/families.h"
#include <inttypes.h>

bool region_runs_gated(const struct program_call *call, const struct program_region *r)
{
    // A device that belongs to the parent of a fork has none.
    bool can = !r->host_decides && call->p->dev->ops->gates;
    return can && region_is_decided(r) && (call->gate || (r->gated && !r->reads_count));
}

static struct device_gate gate_of(const struct program_call *call, const struct program_region *r, uint64_t workspace)
{
    const struct region_operand *index = &r->in[r->n_in - 1];
    bool cond = r->child[1] != NULL;
    uint8_t dtype = cond || r->index_dtype == KILN_BOOL ? KILN_U8 : r->index_dtype;
    return (struct device_gate){.kernel = FAMILY_gate * CLASS_COUNT + CLASS_I64,
                                .value = cond ? workspace + r->flag_at : region_address_of(call, index),
                                .dtype = dtype,
                                .state = workspace + r->state_at,
                                .around = call->gate ? call->gate->state : 0,
                                .limit = r->n_branches ? r->n_branches : r->bound,
                                .fault = r->fault};
}

kiln_status region_switch_gated(const struct program_call *call, const struct program_region *r, uint64_t workspace,
                                struct arguments *a)
{
    kiln_device *dev = call->p->dev;
    enum gate_step step = r->index_dtype == KILN_BOOL ? GATE_TRUTH : GATE_BRANCH;
    struct device_gate g = gate_of(call, r, workspace);
    for (int i = 0; i < r->n_taken; i++) arguments_add_operand(a, call, &r->in[i]);
    for (int i = 0; i < r->n_out; i++) arguments_add_memory(a, call->base[r->out[i]]);
    for (g.number = 0; g.number < r->n_branches; g.number++) {
        TRY(dev->ops->gates->step(dev, &g, step));
        TRY(call->run_child(r->branches[g.number], a->v, NULL, workspace + r->child_at, &g));
    }
    return KILN_OK;
}

// --- loops

struct deciding {
    struct turning *t;
    const struct program_region *r;
    kiln_device *dev;
    struct device_gate g;
};

static kiln_status step(struct deciding *d, enum gate_step step, int64_t number)
{
    d->g.number = number;
    return d->dev->ops->gates->step(d->dev, &d->g, step);
}

// Then the gate is open if that trip is made.
static kiln_status decide(struct deciding *d, int64_t trip)
{
    if (!d->r->child[1]) return step(d, GATE_COUNT, trip);
    TRY(turning_cond(d->t, trip, trip ? &d->g : d->t->call->gate));
    return step(d, GATE_WHILE, trip);
}

static kiln_status record_trips(struct deciding *d, int64_t from, int64_t to)
{
    for (int64_t trip = from; trip < to; trip++) {
        TRY(turning_turn(d->t, trip, &d->g));
        TRY(decide(d, trip + 1));
    }
    return KILN_OK;
}

// After an odd number of trips what is carried lies in the workspace.
static kiln_status bring_home(struct deciding *d, struct device_gate *gate)
{
    struct turning *t = d->t;
    t->a.n = 0;
    for (int k = 0; k < d->r->n_carried; k++) {
        arguments_add_memory(&t->a, t->workspace + d->r->carried_at[k]);
        arguments_add_memory(&t->a, turning_out(t, k));
    }
    return d->r->end ? t->call->run_child(d->r->end, t->a.v, NULL, t->workspace + d->r->child_at, gate) : KILN_OK;
}

// After so many trips as the device knows.
static kiln_status end(struct deciding *d)
{
    if (!d->r->end) return KILN_OK;
    TRY(step(d, GATE_ODD, 0));
    return bring_home(d, &d->g);
}

static kiln_status end_after(struct deciding *d, int64_t trips)
{
    return trips % 2 ? bring_home(d, d->t->call->gate) : KILN_OK;
}

static int64_t at_most(const struct program_region *r, int64_t trips)
{
    return r->bound && trips > r->bound ? r->bound : trips;
}

// *look is of the gate as it was before trip *trip, and is of a later one then.
static kiln_status record_half(struct deciding *d, int64_t *trip, struct gate_look *look, struct gate_state *s)
{
    const struct gate_ops *gates = d->dev->ops->gates;
    int64_t to = at_most(d->r, *trip + d->r->chunk / 2);
    struct gate_look next;
    TRY(record_trips(d, *trip, to));
    *trip = to;
    if (to == d->r->bound) return KILN_OK;
    TRY(gates->look(d->dev, &d->g, &next));
    kiln_status status = gates->see(d->dev, &d->g, look, s);
    *look = next;
    return status;
}

// --- from the last row to the first: what is carried lies in both places at first, so that any trip may be the first

static kiln_status start_reverse(struct deciding *d)
{
    struct turning *t = d->t;
    t->trips = t->turns = d->r->bound; // as many are recorded; the last one writes the results
    t->a.n = 0;
    for (int k = 0; k < d->r->n_carried; k++) {
        arguments_add_operand(&t->a, t->call, &d->r->in[k]);
        arguments_add_memory(&t->a, t->workspace + d->r->carried_at[k]);
    }
    if (!d->r->start) return KILN_OK;
    TRY(t->call->run_child(d->r->start, t->a.v, NULL, t->workspace + d->r->child_at, t->call->gate));
    return bring_home(d, t->call->gate);
}

static kiln_status record_reverse(struct deciding *d, int64_t to)
{
    for (int64_t trip = 0; trip < to; trip++) {
        TRY(turning_turn(d->t, trip, &d->g));
        if (trip + 1 < d->r->bound) TRY(step(d, GATE_COUNT, d->r->bound - 2 - trip));
    }
    return KILN_OK;
}

static kiln_status end_reverse(struct deciding *d, struct gate_look *look)
{
    struct gate_state s;
    int64_t chunk = d->r->chunk, bound = d->r->bound;
    TRY(record_reverse(d, chunk));
    TRY(d->dev->ops->gates->see(d->dev, &d->g, look, &s));
    for (int64_t trip = bound - s.trips > chunk ? bound - s.trips : chunk; trip < bound; trip++)
        TRY(turning_turn(d->t, trip, d->t->call->gate));
    return KILN_OK;
}

static kiln_status run_reverse(struct deciding *d)
{
    const struct gate_ops *gates = d->dev->ops->gates;
    struct gate_look look;
    TRY(start_reverse(d));
    TRY(step(d, GATE_COUNT, d->r->bound - 1));
    if (d->r->bound <= d->r->chunk) return record_reverse(d, d->r->bound);
    TRY(gates->look(d->dev, &d->g, &look));
    kiln_status status = end_reverse(d, &look);
    gates->drop(d->dev, &look);
    return status;
}

// --- from the first trip on

// The caller of a loop waits for its end, though in many pieces.
static kiln_status check_time(const struct deciding *d, int64_t trips, uint64_t began_ns)
{
    uint64_t limit_ns = d->dev->wait_limit_ns;
    if (d->r->bound || !limit_ns || clock_now_ns() - began_ns <= limit_ns) return KILN_OK;
    return error_set(KILN_E_TIMEOUT,
                     "while: the loop goes on after %" PRId64 " trips and %llu s, in %s; KILN_WAIT_S sets the limit, "
                     "and a loop with a .bound has none; what it would have given and written is dropped",
                     trips, (unsigned long long)(limit_ns / 1000000000u), d->t->call->p->name);
}

static kiln_status run_while(struct deciding *d, struct gate_look *look)
{
    struct gate_state s = {.open = 1};
    uint64_t began_ns = clock_now_ns();
    for (int64_t trip = 0; s.open;) {
        TRY(check_time(d, trip, began_ns));
        TRY(record_half(d, &trip, look, &s));
        if (s.open && trip == d->r->bound) return end(d);
    }
    return end_after(d, s.trips);
}

// The first trips are recorded while the count is on its way.
static kiln_status run_count(struct deciding *d, struct gate_look *look)
{
    struct gate_state s;
    TRY(record_trips(d, 0, at_most(d->r, d->r->chunk)));
    TRY(d->dev->ops->gates->see(d->dev, &d->g, look, &s));
    for (int64_t trip = d->r->chunk; trip < s.trips; trip++) TRY(turning_turn(d->t, trip, d->t->call->gate));
    return end_after(d, s.trips);
}

static kiln_status run(struct deciding *d)
{
    const struct gate_ops *gates = d->dev->ops->gates;
    struct gate_look look;
    TRY(turning_start(d->t));
    TRY(decide(d, 0));
    if (d->r->bound && d->r->bound <= d->r->chunk) {
        TRY(record_trips(d, 0, d->r->bound));
        return end(d);
    }
    TRY(gates->look(d->dev, &d->g, &look));
    kiln_status status = d->r->child[1] ? run_while(d, &look) : run_count(d, &look);
    gates->drop(d->dev, &look);
    return status;
}

kiln_status region_loop_gated(struct turning *t)
{
    struct deciding d = {.t = t, .r = t->r, .dev = t->call->p->dev, .g = gate_of(t->call, t->r, t->workspace)};
    TRY(device_batch(d.dev, true));
    kiln_status status = t->r->reverse ? run_reverse(&d) : run(&d), ended = device_batch(d.dev, false);
    return status ? status : ended;
}
