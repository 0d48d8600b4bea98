// Backward programs of captured functions: one for each set of gradients that arrives.
#include "jit/function.h"
#include "grad/fit.h"
#include "grad/tape.h"
#include <kiln/ops.h>
#include <stdlib.h>
#include <string.h>

struct backward_run {
    struct entry *e;
    struct gradient *g;
    struct backward *b;
    bool kept; // *b; otherwise it is this run's
    bool arrived[UINT8_MAX];
};

// Which program

static bool is_whole(struct backward_run *r, kiln_tensor *const *dout)
{
    bool whole = true;
    for (size_t i = 0; i < r->g->n_outputs; i++) {
        if (r->g->douts[i] < 0) continue;
        r->arrived[r->g->douts[i]] = dout[i] != NULL;
        whole &= dout[i] != NULL;
    }
    return whole;
}

static void number_outputs(const struct gradient *g, const bool *absent, int32_t *outputs)
{
    int32_t n = 0;
    for (size_t i = 0; i < g->n_targets; i++) {
        outputs[i] = -1;
        if (g->all.outputs[i] >= 0 && !absent[g->all.outputs[i]]) outputs[i] = n++;
    }
}

static kiln_status fill(const struct backward_run *r, bool *absent, struct backward *b)
{
    const struct gradient *g = r->g;
    b->outputs = malloc(sizeof *b->outputs * (g->n_targets + 1));
    b->arrived = malloc(g->n_douts + 1);
    if (!b->outputs || !b->arrived) return error_set(KILN_E_MEMORY, "backward: out of memory");
    memcpy(b->arrived, r->arrived, g->n_douts);
    TRY(graph_of_arrived(g->all.graph, r->arrived, g->n_douts, absent, &b->graph));
    number_outputs(g, absent, b->outputs);
    return KILN_OK;
}

static kiln_status make_backward(const struct backward_run *r, struct backward **out)
{
    *out = NULL;
    bool *absent = malloc(r->g->all.graph->outputs.n + 1);
    struct backward *b = calloc(1, sizeof *b);
    kiln_status status = absent && b ? KILN_OK : error_set(KILN_E_MEMORY, "backward: out of memory");
    if (!status) status = fill(r, absent, b);
    free(absent);
    if (!status) *out = b;
    if (!status) return KILN_OK;
    if (b) backward_finish(b);
    free(b);
    return status;
}

// With the lock.
static kiln_status find(struct backward_run *r)
{
    size_t n = 0;
    for (struct backward *b = r->g->some; b; b = b->next, n++) {
        if (memcmp(b->arrived, r->arrived, r->g->n_douts) != 0) continue;
        r->b = b;
        return KILN_OK;
    }
    TRY(make_backward(r, &r->b));
    r->kept = n < BACKWARDS_MAX;
    if (!r->kept) return KILN_OK;
    r->b->next = r->g->some;
    r->g->some = r->b;
    return KILN_OK;
}

// The program

static kiln_status compile(const struct backward_run *r, struct str *picture, struct program **out)
{
    const struct entry *e = r->e;
    const struct captured *c = &e->captured;
    const struct gradient *g = r->g;
    const struct layout **layouts = calloc(g->n_douts + g->n_saved + 1, sizeof *layouts);
    bool *numbers = calloc(g->n_douts + g->n_saved + 1, sizeof *numbers);
    kiln_status status = layouts && numbers ? KILN_OK : error_set(KILN_E_MEMORY, "backward: out of memory");
    for (size_t i = 0; i < g->n_saved && !status; i++) {
        const struct source *s = g->saved[i].source < 0 ? NULL : &c->sources[g->saved[i].source];
        numbers[g->n_douts + i] = s && source_is_number(s);
        if (s && !s->row_major) layouts[g->n_douts + i] = &s->layout;
    }
    struct program_options options = e->how;
    options.numbers = numbers;
    options.background = false;
    options.picture = picture;
    if (!status) status = program_create(r->b->graph, c->dev, layouts, &options, out);
    free(layouts);
    free(numbers);
    return status;
}

kiln_status entry_picture_backward(struct entry *e, struct str *out)
{
    struct gradient *g = &e->captured.gradient;
    struct backward_run r = {.e = e, .g = g, .b = &g->all};
    struct program *none;
    return compile(&r, out, &none);
}

// p: NULL for node by node, as where more sets of gradients arrived than programs are kept for.
static kiln_status prepare(struct backward_run *r, bool compiled, kiln_tensor *const *dout, struct program **p)
{
    *p = NULL;
    r->b = &r->g->all;
    r->kept = true;
    bool whole = is_whole(r, dout);
    pthread_mutex_lock(&r->g->lock);
    kiln_status status = whole ? KILN_OK : find(r);
    if (!status && compiled && r->kept) {
        *p = atomic_load(&r->b->program);
        if (!*p) status = compile(r, NULL, p);
        if (!status) atomic_store(&r->b->program, *p);
    }
    pthread_mutex_unlock(&r->g->lock);
    return status;
}

// Running it

static kiln_status place_dout(const struct backward_run *r, size_t i, kiln_tensor *given, kiln_tensor **out)
{
    struct type type;
    grad_type_of(&r->g->types[i], &type);
    *out = given ? kiln_contiguous(given) : tensor_empty(r->e->captured.dev, &type); // which is not read
    return *out ? KILN_OK : error_pending;
}

static kiln_status run(const struct backward_run *r, struct program *p, kiln_tensor *const *kept, const struct rng *rng,
                       kiln_tensor *const *dout, kiln_tensor **din)
{
    const struct gradient *g = r->g;
    kiln_tensor **room = calloc(g->n_douts + g->n_saved + g->n_targets + 1, sizeof *room);
    if (!room) return error_set(KILN_E_MEMORY, "backward: out of memory");
    kiln_tensor **grads = room + g->n_douts + g->n_saved;
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < g->n_outputs && !status; i++)
        if (g->douts[i] >= 0) status = place_dout(r, i, dout[i], &room[g->douts[i]]);
    for (size_t i = 0; i < g->n_saved && !status; i++) {
        const struct saved *s = &g->saved[i];
        size_t n_sources = r->e->captured.n_sources;
        room[g->n_douts + i] = kept[s->source >= 0 ? (size_t)s->source : n_sources + i];
    }
    if (!status) status = entry_run_graph(r->e, p, r->b->graph, room, rng, grads);
    for (size_t i = 0; i < g->n_targets && !status; i++) din[i] = r->b->outputs[i] < 0 ? NULL : grads[r->b->outputs[i]];
    free(room);
    return status;
}

kiln_status entry_run_backward(struct entry *e, bool compiled, kiln_tensor *const *kept, const struct rng *rng,
                               kiln_tensor *const *dout, kiln_tensor **din)
{
    struct backward_run r = {.e = e, .g = &e->captured.gradient, .kept = true};
    struct program *p;
    kiln_status status = prepare(&r, compiled, dout, &p);
    if (!status) status = run(&r, p, kept, rng, dout, din);
    if (!r.kept && r.b) {
        backward_finish(r.b);
        free(r.b);
    }
    return status;
}
