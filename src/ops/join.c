// Ops that put whole pieces of tensors side by side. Each lowers to copies between strided views.
#include "ops/family.h"
#include "ops/index.h"

// The promoted dtype of all inputs.
static kiln_status joined_dtype(struct op_call *c)
{
    struct type t = *c->in[0];
    for (int i = 1; i < c->n_in; i++)
        if (!type_promote(&t, c->in[i], &t.dtype, &t.weak)) return op_no_common_dtype(c, t.dtype, c->in[i]->dtype);
    c->out[0].dtype = t.dtype;
    c->out[0].weak = false;
    return KILN_OK;
}

static kiln_status sizes_differ(const struct op_call *c, int i)
{
    return op_fail(c, KILN_E_SHAPE, "tensor 0 is %s, tensor %d is %s", type_string(c->in[0]).s, i,
                   type_string(c->in[i]).s);
}

kiln_status infer_concat(struct op_call *c)
{
    int axis;
    struct type *out = &c->out[0];
    if (c->in[0]->rank == 0) return op_fail(c, KILN_E_SHAPE, "tensors of rank 0 have no axis; use stack");
    TRY(op_axis(c, AT_concat_axis, 0, &axis));
    type_copy(out, c->in[0]);
    for (int i = 1; i < c->n_in; i++) {
        const struct type *t = c->in[i];
        if (t->rank != out->rank) return sizes_differ(c, i);
        for (int d = 0; d < out->rank; d++)
            if (d != axis && t->dims[d] != out->dims[d]) return sizes_differ(c, i);
        if (__builtin_add_overflow(out->dims[axis], t->dims[axis], &out->dims[axis]))
            return op_fail(c, KILN_E_SHAPE, "axis %d overflows", axis);
    }
    TRY(joined_dtype(c));
    uint64_t size_B;
    return type_size_B(out, &size_B);
}

kiln_status lower_concat(const struct op_call *c, struct lowering *lo)
{
    int axis;
    int64_t at = 0;
    TRY(op_axis(c, AT_concat_axis, 0, &axis));
    for (int i = 0; i < c->n_in; i++) {
        int64_t n = c->in[i]->dims[axis];
        struct view part = view_narrow(&c->vout[0], axis, at, n);
        TRY(lower_copy(lo, &c->vin[i], &part));
        at += n;
    }
    return KILN_OK;
}

static kiln_status stack_axis(const struct op_call *c, int *axis)
{
    *axis = axis_normalize(attr_int(c, AT_stack_axis), c->in[0]->rank + 1);
    if (*axis >= 0) return KILN_OK;
    return op_fail(c, KILN_E_AXIS, "axis %lld is out of range for tensors of %s", (long long)attr_int(c, AT_stack_axis),
                   type_string(c->in[0]).s);
}

kiln_status infer_stack(struct op_call *c)
{
    int axis;
    struct type *out = &c->out[0];
    TRY(stack_axis(c, &axis));
    type_copy(out, c->in[0]);
    for (int i = 1; i < c->n_in; i++)
        if (!type_same_shape(out, c->in[i])) return sizes_differ(c, i);
    if (out->rank == MAX_RANK)
        return op_fail(c, KILN_E_SHAPE, "the result would have more than %d dimensions", MAX_RANK);
    for (int d = out->rank; d > axis; d--) out->dims[d] = out->dims[d - 1];
    out->dims[axis] = c->n_in;
    out->rank++;
    TRY(joined_dtype(c));
    uint64_t size_B;
    return type_size_B(out, &size_B);
}

kiln_status lower_stack(const struct op_call *c, struct lowering *lo)
{
    int axis;
    TRY(stack_axis(c, &axis));
    for (int i = 0; i < c->n_in; i++) {
        struct view part = view_narrow(&c->vout[0], axis, i, 1);
        part = view_squeeze(&part, axis);
        TRY(lower_copy(lo, &c->vin[i], &part));
    }
    return KILN_OK;
}

