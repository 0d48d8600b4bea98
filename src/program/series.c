// Loops over launches that are laid out before the first trip.
#include "program/series.h"
#include "program/series_code.h"
#include "program/series_keep.h"
#include "device/profile.h"
#include "program/bind.h"
#include "tensor/flow.h"

const char *program_series_refuses(const struct program *p)
{
    if (!p->dev->caps.host || p->dev->ops->gates || p->dev->ops->batch) return "the device takes launches in batches";
    if (p->reference) return "kernels are interpreted";
    if (p->n_zones) return "redzones are laid in each trip";
    for (int i = 0; i < p->n_actions; i++) {
        const struct action *a = &p->actions[i];
        if (a->region) return "a condition or a loop inside";
        if (a->host) return "a call of the host";
        if (a->random) return "random numbers";
        if (a->compiled && !jit_is_wide(a->compiled)) return "kernels of a GPU";
        if (a->plain && (user_kernel(a->plain->kernel) || !p->dev->ops->supports(p->dev, a->plain)))
            return a->plain->op;
    }
    return NULL;
}

static int count_items(const struct program *p)
{
    int n = 0;
    for (int i = 0; i < p->n_actions; i++) n += p->actions[i].n_entries;
    return n;
}

static void add_mover(const struct series_child *c, struct series_launch *it, int half, int32_t buffer, uint64_t *at)
{
    const struct place *place = &c->p->places[buffer];
    int64_t step = place->kind == PLACE_INPUT ? c->step[place->index] : 0;
    if (step) it->movers[half][it->n_movers++] = (struct mover){at, (uint64_t)step};
}

static kiln_status lay_compiled(const struct series_child *c, const struct program_call *turn, int entry, int half,
                                struct arena *memory, struct series_launch *it)
{
    struct argument_room room;
    struct jit_arguments arguments;
    it->l = &it->a->compiled[entry];
    it->words[half] = arena_alloc(memory, sizeof **it->words * (size_t)it->l->c.n_words);
    if (!it->words[half]) return error_pending;
    bind_arguments(turn, it->a, entry, &room, &arguments);
    arguments.failed = &it->failed;
    jit_launch_lay(it->l, &arguments, it->words[half], &it->launch[half]);
    it->launch[half].ranges = NULL; // the host's memory is not tracked
    it->launch[half].n_ranges = 0;
    it->numbered = jit_takes_number(it->l, c->number);
    const struct action_operand *o = it->a->operands + entry * it->a->n_operands;
    for (int i = 0; i < it->a->n_operands; i++) add_mover(c, it, half, o[i].buffer, &it->words[half][i]);
    return KILN_OK;
}

static bool is_number(const struct launch_operand *o, int number)
{
    return (o->flags & OPERAND_IMMEDIATE) && o->slot && (int)(o->slot & ~SLOT_SCALAR) == number;
}

static kiln_status lay_plain(const struct series_child *c, const struct program_call *turn, int half,
                             struct arena *memory, struct series_launch *it)
{
    struct launch *l = it->plain[half] = arena_alloc(memory, sizeof *l);
    if (!l) return error_pending;
    bind_plain(turn, it->a, l);
    for (int i = 0; i < l->n_operands; i++) {
        it->numbered |= is_number(&l->operands[i], c->number);
        if (!(l->operands[i].flags & OPERAND_IMMEDIATE))
            add_mover(c, it, half, (int32_t)l->operands[i].slot, &l->operands[i].address);
    }
    return KILN_OK;
}

static kiln_status lay_turn(const struct series_child *c, int half, uint64_t arena, struct arena *memory,
                            struct series_launch *items)
{
    struct program_call turn = {.p = c->p, .args = c->turns[half], .arena = arena};
    turn.base = arena_alloc(memory, sizeof *turn.base * (size_t)(c->p->n_buffers + 1));
    if (!turn.base) return error_pending;
    bind_bases(&turn);
    for (int i = 0, n = 0; i < c->p->n_actions; i++) {
        const struct action *a = &c->p->actions[i];
        for (int entry = 0; entry < a->n_entries; entry++, n++) {
            struct series_launch *it = &items[n];
            size_t most = a->plain ? a->plain->n_operands : (size_t)a->n_operands;
            it->a = a;
            it->n_movers = 0;
            it->movers[half] = arena_alloc(memory, sizeof **it->movers * (most + 1));
            if (!it->movers[half]) return error_pending;
            TRY(a->plain ? lay_plain(c, &turn, half, memory, it) : lay_compiled(c, &turn, entry, half, memory, it));
        }
    }
    return KILN_OK;
}

