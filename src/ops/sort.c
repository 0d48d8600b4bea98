// Sorting along one axis: stable, in either direction, NaN last, -0 equal to 0.
//
// The CPU sorts whole rows (src/cpu/kernels/sort_rows.c). A GPU turns values into integer keys of the same order, sorts
// tiles of SORT_TILE of them in shared memory, each with the place it came from, or several short rows in a tile, and
// merges neighbouring runs until one is left; only the places come out of that, and the values are gathered by them.
// Where only the first `keep` are asked for, no run keeps more.
#include "ops/family.h"
#include "ops/index.h"

enum { SORT_TILE = 1024 }; // as in shaders/sort_tiles.comp

static kiln_status sort_on_cpu(struct lowering *lo, enum scalar_class cls, const struct view *x, bool descending,
                               int64_t keep, const struct view *values, const struct view *indices)
{
    const struct view *v[3] = {x, values, indices};
    struct index_space s = {.n = 3};
    int last = x->rank - 1;
    for (int d = 0; d < last; d++) space_add_dim(&s, x->dims[d], v, d);
    int64_t strides[SPACE_OPERANDS];
    for (int o = 0; o < 3; o++) strides[o] = v[o]->immediate ? 0 : v[o]->strides[last];
    space_add(&s, x->dims[last], strides, true);
    struct launch l;
    space_launch(&l, lo, FAMILY_sort_rows, cls, &s);
    l.variant[0] = descending;
    for (int o = 0; o < 3; o++) launch_operand(&l, v[o], s.strides[o], o > 0);
    launch_scalar_i(&l, keep);
    return lo->launch(lo, &l);
}

// Rows that are not dense in memory are brought side by side first, tile by tile, and their results back.
static kiln_status sort_dense(struct lowering *lo, enum scalar_class cls, const struct view *x, bool descending,
                              int64_t keep, const struct view *values, const struct view *indices)
{
    struct view dense, none = view_integer(0), v = none, i = none;
    int last = x->rank - 1;
    if (x->strides[last] == 1 || view_count(x) == x->dims[last])
        return sort_on_cpu(lo, cls, x, descending, keep, values, indices);
    TRY(lower_temp(lo, x->dtype, x->rank, x->dims, &dense));
    TRY(lower_copy(lo, x, &dense));
    if (!values->immediate) TRY(lower_temp(lo, values->dtype, x->rank, values->dims, &v));
    if (!indices->immediate) TRY(lower_temp(lo, indices->dtype, x->rank, indices->dims, &i));
    TRY(sort_on_cpu(lo, cls, &dense, descending, keep, &v, &i));
    if (!values->immediate) TRY(lower_copy(lo, &v, values));
    return indices->immediate ? KILN_OK : lower_copy(lo, &i, indices);
}

// Short rows share a tile, each padded to a power of two.
static int64_t tiles_of(int64_t rows, int64_t length)
{
    int64_t size = 1;
    while (size < length && size < SORT_TILE) size *= 2;
    int64_t together = SORT_TILE / size;
    return (rows + together - 1) / together * ((length + SORT_TILE - 1) / SORT_TILE);
}

static kiln_status sort_tiles(struct lowering *lo, enum scalar_class cls, const struct view *x, bool descending,
                              const struct view *keys, const struct view *order)
{
    const struct view *v[1] = {x};
    struct index_space s = {.n = 1};
    int last = x->rank - 1;
    for (int d = 0; d < last; d++) space_add_dim(&s, x->dims[d], v, d);
    space_add(&s, x->dims[last], &x->strides[last], true);
    struct launch l;
    space_launch(&l, lo, FAMILY_sort_tiles, cls, &s);
    l.extent[0] = tiles_of(l.extent[0] / x->dims[last], x->dims[last]);
    l.variant[0] = descending;
    launch_operand(&l, x, s.strides[0], false);
    launch_operand(&l, keys, NULL, true);
    launch_operand(&l, order, NULL, true);
    return lo->launch(lo, &l);
}

static kiln_status merge_runs(struct lowering *lo, enum scalar_class key_cls, int64_t rows, int64_t length, int64_t run,
                              int64_t keep, const struct view *from, const struct view *to)
{
    struct launch l;
    int64_t sizes[2] = {rows, length};
    launch_init(&l, lo, kernel_of(FAMILY_sort_merge, key_cls), 2, sizes);
    l.extent[0] = rows * length;
    for (int o = 0; o < 4; o++) launch_operand(&l, o < 2 ? &from[o] : &to[o - 2], NULL, o >= 2);
    launch_scalar_i(&l, run);
    launch_scalar_i(&l, keep);
    return lo->launch(lo, &l);
}

