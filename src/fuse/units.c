// Makes the units: lowers each node of a graph once, with numbers of buffers where eager mode has addresses.
#include "fuse/units.h"
#include "fuse/kernel.h"
#include "ops/body.h"
#include "ops/lower.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct units_maker {
    struct lowering base;
    struct units *u;
    const struct op_call *call;
    const int32_t *in; // buffers of the call's inputs
    int32_t out[OP_MAX_OUT];
    int32_t node;
    int32_t order; // the buffer by which effects stay in order; -1: there are none
    VEC(int32_t) temps;
};

static bool folds(const struct scalar_dag *d)
{
    for (int i = 0; i < d->n_nodes; i++)
        if (d->nodes[i].kind == SCALAR_REDUCE) return true;
    return false;
}

// What a device has no kernel for falls back to the CPU, op by op; what has more dimensions than a fused kernel stays
// the launch that it is.
static bool may_fuse(const struct launch *l, const struct device_caps *caps)
{
    if (l->rank > FUSED_DIMS || (caps->own_products && kernel_multiplies(l->kernel))) return false;
    return caps->host || !kernel_info(l->kernel)->cpu_only;
}

// What only moves elements was lowered on bits; fused, it moves values of the buffers' own dtype.
static void give_dtypes_back(const struct units *u, struct unit *unit)
{
    struct launch_operand *from = &unit->l.operands[0], *to = &unit->l.operands[unit->n_in];
    if (!unit->body->moves || (from->flags & OPERAND_IMMEDIATE)) return;
    uint8_t dtype = u->buffers.v[from->slot].dtype;
    if (dtype != u->buffers.v[to->slot].dtype || dtype_size_B[dtype] != dtype_size_B[from->dtype] ||
        from->dtype != to->dtype)
        return;
    unit->bits_dtype = from->dtype;
    from->dtype = to->dtype = dtype;
    unit->in_cls[0] = dtype_class(dtype);
}

static kiln_status unfold(struct units *u, struct unit *unit)
{
    struct launch plain = unit->l;
    unit->n_windows = kernel_unfold(unit->l.kernel, &unit->l, unit->windows);
    if (unit->l.rank == plain.rank) return KILN_OK;
    unit->plain = arena_alloc(&u->arena, sizeof plain);
    if (!unit->plain) return error_pending;
    *unit->plain = plain;
    return KILN_OK;
}

// A buffer that is read or written as elements of another size has other positions than the unit beside it knows of.
static bool keeps_elements(const struct units *u, const struct unit *unit)
{
    for (int i = 0; i < unit->l.n_operands; i++) {
        const struct launch_operand *o = &unit->l.operands[i];
        if (o->flags & OPERAND_IMMEDIATE) continue;
        if (dtype_size_B[o->dtype] != dtype_size_B[u->buffers.v[o->slot].dtype]) return false;
    }
    return true;
}

static kiln_status record(struct lowering *base, struct launch *l)
{
    struct units_maker *m = (struct units_maker *)base;
    const struct kernel_info *k = kernel_info(l->kernel);
    struct unit unit = {.l = *l, .node = m->node, .n_in = k->n_operands - k->n_out, .row_dims = l->n_reduce};
    for (int i = 0; i < l->n_operands; i++) {
        struct launch_operand *o = &unit.l.operands[i];
        if (o->flags & OPERAND_IMMEDIATE) {
            o->slot = o->slot & SLOT_SCALAR; // none, or the number of the input
            if (o->slot) o->slot = l->operands[i].slot;
            continue;
        }
        int32_t b = o->slot & SLOT_TEMP  ? m->temps.v[o->slot & ~SLOT_TEMP]
                    : o->slot & SLOT_OUT ? m->out[o->slot & ~SLOT_OUT]
                                         : m->in[o->slot];
        if (b < 0) return error_set(KILN_E_INTERNAL, "%s: a launch names a slot without memory", l->op);
        o->slot = (uint32_t)b;
        if (!(o->flags & OPERAND_WRITE)) continue;
        m->u->buffers.v[b].n_writes++;
        m->u->buffers.v[b].writer = (int32_t)m->u->v.n;
    }
    unit.random = l->n_scalars == 2 && l->scalars[0] == (uint64_t)RNG_OF_RUN;
    if (kernel_has_body(l->kernel) && may_fuse(l, base->caps) && keeps_elements(m->u, &unit)) {
        unit.body = kernel_body(l->kernel);
        if (!unit.body) return error_pending;
        memcpy(unit.in_cls, unit.body->in_cls, sizeof unit.in_cls);
        give_dtypes_back(m->u, &unit);
        unit.folds = folds(&unit.body->dag);
        unit.anchor = kernel_multiplies(l->kernel);
        if (unit.anchor) TRY(unfold(m->u, &unit));
        if (!unit.folds) unit.l.n_reduce = 0;
    }
    return vec_push(&m->u->v, unit);
}