static kiln_status lay(const struct series_child *c, uint64_t arena, struct arena *memory, struct series_launches *out)
{
    *out = (struct series_launches){.child = c};
    if (!c->p) return KILN_OK;
    out->n = count_items(c->p);
    out->launches = c->p->n_actions;
    out->v = arena_alloc(memory, sizeof *out->v * (size_t)(out->n + 1));
    if (!out->v) return error_pending;
    for (int half = 0; half < 2; half++) TRY(lay_turn(c, half, arena, memory, out->v));
    return KILN_OK;
}

static void set_number(const struct series_launch *it, int number, int half, int64_t trip)
{
    const struct program_argument a = {.number = (double)trip, .integer = trip};
    if (it->l) {
        jit_set_number(it->l, it->words[half], number, trip);
        return;
    }
    struct launch *l = it->plain[half];
    for (int i = 0; i < l->n_operands; i++)
        if (is_number(&l->operands[i], number))
            l->operands[i].address = program_number_bits(&a, kernel_info(l->kernel)->in_cls[i]);
}

static kiln_status run_item(kiln_device *dev, const struct series_launch *it, int half)
{
    struct profile_span span = profile_span_of_launch(dev, it->l ? it->l->name : it->plain[half]->op, it->a->facts);
    kiln_status status =
        it->l ? dev->ops->launch_compiled(dev, &it->launch[half]) : dev->ops->launch(dev, it->plain[half]);
    profile_span_end(&span);
    return status;
}

static kiln_status run_trip(kiln_device *dev, const struct series_launches *items, int64_t trip)
{
    int half = (int)(trip & 1);
    for (struct series_launch *it = items->v; it < items->v + items->n; it++) {
        if (it->numbered) set_number(it, items->child->number, half, trip);
        TRY(run_item(dev, it, half));
        if (KILN_UNLIKELY(it->failed)) return bind_index_error(items->child->p, it->a);
        for (int i = 0; i < it->n_movers; i++) *it->movers[half][i].at += it->movers[half][i].step;
    }
    return KILN_OK;
}

// By single launches, up to `end`.
static kiln_status run_trips(const struct program_series *s, const struct series_launches *cond,
                             const struct series_launches *body, int64_t end, int64_t *trip, bool *ended)
{
    kiln_device *dev = s->body.p->dev;
    for (; *trip < end; ++*trip) {
        if (cond->n) {
            TRY(run_trip(dev, cond, *trip));
            *ended = !*s->flag;
            if (*ended) return KILN_OK;
        }
        s->at->trip = *trip;
        TRY(run_trip(dev, body, *trip));
    }
    return KILN_OK;
}

static kiln_status run_all(const struct program_series *s, const struct series_launches *cond,
                           const struct series_launches *body, struct arena *memory, int64_t *trip, bool *ended)
{
    int64_t alone = series_code_wait(s->code, cond, body), first = *trip;
    TRY(run_trips(s, cond, body, alone < s->end - first ? first + alone : s->end, trip, ended));
    if (alone < INT64_MAX) series_code_count(s->code, *trip - first);
    if (*ended || *trip >= s->end) return KILN_OK;
    if (!series_code_run(s, cond, body, memory, trip)) return run_trips(s, cond, body, s->end, trip, ended);
    *ended = cond->n && *trip < s->end;
    return KILN_OK;
}

kiln_status program_series_run(const struct program_series *s, struct arena *memory, int64_t *trips, bool *ended)
{
    struct series_launches body, cond;
    int64_t trip = s->first;
    TRY(lay(&s->body, s->arena, memory, &body));
    TRY(lay(&s->cond, s->arena, memory, &cond));
    *ended = false;
    struct kept_factors kept;
    series_keep_factors(s, &cond, &body, &kept);
    kiln_status status = run_all(s, &cond, &body, memory, &trip, ended);
    series_drop_kept(&kept);
    int64_t conds = cond.n ? trip - s->first + (*ended || status != KILN_OK) : 0;
    device_count_launches(s->body.p->dev, (uint64_t)((trip - s->first) * body.launches + conds * cond.launches));
    *trips = trip;
    return status;
}
