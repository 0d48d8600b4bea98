// Gates: launches whose workgroups a kernel writes.
//
// A step of a gate is a launch of the kernel `gate`. Behind it is room for SLOTS launches: a table in the argument ring
// says which workgroups each has if it runs, and the kernel copies it, or zeros, to a block of the buffer that
// vkCmdDispatchIndirect reads. The launches are recorded after the step, and each enters its workgroups into the table
// then; that is in time as long as both are in one batch. Where the room is used up, or a batch has ended, the kernel
// runs once more, without another step. Blocks are used in turn. A barrier follows each kernel, so that a block is
// written anew long after it was read.
#include "device/profile.h"
#include "vulkan/gates.h"

#include <stdlib.h>
#include <string.h>

#define SLOTS   64 // as in shaders/gate.comp
#define SLOT_B  12
#define BLOCK_B (SLOTS * SLOT_B)
#define BLOCKS  256
#define TABLE_B (4 + BLOCK_B)
#define INSIDE  8

static kiln_status make(struct vk_device *vk)
{
    struct vk_gates *v = calloc(1, sizeof *v);
    if (!v) return error_set(KILN_E_MEMORY, "%s: out of memory for gates", vk->owner->name);
    kiln_status status = vk_buffer_create(vk, (uint64_t)BLOCKS * BLOCK_B, VK_MEMORY_GROUPS, &v->groups);
    if (!status) status = vk_buffer_create(vk, sizeof *v->seen, VK_MEMORY_DOWNLOAD, &v->buffer);
    if (!status && !v->buffer.host)
        status = error_set(KILN_E_UNSUPPORTED, "%s: no memory that the host can map", vk->owner->name);
    if (!status) {
        v->seen = (struct gates_seen *)(void *)v->buffer.host;
        memset(v->seen, 0, sizeof *v->seen);
        vk->gates = v;
        return KILN_OK;
    }
    vk_buffer_destroy(vk, &v->groups);
    vk_buffer_destroy(vk, &v->buffer);
    free(v);
    return status;
}

kiln_status vk_gates_get(struct vk_device *vk, struct vk_gates **out)
{
    if (!vk->gates) TRY(make(vk));
    *out = vk->gates;
    return KILN_OK;
}

void vk_gates_finish(struct vk_device *vk)
{
    struct vk_gates *v = vk->gates;
    if (!v) return;
    vk_buffer_destroy(vk, &v->groups);
    vk_buffer_destroy(vk, &v->buffer);
    free(v);
    vk->gates = NULL;
}

void vk_gates_tally(struct vk_device *vk)
{
    struct vk_gates *v = vk->gates;
    uint32_t now = __atomic_load_n(&v->seen->left_out, __ATOMIC_ACQUIRE);
    STAT_ADD(vk->owner, wasted_launches, now - v->left_out);
    v->left_out = now;
}

// --- steps

static void add_operand(struct launch *l, uint8_t dtype, uint64_t address, uint64_t size_B, bool write)
{
    struct launch_operand *o = &l->operands[l->n_operands++];
    o->address = address;
    o->range_lo_B = 0;
    o->range_hi_B = (int64_t)size_B;
    o->dtype = dtype;
    o->flags = write ? OPERAND_WRITE : 0;
}

static void make_launch(struct vk_device *vk, const struct device_gate *g, enum gate_step step, uint32_t place,
                        uint64_t table, struct launch *l)
{
    const struct vk_gates *v = vk->gates;
    uint64_t groups = v->groups.address + g->first_B, seen = v->buffer.address,
             fault = seen + offsetof(struct gates_seen, faults) + place * sizeof v->seen->faults[0];
    *l = (struct launch){.kernel = g->kernel, .op = "gate", .extent = {1, 1, 1}, .n_scalars = 3};
    add_operand(l, g->dtype, g->value, dtype_size_B[g->dtype], false);
    add_operand(l, KILN_I64, g->around ? g->around : g->state, sizeof(struct gate_state), false);
    add_operand(l, KILN_I32, table, TABLE_B, false);
    add_operand(l, KILN_I64, g->state, sizeof(struct gate_state), true);
    add_operand(l, KILN_I32, groups, BLOCK_B, true);
    add_operand(l, KILN_I32, seen + offsetof(struct gates_seen, left_out), 4, true);
    add_operand(l, KILN_I64, fault, sizeof v->seen->faults[0], true);
    l->scalars[0] = (uint64_t)step | (g->around ? INSIDE : 0);
    l->scalars[1] = (uint64_t)g->number;
    l->scalars[2] = (uint64_t)g->limit;
}

static kiln_status record(struct vk_device *vk, const struct launch *l)
{
    const char *op = vk->op;
    vk->op = l->op;
    vk->whole = true;
    kiln_status status = vk_dispatch_group(vk, l);
    if (!status) vk_stream_groups_barrier(vk);
    vk->whole = false;
    vk->op = op;
    return status;
}

