// Draws programs. Each program has some kinds of steps only, so that what they do meets often.
#include "fuzz.h"

uint32_t rng_next(struct rng *r)
{
    r->state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = r->state;
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)((z ^ z >> 31) >> 16);
}

uint32_t rng_below(struct rng *r, uint32_t n)
{
    return rng_next(r) % n;
}

bool rng_chance(struct rng *r, uint32_t percent)
{
    return rng_next(r) % 100 < percent;
}

static int64_t draw_size(struct rng *r)
{
    uint32_t kind = rng_below(r, 100);
    return kind < 65 ? 2 + rng_below(r, 5) : kind < 78 ? 1 : kind < 81 ? 0 : kind < 94 ? 7 + rng_below(r, 12) : 33;
}

static void draw_sizes(struct program *p, struct rng *r)
{
    for (int call = 0; call < CALLS; call++)
        for (int i = 0; i < SIZES; i++) {
            bool kept = call && !rng_chance(r, 12);
            p->size[call][i] = kept ? p->size[call - 1][i] : draw_size(r);
        }
}

static void draw_dtypes(struct program *p, struct rng *r)
{
    static const kiln_dtype floats[] = {KILN_F32, KILN_F32, KILN_F64, KILN_F16, KILN_BF16};
    static const kiln_dtype whole[] = {KILN_I32,  KILN_I64,  KILN_U8,  KILN_I8,  KILN_I16,
                                       KILN_BOOL, KILN_BOOL, KILN_U16, KILN_U32, KILN_U64};
    p->dtype[0] = rng_chance(r, 85) ? KILN_F32 : KILN_F64;
    p->dtype[1] = floats[rng_below(r, 5)];
    p->dtype[2] = whole[rng_below(r, 10)];
    p->dtype[FIXED] = p->dtype[rng_below(r, 2)];
    p->dtype[FIXED + 1] = KILN_I64;
}

static enum source_kind draw_kind(struct rng *r)
{
    uint32_t kind = rng_below(r, 100);
    return kind < 52   ? SOURCE_INPUT
           : kind < 66 ? SOURCE_STATE
           : kind < 80 ? SOURCE_PARAMETER
           : kind < 88 ? SOURCE_CONSTANT
           : kind < 94 ? SOURCE_NUMBER
           : kind < 97 ? SOURCE_MUTABLE
                       : SOURCE_HOST;
}

static void draw_places(struct program *p, struct source *s, struct rng *r)
{
    const struct source *near = &p->source[rng_below(r, (uint32_t)p->n_sources + 1)];
    bool moves = rng_chance(r, 40);
    for (int call = 0; call < CALLS; call++) {
        struct place *at = &s->at[call];
        if (call && !(moves && rng_chance(r, 60))) {
            *at = s->at[call - 1];
            continue;
        }
        at->form = rng_chance(r, 60) ? FORM_PLAIN : (enum form)rng_below(r, FORMS);
        at->offset = GUARD + (rng_chance(r, 50) ? rng_below(r, 8) : rng_below(r, ROOM));
        if (near != s && near->base == s->base && rng_chance(r, 50)) at->offset = near->at[call].offset;
        if (near != s && near->base == s->base && rng_chance(r, 20)) at->offset += 1;
    }
}

// The ranks of sources are such that they can meet: their last sizes are those of the first.
static void draw_shape(struct source *s, struct rng *r)
{
    uint32_t kind = rng_below(r, 10);
    s->rank = kind == 0 ? 0 : kind < 4 ? 1 : kind < 8 ? 2 : kind < 9 ? 3 : 4;
    for (int i = 0; i < s->rank; i++) {
        int from_end = s->rank - 1 - i;
        s->size[i] = rng_chance(r, 70) ? (uint8_t)(from_end % SIZES) : (uint8_t)rng_below(r, SIZES + 1);
    }
}

