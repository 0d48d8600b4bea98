// A product on the CPU packs panels of its second factor at each call, as far as that does not lie as the kernel reads
// it. Of a factor that no trip writes this is done once, before the first trip that is laid out. What it is read from
// lies outside of the loop: the same memory in even trips and in odd ones, which nothing that a launch of the loop
// writes, in any trip, touches. Nothing outlives the run, so that no later write can make it stale.
#include "program/series_keep.h"
#include "device/device.h"

enum {
    FEWEST_TRIPS = 3,
    FACTOR = 1, // the operand
    ALIGN_B = 64
};

struct span { // of addresses, [from, to)
    uint64_t from, to;
};

static struct span span_of(const struct launch_operand *o)
{
    return (struct span){o->address + (uint64_t)o->range_lo_B, o->address + (uint64_t)o->range_hi_B};
}

// By how much the address moves in two trips.
static int64_t step_of(const struct series_launch *it, int half, const uint64_t *at)
{
    for (int i = 0; i < it->n_movers; i++)
        if (it->movers[half][i].at == at) return (int64_t)it->movers[half][i].step;
    return 0;
}

static bool meets(struct span a, struct span b)
{
    return a.from < b.to && b.from < a.to;
}

// Whether what is written there in this trip, or in any to come, touches the factor.
static bool reaches(struct span written, int64_t step, int64_t turns, struct span factor)
{
    int64_t way;
    if (written.from == written.to) return false;
    if (__builtin_mul_overflow(step, turns, &way)) return true;
    if (way > 0 && __builtin_add_overflow(written.to, (uint64_t)way, &written.to)) return true;
    if (way < 0 && __builtin_sub_overflow(written.from, (uint64_t)-way, &written.from)) return true;
    return meets(written, factor);
}

static bool launch_writes(const struct series_launch *it, int half, int64_t turns, struct span factor)
{
    if (it->plain[half]) {
        const struct launch *l = it->plain[half];
        for (int i = 0; i < l->n_operands; i++) {
            const struct launch_operand *o = &l->operands[i];
            bool writes = (o->flags & OPERAND_WRITE) && !(o->flags & OPERAND_IMMEDIATE);
            if (writes && reaches(span_of(o), step_of(it, half, &o->address), turns, factor)) return true;
        }
        return false;
    }
    const struct action_operand *o = it->a->operands + (it->l - it->a->compiled) * it->a->n_operands;
    for (int i = 0; i < it->a->n_operands; i++) {
        const uint64_t *at = &it->words[half][i];
        struct span span = {*at + (uint64_t)o[i].lo_B, *at + (uint64_t)o[i].hi_B};
        if (o[i].write && reaches(span, step_of(it, half, at), turns, factor)) return true;
    }
    return false;
}

static bool is_written(const struct series_launches *all, int64_t turns, struct span factor)
{
    for (int i = 0; i < all->n; i++)
        for (int half = 0; half < 2; half++)
            if (launch_writes(&all->v[i], half, turns, factor)) return true;
    return false;
}

static uint64_t aligned(uint64_t size_B)
{
    return (size_B + ALIGN_B - 1) / ALIGN_B * ALIGN_B;
}

// The bytes that the factor of a launch takes; 0: it is read as it lies, or is not the same in all trips.
static uint64_t factor_B(const struct program_series *s, const struct series_launches *cond,
                         const struct series_launches *body, const struct series_launch *it)
{
    const struct launch *even = it->plain[0], *odd = it->plain[1];
    kiln_device *dev = s->body.p->dev;
    if (!even || even->n_operands <= FACTOR || (even->operands[FACTOR].flags & (OPERAND_IMMEDIATE | OPERAND_WRITE)))
        return 0;
    const struct launch_operand *o = &even->operands[FACTOR];
    uint64_t size_B = dev->ops->keep(dev, even, NULL);
    if (!size_B || o->address != odd->operands[FACTOR].address || step_of(it, 0, &o->address)) return 0;
    int64_t turns = (s->end - s->first) / 2 + 1;
    return is_written(cond, turns, span_of(o)) || is_written(body, turns, span_of(o)) ? 0 : size_B;
}

static uint64_t keep_in(const struct program_series *s, const struct series_launches *cond,
                        const struct series_launches *body, struct series_launches *all, char *to)
{
    uint64_t at_B = 0;
    for (int i = 0; i < all->n; i++) { // none: v is NULL
        struct series_launch *it = &all->v[i];
        uint64_t size_B = factor_B(s, cond, body, it);
        if (to && size_B) {
            s->body.p->dev->ops->keep(s->body.p->dev, it->plain[0], to + at_B);
            it->plain[0]->kept = it->plain[1]->kept = to + at_B;
        }
        at_B += aligned(size_B);
    }
    return at_B;
}

void series_keep_factors(const struct program_series *s, struct series_launches *cond, struct series_launches *body,
                         struct kept_factors *out)
{
    kiln_device *dev = s->body.p->dev;
    *out = (struct kept_factors){.dev = NULL};
    if (!dev->ops->keep || s->end - s->first < FEWEST_TRIPS) return;
    uint64_t cond_B = keep_in(s, cond, body, cond, NULL), body_B = keep_in(s, cond, body, body, NULL);
    if (cond_B + body_B == 0) return;
    if (device_alloc(dev, cond_B + body_B, &out->block)) {
        kiln_error_clear(); // each trip packs as it goes
        return;
    }
    out->dev = dev;
    keep_in(s, cond, body, cond, out->block.host);
    keep_in(s, cond, body, body, (char *)out->block.host + cond_B);
}

void series_drop_kept(struct kept_factors *k)
{
    if (k->dev) device_release(k->dev, &k->block);
    k->dev = NULL;
}