static kiln_status temp(struct lowering *base, const struct type *t, struct view *out)
{
    struct units_maker *m = (struct units_maker *)base;
    struct layout l;
    int32_t b = units_add_buffer(m->u, BUFFER_TEMP, t, -1);
    if (b < 0) return error_pending;
    layout_contiguous(t, &l);
    *out = view_of(t, &l, (uint16_t)(SLOT_TEMP | m->temps.n));
    return vec_push(&m->temps, b);
}

static bool joins(struct lowering *base, const struct view *x)
{
    const struct units_maker *m = (const struct units_maker *)base;
    int32_t writer = x->immediate || x->slot >= SLOT_OUT ? -1 : m->u->buffers.v[m->in[x->slot]].writer;
    return writer >= 0 && m->u->v.v[writer].body;
}

static void set_view(const struct units *u, int32_t value, uint16_t slot, struct view *out)
{
    const struct ir_value *v = &u->graph->values.v[value];
    *out = view_of(&v->type, &u->values[value].layout, slot);
    if (v->kind == IR_INPUT && u->values[value].is_number) { // that each run brings
        out->immediate = true;
        out->slot = (uint16_t)(SLOT_SCALAR | u->values[value].input);
    }
    if (v->kind != IR_NUMBER) return;
    out->immediate = true;
    out->number = v->number;
    out->integer = v->integer;
}

static kiln_status lower_call(struct units_maker *m, struct op_call *c, const struct ir_node *n)
{
    const int32_t *operands = ir_operands(m->u->graph, n);
    struct view few[16], *vin = c->n_in > 16 ? malloc(sizeof *vin * (size_t)c->n_in) : few, vout[OP_MAX_OUT];
    if (!vin) return error_set(KILN_E_MEMORY, "%s: out of memory", c->op->name);
    for (int i = 0; i < c->n_in; i++)
        if (operands[i] >= 0) set_view(m->u, operands[i], (uint16_t)i, &vin[i]);
    for (int i = 0; i < c->n_out; i++) {
        vout[i] = view_of(&c->out[i], &m->u->values[n->first_out + i].layout, (uint16_t)(SLOT_OUT | i));
    }
    c->vin = vin;
    c->vout = vout;
    kiln_status status = c->op->fn->lower(c, &m->base);
    if (vin != few) free(vin);
    return status;
}

// A view that strides can express is no unit. `base` is where its operand lies.
static kiln_status try_view(struct units *u, struct op_call *c, const struct unit_view *base, int32_t out, bool *done)
{
    bool copy = false;
    TRY(c->op->fn->view(c, &base->layout, &u->values[out].layout, &copy));
    *done = !copy;
    const struct layout *l = &u->values[out].layout; // by positions: the operand is dense here
    if (c->op->flags & OP_STORAGE_VIEW) TRY(layout_check_within(c->op->name, &c->out[0], l, type_numel(c->in[0])));
    if (*done) u->values[out].buffer = base->buffer;
    return KILN_OK;
}

// Row-major, or, where an input has the same dimensions but for the last, which is dense, in that one's order: so heads
// that were taken apart as views are put together as one.
static void lay_out(const struct units *u, const struct ir_node *n, const struct op_call *c, int i, struct layout *out)
{
    const struct type *t = &c->out[i];
    layout_contiguous(t, out);
    if (!(c->op->flags & OP_FOLLOWS) || i >= c->n_in || !c->in[i] || c->in[i]->rank != t->rank || t->rank < 2) return;
    const struct layout *like = &u->values[ir_operands(u->graph, n)[i]].layout;
    int last = t->rank - 1, order[MAX_RANK];
    if (like->strides[last] != 1) return;
    for (int d = 0; d < last; d++) {
        if (c->in[i]->dims[d] != t->dims[d] || like->strides[d] <= 0) return;
        int at = d;
        for (; at > 0 && like->strides[order[at - 1]] < like->strides[d]; at--) order[at] = order[at - 1];
        order[at] = d;
    }
    int64_t stride = t->dims[last];
    for (int at = last; at-- > 0; stride *= t->dims[order[at]]) out->strides[order[at]] = stride;
}

