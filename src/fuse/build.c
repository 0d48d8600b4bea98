// The kernel of a set of units.
//
// Input: units, of which each has an expression, and which buffers they write are read elsewhere. Output: one iteration
// space, and one DAG over it that computes every such buffer; or the reason why there is none.
//
// The space is that of the unit that folds, the one with the most rows where several do; without one, that of the
// largest unit. Every unit whose buffer must be stored is then *placed*: a map gives its point for each point of the
// space. A unit is placed by an operand that it shares with one that has a place already: both speak of the same
// element. Units that are only read inside need no place; they are computed where their value is asked for, at the map
// that the reader's strides imply, so that a broadcast, a transpose or a reshape between two units costs nothing.
//
// An *instance* is a unit at a map. Instances are found first, from the stored units back to what they read; solving
// for a map may cut dimensions of the space, so that all maps found so far are brought to the finer space. Then the DAG
// is built, instance by instance in the order of the units. A value that goes from unit to unit is converted as storing
// it and loading it again would: wrapped, and rounded if asked.
//
// A unit that folds all rows of the space into one value (the mean of a loss) folds across: its result is a TOTAL.
#include "ops/lower.h"
#include "scalar/reduce.h"
#include "fuse/affine.h"
#include "fuse/fuse.h"
#include "fuse/product.h"
#include "scalar/dag.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_INSTANCES 160

struct instance {
    int32_t unit;
    bool total;    // folds across the rows
    bool along;    // ... and along each of them
    bool of_total; // it folds across the rows, or is made of what does
    struct point_map map;
    int16_t source[MAX_OPERANDS]; // by input: the instance that makes it, -1: memory
    int node;                     // of its result
};

struct builder {
    const struct fuse_set *set;
    struct arena *arena;
    struct fused_kernel *k;
    struct space space;
    struct dag_builder dag;
    struct instance *instances;
    int n_instances;
    uint8_t *level; // by node
    int n_levels, cap_levels;
    const char *why;
};

static kiln_status no(struct builder *b, const char *why)
{
    b->why = why;
    return KILN_OK;
}

static const struct unit *unit_at(const struct builder *b, int32_t unit)
{
    return &b->set->u->v.v[unit];
}

static const struct unit *unit_of(const struct builder *b, const struct instance *i)
{
    return unit_at(b, i->unit);
}

static int64_t first_element(const struct launch_operand *o)
{
    return (int64_t)o->address / dtype_size_B[o->dtype];
}

static bool in_memory(const struct launch_operand *o)
{
    return !(o->flags & OPERAND_IMMEDIATE);
}

// The unit of the set that makes what this operand reads; -1: it comes from memory.
static int32_t maker_of(const struct builder *b, const struct launch_operand *o)
{
    if (!in_memory(o)) return -1;
    const struct unit_buffer *buffer = &b->set->u->buffers.v[o->slot];
    if (buffer->ordered || buffer->writer < 0 || unit_buffer_is_given(buffer) || !b->set->inside[buffer->writer])
        return -1;
    return buffer->writer;
}

static bool stored(const struct builder *b, int32_t unit)
{
    const struct unit *u = unit_at(b, unit);
    return b->set->escapes[u->l.operands[u->n_in].slot];
}

// --- the space ---

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

