// Reading elements by index. All of it is one kernel, gather: out[p] = x[base(p) + index(p) * stride], over the
// result's space, in which x does not move along the dimensions of the index.
//
// A negative index counts from the end. One out of range is an error on the CPU, which looks at every index; on a GPU,
// where no launch can fail, the element read is 0.
#include "ops/index.h"
#include "ops/family.h"

static kiln_status check_index(const struct op_call *c, int in)
{
    const struct type *index = c->in[in];
    if (dtype_kind_of[index->dtype] == KIND_INT) return KILN_OK;
    return op_fail(c, KILN_E_DTYPE, "%s must be integers, it is %s", c->op->in_names[in], type_string(index).s);
}

kiln_status lower_gather_views(struct lowering *lo, const struct view *x, const struct view *index,
                               const struct view *out, int64_t axis_size, int64_t axis_stride)
{
    struct view from = view_as_bits(x), to = view_as_bits(out);
    const struct view *v[3] = {&from, index, &to};
    struct index_space s = {.n = 3};
    for (int d = 0; d < out->rank; d++) {
        if (out->dims[d] == 0) return KILN_OK;
        space_add_dim(&s, out->dims[d], v, d);
    }
    struct launch l;
    space_launch(&l, lo, FAMILY_gather, dtype_class(to.dtype), &s);
    // What the kernel may touch of x is more than its view over the space: the indexed axis is a dimension of it.
    struct view whole = from;
    for (int d = 0; d < from.rank; d++)
        if (from.strides[d] == 0) whole.dims[d] = 1;
    if (whole.rank < MAX_RANK) {
        whole.dims[whole.rank] = axis_size;
        whole.strides[whole.rank++] = axis_stride;
    } else {
        for (int d = 0; d < whole.rank; d++) {
            if (whole.dims[d] != 1) continue;
            whole.dims[d] = axis_size, whole.strides[d] = axis_stride;
            break;
        }
    }
    launch_operand(&l, &whole, s.strides[0], false);
    launch_operand(&l, index, s.strides[1], false);
    launch_operand(&l, &to, s.strides[2], true);
    launch_scalar_i(&l, axis_size);
    launch_scalar_i(&l, axis_stride);
    return lo->launch(lo, &l);
}

static kiln_status no_elements(const struct op_call *c, int axis)
{
    return op_fail(c, KILN_E_SHAPE, "axis %d of %s has no elements to take", axis, type_string(c->in[0]).s);
}

kiln_status op_index_fits(const struct op_call *c, int axis)
{
    const struct type *x = c->in[0], *index = c->in[1];
    bool fits = index->rank == x->rank;
    for (int d = 0; fits && d < x->rank; d++) fits = d == axis || index->dims[d] <= x->dims[d];
    if (fits) return KILN_OK;
    return op_fail(c, KILN_E_SHAPE, "index must have x's rank, and no larger sizes off axis %d: x is %s, index is %s",
                   axis, type_string(x).s, type_string(index).s);
}

kiln_status infer_gather(struct op_call *c)
{
    int axis;
    const struct type *x = c->in[0], *index = c->in[1];
    TRY(check_index(c, 1));
    TRY(op_axis(c, AT_gather_axis, 0, &axis));
    TRY(op_index_fits(c, axis));
    c->out[0] = *index;
    c->out[0].dtype = x->dtype;
    c->out[0].weak = false;
    return x->dims[axis] == 0 && type_numel(index) > 0 ? no_elements(c, axis) : KILN_OK;
}

kiln_status lower_gather(const struct op_call *c, struct lowering *lo)
{
    int axis;
    TRY(op_axis(c, AT_gather_axis, 0, &axis));
    struct view x = c->vin[0];
    int64_t size = x.dims[axis], stride = x.strides[axis];
    for (int d = 0; d < x.rank; d++) x.dims[d] = c->out[0].dims[d];
    x.strides[axis] = 0;
    return lower_gather_views(lo, &x, &c->vin[1], &c->vout[0], size, stride);
}

// take, index_select, embedding: the index's dimensions take the place of one axis.

static kiln_status take_axis(const struct op_call *c, int *axis)
{
    *axis = 0;
    if (c->op->n_attrs) return op_axis(c, AT_take_axis, 0, axis);
    if (c->in[0]->rank > 0) return KILN_OK;
    return op_fail(c, KILN_E_SHAPE, "%s has no axis: it is %s", c->op->in_names[0], type_string(c->in[0]).s);
}

