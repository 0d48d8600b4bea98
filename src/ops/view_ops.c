// Ops that only look at a storage differently. infer gives the shape, view the strides; both read the same normalised
// arguments.
#include "ops/family.h"
#include <limits.h>

static kiln_status view_fail(const struct op_call *c, const char *what)
{
    return op_fail(c, KILN_E_SHAPE, "%s: x is %s", what, type_string(c->in[0]).s);
}

// Starts an output as a copy of x's type, not weak.
static struct type *start(struct op_call *c)
{
    type_copy(&c->out[0], c->in[0]);
    c->out[0].weak = false;
    return &c->out[0];
}

// reshape, flatten

kiln_status infer_reshape(struct op_call *c)
{
    const struct attr *shape = &c->attrs[AT_reshape_shape];
    const struct type *x = c->in[0];
    struct type *out = start(c);
    int64_t known = 1, count = type_numel(x);
    int hole = -1;
    out->rank = shape->count;
    for (int i = 0; i < shape->count; i++) {
        int64_t d = shape->v[i];
        if (d < -1) return op_fail(c, KILN_E_SHAPE, "dimension %d is negative: %lld", i, (long long)d);
        if (d == -1 && hole >= 0)
            return op_fail(c, KILN_E_SHAPE, "dimensions %d and %d are both -1, one can be found", hole, i);
        if (d == -1)
            hole = i;
        else if (__builtin_mul_overflow(known, d, &known))
            return view_fail(c, "the shape overflows");
        out->dims[i] = d;
    }
    if (hole >= 0) {
        if (known == 0 || count % known)
            return op_fail(c, KILN_E_SHAPE, "-1 has no size that fits: x is %s of %lld elements, the others make %lld",
                           type_string(x).s, (long long)count, (long long)known);
        out->dims[hole] = count / known;
        known *= out->dims[hole];
    }
    if (known == count) return KILN_OK;
    return op_fail(c, KILN_E_SHAPE, "%s has %lld elements, the shape %s has %lld", type_string(x).s, (long long)count,
                   type_string(out).s, (long long)known);
}

kiln_status infer_flatten(struct op_call *c)
{
    const struct type *x = c->in[0];
    struct type *out = start(c);
    if (x->rank == 0) {
        out->rank = 1;
        out->dims[0] = 1;
        return KILN_OK;
    }
    int from, to;
    TRY(op_axis(c, AT_flatten_start, 0, &from));
    TRY(op_axis(c, AT_flatten_stop, 0, &to));
    if (from > to) return op_fail(c, KILN_E_AXIS, "start axis %d is behind stop axis %d", from, to);
    int64_t merged = 1;
    for (int i = from; i <= to; i++) merged *= x->dims[i];
    out->dims[from] = merged;
    for (int i = to + 1; i < x->rank; i++) out->dims[from + 1 + i - to - 1] = x->dims[i];
    out->rank = (uint8_t)(x->rank - (to - from));
    return KILN_OK;
}

// Strides of a reshape: both shapes are cut into the smallest groups of equal size; a group of x must be walkable with
// one stride (each dimension's stride the next one's times its size), then the output's dimensions in it get theirs
// from the innermost one.
kiln_status view_reshape(const struct op_call *c, const struct layout *in, struct layout *out, bool *copy)
{
    const struct type *x = c->in[0], *y = &c->out[0];
    out->offset = in->offset;
    *copy = false;
    if (type_numel(x) == 0 || layout_is_contiguous(x, in)) {
        layout_contiguous(y, out);
        out->offset = in->offset;
        return KILN_OK;
    }
    int64_t dims[MAX_RANK], strides[MAX_RANK];
    int n = 0;
    for (int i = 0; i < x->rank; i++) {
        if (x->dims[i] == 1) continue;
        dims[n] = x->dims[i];
        strides[n++] = in->strides[i];
    }
    int xi = 0, yi = 0;
    while (xi < n && yi < y->rank) {
        int x0 = xi, y0 = yi;
        int64_t px = dims[xi++], py = y->dims[yi++];
        while (px != py) {
            if (py < px)
                py *= y->dims[yi++];
            else
                px *= dims[xi++];
        }
        for (int i = x0; i + 1 < xi; i++)
            if (strides[i] != strides[i + 1] * dims[i + 1]) {
                *copy = true;
                return KILN_OK;
            }
        int64_t stride = strides[xi - 1];
        for (int i = yi - 1; i >= y0; i--) {
            out->strides[i] = stride;
            stride *= y->dims[i];
        }
    }
    for (; yi < y->rank; yi++) out->strides[yi] = 1; // trailing dimensions of size 1
    return KILN_OK;
}

