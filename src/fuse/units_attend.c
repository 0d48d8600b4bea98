// Attention that was said as its parts, where the host has a kernel for it (ops/attention.c) and keeps its own
// products:
//
//     out = softmax(scale q k^T + mask) v
//
// Input: a product of scores; units that multiply them by numbers, then one that adds a mask, or puts -infinity where a
// mask is false; softmax of the rows; and the product of the rows with values. Nobody else reads what lies between.
// Output: one unit, where the last one was, whose scores are never in memory. Numbers by which q or k are multiplied
// just before become part of the scale.
//
// The launches before are collapsed each for itself: the batch of the new one has every border that any of them has.
#include "base/dtype.h"
#include "fuse/units.h"
#include "ops/families.h"
#include "ops/lower.h"
#include "scalar/prim.h"
#include <math.h>

enum { MAX_CUTS = 3 * MAX_RANK };

struct attend {
    struct units *u;
    int32_t *n_reads; // by buffer
    bool round_casts;
    const struct unit *scores, *rows, *values;
    const struct unit *masked; // NULL: no mask
    int mask;                  // its operand
    struct launch_operand q, k;
    const struct unit *scaled[2]; // that multiply q and k by a number; NULL: there is none
    bool turned[2];               // and read them in another order, by their own spaces
    int32_t first;                // of the units that become one
    double scale;
    int64_t cuts[MAX_CUTS], batch[MAX_CUTS]; // elements of scores behind a border; sizes between borders
    int n_cuts, n_batch;
};

static kernel_id family_of(const struct unit *u)
{
    return u->l.kernel / CLASS_COUNT;
}

static enum scalar_class class_of(const struct unit *u)
{
    return (enum scalar_class)(u->l.kernel % CLASS_COUNT);
}

static bool is_product(const struct unit *u)
{
    return !u->region && u->l.n_operands == 3 && family_of(u) == FAMILY_matmul;
}

// What one unit writes, and one operand of another reads.
static const struct unit *maker_of(const struct attend *a, const struct launch_operand *o)
{
    if (o->flags & OPERAND_IMMEDIATE) return NULL;
    const struct unit_buffer *b = &a->u->buffers.v[o->slot];
    if (unit_buffer_is_given(b) || b->kept || b->in_place || b->n_writes != 1 || a->n_reads[o->slot] != 1) return NULL;
    if (a->round_casts && dtype_is_half_float(b->dtype)) return NULL;
    const struct unit *u = &a->u->v.v[b->writer];
    return u->region ? NULL : u;
}

// --- the parts ---

static bool is_pointwise(const struct unit *u)
{
    return u->body && !u->folds && !u->random && !u->n_parts && !u->n_windows && !u->body->places &&
           u->body->check < 0 && u->l.n_operands == u->n_in + 1 && u->l.n_scalars == 0;
}

// The operands of the one primitive that the unit computes, in its order; false where it does anything else.
static bool applies(const struct unit *u, enum scalar_prim prim, int n, int *operand)
{
    const struct scalar_dag *d = &u->body->dag;
    const struct scalar_node *root = &d->nodes[d->root];
    if (u->n_in != n || root->kind != SCALAR_PRIM || root->code != prim || root->n_args != n) return false;
    for (int i = 0; i < n; i++) {
        const struct scalar_node *arg = &d->nodes[root->arg[i]];
        if (arg->kind != SCALAR_INPUT || arg->code >= n) return false;
        operand[i] = arg->code;
    }
    return true;
}

static bool read_number(const struct unit *u, int operand, double *out)
{
    const struct launch_operand *o = &u->l.operands[operand];
    if (!(o->flags & OPERAND_IMMEDIATE) || o->slot) return false;
    switch (u->in_cls[operand]) {
    case CLASS_F32: *out = f32_bits((uint32_t)o->address); return true;
    case CLASS_F64: *out = f64_bits(o->address); return true;
    default: return false;
    }
}

// The operand that the unit multiplies by a number; -1: it does not.
static int scaled_by(const struct unit *u, double *factor)
{
    int x[2];
    if (!is_pointwise(u)) return -1;
    if (applies(u, PRIM_mul, 2, x)) {
        if (read_number(u, x[1], factor)) return x[0];
        if (read_number(u, x[0], factor)) return x[1];
    }
    if (!applies(u, PRIM_div, 2, x) || !read_number(u, x[1], factor)) return -1;
    *factor = 1 / *factor;
    return x[0];
}

