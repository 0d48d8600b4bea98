// Inside fusion: a kernel while it is put together of units. See build.c.
#pragma once
#include "fuse/affine.h"
#include "fuse/fuse.h"
#include "scalar/dag.h"

#define MAX_INSTANCES 160

// A unit at a map.
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
    struct instance *instances; // allocated; grows
    int n_instances, cap_instances;
    uint8_t *level; // by node
    int n_levels, cap_levels;
    const char *why;
};

static inline kiln_status refuse(struct builder *b, const char *why)
{
    b->why = why;
    return KILN_OK;
}

static inline const struct unit *unit_at(const struct builder *b, int32_t unit)
{
    return &b->set->u->v.v[unit];
}

static inline const struct unit *unit_of(const struct builder *b, const struct instance *i)
{
    return unit_at(b, i->unit);
}

static inline int64_t first_element(const struct launch_operand *o)
{
    return (int64_t)o->address / dtype_size_B[o->dtype];
}

static inline bool in_memory(const struct launch_operand *o)
{
    return !(o->flags & OPERAND_IMMEDIATE);
}

// The unit of the set that makes what this operand reads; -1: it comes from memory.
static inline int32_t maker_of(const struct builder *b, const struct launch_operand *o)
{
    if (!in_memory(o)) return -1;
    const struct unit_buffer *buffer = &b->set->u->buffers.v[o->slot];
    if (buffer->ordered || buffer->writer < 0 || unit_buffer_is_given(buffer) || !b->set->inside[buffer->writer])
        return -1;
    return buffer->writer;
}

static inline bool stored(const struct builder *b, int32_t unit)
{
    const struct unit *u = unit_at(b, unit);
    return b->set->escapes[u->l.operands[u->n_in].slot];
}

// One value for each row, not one for each element of it.
static inline bool makes_row_value(const struct unit *u)
{
    const struct launch_operand *out = &u->l.operands[u->n_in];
    if (!u->folds) return false;
    for (int d = u->l.rank - u->l.n_reduce; d < u->l.rank; d++)
        if (out->strides[d]) return false;
    return true;
}

// --- build_space.c ---

void build_choose_space(struct builder *b);
// The map at which a unit of these sizes has, as operand `o`, what instance `by` reads as `from`. May cut the space.
bool build_solve(struct builder *b, int by, const struct launch_operand *from, int rank, const int64_t *sizes,
                 const struct launch_operand *o, struct point_map *out);
// Room for one more; false: there is none, or no memory (an error is set).
bool build_room(struct builder *b);
// The number of the instance, new or there; -1: it cannot be.
int build_add_instance(struct builder *b, int32_t unit, const struct point_map *m);

// --- build_place.c ---

void build_place_all(struct builder *b);
// All that instance i reads and the set makes becomes instances; false, and b->why: it cannot.
bool build_follow(struct builder *b, int i);
void build_mark_needed(struct builder *b, int i, bool *needed);
void build_find_totals(struct builder *b);
int build_find_stored(const struct builder *b, int32_t unit);

// --- build_argument.c: -1 with b->why where there is no room ---

int build_scalar_of(struct builder *b, enum scalar_class cls, uint64_t bits, uint16_t input);
int build_scalar(struct builder *b, enum scalar_class cls, uint64_t bits);
int build_access_of(struct builder *b, const struct fused_access *a);
int build_access(struct builder *b, const struct launch_operand *o, const struct form *f);

// --- build_convert.c: a node of -1 passes through ---

int build_convert(struct builder *b, int node, enum scalar_class to);
// What a load of the dtype's value into a class gives.
int build_loaded(struct builder *b, int node, unsigned dtype, enum scalar_class to);
int build_to_storage(struct builder *b, int node, unsigned dtype);
int build_through_storage(struct builder *b, int node, unsigned dtype);
int build_as_dtype(struct builder *b, int node, unsigned from, unsigned to);

// --- build_reduce.c ---

int build_reduction(struct builder *b, const struct instance *i, const struct scalar_node *n, int x);

// --- build_value.c ---

kiln_status build_value(struct builder *b, struct instance *i);
