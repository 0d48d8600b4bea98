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
        for (int o = 0; a->after && o < a->plain->n_operands; o++) // read until the pair is done
            if (!(a->plain->operands[o].flags & OPERAND_IMMEDIATE))
                touch(&uses[a->plain->operands[o].slot], (int32_t)i + 1);
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

// --- the plan ---

struct room {
    struct program_maker *m;
    const struct use *uses;
    struct plan_buffer *buffers; // of the units, then a workspace an action
    size_t n;
    VEC(struct plan_candidate) candidates;
    struct memory_plan plan;
};

static bool is_given(const struct room *r, size_t i)
{
    const struct unit_buffer *b = &r->m->units.buffers.v[i];
    const struct place *place = &r->m->p->places[i];
    if (place->kind != PLACE_INPUT || !r->m->o->given || !r->m->o->given[place->index]) return false;
    return !b->kept && b->writer < 0;
}

// What is given away stays as it is until nothing can go wrong any more that its owner could do something about.
static struct plan_buffer buffer_of(const struct room *r, size_t i)
{
    const struct program_maker *m = r->m;
    uint64_t size_B = buffer_B(&m->units.buffers.v[i]);
    const struct use *use = &r->uses[i];
    if (is_given(r, i)) {
        int32_t last = use->last < m->last_to_fail ? m->last_to_fail : use->last;
        return (struct plan_buffer){size_B, -1, last, PLAN_GIVEN};
    }
    bool used = use->first >= 0;
    if (m->p->places[i].kind == PLACE_ARENA) return (struct plan_buffer){size_B, use->first, use->last, 0};
    if (m->p->places[i].kind == PLACE_OUTPUT && used)
        return (struct plan_buffer){size_B, use->first, use->last, PLAN_RESULT};
    return (struct plan_buffer){.flags = PLAN_INPUT};
}

// Workspaces of kernels join the buffers as temporaries of one step, those that must be zero have memory of their own.
static void find_buffers(struct room *r)
{
    const struct program_maker *m = r->m;
    size_t n_buffers = m->units.buffers.n;
    for (size_t i = 0; i < n_buffers; i++) r->buffers[i] = buffer_of(r, i);
    for (size_t i = 0; i < m->actions.n; i++) {
        const struct jit_launch *l = m->actions.v[i].compiled;
        const struct program_region *region = m->actions.v[i].region;
        uint64_t workspace_B = region ? region->workspace_B : l && !l->c.workspace_zeroed ? l->c.workspace_B : 0;
        struct plan_buffer *b = &r->buffers[n_buffers + i];
        *b = (struct plan_buffer){.flags = PLAN_INPUT};
        if (workspace_B) *b = (struct plan_buffer){workspace_B, (int32_t)i, (int32_t)i, PLAN_ARENA};
    }
}

// --- what takes the place of what ---

// Of two buffers of an action: their sizes and lives allow it.
static bool may_follow(const struct room *r, int32_t later, int32_t earlier, int32_t step)
{
    const struct plan_buffer *a = &r->buffers[later], *b = &r->buffers[earlier];
    if (a->flags & ~(uint32_t)PLAN_RESULT || b->flags & ~(uint32_t)PLAN_GIVEN) return false;
    if (b->flags & PLAN_GIVEN && step <= r->m->last_to_fail) return false;
    return a->size_B == b->size_B && a->first == step && b->last == step;
}

// Another kernel of the same launch has it, which may run at the same time.
static bool is_elsewhere(const struct action *a, int entry, int32_t buffer)
{
    for (int i = 0; i < a->n_operands * a->n_entries; i++)
        if (i / a->n_operands != entry && a->operands[i].buffer == buffer) return true;
    return false;
}

static kiln_status add_candidate(struct room *r, int32_t later, int32_t earlier, int32_t step)
{
    struct plan_candidate c = {later, earlier, step};
    return vec_push(&r->candidates, c);
}

// The product before this action reads it, while rows of the action's results are written.
static bool read_by_pair(const struct room *r, int32_t step, int32_t buffer)
{
    const struct action *before = step > 0 ? &r->m->actions.v[step - 1] : NULL;
    for (int i = 0; before && before->after && i < before->plain->n_operands - 1; i++) {
        const struct launch_operand *o = &before->plain->operands[i];
        if (!(o->flags & OPERAND_IMMEDIATE) && (int32_t)o->slot == buffer) return true;
    }
    return false;
}

