// Buffers that are put together from pieces: concat, stack.
//
// Input: a buffer that several units write, each of which moves elements, where the pieces lie side by side along the
// fast dimension: the buffer is [outer, T], piece k the columns from start[k] to start[k + 1]. Nobody reads the buffer
// before the last piece is there, not even to make another piece (the edges of a pad). Output: one unit in their place,
// whose expression reads, for each point, from the input that its column belongs to. So it can be fused like any other;
// where it is not, the pieces are moved one by one as they were lowered.
#include "ops/lower.h"
#include "fuse/units.h"
#include "scalar/dag.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_PIECES = MAX_OPERANDS - 1 };

struct join_piece {
    int32_t unit;
    int64_t start, length, outer;
    int64_t outer_step, step; // of the input, in elements
};

struct join {
    struct units *u;
    int32_t *first_use; // by buffer: the unit
    int n;
    struct join_piece pieces[MAX_PIECES]; // by start
    int64_t outer, width;
};

static bool describe(const struct units *u, int32_t unit, int64_t width, struct join_piece *p)
{
    const struct unit *w = &u->v.v[unit];
    const struct launch_operand *in = &w->l.operands[0], *out = &w->l.operands[1];
    if (!w->body || !w->body->moves || w->body->places || w->body->check >= 0 || w->n_in != 1 || w->node < 0)
        return false;
    if ((in->flags & OPERAND_IMMEDIATE) || in->dtype != u->buffers.v[out->slot].dtype || w->l.rank > 2) return false;
    int64_t first = (int64_t)out->address / dtype_size_B[out->dtype];
    int last = w->l.rank - 1;
    bool lines = w->l.rank > 0 && out->strides[last] == 1; // else a column, one element wide
    *p = (struct join_piece){.unit = unit, .start = first, .length = 1, .outer = 1};
    if (lines) {
        p->length = w->l.sizes[last];
        p->step = in->strides[last];
    }
    int columns = lines ? last : w->l.rank; // dimensions beside the lines
    if (columns > 1 || (columns == 1 && out->strides[0] != width)) return false;
    if (columns == 1) {
        p->outer = w->l.sizes[0];
        p->outer_step = in->strides[0];
    }
    return first + p->length <= width;
}

// The distance from line to line, if all pieces have lines: the stride that is not 1; the whole buffer when there is
// none.
static int64_t width_of(const struct units *u, const struct launch *l, int64_t numel)
{
    (void)u;
    for (int d = 0; d < l->rank; d++)
        if (l->operands[1].strides[d] != 1) return l->operands[1].strides[d];
    return numel;
}