static bool leads_to_scores(const struct attend *a, const struct unit *u, int operand)
{
    double factor;
    const struct unit *from = maker_of(a, &u->l.operands[operand]);
    return from && (is_product(from) || scaled_by(from, &factor) >= 0);
}

// The operand of scores where the unit brings a mask into them; -1: it does not.
static int masked_by(const struct attend *a, const struct unit *u, int *mask)
{
    int x[3];
    double hidden;
    if (!is_pointwise(u)) return -1;
    if (applies(u, PRIM_select, 3, x) && read_number(u, x[2], &hidden) && hidden == -INFINITY) {
        *mask = x[0];
        return u->l.operands[x[0]].dtype == KILN_BOOL && leads_to_scores(a, u, x[1]) ? x[1] : -1;
    }
    if (!applies(u, PRIM_add, 2, x)) return -1;
    for (int i = 0; i < 2; i++) {
        *mask = x[1 - i];
        if (dtype_kind_of[u->l.operands[*mask].dtype] == KIND_FLOAT && leads_to_scores(a, u, x[i])) return x[i];
    }
    return -1;
}

// From the rows back to the product of scores.
static bool find_scores(struct attend *a)
{
    const struct unit *at = maker_of(a, &a->rows->l.operands[0]);
    bool may_mask = true;
    while (at && !is_product(at)) {
        double factor = 1;
        int next = scaled_by(at, &factor), mask;
        if (next < 0 && may_mask && (next = masked_by(a, at, &mask)) >= 0) {
            if (at->l.operands[mask].flags & OPERAND_IMMEDIATE) return false;
            a->masked = at;
            a->mask = mask;
        }
        if (next < 0 || !unit_is_dense(at, next, at->l.rank) || !unit_is_dense(at, at->n_in, at->l.rank)) return false;
        a->scale *= factor;
        may_mask = false;
        at = maker_of(a, &at->l.operands[next]);
    }
    a->scores = at;
    return at != NULL && isfinite(a->scale);
}

static bool same_way(const struct unit *u, int x, int y)
{
    for (int d = 0; d < u->l.rank; d++)
        if (u->l.sizes[d] != 1 && u->l.operands[x].strides[d] != u->l.operands[y].strides[d]) return false;
    return u->l.operands[x].dtype == u->l.operands[y].dtype;
}

// Operand `operand` of the product of scores is dense, matrix by matrix.
static bool is_dense_factor(const struct attend *a, int operand)
{
    struct unit factor = *a->scores;
    int rank = factor.l.rank;
    struct launch_operand *o = &factor.l.operands[operand];
    if (operand == 1) {
        factor.l.sizes[rank - 3] = factor.l.sizes[rank - 2];
        o->strides[rank - 3] = o->strides[rank - 2];
    }
    factor.l.sizes[rank - 2] = factor.l.sizes[rank - 1];
    o->strides[rank - 2] = o->strides[rank - 1];
    return unit_is_dense(&factor, operand, rank - 1);
}

// A factor of the scores, before a number was multiplied into it.
static void take_factor(struct attend *a, int operand)
{
    double factor;
    struct launch_operand *out = operand ? &a->k : &a->q;
    *out = a->scores->l.operands[operand];
    const struct unit *by = maker_of(a, out);
    int x = by ? scaled_by(by, &factor) : -1;
    if (x < 0 || !isfinite(factor * a->scale) || (by->l.operands[x].flags & OPERAND_IMMEDIATE)) return;
    const struct launch_operand *from = &by->l.operands[x], *to = &by->l.operands[by->n_in];
    bool as_it_lies = same_way(by, x, by->n_in);
    if (as_it_lies) {
        out->slot = from->slot;
        out->address += from->address - to->address;
    } else {
        if (from->dtype != to->dtype || !is_dense_factor(a, operand) || !unit_is_dense(by, by->n_in, by->l.rank))
            return;
        *out = *from;
        a->turned[operand] = true;
    }
    a->scale *= factor;
    a->scaled[operand] = by;
    if (by - a->u->v.v < a->first) a->first = (int32_t)(by - a->u->v.v);
}