static kiln_status make_outputs(struct units_maker *m, const struct ir_node *n, struct op_call *c)
{
    struct units *u = m->u;
    for (int i = 0; i < n->n_out; i++) {
        int32_t value = n->first_out + i;
        m->out[i] = units_add_buffer(u, BUFFER_VALUE, &c->out[i], value);
        if (m->out[i] < 0) return error_pending;
        u->values[value].buffer = m->out[i];
        lay_out(u, n, c, i, &u->values[value].layout);
    }
    return KILN_OK;
}

// A dense, row-major copy: of a number of which a view is taken, of a value for a view by positions.
static kiln_status make_dense(struct units_maker *m, int32_t value, struct unit_view *out)
{
    struct units *u = m->u;
    struct type t = u->graph->values.v[value].type;
    struct view from, to;
    int32_t in[1] = {out->buffer};
    if (out->buffer < 0 && t.dtype == KILN_F64) t.dtype = KILN_F32;
    set_view(u, value, 0, &from);
    m->out[0] = units_add_buffer(u, BUFFER_VALUE, &t, value);
    if (m->out[0] < 0) return error_pending;
    layout_contiguous(&t, &out->layout);
    to = view_of(&t, &out->layout, SLOT_OUT);
    m->in = in;
    m->base.op = "contiguous";
    TRY(lower_copy(&m->base, &from, &to));
    out->buffer = m->out[0];
    return KILN_OK;
}

static kiln_status add_view(struct units_maker *m, struct op_call *c, int32_t operand, int32_t out, bool *done)
{
    struct unit_view base = m->u->values[operand];
    const struct type *t = &m->u->graph->values.v[operand].type;
    bool by_positions =
        c->op->flags & OP_STORAGE_VIEW && (!layout_is_contiguous(t, &base.layout) || base.layout.offset != 0);
    if (base.buffer < 0 || by_positions) TRY(make_dense(m, operand, &base));
    return try_view(m->u, c, &base, out, done);
}

// Effects read and write one byte that nobody else knows, so that they stay in order.
static kiln_status order_effects(struct units_maker *m, struct launch_operand *o)
{
    static const struct type byte = {.dtype = KILN_U8};
    if (m->order < 0) m->order = units_add_buffer(m->u, BUFFER_VALUE, &byte, -1);
    if (m->order < 0) return error_pending;
    o[0] = (struct launch_operand){.slot = (uint32_t)m->order};
    o[1] = (struct launch_operand){.slot = (uint32_t)m->order, .flags = OPERAND_WRITE};
    m->u->buffers.v[m->order].n_writes++;
    m->u->buffers.v[m->order].writer = (int32_t)m->u->v.n;
    return KILN_OK;
}

// A node with regions reads and writes memory; numbers it is given by themselves.
static kiln_status add_regions(struct units_maker *m, const struct ir_node *n)
{
    struct units *u = m->u;
    const int32_t *in = ir_operands(u->graph, n);
    struct unit unit = {.node = m->node};
    struct unit_region *r = arena_alloc(&u->arena, sizeof *r);
    struct launch_operand *o = arena_alloc(&u->arena, sizeof *o * (size_t)(n->n_in + n->n_out + 2));
    if (!r || !o) return error_pending;
    *r = (struct unit_region){.operands = o, .has_effect = ir_node_has_effect(u->graph, n)};
    for (int32_t i = 0; i < n->n_in; i++)
        if (u->values[in[i]].buffer >= 0)
            o[r->n_operands++] = (struct launch_operand){.slot = (uint32_t)u->values[in[i]].buffer};
    for (int32_t i = 0; i < n->n_out; i++) {
        struct unit_view *at = &u->values[n->first_out + i];
        const struct type *t = &u->graph->values.v[n->first_out + i].type;
        at->buffer = units_add_buffer(u, BUFFER_VALUE, t, n->first_out + i);
        if (at->buffer < 0) return error_pending;
        layout_contiguous(t, &at->layout);
        o[r->n_operands++] = (struct launch_operand){.slot = (uint32_t)at->buffer, .flags = OPERAND_WRITE};
        u->buffers.v[at->buffer].n_writes++;
        u->buffers.v[at->buffer].writer = (int32_t)u->v.n;
    }
    if (r->has_effect) {
        TRY(order_effects(m, o + r->n_operands));
        r->n_operands += 2;
    }
    unit.region = r;
    return vec_push(&u->v, unit);
}