static int by_start(const void *a, const void *b)
{
    const struct join_piece *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

static bool reads(const struct unit *u, int32_t buffer)
{
    for (int o = 0; o < unit_n_operands(u); o++)
        if (unit_reads(u, o) && unit_operands(u)[o].slot == (uint32_t)buffer) return true;
    return false;
}

static bool find_pieces(struct join *j, int32_t buffer)
{
    const struct unit_buffer *b = &j->u->buffers.v[buffer];
    int64_t at = 0;
    bool was_read = false;
    j->n = 0;
    j->width = 0;
    for (int32_t i = j->first_use[buffer]; i < (int32_t)j->u->v.n && j->n < b->n_writes; i++) {
        const struct unit *w = &j->u->v.v[i];
        bool writes = !w->region && w->l.n_operands == w->n_in + 1 && w->l.operands[w->n_in].slot == (uint32_t)buffer;
        was_read = was_read || reads(w, buffer);
        if (!writes) continue;
        if (was_read || j->n == MAX_PIECES || w->n_in != 1) return false;
        if (!j->width) j->width = width_of(j->u, &w->l, b->numel);
        if (j->width <= 0 || !describe(j->u, i, j->width, &j->pieces[j->n++])) return false;
    }
    if (j->n != b->n_writes) return false;
    qsort(j->pieces, (size_t)j->n, sizeof *j->pieces, by_start);
    j->outer = j->pieces[0].outer;
    for (int i = 0; i < j->n; i++) {
        if (j->pieces[i].start != at || j->pieces[i].outer != j->outer) return false;
        at += j->pieces[i].length;
    }
    return at == j->width && j->outer * j->width == b->numel;
}

// --- the unit ---

static kiln_status make_body(struct join *j, enum scalar_class cls, struct kernel_body *out)
{
    struct dag_builder b;
    int ends[MAX_PIECES], value = -1;
    dag_begin(&b);
    int column = dag_prim(&b, PRIM_rindex, 0, 0, 0), zero = dag_const(&b, CLASS_I64, (union scalar_value){.i64 = 0});
    for (int i = 0; i + 1 < j->n; i++) ends[i] = dag_input(&b, CLASS_I64, (uint16_t)(j->n + i));
    for (int i = j->n - 1; i >= 0; i--) {
        int above = i > 0 ? dag_prim(&b, PRIM_ge, column, ends[i - 1], 0) : -1;
        int below = i + 1 < j->n ? dag_prim(&b, PRIM_lt, column, ends[i], 0) : -1;
        int inside = above < 0 ? below : below < 0 ? above : dag_prim(&b, PRIM_and, above, below, 0);
        int load = dag_load(&b, cls, (uint16_t)i, zero, inside);
        value = value < 0 ? load : dag_prim(&b, PRIM_select, below, load, value);
    }
    kiln_status status = dag_finish(&b, &j->u->arena, value, &out->dag);
    dag_end(&b);
    out->check = -1;
    for (int i = 0; i < j->n; i++) out->in_cls[i] = cls;
    return status;
}

static void set_operands(const struct join *j, struct unit *to)
{
    to->l.n_operands = to->l.n_scalars = 0;
    for (int i = 0; i < j->n; i++) {
        const struct join_piece *p = &j->pieces[i];
        struct launch_operand *o = &to->l.operands[to->l.n_operands++];
        *o = j->u->v.v[p->unit].l.operands[0];
        o->strides[0] = p->outer_step;
        o->strides[1] = p->step;
        o->address -= (uint64_t)(p->start * p->step * dtype_size_B[o->dtype]);
        if (i + 1 < j->n) to->l.scalars[to->l.n_scalars++] = (uint64_t)j->pieces[i + 1].start;
    }
    struct launch_operand *out = &to->l.operands[to->l.n_operands++];
    *out = j->u->v.v[j->pieces[0].unit].l.operands[1];
    out->address = 0;
    out->strides[0] = j->width;
    out->strides[1] = 1;
}

static kiln_status join(struct join *j, int32_t buffer)
{
    struct units *u = j->u;
    struct unit_buffer *b = &u->buffers.v[buffer];
    int32_t last = 0;
    for (int i = 0; i < j->n; i++)
        if (j->pieces[i].unit > last) last = j->pieces[i].unit;
    struct unit made = u->v.v[last];
    struct kernel_body *body = arena_alloc(&u->arena, sizeof *body);
    made.parts = arena_alloc(&u->arena, sizeof *made.parts * (size_t)j->n);
    if (!body || !made.parts) return error_pending;
    for (int i = 0; i < j->n; i++) unit_plain(&u->v.v[j->pieces[i].unit], &made.parts[i]);
    made.n_parts = made.n_in = j->n;
    made.row_dims = 1;
    made.l.rank = 2;
    made.l.n_reduce = 0;
    made.l.sizes[0] = j->outer;
    made.l.sizes[1] = j->width;
    set_operands(j, &made);
    TRY(make_body(j, dtype_class(b->dtype), body));
    made.body = body;
    memcpy(made.in_cls, body->in_cls, sizeof made.in_cls);
    for (int i = 0; i < j->n; i++) u->v.v[j->pieces[i].unit].l.n_operands = 0; // taken out below
    u->v.v[last] = made;
    return KILN_OK;
}

static kiln_status find_first_uses(struct join *j)
{
    const struct units *u = j->u;
    j->first_use = arena_alloc(&j->u->arena, sizeof *j->first_use * (u->buffers.n + 1));
    if (!j->first_use) return error_pending;
    for (size_t i = 0; i < u->buffers.n; i++) j->first_use[i] = (int32_t)u->v.n;
    for (int32_t i = (int32_t)u->v.n; i-- > 0;)
        for (int o = 0; o < unit_n_operands(&u->v.v[i]); o++) {
            const struct launch_operand *operand = &unit_operands(&u->v.v[i])[o];
            if (!(operand->flags & OPERAND_IMMEDIATE)) j->first_use[operand->slot] = i;
        }
    return KILN_OK;
}

kiln_status units_join(struct units *u)
{
    struct join j = {.u = u};
    TRY(find_first_uses(&j));
    for (size_t i = 0; i < u->buffers.n; i++) {
        if (u->buffers.v[i].n_writes < 2 || unit_buffer_is_given(&u->buffers.v[i])) continue;
        if (find_pieces(&j, (int32_t)i)) TRY(join(&j, (int32_t)i));
    }
    return KILN_OK;
}
