// What the launches of a program depend on, and what of it a run brings.
#include "program/records_impl.h"
#include <stdlib.h>

static int32_t of_number(const struct program *p, int32_t input)
{
    return p->n_buffers + 1 + input;
}

// Of buffers that lie in the storage of one result the first stands for all.
static int32_t of_buffer(const struct program *p, int32_t buffer)
{
    const struct place *at = &p->places[buffer];
    if (at->kind == PLACE_ARENA) return records_arena_number(p);
    for (int32_t i = 0; i < buffer && at->kind == PLACE_OUTPUT; i++)
        if (p->places[i].kind == PLACE_OUTPUT && p->places[i].index == at->index) return i;
    return buffer;
}

kiln_status records_add_use(struct program_records *x, quantity_list *list, int32_t quantity)
{
    if (x->listed[quantity] == x->n_lists) return KILN_OK;
    x->listed[quantity] = x->n_lists;
    return vec_push(list, quantity);
}

void records_next_list(struct program_records *x)
{
    x->n_lists++;
}

static kiln_status add_access(struct program_records *x, quantity_list *list, int32_t buffer, int64_t lo_B,
                              int64_t hi_B)
{
    int32_t quantity = x->of_buffer[buffer];
    struct quantity *q = &x->quantities[quantity];
    if (!q->is_used || lo_B < q->lo_B) q->lo_B = lo_B;
    if (!q->is_used || hi_B > q->hi_B) q->hi_B = hi_B;
    q->is_used = true;
    return records_add_use(x, list, quantity);
}

static kiln_status add_plain(struct program_records *x, const struct launch *l, quantity_list *list)
{
    for (int i = 0; i < l->n_operands; i++) {
        const struct launch_operand *o = &l->operands[i];
        int64_t at_B = (int64_t)o->address;
        if (!(o->flags & OPERAND_IMMEDIATE))
            TRY(add_access(x, list, (int32_t)o->slot, at_B + o->range_lo_B, at_B + o->range_hi_B));
        else if (o->slot)
            TRY(records_add_use(x, list, of_number(x->p, (int32_t)(o->slot & ~(uint32_t)SLOT_SCALAR))));
    }
    return KILN_OK;
}

static kiln_status add_compiled(struct program_records *x, const struct action *a, quantity_list *list)
{
    for (int i = 0; i < a->n_entries * a->n_operands; i++) {
        const struct action_operand *o = &a->operands[i];
        TRY(add_access(x, list, o->buffer, o->at_B + o->lo_B, o->at_B + o->hi_B));
    }
    for (int e = 0; e < a->n_entries; e++) {
        const struct jit_launch *l = &a->compiled[e];
        if (l->c.workspace_B && !l->c.workspace_zeroed) TRY(records_add_use(x, list, records_arena_number(x->p)));
        for (int i = 0; i < l->n_scalars; i++) TRY(records_add_use(x, list, of_number(x->p, l->scalars[i].input)));
    }
    return KILN_OK;
}

static bool is_launch(const struct program *p, const struct action *a)
{
    if (a->region || a->host) return false;
    if (a->plain) return !a->random && p->dev->ops->supports(p->dev, a->plain);
    return a->compiled != NULL;
}

static void no_stand_in(struct program_records *x, int32_t buffer)
{
    struct quantity *q = &x->quantities[x->of_buffer[buffer]];
    q->is_used = true;
    q->hi_B = INT64_MAX;
}

kiln_status records_find_uses(struct program_records *x)
{
    const struct program *p = x->p;
    quantity_list list = {0};
    kiln_status status = KILN_OK;
    for (int32_t i = 0; i < p->n_buffers; i++) x->of_buffer[i] = of_buffer(p, i);
    for (int i = 0; i < p->n_actions && !status; i++) {
        const struct action *a = &p->actions[i];
        x->first_use[i] = (int32_t)list.n;
        records_next_list(x);
        for (int k = 0; k < a->n_operands && (a->region || a->host); k++) no_stand_in(x, a->operands[k].buffer);
        if (a->plain) status = add_plain(x, a->plain, &list);
        if (a->compiled) status = add_compiled(x, a, &list);
        if (!status && !is_launch(p, a)) status = vec_push(&list, -1);
    }
    x->first_use[p->n_actions] = (int32_t)list.n;
    x->uses = list.v;
    return status;
}

// --- in a run

static bool is_value(const struct record_value *a, const struct record_value *b)
{
    return a->bits == b->bits && a->more == b->more;
}

static void look_at(struct program_records *x, struct quantity *q, struct record_value v)
{
    if (KILN_LIKELY(q->n && is_value(&q->seen[q->now], &v)) || q->moves) return;
    for (uint8_t i = 0; i < q->n; i++) {
        if (!is_value(&q->seen[i], &v)) continue;
        q->now = i;
        return;
    }
    if (q->n < (debug_flag("record-all") ? 1 : RECORDS_SEEN)) {
        q->now = q->n;
        q->seen[q->n++] = v;
    } else {
        q->moves = true;
        x->planned = false;
    }
}

void records_see(struct program_records *x, const struct program_call *r)
{
    const struct program *p = x->p;
    struct quantity *q = x->quantities;
    for (int32_t i = 0; i < p->n_buffers; i++)
        if (x->of_buffer[i] == i && p->places[i].kind != PLACE_NONE && !q[i].base)
            look_at(x, &q[i], (struct record_value){r->base[i], 0});
    look_at(x, &q[records_arena_number(p)], (struct record_value){r->arena, 0});
    for (int32_t i = 0; i < p->n_inputs; i++)
        if (!r->args[i].address)
            look_at(x, &q[of_number(p, i)],
                    (struct record_value){(uint64_t)r->args[i].integer, bits_f64(r->args[i].number)});
}
