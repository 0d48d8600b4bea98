// Copies that are not needed: of a whole buffer that nobody reads any more into a new one, which parts are written to.
// What changes a value piece by piece gives a chain of them, each a copy of all for the sake of one piece.
//
// Input: a unit that moves buffer A, all of it and in order, to B, where A is written more than once already, so that
// nothing is fused through it, nobody else sees it, and all its readers and writers come before. Output: the unit is
// gone, and whoever writes or reads A has B. The same where A is written once, by a unit that reads no memory, and B is
// written again: what fills A fills B.
//
// The same once more where the chain begins and ends in given memory X: a unit that moves all of X to A, which alone
// reads what X held, and one that writes A back to X. Both are gone, and whoever writes or reads A has X: what a loop
// carries, or a function keeps, is changed where it lies. X must not be seen by another name.
#include "fuse/units.h"

struct use {
    int32_t first_write, last; // units
    int32_t n_reads;
};

static void find_uses(const struct units *u, struct use *uses)
{
    for (size_t i = 0; i < u->buffers.n; i++) uses[i] = (struct use){INT32_MAX, -1, 0};
    for (int32_t i = 0; i < (int32_t)u->v.n; i++) {
        const struct unit *unit = &u->v.v[i];
        for (int o = 0; o < unit_n_operands(unit); o++) {
            if (unit_operands(unit)[o].flags & OPERAND_IMMEDIATE) continue;
            struct use *use = &uses[unit_operands(unit)[o].slot];
            use->last = i;
            if (unit_writes(unit, o) && use->first_write > i) use->first_write = i;
            use->n_reads += unit_reads(unit, o);
        }
    }
}

// It moves a whole buffer into another one.
static bool moves_all(const struct units *u, const struct unit *unit)
{
    const struct launch_operand *in = &unit->l.operands[0], *out = &unit->l.operands[1];
    if (!unit->body || !unit->body->moves || unit->n_in != 1 || unit->l.n_operands != 2 || unit->n_parts) return false;
    if ((in->flags & OPERAND_IMMEDIATE) || in->slot == out->slot) return false;
    const struct unit_buffer *a = &u->buffers.v[in->slot], *b = &u->buffers.v[out->slot];
    if (a->dtype != b->dtype || a->numel != b->numel) return false;
    bool whole = unit_points(unit, unit->l.rank) == a->numel;
    return whole && unit_is_dense(unit, 0, unit->l.rank) && unit_is_dense(unit, 1, unit->l.rank);
}

// Nothing is lost where it is not fused with what reads it.
static bool only_fills(const struct units *u, const struct use *uses, uint32_t buffer)
{
    if (uses[buffer].n_reads != 1 || uses[buffer].first_write == INT32_MAX) return false;
    const struct unit *unit = &u->v.v[uses[buffer].first_write];
    if (!unit->body || unit->n_parts || unit->l.n_operands != unit->n_in + 1) return false;
    for (int o = 0; o < unit->n_in; o++)
        if (!(unit->l.operands[o].flags & OPERAND_IMMEDIATE)) return false;
    return true;
}

static bool can_forward(const struct units *u, const struct use *uses, int32_t i)
{
    const struct unit *unit = &u->v.v[i];
    if (!moves_all(u, unit)) return false;
    uint32_t in = unit->l.operands[0].slot, out = unit->l.operands[1].slot;
    const struct unit_buffer *a = &u->buffers.v[in], *b = &u->buffers.v[out];
    if (unit_buffer_is_given(a) || unit_buffer_is_given(b) || a->kept) return false;
    if (a->n_writes < 2 && !(b->n_writes > 1 && only_fills(u, uses, in))) return false;
    return uses[in].last == i && uses[out].first_write == i;
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

static void rename_all(struct units *u, const int32_t *forwarded)
{
    for (size_t i = 0; i < u->graph->values.n; i++)
        if (u->values[i].buffer >= 0) u->values[i].buffer = (int32_t)target(forwarded, (uint32_t)u->values[i].buffer);
    for (size_t i = 0; i < u->v.n; i++) {
        if (u->v.v[i].region) rename(u->v.v[i].region->operands, u->v.v[i].region->n_operands, forwarded);
        rename(u->v.v[i].l.operands, u->v.v[i].l.n_operands, forwarded);
        if (u->v.v[i].plain) rename(u->v.v[i].plain->operands, u->v.v[i].plain->n_operands, forwarded);
        for (int k = 0; k < u->v.v[i].n_parts; k++)
            rename(u->v.v[i].parts[k].operands, u->v.v[i].parts[k].n_operands, forwarded);
    }
}

static void forward_chains(struct units *u, const struct use *uses, int32_t *forwarded)
{
    for (size_t i = 0; i < u->buffers.n; i++) forwarded[i] = -1;
    for (int32_t i = 0; i < (int32_t)u->v.n; i++) {
        if (!can_forward(u, uses, i)) continue;
        struct unit *unit = &u->v.v[i];
        forwarded[unit->l.operands[0].slot] = unit->l.operands[1].slot;
        unit_drop(unit);
    }
    rename_all(u, forwarded);
}

// Whether unit i writes back what began as a copy of the same memory, which *first made.
static bool can_stay(const struct units *u, const struct use *uses, int32_t i, int32_t *first)
{
    const struct unit *back = &u->v.v[i];
    if (back->node >= 0 || !moves_all(u, back)) return false;
    uint32_t a = back->l.operands[0].slot, x = back->l.operands[1].slot;
    const struct unit_buffer *of_a = &u->buffers.v[a], *of_x = &u->buffers.v[x];
    if (of_x->kind != BUFFER_INPUT || unit_buffer_is_given(of_a) || of_a->kept) return false;
    *first = uses[a].first_write;
    if (uses[x].n_reads != 1 || uses[x].first_write != i || *first >= i) return false;
    const struct unit *copy = &u->v.v[*first];
    return moves_all(u, copy) && copy->l.operands[0].slot == x;
}

static void forward_home(struct units *u, const struct use *uses, int32_t *forwarded)
{
    for (size_t i = 0; i < u->buffers.n; i++) forwarded[i] = -1;
    for (int32_t i = 0, first; i < (int32_t)u->v.n; i++) {
        if (!can_stay(u, uses, i, &first)) continue;
        uint32_t x = u->v.v[i].l.operands[1].slot;
        forwarded[u->v.v[i].l.operands[0].slot] = x;
        u->buffers.v[x].in_place = true;
        unit_drop(&u->v.v[i]);
        unit_drop(&u->v.v[first]);
    }
    rename_all(u, forwarded);
}

kiln_status units_forward(struct units *u, bool in_place)
{
    struct use *uses = arena_alloc(&u->arena, sizeof *uses * (u->buffers.n + 1));
    int32_t *forwarded = arena_alloc(&u->arena, sizeof *forwarded * (u->buffers.n + 1));
    if (!uses || !forwarded) return error_pending;
    find_uses(u, uses);
    forward_chains(u, uses, forwarded);
    if (!in_place) return KILN_OK;
    find_uses(u, uses);
    forward_home(u, uses, forwarded);
    return KILN_OK;
}
