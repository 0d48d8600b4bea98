// The value of an instance: its unit's expression, with operands from memory or from other instances.
#include "fuse/build.h"

// `at`, `where`: see SCALAR_LOAD; -1 for none.
static int add_load(struct builder *b, const struct instance *i, int o, int at, int where)
{
    const struct launch_operand *in = &unit_of(b, i)->l.operands[o];
    struct form f;
    affine_compose(&b->space, &i->map, in->strides, first_element(in), &f);
    int access = build_access(b, in, &f);
    return access < 0 ? -1 : dag_load(&b->dag, dtype_class(in->dtype), (uint16_t)access, at, where);
}

static int add_i32(struct builder *b, int64_t v)
{
    return build_scalar(b, CLASS_I32, (uint32_t)(int32_t)v);
}

static int form_i32(struct builder *b, const struct form *f)
{
    struct dag_builder *d = &b->dag;
    int sum = add_i32(b, f->offset);
    for (int i = 0; i < b->space.n_dims; i++) {
        if (!f->k[i] || b->space.sizes[i] == 1) continue;
        int term = build_convert(b, dag_dim(d, (uint16_t)i), CLASS_I32);
        if (f->k[i] != 1) term = dag_prim(d, PRIM_mul, term, add_i32(b, f->k[i]), 0);
        sum = dag_prim(d, PRIM_add, sum, term, 0);
    }
    return sum;
}

// Where the unit reads its first operand.
static int in_windows(struct builder *b, const struct instance *i)
{
    struct dag_builder *d = &b->dag;
    const struct unit *u = unit_of(b, i);
    int inside = -1;
    for (int n = 0; n < u->n_windows; n++) {
        const struct launch_window *w = &u->windows[n];
        struct form at = {.offset =
                              w->first + w->step * i->map.to[w->outer].offset + w->tap * i->map.to[w->inner].offset};
        for (int k = 0; k < b->space.n_dims; k++)
            at.k[k] = w->step * i->map.to[w->outer].k[k] + w->tap * i->map.to[w->inner].k[k];
        int place = form_i32(b, &at);
        int above = dag_prim(d, PRIM_ge, place, dag_const(d, CLASS_I32, (union scalar_value){.i32 = 0}), 0);
        int both = dag_prim(d, PRIM_and, above, dag_prim(d, PRIM_lt, place, add_i32(b, w->size), 0), 0);
        inside = inside < 0 ? both : dag_prim(d, PRIM_and, inside, both, 0);
    }
    return inside;
}

static int memory_value(struct builder *b, const struct instance *i, int o)
{
    if (o > 0 || !unit_of(b, i)->n_windows) return add_load(b, i, o, -1, -1);
    int as_strides_say = dag_const(&b->dag, CLASS_I64, (union scalar_value){.i64 = 0});
    return add_load(b, i, o, as_strides_say, in_windows(b, i));
}

static int operand_value(struct builder *b, const struct instance *i, int o, enum scalar_class cls)
{
    const struct launch_operand *in = &unit_of(b, i)->l.operands[o];
    if (!in_memory(in) && in->slot) return build_scalar_of(b, cls, 0, (uint16_t)((in->slot & ~SLOT_SCALAR) + 1));
    if (!in_memory(in)) return build_scalar(b, cls, in->address);
    if (i->source[o] < 0) return build_loaded(b, memory_value(b, i, o), in->dtype, cls);
    const struct instance *from = &b->instances[i->source[o]];
    const struct unit *maker = unit_of(b, from);
    int node = build_as_dtype(b, from->node, maker->l.operands[maker->n_in].dtype, in->dtype);
    return build_loaded(b, node, in->dtype, cls);
}

static int form_value(struct builder *b, const struct form *f)
{
    struct dag_builder *d = &b->dag;
    int sum = dag_const(d, CLASS_I64, (union scalar_value){.i64 = f->offset});
    for (int i = 0; i < b->space.n_dims; i++) {
        if (!f->k[i] || b->space.sizes[i] == 1) continue;
        int term = dag_dim(d, (uint16_t)i);
        if (f->k[i] != 1) term = dag_prim(d, PRIM_mul, term, build_scalar(b, CLASS_I64, (uint64_t)f->k[i]), 0);
        sum = dag_prim(d, PRIM_add, term, sum, 0);
    }
    return sum;
}

// The unit's row, counted as its own kernel would: the last dimensions of the launch, whether or not it folds.
static int row_position(struct builder *b, const struct instance *i)
{
    const struct unit *u = unit_of(b, i);
    int n_row = u->row_dims;
    struct form position = {0};
    int64_t step = 1;
    for (int j = u->l.rank - 1; j >= u->l.rank - n_row; j--) {
        position.offset += step * i->map.to[j].offset;
        for (int d = 0; d < b->space.n_dims; d++) position.k[d] += step * i->map.to[j].k[d];
        step *= u->l.sizes[j];
    }
    return form_value(b, &position);
}

static int64_t row_count(const struct unit *u)
{
    int64_t n = 1;
    for (int j = u->l.rank - u->row_dims; j < u->l.rank; j++) n *= u->l.sizes[j];
    return n;
}

static int node_value(struct builder *b, const struct instance *i, const struct scalar_node *n, const int *arg)
{
    const struct unit *u = unit_of(b, i);
    if (n->kind == SCALAR_LOAD) return add_load(b, i, n->code, arg[0], arg[1]);
    if (n->kind == SCALAR_INPUT && n->code < u->n_in) return operand_value(b, i, n->code, u->in_cls[n->code]);
    if (n->kind == SCALAR_INPUT) return build_scalar(b, n->cls, u->l.scalars[n->code - u->n_in]);
    if (n->kind == SCALAR_PRIM && n->code == PRIM_rindex) return row_position(b, i);
    if (n->kind == SCALAR_PRIM && n->code == PRIM_rcount) return build_scalar(b, CLASS_I64, (uint64_t)row_count(u));
    if (n->kind == SCALAR_REDUCE) return build_reduction(b, i, n, arg[0]);
    return dag_copy(&b->dag, n, arg);
}

kiln_status build_value(struct builder *b, struct instance *i)
{
    const struct unit *u = unit_of(b, i);
    const struct scalar_dag *d = &u->body->dag;
    int *at = arena_alloc(b->arena, sizeof *at * (size_t)d->n_nodes);
    if (!at) return error_pending;
    for (int n = 0; n < d->n_nodes; n++) {
        int arg[3] = {-1, -1, -1};
        for (int a = 0; a < d->nodes[n].n_args; a++) arg[a] = at[d->nodes[n].arg[a]];
        at[n] = node_value(b, i, &d->nodes[n], arg);
        if (at[n] < 0) return error_pending; // or b->why
    }
    unsigned dtype = u->l.operands[u->n_in].dtype;
    if (u->body->check >= 0 && b->set->checks) {
        if (b->k->n_checks == FUSED_MAX_CHECKS) return refuse(b, "too many indices to check");
        b->k->checks[b->k->n_checks++] = (uint16_t)at[u->body->check];
    }
    i->node = build_through_storage(b, build_to_storage(b, at[d->root], dtype), dtype);
    return i->node < 0 ? error_pending : KILN_OK;
}
