// Memory that stays where it is, for what lies somewhere else in each run of a program.
#include "program/records_impl.h"

#define HELD_B     (UINT64_C(256) << 20) // of a device's memory, and no more than a part of it
#define HELD_PART  16
#define STAND_IN_B (INT64_C(1) << 20) // for one input or result
#define ALIGNED_B  256

static uint64_t most_held(kiln_device *dev)
{
    uint64_t part_B = heap_most_B(dev) / HELD_PART;
    return part_B && part_B < HELD_B ? part_B : HELD_B;
}

static bool hold(struct program_records *x, uint64_t size_B, struct block *out)
{
    kiln_device *dev = x->p->dev;
    uint64_t held_B = atomic_load_explicit(&dev->held_B, memory_order_relaxed);
    if (!size_B || held_B + size_B > most_held(dev)) return false;
    if (device_alloc(dev, size_B, out)) {
        kiln_error_clear();
        *out = (struct block){.address = 0};
        return false;
    }
    atomic_fetch_add_explicit(&dev->held_B, size_B, memory_order_relaxed);
    return true;
}

static void let_go(struct program_records *x, struct block *b)
{
    if (!b->address) return;
    device_release(x->p->dev, b);
    atomic_fetch_sub_explicit(&x->p->dev->held_B, b->size_B, memory_order_relaxed);
    *b = (struct block){.address = 0};
}

static bool is_written_over(const struct program *p, const struct place *at)
{
    for (int i = 0; i < p->n_fresh; i++) {
        bool input = at->kind == PLACE_INPUT && p->fresh[i].over == at->index;
        if (input || (at->kind == PLACE_OUTPUT && i == at->index && p->fresh[i].over >= 0)) return true;
    }
    for (int i = 0; i < p->n_targets; i++)
        if (&p->places[p->targets[i]] == at) return true;
    return false;
}

// A small input or result that lies somewhere else in each run: launches take another memory, and it is copied.
static bool stand_in(struct program_records *x, int32_t buffer, const struct program_call *r)
{
    const struct place *at = &x->p->places[buffer];
    struct quantity *q = &x->quantities[buffer];
    if ((at->kind != PLACE_INPUT && at->kind != PLACE_OUTPUT) || is_written_over(x->p, at) || !q->is_used) return false;
    if (at->kind == PLACE_OUTPUT && q->hi_B != INT64_MAX) {
        q->lo_B = 0;
        q->hi_B = (int64_t)x->p->fresh[at->index].size_B;
    }
    if (q->lo_B < -STAND_IN_B || q->hi_B > STAND_IN_B || q->hi_B <= q->lo_B) return false;
    if (!hold(x, (uint64_t)(q->hi_B - q->lo_B) + ALIGNED_B, &q->stand_in)) return false;
    // Aligned as what it stands for.
    uint64_t from = q->stand_in.address - (uint64_t)q->lo_B;
    q->base = from + ((r->base[buffer] - from) & (ALIGNED_B - 1));
    return true;
}

void records_settle(struct program_records *x, const struct program_call *r)
{
    struct quantity *arena = &x->quantities[records_arena_number(x->p)];
    if (arena->moves && hold(x, x->p->arena_B, &x->arena)) *arena = (struct quantity){.n = 0};
    for (int32_t i = 0; i < x->p->n_buffers; i++)
        if (x->quantities[i].moves && !x->quantities[i].base && stand_in(x, i, r)) x->quantities[i].moves = false;
}

static bool meets_target(const struct program_records *x, const struct program_call *r, const struct quantity *q,
                         uint64_t base)
{
    for (int i = 0; i < x->p->n_targets; i++) {
        const struct place *at = &x->p->places[x->p->targets[i]];
        const struct block *b = at->kind == PLACE_INPUT ? &r->in[at->index]->storage->block : &at->storage->block;
        if (base + (uint64_t)q->lo_B < b->address + b->size_B && b->address < base + (uint64_t)q->hi_B) return true;
    }
    return false;
}

bool records_may_copy(const struct program_records *x, const struct program_call *r)
{
    for (int32_t i = 0; i < x->p->n_buffers; i++) {
        const struct quantity *q = &x->quantities[i];
        if (q->base && x->p->places[i].kind == PLACE_INPUT && meets_target(x, r, q, r->base[i])) return false;
    }
    return true;
}

// What launches touch of it, as far as it is there: some read less than they may.
static kiln_status copy_input(const struct program_records *x, const struct quantity *q, const struct program_call *r,
                              int32_t buffer)
{
    const struct block *b = &r->in[x->p->places[buffer].index]->storage->block;
    uint64_t base = r->base[buffer], lo = base + (uint64_t)q->lo_B, hi = base + (uint64_t)q->hi_B;
    if (lo < b->address) lo = b->address;
    if (hi > b->address + b->size_B) hi = b->address + b->size_B;
    return lo < hi ? device_copy(x->p->dev, q->base + (lo - base), lo, hi - lo) : KILN_OK;
}

kiln_status records_copy_in(const struct program_records *x, const struct program_call *r)
{
    for (int32_t i = 0; i < x->p->n_buffers; i++) {
        const struct quantity *q = &x->quantities[x->of_buffer[i]];
        if (!q->base) continue;
        if (x->p->places[i].kind == PLACE_INPUT) TRY(copy_input(x, q, r, i));
        r->base[i] = q->base;
    }
    return KILN_OK;
}

kiln_status records_copy_out(const struct program_records *x, const struct program_call *r)
{
    for (int32_t i = 0; i < x->p->n_buffers; i++) {
        const struct quantity *q = &x->quantities[i];
        const struct place *at = &x->p->places[i];
        if (q->base && at->kind == PLACE_OUTPUT)
            TRY(device_copy(x->p->dev, r->fresh[at->index]->block.address, q->base, (uint64_t)q->hi_B));
    }
    return KILN_OK;
}

void records_let_go(struct program_records *x)
{
    let_go(x, &x->arena);
    for (int32_t i = 0; x->quantities && i < x->p->n_buffers; i++) let_go(x, &x->quantities[i].stand_in);
}