static kiln_status add_node(struct units_maker *m, const struct ir_node *n, const struct type **types, int32_t *buffers)
{
    struct units *u = m->u;
    const struct kiln_graph *g = u->graph;
    const int32_t *operands = ir_operands(g, n);
    struct op_call c = {.op = n->op, .n_in = n->n_in, .n_out = n->n_out, .in = types};
    bool done;
    c.attrs = (struct attr *)(uintptr_t)n->attrs; // infer and lower read them
    for (int i = 0; i < n->n_in; i++) {
        types[i] = operands[i] < 0 ? NULL : &g->values.v[operands[i]].type;
        buffers[i] = operands[i] < 0 ? -1 : u->values[operands[i]].buffer;
    }
    if (op_regions_rule(n->op)) return add_regions(m, n);
    TRY(op_infer(&c));
    done = false;
    if (n->op->flags & OP_VIEW) TRY(add_view(m, &c, operands[0], n->first_out, &done));
    if (done) return KILN_OK;
    if (!n->op->fn->lower)
        return error_set(KILN_E_UNSUPPORTED, "%s: cannot be compiled: it is a view that no strides express",
                         n->op->name);
    m->call = &c;
    m->in = buffers;
    m->base.op = n->op->name;
    m->temps.n = 0;
    TRY(make_outputs(m, n, &c));
    return lower_call(m, &c, n);
}

static kiln_status add_nodes(struct units_maker *m)
{
    const struct kiln_graph *g = m->u->graph;
    size_t most = 1;
    for (size_t i = 0; i < g->nodes.n; i++)
        if ((size_t)g->nodes.v[i].n_in > most) most = (size_t)g->nodes.v[i].n_in;
    const struct type **types = malloc(sizeof *types * most);
    int32_t *buffers = malloc(sizeof *buffers * most);
    kiln_status status = types && buffers ? KILN_OK : error_set(KILN_E_MEMORY, "graph: out of memory");
    for (size_t i = 0; i < g->nodes.n && !status; i++) {
        m->node = (int32_t)i;
        if (g->nodes.v[i].region >= 0) continue; // its owner stands for it
        status = add_node(m, &g->nodes.v[i], types, buffers);
    }
    free(types);
    free(buffers);
    return status;
}

static kiln_status add_given(struct units *u, const struct units_options *o)
{
    const struct kiln_graph *g = u->graph;
    int n_inputs = 0;
    for (size_t i = 0; i < g->values.n; i++) {
        const struct ir_value *v = &g->values.v[i];
        struct unit_view *at = &u->values[i];
        at->buffer = -1;
        if (v->kind != IR_INPUT && v->kind != IR_CONSTANT) continue;
        layout_contiguous(&v->type, &at->layout);
        at->buffer = units_add_buffer(u, v->kind == IR_INPUT ? BUFFER_INPUT : BUFFER_CONSTANT, &v->type, (int32_t)i);
        if (at->buffer < 0) return error_pending;
        if (v->kind == IR_CONSTANT) {
            o->constant_layout(v->held, &at->layout);
            continue;
        }
        if (o->layouts && o->layouts[n_inputs]) at->layout = *o->layouts[n_inputs];
        at->layout.offset = 0; // a run adds the tensor's own
        at->input = n_inputs++;
        at->is_number = o->numbers ? o->numbers[at->input] : v->type.weak;
        if (at->is_number) at->buffer = -1; // the buffer counts as an input that nothing reads
        if (n_inputs > SLOT_SCALAR) return error_set(KILN_E_UNSUPPORTED, "graph: more than %d inputs", SLOT_SCALAR);
    }
    return KILN_OK;
}

// What is fused through must be written once, by a unit that does not read it.
static void find_ordered(struct units *u)
{
    for (size_t i = 0; i < u->buffers.n; i++)
        u->buffers.v[i].ordered = u->buffers.v[i].n_writes > 1 || u->buffers.v[i].in_place;
    // A copy of what is written back reads no more than it writes: fusion looks at it closer.
    for (size_t i = 0; i < u->v.n; i++) {
        const struct unit *unit = &u->v.v[i];
        for (int w = 0; unit->node >= 0 && w < unit->l.n_operands; w++)
            for (int r = 0; r < unit->l.n_operands && unit_writes(unit, w); r++)
                if (unit_reads(unit, r) && unit->l.operands[r].slot == unit->l.operands[w].slot)
                    u->buffers.v[unit->l.operands[w].slot].ordered = true;
    }
}

