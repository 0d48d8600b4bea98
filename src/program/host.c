// Runs calls of the host: their operands are copied, so that the host may keep what it is given, and what it gives is
// copied where the program wants it.
#include "program/host.h"
#include "base/caller.h"
#include "base/leave.h"
#include "ir/host.h"
#include "ops/attrs.h"
#include "program/maker.h"
#include "tensor/flow.h"
#include <kiln/ops.h>
#include <stdlib.h>

struct host_operand {
    int32_t buffer; // -1: a number
    int32_t input;  // a number: which input of the program it is; -1: it is known
    struct type type;
    struct layout layout;
    double number;
    int64_t integer;
};

struct program_host {
    struct host_call *call; // a reference
    int n_in;
    struct host_operand *in;
    int32_t *out; // call->n_out buffers
};

static void set_operand(const struct program_maker *m, int32_t value, struct host_operand *o)
{
    const struct unit_view *v = &m->units.values[value];
    const struct ir_value *from = &m->g->values.v[value];
    *o = (struct host_operand){.buffer = v->buffer,
                               .input = from->kind == IR_INPUT ? v->input : -1,
                               .type = from->type,
                               .layout = v->layout,
                               .number = from->number,
                               .integer = from->integer};
}

kiln_status program_host_make(struct program_maker *m, const struct unit *u, struct program_host **out)
{
    const struct ir_node *n = &m->g->nodes.v[u->node];
    struct arena *a = &m->p->arena;
    struct program_host *h = arena_alloc(a, sizeof *h);
    if (!h) return error_pending;
    *h = (struct program_host){.n_in = n->n_in};
    h->in = arena_alloc(a, sizeof *h->in * (size_t)(n->n_in + 1));
    h->out = arena_alloc(a, sizeof *h->out * (size_t)(n->n_out + 1));
    if (!h->in || !h->out) return error_pending;
    for (int i = 0; i < n->n_in; i++) set_operand(m, ir_operands(m->g, n)[i], &h->in[i]);
    for (int i = 0; i < n->n_out; i++) h->out[i] = m->units.values[n->first_out + i].buffer;
    h->call = host_call_of(n->attrs[AT_host_call_call].i);
    if (!h->call) return error_pending;
    *out = h;
    return KILN_OK;
}

void program_host_destroy(struct program_host *h)
{
    host_call_unref(h->call);
}

// What lies in a program's memory, through a storage of its own.
static kiln_tensor *window_of(kiln_device *dev, uint64_t address, const struct type *type, const struct layout *layout)
{
    struct storage *s = storage_pending(dev, (uint64_t)type_numel(type) * dtype_size_B[type->dtype]);
    if (!s) return NULL;
    s->block.address = address;
    s->block.host = dev->caps.host ? (void *)(uintptr_t)address : NULL;
    s->borrowed = true;
    kiln_tensor *t = tensor_on(s, type, layout);
    storage_unref(s);
    return t;
}

static kiln_tensor *number_of(const struct type *type, double number, int64_t integer)
{
    kiln_tensor *t = tensor_new();
    if (!t) return NULL;
    t->type = *type;
    t->number = number;
    t->integer = integer;
    return t;
}

static kiln_tensor *operand(const struct program_call *r, const struct host_operand *o)
{
    if (o->buffer < 0 && o->input >= 0) return number_of(&o->type, r->args[o->input].number, r->args[o->input].integer);
    if (o->buffer < 0) return number_of(&o->type, o->number, o->integer);
    kiln_tensor *there = window_of(r->p->dev, r->base[o->buffer], &o->type, &o->layout);
    kiln_tensor *t = there ? tensor_empty(r->p->dev, &o->type) : NULL;
    return t && !kiln_assign(t, there) ? t : NULL;
}

static kiln_status put(const struct program_call *r, int32_t buffer, const struct type *type, kiln_tensor *t)
{
    struct layout row_major;
    layout_contiguous(type, &row_major);
    kiln_tensor *there = window_of(r->p->dev, r->base[buffer], type, &row_major);
    return there ? kiln_assign(there, t) : error_pending;
}

static kiln_status call(const struct program_call *r, const struct program_host *h, kiln_tensor **in, kiln_tensor **out)
{
    for (int i = 0; i < h->n_in; i++)
        if (!(in[i] = operand(r, &h->in[i]))) return error_pending;
    TRY(flow_call_host(h->call, r->p->dev, in, (size_t)h->n_in, out));
    for (int i = 0; i < h->call->n_out; i++) TRY(put(r, h->out[i], &h->call->out[i], out[i]));
    return KILN_OK;
}

kiln_status program_host_run(const struct program_call *r, const struct program_host *h)
{
    kiln_tensor **room = calloc((size_t)(h->n_in + h->call->n_out) + 1, sizeof *room);
    if (!room) return error_set(KILN_E_MEMORY, "%s: out of memory", h->call->kind->name);
    struct kiln_scope scope;
    struct leave left;
    leave_push(&left, free, room);
    scope_enter(&scope);
    thread_state.no_grad++;
    kiln_status status = call(r, h, room, room + h->n_in);
    thread_state.no_grad--;
    scope_leave(&scope, NULL, 0);
    leave_pop(&left);
    free(room);
    return status;
}

void program_host_explain(const struct program_host *h, struct str *out)
{
    char place[CALLER_TEXT_MAX];
    caller_describe(h->call->caller, place, sizeof place);
    str_addf(out, "host: %s at %s, which runs between launches\n", h->call->kind->name, place);
}
