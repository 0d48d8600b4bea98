// Ops that fail where an index is out of range.
//
// User code sees such an error at the op, eagerly. So the op is recorded only when it is known that it will not fail:
// what made the indices tells their range, or they are in memory and every one is looked at. Else the graph breaks, and
// they are computed first.
#include "jit/auto/auto.h"
#include "scalar/number.h"
#include "ops/index_check.h"
#include <string.h>

struct range {
    int64_t lo, hi;
};

static bool in_bounds(const struct range *r, const struct index_bounds *b, int64_t column)
{
    int64_t size = b->sizes[column];
    return r->lo > r->hi || (r->lo >= (b->labels ? 0 : -size) && r->hi < size);
}

// --- what made them

static const struct auto_step *maker_of(const struct segment *s, int32_t value)
{
    const struct auto_step *at = s->at;
    while (at->op && at->n_values > value) at = at->parent;
    return at;
}

static bool find_range(const struct segment *s, struct ref value, struct range *out)
{
    while (value.kind == REF_STEP) {
        const struct type *types[AUTO_OPERANDS];
        const struct auto_step *made = maker_of(s, value.index);
        struct op_call c = {
            .op = made->op, .n_in = made->n_in, .n_out = made->n_out, .in = types, .attrs = made->attrs};
        for (int i = 0; i < made->n_in; i++) types[i] = &made->in_types[i];
        for (int i = 0; i < made->n_out; i++) c.out[i] = made->out[i];
        enum range_kind kind = op_result_range(&c, value.index - made->n_values, &out->lo, &out->hi);
        if (kind != RANGE_SAME) return kind == RANGE_KNOWN;
        value = made->in[0];
    }
    return false;
}

// --- what is in memory

static int64_t load(uint8_t dtype, const void *at)
{
    union scalar_value v = number_read(dtype, at);
    return dtype_class(dtype) == CLASS_I64 ? v.i64 : v.i32;
}

static void widen(struct range *r, int64_t v)
{
    r->lo = v < r->lo ? v : r->lo;
    r->hi = v > r->hi ? v : r->hi;
}

// n elements, side by side.
static void scan(uint8_t dtype, const void *at, int64_t n, struct range *r)
{
    struct range wide = *r;
    const int64_t *longs = at;
    const int32_t *ints = at;
    if (dtype == KILN_I64)
        for (int64_t i = 0; i < n; i++) widen(&wide, longs[i]);
    else if (dtype == KILN_I32)
        for (int64_t i = 0; i < n; i++) widen(&wide, ints[i]);
    else
        for (int64_t i = 0; i < n; i++) widen(&wide, load(dtype, (const char *)at + i * dtype_size_B[dtype]));
    *r = wide;
}

// The elements whose last dimension is at `column`; below 0: all. Without the one that `but` names, unless it is NULL.
static struct range range_of(const kiln_tensor *t, int64_t column, const int64_t *but)
{
    const char *base = (const char *)(uintptr_t)t->storage->block.address;
    int64_t at[MAX_RANK] = {0}, size_B = dtype_size_B[t->type.dtype], n = type_numel(&t->type);
    struct range r = {INT64_MAX, INT64_MIN};
    int rank = t->type.rank;
    if (!n) return r;
    if (column < 0 && !but && layout_is_contiguous(&t->type, &t->layout)) {
        scan(t->type.dtype, base + t->layout.offset * size_B, n, &r);
        return r;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t place = t->layout.offset;
        for (int d = 0; d < rank; d++) place += at[d] * t->layout.strides[d];
        int64_t v = load(t->type.dtype, base + place * size_B);
        if ((column < 0 || at[rank - 1] == column) && !(but && v == *but)) widen(&r, v);
        for (int d = rank - 1; d >= 0 && ++at[d] == t->type.dims[d]; d--) at[d] = 0;
    }
    return r;
}

// v - lo and hi - 1 - v have a sign where v is out of range: without comparisons, which take longer side by side. False
// also where a difference does not fit its type.

enum { SIDE_B = 32 };
typedef uint64_t longs __attribute__((vector_size(SIDE_B)));
typedef uint32_t ints __attribute__((vector_size(SIDE_B)));

static bool longs_between(const char *v, int64_t n, int64_t lo, int64_t hi)
{
    longs signs = {0}, side;
    uint64_t rest = 0, value;
    for (; n >= SIDE_B / 8; n -= SIDE_B / 8, v += SIDE_B) {
        memcpy(&side, v, SIDE_B);
        signs |= (side - (uint64_t)lo) | ((uint64_t)(hi - 1) - side);
    }
    for (; n > 0; n--, v += 8) {
        memcpy(&value, v, 8);
        rest |= (value - (uint64_t)lo) | ((uint64_t)(hi - 1) - value);
    }
    for (int i = 0; i < SIDE_B / 8; i++) rest |= signs[i];
    return (int64_t)rest >= 0;
}