static kiln_status sort_on_gpu(struct lowering *lo, enum scalar_class cls, const struct view *x, bool descending,
                               int64_t keep, const struct view *values, const struct view *indices)
{
    struct view pairs[2][2]; // ping-pong; keys, places
    int last = x->rank - 1;
    int64_t length = x->dims[last], rows = view_count(x) / length, dims[2] = {rows, length};
    bool wide = cls == CLASS_F64 || cls == CLASS_I64;
    int at = 0;
    if (rows * length >= INT64_C(1) << 31)
        return error_set(KILN_E_UNSUPPORTED, "%s: more than 2147483647 elements cannot be sorted on this device",
                         lo->op);
    for (int i = 0; i < (length > SORT_TILE ? 2 : 1); i++) {
        TRY(lower_temp(lo, wide ? KILN_I64 : KILN_I32, 2, dims, &pairs[i][0]));
        TRY(lower_temp(lo, KILN_I32, 2, dims, &pairs[i][1]));
    }
    TRY(sort_tiles(lo, cls, x, descending, &pairs[0][0], &pairs[0][1]));
    for (int64_t run = SORT_TILE; run < length; run *= 2, at = 1 - at)
        TRY(merge_runs(lo, wide ? CLASS_I64 : CLASS_I32, rows, length, run, keep, pairs[at], pairs[1 - at]));
    // The places over x's dimensions.
    struct view order = *x;
    order.slot = pairs[at][1].slot, order.dtype = KILN_I32, order.offset = pairs[at][1].offset;
    order.strides[last] = 1;
    for (int64_t d = last - 1, stride = length; d >= 0; stride *= x->dims[d--]) order.strides[d] = stride;
    order.dims[last] = keep;
    if (!indices->immediate) TRY(lower_copy(lo, &order, indices));
    if (values->immediate) return KILN_OK;
    struct view from = *x;
    from.dims[last] = keep;
    from.strides[last] = 0;
    return lower_gather_views(lo, &from, &order, values, length, x->strides[last]);
}

kiln_status lower_sort_views(struct lowering *lo, const struct view *x, bool descending, int64_t keep,
                             const struct view *values, const struct view *indices)
{
    enum scalar_class cls = dtype_class(x->dtype);
    struct view none = view_integer(0);
    if (cls == CLASS_BOOL) cls = CLASS_I32;
    if (view_count(x) == 0 || keep == 0) return KILN_OK;
    if (!values) values = &none;
    if (!indices) indices = &none;
    return lowers_to_cpu(lo, cls) ? sort_dense(lo, cls, x, descending, keep, values, indices)
                                  : sort_on_gpu(lo, cls, x, descending, keep, values, indices);
}

kiln_status infer_sort(struct op_call *c)
{
    int axis;
    TRY(op_axis(c, AT_sort_axis, 0, &axis));
    TRY(infer_same(c));
    c->out[1] = c->out[0];
    c->out[1].dtype = KILN_I64;
    return KILN_OK;
}

kiln_status infer_argsort(struct op_call *c)
{
    int axis;
    TRY(op_axis(c, AT_argsort_axis, 0, &axis));
    TRY(infer_same(c));
    c->out[0].dtype = KILN_I64;
    return KILN_OK;
}

kiln_status infer_topk(struct op_call *c)
{
    int axis;
    int64_t k = attr_int(c, AT_topk_k);
    TRY(op_axis(c, AT_topk_axis, 0, &axis));
    if (k < 0 || k > c->in[0]->dims[axis])
        return op_fail(c, KILN_E_ARGUMENT, "k is %lld, axis %d of %s has %lld elements", (long long)k, axis,
                       type_string(c->in[0]).s, (long long)c->in[0]->dims[axis]);
    TRY(infer_same(c));
    c->out[0].dims[axis] = k;
    c->out[1] = c->out[0];
    c->out[1].dtype = KILN_I64;
    return KILN_OK;
}

static kiln_status lower_along(const struct op_call *c, struct lowering *lo, int axis_attr, bool descending,
                               const struct view *values, const struct view *indices)
{
    int axis, perm[MAX_RANK], n = 0;
    TRY(op_axis(c, axis_attr, 0, &axis));
    for (int d = 0; d < c->in[0]->rank; d++)
        if (d != axis) perm[n++] = d;
    perm[n] = axis;
    struct view x = view_permute(&c->vin[0], perm), v, i;
    if (values) v = view_permute(values, perm);
    i = view_permute(indices, perm);
    return lower_sort_views(lo, &x, descending, i.dims[n], values ? &v : NULL, &i);
}

kiln_status lower_sort(const struct op_call *c, struct lowering *lo)
{
    return lower_along(c, lo, AT_sort_axis, attr_int(c, AT_sort_descending) != 0, &c->vout[0], &c->vout[1]);
}

kiln_status lower_argsort(const struct op_call *c, struct lowering *lo)
{
    return lower_along(c, lo, AT_argsort_axis, attr_int(c, AT_argsort_descending) != 0, NULL, &c->vout[0]);
}

kiln_status lower_topk(const struct op_call *c, struct lowering *lo)
{
    return lower_along(c, lo, AT_topk_axis, attr_int(c, AT_topk_largest) != 0, &c->vout[0], &c->vout[1]);
}