// tile, repeat_interleave

// x's shape and the repeats over the result's rank, the shorter one filled up with 1 in front.
static kiln_status tile_shape(const struct op_call *c, struct type *x, int64_t *repeats)
{
    const struct attr *r = &c->attrs[AT_tile_repeats];
    int rank = r->count > c->in[0]->rank ? r->count : c->in[0]->rank;
    int lead = rank - c->in[0]->rank, skip = rank - r->count;
    *x = *c->in[0];
    x->rank = (uint8_t)rank;
    for (int d = 0; d < rank; d++) {
        x->dims[d] = d < lead ? 1 : c->in[0]->dims[d - lead];
        repeats[d] = d < skip ? 1 : r->v[d - skip];
        if (repeats[d] < 0)
            return op_fail(c, KILN_E_ARGUMENT, "repeats %d is negative: %lld", d - skip, (long long)repeats[d]);
    }
    return KILN_OK;
}

kiln_status infer_tile(struct op_call *c)
{
    struct type *out = &c->out[0];
    int64_t repeats[MAX_RANK];
    TRY(tile_shape(c, out, repeats));
    out->weak = false;
    for (int d = 0; d < out->rank; d++)
        if (__builtin_mul_overflow(out->dims[d], repeats[d], &out->dims[d]))
            return op_fail(c, KILN_E_SHAPE, "axis %d overflows", d);
    uint64_t size_B;
    return type_size_B(out, &size_B);
}

static void add_dim(struct view *v, int64_t size, int64_t stride)
{
    v->dims[v->rank] = size;
    v->strides[v->rank++] = stride;
}

// Too many repeated axes for one space: the first copy, then each axis from what lies before it.
static kiln_status tile_by_axis(struct lowering *lo, const struct view *x, const int64_t *repeats,
                                const struct view *out)
{
    struct view done = *out;
    for (int d = 0; d < x->rank; d++) done.dims[d] = x->dims[d];
    TRY(lower_copy(lo, x, &done));
    for (int d = 0; d < x->rank; d++) {
        for (int64_t k = 1; k < repeats[d]; k++) {
            struct view next = view_narrow(&done, d, k * x->dims[d], x->dims[d]);
            TRY(lower_copy(lo, &done, &next));
        }
        done.dims[d] *= repeats[d];
    }
    return KILN_OK;
}

// A repeated axis is two of the result, the outer of which x does not move along.
kiln_status lower_tile(const struct op_call *c, struct lowering *lo)
{
    struct type t;
    int64_t repeats[MAX_RANK];
    TRY(tile_shape(c, &t, repeats));
    if (type_numel(&c->out[0]) == 0) return KILN_OK;
    struct view x, from, to;
    TRY(view_expand(&c->vin[0], t.rank, t.dims, &x));
    const struct view *out = &c->vout[0];
    int need = 0;
    for (int d = 0; d < t.rank; d++) need += (repeats[d] > 1) + (t.dims[d] > 1);
    if (need > MAX_RANK) return tile_by_axis(lo, &x, repeats, out);
    from = x, to = *out;
    from.rank = to.rank = 0;
    for (int d = 0; d < t.rank; d++) {
        if (repeats[d] > 1) {
            add_dim(&from, repeats[d], 0);
            add_dim(&to, repeats[d], out->strides[d] * t.dims[d]);
        }
        if (t.dims[d] > 1) {
            add_dim(&from, t.dims[d], x.strides[d]);
            add_dim(&to, t.dims[d], out->strides[d]);
        }
    }
    return lower_copy(lo, &from, &to);
}

