// Putting gradients of pieces together.
//
// What overlaps itself is taken apart first, and what runs backwards is turned round. Then a piece is, if it can be, a
// range of one axis of the whole, or of the columns where the whole is seen as a matrix; any other is loose. Ranges of
// one axis are sorted by where they start, those that are equal are added. Then layers are made: from the left, each
// takes the next range that does not overlap what it has. A layer is one concat, with zeros where it has gaps; mostly
// there is one. Where a layer would be gaps for the most part, its pieces are loose, too. Loose pieces are added to
// their places in the sum one by one.
#include "grad/pieces.h"
#include "base/vec.h"
#include "ops/families.h"
#include "tensor/apply.h"
#include <kiln/ops.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PARTS = 255 }; // of a concat
enum { COLUMNS = MAX_RANK, LOOSE };

struct range {
    kiln_tensor *grad;
    int axis;       // or COLUMNS, or LOOSE
    bool dropped;   // the axis, of one index
    int64_t period; // COLUMNS: how many there are
    int64_t start, length;
    size_t number;            // in order of arrival
    struct piece_place place; // LOOSE
};

struct whole {
    const struct type *type; // as the gradient is to be
    VEC(struct range) ranges;
    VEC(struct range) loose;
    kiln_tensor *sum;
    bool own; // it may be written
};

// --- a piece as a range ---

static kiln_tensor *turn_round(kiln_tensor *grad, struct piece_place *p)
{
    int64_t axes[MAX_RANK];
    size_t n = 0;
    for (int i = 0; i < p->rank; i++) {
        if (p->strides[i] >= 0) continue;
        p->offset += p->strides[i] * (p->dims[i] - 1);
        p->strides[i] = -p->strides[i];
        if (p->dims[i] > 1) axes[n++] = i;
    }
    return n ? kiln_flip(grad, n, axes) : grad;
}

// Dimensions of more than one element by their strides, the largest first; of equal ones the shorter first.
static int sort_dims(const struct piece_place *p, int *dims)
{
    int n = 0;
    for (int i = 0; i < p->rank; i++) {
        if (p->dims[i] == 1) continue;
        int at = n++;
        for (; at > 0; at--) {
            int k = dims[at - 1];
            bool behind = p->strides[k] != p->strides[i] ? p->strides[k] < p->strides[i] : p->dims[k] > p->dims[i];
            if (!behind) break;
            dims[at] = k;
        }
        dims[at] = i;
    }
    return n;
}

// The shortest of the dimensions that meet each other's elements; -1: none do.
static int overlapping_dim(const struct piece_place *p, const int *dims, int n)
{
    int64_t reach = 0;
    for (int i = n; i-- > 0;) {
        if (p->strides[dims[i]] <= reach) {
            int least = dims[i];
            for (int k = i + 1; k < n; k++)
                if (p->dims[dims[k]] < p->dims[least]) least = dims[k];
            return least;
        }
        reach += p->strides[dims[i]] * (p->dims[dims[i]] - 1);
    }
    return -1;
}

// What is left of the place when the axis is reduced to one range; whether it lies in the whole as the whole's own
// dimensions do.
static bool is_range_of(const struct piece_place *p, const struct type *whole, int axis, bool dropped,
                        struct range *out)
{
    struct layout l;
    layout_contiguous(whole, &l);
    for (int i = 0; i < whole->rank; i++) {
        int k = dropped && i > axis ? i - 1 : i;
        if (dropped && i == axis) continue;
        if (i != axis && p->dims[k] != whole->dims[i]) return false;
        if (p->dims[k] > 1 && p->strides[k] != l.strides[i]) return false;
    }
    out->axis = axis;
    out->dropped = dropped;
    out->start = p->offset / l.strides[axis];
    out->length = dropped ? 1 : p->dims[axis];
    return p->offset % l.strides[axis] == 0 && out->start + out->length <= whole->dims[axis];
}

static bool is_of_axis(const struct piece_place *p, const struct type *whole, struct range *out)
{
    if (p->rank != whole->rank && p->rank + 1 != whole->rank) return false;
    for (int axis = 0; axis < whole->rank; axis++)
        if (is_range_of(p, whole, axis, p->rank < whole->rank, out)) return true;
    return false;
}