static void draw_source(struct program *p, struct rng *r)
{
    struct source *s = &p->source[p->n_sources];
    s->kind = p->n_sources ? draw_kind(r) : SOURCE_INPUT;
    s->same_as = s->beside = s->stopped = -1;
    s->base = s->kind == SOURCE_CONSTANT    ? FIXED + (int)rng_below(r, 2)
              : s->kind == SOURCE_PARAMETER ? (int)rng_below(r, 2)
              : p->n_sources                ? (int)rng_below(r, FIXED)
                                            : 0;
    draw_shape(s, r);
    draw_places(p, s, r);
    s->leaf = s->kind == SOURCE_INPUT && s->base < 2 && rng_chance(r, 60);
    if (s->kind == SOURCE_INPUT && p->n_sources && rng_chance(r, 20)) {
        int other = (int)rng_below(r, (uint32_t)p->n_sources);
        if (p->source[other].kind <= SOURCE_PARAMETER) s->same_as = other, s->leaf = false;
    }
    p->n_sources++;
}

// Rather one of the last values, so that results depend on many steps.
static uint8_t draw_operand(struct rng *r, int n)
{
    int last = rng_chance(r, 60) && n > 4 ? 4 : n;
    return (uint8_t)(n - 1 - (int)rng_below(r, (uint32_t)last));
}

bool may_show_constant(const struct program *p, int value)
{
    while (value >= p->n_sources) value = p->step[value - p->n_sources].a;
    enum source_kind kind = p->source[value].kind;
    return kind == SOURCE_CONSTANT || kind >= SOURCE_NUMBER;
}

bool may_repeat(const struct program *p, int value)
{
    for (; value >= p->n_sources; value = p->step[value - p->n_sources].a)
        if (!strcmp(step_kinds[p->step[value - p->n_sources].kind].name, "expand")) return true;
    return false;
}

static void draw_steps(struct program *p, struct rng *r)
{
    int weight[128], total = 0;
    for (int i = 0; i < n_step_kinds; i++) {
        uint32_t how = rng_below(r, 8);
        weight[i] = how < 4 ? 0 : how < 7 ? step_kinds[i].weight : 4 * step_kinds[i].weight;
        if ((step_kinds[i].flags & STEP_READS) && !p->reads) weight[i] = 0;
        total += weight[i];
    }
    for (int i = 0; i < p->n_steps; i++) {
        struct step *s = &p->step[i];
        int at = total ? (int)rng_below(r, (uint32_t)total) : 0, kind = 0;
        while (total && at >= weight[kind]) at -= weight[kind++];
        int n = p->n_sources + i;
        *s = (struct step){.kind = (uint16_t)kind, .choice = rng_next(r)};
        s->a = draw_operand(r, n), s->b = draw_operand(r, n), s->c = (uint8_t)rng_below(r, (uint32_t)n);
        if ((step_kinds[kind].flags & STEP_WRITES) && may_show_constant(p, s->a)) s->a = 0;
    }
    for (int i = 0; i < p->n_results; i++) p->result[i] = draw_operand(r, p->n_sources + p->n_steps);
}

static enum gradient draw_gradient(struct rng *r)
{
    uint32_t kind = rng_below(r, 100);
    return kind < 34   ? GRADIENT_NONE
           : kind < 56 ? GRADIENT_OUTSIDE
           : kind < 62 ? GRADIENT_TWICE
           : kind < 76 ? GRADIENT_INSIDE
           : kind < 94 ? GRADIENT_OF
                       : GRADIENT_SECOND;
}

static void draw_events(struct program *p, struct rng *r)
{
    for (int call = 1; call < CALLS; call++) {
        if (rng_chance(r, 25)) p->event[call] = (enum event)rng_below(r, EVENTS);
        p->fresh[call] = rng_chance(r, 50);
        for (int i = 0; i < FIXED; i++) p->rewritten[call] |= (uint8_t)(rng_chance(r, 60) << i);
    }
}

