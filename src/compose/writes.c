// Copies of a tensor with others written into them.
#include "compose/along.h"
#include <math.h>

// --- by index along an axis

static kiln_tensor *reduced(kiln_tensor *x, int64_t axis, kiln_tensor *index, kiln_tensor *src, int64_t how)
{
    switch (how) {
    case KILN_SCATTER_PROD: return kiln_scatter_mul(x, axis, index, src);
    case KILN_SCATTER_MAX: return kiln_scatter_max(x, axis, index, src);
    case KILN_SCATTER_MIN: return kiln_scatter_min(x, axis, index, src);
    default: return kiln_scatter_add(x, axis, index, src);
    }
}

// x with what changes nothing at the places that are written; integers have no such number for extrema, where one of
// the elements will do.
static kiln_tensor *emptied(kiln_tensor *x, int64_t axis, kiln_tensor *index, kiln_tensor *src, int64_t how)
{
    bool extremum = how == KILN_SCATTER_MAX || how == KILN_SCATTER_MIN;
    if (extremum && !is_real(x)) return kiln_scatter(x, axis, index, src);
    double none = how == KILN_SCATTER_PROD ? 1 : how == KILN_SCATTER_MAX ? -INFINITY : extremum ? INFINITY : 0;
    return kiln_scatter(x, axis, index, number_like(x, none));
}

kiln_tensor *compose_scatter_reduce(kiln_tensor *x, int64_t axis, kiln_tensor *index, kiln_tensor *src, int64_t how,
                                    bool include_self)
{
    if (how < KILN_SCATTER_SUM || how > KILN_SCATTER_MIN) {
        error_set(KILN_E_ARGUMENT, "reduction is %lld", (long long)how);
        return NULL;
    }
    kiln_tensor *y = reduced(include_self ? x : emptied(x, axis, index, src, how), axis, index, src, how);
    if (how != KILN_SCATTER_MEAN) return y;
    kiln_tensor *none = kiln_full_int(kiln_tensor_device(x), KILN_I64, KILN_SHAPE0, include_self ? 1 : 0);
    kiln_tensor *one = kiln_scalar_int(1), *start = kiln_expand(none, kiln_rank(x), kiln_dims(x));
    kiln_tensor *count = kiln_scatter_add(start, axis, index, one);
    count = kiln_maximum(count, one);
    return is_real(y) ? kiln_div(y, kiln_cast(count, kiln_tensor_dtype(y)))
                      : kiln_cast(kiln_floor_divide(y, count), kiln_tensor_dtype(x));
}

// A vector of indices along an axis, for slices of src's shape.
static kiln_tensor *for_slices(kiln_tensor *x, int axis, kiln_tensor *index, size_t rank, const int64_t *dims)
{
    if (kiln_rank(index) <= 1 && rank == kiln_rank(x) && rank > 0)
        return kiln_expand(along_axis(index, axis, rank), rank, dims);
    error_set(KILN_E_SHAPE, "index must be a vector and src have x's rank: index is %s, x is %s", type_of(index).s,
              type_of(x).s);
    return NULL;
}

kiln_tensor *compose_index_copy(kiln_tensor *x, int64_t axis, kiln_tensor *index, kiln_tensor *src)
{
    int a = composite_axis("axis", axis, kiln_rank(x), x);
    if (a < 0) return NULL;
    if (kiln_rank(src) == kiln_rank(x) && kiln_dims(src)[a] != kiln_numel(index)) {
        error_set(KILN_E_SHAPE, "src must have a slice for each index: src is %s, index is %s", type_of(src).s,
                  type_of(index).s);
        return NULL;
    }
    return kiln_scatter(x, a, for_slices(x, a, index, kiln_rank(src), kiln_dims(src)), src);
}

kiln_tensor *compose_index_fill(kiln_tensor *x, int64_t axis, kiln_tensor *index, double value)
{
    int64_t dims[KILN_MAX_RANK];
    int a = composite_axis("axis", axis, kiln_rank(x), x);
    if (a < 0) return NULL;
    for (size_t d = 0; d < kiln_rank(x); d++) dims[d] = (int)d == a ? kiln_numel(index) : kiln_dims(x)[d];
    return kiln_scatter(x, a, for_slices(x, a, index, kiln_rank(x), dims), number_like(x, value));
}

kiln_tensor *compose_take_flat(kiln_tensor *x, kiln_tensor *index)
{
    return kiln_take(as_line(x), 0, index);
}

kiln_tensor *compose_put(kiln_tensor *x, kiln_tensor *index, kiln_tensor *src, bool accumulate)
{
    kiln_tensor *line = as_line(x), *places = as_line(index);
    kiln_tensor *values = as_line(kiln_expand(src, kiln_rank(index), kiln_dims(index)));
    kiln_tensor *y = accumulate ? kiln_scatter_add(line, 0, places, values) : kiln_scatter(line, 0, places, values);
    return kiln_reshape(y, kiln_rank(x), kiln_dims(x));
}

