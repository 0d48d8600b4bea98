// Draws the values of a program and makes the views of them that it is called with.
#include "world.h"

bool is_input(const struct source *s)
{
    return s->kind == SOURCE_INPUT || s->kind == SOURCE_NUMBER || s->kind == SOURCE_MUTABLE;
}

// A source that is not passed anew has the sizes of the first call.
void world_dims(const struct program *p, const struct source *s, int call, int64_t *dims)
{
    int64_t n = 1;
    for (int i = 0; i < s->rank; i++) {
        bool own = s->size[i] < SIZES;
        int64_t size = own ? p->size[s->kind == SOURCE_INPUT ? call : 0][s->size[i]] : 1 + s->size[i] - SIZES;
        dims[i] = n * size > ROOM ? 1 : size;
        n *= dims[i];
    }
}

// --- values. All are exact in the dtype that they are for, and so in f64.

static double draw_special(struct rng *r)
{
    static const double special[] = {NAN, INFINITY, -INFINITY, -0.0, 1e-30, 100, -7};
    return special[rng_below(r, 7)];
}

static double draw_value(const struct program *p, kiln_dtype dtype, struct rng *r)
{
    uint32_t bits = rng_next(r);
    if (dtype == KILN_BOOL) return bits % 2;
    if (dtype == KILN_U8 || dtype == KILN_U16 || dtype == KILN_U32) return bits % 9;
    if (dtype == KILN_U64) return bits % 8 ? bits % 9 : 0x1p63 - 0x1p11 + 0x1p11 * (double)(bits / 8 % 4);
    if (!is_floating(dtype)) return (double)(bits % 13) - 5;
    if (p->values == 6 && bits % 16 == 0) return draw_special(r);
    if (p->values == 7) return (double)(bits % 5) - 2;
    if (p->values < 3) return ((double)(bits % 17) - 8) / 4;
    if (dtype == KILN_F16 || dtype == KILN_BF16) return ((double)(bits % 127) - 63) / 32;
    return (double)(float)(((double)(bits % 1000003) - 500001) / 250000);
}

static kiln_tensor *draw_tensor(struct run *r, kiln_dtype dtype, size_t rank, const int64_t *dims, int which, int call)
{
    double v[BASE_SIZE];
    int64_t n = 1;
    for (size_t i = 0; i < rank; i++) n *= dims[i];
    struct rng rng = {r->p->seed * 1000003 + (uint64_t)which * 101 + (uint64_t)call};
    for (int64_t i = 0; i < n; i++) {
        v[i] = draw_value(r->p, dtype, &rng);
        if (dtype == KILN_BF16 || dtype == KILN_F16) v[i] = v[i] == 1e-30 ? 0.5 : v[i];
        if (dtype == KILN_F32) v[i] = (double)(float)v[i];
    }
    return kiln_cast(kiln_from_data(r->dev, KILN_F64, rank, dims, v), dtype_of_run(r, dtype));
}

static bool holds_state(const struct program *p, int base)
{
    for (int i = 0; i < p->n_sources; i++)
        if (p->source[i].kind == SOURCE_STATE && p->source[i].base == base) return true;
    return false;
}

static void make_base(struct run *r, int i)
{
    const int64_t n = BASE_SIZE;
    kiln_free(&r->base[i]);
    r->base[i] = kiln_own(draw_tensor(r, r->p->dtype[i], 1, &n, i, r->call));
}

// --- views

static void strides_of(enum form form, int rank, const int64_t *dims, int64_t *strides)
{
    int64_t n = form == FORM_STEPPED ? 2 : 1;
    for (int k = 0; k < rank; k++) {
        int i = form == FORM_TRANSPOSED ? k : rank - 1 - k;
        strides[i] = n;
        n *= dims[i] + (form == FORM_GAPS && k == 0);
    }
    if (form == FORM_REPEATED && rank) strides[0] = 0;
}

// Memory that a leaf lies in can be written by optimisers only, so it has a base of its own.
static kiln_tensor *base_of_leaf(struct run *r, const struct source *s)
{
    int i = (int)(s - r->p->source);
    const int64_t n = BASE_SIZE;
    if (s->beside >= 0) return r->leaf_base[i] = r->leaf_base[s->beside];
    return r->leaf_base[i] = draw_tensor(r, r->p->dtype[s->base], 1, &n, 20 + i, r->call);
}

static kiln_tensor *view_of_base(struct run *r, const struct source *s)
{
    int64_t dims[MAX_SOURCE_RANK], strides[MAX_SOURCE_RANK] = {0}, first = 0;
    const struct place *at = &s->at[r->call];
    world_dims(r->p, s, r->call, dims);
    // By an input that shows elements twice a function that writes has no one gradient.
    bool by_inputs = r->p->gradient == GRADIENT_OF || r->p->gradient == GRADIENT_SECOND;
    bool repeats = s->kind == SOURCE_INPUT && !by_inputs;
    enum form form = at->form == FORM_REPEATED && !repeats ? FORM_PLAIN : at->form;
    strides_of(form, s->rank, dims, strides);
    size_t rank = (size_t)s->rank;
    kiln_tensor *base = s->leaf || s->beside >= 0 ? base_of_leaf(r, s) : r->base[s->base];
    kiln_tensor *t = kiln_as_strided(base, rank, dims, rank, strides, at->offset);
    return form == FORM_FLIPPED && rank ? kiln_flip(t, (kiln_ints){1, &first}) : t;
}