// Each line of the matrix has a part of the piece, without gaps.
static bool is_of_columns(const struct piece_place *p, const struct type *whole, const int *dims, int n,
                          struct range *out)
{
    int64_t numel = type_numel(whole), inner = 1;
    int i = n;
    while (i > 0 && p->strides[dims[i - 1]] == inner) inner *= p->dims[dims[--i]];
    int64_t lines = 1, period = i > 0 ? p->strides[dims[i - 1]] : numel;
    for (; i > 0 && p->strides[dims[i - 1]] == period * lines; i--) lines *= p->dims[dims[i - 1]];
    out->axis = COLUMNS;
    out->dropped = false;
    out->period = period;
    out->start = p->offset;
    out->length = inner;
    return i == 0 && lines * period == numel && out->start + inner <= period;
}

static kiln_tensor *in_columns(kiln_tensor *grad, const struct piece_place *p, int64_t numel, const int *dims, int n,
                               const struct range *r)
{
    int64_t order[MAX_RANK];
    int k = 0;
    bool in_order = true;
    for (int i = 0; i < p->rank; i++)
        if (p->dims[i] == 1) order[k++] = i;
    for (int i = 0; i < n; i++) {
        in_order &= i == 0 || dims[i] > dims[i - 1];
        order[k++] = dims[i];
    }
    if (!in_order) grad = kiln_permute(grad, (size_t)k, order);
    return grad ? kiln_reshape(grad, KILN_SHAPE(numel / r->period, r->length)) : NULL;
}

static kiln_status settle(struct whole *w, kiln_tensor *grad, struct piece_place p);

static kiln_status take_apart(struct whole *w, kiln_tensor *grad, const struct piece_place *p, int dim)
{
    struct piece_place part = *p;
    part.rank--;
    for (int i = dim; i < part.rank; i++) {
        part.dims[i] = part.dims[i + 1];
        part.strides[i] = part.strides[i + 1];
    }
    for (int64_t i = 0; i < p->dims[dim]; i++) {
        part.offset = p->offset + i * p->strides[dim];
        TRY(settle(w, kiln_select(grad, dim, i), part));
    }
    return KILN_OK;
}

static kiln_status settle(struct whole *w, kiln_tensor *grad, struct piece_place p)
{
    int dims[MAX_RANK];
    if (!grad || !(grad = turn_round(grad, &p))) return error_pending;
    int n = sort_dims(&p, dims), overlapping = overlapping_dim(&p, dims, n);
    if (overlapping >= 0) return take_apart(w, grad, &p, overlapping);
    struct range r = {.grad = grad, .number = w->ranges.n + w->loose.n};
    if (is_of_axis(&p, w->type, &r)) return vec_push(&w->ranges, r);
    if (is_of_columns(&p, w->type, dims, n, &r)) {
        r.grad = in_columns(grad, &p, type_numel(w->type), dims, n, &r);
        return r.grad ? vec_push(&w->ranges, r) : error_pending;
    }
    r.axis = LOOSE;
    r.place = p;
    return vec_push(&w->loose, r);
}

// --- layers ---

struct lines {
    struct whole *whole;
    struct type type; // with `axis`
    int axis;
    bool last; // no ranges but these
    size_t n;
    struct range *v;    // by start and length
    kiln_tensor **list; // room for a layer
};