static void choose_space(struct builder *b)
{
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
static int add_instance(struct builder *b, int32_t unit, const struct point_map *m)
{
    for (int i = 0; i < b->n_instances; i++)
        if (b->instances[i].unit == unit && map_equal(&b->instances[i].map, m, b->space.n_dims)) return i;
    const struct unit *u = unit_at(b, unit);
    struct instance instance = {.unit = unit, .map = *m};
    if (b->n_instances == MAX_INSTANCES || !fits(b, &instance)) return -1;
    if (finds_places(&u->body->dag) && (instance.total || !keeps_order(b, u, m))) return -1;
    b->instances[b->n_instances] = instance;
    return b->n_instances++;
}

static bool solve(struct builder *b, int by, const struct launch_operand *from, const struct unit *u,
                  const struct launch_operand *o, struct point_map *out)
{
    for (;;) {
        struct form e;
        struct cut c;
        affine_compose(&b->space, &b->instances[by].map, from->strides, first_element(from), &e);
        if (affine_solve(&b->space, &e, u->l.rank, u->l.sizes, o->strides, first_element(o), out, &c)) return true;
        if (!c.inner || !cut(b, &c)) return false;
    }
}

static bool makes_row_value(const struct unit *u)
{
    const struct launch_operand *out = &u->l.operands[u->n_in];
    if (!u->folds) return false;
    for (int d = u->l.rank - u->l.n_reduce; d < u->l.rank; d++)
        if (out->strides[d]) return false;
    return true;
}

// The instance of a fold whose rows these are: a row value is found by its row alone.
static int find_row(const struct builder *b, int32_t unit, const struct point_map *m)
{
    const struct unit *u = unit_at(b, unit);
    for (int k = 0; k < b->n_instances; k++) {
        bool same = b->instances[k].unit == unit;
        for (int j = 0; same && j < u->l.rank - u->l.n_reduce; j++)
            same = form_equal(&b->instances[k].map.to[j], &m->to[j], b->space.n_dims);
        if (same) return k;
    }
    return -1;
}

static int instance_read(struct builder *b, int by, const struct launch_operand *in, int32_t maker)
{
    const struct unit *u = unit_at(b, maker);
    struct point_map m;
    struct unit seen = *u;
    bool row_value = makes_row_value(u);
    for (int d = u->l.rank - u->l.n_reduce; row_value && d < u->l.rank; d++) seen.l.sizes[d] = 1;
    if (!solve(b, by, in, &seen, &u->l.operands[u->n_in], &m)) {
        b->why = "a value is read at places that no strides give";
        return -1;
    }
    int n = row_value ? find_row(b, maker, &m) : add_instance(b, maker, &m);
    if (n < 0) b->why = "rows of different spaces";
    return n;
}

// All that instance i reads and the set makes becomes instances.
static bool follow(struct builder *b, int i)
{
    const struct unit *reader = unit_of(b, &b->instances[i]);
    for (int o = 0; o < reader->n_in; o++) {
        const struct launch_operand *in = &reader->l.operands[o];
        int32_t maker = maker_of(b, in);
        if (maker >= 0 && unit_gathers(reader, o)) {
            b->why = "gathers from what it would compute";
            return false;
        }
        int n = maker < 0 ? -1 : instance_read(b, i, in, maker);
        if (maker >= 0 && n < 0) return false;
        b->instances[i].source[o] = (int16_t)n;
    }
    return true;
}

// A place for a unit through an operand that it shares with an instance.
static bool place_by(struct builder *b, int32_t unit, int o)
{
    const struct unit *u = unit_at(b, unit);
    const struct launch_operand *mine = &u->l.operands[o];
    struct point_map m;
    for (int i = 0; i < b->n_instances; i++) {
        const struct unit *other = unit_of(b, &b->instances[i]);
        for (int p = 0; p < other->l.n_operands; p++) {
            const struct launch_operand *theirs = &other->l.operands[p];
            if (!in_memory(theirs) || theirs->slot != mine->slot || other == u) continue;
            if (solve(b, i, theirs, u, mine, &m) && add_instance(b, unit, &m) >= 0) return true;
        }
    }
    return false;
}

static bool place(struct builder *b, int32_t unit)
{
    const struct unit *u = unit_at(b, unit);
    for (int i = 0; i < b->n_instances; i++)
        if (b->instances[i].unit == unit) return false; // has one
    for (int o = 0; o < u->l.n_operands; o++)
        if (in_memory(&u->l.operands[o]) && place_by(b, unit, o)) return true;
    return false;
}

static bool place_all(struct builder *b)
{
    for (bool more = true; more;) {
        more = false;
        for (int i = 0; i < b->set->n_units; i++) more = place(b, b->set->units[i]) || more;
    }
    return true;
}

// Instances that no stored value needs are not built: where a unit was placed only to place others.
static void mark_needed(struct builder *b, int i, bool *needed)
{
    if (needed[i]) return;
    needed[i] = true;
    const struct unit *u = unit_of(b, &b->instances[i]);
    for (int o = 0; o < u->n_in; o++)
        if (b->instances[i].source[o] >= 0) mark_needed(b, b->instances[i].source[o], needed);
}

// Which instances' values come from a fold across the rows. Makers are earlier units, but may be later instances.
static void find_totals(struct builder *b)
{
    for (int i = 0; i < b->n_instances; i++) b->instances[i].of_total = b->instances[i].total;
    for (bool more = true; more;) {
        more = false;
        for (int i = 0; i < b->n_instances; i++) {
            struct instance *x = &b->instances[i];
            for (int o = 0; o < unit_of(b, x)->n_in && !x->of_total; o++)
                if (x->source[o] >= 0 && b->instances[x->source[o]].of_total) x->of_total = more = true;
        }
    }
}

// The instance whose result is stored: it meets each of the unit's points, and no row of the space twice.
static int find_stored(const struct builder *b, int32_t unit)
{
    const struct unit *u = unit_at(b, unit);
    int parallel = b->space.n_dims - b->space.n_reduce;
    int rows = makes_row_value(u) ? u->l.rank - u->l.n_reduce : u->l.rank;
    for (int k = 0; k < b->n_instances; k++) {
        const struct instance *i = &b->instances[k];
        struct point_map m = i->map;
        m.n = rows;
        bool good = i->unit == unit && map_covers(&b->space, &m, u->l.sizes);
        bool total = good && i->of_total;
        for (int d = 0; good && d < parallel && !total; d++) good = b->space.sizes[d] == 1 || map_depends(&m, d);
        int along = 0, across = 0;
        for (int d = parallel; d < b->space.n_dims; d++)
            if (b->space.sizes[d] != 1) *(map_depends(&m, d) ? &along : &across) += 1;
        if (good && (!along || !across)) return k;
    }
    return -1;
}

// --- the DAG ---

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

static int add_scalar_of(struct builder *b, enum scalar_class cls, uint64_t bits, uint16_t input)
{
    struct fused_kernel *k = b->k;
    int i = 0;
    while (i < k->n_scalars && (k->scalar_cls[i] != cls || k->scalars[i] != bits || k->scalar_input[i] != input)) i++;
    if (i == FUSED_MAX_SCALARS) {
        b->why = "too many scalars";
        return -1;
    }
    if (i == k->n_scalars) {
        k->scalar_cls[i] = (uint8_t)cls;
        k->scalars[i] = bits;
        k->scalar_input[i] = input;
        k->n_scalars++;
    }
    return dag_input(&b->dag, cls, (uint16_t)i);
}

static int add_scalar(struct builder *b, enum scalar_class cls, uint64_t bits)
{
    return add_scalar_of(b, cls, bits, 0);
}

static int access_of(struct builder *b, const struct fused_access *a)
{
    struct fused_kernel *k = b->k;
    int i = 0;
    while (i < k->n_in && memcmp(&k->in[i], a, sizeof *a)) i++;
    if (i == FUSED_MAX_IN) {
        b->why = "too many inputs";
        return -1;
    }
    if (i == k->n_in) k->in[k->n_in++] = *a;
    return i;
}

static int add_access(struct builder *b, const struct launch_operand *o, const struct form *f)
{
    struct fused_access a = {
        .buffer = o->slot, .dtype = o->dtype, .cls = (uint8_t)dtype_class(o->dtype), .offset = f->offset};
    for (int d = 0; d < b->space.n_dims; d++) a.strides[d] = b->space.sizes[d] == 1 ? 0 : f->k[d];
    return access_of(b, &a);
}

// `at`, `where`: see SCALAR_LOAD; -1 for none.
static int add_load(struct builder *b, const struct instance *i, int o, int at, int where)
{
    const struct launch_operand *in = &unit_of(b, i)->l.operands[o];
    struct form f;
    affine_compose(&b->space, &i->map, in->strides, first_element(in), &f);
    int access = add_access(b, in, &f);
    return access < 0 ? -1 : dag_load(&b->dag, dtype_class(in->dtype), (uint16_t)access, at, where);
}

static int convert(struct builder *b, int node, enum scalar_class to)
{
    static const enum scalar_prim prim[CLASS_COUNT] = {[CLASS_F32] = PRIM_to_f32,
                                                       [CLASS_F64] = PRIM_to_f64,
                                                       [CLASS_I32] = PRIM_to_i32,
                                                       [CLASS_I64] = PRIM_to_i64,
                                                       [CLASS_BOOL] = PRIM_to_bool};
    if (node < 0 || dag_class(&b->dag, node) == to) return node;
    return dag_prim(&b->dag, prim[to], node, 0, 0);
}

// A float into a small integer saturates at the integer's range.
static int saturate(struct builder *b, int node, int32_t lo, int32_t hi)
{
    struct dag_builder *d = &b->dag;
    int low = dag_const(d, CLASS_I32, (union scalar_value){.i32 = lo});
    int high = dag_const(d, CLASS_I32, (union scalar_value){.i32 = hi});
    return dag_prim(d, PRIM_min, dag_prim(d, PRIM_max, node, low, 0), high, 0);
}

// A value as it is stored: in the dtype's class.
static int to_storage(struct builder *b, int node, unsigned dtype)
{
    bool is_float = node >= 0 && (dag_class(&b->dag, node) == CLASS_F32 || dag_class(&b->dag, node) == CLASS_F64);
    node = convert(b, node, dtype_class(dtype));
    if (node < 0 || !is_float) return node;
    bool small = dtype_info[dtype].form == FORM_INTEGER && dtype_info[dtype].size_B < 4;
    return small ? saturate(b, node, dtype_lowest(dtype), dtype_highest(dtype)) : node;
}

static int shifted(struct builder *b, int node, int32_t bits)
{
    int count = dag_const(&b->dag, CLASS_I32, (union scalar_value){.i32 = bits});
    return dag_prim(&b->dag, PRIM_shr, dag_prim(&b->dag, PRIM_shl, node, count, 0), count, 0);
}

// What a store and a load in between would make of it.
static int through_storage(struct builder *b, int node, unsigned dtype)
{
    const struct dtype_info *d = &dtype_info[dtype];
    if (d->form == FORM_INTEGER && d->size_B < 4) {
        if (d->is_signed) return shifted(b, node, 32 - 8 * d->size_B);
        union scalar_value mask = {.i32 = dtype_highest(dtype)};
        return dag_prim(&b->dag, PRIM_and, node, dag_const(&b->dag, CLASS_I32, mask), 0);
    }
    if (!dtype_is_half_float(dtype) || !b->set->round_casts) return node;
    const struct scalar_dag *rounding = scalar_lib_dag(d->form == FORM_BINARY16 ? LIB_as_f16 : LIB_as_bf16, CLASS_F32);
    return rounding ? dag_inline(&b->dag, rounding, &node) : -1;
}

static int add_i32(struct builder *b, int64_t v)
{
    return add_scalar(b, CLASS_I32, (uint32_t)(int32_t)v);
}

static int form_i32(struct builder *b, const struct form *f)
{
    struct dag_builder *d = &b->dag;
    int sum = add_i32(b, f->offset);
    for (int i = 0; i < b->space.n_dims; i++) {
        if (!f->k[i] || b->space.sizes[i] == 1) continue;
        int term = convert(b, dag_dim(d, (uint16_t)i), CLASS_I32);
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

// The bits of a value of one dtype read as another of the same size: what moves bits meets what computes.
static int as_dtype(struct builder *b, int node, unsigned from, unsigned to)
{
    enum scalar_class c = dtype_class(to);
    if (from == to || node < 0) return node;
    if ((from == KILN_F32 && to == KILN_I32) || (from == KILN_F64 && to == KILN_I64))
        return dag_prim(&b->dag, PRIM_bits, node, 0, 0);
    if ((from == KILN_I32 && to == KILN_F32) || (from == KILN_I64 && to == KILN_F64))
        return dag_prim(&b->dag, PRIM_from_bits, node, 0, 0);
    if ((from == KILN_BOOL || from == KILN_U8 || from == KILN_I8) &&
        (to == KILN_U8 || to == KILN_I8 || to == KILN_BOOL))
        return through_storage(b, convert(b, node, c), to);
    b->why = "the bits of a 16-bit float are moved";
    return -1;
}

static int operand_value(struct builder *b, const struct instance *i, int o, enum scalar_class cls)
{
    const struct launch_operand *in = &unit_of(b, i)->l.operands[o];
    if (!in_memory(in) && in->slot) return add_scalar_of(b, cls, 0, (uint16_t)((in->slot & ~SLOT_SCALAR) + 1));
    if (!in_memory(in)) return add_scalar(b, cls, in->address);
    if (i->source[o] < 0) return convert(b, memory_value(b, i, o), cls);
    const struct instance *from = &b->instances[i->source[o]];
    const struct unit *maker = unit_of(b, from);
    return convert(b, as_dtype(b, from->node, maker->l.operands[maker->n_in].dtype, in->dtype), cls);
}

static int form_value(struct builder *b, const struct form *f)
{
    struct dag_builder *d = &b->dag;
    int sum = dag_const(d, CLASS_I64, (union scalar_value){.i64 = f->offset});
    for (int i = 0; i < b->space.n_dims; i++) {
        if (!f->k[i] || b->space.sizes[i] == 1) continue;
        int term = dag_dim(d, (uint16_t)i);
        if (f->k[i] != 1) term = dag_prim(d, PRIM_mul, term, add_scalar(b, CLASS_I64, (uint64_t)f->k[i]), 0);
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
    int at = dag_prim(d, PRIM_mul, place, add_scalar(b, CLASS_I64, (uint64_t)a.strides[dim]), 0);
    int below = dag_prim(d, PRIM_lt, place, add_scalar(b, CLASS_I64, (uint64_t)b->space.sizes[dim]), 0);
    int above = dag_prim(d, PRIM_ge, place, dag_const(d, CLASS_I64, (union scalar_value){.i64 = 0}), 0);
    a.strides[dim] = 0;
    int value = dag_load(d, load.cls, (uint16_t)access_of(b, &a), at, dag_prim(d, PRIM_and, above, below, 0));
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
static int fold_value(struct builder *b, const struct instance *i, const struct scalar_node *n, int x)
{
    enum scalar_reduce how = (enum scalar_reduce)n->code;
    if (!i->total) return fold_along(b, how, x);
    if (i->along) x = fold_along(b, how, x);
    return dag_reduce(&b->dag, (enum scalar_reduce)(how | REDUCE_ACROSS), x);
}

static int node_value(struct builder *b, const struct instance *i, const struct scalar_node *n, const int *arg)
{
    const struct unit *u = unit_of(b, i);
    if (n->kind == SCALAR_LOAD) return add_load(b, i, n->code, arg[0], arg[1]);
    if (n->kind == SCALAR_INPUT && n->code < u->n_in) return operand_value(b, i, n->code, u->in_cls[n->code]);
    if (n->kind == SCALAR_INPUT) return add_scalar(b, n->cls, u->l.scalars[n->code - u->n_in]);
    if (n->kind == SCALAR_PRIM && n->code == PRIM_rindex) return row_position(b, i);
    if (n->kind == SCALAR_PRIM && n->code == PRIM_rcount) return add_scalar(b, CLASS_I64, (uint64_t)row_count(u));
    if (n->kind == SCALAR_REDUCE) return fold_value(b, i, n, arg[0]);
    return dag_copy(&b->dag, n, arg);
}

static kiln_status build_instance(struct builder *b, struct instance *i)
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
        if (b->k->n_checks == FUSED_MAX_CHECKS) return no(b, "too many indices to check");
        b->k->checks[b->k->n_checks++] = (uint16_t)at[u->body->check];
    }
    i->node = through_storage(b, to_storage(b, at[d->root], dtype), dtype);
    return i->node < 0 ? error_pending : KILN_OK;
}

static kiln_status add_output(struct builder *b, int instance)
{
    struct fused_kernel *k = b->k;
    const struct instance *i = &b->instances[instance];
    const struct unit *u = unit_of(b, i);
    const struct launch_operand *o = &u->l.operands[u->n_in];
    struct form f;
    if (k->n_out == FUSED_MAX_OUT) return no(b, "too many outputs");
    struct point_map m = i->map;
    if (makes_row_value(u)) m.n = u->l.rank - u->l.n_reduce;
    affine_compose(&b->space, &m, o->strides, first_element(o), &f);
    struct fused_output *out = &k->out[k->n_out++];
    *out = (struct fused_output){
        .to = {.buffer = o->slot, .dtype = o->dtype, .cls = (uint8_t)dtype_class(o->dtype), .offset = f.offset},
        .node = (uint16_t)i->node};
    for (int d = 0; d < b->space.n_dims; d++) out->to.strides[d] = b->space.sizes[d] == 1 ? 0 : f.k[d];
    return KILN_OK;
}

static void name_kernel(struct builder *b)
{
    char text[64];
    size_t n = 0;
    for (int i = 0; i < b->set->n_units && n < 40; i++) {
        const char *op = unit_at(b, b->set->units[i])->l.op;
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%.12s", i ? "_" : "", op ? op : "op");
    }
    for (char *c = text; *c; c++)
        if (*c == '.') *c = '_';
    b->k->name = arena_strdup(b->arena, text);
}

static int by_unit(const void *x, const void *y, void *user)
{
    const struct builder *b = user;
    int32_t a = b->instances[*(const int16_t *)x].unit, c = b->instances[*(const int16_t *)y].unit;
    return (a > c) - (a < c);
}

static kiln_status build_needed(struct builder *b, const bool *needed)
{
    int16_t order[MAX_INSTANCES];
    for (int i = 0; i < b->n_instances; i++) order[i] = (int16_t)i;
    qsort_r(order, (size_t)b->n_instances, sizeof *order, by_unit, b);
    for (int i = 0; i < b->n_instances && !b->why; i++)
        if (needed[order[i]]) TRY(build_instance(b, &b->instances[order[i]]));
    return KILN_OK;
}

// What is written back may be read by the same kernel only where it is written.
static bool reads_elsewhere(const struct builder *b)
{
    const struct fused_kernel *k = b->k;
    for (int o = 0; o < k->n_out; o++) {
        const struct fused_access *to = &k->out[o].to;
        for (int i = 0; i < k->n_in; i++)
            if (k->in[i].buffer == to->buffer &&
                (k->in[i].offset != to->offset || memcmp(k->in[i].strides, to->strides, sizeof to->strides)))
                return true;
    }
    return false;
}

static bool has_anchor(const struct builder *b)
{
    for (int i = 0; i < b->set->n_units; i++)
        if (unit_at(b, b->set->units[i])->anchor) return true;
    return false;
}

static kiln_status finish(struct builder *b)
{
    struct fused_kernel *k = b->k;
    int roots[FUSED_MAX_OUT + FUSED_MAX_CHECKS];
    for (int i = 0; i < k->n_out; i++) roots[i] = k->out[i].node;
    for (int i = 0; i < k->n_checks; i++) roots[k->n_out + i] = k->checks[i];
    TRY(dag_finish_all(&b->dag, b->arena, roots, k->n_out + k->n_checks, &k->dag));
    for (int i = 0; i < k->n_out; i++) k->out[i].node = (uint16_t)roots[i];
    for (int i = 0; i < k->n_checks; i++) k->checks[i] = (uint16_t)roots[k->n_out + i];
    k->n_dims = b->space.n_dims;
    k->n_reduce = b->space.n_reduce;
    memcpy(k->sizes, b->space.sizes, sizeof *k->sizes * (size_t)k->n_dims);
    if (reads_elsewhere(b)) return no(b, "a value that is written back is read at other places");
    bool anchored = has_anchor(b);
    if (anchored && !b->set->for_attention) product_arrange(k);
    fused_collapse(k);
    if (k->n_dims > FUSED_DIMS) return no(b, "too many dimensions");
    name_kernel(b);
    if (!k->name) return error_pending;
    if (!fused_finish(b->arena, k)) {
        if (anchored && !b->set->for_attention && !product_find(k))
            return no(b, "a product takes no second fold, and no result by element");
        return KILN_OK;
    }
    if (kiln_error() != KILN_E_INTERNAL) return error_pending;
    kiln_error_clear();
    return no(b, "a total would be needed by rows");
}

static kiln_status build(struct builder *b)
{
    bool needed[MAX_INSTANCES] = {false};
    choose_space(b);
    place_all(b);
    for (int i = 0; i < b->n_instances; i++)
        if (!follow(b, i)) return KILN_OK;
    find_totals(b);
    for (int i = 0; i < b->set->n_units; i++) {
        if (!stored(b, b->set->units[i])) continue;
        int at = find_stored(b, b->set->units[i]);
        if (at < 0) return no(b, "no common space");
        mark_needed(b, at, needed);
    }
    TRY(build_needed(b, needed));
    for (int i = 0; i < b->set->n_units && !b->why; i++)
        if (stored(b, b->set->units[i])) TRY(add_output(b, find_stored(b, b->set->units[i])));
    return b->why ? KILN_OK : finish(b);
}

kiln_status fuse_kernel(struct arena *a, const struct fuse_set *set, struct fused_kernel **out, const char **why)
{
    struct builder b = {.set = set, .arena = a};
    *out = NULL;
    b.k = arena_alloc(a, sizeof *b.k);
    b.instances = arena_alloc(a, sizeof *b.instances * MAX_INSTANCES);
    if (!b.k || !b.instances) return error_pending;
    dag_begin(&b.dag);
    kiln_status status = build(&b);
    dag_end(&b.dag);
    if (!status && !b.why) *out = b.k;
    *why = b.why;
    return status;
}