kiln_status lower_reshape(const struct op_call *c, struct lowering *lo)
{
    struct view flat = c->vout[0]; // contiguous and fresh: seen in x's shape
    const struct type *x = c->in[0];
    struct layout l;
    layout_contiguous(x, &l);
    struct view to = view_of(x, &l, flat.slot);
    to.offset = flat.offset;
    to.dtype = flat.dtype;
    return lower_copy(lo, &c->vin[0], &to);
}

// permute, transpose

static kiln_status permutation(const struct op_call *c, int *perm)
{
    const struct attr *axes = &c->attrs[AT_permute_axes];
    const struct type *x = c->in[0];
    uint32_t seen = 0;
    if (axes->count == 0)
        for (int i = 0; i < x->rank; i++) perm[i] = x->rank - 1 - i;
    else if (axes->count != x->rank)
        return op_fail(c, KILN_E_AXIS, "%d axes are given for %s", axes->count, type_string(x).s);
    else
        for (int i = 0; i < x->rank; i++) {
            perm[i] = axis_normalize(axes->v[i], x->rank);
            if (perm[i] < 0 || (seen >> perm[i] & 1))
                return op_fail(c, KILN_E_AXIS, "axis %lld is %s for %s", (long long)axes->v[i],
                               perm[i] < 0 ? "out of range" : "given twice", type_string(x).s);
            seen |= 1u << perm[i];
        }
    return KILN_OK;
}

kiln_status infer_permute(struct op_call *c)
{
    int perm[MAX_RANK];
    TRY(permutation(c, perm));
    struct type *out = start(c);
    for (int i = 0; i < out->rank; i++) out->dims[i] = c->in[0]->dims[perm[i]];
    return KILN_OK;
}

kiln_status view_permute_op(const struct op_call *c, const struct layout *in, struct layout *out, bool *copy)
{
    int perm[MAX_RANK];
    TRY(permutation(c, perm));
    out->offset = in->offset;
    for (int i = 0; i < c->in[0]->rank; i++) out->strides[i] = in->strides[perm[i]];
    return KILN_OK;
}

static void swap(int64_t *v, int i, int j)
{
    int64_t t = v[i];
    v[i] = v[j];
    v[j] = t;
}

kiln_status infer_transpose(struct op_call *c)
{
    int i, j;
    TRY(op_axis(c, AT_transpose_axis0, 0, &i));
    TRY(op_axis(c, AT_transpose_axis1, 0, &j));
    swap(start(c)->dims, i, j);
    return KILN_OK;
}

kiln_status view_transpose(const struct op_call *c, const struct layout *in, struct layout *out, bool *copy)
{
    int i, j;
    TRY(op_axis(c, AT_transpose_axis0, 0, &i));
    TRY(op_axis(c, AT_transpose_axis1, 0, &j));
    layout_copy(out, in, c->in[0]->rank);
    swap(out->strides, i, j);
    return KILN_OK;
}

// expand

kiln_status infer_expand(struct op_call *c)
{
    const struct attr *shape = &c->attrs[AT_expand_shape];
    const struct type *x = c->in[0];
    struct type *out = start(c);
    int lead = shape->count - x->rank;
    if (lead < 0)
        return op_fail(c, KILN_E_SHAPE, "%s has more dimensions than the shape, %d", type_string(x).s, shape->count);
    out->rank = shape->count;
    for (int i = 0; i < shape->count; i++) {
        int64_t have = i >= lead ? x->dims[i - lead] : 1, want = shape->v[i];
        if (want == -1 && i >= lead) want = have;
        if (want < 0 || (have != 1 && have != want))
            return op_fail(c, KILN_E_SHAPE, "dimension %d of %s does not broadcast to %lld", i - lead, type_string(x).s,
                           (long long)want);
        out->dims[i] = want;
    }
    uint64_t size_B;
    return type_size_B(out, &size_B);
}