static double number_of(const struct run *r, const struct source *s)
{
    int i = (int)(s - r->p->source);
    return (double)((i * 7 + r->call * (1 + i % 2)) % 9 - 3) / 4;
}

struct host_number {
    const struct run *run;
    const struct source *source;
};

static double ask_host(void *user)
{
    const struct host_number *h = user;
    return number_of(h->run, h->source);
}

// In memory that no other handle has.
static kiln_tensor *copy_of(kiln_tensor *t)
{
    kiln_no_grad_begin();
    kiln_tensor *copy = kiln_zeros_like(t);
    kiln_assign(copy, t);
    kiln_no_grad_end();
    kiln_free(&t);
    return copy;
}

static kiln_tensor *make_source(struct run *r, const struct source *s)
{
    kiln_tensor *t;
    int64_t dims[MAX_SOURCE_RANK];
    if (s->same_as >= 0) return kiln_alias(r->source[s->same_as]);
    if (s->stopped >= 0) return kiln_stop_gradient(r->source[s->stopped]);
    switch (s->kind) {
    case SOURCE_NUMBER: return kiln_scalar(number_of(r, s));
    case SOURCE_MUTABLE: return kiln_mutable(number_of(r, s));
    case SOURCE_HOST: return NULL;
    case SOURCE_PARAMETER:
        world_dims(r->p, s, 0, dims);
        t = draw_tensor(r, r->p->dtype[s->base], (size_t)s->rank, dims, 50 + (int)(s - r->p->source), 0);
        return kiln_parameter(t, "w");
    default: t = view_of_base(r, s); break;
    }
    if (s->given) t = copy_of(t);
    if (s->kind == SOURCE_STATE) kiln_state(t);
    if (s->leaf) kiln_set_requires_grad(t, true);
    return t;
}

void world_open(struct run *r)
{
    r->call = 0;
    for (int i = 0; i < BASES; i++) make_base(r, i);
    for (int i = 0; i < r->p->n_sources; i++)
        if (!is_input(&r->p->source[i])) r->source[i] = make_source(r, &r->p->source[i]);
}

// A write with a gradient in the last call left a history in the base. It goes with that call's tape.
static void forget_history(struct run *r, int i)
{
    kiln_tensor *base = kiln_own(kiln_stop_gradient(r->base[i]));
    kiln_free(&r->base[i]);
    r->base[i] = base;
}

// As a step of training leaves its buffers, where it is differentiated.
static void write_states(struct run *r)
{
    const struct program *p = r->p;
    kiln_tensor *factor = NULL;
    for (int i = 0; i < p->n_sources; i++)
        if (p->source[i].kind == SOURCE_PARAMETER && p->source[i].same_as < 0) factor = r->source[i];
    if (!factor) return;
    factor = kiln_add(kiln_scalar(1), kiln_mul(kiln_mean(factor, NULL), kiln_scalar(0.125)));
    for (int i = 0; i < p->n_sources; i++)
        if (p->source[i].kind == SOURCE_STATE && is_float(r->source[i])) kiln_mul_(r->source[i], factor);
}

// A parameter that is passed as an input too is the very handle.
void world_before_call(struct run *r)
{
    const struct program *p = r->p;
    for (int i = 0; i < FIXED && r->call; i++) {
        const int64_t n = BASE_SIZE;
        forget_history(r, i);
        if (p->fresh[r->call] && !holds_state(p, i))
            make_base(r, i);
        else if (p->rewritten[r->call] >> i & 1)
            kiln_assign(r->base[i], draw_tensor(r, p->dtype[i], 1, &n, i, r->call));
    }
    if (p->event[r->call] == EVENT_HISTORY) write_states(r);
    for (int i = 0; i < p->n_sources; i++) {
        const struct source *s = &p->source[i];
        if (!is_input(s)) continue;
        r->source[i] = s->same_as >= 0 ? r->source[s->same_as] : make_source(r, s);
    }
}

kiln_ints world_given(const struct program *p, int64_t *numbers)
{
    kiln_ints given = {0, numbers};
    int64_t n = 0;
    for (int i = 0; i < p->n_sources; i++) {
        if (p->source[i].given) numbers[given.count++] = n;
        n += is_input(&p->source[i]);
    }
    return given;
}

size_t world_inputs(struct run *r, kiln_tensor **in)
{
    size_t n = 0;
    for (int i = 0; i < r->p->n_sources; i++)
        if (is_input(&r->p->source[i])) in[n++] = r->source[i];
    return n;
}

void world_values(struct run *r, kiln_tensor *const *in, kiln_tensor **values)
{
    static struct host_number hosts[WAYS][SOURCES];
    for (int i = 0; i < r->p->n_sources; i++) {
        const struct source *s = &r->p->source[i];
        hosts[r->way][i] = (struct host_number){r, s};
        values[i] = is_input(s)                  ? *in++
                    : s->kind == SOURCE_CONSTANT ? kiln_constant(r->source[i])
                    : s->kind == SOURCE_HOST     ? kiln_host_number(ask_host, &hosts[r->way][i])
                                                 : r->source[i];
    }
}