// The kernel takes matrices of floats, and writes what it does not read.
static bool takes_operands(const struct attend *a)
{
    const struct launch_operand *v = &a->values->l.operands[1], *y = &a->values->l.operands[2];
    const struct launch_operand *const read[] = {&a->q, &a->k, v};
    for (size_t i = 0; i < COUNT_OF(read); i++) {
        if (read[i]->flags & OPERAND_IMMEDIATE || dtype_kind_of[read[i]->dtype] != KIND_FLOAT) return false;
        if (read[i]->slot == y->slot) return false;
    }
    return !a->masked || a->masked->l.operands[a->mask].slot != y->slot;
}

// Whether the last of the old units sees what the first one saw: what is written once was written before it was read.
static bool stays(const struct attend *a)
{
    const uint32_t slots[] = {a->q.slot, a->k.slot, a->masked ? a->masked->l.operands[a->mask].slot : a->q.slot};
    for (size_t s = 0; s < COUNT_OF(slots); s++) {
        const struct unit_buffer *b = &a->u->buffers.v[slots[s]];
        if (b->n_writes == 1 && !unit_buffer_is_given(b)) continue;
        for (const struct unit *u = &a->u->v.v[a->first]; u < a->values; u++)
            for (int o = 0; o < unit_n_operands(u); o++)
                if (unit_writes(u, o) && unit_operands(u)[o].slot == slots[s]) return false;
    }
    return true;
}

// --- the space ---

static bool add_cut(struct attend *a, int64_t cut)
{
    int at = 0;
    while (at < a->n_cuts && a->cuts[at] < cut) at++;
    if (at < a->n_cuts && a->cuts[at] == cut) return true;
    if (a->n_cuts == MAX_CUTS) return false;
    for (int i = a->n_cuts++; i > at; i--) a->cuts[i] = a->cuts[i - 1];
    a->cuts[at] = cut;
    return true;
}

// Borders of these dimensions between matrices of so many elements. Within a matrix there may be one, behind a row.
static bool add_cuts(struct attend *a, const int64_t *sizes, int n, int64_t row, int64_t matrix)
{
    const struct launch *s = &a->scores->l;
    int64_t inner = 1, of_scores = s->sizes[s->rank - 3] * s->sizes[s->rank - 2];
    for (int d = n; d-- > 0;) {
        inner *= sizes[d];
        if (inner == 1 || inner == row || inner == matrix) continue;
        if (inner % matrix || !add_cut(a, inner / matrix * of_scores)) return false;
    }
    return true;
}

static bool find_batch(struct attend *a)
{
    const struct launch *s = &a->scores->l, *v = &a->values->l;
    int64_t queries = s->sizes[s->rank - 3], keys = s->sizes[s->rank - 2], width = s->sizes[s->rank - 1];
    int64_t at = queries * keys;
    if (!add_cuts(a, s->sizes, s->rank - 3, 1, 1) || !add_cuts(a, v->sizes, v->rank - 3, 1, 1)) return false;
    if (a->masked && !add_cuts(a, a->masked->l.sizes, a->masked->l.rank, keys, at)) return false;
    for (int i = 0; i < 2; i++) {
        const struct launch *by = a->turned[i] ? &a->scaled[i]->l : NULL;
        if (by && !add_cuts(a, by->sizes, by->rank, width, width * (i ? keys : queries))) return false;
    }
    a->n_batch = a->n_cuts;
    for (int i = 0; i < a->n_cuts; at = a->cuts[i++]) {
        if (a->cuts[i] % at) return false;
        a->batch[a->n_cuts - 1 - i] = a->cuts[i] / at;
    }
    return a->n_batch + 2 <= MAX_RANK;
}

// Strides over `to`, whose dimensions are parts of those of `from`.
static bool spread(const int64_t *from, const int64_t *strides, int n_from, const int64_t *to, int n_to, int64_t *out)
{
    int64_t left = 1, step = 0;
    for (int d = n_to; d-- > 0;) {
        while (left == 1 && to[d] > 1 && n_from > 0) left = from[--n_from], step = strides[n_from];
        if (left % to[d]) return false;
        out[d] = to[d] > 1 ? step : 0;
        left /= to[d];
        step *= to[d];
    }
    return true;
}