kiln_status view_expand_op(const struct op_call *c, const struct layout *in, struct layout *out, bool *copy)
{
    const struct type *x = c->in[0], *y = &c->out[0];
    int lead = y->rank - x->rank;
    out->offset = in->offset;
    for (int i = 0; i < y->rank; i++) {
        bool broadcast = i < lead || (x->dims[i - lead] == 1 && y->dims[i] != 1);
        out->strides[i] = broadcast ? 0 : in->strides[i - lead];
    }
    return KILN_OK;
}

// slice, narrow, select

struct range {
    int64_t start, step, count;
};

static int64_t clamp(int64_t v, int64_t lo, int64_t hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

// NumPy's rules for start:stop:step on a dimension of `size`. INT64_MAX as a bound is the end in the direction of the
// step.
static kiln_status slice_range(const struct op_call *c, int axis, struct range *r)
{
    const struct attr *start = &c->attrs[AT_slice_start], *stop = &c->attrs[AT_slice_stop],
                      *step = &c->attrs[AT_slice_step];
    int64_t size = c->in[0]->dims[axis];
    r->step = axis < step->count ? step->v[axis] : 1;
    if (r->step == 0 || r->step == INT64_MIN)
        return op_fail(c, KILN_E_ARGUMENT, "the step of axis %d is %lld", axis, (long long)r->step);
    bool down = r->step < 0;
    int64_t lo = down ? -1 : 0, hi = down ? size - 1 : size;
    int64_t a = down ? hi : lo, b = down ? lo : hi;
    if (axis < start->count && start->v[axis] != INT64_MAX) {
        int64_t v = start->v[axis];
        a = clamp(v < 0 ? v + size : v, lo, hi);
    }
    if (axis < stop->count && stop->v[axis] != INT64_MAX) {
        int64_t v = stop->v[axis];
        b = clamp(v < 0 ? v + size : v, lo, hi);
    }
    int64_t span = down ? a - b : b - a, width = down ? -r->step : r->step;
    r->count = span > 0 ? (span - 1) / width + 1 : 0;
    r->start = r->count ? a : 0;
    return KILN_OK;
}

kiln_status infer_slice(struct op_call *c)
{
    struct type *out = start(c);
    for (int i = AT_slice_start; i <= AT_slice_step; i++)
        if (c->attrs[i].count > out->rank)
            return op_fail(c, KILN_E_SHAPE, "%s has %d entries for %s", c->op->attrs[i].name, c->attrs[i].count,
                           type_string(c->in[0]).s);
    for (int i = 0; i < out->rank; i++) {
        struct range r;
        TRY(slice_range(c, i, &r));
        out->dims[i] = r.count;
    }
    return KILN_OK;
}

kiln_status view_slice(const struct op_call *c, const struct layout *in, struct layout *out, bool *copy)
{
    out->offset = in->offset;
    for (int i = 0; i < c->in[0]->rank; i++) {
        struct range r;
        TRY(slice_range(c, i, &r));
        out->offset += r.start * in->strides[i];
        out->strides[i] = r.count > 1 ? in->strides[i] * r.step : in->strides[i];
    }
    return KILN_OK;
}

kiln_status infer_narrow(struct op_call *c)
{
    int axis;
    TRY(op_axis(c, AT_narrow_axis, 0, &axis));
    int64_t from = attr_int(c, AT_narrow_start), length = attr_int(c, AT_narrow_length), size = c->in[0]->dims[axis];
    if (from < 0 || length < 0 || from > size || length > size - from)
        return op_fail(c, KILN_E_SHAPE, "start %lld and length %lld leave axis %d of %s", (long long)from,
                       (long long)length, axis, type_string(c->in[0]).s);
    start(c)->dims[axis] = length;
    return KILN_OK;
}

kiln_status view_narrow_op(const struct op_call *c, const struct layout *in, struct layout *out, bool *copy)
{
    int axis;
    TRY(op_axis(c, AT_narrow_axis, 0, &axis));
    layout_copy(out, in, c->in[0]->rank);
    if (c->out[0].dims[axis]) out->offset += attr_int(c, AT_narrow_start) * in->strides[axis];
    return KILN_OK;
}

static void drop(int64_t *v, int rank, int axis)
{
    for (int i = axis; i + 1 < rank; i++) v[i] = v[i + 1];
}

kiln_status infer_select(struct op_call *c)
{
    int axis;
    TRY(op_axis(c, AT_select_axis, 0, &axis));
    int64_t index = attr_int(c, AT_select_index), size = c->in[0]->dims[axis];
    if (index < -size || index >= size)
        return op_fail(c, KILN_E_AXIS, "index %lld is out of range for axis %d of %s", (long long)index, axis,
                       type_string(c->in[0]).s);
    struct type *out = start(c);
    drop(out->dims, out->rank--, axis);
    return KILN_OK;
}

kiln_status view_select(const struct op_call *c, const struct layout *in, struct layout *out, bool *copy)
{
    int axis;
    TRY(op_axis(c, AT_select_axis, 0, &axis));
    int64_t index = attr_int(c, AT_select_index);
    layout_copy(out, in, c->in[0]->rank);
    out->offset += (index < 0 ? index + c->in[0]->dims[axis] : index) * in->strides[axis];
    drop(out->strides, c->in[0]->rank, axis);
    return KILN_OK;
}

// squeeze, unsqueeze

static kiln_status squeeze_mask(const struct op_call *c, uint32_t *mask)
{
    const struct type *x = c->in[0];
    bool all = c->attrs[AT_squeeze_axes].count == 0;
    if (!all)
        TRY(op_axes(c, AT_squeeze_axes, 0, mask));
    else
        *mask = 0;
    for (int i = 0; i < x->rank; i++) {
        if (all && x->dims[i] == 1)
            *mask |= 1u << i;
        else if (!all && (*mask >> i & 1) && x->dims[i] != 1)
            return op_fail(c, KILN_E_SHAPE, "axis %d of %s does not have size 1", i, type_string(x).s);
    }
    return KILN_OK;
}

kiln_status infer_squeeze(struct op_call *c)
{
    uint32_t mask;
    TRY(squeeze_mask(c, &mask));
    struct type *out = start(c);
    out->rank = 0;
    for (int i = 0; i < c->in[0]->rank; i++)
        if (!(mask >> i & 1)) out->dims[out->rank++] = c->in[0]->dims[i];
    return KILN_OK;
}

kiln_status view_squeeze_op(const struct op_call *c, const struct layout *in, struct layout *out, bool *copy)
{
    uint32_t mask;
    int n = 0;
    TRY(squeeze_mask(c, &mask));
    out->offset = in->offset;
    for (int i = 0; i < c->in[0]->rank; i++)
        if (!(mask >> i & 1)) out->strides[n++] = in->strides[i];
    return KILN_OK;
}

static kiln_status unsqueeze_axis(const struct op_call *c, int *axis)
{
    *axis = axis_normalize(attr_int(c, AT_unsqueeze_axis), c->in[0]->rank + 1);
    if (*axis >= 0) return KILN_OK;
    return op_fail(c, KILN_E_AXIS, "axis %lld is out of range for x of %s", (long long)attr_int(c, AT_unsqueeze_axis),
                   type_string(c->in[0]).s);
}

kiln_status infer_unsqueeze(struct op_call *c)
{
    int axis;
    TRY(unsqueeze_axis(c, &axis));
    struct type *out = start(c);
    if (out->rank == MAX_RANK)
        return op_fail(c, KILN_E_SHAPE, "the result would have more than %d dimensions", MAX_RANK);
    for (int i = out->rank; i > axis; i--) out->dims[i] = out->dims[i - 1];
    out->dims[axis] = 1;
    out->rank++;
    return KILN_OK;
}

kiln_status view_same(const struct op_call *c, const struct layout *in, struct layout *out, bool *copy)
{
    (void)copy;
    layout_copy(out, in, c->in[0]->rank);
    return KILN_OK;
}

kiln_status view_unsqueeze(const struct op_call *c, const struct layout *in, struct layout *out, bool *copy)
{
    int axis, rank = c->in[0]->rank;
    TRY(unsqueeze_axis(c, &axis));
    layout_copy(out, in, c->in[0]->rank);
    for (int i = rank; i > axis; i--) out->strides[i] = in->strides[i - 1];
    out->strides[axis] = axis < rank ? in->strides[axis] * c->in[0]->dims[axis] : 1;
    return KILN_OK;
}

// flip

kiln_status infer_flip(struct op_call *c)
{
    uint32_t mask;
    start(c);
    return op_axes(c, AT_flip_axes, 0, &mask);
}

kiln_status view_flip(const struct op_call *c, const struct layout *in, struct layout *out, bool *copy)
{
    uint32_t mask;
    TRY(op_axes(c, AT_flip_axes, 0, &mask));
    layout_copy(out, in, c->in[0]->rank);
    for (int i = 0; i < c->in[0]->rank; i++) {
        if (!(mask >> i & 1) || c->in[0]->dims[i] < 2) continue;
        out->offset += (c->in[0]->dims[i] - 1) * in->strides[i];
        out->strides[i] = -in->strides[i];
    }
    return KILN_OK;
}

// as_strided, diagonal

kiln_status infer_as_strided(struct op_call *c)
{
    const struct attr *shape = &c->attrs[AT_as_strided_shape], *strides = &c->attrs[AT_as_strided_strides];
    if (shape->count != strides->count)
        return op_fail(c, KILN_E_SHAPE, "shape has %d entries, strides has %d", shape->count, strides->count);
    return op_shape(c, AT_as_strided_shape, c->in[0]->dtype, &c->out[0]);
}

// The caller of a view checks that it stays inside the storage.
kiln_status view_as_strided(const struct op_call *c, const struct layout *in, struct layout *out, bool *copy)
{
    (void)in;
    out->offset = attr_int(c, AT_as_strided_offset);
    for (int i = 0; i < c->attrs[AT_as_strided_strides].count; i++)
        out->strides[i] = c->attrs[AT_as_strided_strides].v[i];
    return KILN_OK;
}

static kiln_status diagonal_axes(const struct op_call *c, int *i, int *j, int64_t *length)
{
    TRY(op_axis(c, AT_diagonal_axis0, 0, i));
    TRY(op_axis(c, AT_diagonal_axis1, 0, j));
    const struct type *x = c->in[0];
    if (*i == *j) return op_fail(c, KILN_E_AXIS, "axis0 and axis1 are both %d of %s", *i, type_string(x).s);
    int64_t k = attr_int(c, AT_diagonal_offset), low = -x->dims[*i], high = x->dims[*j];
    k = k < low ? low : k > high ? high : k; // beyond, there is no diagonal
    int64_t rows = x->dims[*i] - (k < 0 ? -k : 0), cols = x->dims[*j] - (k > 0 ? k : 0);
    *length = rows < cols ? rows : cols;
    if (*length < 0) *length = 0;
    return KILN_OK;
}

kiln_status infer_diagonal(struct op_call *c)
{
    int i, j, n = 0;
    int64_t length;
    TRY(diagonal_axes(c, &i, &j, &length));
    struct type *out = start(c);
    for (int d = 0; d < c->in[0]->rank; d++)
        if (d != i && d != j) out->dims[n++] = c->in[0]->dims[d];
    out->dims[n++] = length;
    out->rank = (uint8_t)n;
    return KILN_OK;
}

kiln_status view_diagonal(const struct op_call *c, const struct layout *in, struct layout *out, bool *copy)
{
    int i, j, n = 0;
    int64_t length, k = attr_int(c, AT_diagonal_offset);
    TRY(diagonal_axes(c, &i, &j, &length));
    out->offset = in->offset;
    if (length) out->offset += k < 0 ? -k * in->strides[i] : k * in->strides[j];
    for (int d = 0; d < c->in[0]->rank; d++)
        if (d != i && d != j) out->strides[n++] = in->strides[d];
    out->strides[n] = in->strides[i] + in->strides[j];
    return KILN_OK;
}
