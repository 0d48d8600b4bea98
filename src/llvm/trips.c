// A kernel that makes the trips of a loop: all trips of a unit, or of a vector of points.
//
// In place, all steps of a unit are done trip by trip; from the second one on, what reads carried values starts where
// they are written (walkers_start). In registers, a slot on the stack, which becomes a register, holds what each output
// carries: loaded before the first trip where an access reads it, replaced at the end of each trip once all new values
// are there, stored after the last one. Walkers move by the steps of their accesses behind each trip.
#include "llvm/body.h"

struct carrier {
    LLVMValueRef slot; // NULL: the output carries nothing
    LLVMTypeRef type;
    int width;
};

static void forget_turning(struct emitter *e)
{
    for (int i = 0; i < e->k->dag.n_nodes; i++)
        if (e->k->turns[i]) e->value[i] = NULL;
}

static void row_nodes(struct emitter *e, bool turning)
{
    for (int i = 0; i < e->k->dag.n_nodes; i++) e->want[i] = pass_level(e, i) == LEVEL_ROW && e->k->turns[i] == turning;
    emit_nodes(e, e->want);
}

static int output_of(const struct emitter *e, int node) // that a carried load takes its value from
{
    return e->k->trips.carried[e->k->dag.nodes[node].code] - 1;
}

// Where lanes share the element, so they do the value.
static int width_of(const struct emitter *e, int output)
{
    bool moves = e->lanes_dim >= 0 && e->k->out[output].to.strides[e->lanes_dim] != 0;
    return moves ? e->width : 1;
}

static void begin_carriers(struct emitter *e, struct carrier *c)
{
    for (int i = 0; i < e->k->n_out; i++) {
        c[i] = (struct carrier){.slot = NULL};
        if (!fused_carries(e->k, i)) continue;
        c[i].width = width_of(e, i);
        c[i].type = emit_class_type(e, e->k->out[i].to.cls, c[i].width);
        c[i].slot = emit_slot(e, c[i].type);
        emit_store(e, LLVMConstNull(c[i].type), c[i].slot);
    }
    for (int i = 0; i < e->k->dag.n_nodes; i++)
        if (fused_is_carried(e->k, i)) emit_store(e, emit_access_load(e, i), c[output_of(e, i)].slot);
}

static void one_trip(struct emitter *e, const struct carrier *c)
{
    LLVMValueRef left[FUSED_MAX_OUT];
    forget_turning(e);
    for (int i = 0; i < e->k->dag.n_nodes; i++)
        if (fused_is_carried(e->k, i)) e->value[i] = emit_load(e, c[output_of(e, i)].type, c[output_of(e, i)].slot);
    row_nodes(e, true);
    for (int i = 0; i < e->k->n_out; i++) {
        const struct fused_output *o = &e->k->out[i];
        if (!e->k->trips.last[i]) emit_access_store(e, i);
        if (c[i].slot) left[i] = emit_stored(e, o->to.dtype, emit_value(e, o->node, c[i].width), c[i].width);
    }
    for (int i = 0; i < e->k->n_out; i++)
        if (c[i].slot) emit_store(e, left[i], c[i].slot);
}

static void store_last(struct emitter *e, const struct carrier *c, int output)
{
    LLVMValueRef *value = &e->value[e->k->out[output].node], before = *value;
    *value = emit_load(e, c->type, c->slot);
    emit_access_store(e, output);
    *value = before;
}

void trips_begin(struct emitter *e, struct loop *l)
{
    loop_begin(e, l, emit_int(e, 0), emit_word(e, llvm_scalar_at(e->k, e->k->trips.count)), 1);
    e->trip = l->index;
    e->number = LLVMBuildAdd(e->b, emit_word(e, llvm_scalar_at(e->k, e->k->trips.first)), l->index, "");
}

void trips_end(struct emitter *e, struct loop *l)
{
    for (int i = 0; i < e->k->dag.n_nodes; i++)
        if (e->k->level[i] != LEVEL_UNIFORM) e->value[i] = NULL;
    loop_end(e, l);
    e->trip = NULL;
}

void trips_body(struct emitter *e, int unused)
{
    struct carrier carriers[FUSED_MAX_OUT];
    struct loop l;
    LLVMValueRef saved[MAX_WALKERS];
    int trips_dim = e->k->n_dims;
    (void)unused;
    row_forget(e, false, false);
    forget_turning(e);
    row_nodes(e, false);
    begin_carriers(e, carriers);
    walkers_save(e, trips_dim, saved);
    trips_begin(e, &l);
    one_trip(e, carriers);
    walkers_advance(e, trips_dim);
    loop_end(e, &l);
    walkers_restore(e, trips_dim, saved);
    forget_turning(e);
    for (int i = 0; i < e->k->n_out; i++)
        if (e->k->trips.last[i]) store_last(e, &carriers[i], i);
}