static kiln_status kernel_candidates(struct room *r, const struct action *a, int entry, int32_t step)
{
    const struct fused_kernel *k = a->fused[entry];
    for (int o = 0; o < k->n_out; o++)
        for (int i = 0; i < k->n_in; i++) {
            int32_t later = (int32_t)k->out[o].to.buffer, earlier = (int32_t)k->in[i].buffer;
            if (!may_follow(r, later, earlier, step) || !fused_may_lie_over(k, o, k->in[i].buffer)) continue;
            if (read_by_pair(r, step, earlier)) continue;
            if (is_elsewhere(a, entry, later) || is_elsewhere(a, entry, earlier)) continue;
            TRY(add_candidate(r, later, earlier, step));
        }
    return KILN_OK;
}

static bool same_places(const struct launch *l, const struct launch_operand *a, const struct launch_operand *b)
{
    if (a->address != b->address || a->dtype != b->dtype) return false;
    for (int d = 0; d < l->rank; d++)
        if (a->strides[d] != b->strides[d]) return false;
    return true;
}

// Of an operand that says itself that it may take the place of the first, which no other operand has a part of.
static kiln_status add_over(struct room *r, const struct launch *l, const struct launch_operand *out, int32_t step)
{
    const struct launch_operand *in = &l->operands[0];
    if (!may_follow(r, (int32_t)out->slot, (int32_t)in->slot, step) || read_by_pair(r, step, (int32_t)in->slot))
        return KILN_OK;
    for (int i = 1; i < l->n_operands; i++)
        if (!(l->operands[i].flags & OPERAND_IMMEDIATE) && l->operands[i].slot == in->slot) return KILN_OK;
    return add_candidate(r, (int32_t)out->slot, (int32_t)in->slot, step);
}

// A pointwise kernel of the catalogue may write what it reads, as eager mode does in place.
static kiln_status launch_candidates(struct room *r, const struct launch *l, int32_t step)
{
    for (int i = 1; i < l->n_operands; i++)
        if (l->operands[i].flags & OPERAND_OVER) return add_over(r, l, &l->operands[i], step);
    if (kernel_info(l->kernel)->kind != KERNEL_POINTWISE) return KILN_OK;
    const struct launch_operand *out = &l->operands[l->n_operands - 1];
    for (int i = 0; i < l->n_operands - 1; i++) {
        const struct launch_operand *in = &l->operands[i];
        bool alike = !(in->flags & OPERAND_IMMEDIATE) && may_follow(r, (int32_t)out->slot, (int32_t)in->slot, step) &&
                     !read_by_pair(r, step, (int32_t)in->slot);
        for (int k = 0; k < l->n_operands - 1 && alike; k++) {
            const struct launch_operand *other = &l->operands[k];
            alike = other->flags & OPERAND_IMMEDIATE || other->slot != in->slot || same_places(l, other, out);
        }
        if (alike) TRY(add_candidate(r, (int32_t)out->slot, (int32_t)in->slot, step));
    }
    return KILN_OK;
}

static kiln_status find_candidates(struct room *r)
{
    for (size_t i = 0; i < r->m->actions.n; i++) {
        const struct action *a = &r->m->actions.v[i];
        for (int k = 0; k < a->n_entries && a->compiled; k++) TRY(kernel_candidates(r, a, k, (int32_t)i));
        if (a->plain) TRY(launch_candidates(r, a->plain, (int32_t)i));
    }
    return KILN_OK;
}

// --- places ---

static kiln_status make_plan(struct room *r)
{
    TRY(find_candidates(r));
    return memory_plan_make(r->buffers, (int32_t)r->n, r->candidates.v, (int32_t)r->candidates.n, &r->plan);
}

// Each temporary gets room for zones on both sides, and lies behind the first one, in no other's place.
static kiln_status plan_with_zones(struct room *r)
{
    struct program *p = r->m->p;
    struct plan_buffer *b = r->buffers;
    p->zones = arena_alloc(&p->arena, sizeof *p->zones * (r->n + 1));
    if (!p->zones) return error_pending;
    for (size_t i = 0; i < r->n; i++) {
        if (b[i].flags & ~(uint32_t)PLAN_ARENA || !b[i].size_B) continue;
        b[i].flags = PLAN_ARENA;
        b[i].size_B += 2 * REDZONE_B;
    }
    TRY(make_plan(r));
    for (size_t i = 0; i < r->n; i++) {
        if (r->plan.offset_B[i] == PLAN_NOWHERE) continue;
        uint64_t room_B = (b[i].size_B + PLAN_ALIGN_B - 1) / PLAN_ALIGN_B * PLAN_ALIGN_B;
        uint64_t size_B = b[i].size_B - 2 * REDZONE_B;
        r->plan.offset_B[i] += REDZONE_B;
        p->zones[p->n_zones++] =
            (struct program_zone){r->plan.offset_B[i], size_B, room_B - REDZONE_B - size_B, b[i].first, b[i].last};
    }
    return KILN_OK;
}