// The view of a value in a buffer, for a copy that is no op's.
static struct view lying_view(const struct units *u, int32_t value, int32_t *buffer)
{
    struct view v;
    *buffer = u->values[value].buffer;
    set_view(u, value, 0, &v);
    return v;
}

static bool is_target(const struct units *u, int32_t buffer)
{
    for (size_t i = 0; i < u->graph->outputs.n; i++) {
        int32_t target = u->graph->outputs.v[i].target;
        if (target >= 0 && u->values[target].buffer == buffer) return true;
    }
    return false;
}

// What is written back from memory that is itself written back, or may be under another name, is put aside first: two
// inputs may exchange their values.
static kiln_status put_aside(struct units_maker *m, const struct type *t, struct view *v, int32_t *buffer)
{
    struct layout l;
    int32_t in[1] = {*buffer};
    layout_contiguous(t, &l);
    m->out[0] = units_add_buffer(m->u, BUFFER_VALUE, t, -1);
    if (m->out[0] < 0) return error_pending;
    struct view to = view_of(t, &l, SLOT_OUT);
    m->in = in;
    m->node = -1;
    m->base.op = "contiguous";
    TRY(lower_copy(&m->base, v, &to));
    *v = to;
    v->slot = 0;
    *buffer = m->out[0];
    return KILN_OK;
}

// A result that is memory which is written back is what was there before; one that the caller must be able to write
// apart from another is a copy.
static kiln_status keep_result(struct units_maker *m, const struct ir_output *o, bool separate, bool dense,
                               struct unit_view *out)
{
    struct units *u = m->u;
    *out = u->values[o->value];
    if (out->buffer < 0) return KILN_OK;
    bool changes = unit_buffer_is_given(&u->buffers.v[out->buffer]) && is_target(u, out->buffer);
    const struct type *type = &u->graph->values.v[o->value].type;
    bool lies_well = !dense || (out->layout.offset == 0 && layout_is_contiguous(type, &out->layout));
    if (!changes && !separate && lies_well) return KILN_OK;
    const struct type *t = &u->graph->values.v[o->value].type;
    struct view v = lying_view(u, o->value, &out->buffer);
    layout_contiguous(t, &out->layout);
    return put_aside(m, t, &v, &out->buffer);
}

struct write {
    const struct ir_output *o;
    struct view from;
    int32_t buffer;
};

static kiln_status add_write(struct units_maker *m, struct write *w, bool shared)
{
    struct units *u = m->u;
    struct unit_buffer *target = &u->buffers.v[u->values[w->o->target].buffer];
    if (target->n_writes)
        return error_set(KILN_E_INTERNAL, "graph: %s is written back twice", w->o->name ? w->o->name : "an input");
    struct view to = lying_view(u, w->o->target, &m->out[0]);
    to.slot = SLOT_OUT;
    m->in = &w->buffer;
    m->node = -1;
    m->base.op = "assign";
    size_t before = u->v.n;
    TRY(lower_copy(&m->base, &w->from, &to));
    for (size_t i = before; i < u->v.n && shared; i++) u->v.v[i].body = NULL;
    return KILN_OK;
}

static kiln_status add_writes(struct units_maker *m, const struct units_options *uo)
{
    const struct kiln_graph *g = m->u->graph;
    struct write *writes = calloc(g->outputs.n + 1, sizeof *writes);
    kiln_status status = writes ? KILN_OK : error_set(KILN_E_MEMORY, "graph: out of memory");
    int n = 0, n_results = 0;
    for (size_t i = 0; i < g->outputs.n && !status; i++) {
        const struct ir_output *o = &g->outputs.v[i];
        if (o->target < 0) {
            status = keep_result(m, o, uo->separate && uo->separate[i], uo->dense && uo->dense[n_results++],
                                 &m->u->outputs[i]);
            continue;
        }
        struct write *w = &writes[n++];
        w->o = o;
        w->from = lying_view(m->u, o->value, &w->buffer);
        const struct unit_buffer *from = w->buffer >= 0 ? &m->u->buffers.v[w->buffer] : NULL;
        bool given = from && unit_buffer_is_given(from), shared = given && (!uo->shared || uo->shared[from->value]);
        if (given && (shared || is_target(m->u, w->buffer)))
            status = put_aside(m, &g->values.v[o->value].type, &w->from, &w->buffer);
    }
    for (int i = 0; i < n && !status; i++)
        status = add_write(m, &writes[i], !uo->shared || uo->shared[writes[i].o->target]);
    free(writes);
    return status;
}

