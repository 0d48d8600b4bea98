// Putting gradients of pieces together.
//
// Each is a range of one axis of the whole, a range of columns where the whole is seen as a matrix, or loose
// (pieces_range.c). Ranges of one axis are sorted by where they start, those that are equal are added. Then layers are
// made: from the left, each takes the next range that does not overlap what it has. A layer is one concat, with zeros
// where it has gaps; mostly there is one. Where a layer would be gaps for the most part, its pieces are loose, too.
// Loose pieces are added to their places in the sum one by one.
#include "grad/pieces_sum.h"
#include "ops/families.h"
#include "tensor/apply.h"
#include <kiln/ops.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PARTS = 255 }; // of a concat

// --- layers ---

struct lines {
    struct piece_whole *whole;
    struct type type; // with `axis`
    int axis;
    bool last; // no ranges but these
    size_t n;
    struct piece_range *v; // by start and length
    kiln_tensor **list;    // room for a layer
};

static int compare(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int by_place(const void *x, const void *y)
{
    const struct piece_range *a = x, *b = y;
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
        struct piece_range *last = kept ? &l->v[kept - 1] : NULL;
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

static void place_of(const struct lines *l, const struct piece_range *r, struct piece_place *out)
{
    place_whole(&l->type, out);
    out->dims[l->axis] = r->length;
    out->offset = r->start * out->strides[l->axis];
}

static kiln_tensor *embedded(const struct lines *l, const struct piece_range *r)
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
static size_t take_layer(struct lines *l, struct piece_range *rest, int64_t *covered)
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
    struct piece_whole *w = l->whole;
    kiln_tensor *layer = make_layer(l, n);
    if (layer && !type_same_shape(&layer->type, w->type)) layer = kiln_reshape(layer, w->type->rank, w->type->dims);
    w->sum = layer ? plus(w->sum, layer) : NULL;
    return kiln_error();
}

static kiln_status sum_along(struct lines *l)
{
    struct piece_range *rest = malloc(sizeof *rest * (l->n + 1));
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

static void set_lines(const struct piece_whole *w, const struct piece_range *r, struct lines *out)
{
    out->axis = r->axis;
    out->type = *w->type;
    if (r->axis != COLUMNS) return;
    out->type.rank = 2;
    out->type.dims[0] = type_numel(w->type) / r->period;
    out->type.dims[1] = r->period;
    out->axis = 1;
}

static kiln_status sum_ranges(struct piece_whole *w)
{
    struct piece_range *v = w->ranges.v;
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

static kiln_status plus_loose(struct piece_whole *w, const struct piece_range *r)
{
    const struct piece_place *p = &r->place;
    const struct type *t = w->type;
    w->sum = w->sum ? kiln_as_strided_add(w->sum, r->grad, (size_t)p->rank, p->strides, p->offset)
                    : kiln_embed(r->grad, t->rank, t->dims, (size_t)p->rank, p->strides, p->offset);
    w->own = w->sum && w->sum->storage && !thread_state.sink;
    return kiln_error();
}

// As plus_loose would have put the sum on the tape.
static kiln_status put_on_tape(const struct piece_whole *w, const struct piece_range *r)
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

static kiln_status add_in_place(const struct piece_whole *w, const struct piece_range *r)
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

static kiln_status add_loose(struct piece_whole *w)
{
    for (size_t i = 0; i < w->loose.n; i++) {
        const struct piece_range *r = &w->loose.v[i];
        bool in_place = w->own && !node_is_cut(w->sum->node) && !node_is_cut(r->grad->node);
        TRY(in_place ? add_in_place(w, r) : plus_loose(w, r));
    }
    return KILN_OK;
}

static kiln_status sum_all(struct piece_whole *w, const struct pieces *p, uint32_t out)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->v[i].out == out) TRY(piece_settle(w, p->v[i].grad, p->v[i].place));
    TRY(sum_ranges(w));
    return add_loose(w);
}

kiln_tensor *pieces_sum(struct pieces *p, uint32_t out, const struct type *type)
{
    struct piece_whole w = {.type = type};
    kiln_status status = sum_all(&w, p, out);
    vec_free(&w.ranges);
    vec_free(&w.loose);
    return status ? NULL : w.sum;
}
