// Where the buffers of a program lie, and the workspaces of its kernels.
#include "fuse/memory.h"
#include "device/redzone.h"
#include "program/maker.h"
#include "program/region.h"
#include <stdlib.h>

struct use {
    int32_t first, last;
};

static void touch(struct use *u, int32_t step)
{
    if (u->first < 0) u->first = step;
    u->last = step;
}

static void find_uses(const struct program_maker *m, struct use *uses)
{
    for (size_t i = 0; i < m->units.buffers.n; i++) uses[i] = (struct use){-1, -1};
    for (size_t i = 0; i < m->actions.n; i++) {
        const struct action *a = &m->actions.v[i];
        for (int o = 0; o < a->n_operands * a->n_entries; o++) touch(&uses[a->operands[o].buffer], (int32_t)i);
        for (int o = 0; a->plain && o < a->plain->n_operands; o++)
            if (!(a->plain->operands[o].flags & OPERAND_IMMEDIATE))
                touch(&uses[a->plain->operands[o].slot], (int32_t)i);
    }
}

static uint64_t buffer_B(const struct unit_buffer *b)
{
    return (uint64_t)b->numel * dtype_size_B[b->dtype];
}

static kiln_status place_given(struct program_maker *m, size_t i)
{
    struct program *p = m->p;
    const struct unit_buffer *b = &m->units.buffers.v[i];
    struct place *place = &p->places[i];
    if (b->writer >= 0) p->targets[p->n_targets++] = (int32_t)i;
    if (b->kind == BUFFER_INPUT) {
        *place = (struct place){.kind = PLACE_INPUT, .index = p->n_inputs++};
        return KILN_OK;
    }
    const kiln_tensor *t = m->g->values.v[b->value].held;
    if (!t || !t->storage) return error_set(KILN_E_INTERNAL, "graph: a constant without memory");
    *place = (struct place){.kind = PLACE_CONSTANT, .storage = storage_ref(t->storage)};
    return KILN_OK;
}

// Workspaces of kernels join the buffers as temporaries of one step, those that must be zero have memory of their own.
static void find_temporaries(const struct program_maker *m, const struct use *uses, struct plan_buffer *b)
{
    const struct program *p = m->p;
    size_t n_buffers = m->units.buffers.n;
    for (size_t i = 0; i < n_buffers + m->actions.n; i++) b[i].flags = PLAN_INPUT;
    for (size_t i = 0; i < n_buffers; i++)
        if (p->places[i].kind == PLACE_ARENA)
            b[i] = (struct plan_buffer){buffer_B(&m->units.buffers.v[i]), uses[i].first, uses[i].last, 0};
    for (size_t i = 0; i < m->actions.n; i++) {
        const struct jit_launch *l = m->actions.v[i].compiled;
        const struct program_region *r = m->actions.v[i].region;
        uint64_t workspace_B = r ? r->workspace_B : l && !l->c.workspace_zeroed ? l->c.workspace_B : 0;
        if (workspace_B) b[n_buffers + i] = (struct plan_buffer){workspace_B, (int32_t)i, (int32_t)i, 0};
    }
}

// Each temporary gets room for zones on both sides, and lies behind the first one.
static kiln_status plan_with_zones(struct program *p, struct plan_buffer *b, size_t n, struct memory_plan *plan)
{
    p->zones = arena_alloc(&p->arena, sizeof *p->zones * (n + 1));
    if (!p->zones) return error_pending;
    for (size_t i = 0; i < n; i++) b[i].size_B += b[i].flags || !b[i].size_B ? 0 : 2 * REDZONE_B;
    TRY(memory_plan_make(b, (int32_t)n, NULL, 0, plan));
    for (size_t i = 0; i < n; i++) {
        if (plan->offset_B[i] == PLAN_NOWHERE) continue;
        uint64_t room_B = (b[i].size_B + PLAN_ALIGN_B - 1) / PLAN_ALIGN_B * PLAN_ALIGN_B;
        uint64_t size_B = b[i].size_B - 2 * REDZONE_B;
        plan->offset_B[i] += REDZONE_B;
        p->zones[p->n_zones++] =
            (struct program_zone){plan->offset_B[i], size_B, room_B - REDZONE_B - size_B, b[i].first, b[i].last};
    }
    return KILN_OK;
}