// Sources of 9 to 16 dimensions that can meet: each has some of the same ones, and is 1 along the others.
static void draw_depths(struct program *p, struct rng *r)
{
    uint8_t shared[KILN_MAX_RANK];
    for (int i = 0, left = DEEP; i < KILN_MAX_RANK; i++) {
        bool two = (int)rng_below(r, (uint32_t)(KILN_MAX_RANK - i)) < left;
        shared[i] = SIZES + two;
        left -= two;
    }
    for (int k = 0; k < p->n_sources; k++) {
        struct source *s = &p->source[k];
        if (rng_chance(r, 25)) continue;
        s->rank = 9 + (int)rng_below(r, KILN_MAX_RANK - 8);
        for (int i = 0; i < s->rank; i++) s->size[i] = rng_chance(r, 30) ? SIZES : shared[KILN_MAX_RANK - s->rank + i];
    }
}

// Inputs in the memory of a leaf, and inputs that a state has become without its gradient.
static void draw_neighbours(struct program *p, struct rng *r)
{
    for (int i = 1; i < p->n_sources; i++) {
        struct source *s = &p->source[i];
        int other = (int)rng_below(r, (uint32_t)i);
        const struct source *o = &p->source[other];
        if (s->kind != SOURCE_INPUT || s->same_as >= 0 || o->same_as >= 0) continue;
        if (o->kind == SOURCE_STATE && is_floating(p->dtype[o->base]) && rng_chance(r, 30))
            s->stopped = other, s->leaf = false;
        if (!o->leaf || o->beside >= 0 || !rng_chance(r, 20)) continue;
        s->beside = other, s->base = o->base, s->leaf = false;
        for (int call = 0; call < CALLS && rng_chance(r, 70); call++) s->at[call] = o->at[call];
        if (rng_chance(r, 50)) memcpy(s->size, o->size, sizeof s->size), s->rank = o->rank;
    }
}

static bool is_shared(const struct program *p, int source)
{
    for (int i = 0; i < p->n_sources; i++)
        if (p->source[i].same_as == source || p->source[i].beside == source || p->source[i].stopped == source)
            return true;
    return false;
}

static void draw_given(struct program *p, struct rng *r)
{
    for (int i = 0; i < p->n_sources; i++) {
        struct source *s = &p->source[i];
        bool own = s->kind == SOURCE_INPUT && !s->leaf && s->same_as < 0 && s->beside < 0 && s->stopped < 0;
        s->given = own && !is_shared(p, i) && rng_chance(r, 70);
    }
}

void draw_program(struct program *p, uint64_t seed)
{
    struct rng r = {seed * UINT64_C(0xd1342543de82ef95) + 1};
    *p = (struct program){.seed = seed};
    p->values = (int)rng_below(&r, 8);
    p->reads = rng_chance(&r, 20);
    p->even = rng_chance(&r, 50);
    p->n_calls = 2 + (int)rng_below(&r, CALLS - 1);
    p->n_results = 1 + (int)rng_below(&r, RESULTS);
    p->n_steps = 3 + (int)rng_below(&r, STEPS - 2);
    p->gradient = draw_gradient(&r);
    draw_dtypes(p, &r);
    draw_sizes(p, &r);
    for (int n = 2 + (int)rng_below(&r, SOURCES - 1); n--;) draw_source(p, &r);
    draw_steps(p, &r);
    draw_events(p, &r);
    p->touches = rng_chance(&r, 50);
    struct rng apart = {~seed * UINT64_C(0xd1342543de82ef95)}; // so that the others stay what they were
    p->deep = rng_chance(&apart, 8);
    if (p->deep) draw_depths(p, &apart);
    p->breaks = rng_chance(&apart, 8) ? (int)rng_below(&apart, (uint32_t)p->n_steps) : -1;
    p->level = rng_chance(&apart, 80) ? KILN_LEVEL_FUSION : (kiln_level)(1 + rng_below(&apart, 2));
    p->eager_rounding = rng_chance(&apart, 15);
    p->deterministic = rng_chance(&apart, 10);
    p->verified = rng_chance(&apart, 10);
    p->learns = rng_chance(&apart, 20);
    if (rng_chance(&apart, 25)) draw_neighbours(p, &apart);
    p->asks = rng_chance(&apart, 40);
    if (rng_chance(&apart, 35)) draw_given(p, &apart);
    p->most = rng_chance(&apart, 30) ? 1 + (int)rng_below(&apart, 6) : 0;
}