static int compare(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int by_place(const void *x, const void *y)
{
    const struct range *a = x, *b = y;
    int order = compare(a->axis, b->axis);
    if (!order) order = compare(a->period, b->period);
    if (!order) order = compare(a->start, b->start);
    if (!order) order = compare(a->length, b->length);
    return order ? order : (a->number > b->number) - (a->number < b->number);
}

static kiln_tensor *plus(kiln_tensor *a, kiln_tensor *b)
{
    return !a ? b : !b ? NULL : kiln_add(a, b);
}

static void add_equal(struct lines *l)
{
    size_t kept = 0;
    for (size_t i = 0; i < l->n; i++) {
        struct range *last = kept ? &l->v[kept - 1] : NULL;
        if (last && last->start == l->v[i].start && last->length == l->v[i].length)
            last->grad = plus(last->grad, l->v[i].grad);
        else
            l->v[kept++] = l->v[i];
    }
    l->n = kept;
}

static kiln_tensor *gap(const struct lines *l, int64_t length)
{
    const kiln_tensor *like = l->v[0].grad;
    int64_t dims[MAX_RANK];
    memcpy(dims, l->type.dims, sizeof dims);
    dims[l->axis] = length;
    return kiln_zeros(like->storage ? like->storage->dev : NULL, (kiln_dtype)like->type.dtype, l->type.rank, dims);
}

static void place_of(const struct lines *l, const struct range *r, struct piece_place *out)
{
    place_whole(&l->type, out);
    out->dims[l->axis] = r->length;
    out->offset = r->start * out->strides[l->axis];
}

static kiln_tensor *embedded(const struct lines *l, const struct range *r)
{
    struct piece_place p;
    place_of(l, r, &p);
    return kiln_embed(r->grad, l->type.rank, l->type.dims, (size_t)p.rank, p.strides, p.offset);
}

static kiln_tensor *concat(kiln_tensor **list, size_t n, int axis)
{
    while (n > MOST_PARTS) {
        size_t made = 0;
        for (size_t i = 0; i < n; i += MOST_PARTS) {
            size_t count = n - i < MOST_PARTS ? n - i : MOST_PARTS;
            list[made] = kiln_concat(list + i, count, axis);
            if (!list[made++]) return NULL;
        }
        n = made;
    }
    return n == 1 ? list[0] : kiln_concat(list, n, axis);
}

// Moves the next ranges that do not overlap to the front; how many.
static size_t take_layer(struct lines *l, struct range *rest, int64_t *covered)
{
    size_t n = 0, left = 0;
    int64_t at = 0;
    *covered = 0;
    for (size_t i = 0; i < l->n; i++) {
        if (l->v[i].start < at) {
            rest[left++] = l->v[i];
            continue;
        }
        at = l->v[i].start + l->v[i].length;
        *covered += l->v[i].length;
        l->v[n++] = l->v[i];
    }
    memcpy(l->v + n, rest, sizeof *rest * left);
    return n;
}

static kiln_tensor *make_layer(const struct lines *l, size_t n)
{
    int64_t at = 0, size = l->type.dims[l->axis];
    size_t made = 0;
    if (n == 1 && l->v[0].length < size) return embedded(l, &l->v[0]);
    for (size_t i = 0; i < n; i++) {
        if (l->v[i].start > at) l->list[made++] = gap(l, l->v[i].start - at);
        l->list[made++] = l->v[i].grad;
        at = l->v[i].start + l->v[i].length;
    }
    if (at < size) l->list[made++] = gap(l, size - at);
    return kiln_error() ? NULL : concat(l->list, made, l->axis);
}

static kiln_status loosen(struct lines *l, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        place_of(l, &l->v[i], &l->v[i].place);
        TRY(vec_push(&l->whole->loose, l->v[i]));
    }
    return KILN_OK;
}

// A graph has a layer in one pass with what it is added to, but a launch for each loose piece.
static int64_t most_gaps(void)
{
    return thread_state.sink ? 8 : 2;
}

static kiln_status add_layer(struct lines *l, size_t n)
{
    struct whole *w = l->whole;
    kiln_tensor *layer = make_layer(l, n);
    if (layer && !type_same_shape(&layer->type, w->type)) layer = kiln_reshape(layer, w->type->rank, w->type->dims);
    w->sum = layer ? plus(w->sum, layer) : NULL;
    return kiln_error();
}

static kiln_status sum_along(struct lines *l)
{
    struct range *rest = malloc(sizeof *rest * (l->n + 1));
    l->list = malloc(sizeof *l->list * (2 * l->n + 1));
    kiln_status status = rest && l->list ? KILN_OK : error_set(KILN_E_MEMORY, "backward: out of memory");
    for (size_t i = 0; i < l->n && !status; i++)
        if (l->v[i].dropped) l->v[i].grad = kiln_unsqueeze(l->v[i].grad, l->axis);
    if (!status) add_equal(l);
    status = kiln_error();
    while (l->n && !status) {
        int64_t covered;
        size_t n = take_layer(l, rest, &covered);
        bool alone = !l->whole->sum && l->last && n == l->n && !l->whole->loose.n;
        bool worth = most_gaps() * covered >= l->type.dims[l->axis];
        status = alone || worth ? add_layer(l, n) : loosen(l, n);
        l->v += n;
        l->n -= n;
    }
    free(rest);
    free(l->list);
    return status;
}