// True elements know their rank among them from the running count.
kiln_tensor *compose_masked_scatter(kiln_tensor *x, kiln_tensor *mask, kiln_tensor *src)
{
    if (kiln_tensor_dtype(mask) != KILN_BOOL || (is_real(src) && !is_real(x))) {
        error_set(KILN_E_DTYPE, "mask must be bool, and src go into x: mask is %s, src is %s, x is %s", type_of(mask).s,
                  type_of(src).s, type_of(x).s);
        return NULL;
    }
    kiln_tensor *wide = kiln_expand(mask, kiln_rank(x), kiln_dims(x));
    if (kiln_numel(x) == 0 || kiln_numel(src) == 0) {
        if (kiln_numel(x)) error_set(KILN_E_SHAPE, "src has no elements: it is %s", type_of(src).s);
        return kiln_alias(x);
    }
    kiln_tensor *rank = kiln_sub(kiln_cumsum(as_line(wide), 0), kiln_scalar_int(1));
    rank = kiln_where(as_line(wide), rank, kiln_scalar_int(0));
    kiln_tensor *taken = kiln_take(as_line(kiln_cast(src, kiln_tensor_dtype(x))), 0, rank);
    return kiln_where(wide, kiln_reshape(taken, kiln_rank(x), kiln_dims(x)), x);
}

// --- into what a view shows

struct part {
    size_t rank;
    int64_t dims[KILN_MAX_RANK], strides[KILN_MAX_RANK], offset; // in elements of x in row-major order
};

static void whole(kiln_tensor *x, struct part *p)
{
    p->rank = kiln_rank(x);
    p->offset = 0;
    for (int64_t d = (int64_t)p->rank - 1, stride = 1; d >= 0; d--) {
        p->dims[d] = kiln_dims(x)[d];
        p->strides[d] = stride;
        stride *= p->dims[d] > 0 ? p->dims[d] : 1;
    }
}

static void drop_axis(struct part *p, int axis)
{
    p->rank--;
    for (size_t d = (size_t)axis; d < p->rank; d++) p->dims[d] = p->dims[d + 1], p->strides[d] = p->strides[d + 1];
}

static kiln_tensor *into(kiln_tensor *x, const struct part *p, kiln_tensor *src)
{
    if (is_real(src) && !is_real(x)) {
        error_set(KILN_E_DTYPE, "src is %s, it does not go into x %s; cast it first", type_of(src).s, type_of(x).s);
        return NULL;
    }
    if (kiln_tensor_dtype(src) != kiln_tensor_dtype(x)) src = kiln_cast(src, kiln_tensor_dtype(x));
    kiln_tensor *wide = kiln_expand(src, p->rank, p->dims);
    if (kiln_numel(wide) == 0) return kiln_alias(x);
    return kiln_as_strided_scatter(x, wide, p->rank, p->strides, p->offset);
}

kiln_tensor *compose_select_scatter(kiln_tensor *x, kiln_tensor *src, int64_t axis, int64_t index)
{
    struct part p;
    int a = composite_axis("axis", axis, kiln_rank(x), x);
    if (a < 0) return NULL;
    int64_t size = kiln_dims(x)[a];
    if (index < -size || index >= size) {
        error_set(KILN_E_AXIS, "index %lld is out of range for axis %d of %s", (long long)index, a, type_of(x).s);
        return NULL;
    }
    whole(x, &p);
    p.offset = (index < 0 ? index + size : index) * p.strides[a];
    drop_axis(&p, a);
    return into(x, &p, src);
}

static int64_t clamped(int64_t v, int64_t size)
{
    v = v < 0 && v != KILN_END ? v + size : v;
    return v < 0 ? 0 : v > size ? size : v;
}

kiln_tensor *compose_slice_scatter(kiln_tensor *x, kiln_tensor *src, int64_t axis, int64_t start, int64_t stop,
                                   int64_t step)
{
    struct part p;
    int a = composite_axis("axis", axis, kiln_rank(x), x);
    if (a < 0) return NULL;
    if (step < 1) {
        error_set(KILN_E_ARGUMENT, "step is %lld", (long long)step);
        return NULL;
    }
    whole(x, &p);
    int64_t size = p.dims[a], from = clamped(start, size), to = clamped(stop, size);
    p.dims[a] = to > from ? (to - from - 1) / step + 1 : 0;
    p.offset = from * p.strides[a];
    p.strides[a] *= p.dims[a] > 1 ? step : 1;
    return into(x, &p, src);
}

kiln_tensor *compose_diagonal_scatter(kiln_tensor *x, kiln_tensor *src, int64_t offset, int64_t axis0, int64_t axis1)
{
    struct part p;
    size_t rank = kiln_rank(x);
    int a = composite_axis("axis0", axis0, rank, x), b = a < 0 ? -1 : composite_axis("axis1", axis1, rank, x);
    if (a < 0 || b < 0) return NULL;
    if (a == b) {
        error_set(KILN_E_AXIS, "axis0 and axis1 are both %d", a);
        return NULL;
    }
    whole(x, &p);
    int64_t rows = p.dims[a] + (offset < 0 ? offset : 0), cols = p.dims[b] - (offset > 0 ? offset : 0);
    int64_t length = rows < cols ? rows : cols, stride = p.strides[a] + p.strides[b];
    if (length > 0) p.offset = offset < 0 ? -offset * p.strides[a] : offset * p.strides[b];
    drop_axis(&p, a > b ? a : b);
    drop_axis(&p, a > b ? b : a);
    p.dims[p.rank] = length > 0 ? length : 0;
    p.strides[p.rank++] = stride;
    return into(x, &p, src);
}
