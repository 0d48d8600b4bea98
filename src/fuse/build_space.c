// The iteration space of a kernel, and instances in it. Solving for a map may cut dimensions of the space; all maps
// that were found so far are brought to the finer space.
#include "fuse/build.h"
#include "scalar/reduce.h"
#include <stdlib.h>
#include <string.h>

enum { FEW_INSTANCES = 16 };

static double size_of(const struct unit *u, int from, int to)
{
    double n = 1;
    for (int d = from; d < to; d++) n *= (double)u->l.sizes[d];
    return n;
}

// A unit that is only read inside may be larger than what is stored.
static bool better_frame(const struct builder *b, int32_t unit, int32_t other)
{
    const struct unit *u = unit_at(b, unit), *best = unit_at(b, other);
    if (u->folds != best->folds) return u->folds;
    if (!u->folds && stored(b, unit) != stored(b, other)) return stored(b, unit);
    int n = u->l.rank - u->l.n_reduce, m = best->l.rank - best->l.n_reduce;
    double rows = size_of(u, 0, n), best_rows = size_of(best, 0, m);
    if (rows != best_rows) return rows > best_rows;
    return size_of(u, n, u->l.rank) > size_of(best, m, best->l.rank);
}

bool build_room(struct builder *b)
{
    if (b->n_instances < b->cap_instances) return true;
    if (b->n_instances == MAX_INSTANCES) return false;
    int cap = b->cap_instances ? 2 * b->cap_instances : FEW_INSTANCES;
    struct instance *more = realloc(b->instances, sizeof *more * (size_t)(cap < MAX_INSTANCES ? cap : MAX_INSTANCES));
    if (!more) {
        error_set(KILN_E_MEMORY, "graph: out of memory");
        return false;
    }
    b->instances = more;
    b->cap_instances = cap < MAX_INSTANCES ? cap : MAX_INSTANCES;
    return true;
}

void build_choose_space(struct builder *b)
{
    if (!build_room(b)) return;
    int32_t best = b->set->units[0];
    for (int i = 1; i < b->set->n_units; i++)
        if (better_frame(b, b->set->units[i], best)) best = b->set->units[i];
    const struct unit *u = unit_at(b, best);
    b->space = (struct space){.n_dims = u->l.rank, .n_reduce = u->l.n_reduce};
    memcpy(b->space.sizes, u->l.sizes, sizeof *u->l.sizes * u->l.rank);
    struct instance *first = &b->instances[b->n_instances++];
    *first = (struct instance){.unit = best, .map = {.n = u->l.rank}};
    for (int d = 0; d < u->l.rank; d++) first->map.to[d].k[d] = u->l.sizes[d] != 1;
}

static bool cut(struct builder *b, const struct cut *c)
{
    if (b->space.n_dims == FUSED_MAX_DIMS) return false;
    for (int i = 0; i < b->n_instances; i++)
        for (int j = 0; j < b->instances[i].map.n; j++) form_cut(&b->instances[i].map.to[j], b->space.n_dims, c);
    space_cut(&b->space, c);
    return true;
}

bool build_solve(struct builder *b, int by, const struct launch_operand *from, int rank, const int64_t *sizes,
                 const struct launch_operand *o, struct point_map *out)
{
    for (;;) {
        struct form e;
        struct cut c;
        affine_compose(&b->space, &b->instances[by].map, from->strides, first_element(from), &e);
        if (affine_solve(&b->space, &e, rank, sizes, o->strides, first_element(o), out, &c)) return true;
        if (!c.inner || !cut(b, &c)) return false;
    }
}

// --- instances ---

// What a map must be for a unit to be computed there. A fold needs the whole row, and rows that do not depend on R. It
// meets each element of its row once: where it folds along R, or across P, it must depend on all dimensions of that.
static bool fits(const struct builder *b, struct instance *instance)
{
    const struct unit *u = unit_of(b, instance);
    const struct point_map *m = &instance->map;
    int rows = u->l.rank - u->l.n_reduce, parallel = b->space.n_dims - b->space.n_reduce;
    if (!u->folds) return true;
    bool of_parallel = false, of_reduced = false;
    for (int j = 0; j < u->l.rank; j++) {
        for (int i = 0; i < b->space.n_dims; i++) {
            if (!m->to[j].k[i] || b->space.sizes[i] == 1) continue;
            if (j < rows && i >= parallel) return false;
            if (j >= rows) *(i < parallel ? &of_parallel : &of_reduced) = true;
        }
    }
    struct point_map row = {.n = u->l.n_reduce};
    memcpy(row.to, m->to + rows, sizeof *row.to * (size_t)row.n);
    if (!map_covers(&b->space, &row, u->l.sizes + rows)) return false;
    for (int i = 0; i < b->space.n_dims; i++) {
        bool must = i < parallel ? of_parallel : of_reduced || !of_parallel;
        if (must && b->space.sizes[i] != 1 && !map_depends(&row, i)) return false;
    }
    instance->total = of_parallel;
    instance->along = of_parallel && of_reduced;
    return !of_parallel || rows == 0 || size_of(u, 0, rows) == 1;
}

// The position in the row is a number of its own only where R keeps the unit's order.
static bool keeps_order(const struct builder *b, const struct unit *u, const struct point_map *m)
{
    int64_t step = 1;
    for (int j = u->l.rank - 1, i = b->space.n_dims - 1; j >= u->l.rank - u->l.n_reduce; j--) {
        for (step = 1; step < u->l.sizes[j]; i--) {
            if (i < 0 || m->to[j].k[i] != step) return false;
            step *= b->space.sizes[i];
        }
    }
    return true;
}

static bool finds_places(const struct scalar_dag *d)
{
    for (int i = 0; i < d->n_nodes; i++) {
        const struct scalar_node *n = &d->nodes[i];
        if (n->kind == SCALAR_REDUCE && reduce_finds_place(n)) return true;
    }
    return false;
}

// Adds the instance, or finds it. -1: it cannot be.
int build_add_instance(struct builder *b, int32_t unit, const struct point_map *m)
{
    for (int i = 0; i < b->n_instances; i++)
        if (b->instances[i].unit == unit && map_equal(&b->instances[i].map, m, b->space.n_dims)) return i;
    const struct unit *u = unit_at(b, unit);
    struct instance instance = {.unit = unit, .map = *m};
    if (!fits(b, &instance)) return -1;
    if (finds_places(&u->body->dag) && (instance.total || !keeps_order(b, u, m))) return -1;
    if (!build_room(b)) return -1;
    b->instances[b->n_instances] = instance;
    return b->n_instances++;
}