static kiln_status take_step(struct vk_device *vk, struct device_gate *g, enum gate_step step)
{
    struct vk_gates *v = vk->gates;
    uint64_t at_B;
    struct launch l;
    TRY(vk_stream_open(vk));
    TRY(vk_ring_take(vk, &vk->arguments, TABLE_B, &at_B));
    g->table = (uint32_t *)(void *)(vk->arguments.buffer.host + at_B);
    memset(g->table, 0, TABLE_B);
    g->first_B = v->next++ % BLOCKS * BLOCK_B;
    uint32_t place = vk_fault_place(vk, g->fault);
    make_launch(vk, g, step, place, vk->arguments.buffer.address + at_B, &l);
    TRY(record(vk, &l));
    STAT_ADD(vk->owner, launches, 1);
    g->batch = vk_stream_last(vk);
    g->used = 0;
    if (g->fault && step != GATE_AGAIN) vk_fault_watch(vk, place);
    return KILN_OK;
}

kiln_status vk_gate_ready(struct vk_device *vk, struct device_gate *g)
{
    if (g->table && g->used < SLOTS && g->batch == vk_stream_last(vk)) return KILN_OK;
    return take_step(vk, g, GATE_AGAIN);
}

uint64_t vk_gate_slot(struct vk_device *vk, struct device_gate *g, const uint32_t groups[3], VkBuffer *buffer)
{
    uint32_t slot = g->used++;
    memcpy(g->table + 1 + 3 * slot, groups, SLOT_B);
    g->table[0] = g->used;
    *buffer = vk->gates->groups.handle;
    return g->first_B + slot * SLOT_B;
}

static kiln_status gate_step(kiln_device *dev, struct device_gate *g, enum gate_step step)
{
    struct vk_device *vk = dev->impl;
    struct vk_gates *v;
    pthread_mutex_lock(&vk->lock);
    kiln_status status = vk_gates_get(vk, &v);
    if (!status) status = take_step(vk, g, step);
    pthread_mutex_unlock(&vk->lock);
    return status;
}

// --- looks

static int free_slot(struct vk_device *vk)
{
    struct vk_gates *v = vk->gates;
    for (int i = 0; i < GATE_LOOKS; i++) {
        if (v->looks[i].dropped && v->looks[i].value <= vk->completed) v->looks[i].taken = v->looks[i].dropped = false;
        if (!v->looks[i].taken) return i;
    }
    return -1;
}

static kiln_status take_look(struct vk_device *vk, const struct device_gate *g, struct gate_look *out)
{
    struct vk_gates *v;
    TRY(vk_gates_get(vk, &v));
    const struct vk_buffer *from = vk_slab_find(vk, g->state, sizeof(struct gate_state));
    int slot = free_slot(vk);
    if (!from) return error_set(KILN_E_INTERNAL, "%s: a gate without memory", vk->owner->name);
    if (slot < 0) return error_set(KILN_E_UNSUPPORTED, "%s: %d loops run at a time", vk->owner->name, GATE_LOOKS);
    uint64_t to_B = offsetof(struct gates_seen, states) + (uint64_t)slot * sizeof v->seen->states[0];
    TRY(vk_record_copy(vk, v->buffer.handle, to_B, from->handle, g->state - from->address, sizeof(struct gate_state), 0,
                       g->state));
    *out = (struct gate_look){vk_stream_last(vk), slot};
    v->looks[slot] = (struct gates_look){.taken = true, .value = out->at};
    return vk_stream_submit(vk);
}

static kiln_status gate_look(kiln_device *dev, const struct device_gate *g, struct gate_look *out)
{
    struct vk_device *vk = dev->impl;
    *out = (struct gate_look){0, -1};
    pthread_mutex_lock(&vk->lock);
    vk->op = "loop";
    kiln_status status = take_look(vk, g, out);
    pthread_mutex_unlock(&vk->lock);
    return status;
}

static kiln_status see(struct vk_device *vk, const struct device_gate *g, const struct gate_look *l,
                       struct gate_state *out)
{
    struct vk_gates *v = vk->gates;
    TRY(vk_stream_submit(vk));
    TRY(vk_stream_follow(vk, l->at));
    memcpy(out, &v->seen->states[l->slot], sizeof *out);
    return g->fault ? vk_fault_judge(vk, g->fault) : KILN_OK;
}

static void drop(struct vk_device *vk, struct gate_look *l)
{
    if (l->slot >= 0) vk->gates->looks[l->slot].dropped = true;
    l->slot = -1;
}

static kiln_status gate_see(kiln_device *dev, const struct device_gate *g, struct gate_look *l, struct gate_state *out)
{
    struct vk_device *vk = dev->impl;
    PROFILE("wait", "loop");
    pthread_mutex_lock(&vk->lock);
    kiln_status status = see(vk, g, l, out);
    drop(vk, l);
    pthread_mutex_unlock(&vk->lock);
    return status;
}

static void gate_drop(kiln_device *dev, struct gate_look *l)
{
    struct vk_device *vk = dev->impl;
    pthread_mutex_lock(&vk->lock);
    drop(vk, l);
    pthread_mutex_unlock(&vk->lock);
}

const struct gate_ops vk_gate_ops = {.step = gate_step,
                                     .look = gate_look,
                                     .see = gate_see,
                                     .drop = gate_drop,
                                     .fault_add = vk_fault_add,
                                     .fault_drop = vk_fault_drop};