// An operand of a product, as a matrix for each of the batch.
static bool add_matrix(const struct attend *a, struct launch *l, const struct unit *product,
                       const struct launch_operand *o, int rows, int columns)
{
    struct launch_operand *to = &l->operands[l->n_operands++];
    const struct launch *from = &product->l;
    *to = *o;
    to->strides[a->n_batch] = o->strides[from->rank - 3 + rows];
    to->strides[a->n_batch + 1] = o->strides[from->rank - 3 + columns];
    return spread(from->sizes, o->strides, from->rank - 3, a->batch, a->n_batch, to->strides);
}

// An operand of another unit whose space is a matrix of rows and columns for each of the batch.
static bool add_spread(const struct attend *a, struct launch *l, const struct launch *from,
                       const struct launch_operand *o, int64_t rows, int64_t columns)
{
    struct launch_operand *to = &l->operands[l->n_operands++];
    int64_t all[MAX_RANK];
    *to = *o;
    for (int d = 0; d < a->n_batch; d++) all[d] = a->batch[d];
    all[a->n_batch] = rows;
    all[a->n_batch + 1] = columns;
    return spread(from->sizes, o->strides, from->rank, all, a->n_batch + 2, to->strides);
}

static bool add_factor(const struct attend *a, struct launch *l, int operand, int64_t rows)
{
    const struct launch *s = &a->scores->l;
    const struct launch_operand *o = operand ? &a->k : &a->q;
    if (a->turned[operand]) return add_spread(a, l, &a->scaled[operand]->l, o, rows, s->sizes[s->rank - 1]);
    return add_matrix(a, l, a->scores, o, operand, 2);
}

static bool add_mask(const struct attend *a, struct launch *l, int64_t queries, int64_t keys)
{
    if (a->masked) return add_spread(a, l, &a->masked->l, &a->masked->l.operands[a->mask], queries, keys);
    l->operands[l->n_operands++] = (struct launch_operand){.flags = OPERAND_IMMEDIATE, .dtype = a->q.dtype};
    return true;
}

static kiln_status add_stats(struct attend *a, struct launch *l, int64_t queries)
{
    enum { STATS = 2 };
    struct type t = {.dtype = class_of(a->values) == CLASS_F64 ? KILN_F64 : KILN_F32, .rank = 2};
    struct launch_operand *to = &l->operands[l->n_operands++];
    int64_t stride = STATS;
    *to = (struct launch_operand){.dtype = t.dtype, .flags = OPERAND_WRITE};
    to->strides[a->n_batch + 1] = 1;
    to->strides[a->n_batch] = stride;
    stride *= queries;
    for (int d = a->n_batch; d-- > 0; stride *= a->batch[d]) to->strides[d] = stride;
    t.dims[0] = stride / STATS;
    t.dims[1] = STATS;
    to->range_hi_B = stride * dtype_size_B[t.dtype];
    int32_t buffer = units_add_buffer(a->u, BUFFER_TEMP, &t, -1);
    to->slot = (uint32_t)buffer;
    return buffer < 0 ? error_pending : KILN_OK;
}

static bool make_launch(const struct attend *a, struct launch *l)
{
    const struct launch *s = &a->scores->l, *v = &a->values->l;
    int64_t queries = s->sizes[s->rank - 3], keys = s->sizes[s->rank - 2], width = v->sizes[v->rank - 2];
    *l = (struct launch){.kernel = kernel_of(FAMILY_flash_attention, class_of(a->values)),
                         .op = "flash_attention",
                         .extent = {1, 1, 1},
                         .rank = (uint8_t)(a->n_batch + 2)};
    for (int d = 0; d < a->n_batch; d++) l->sizes[d] = a->batch[d];
    l->sizes[a->n_batch] = queries;
    l->sizes[a->n_batch + 1] = width;
    const int64_t scalars[] = {queries,          keys, s->sizes[s->rank - 1], width, 0, (int64_t)bits_f64(a->scale),
                               a->masked != NULL};
    for (size_t i = 0; i < COUNT_OF(scalars); i++) launch_scalar_i(l, scalars[i]);
    return add_factor(a, l, 0, queries) && add_factor(a, l, 1, keys) &&
           add_matrix(a, l, a->values, &v->operands[1], 2, 1) && add_mask(a, l, queries, keys) &&
           add_matrix(a, l, a->values, &v->operands[2], 0, 1);
}

