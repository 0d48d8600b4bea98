// A piece as a range. What overlaps itself is taken apart first, and what runs backwards is turned round. Then a piece
// is, if it can be, a range of one axis of the whole, or of the columns where the whole is seen as a matrix; any other
// is loose.
#include "grad/pieces_sum.h"
#include <kiln/ops.h>

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
    return n ? kiln_flip(grad, (kiln_ints){n, axes}) : grad;
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
                        struct piece_range *out)
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

static bool is_of_axis(const struct piece_place *p, const struct type *whole, struct piece_range *out)
{
    if (p->rank != whole->rank && p->rank + 1 != whole->rank) return false;
    for (int axis = 0; axis < whole->rank; axis++)
        if (is_range_of(p, whole, axis, p->rank < whole->rank, out)) return true;
    return false;
}

// Each line of the matrix has a part of the piece, without gaps.
static bool is_of_columns(const struct piece_place *p, const struct type *whole, const int *dims, int n,
                          struct piece_range *out)
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
                               const struct piece_range *r)
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
    if (!in_order) grad = kiln_permute(grad, (kiln_ints){(size_t)k, order});
    return grad ? kiln_reshape(grad, KILN_SHAPE(numel / r->period, r->length)) : NULL;
}

static kiln_status take_apart(struct piece_whole *w, kiln_tensor *grad, const struct piece_place *p, int dim)
{
    struct piece_place part = *p;
    part.rank--;
    for (int i = dim; i < part.rank; i++) {
        part.dims[i] = part.dims[i + 1];
        part.strides[i] = part.strides[i + 1];
    }
    for (int64_t i = 0; i < p->dims[dim]; i++) {
        part.offset = p->offset + i * p->strides[dim];
        TRY(piece_settle(w, kiln_select(grad, dim, i), part));
    }
    return KILN_OK;
}

kiln_status piece_settle(struct piece_whole *w, kiln_tensor *grad, struct piece_place p)
{
    int dims[MAX_RANK];
    if (!grad || !(grad = turn_round(grad, &p))) return error_pending;
    int n = sort_dims(&p, dims), overlapping = overlapping_dim(&p, dims, n);
    if (overlapping >= 0) return take_apart(w, grad, &p, overlapping);
    struct piece_range r = {.grad = grad, .number = w->ranges.n + w->loose.n};
    if (is_of_axis(&p, w->type, &r)) return vec_push(&w->ranges, r);
    if (is_of_columns(&p, w->type, dims, n, &r)) {
        r.grad = in_columns(grad, &p, type_numel(w->type), dims, n, &r);
        return r.grad ? vec_push(&w->ranges, r) : error_pending;
    }
    r.axis = LOOSE;
    r.place = p;
    return vec_push(&w->loose, r);
}