static int32_t add_fresh(struct program *p, uint64_t size_B, int32_t over)
{
    p->fresh[p->n_fresh] = (struct program_fresh){size_B, over};
    return p->n_fresh++;
}

// Buffer i lies in `host`, which has a storage of a run's already if it is a result.
static void place_within(struct program *p, const struct room *r, size_t i, int32_t host, int32_t *of_given)
{
    bool given = r->buffers[host].flags & PLAN_GIVEN;
    int32_t input = p->places[host].index;
    if (p->places[i].kind == PLACE_OUTPUT && given) {
        of_given[host] = p->places[i].index;
        p->fresh[of_given[host]].over = input;
    }
    if (given && of_given[host] < 0) of_given[host] = add_fresh(p, r->buffers[host].size_B, input);
    p->places[i] = (struct place){.kind = PLACE_OUTPUT, .index = given ? of_given[host] : input};
    if (given && (p->first_over < 0 || r->uses[i].first < p->first_over)) p->first_over = r->uses[i].first;
}

// Results first: what lies with one has its storage.
static kiln_status place_all_within(struct program *p, const struct room *r)
{
    size_t n = r->m->units.buffers.n;
    int32_t *of_given = malloc(sizeof *of_given * (n + 1));
    if (!of_given) return error_set(KILN_E_MEMORY, "graph: out of memory");
    for (size_t i = 0; i < n; i++) of_given[i] = -1;
    for (int results = 1; results >= 0; results--)
        for (size_t i = 0; i < n; i++)
            if (r->plan.within[i] >= 0 && (r->buffers[i].flags == PLAN_RESULT) == results)
                place_within(p, r, i, r->plan.within[i], of_given);
    free(of_given);
    return KILN_OK;
}

static kiln_status place_planned(struct program_maker *m, const struct room *r)
{
    struct program *p = m->p;
    size_t n = m->units.buffers.n;
    for (size_t i = 0; i < n; i++)
        if (p->places[i].kind == PLACE_ARENA)
            p->places[i].offset_B = r->plan.offset_B[i] == PLAN_NOWHERE ? 0 : r->plan.offset_B[i];
    for (size_t i = 0; i < m->actions.n; i++)
        if (!(r->buffers[n + i].flags & PLAN_INPUT)) m->actions.v[i].workspace_at_B = r->plan.offset_B[n + i];
    p->arena_B = p->facts.arena_B = r->plan.total_B;
    p->facts.naive_B = r->plan.naive_B;
    return place_all_within(p, r);
}

static kiln_status plan_arena(struct program_maker *m, const struct use *uses)
{
    struct room r = {.m = m, .uses = uses, .n = m->units.buffers.n + m->actions.n};
    r.buffers = calloc(r.n + 1, sizeof *r.buffers);
    if (!r.buffers) return error_set(KILN_E_MEMORY, "graph: out of memory");
    find_buffers(&r);
    kiln_status status = heap_has_redzones(m->p->dev) ? plan_with_zones(&r) : make_plan(&r);
    if (!status) status = place_planned(m, &r);
    memory_plan_free(&r.plan);
    vec_free(&r.candidates);
    free(r.buffers);
    return status;
}

kiln_status maker_place_all(struct program_maker *m)
{
    struct program *p = m->p;
    size_t n = m->units.buffers.n;
    struct use *uses = malloc(sizeof *uses * (n + 1));
    if (!uses) return error_set(KILN_E_MEMORY, "graph: out of memory");
    find_uses(m, uses);
    p->first_over = -1;
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < n && !status; i++) {
        const struct unit_buffer *b = &m->units.buffers.v[i];
        if (unit_buffer_is_given(b)) {
            status = place_given(m, i);
        } else if (b->kept) {
            p->places[i] = (struct place){.kind = PLACE_OUTPUT, .index = add_fresh(p, buffer_B(b), -1)};
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