static bool ints_between(const char *v, int64_t n, int32_t lo, int32_t hi)
{
    ints signs = {0}, side;
    uint32_t rest = 0, value;
    for (; n >= SIDE_B / 4; n -= SIDE_B / 4, v += SIDE_B) {
        memcpy(&side, v, SIDE_B);
        signs |= (side - (uint32_t)lo) | ((uint32_t)(hi - 1) - side);
    }
    for (; n > 0; n--, v += 4) {
        memcpy(&value, v, 4);
        rest |= (value - (uint32_t)lo) | ((uint32_t)(hi - 1) - value);
    }
    for (int i = 0; i < SIDE_B / 4; i++) rest |= signs[i];
    return (int32_t)rest >= 0;
}

// True: each is known to be in range. False: a closer look tells.
static bool fits_at_a_glance(const kiln_tensor *t, const struct index_bounds *b)
{
    int64_t size = b->sizes[0], lo = b->labels ? 0 : -size, n = type_numel(&t->type);
    if (b->tuples || b->ignores || !layout_is_contiguous(&t->type, &t->layout)) return false;
    // Of no elements the address may be 0.
    uint64_t offset_B = (uint64_t)t->layout.offset * dtype_size_B[t->type.dtype];
    const char *at = (const char *)(uintptr_t)(t->storage->block.address + offset_B);
    if (t->type.dtype == KILN_I64) return longs_between(at, n, lo, size);
    return t->type.dtype == KILN_I32 && size <= INT32_MAX && ints_between(at, n, (int32_t)lo, (int32_t)size);
}

static bool memory_fits(const kiln_tensor *t, const struct index_bounds *b)
{
    if (fits_at_a_glance(t, b)) return true;
    int64_t columns = b->tuples ? t->type.dims[t->type.rank - 1] : 1;
    for (int64_t i = 0; i < columns; i++) {
        struct range r = range_of(t, b->tuples ? i : -1, NULL);
        if (b->ignores && !in_bounds(&r, b, i)) r = range_of(t, -1, &b->ignored);
        if (!in_bounds(&r, b, i)) return false;
    }
    return true;
}

// --- both

static bool made_fits(const struct auto_walk *w, const kiln_tensor *t, const struct index_bounds *b)
{
    const struct lazy *l = t->storage->lazy;
    struct range r;
    // A handle that does not remember its value shows a part of the whole.
    struct ref value = l->value;
    if (t->capture == l->serial && t->seen == l->version)
        value = (struct ref){.kind = t->value < 0 ? REF_INPUT : REF_STEP, .index = t->value};
    if (!find_range(w->seg, value, &r)) return false;
    int64_t n = b->tuples ? t->type.dims[t->type.rank - 1] : 1;
    for (int64_t i = 0; i < n; i++)
        if (!in_bounds(&r, b, i)) return false;
    return true;
}

bool auto_index_known_to_fit(const struct auto_walk *w, const struct op_call *c, const kiln_device *dev,
                             kiln_tensor *const *in)
{
    struct index_bounds b;
    if (thread_state.indices_fit || !op_can_fail(c, &dev->caps)) return true;
    if (c->op->indexed.bound == INDEX_VALUES) return false;
    op_index_bounds(c, &b);
    const kiln_tensor *t = in[b.operand];
    if (dtype_kind_of[t->type.dtype] != KIND_INT || !t->storage) return false; // the op's own check tells
    if (b.tuples && !t->type.rank) return false;
    if (t->storage->lazy) return t->storage->lazy->seg == w->seg && made_fits(w, t, &b);
    return dev->caps.host && memory_fits(t, &b);
}

kiln_status auto_index_check(struct auto_walk *w, const struct op_call *c, const kiln_device *dev,
                             kiln_tensor *const *in, bool *fits)
{
    struct index_bounds b;
    *fits = auto_index_known_to_fit(w, c, dev, in);
    if (*fits) return KILN_OK;
    op_index_bounds(c, &b);
    if (!in[b.operand]->storage || !in[b.operand]->storage->lazy) return KILN_OK;
    TRY(storage_force(in[b.operand]->storage, c->op->indexed.bound == INDEX_VALUES
                                                  ? "numbers, for which an op may have no result"
                                                  : "indices, which may be out of range"));
    *fits = auto_index_known_to_fit(w, c, dev, in);
    return KILN_OK;
}