static void set_lines(const struct whole *w, const struct range *r, struct lines *out)
{
    out->axis = r->axis;
    out->type = *w->type;
    if (r->axis != COLUMNS) return;
    out->type.rank = 2;
    out->type.dims[0] = type_numel(w->type) / r->period;
    out->type.dims[1] = r->period;
    out->axis = 1;
}

static kiln_status sum_ranges(struct whole *w)
{
    struct range *v = w->ranges.v;
    if (w->ranges.n) qsort(v, w->ranges.n, sizeof *v, by_place);
    for (size_t i = 0, end; i < w->ranges.n; i = end) {
        struct lines l = {.whole = w, .v = v + i};
        for (end = i + 1; end < w->ranges.n && v[end].axis == v[i].axis && v[end].period == v[i].period;) end++;
        l.n = end - i;
        l.last = end == w->ranges.n;
        set_lines(w, &v[i], &l);
        TRY(sum_along(&l));
    }
    return KILN_OK;
}

// --- loose pieces ---

static kiln_status plus_loose(struct whole *w, const struct range *r)
{
    const struct piece_place *p = &r->place;
    const struct type *t = w->type;
    w->sum = w->sum ? kiln_as_strided_add(w->sum, r->grad, (size_t)p->rank, p->strides, p->offset)
                    : kiln_embed(r->grad, t->rank, t->dims, (size_t)p->rank, p->strides, p->offset);
    w->own = w->sum && w->sum->storage && !thread_state.sink;
    return kiln_error();
}

// As plus_loose would have put the sum on the tape.
static kiln_status put_on_tape(const struct whole *w, const struct range *r)
{
    struct tape_edge edges[2];
    struct tape_node *n;
    TRY(tape_current(w->sum, &edges[0]));
    TRY(tape_current(r->grad, &edges[1]));
    if (!edges[0].node && !edges[1].node) return KILN_OK;
    const struct type *types[] = {w->type, &r->grad->type};
    struct attr attrs[] = {attr_of_ints((size_t)r->place.rank, r->place.strides), attr_of_int(r->place.offset)};
    TRY(tape_node_make(&op_instances[OP_as_strided_add], 2, edges, types, NULL, 1, w->type, attrs, &n));
    tape_set_node(w->sum, n, 0);
    node_unref(n);
    return KILN_OK;
}

static kiln_status add_in_place(const struct whole *w, const struct range *r)
{
    const struct piece_place *p = &r->place;
    thread_state.no_grad++;
    kiln_tensor *part = kiln_as_strided(w->sum, (size_t)p->rank, p->dims, (size_t)p->rank, p->strides,
                                        w->sum->layout.offset + p->offset);
    kiln_status status = part ? kiln_add_(part, r->grad) : error_pending;
    thread_state.no_grad--;
    if (part) tensor_destroy(part);
    return status || thread_state.no_grad ? status : put_on_tape(w, r);
}

static kiln_status add_loose(struct whole *w)
{
    for (size_t i = 0; i < w->loose.n; i++) {
        const struct range *r = &w->loose.v[i];
        bool in_place = w->own && !node_is_cut(w->sum->node) && !node_is_cut(r->grad->node);
        TRY(in_place ? add_in_place(w, r) : plus_loose(w, r));
    }
    return KILN_OK;
}

static kiln_status sum_all(struct whole *w, const struct pieces *p, uint32_t out)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->v[i].out == out) TRY(settle(w, p->v[i].grad, p->v[i].place));
    TRY(sum_ranges(w));
    return add_loose(w);
}

kiln_tensor *pieces_sum(struct pieces *p, uint32_t out, const struct type *type)
{
    struct whole w = {.type = type};
    kiln_status status = sum_all(&w, p, out);
    vec_free(&w.ranges);
    vec_free(&w.loose);
    return status ? NULL : w.sum;
}