kiln_status infer_repeat_interleave(struct op_call *c)
{
    int axis;
    struct type *out = &c->out[0];
    TRY(op_axis(c, AT_repeat_interleave_axis, 0, &axis));
    if (attr_int(c, AT_repeat_interleave_repeats) < 0)
        return op_fail(c, KILN_E_ARGUMENT, "repeats is negative: %lld",
                       (long long)attr_int(c, AT_repeat_interleave_repeats));
    type_copy(out, c->in[0]);
    out->weak = false;
    if (__builtin_mul_overflow(out->dims[axis], attr_int(c, AT_repeat_interleave_repeats), &out->dims[axis]))
        return op_fail(c, KILN_E_SHAPE, "axis %d overflows", axis);
    uint64_t size_B;
    return type_size_B(out, &size_B);
}

kiln_status lower_repeat_interleave(const struct op_call *c, struct lowering *lo)
{
    int axis;
    int64_t repeats = attr_int(c, AT_repeat_interleave_repeats);
    TRY(op_axis(c, AT_repeat_interleave_axis, 0, &axis));
    const struct view *x = &c->vin[0];
    struct view to = c->vout[0];
    to.dims[axis] = x->dims[axis];
    to.strides[axis] *= repeats;
    if (x->rank < MAX_RANK) {
        struct view from = view_insert(x, axis + 1);
        to = view_insert(&to, axis + 1);
        from.dims[axis + 1] = to.dims[axis + 1] = repeats;
        to.strides[axis + 1] = c->vout[0].strides[axis];
        return lower_copy(lo, &from, &to);
    }
    for (int64_t k = 0; k < repeats; k++) {
        TRY(lower_copy(lo, x, &to));
        to.offset += c->vout[0].strides[axis];
    }
    return KILN_OK;
}

// roll

static kiln_status roll_axes(const struct op_call *c, int *axes)
{
    const struct attr *shifts = &c->attrs[AT_roll_shifts], *list = &c->attrs[AT_roll_axes];
    uint32_t mask;
    if (list->count == 0) {
        if (shifts->count == 1) return KILN_OK;
        return op_fail(c, KILN_E_ARGUMENT, "takes one shift for the flattened tensor; %d are given", shifts->count);
    }
    if (shifts->count != list->count)
        return op_fail(c, KILN_E_ARGUMENT, "%d shifts are given for %d axes", shifts->count, list->count);
    TRY(op_axes(c, AT_roll_axes, 0, &mask)); // in range, none twice
    for (int i = 0; i < list->count; i++) axes[i] = axis_normalize(list->v[i], c->in[0]->rank);
    return KILN_OK;
}

kiln_status infer_roll(struct op_call *c)
{
    int axes[MAX_RANK];
    TRY(roll_axes(c, axes));
    return infer_same(c);
}

// Axis by axis the tensor falls into two pieces that change places.
static kiln_status roll_pieces(struct lowering *lo, const struct view *x, const struct view *out, int n,
                               const int *axes, const int64_t *shifts)
{
    if (n == 0) return lower_copy(lo, x, out);
    int axis = axes[0];
    int64_t size = x->dims[axis], k = shifts[0] % size;
    if (k < 0) k += size;
    struct view from = view_narrow(x, axis, 0, size - k), to = view_narrow(out, axis, k, size - k);
    TRY(roll_pieces(lo, &from, &to, n - 1, axes + 1, shifts + 1));
    if (k == 0) return KILN_OK;
    from = view_narrow(x, axis, size - k, k), to = view_narrow(out, axis, 0, k);
    return roll_pieces(lo, &from, &to, n - 1, axes + 1, shifts + 1);
}

kiln_status lower_roll(const struct op_call *c, struct lowering *lo)
{
    int axes[MAX_RANK] = {0};
    TRY(roll_axes(c, axes));
    if (type_numel(&c->out[0]) == 0) return KILN_OK;
    if (c->attrs[AT_roll_axes].count)
        return roll_pieces(lo, &c->vin[0], &c->vout[0], c->attrs[AT_roll_axes].count, axes, c->attrs[AT_roll_shifts].v);
    struct view x, out = view_flat(&c->vout[0]);
    TRY(lower_flat(lo, &c->vin[0], &x));
    return roll_pieces(lo, &x, &out, 1, axes, c->attrs[AT_roll_shifts].v);
}