// Units whose results nobody reads go, and the buffers keep their numbers.
static void drop_dead(struct units *u)
{
    for (size_t i = u->v.n; i-- > 0;) { // `ordered` serves as the mark of what is read
        struct unit *unit = &u->v.v[i];
        bool live = unit->region && unit->region->has_effect;
        for (int o = 0; o < unit_n_operands(unit); o++) {
            const struct unit_buffer *b = &u->buffers.v[unit_operands(unit)[o].slot];
            live = live || (unit_writes(unit, o) && (b->kept || b->ordered || unit_buffer_is_given(b)));
        }
        if (!live) unit_drop(unit);
        for (int o = 0; o < unit_n_operands(unit); o++)
            if (unit_reads(unit, o)) u->buffers.v[unit_operands(unit)[o].slot].ordered = true;
    }
    for (size_t i = 0; i < u->buffers.n; i++) u->buffers.v[i].ordered = false;
}

// Takes out units without operands, and counts the writers of each buffer.
static void compact(struct units *u)
{
    size_t n = 0;
    for (size_t i = 0; i < u->buffers.n; i++) {
        u->buffers.v[i].n_writes = 0;
        u->buffers.v[i].writer = -1;
    }
    for (size_t i = 0; i < u->v.n; i++) {
        if (!unit_n_operands(&u->v.v[i])) continue;
        if (n != i) u->v.v[n] = u->v.v[i];
        for (int o = 0; o < unit_n_operands(&u->v.v[n]); o++) {
            if (!unit_writes(&u->v.v[n], o)) continue;
            struct unit_buffer *b = &u->buffers.v[unit_operands(&u->v.v[n])[o].slot];
            b->n_writes++;
            b->writer = (int32_t)n;
        }
        n++;
    }
    u->v.n = n;
}

// The array of units is large and lives for a short time. The next graph takes over its memory, for new pages of the
// system cost more than all that is written to them. While nobody has it, its capacity stands at its beginning.
static _Atomic(struct unit *) spare;
enum { SPARE_MAX_B = 8 << 20 };

static kiln_status begin_units(struct units *u, size_t n)
{
    u->v.v = atomic_exchange(&spare, NULL);
    if (u->v.v) memcpy(&u->v.cap, u->v.v, sizeof u->v.cap);
    return vec_reserve(&u->v, n);
}

static void end_units(struct units *u)
{
    if (u->v.cap && u->v.cap * sizeof *u->v.v <= SPARE_MAX_B) {
        memcpy(u->v.v, &u->v.cap, sizeof u->v.cap);
        u->v.v = atomic_exchange(&spare, u->v.v);
    }
    vec_free(&u->v);
}

kiln_status units_make(struct units *u, const struct kiln_graph *g, const struct units_options *o)
{
    struct units_maker m = {
        .base = {.caps = o->caps, .launch = record, .temp = temp, .joins = joins}, .u = u, .order = -1};
    *u = (struct units){.graph = g,
                        .values = calloc(g->values.n + 1, sizeof *u->values),
                        .outputs = calloc(g->outputs.n + 1, sizeof *u->outputs)};
    arena_init(&u->arena);
    if (!u->values || !u->outputs) return error_set(KILN_E_MEMORY, "graph: out of memory");
    kiln_status status = begin_units(u, g->nodes.n + 1);
    if (!status) status = add_given(u, o);
    if (!status) status = add_nodes(&m);
    if (!status) status = add_writes(&m, o);
    vec_free(&m.temps);
    if (status) return status;
    for (size_t i = 0; i < g->outputs.n; i++) {
        int32_t b = u->outputs[i].buffer;
        if (b >= 0 && g->outputs.v[i].target < 0) u->buffers.v[b].kept = true;
    }
    drop_dead(u);
    compact(u);
    TRY(units_join(u));
    compact(u);
    TRY(units_forward(u, o->in_place));
    compact(u);
    if (o->attends && o->caps->host && o->caps->own_products) {
        TRY(units_attend(u, o->round_casts));
        compact(u);
    }
    find_ordered(u);
    return KILN_OK;
}

void units_finish(struct units *u)
{
    end_units(u);
    vec_free(&u->buffers);
    free(u->values);
    free(u->outputs);
    u->values = u->outputs = NULL;
    arena_finish(&u->arena);
}
