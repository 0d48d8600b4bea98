// Families: handles that alias each other's memory, and what a write through one of them means for the others.
//
// Invariants. All handles of a family lie on one storage. The family's base is the node of that whole storage, in
// row-major order; its generation counts the writes. A handle whose generation is the family's has the right node; any
// other takes a new one, an as_strided of the base with its own shape, strides and offset, when it is asked next. A
// write through a handle that covers the storage makes the handle's node the base; a write through a part makes base' =
// as_strided_scatter(base, part). So every later read, by whatever handle, has the gradient of what it reads. Handles
// alone hold families: no cycle runs through the tape.
#include "base/process.h"
#include "grad/tape.h"
#include "ops/attrs.h"
#include "ops/families.h"
#include "tensor/apply.h"
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t refresh_lock = PTHREAD_MUTEX_INITIALIZER;
GUARD_LOCK(guard_refresh, refresh_lock)

void family_unref(struct tape_family *f)
{
    if (!f || atomic_fetch_sub_explicit(&f->refs, 1, memory_order_acq_rel) != 1) return;
    node_unref(f->base.node);
    f->base.node = NULL;
    family_forget(f);
}

void family_forget(struct tape_family *f)
{
    if (f && atomic_fetch_sub_explicit(&f->weak, 1, memory_order_acq_rel) == 1) free(f);
}

static void flat_type(const kiln_tensor *t, struct type *out)
{
    *out = (struct type){.dtype = t->type.dtype, .rank = 1};
    out->dims[0] = (int64_t)(t->storage->block.size_B / dtype_size_B[t->type.dtype]);
}

static bool covers_storage(const kiln_tensor *t)
{
    struct type flat;
    flat_type(t, &flat);
    return t->layout.offset == 0 && type_numel(&t->type) == flat.dims[0] && layout_is_contiguous(&t->type, &t->layout);
}

static struct attr ints(int n, const int64_t *v)
{
    return attr_of_ints((size_t)n, v);
}

// base with t's place in it replaced by a value whose node is `part`. The result has one reference.
static kiln_status scatter(const struct tape_edge *base, const struct type *type, const kiln_tensor *t,
                           const struct tape_edge *part, struct tape_node **out)
{
    struct attr attrs[] = {ints(t->type.rank, t->layout.strides), attr_of_int(t->layout.offset)};
    struct tape_edge edges[] = {*base, *part};
    if (!node_requires_grad(base->node) && !node_is_cut(base->node)) edges[0].node = NULL;
    for (int i = 0; i < 2; i++)
        if (node_is_cut(edges[i].node) && !node_requires_grad(edges[1 - i].node)) {
            *out = node_ref(edges[i].node);
            return KILN_OK;
        }
    const struct type *types[] = {type, &t->type};
    return tape_node_make(&op_instances[OP_as_strided_scatter], 2, edges, types, NULL, 1, type, attrs, out);
}

// A family whose base is t, a value with the node `edge`.
static kiln_status family_new(const kiln_tensor *t, const struct tape_edge *edge, struct tape_family **out)
{
    struct tape_family *f = calloc(1, sizeof *f);
    if (!f) return error_set(KILN_E_MEMORY, "out of memory for the tape");
    atomic_init(&f->refs, 1);
    atomic_init(&f->weak, 1);
    f->of_leaf = edge->node && edge->node->kind == NODE_LEAF;
    kiln_status status = KILN_OK;
    if (covers_storage(t)) {
        f->type = t->type;
        f->base = (struct tape_edge){node_ref(edge->node), edge->out};
    } else {
        flat_type(t, &f->type);
        const struct tape_edge none = {NULL, 0};
        if (edge->node) status = scatter(&none, &f->type, t, edge, &f->base.node);
    }
    if (!status)
        *out = f;
    else
        free(f);
    return status;
}