static kiln_status plan_arena(struct program_maker *m, const struct use *uses)
{
    struct program *p = m->p;
    size_t n_buffers = m->units.buffers.n, n = n_buffers + m->actions.n;
    struct plan_buffer *b = calloc(n + 1, sizeof *b);
    struct memory_plan plan = {0};
    if (!b) return error_set(KILN_E_MEMORY, "graph: out of memory");
    find_temporaries(m, uses, b);
    kiln_status status =
        heap_has_redzones(p->dev) ? plan_with_zones(p, b, n, &plan) : memory_plan_make(b, (int32_t)n, NULL, 0, &plan);
    for (size_t i = 0; i < n_buffers && !status; i++)
        if (p->places[i].kind == PLACE_ARENA) p->places[i].offset_B = plan.offset_B[i];
    for (size_t i = 0; i < m->actions.n && !status; i++)
        if (!(b[n_buffers + i].flags & PLAN_INPUT)) m->actions.v[i].workspace_at_B = plan.offset_B[n_buffers + i];
    p->arena_B = p->facts.arena_B = plan.total_B;
    p->facts.naive_B = plan.naive_B;
    memory_plan_free(&plan);
    free(b);
    return status;
}

kiln_status maker_place_all(struct program_maker *m)
{
    struct program *p = m->p;
    size_t n = m->units.buffers.n;
    struct use *uses = malloc(sizeof *uses * (n + 1));
    if (!uses) return error_set(KILN_E_MEMORY, "graph: out of memory");
    find_uses(m, uses);
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < n && !status; i++) {
        const struct unit_buffer *b = &m->units.buffers.v[i];
        if (unit_buffer_is_given(b)) {
            status = place_given(m, i);
        } else if (b->kept) {
            p->places[i] = (struct place){.kind = PLACE_OUTPUT, .index = p->n_fresh};
            p->fresh_B[p->n_fresh++] = buffer_B(b);
        } else if (uses[i].first >= 0) {
            p->places[i].kind = PLACE_ARENA;
        }
    }
    p->n_buffers = (int)n;
    if (!status) status = plan_arena(m, uses);
    free(uses);
    return status;
}

kiln_status maker_make_zeroed(struct program_maker *m)
{
    struct program *p = m->p;
    static const char zeros[4096];
    for (size_t i = 0; i < m->actions.n; i++) {
        const struct jit_launch *l = m->actions.v[i].compiled;
        if (!l || !l->c.workspace_B || !l->c.workspace_zeroed) continue;
        m->actions.v[i].workspace_at_B = p->zeroed_B;
        p->zeroed_B += (l->c.workspace_B + 255) / 256 * 256;
    }
    if (!p->zeroed_B) return KILN_OK;
    p->zeroed = storage_new(p->dev, p->zeroed_B);
    if (!p->zeroed) return error_pending;
    for (uint64_t at = 0; at < p->zeroed_B; at += sizeof zeros) {
        uint64_t n = p->zeroed_B - at < sizeof zeros ? p->zeroed_B - at : sizeof zeros;
        TRY(device_upload(p->dev, p->zeroed->block.address + at, zeros, n));
    }
    return KILN_OK;
}

kiln_status maker_add_outputs(struct program_maker *m)
{
    struct program *p = m->p;
    for (size_t i = 0; i < m->g->outputs.n; i++) {
        const struct ir_output *o = &m->g->outputs.v[i];
        if (o->target >= 0) continue;
        const struct ir_value *v = &m->g->values.v[o->value];
        const struct unit_view *at = &m->units.outputs[i];
        p->outputs[p->n_outputs++] = (struct program_output){.value = o->value,
                                                             .place = at->buffer,
                                                             .input = v->kind == IR_INPUT ? at->input : -1,
                                                             .type = v->type,
                                                             .layout = at->layout,
                                                             .number = v->number,
                                                             .integer = v->integer};
    }
    return KILN_OK;
}
