// The body of a loop whose one kernel can make the trips itself gets that kernel.
#include "fuse/trips.h"
#include "ir/grid.h"
#include "program/maker.h"

enum {
    TURNS_AT_ONCE = 1 << 15,  // of a launch on a GPU, whose time is bounded; llvmpipe ends an invocation's after 65535
    POINTS_AT_ONCE = 1 << 29, // ... and trips of all elements together
    STEPS_OF_TRIP = 64,       // a trip of more values counts several times
    FEW_ELEMENTS = 4096,      // of a state that one thread, or one workgroup, takes as a whole
    FEW_OF_SMALL = 256        // ... where a workgroup is one of few threads
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

// Turns of all loops of an invocation, a trip: one for itself, and those of its passes over a row, which lanes share;
// where one workgroup has all points, as many times as it takes to come to each.
static int64_t turns_of(const struct fused_kernel *k)
{
    enum { LEAST_SHARED = 4, TURNS_OF_PASS = 8, LEAST_LOCAL = 64, ROWS_TOGETHER = 8 };
    int64_t length = fused_row_length(k), points = fused_points(k);
    int64_t row = k->n_stages ? (k->n_stages + 1) * (TURNS_OF_PASS + length / LEAST_SHARED) : 1;
    if (!k->trips.together) return k->n_stages ? 1 + row : 1;
    int64_t side_by_side = !k->n_stages ? LEAST_LOCAL : length <= LEAST_LOCAL ? ROWS_TOGETHER : 1;
    return 1 + row * ceil_div(points, side_by_side);
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

static kiln_status one_kernel(struct fuse_schedule *s, struct fused_kernel **out)
{
    size_t n = s->steps.n;
    const struct fused_kernel **kernels = arena_alloc(&s->arena, sizeof *kernels * (n + 1));
    if (!kernels) return error_pending;
    *out = NULL;
    for (size_t i = 0; i < n; i++) {
        kernels[i] = s->steps.v[i].kernel;
        if (!kernels[i]) return KILN_OK;
    }
    *out = n == 1 && !kernels[0]->table ? s->steps.v[0].kernel : NULL;
    return *out ? KILN_OK : fuse_beside(&s->arena, kernels, n, out);
}

static kiln_status make_one_step(struct fuse_schedule *s, struct fused_kernel *k)
{
    int n = 0;
    for (size_t i = 0; i < s->steps.n; i++) n += s->steps.v[i].n_units;
    int32_t *units = arena_alloc(&s->arena, sizeof *units * (size_t)(n + 1));
    if (!units) return error_pending;
    n = 0;
    for (size_t i = 0; i < s->steps.n; i++)
        for (int u = 0; u < s->steps.v[i].n_units; u++) units[n++] = s->steps.v[i].units[u];
    s->steps.v[0] =
        (struct fuse_step){.kernel = k, .units = units, .n_units = n, .table = -1, .root = s->steps.v[0].root};
    s->steps.n = 1;
    return KILN_OK;
}

// The schedule becomes one kernel that makes the trips, if there is one.
static kiln_status take(struct program_maker *m, struct fuse_schedule *s, bool *taken)
{
    const struct program_trips *t = m->o->trips;
    struct fused_kernel *k, *made;
    struct trips_of of = {.n_carried = t->n_carried, .number = (uint16_t)t->number, .count = (uint16_t)t->count};
    const struct device_caps *caps = &m->p->dev->caps;
    of.few = caps->code == CODE_GLSL && grid_is_small(caps) ? FEW_OF_SMALL : FEW_ELEMENTS;
    *taken = false;
    TRY(one_kernel(s, &k));
    if (!k || !find_accesses(m, k, &of)) return KILN_OK;
    TRY(fuse_trips(&s->arena, k, &of, &made, &s->steps.v[0].why));
    if (!made) return KILN_OK;
    int64_t launch = at_once(m, made);
    made->trips.most = t->most > launch ? launch : t->most > 1 ? t->most : 1;
    TRY(make_one_step(s, made));
    m->p->trips_at_once = launch;
    *taken = true;
    return debug_flag("verify") ? fused_verify(made, m->units.buffers.v) : KILN_OK;
}

// Something of the body is no part of any fused kernel.
static bool has_others(const struct program_maker *m)
{
    for (size_t i = 0; i < m->units.v.n; i++)
        if (m->units.v.v[i].region || (!m->units.v.v[i].body && m->units.v.v[i].l.n_operands)) return true;
    return false;
}

kiln_status maker_take_trips(struct program_maker *m, const struct fuse_options *fo)
{
    bool taken;
    if (!m->o->trips || m->o->no_fusion || !m->schedule.steps.n || has_others(m)) return KILN_OK;
    TRY(take(m, &m->schedule, &taken));
    if (taken) return KILN_OK;
    // What ends by itself is an op of the catalogue there; here it may be a part of the kernel.
    struct fuse_options alone = *fo;
    struct fuse_schedule other;
    alone.alone = true;
    kiln_status status = fuse(&m->units, &m->p->dev->caps, &alone, &other);
    if (!status) status = take(m, &other, &taken);
    if (!status && taken) {
        struct fuse_schedule old = m->schedule;
        m->schedule = other;
        other = old;
    }
    schedule_finish(&other);
    return status;
}