// --- all of it ---

// Whether the values are multiplied by softmax of scores, matrix by matrix. Scores of one query are few.
static bool fits(const struct attend *a)
{
    const struct launch *s = &a->scores->l, *r = &a->rows->l, *v = &a->values->l;
    int64_t queries = s->sizes[s->rank - 3], keys = s->sizes[s->rank - 2];
    if (queries == 1 || v->sizes[v->rank - 3] != queries || v->sizes[v->rank - 1] != keys) return false;
    if (r->sizes[r->rank - 1] != keys || !unit_is_dense(a->scores, 2, s->rank - 1)) return false;
    if (class_of(a->scores) != class_of(a->values) || class_of(a->rows) != class_of(a->values)) return false;
    int64_t n = unit_points(a->scores, s->rank - 1);
    if (unit_points(a->rows, r->rank) != n || unit_points(a->values, v->rank - 2) * keys != n) return false;
    struct unit weights = *a->values; // without N, which they do not have
    weights.l.sizes[v->rank - 2] = keys;
    weights.l.operands[0].strides[v->rank - 2] = v->operands[0].strides[v->rank - 1];
    return unit_is_dense(&weights, 0, v->rank - 1);
}

static bool find(struct attend *a, int32_t values)
{
    a->values = &a->u->v.v[values];
    if (!is_product(a->values) || class_of(a->values) > CLASS_F64) return false;
    a->rows = maker_of(a, &a->values->l.operands[0]);
    if (!a->rows || family_of(a->rows) != FAMILY_softmax || a->rows->l.n_reduce != 1) return false;
    if (!unit_is_dense(a->rows, 0, a->rows->l.rank) || !unit_is_dense(a->rows, 1, a->rows->l.rank)) return false;
    a->scale = 1;
    if (!find_scores(a) || !fits(a)) return false;
    a->first = (int32_t)(a->scores - a->u->v.v);
    take_factor(a, 0);
    take_factor(a, 1);
    return takes_operands(a) && find_batch(a) && stays(a);
}

static void drop(struct attend *a, const struct unit *u)
{
    if (u) unit_drop(&a->u->v.v[u - a->u->v.v]);
}

static void drop_parts(struct attend *a)
{
    const struct unit *at = a->rows;
    while (at != a->scores) {
        double factor;
        int mask, x = at == a->rows ? 0 : scaled_by(at, &factor);
        if (x < 0) x = masked_by(a, at, &mask);
        const struct unit *from = maker_of(a, &at->l.operands[x]);
        drop(a, at);
        at = from;
    }
    drop(a, at);
    drop(a, a->scaled[0]);
    drop(a, a->scaled[1]);
}

static kiln_status attend(struct attend *a, int32_t values)
{
    struct launch l;
    if (!find(a, values) || !make_launch(a, &l)) return KILN_OK;
    TRY(add_stats(a, &l, l.sizes[a->n_batch]));
    struct unit *to = &a->u->v.v[values];
    drop_parts(a);
    *to = (struct unit){.l = l, .node = to->node, .n_in = kernel_info(l.kernel)->n_operands - 2};
    return KILN_OK;
}

kiln_status units_attend(struct units *u, bool round_casts)
{
    int32_t *n_reads = arena_alloc(&u->arena, sizeof *n_reads * (u->buffers.n + 1));
    if (!n_reads) return error_pending;
    for (size_t i = 0; i < u->v.n; i++)
        for (int o = 0; o < unit_n_operands(&u->v.v[i]); o++)
            if (unit_reads(&u->v.v[i], o)) n_reads[unit_operands(&u->v.v[i])[o].slot]++;
    for (int32_t i = 0; i < (int32_t)u->v.n; i++) {
        struct attend a = {.u = u, .n_reads = n_reads, .round_casts = round_casts};
        if (unit_n_operands(&u->v.v[i])) TRY(attend(&a, i));
    }
    return KILN_OK;
}
