// Addresses and numbers of a run into launches: of the kernels that were compiled, and of those of the catalogue.
#include "program/bind.h"

void bind_bases(struct program_call *r)
{
    const struct program *p = r->p;
    for (int i = 0; i < p->n_buffers; i++) {
        const struct place *at = &p->places[i];
        switch (at->kind) {
        case PLACE_INPUT: r->base[i] = r->args[at->index].address; break;
        case PLACE_CONSTANT: r->base[i] = at->storage->block.address; break;
        case PLACE_OUTPUT: r->base[i] = r->fresh[at->index]->block.address; break;
        default: r->base[i] = r->arena + at->offset_B;
        }
    }
}

kiln_status bind_index_error(const struct program *p, const struct action *a)
{
    return error_set(KILN_E_ARGUMENT, "%s: an index is out of range for its axis, in %s", a->fused[0]->name, p->name);
}

void bind_arguments(const struct program_call *r, const struct action *a, int entry, struct argument_room *room,
                    struct jit_arguments *out)
{
    const struct action_operand *o = a->operands + entry * a->n_operands;
    const struct jit_launch *l = &a->compiled[entry];
    uint64_t nothing = r->p->dev->nothing;
    for (int i = 0; i < a->n_operands; i++, o++) {
        bool empty = nothing && o->lo_B == o->hi_B;
        room->addresses[i] = empty ? nothing : r->base[o->buffer] + (uint64_t)o->at_B;
        room->ranges[i] = (struct compiled_range){room->addresses[i], o->lo_B, o->hi_B, o->write};
    }
    for (int i = 0; i < l->n_scalars; i++)
        room->scalars[i] = program_number_bits(&r->args[l->scalars[i].input], l->scalars[i].cls);
    room->failed = 0;
    uint64_t workspace = l->c.workspace_zeroed ? r->p->zeroed->block.address : r->arena;
    *out = (struct jit_arguments){room->addresses, room->ranges, room->scalars, workspace + a->workspace_at_B,
                                  &room->failed,   r->gate,      r->record};
}

void bind_plain(const struct program_call *r, const struct action *a, struct launch *l)
{
    launch_copy(l, a->plain);
    const struct kernel_info *k = kernel_info(l->kernel);
    for (int i = 0; i < l->n_operands; i++) {
        struct launch_operand *o = &l->operands[i];
        if (!(o->flags & OPERAND_IMMEDIATE))
            o->address += r->base[o->slot];
        else if (o->slot)
            o->address = program_number_bits(&r->args[o->slot & ~SLOT_SCALAR], k->in_cls[i]);
    }
    l->gate = r->gate;
    l->record = r->record;
    if (a->random && r->rng) {
        l->scalars[0] = r->rng->seed;
        l->scalars[1] += r->rng->offset;
    }
}
