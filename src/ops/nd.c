// Indices that are tuples. The last axis of the index holds one index for each of the leading axes of x; those axes are
// seen as one, and each tuple becomes one index into it. A tuple with an index out of range becomes one that is far out
// of range: below INT64_MIN / 4, with the index, or the bound of what is told of it, above INT64_MIN / 2.
#include "ops/family.h"
#include "ops/index.h"

static kiln_status check_tuples(const struct op_call *c, int in, const struct type *x, const char *what)
{
    const struct type *index = c->in[in];
    if (dtype_kind_of[index->dtype] != KIND_INT)
        return op_fail(c, KILN_E_DTYPE, "index must be integers, it is %s", type_string(index).s);
    int64_t k = index->rank ? index->dims[index->rank - 1] : 0;
    if (k >= 1 && k <= x->rank) return KILN_OK;
    return op_fail(c, KILN_E_SHAPE,
                   "the last axis of index has one entry for each of the first axes of %s: index is %s, %s is %s", what,
                   type_string(index).s, what, type_string(x).s);
}

// The index's shape without its last axis, then x's without its first k.
static kiln_status result_shape(const struct op_call *c, const struct type *index, const struct type *x,
                                struct type *out)
{
    int k = (int)index->dims[index->rank - 1], rank = index->rank - 1 + x->rank - k;
    if (rank > MAX_RANK) return op_fail(c, KILN_E_SHAPE, "there would be more than %d dimensions", MAX_RANK);
    out->rank = 0;
    for (int d = 0; d + 1 < index->rank; d++) out->dims[out->rank++] = index->dims[d];
    for (int d = k; d < x->rank; d++) out->dims[out->rank++] = x->dims[d];
    return KILN_OK;
}

kiln_status infer_gather_nd(struct op_call *c)
{
    const struct type *x = c->in[0], *index = c->in[1];
    TRY(check_tuples(c, 1, x, "x"));
    c->out[0] = (struct type){.dtype = x->dtype};
    TRY(result_shape(c, index, x, &c->out[0]));
    if (type_numel(x) == 0 && type_numel(&c->out[0]) > 0)
        return op_fail(c, KILN_E_SHAPE, "x of %s has no elements to take", type_string(x).s);
    uint64_t size_B;
    return type_size_B(&c->out[0], &size_B);
}

// One index a tuple, in the tuples' shape.
static kiln_status flatten_tuples(struct lowering *lo, const struct view *index, const int64_t *dims, struct view *flat)
{
    int last = index->rank - 1;
    int64_t k = index->dims[last];
    TRY(lower_temp(lo, KILN_I64, last, index->dims, flat));
    for (int64_t j = 0; j < k; j++) {
        struct view part = view_narrow(index, last, j, 1), in[2] = {*flat, view_squeeze(&part, last)};
        double n = (double)dims[j];
        if (j == 0) in[0] = view_integer(0);
        TRY(lower_pointwise(lo, FAMILY_flat_index, CLASS_I64, 2, in, flat, 1, &n));
    }
    return KILN_OK;
}

// x with its first k dimensions as one of `*size` elements, `*stride` apart: as it lies, or copied.
static kiln_status merge_leading(struct lowering *lo, struct view *x, int k, int64_t *size, int64_t *stride)
{
    bool dense = true;
    *size = 1;
    for (int d = 0; d < k; d++) {
        *size *= x->dims[d];
        dense = dense && (d + 1 == k || x->strides[d] == x->strides[d + 1] * x->dims[d + 1]);
    }
    if (!dense) {
        struct view copy;
        TRY(lower_temp(lo, x->dtype, x->rank, x->dims, &copy));
        TRY(lower_copy(lo, x, &copy));
        *x = copy;
    }
    *stride = x->strides[k - 1];
    return KILN_OK;
}

kiln_status lower_gather_nd(const struct op_call *c, struct lowering *lo)
{
    struct view x = c->vin[0], index = c->vin[1], flat;
    int tuples = index.rank - 1, k = (int)index.dims[tuples];
    int64_t size, stride;
    if (type_numel(&c->out[0]) == 0) return KILN_OK;
    TRY(flatten_tuples(lo, &index, x.dims, &flat));
    TRY(merge_leading(lo, &x, k, &size, &stride));
    for (int i = 0; i < k; i++) x = view_squeeze(&x, 0);
    int rest = x.rank;
    for (int i = 0; i < tuples; i++) x = view_insert(&x, 0);
    for (int i = 0; i < rest; i++) flat = view_insert(&flat, flat.rank);
    return lower_gather_views(lo, &x, &flat, &c->vout[0], size, stride);
}

kiln_status infer_scatter_nd(struct op_call *c)
{
    const struct type *index = c->in[0], *src = c->in[1];
    const struct attr *shape = &c->attrs[AT_scatter_nd_shape];
    struct type *out = &c->out[0], want = {.dtype = src->dtype}, both;
    *out = (struct type){.dtype = src->dtype, .rank = shape->count};
    for (int d = 0; d < shape->count; d++) {
        if (shape->v[d] < 0)
            return op_fail(c, KILN_E_SHAPE, "dimension %d is negative: %lld", d, (long long)shape->v[d]);
        out->dims[d] = shape->v[d];
    }
    if (src->dtype == KILN_BOOL)
        return op_fail(c, KILN_E_DTYPE, "adds integers and floats, src is %s", type_string(src).s);
    TRY(check_tuples(c, 0, out, "the result"));
    TRY(result_shape(c, index, out, &want));
    if (!shape_broadcast(&want, src, &both) || !type_same_shape(&both, &want))
        return op_fail(c, KILN_E_SHAPE, "src does not broadcast to %s: it is %s", type_string(&want).s,
                       type_string(src).s);
    uint64_t size_B;
    return type_size_B(out, &size_B);
}

// Rows of a matrix: a row is what lies behind one tuple.
kiln_status lower_scatter_nd(const struct op_call *c, struct lowering *lo)
{
    struct view index = c->vin[0], src, out = c->vout[0], flat, target = out, dense;
    struct type shape = {0};
    unsigned dtype = class_dtype(dtype_class(out.dtype));
    int k = (int)index.dims[index.rank - 1];
    if (type_numel(&c->out[0]) == 0) return KILN_OK;
    if (dtype != out.dtype) TRY(lower_temp(lo, dtype, out.rank, out.dims, &target));
    TRY(lower_fill(lo, 0, &target));
    TRY(result_shape(c, c->in[0], &c->out[0], &shape));
    TRY(view_expand(&c->vin[1], shape.rank, shape.dims, &src));
    TRY(lower_temp(lo, dtype, shape.rank, shape.dims, &dense));
    if (type_numel(&shape) > 0) {
        TRY(lower_copy(lo, &src, &dense));
        TRY(flatten_tuples(lo, &index, out.dims, &flat));
        int64_t rows = 1, row = 1;
        for (int d = 0; d < k; d++) rows *= out.dims[d];
        for (int d = k; d < out.rank; d++) row *= out.dims[d];
        struct view from = view_flat(&dense), to = view_flat(&target), places = view_flat(&flat);
        from.rank = to.rank = 2;
        from.dims[0] = places.dims[0], to.dims[0] = rows;
        from.dims[1] = to.dims[1] = row;
        from.strides[0] = to.strides[0] = row;
        from.strides[1] = to.strides[1] = 1;
        TRY(lower_add_rows(lo, &places, &from, &to));
    }
    return dtype == out.dtype ? KILN_OK : lower_copy(lo, &target, &out);
}
