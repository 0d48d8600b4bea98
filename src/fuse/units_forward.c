// Copies that are not needed: of a whole buffer that nobody reads any more into a new one, which parts are written to.
// What changes a value piece by piece gives a chain of them, each a copy of all for the sake of one piece.
//
// Input: a unit that moves buffer A, all of it and in order, to B, where A is written more than once already, so that
// nothing is fused through it, nobody else sees it, and all its readers and writers come before. Output: the unit is
// gone, and whoever writes or reads A has B.
#include "fuse/units.h"

struct use {
    int32_t first_write, last; // units
};

static void find_uses(const struct units *u, struct use *uses)
{
    for (size_t i = 0; i < u->buffers.n; i++) uses[i] = (struct use){INT32_MAX, -1};
    for (int32_t i = 0; i < (int32_t)u->v.n; i++) {
        const struct unit *unit = &u->v.v[i];
        for (int o = 0; o < unit_n_operands(unit); o++) {
            if (unit_operands(unit)[o].flags & OPERAND_IMMEDIATE) continue;
            struct use *use = &uses[unit_operands(unit)[o].slot];
            use->last = i;
            if (unit_writes(unit, o) && use->first_write > i) use->first_write = i;
        }
    }
}

static bool is_dense(const struct unit *unit, int operand, int64_t numel)
{
    const struct launch_operand *o = &unit->l.operands[operand];
    int64_t stride = 1;
    for (int d = unit->l.rank; d-- > 0; stride *= unit->l.sizes[d])
        if (unit->l.sizes[d] != 1 && o->strides[d] != stride) return false;
    return o->address == 0 && stride == numel;
}

static bool can_forward(const struct units *u, const struct use *uses, int32_t i)
{
    const struct unit *unit = &u->v.v[i];
    const struct launch_operand *in = &unit->l.operands[0], *out = &unit->l.operands[1];
    if (!unit->body || !unit->body->moves || unit->n_in != 1 || unit->l.n_operands != 2 || unit->n_parts) return false;
    if ((in->flags & OPERAND_IMMEDIATE) || in->slot == out->slot) return false;
    const struct unit_buffer *a = &u->buffers.v[in->slot], *b = &u->buffers.v[out->slot];
    if (unit_buffer_is_given(a) || unit_buffer_is_given(b) || a->kept || a->n_writes < 2) return false;
    if (a->dtype != b->dtype || a->numel != b->numel) return false;
    if (uses[in->slot].last != i || uses[out->slot].first_write != i) return false;
    return is_dense(unit, 0, a->numel) && is_dense(unit, 1, a->numel);
}

static uint32_t target(const int32_t *forwarded, uint32_t buffer)
{
    while (forwarded[buffer] >= 0) buffer = (uint32_t)forwarded[buffer];
    return buffer;
}

static void rename(struct launch_operand *operands, int n, const int32_t *forwarded)
{
    for (int o = 0; o < n; o++)
        if (!(operands[o].flags & OPERAND_IMMEDIATE)) operands[o].slot = target(forwarded, operands[o].slot);
}

kiln_status units_forward(struct units *u)
{
    struct use *uses = arena_alloc(&u->arena, sizeof *uses * (u->buffers.n + 1));
    int32_t *forwarded = arena_alloc(&u->arena, sizeof *forwarded * (u->buffers.n + 1));
    if (!uses || !forwarded) return error_pending;
    find_uses(u, uses);
    for (size_t i = 0; i < u->buffers.n; i++) forwarded[i] = -1;
    for (int32_t i = 0; i < (int32_t)u->v.n; i++) {
        if (!can_forward(u, uses, i)) continue;
        struct unit *unit = &u->v.v[i];
        forwarded[unit->l.operands[0].slot] = unit->l.operands[1].slot;
        unit_drop(unit);
    }
    for (size_t i = 0; i < u->v.n; i++) {
        if (u->v.v[i].region) rename(u->v.v[i].region->operands, u->v.v[i].region->n_operands, forwarded);
        rename(u->v.v[i].l.operands, u->v.v[i].l.n_operands, forwarded);
        if (u->v.v[i].plain) rename(u->v.v[i].plain->operands, u->v.v[i].plain->n_operands, forwarded);
        for (int k = 0; k < u->v.v[i].n_parts; k++)
            rename(u->v.v[i].parts[k].operands, u->v.v[i].parts[k].n_operands, forwarded);
    }
    return KILN_OK;
}
