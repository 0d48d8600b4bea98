// The body of a loop whose one kernel can make the trips itself gets that kernel.
#include "fuse/trips.h"
#include "program/maker.h"

enum {
    TURNS_AT_ONCE = 1 << 15,  // of a launch on a GPU, whose time is bounded; llvmpipe ends an invocation's after 65535
    POINTS_AT_ONCE = 1 << 29, // ... and trips of all elements together
    STEPS_OF_TRIP = 64        // a trip of more values counts several times
};

static int input_of(const struct program_maker *m, const struct fused_access *a)
{
    const struct unit_buffer *b = &m->units.buffers.v[a->buffer];
    return b->kind == BUFFER_INPUT ? m->units.values[b->value].input : -1;
}

// Whether the kernel is a body's in all it reads and writes.
static bool find_accesses(const struct program_maker *m, const struct fused_kernel *k, struct trips_of *of)
{
    const struct program_trips *t = m->o->trips;
    for (int i = 0; i < k->n_in + k->n_out; i++) {
        int input = input_of(m, fused_access_at(k, i));
        of->step_B[i] = input >= 0 ? t->step_B[input] : 0;
        if (i >= k->n_in)
            of->writes[i - k->n_in] = (int16_t)(input >= t->first_result ? input - t->first_result : -1);
        else if (input >= t->first_result)
            return false;
        else
            of->reads[i] = (int16_t)(input >= 0 && input < t->n_carried ? input : -1);
    }
    return true;
}

// Turns of all loops of an invocation, a trip: one for itself, and those of its passes over a row, which lanes share.
static int64_t turns_of(const struct fused_kernel *k)
{
    enum { LEAST_SHARED = 4, TURNS_OF_PASS = 8 };
    return k->n_stages ? 1 + (k->n_stages + 1) * (TURNS_OF_PASS + fused_row_length(k) / LEAST_SHARED) : 1;
}

static int64_t at_once(const struct program_maker *m, const struct fused_kernel *k)
{
    if (m->p->dev->caps.code == CODE_LLVM) return INT64_MAX;
    int64_t points = fused_points(k) * fused_row_length(k), most = POINTS_AT_ONCE / (points ? points : 1);
    int64_t turns = TURNS_AT_ONCE / turns_of(k);
    if (most > turns) most = turns;
    most /= 1 + k->dag.n_nodes / STEPS_OF_TRIP;
    return most < 1 ? 1 : most;
}

kiln_status maker_take_trips(struct program_maker *m)
{
    const struct program_trips *t = m->o->trips;
    struct fuse_step *step = m->schedule.steps.v;
    if (!t || m->o->no_fusion || m->schedule.steps.n != 1 || !step->kernel || step->kernel->table) return KILN_OK;
    struct trips_of of = {.n_carried = t->n_carried, .number = (uint16_t)t->number, .count = (uint16_t)t->count};
    struct fused_kernel *made;
    int64_t launch = at_once(m, step->kernel);
    of.most = t->most < launch ? t->most : launch;
    if (!find_accesses(m, step->kernel, &of)) return KILN_OK;
    TRY(fuse_trips(&m->schedule.arena, step->kernel, &of, &made, &step->why));
    if (!made) return KILN_OK;
    step->kernel = made;
    m->p->trips_at_once = launch;
    return debug_flag("verify") ? fused_verify(made, m->units.buffers.v) : KILN_OK;
}