kiln_status infer_take(struct op_call *c)
{
    int axis;
    const struct type *x = c->in[0], *index = c->in[1];
    struct type *out = &c->out[0];
    TRY(check_index(c, 1));
    TRY(take_axis(c, &axis));
    int rank = x->rank - 1 + index->rank, n = 0;
    if (rank > MAX_RANK) return op_fail(c, KILN_E_SHAPE, "the result would have more than %d dimensions", MAX_RANK);
    *out = (struct type){.dtype = x->dtype, .rank = (uint8_t)rank};
    for (int d = 0; d < axis; d++) out->dims[n++] = x->dims[d];
    for (int d = 0; d < index->rank; d++) out->dims[n++] = index->dims[d];
    for (int d = axis + 1; d < x->rank; d++) out->dims[n++] = x->dims[d];
    uint64_t size_B;
    TRY(type_size_B(out, &size_B));
    return x->dims[axis] == 0 && type_numel(out) > 0 ? no_elements(c, axis) : KILN_OK;
}

kiln_status infer_index_select(struct op_call *c)
{
    if (c->in[1]->rank != 1)
        return op_fail(c, KILN_E_SHAPE, "index must have one dimension, it is %s", type_string(c->in[1]).s);
    return infer_take(c);
}

kiln_status lower_take(const struct op_call *c, struct lowering *lo)
{
    int axis;
    TRY(take_axis(c, &axis));
    struct view x = c->vin[0], index = c->vin[1];
    int64_t size = x.dims[axis], stride = x.strides[axis];
    int n_index = index.rank, n_after = x.rank - 1 - axis;
    // x without its axis, the index without x's other dimensions: both over the result's dimensions.
    x = view_squeeze(&x, axis);
    for (int i = 0; i < n_index; i++) {
        x = view_insert(&x, axis);
        x.strides[axis] = 0;
    }
    for (int i = 0; i < axis; i++) index = view_insert(&index, 0);
    for (int i = 0; i < n_after; i++) index = view_insert(&index, index.rank);
    return lower_gather_views(lo, &x, &index, &c->vout[0], size, stride);
}

// one_hot, isin

kiln_status infer_one_hot(struct op_call *c)
{
    const struct type *ids = c->in[0];
    int64_t depth = attr_int(c, AT_one_hot_depth);
    TRY(check_index(c, 0));
    if (depth < 0) return op_fail(c, KILN_E_ARGUMENT, "depth is negative: %lld", (long long)depth);
    if (ids->rank == MAX_RANK)
        return op_fail(c, KILN_E_SHAPE, "the result would have more than %d dimensions", MAX_RANK);
    type_copy(&c->out[0], ids);
    c->out[0].dtype = KILN_F32;
    c->out[0].weak = false;
    c->out[0].dims[c->out[0].rank++] = depth;
    uint64_t size_B;
    return type_size_B(&c->out[0], &size_B);
}

kiln_status lower_one_hot(const struct op_call *c, struct lowering *lo)
{
    const struct view *out = &c->vout[0];
    struct view ids = view_insert(&c->vin[0], c->vin[0].rank);
    if (type_numel(&c->out[0]) == 0) return KILN_OK;
    return lower_row(lo, FAMILY_one_hot, CLASS_F32, out->rank, out->dims, 1, 1, &ids, out, 0, NULL);
}

kiln_status infer_isin(struct op_call *c)
{
    bool weak;
    type_copy(&c->out[0], c->in[0]);
    c->out[0].weak = false;
    if (!type_promote(c->in[0], c->in[1], &c->compute_dtype, &weak))
        return op_no_common_dtype(c, c->in[0]->dtype, c->in[1]->dtype);
    c->out[0].dtype = KILN_BOOL;
    return KILN_OK;
}

kiln_status lower_isin(const struct op_call *c, struct lowering *lo)
{
    struct view x = c->vin[0], out = c->vout[0], values;
    enum scalar_class cls = dtype_class(c->compute_dtype);
    if (cls == CLASS_I32 || cls == CLASS_BOOL) cls = CLASS_I64;
    if (view_count(&x) == 0) return KILN_OK;
    TRY(lower_flat(lo, &c->vin[1], &values));
    if (values.dims[0] == 0) return lower_fill(lo, 0, &out);
    if (x.rank == MAX_RANK) {
        TRY(lower_flat(lo, &x, &x));
        out = view_flat(&out);
    }
    int rank = x.rank + 1;
    int64_t dims[MAX_RANK];
    for (int d = 0; d < x.rank; d++) dims[d] = x.dims[d];
    dims[x.rank] = values.dims[0];
    struct view in[2] = {view_insert(&x, x.rank), values};
    out = view_insert(&out, out.rank);
    return lower_row(lo, FAMILY_isin, cls, rank, dims, 1, 2, in, &out, 0, NULL);
}
