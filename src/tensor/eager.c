// The eager sink: storages for the outputs, launches through the op's lowering, one tape node if a gradient is due.
#include "device/profile.h"
#include "ops/lower.h"
#include "tensor/facts.h"
#include "tensor/tensor.h"
#include "tensor/watch.h"
#include <stdlib.h>

#define MAX_TEMPS 16

struct eager {
    struct lowering base;
    kiln_device *dev;
    kiln_tensor *const *in, *const *out;
    struct block temps[MAX_TEMPS];
    int n_temps;
    const struct op_call *call;
    struct call_facts *facts; // NULL: no profile is taken
};

static const struct storage *no_storage(const struct launch *l)
{
    error_set(KILN_E_INTERNAL, "%s: a launch names a slot without memory", l->op);
    return NULL;
}

static kiln_status launch(struct lowering *base, struct launch *l)
{
    struct eager *e = (struct eager *)base;
    for (int i = 0; i < l->n_operands; i++) {
        struct launch_operand *o = &l->operands[i];
        if (o->flags & OPERAND_IMMEDIATE) continue;
        if (o->slot & SLOT_TEMP) {
            o->address += e->temps[o->slot & ~SLOT_TEMP].address;
            continue;
        }
        const kiln_tensor *t = o->slot & SLOT_OUT ? e->out[o->slot & ~SLOT_OUT] : e->in[o->slot];
        if (KILN_UNLIKELY(!t->storage)) return no_storage(l) ? KILN_OK : error_pending;
        o->address += t->storage->block.address;
    }
    if (KILN_UNLIKELY(e->facts != NULL)) {
        call_facts_of_launch(e->facts, e->call, l);
        l->facts = &e->facts->facts;
    }
    return device_launch(e->dev, l);
}

static kiln_status temp(struct lowering *base, const struct type *t, struct view *out)
{
    struct eager *e = (struct eager *)base;
    uint64_t size_B;
    if (e->n_temps == MAX_TEMPS) return error_set(KILN_E_INTERNAL, "%s: more than %d temporaries", base->op, MAX_TEMPS);
    TRY(type_size_B(t, &size_B));
    TRY(device_alloc(e->dev, size_B, &e->temps[e->n_temps]));
    struct layout l;
    layout_contiguous(t, &l);
    *out = view_of(t, &l, (uint16_t)(SLOT_TEMP | e->n_temps++));
    return KILN_OK;
}

static void view_of_tensor(struct view *v, const kiln_tensor *t, uint16_t slot)
{
    v->slot = slot;
    v->dtype = t->type.dtype;
    v->rank = t->type.rank;
    v->immediate = t->storage == NULL;
    v->bits = 0;
    v->number = t->number;
    v->integer = t->integer;
    v->offset = t->layout.offset;
    for (int i = 0; i < t->type.rank; i++) {
        v->dims[i] = t->type.dims[i];
        v->strides[i] = t->layout.strides[i];
    }
}

kiln_status eager_lower(struct op_call *c, kiln_device *dev, kiln_tensor *const *in, kiln_tensor *const *out)
{
    for (int i = 0; i < c->n_in; i++)
        if (in[i]) TRY(tensor_force(in[i], c->op->name));
    for (int i = 0; i < c->n_out; i++) TRY(storage_prepare_write(out[i]->storage, c->op->name));
    struct eager e;
    e.base = (struct lowering){.caps = &dev->caps, .launch = launch, .temp = temp, .op = c->op->name};
    e.dev = dev;
    e.in = in;
    e.out = out;
    e.n_temps = 0;
    e.call = c;
    struct call_facts facts;
    e.facts = profile_on() ? &facts : NULL;
    if (KILN_UNLIKELY(e.facts != NULL)) call_facts_make(e.facts, c);
    struct view few[12], *vin = c->n_in > 12 ? malloc(sizeof *vin * (size_t)c->n_in) : few, vout[OP_MAX_OUT];
    if (!vin) return error_set(KILN_E_MEMORY, "%s: out of memory", c->op->name);
    for (int i = 0; i < c->n_in; i++)
        if (in[i]) view_of_tensor(&vin[i], in[i], (uint16_t)i);
    for (int i = 0; i < c->n_out; i++) view_of_tensor(&vout[i], out[i], (uint16_t)(SLOT_OUT | i));
    c->vin = vin;
    c->vout = vout;
    struct watched *watched = KILN_UNLIKELY(values_watched()) ? watch_inputs(c, in) : NULL;
    bool unchecked = KILN_UNLIKELY(watched_kinds() & WATCH_INDICES) && !dev->caps.checks_indices;
    kiln_status status = unchecked ? watch_indices(c, in) : KILN_OK;
    if (!status) status = c->op->fn->lower(c, &e.base);
    if (KILN_UNLIKELY(status)) error_name_op(c->op->name);
    if (KILN_UNLIKELY(watched)) watch_outputs(watched, c, out, status);
    c->vin = c->vout = NULL;
    for (int i = 0; i < e.n_temps; i++) device_release(dev, &e.temps[i]);
    if (vin != few) free(vin);
    return status;
}