// t's family, made when it has none. Two threads that read t may both come here.
static kiln_status family_of(kiln_tensor *t, struct tape_family **out)
{
    *out = t->family;
    if (*out) return KILN_OK;
    struct tape_edge edge = {t->node, t->node_out};
    struct tape_family *mine = NULL, *none = NULL;
    TRY(family_new(t, &edge, &mine));
    if (!__atomic_compare_exchange_n(&t->family, &none, mine, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        family_unref(mine);
    *out = t->family;
    return KILN_OK;
}

static void join(kiln_tensor *t, struct tape_family *f)
{
    atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
    t->family = f;
    t->generation = f->generation;
}

kiln_status family_viewed(kiln_tensor *base, kiln_tensor *view)
{
    if (!base->storage || base->storage != view->storage) return KILN_OK;
    view->detached = base->detached || thread_state.no_grad;
    if (view->detached) return KILN_OK;
    struct tape_family *f;
    TRY(family_of(base, &f));
    join(view, f);
    return KILN_OK;
}

kiln_status family_share(kiln_tensor *from, kiln_tensor *to)
{
    struct tape_edge edge;
    TRY(tape_current(from, &edge));
    if (from->state) tape_set_node(to, from->state, 0);
    tape_set_node(to, from->node, from->node_out);
    to->detached = from->detached;
    if (!from->storage || from->storage != to->storage || from->detached) return KILN_OK;
    struct tape_family *f;
    TRY(family_of(from, &f));
    join(to, f);
    return KILN_OK;
}

kiln_status family_join(kiln_tensor *first, kiln_tensor *t)
{
    struct tape_family *f;
    struct tape_edge edge = {t->node, t->node_out};
    TRY(family_of(first, &f));
    struct tape_edge base = {node_ref(t->node), t->node_out};
    if (!covers_storage(t)) {
        node_unref(base.node);
        base = (struct tape_edge){NULL, 0};
        if (edge.node || f->base.node) TRY(scatter(&f->base, &f->type, t, &edge, &base.node));
    }
    node_unref(f->base.node);
    f->base = base;
    join(t, f);
    return KILN_OK;
}

kiln_status family_of_state(kiln_tensor *t, struct tape_node *leaf)
{
    struct tape_family *f, *old;
    TRY(family_of(t, &f));
    pthread_mutex_lock(&refresh_lock);
    old = leaf->leaf->family;
    if (old && atomic_load(&old->refs))
        old = NULL; // its handles are there
    else {
        atomic_fetch_add_explicit(&f->weak, 1, memory_order_relaxed);
        leaf->leaf->family = f;
    }
    pthread_mutex_unlock(&refresh_lock);
    family_forget(old);
    return KILN_OK;
}

bool family_has_history(const struct tape_node *state)
{
    const struct tape_family *f = state->leaf->family;
    return f && node_requires_grad(f->base.node);
}

kiln_tensor *family_show(const struct tape_node *state, struct storage *s, const struct type *type,
                         const struct layout *layout)
{
    kiln_tensor *t = tensor_on(s, type, layout);
    if (!t) return NULL;
    if (!family_has_history(state)) return t;
    join(t, state->leaf->family);
    t->generation--;
    return family_refresh(t) ? NULL : t;
}

bool family_is_of_leaf(const kiln_tensor *t)
{
    return t->family && t->family->of_leaf && node_requires_grad(t->family->base.node);
}

kiln_status family_join_late(const kiln_tensor *t, kiln_tensor *all)
{
    if (!t->family) return KILN_OK;
    join(all, t->family);
    all->generation--;
    return family_refresh(all);
}

static bool is_state(const struct tape_node *n)
{
    return n && n->kind == NODE_LEAF && !n->leaf->requires_grad;
}

// Where the last write covered just what t shows: the edge of what was written. No way leads from there through what
// the memory held before, whose tape an earlier backward may have used up.
static const struct tape_edge *find_written(const struct tape_node *base, const kiln_tensor *t)
{
    if (base->freed || base->op != &op_instances[OP_as_strided_scatter]) return NULL;
    struct type type;
    node_value_type(base, &base->values[1], &type);
    if (!type_same_shape(&type, &t->type) || base->attrs[AT_as_strided_scatter_offset].i != t->layout.offset)
        return NULL;
    for (int i = 0; i < type.rank; i++)
        if (type.dims[i] > 1 && base->attrs[AT_as_strided_scatter_strides].v[i] != t->layout.strides[i]) return NULL;
    return &base->edges[1];
}

static kiln_status refresh(kiln_tensor *t)
{
    struct tape_family *f = t->family;
    if (t->generation == f->generation) return KILN_OK;
    struct tape_node *n = NULL;
    uint32_t out = 0;
    if (!node_requires_grad(f->base.node) && (t->state || is_state(t->node))) {
        if (t->state) tape_set_node(t, t->state, 0);
        t->generation = f->generation; // state stays state, whoever writes its memory
        return KILN_OK;
    }
    if (node_is_cut(f->base.node)) n = node_ref(f->base.node);
    if (node_requires_grad(f->base.node)) {
        const struct tape_edge *part = find_written(f->base.node, t);
        if (covers_storage(t) && type_same_shape(&t->type, &f->type)) part = &f->base;
        if (part) {
            n = node_ref(part->node);
            out = part->out;
        } else {
            struct attr attrs[] = {ints(t->type.rank, t->type.dims), ints(t->type.rank, t->layout.strides),
                                   attr_of_int(t->layout.offset)};
            const struct type *types[] = {&f->type};
            TRY(tape_node_make(&op_instances[OP_as_strided], 1, &f->base, types, NULL, 1, &t->type, attrs, &n));
        }
    }
    tape_set_node(t, n, out);
    node_unref(n);
    t->generation = f->generation;
    return KILN_OK;
}

kiln_status family_refresh(kiln_tensor *t)
{
    pthread_mutex_lock(&refresh_lock);
    struct tape_node *old = node_ref(t->node);
    kiln_status status = refresh(t);
    pthread_mutex_unlock(&refresh_lock);
    node_unref(old); // what goes with it may take other locks
    return status;
}

kiln_status family_written(kiln_tensor *t, const struct tape_edge *edge)
{
    struct tape_family *f = t->family;
    if (f && type_numel(&t->type) > 0) {
        struct tape_edge base = {node_ref(edge->node), edge->out};
        bool onto = false;
        if (covers_storage(t))
            f->type = t->type;
        else {
            // A state's part of what has a history of its own.
            onto = node_requires_grad(f->base.node) && !node_requires_grad(edge->node);
            node_unref(base.node);
            base = (struct tape_edge){NULL, 0};
            bool cut = node_is_cut(edge->node) || node_is_cut(f->base.node);
            if (cut || node_requires_grad(edge->node) || node_requires_grad(f->base.node))
                TRY(scatter(&f->base, &f->type, t, edge, &base.node));
        }
        node_unref(f->base.node);
        f->base = base;
        f->of_leaf = edge->node && edge->node->kind == NODE_LEAF && !onto;
        t->generation = ++f->generation;
    }
    tape_set_node(t, edge->node, edge->out);
    return KILN_OK;
}

kiln_status family_state_written(const struct tape_node *state, struct storage *s, const struct type *type,
                                 const struct layout *layout, const struct tape_edge *edge)
{
    struct tape_family *f = state->leaf->family;
    const struct tape_edge own = {(struct tape_node *)state, 0};
    if (!f || !atomic_load(&f->refs)) return KILN_OK; // nothing shows it any more
    kiln_tensor *t = tensor_on(s, type, layout);
    if (!t) return error_pending;
    join(t, f);
    return family_written(t, edge->node ? edge : &own);
}

kiln_status family_make_leaf(kiln_tensor *t, struct tape_node *leaf, kiln_tensor *other)
{
    const struct tape_edge edge = {leaf, 0};
    struct tape_family *f = t->family;
    if (f) {
        TRY(family_written(t, &edge));
        f->of_leaf = true;
        return KILN_OK;
    }
    if (other) {
        TRY(family_new(t, &edge, &f));
        join(t, f);
        join(other, f);
        family_unref(f);
    }
    tape_set_node(t, leaf, 0);
    return KILN_OK;
}
