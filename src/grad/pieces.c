// Pieces of one axis are sorted by where they start. Gradients of the same piece are added. Then layers are made: from
// the left, each takes the next piece that does not overlap what it has. A layer is one concat, with zeros where it has
// gaps; mostly there is one.
#include "grad/pieces.h"
#include "grad/registry.h"
#include "ops/families.h"
#include <kiln/ops.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PARTS = 255 }; // of a concat

// --- which piece a view is ---

static int64_t at_axis(int64_t axis, int rank)
{
    return axis < 0 ? axis + rank : axis;
}

static const struct attr *attr_of(const struct tape_node *n, const char *name)
{
    return &n->attrs[op_attr_index(n->op, name)];
}

static int64_t slice_start(const struct attr *start, int axis, int64_t size)
{
    if (axis >= start->count || start->v[axis] == KILN_END) return 0;
    int64_t at = start->v[axis] < 0 ? start->v[axis] + size : start->v[axis];
    return at < 0 ? 0 : at > size ? size : at;
}

static bool piece_of_slice(const struct tape_node *n, const struct type *x, const struct type *y,
                           struct grad_piece *out)
{
    const struct attr *step = attr_of(n, "step");
    int cut = 0;
    for (int i = 0; i < x->rank; i++) {
        if (i < step->count && step->v[i] != 1) return false;
        if (x->dims[i] == y->dims[i]) continue;
        out->axis = i;
        cut++;
    }
    if (cut != 1) return false;
    out->start = slice_start(attr_of(n, "start"), out->axis, x->dims[out->axis]);
    return true;
}

bool piece_of(const struct tape_node *n, struct grad_piece *out)
{
    struct type x, y;
    int op = n->op->index;
    if ((op != OP_narrow && op != OP_select && op != OP_slice) || !grad_is_built_in(n->op, n->rule)) return false;
    node_value_type(n, &n->values[0], &x);
    node_value_type(n, &n->values[1], &y);
    if (type_numel(&y) == 0) return false;
    out->dropped = op == OP_select;
    out->length = 1;
    if (op == OP_slice) {
        if (!piece_of_slice(n, &x, &y, out)) return false;
    } else {
        out->axis = (int)at_axis(attr_of(n, "axis")->i, x.rank);
        int64_t start = attr_of(n, op == OP_select ? "index" : "start")->i;
        out->start = start < 0 ? start + x.dims[out->axis] : start;
    }
    if (!out->dropped) out->length = y.dims[out->axis];
    return true;
}

// --- keeping them ---

kiln_status pieces_add(struct pieces *p, const struct grad_piece *piece)
{
    if (p->n == p->cap) {
        size_t cap = p->cap ? p->cap * 2 : 8;
        struct grad_piece *v = realloc(p->v, sizeof *v * cap);
        if (!v) return error_set(KILN_E_MEMORY, "backward: out of memory");
        p->v = v;
        p->cap = cap;
    }
    p->v[p->n++] = *piece;
    p->elements += type_numel(&piece->grad->type);
    return KILN_OK;
}

void pieces_clear(struct pieces *p)
{
    for (size_t i = 0; i < p->n; i++) tensor_destroy(p->v[i].grad);
    free(p->v);
    *p = (struct pieces){0};
}

// --- putting them together ---

struct whole {
    const struct type *type;
    int axis;
    size_t n;
    struct grad_piece *v; // with the axis, by start and length
    kiln_tensor **list;   // room for a layer
};

static int by_place(const void *x, const void *y)
{
    const struct grad_piece *a = x, *b = y;
    if (a->out != b->out) return a->out < b->out ? -1 : 1;
    if (a->axis != b->axis) return a->axis < b->axis ? -1 : 1;
    if (a->start != b->start) return a->start < b->start ? -1 : 1;
    return (a->length > b->length) - (a->length < b->length);
}

static kiln_tensor *plus(kiln_tensor *a, kiln_tensor *b)
{
    return !a ? b : !b ? NULL : kiln_add(a, b);
}

static void add_equal(struct whole *w)
{
    size_t kept = 0;
    for (size_t i = 0; i < w->n; i++) {
        struct grad_piece *last = kept ? &w->v[kept - 1] : NULL;
        if (last && last->start == w->v[i].start && last->length == w->v[i].length)
            last->grad = plus(last->grad, w->v[i].grad);
        else
            w->v[kept++] = w->v[i];
    }
    w->n = kept;
}

static kiln_tensor *zeros(const struct whole *w, const kiln_tensor *like, int64_t length)
{
    int64_t dims[MAX_RANK];
    memcpy(dims, w->type->dims, sizeof dims);
    dims[w->axis] = length;
    return kiln_zeros(like->storage ? like->storage->dev : NULL, (kiln_dtype)like->type.dtype, w->type->rank, dims);
}

static kiln_tensor *embedded(const struct whole *w, const struct grad_piece *p)
{
    struct layout l;
    layout_contiguous(w->type, &l);
    return kiln_embed(p->grad, w->type->rank, w->type->dims, w->type->rank, l.strides, p->start * l.strides[w->axis]);
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

// Takes pieces from the rest, and leaves the others in order.
static kiln_tensor *next_layer(struct whole *w)
{
    int64_t at = 0, size = w->type->dims[w->axis];
    size_t n = 0, left = 0, taken = 0;
    struct grad_piece last = {0};
    for (size_t i = 0; i < w->n; i++) {
        struct grad_piece *p = &w->v[i];
        if (p->start < at) {
            w->v[left++] = *p;
            continue;
        }
        if (p->start > at) w->list[n++] = zeros(w, p->grad, p->start - at);
        w->list[n++] = p->grad;
        at = p->start + p->length;
        last = *p;
        taken++;
    }
    w->n = left;
    if (taken == 1 && last.length < size) return embedded(w, &last);
    if (at < size) w->list[n++] = zeros(w, last.grad, size - at);
    return kiln_error() ? NULL : concat(w->list, n, w->axis);
}

static kiln_tensor *sum_along(struct whole *w)
{
    kiln_tensor *sum = NULL;
    for (size_t i = 0; i < w->n; i++)
        if (w->v[i].dropped) w->v[i].grad = kiln_unsqueeze(w->v[i].grad, w->axis);
    add_equal(w);
    while (w->n && !kiln_error()) sum = plus(sum, next_layer(w));
    return sum;
}

kiln_tensor *pieces_sum(struct pieces *p, uint32_t out, const struct type *type)
{
    kiln_tensor *sum = NULL;
    if (!p->n) return NULL;
    struct grad_piece *v = malloc(sizeof *v * p->n);
    struct whole w = {.type = type, .list = malloc(sizeof *w.list * (2 * p->n + 1))};
    if (v && w.list) {
        memcpy(v, p->v, sizeof *v * p->n);
        qsort(v, p->n, sizeof *v, by_place);
    } else
        error_set(KILN_E_MEMORY, "backward: out of memory");
    for (size_t i = 0, end; i < p->n && !kiln_error(); i = end) {
        for (end = i + 1; end < p->n && v[end].out == v[i].out && v[end].axis == v[i].axis;) end++;
        if (v[i].out != out) continue;
        w.axis = v[i].axis;
        w.v = v + i;
        w.n = end - i;
        sum = plus(sum, sum_along(&w));
    }
    free(v);
    free(w.list);
    return kiln_error() ? NULL : sum;
}
