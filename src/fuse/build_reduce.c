// A reduction as a node of the kernel's DAG: along the row, across the rows, or none at all where the row's values are
// the same, or where a sum picks one element: that is a load.
#include "fuse/build.h"
#include <string.h>

static enum fused_level form_level(const struct builder *b, const struct form *f)
{
    enum fused_level level = LEVEL_UNIFORM;
    for (int d = 0; d < b->space.n_dims; d++)
        if (f->k[d] && b->space.sizes[d] != 1)
            level = d >= b->space.n_dims - b->space.n_reduce ? LEVEL_ELEMENT : level < LEVEL_ROW ? LEVEL_ROW : level;
    return level;
}

static bool element_level(struct builder *b, int node)
{
    if (b->n_levels < b->dag.n_nodes && b->cap_levels < b->dag.n_nodes) {
        uint8_t *more = arena_alloc(b->arena, (size_t)b->dag.n_nodes * 2);
        if (!more) return false;
        if (b->n_levels) memcpy(more, b->level, (size_t)b->n_levels);
        b->level = more;
        b->cap_levels = b->dag.n_nodes * 2;
    }
    for (; b->n_levels < b->dag.n_nodes; b->n_levels++) {
        const struct scalar_node *n = &b->dag.nodes[b->n_levels];
        bool element = n->kind == SCALAR_DIM && n->code >= b->space.n_dims - b->space.n_reduce;
        if (n->kind == SCALAR_LOAD) {
            struct form f = {0};
            memcpy(f.k, b->k->in[n->code].strides, sizeof f.k);
            element = form_level(b, &f) == LEVEL_ELEMENT;
        }
        for (int a = 0; a < n->n_args; a++) element = element || b->level[n->arg[a]];
        b->level[b->n_levels] = element && n->kind != SCALAR_REDUCE;
    }
    return b->level[node];
}

// The one dimension of the row, -1 where there are more. *empty: the row has no elements.
static int only_reduced(const struct builder *b, bool *empty)
{
    int only = -1, n = 0;
    *empty = false;
    for (int d = b->space.n_dims - b->space.n_reduce; d < b->space.n_dims; d++) {
        *empty = *empty || b->space.sizes[d] == 0;
        if (b->space.sizes[d] != 1) only = d, n++;
    }
    return n == 1 ? only : -1;
}

// select(place == DIM, load, 0) with a place that is the same for the row: the place, else -1.
static int picked_place(struct builder *b, const struct scalar_node *n, int dim)
{
    const struct scalar_node *nodes = b->dag.nodes;
    if (n->kind != SCALAR_PRIM || n->code != PRIM_select) return -1;
    const struct scalar_node *c = &nodes[n->arg[0]], *load = &nodes[n->arg[1]], *zero = &nodes[n->arg[2]];
    if (c->kind != SCALAR_PRIM || c->code != PRIM_eq || load->kind != SCALAR_LOAD || load->n_args) return -1;
    if (zero->kind != SCALAR_CONST || zero->value.bits) return -1;
    for (int a = 0; a < 2; a++) {
        const struct scalar_node *d = &nodes[c->arg[a]];
        int place = c->arg[1 - a];
        if (d->kind == SCALAR_DIM && d->code == dim && !element_level(b, place)) return place;
    }
    return -1;
}

// A sum that picks one element of the row is a load of that element: input `x` is what is summed. -1: it picks none.
static int pick(struct builder *b, int x)
{
    struct dag_builder *d = &b->dag;
    bool empty;
    int dim = only_reduced(b, &empty), place = dim < 0 || x < 0 ? -1 : picked_place(b, &d->nodes[x], dim);
    if (place < 0 || b->k->n_in == FUSED_MAX_IN) return -1;
    const struct scalar_node load = d->nodes[d->nodes[x].arg[1]];
    struct fused_access a = b->k->in[load.code];
    int at = dag_prim(d, PRIM_mul, place, build_scalar(b, CLASS_I64, (uint64_t)a.strides[dim]), 0);
    int below = dag_prim(d, PRIM_lt, place, build_scalar(b, CLASS_I64, (uint64_t)b->space.sizes[dim]), 0);
    int above = dag_prim(d, PRIM_ge, place, dag_const(d, CLASS_I64, (union scalar_value){.i64 = 0}), 0);
    a.strides[dim] = 0;
    int value = dag_load(d, load.cls, (uint16_t)build_access_of(b, &a), at, dag_prim(d, PRIM_and, above, below, 0));
    return dag_prim(d, PRIM_add, value, dag_number(d, load.cls, 0), 0); // a sum is never -0
}

static bool same_over_row(const struct builder *b, enum scalar_reduce how)
{
    bool empty;
    only_reduced(b, &empty);
    return !empty && (how == REDUCE_MAX || how == REDUCE_MIN || how == REDUCE_ANY || how == REDUCE_ALL);
}

static int fold_along(struct builder *b, enum scalar_reduce how, int x)
{
    if (x >= 0 && same_over_row(b, how) && !element_level(b, x)) return x;
    int picked = how == REDUCE_SUM ? pick(b, x) : -1;
    return picked >= 0 ? picked : dag_reduce(&b->dag, how, x);
}

// What is the same for the whole row counts as often as the row has elements.
int build_reduction(struct builder *b, const struct instance *i, const struct scalar_node *n, int x)
{
    enum scalar_reduce how = (enum scalar_reduce)n->code;
    if (!i->total) return fold_along(b, how, x);
    if (i->along) x = fold_along(b, how, x);
    return dag_reduce(&b->dag, (enum scalar_reduce)(how | REDUCE_ACROSS), x);
}