// Every element of a view must lie in its storage; only as_strided can ask for others.
kiln_status eager_check_reach(const struct op_call *c, const struct storage *s, const struct layout *l)
{
    const struct type *t = &c->out[0];
    int64_t lo = l->offset, hi = l->offset, size = (int64_t)(s->block.size_B / dtype_size_B[t->dtype]);
    for (int i = 0; i < t->rank; i++) {
        int64_t reach;
        if (t->dims[i] == 0) return KILN_OK;
        if (__builtin_mul_overflow(l->strides[i], t->dims[i] - 1, &reach) ||
            __builtin_add_overflow(reach < 0 ? lo : hi, reach, reach < 0 ? &lo : &hi))
            return error_set(KILN_E_SHAPE, "%s: strides and shape overflow", c->op->name);
    }
    if (lo >= 0 && hi < size) return KILN_OK;
    return error_set(KILN_E_SHAPE, "%s: elements %lld to %lld are asked for, the storage has %lld", c->op->name,
                     (long long)lo, (long long)hi, (long long)size);
}

static kiln_status view_output(struct op_call *c, kiln_tensor *const *in, kiln_tensor **out, bool *copy)
{
    struct layout l;
    *copy = false;
    TRY(c->op->fn->view(c, &in[0]->layout, &l, copy));
    if (*copy) return KILN_OK;
    TRY(eager_check_reach(c, in[0]->storage, &l));
    out[0] = tensor_on(in[0]->storage, &c->out[0], &l);
    if (!out[0]) return error_pending;
    out[0]->constant = in[0]->constant;
    return KILN_OK;
}

static kiln_status run(struct op_call *c, kiln_device *dev, kiln_tensor *const *in, kiln_tensor **out)
{
    bool copy = true;
    if (c->op->flags & OP_VIEW) TRY(view_output(c, in, out, &copy));
    if (copy) {
        for (int i = 0; i < c->n_out; i++) {
            out[i] = tensor_empty(dev, &c->out[i]);
            if (!out[i]) return error_pending;
            out[i]->storage->writer = c->op->name;
        }
        TRY(eager_lower(c, dev, in, out));
    }
    if (tensor_wants_tape(c->n_in, in)) TRY(tensor_tape.record(c, in, out));
    return !copy && tensor_tape.viewed ? tensor_tape.viewed(in[0], out[0]) : KILN_OK;
}

static kiln_status eager_apply(struct sink *s, struct op_call *c, kiln_device *dev, kiln_tensor *const *in,
                               kiln_tensor **out)
{
    (void)s;
    kiln_status status = run(c, dev, in, out);
    if (KILN_LIKELY(!status)) return KILN_OK;
    error_name_op(c->op->name);
    for (int i = 0; i < c->n_out; i++)
        if (out[i]) {
            tensor_destroy(out[i]);
            out[i] = NULL;
        }
    return status;
}

struct sink eager_sink = {.apply = eager_apply};

kiln_status eager_at_once(struct op_call *c, kiln_device *dev, kiln_tensor *const *in, kiln_tensor **out)
{
    struct sink *sink = thread_state.sink;
    thread_state.sink = NULL;
    kiln_status status = eager_apply(&eager_sink, c, dev, in, out);
    thread_state.sink = sink;
    return status;
}
