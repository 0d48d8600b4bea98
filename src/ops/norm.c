// Softmax and normalisation: each one row kernel over the normalised axes.
#include "ops/family.h"

static uint8_t float_of(const struct type *t)
{
    return dtype_kind_of[t->dtype] == KIND_FLOAT ? t->dtype : KILN_F32;
}

// The dtype of the result: all floats promoted.
static uint8_t float_of_all(const struct op_call *c)
{
    struct type acc = {.dtype = KILN_BOOL};
    for (int i = 0; i < c->n_in; i++) {
        bool weak;
        if (c->in[i]) (void)type_promote(&acc, c->in[i], &acc.dtype, &weak);
    }
    return float_of(&acc);
}

kiln_status infer_softmax(struct op_call *c)
{
    int axis;
    TRY(op_axis(c, AT_softmax_axis, 0, &axis));
    if (c->n_in == 2 && !type_same_shape(c->in[0], c->in[1]))
        return op_fail(c, KILN_E_SHAPE, "y is %s, dy is %s", type_string(c->in[0]).s, type_string(c->in[1]).s);
    type_copy(&c->out[0], c->in[0]);
    c->out[0].weak = false;
    c->out[0].dtype = float_of_all(c);
    return KILN_OK;
}

// The axis becomes the last one.
static void axis_last(int rank, int axis, int *perm)
{
    int n = 0;
    for (int i = 0; i < rank; i++)
        if (i != axis) perm[n++] = i;
    perm[n] = axis;
}

kiln_status lower_softmax(const struct op_call *c, struct lowering *lo)
{
    int axis, perm[MAX_RANK], rank = c->out[0].rank;
    TRY(op_axis(c, AT_softmax_axis, 0, &axis));
    if (type_numel(&c->out[0]) == 0) return KILN_OK;
    axis_last(rank, axis, perm);
    struct view in[2], out = view_permute(&c->vout[0], perm);
    for (int i = 0; i < c->n_in; i++) in[i] = view_permute(&c->vin[i], perm);
    return lower_row(lo, c->op->family, dtype_class(c->out[0].dtype), rank, out.dims, 1, c->n_in, in, &out, 0, NULL);
}

static kiln_status norm_axes(const struct op_call *c, int attr, int *n_axes)
{
    int64_t n = attr_int(c, attr);
    const struct type *x = c->in[0];
    if (n < 1 || n > x->rank)
        return op_fail(c, KILN_E_AXIS, "n_axes %lld is out of range for x of %s", (long long)n, type_string(x).s);
    *n_axes = (int)n;
    return KILN_OK;
}

// weight and bias broadcast against the normalised axes.
static kiln_status check_affine(const struct op_call *c, int in, int n_axes)
{
    const struct type *x = c->in[0], *w = in < c->n_in ? c->in[in] : NULL;
    if (!w || w->rank == 0) return KILN_OK;
    bool fits = w->rank == n_axes;
    for (int i = 0; fits && i < n_axes; i++) fits = w->dims[i] == x->dims[x->rank - n_axes + i];
    if (fits) return KILN_OK;
    return op_fail(c, KILN_E_SHAPE, "%s is %s, it must have the shape of the last %d axes of x, %s",
                   c->op->in_names[in], type_string(w).s, n_axes, type_string(x).s);
}

static kiln_status infer_norm_over(struct op_call *c, int first_affine, int last_affine, int attr)
{
    int n_axes = 0;
    TRY(norm_axes(c, attr, &n_axes));
    for (int i = first_affine; i <= last_affine; i++) TRY(check_affine(c, i, n_axes));
    type_copy(&c->out[0], c->in[0]);
    c->out[0].weak = false;
    c->out[0].dtype = float_of_all(c);
    return KILN_OK;
}

kiln_status infer_layer_norm(struct op_call *c)
{
    return infer_norm_over(c, 1, 2, AT_layer_norm_n_axes);
}

kiln_status infer_layer_norm_backward(struct op_call *c)
{
    if (!type_same_shape(c->in[0], c->in[2]))
        return op_fail(c, KILN_E_SHAPE, "x is %s, dy is %s", type_string(c->in[0]).s, type_string(c->in[2]).s);
    return infer_norm_over(c, 1, 1, AT_layer_norm_backward_n_axes);
}

static struct view optional(const struct op_call *c, int in, double fallback)
{
    return in < c->n_in && c->in[in] ? c->vin[in] : view_number(fallback);
}

static int64_t trailing(const struct type *t, int n_axes)
{
    int64_t n = 1;
    for (int i = t->rank - n_axes; i < t->rank; i++) n *= t->dims[i];
    return n;
}

kiln_status lower_layer_norm(const struct op_call *c, struct lowering *lo)
{
    int n_axes = (int)attr_int(c, AT_layer_norm_n_axes);
    if (type_numel(&c->out[0]) == 0) return KILN_OK;
    struct view in[3] = {c->vin[0], optional(c, 1, 1), optional(c, 2, 0)};
    double scalars[2] = {(double)trailing(&c->out[0], n_axes), attr_float(c, AT_layer_norm_eps)};
    return lower_row(lo, FAMILY_layer_norm, dtype_class(c->out[0].dtype), c->out[0].rank, c->out[0].dims, n_axes, 3, in,
                     &c->vout[0], 2, scalars);
}

kiln_status lower_layer_norm_backward(const struct op_call *c, struct lowering *lo)
{
    int n_axes = (int)attr_int(c, AT_layer_norm_backward_n_axes);
    if (type_numel(&c->out[0]) == 0) return KILN_OK;
    double scalars[2] = {(double)trailing(&c->out[0], n_axes), attr_float(c, AT_layer_norm_backward_eps)};
    return lower_row(lo, FAMILY_layer_norm_backward, dtype_class(c->out[0].dtype), c->out[0].rank, c->out[0].dims,
                     n_axes, 3, c->vin, &c->vout[0], 2, scalars);
}

kiln_status infer_rms_norm(struct op_call *c)
{
    return infer_norm_over(c, 1, 1, AT_rms_norm_n_axes);
}

kiln_status infer_rms_norm_backward(struct op_call *c)
{
    if (!type_same_shape(c->in[0], c->in[2]))
        return op_fail(c, KILN_E_SHAPE, "x is %s, dy is %s", type_string(c->in[0]).s, type_string(c->in[2]).s);
    return infer_norm_over(c, 1, 1, AT_rms_norm_backward_n_axes);
}

static kiln_status lower_rms(const struct op_call *c, struct lowering *lo, int family, int n_in, const struct view *in,
                             int n_axes, double eps)
{
    if (type_numel(&c->out[0]) == 0) return KILN_OK;
    double scalars[2] = {(double)trailing(&c->out[0], n_axes), eps};
    return lower_row(lo, family, dtype_class(c->out[0].dtype), c->out[0].rank, c->out[0].dims, n_axes, n_in, in,
                     &c->vout[0], 2, scalars);
}

kiln_status lower_rms_norm(const struct op_call *c, struct lowering *lo)
{
    struct view in[2] = {c->vin[0], optional(c, 1, 1)};
    return lower_rms(c, lo, FAMILY_rms_norm, 2, in, (int)attr_int(c, AT_rms_norm_n_axes),
                     attr_float(c, AT_rms_norm_eps));
}

kiln_status lower_rms_norm_backward(const struct op_call *c, struct lowering *lo)
{
    return lower_rms(c, lo, FAMILY_rms_norm_backward, 3, c->vin, (int)attr_int(c, AT_rms_norm_backward_n_axes),
                     attr_float(c, AT_rms_norm_backward_eps));
}

// Batch normalisation: the channel is axis 1.

static int channel_axis(const struct type *x)
{
    return x->rank > 1 ? 1 : 0;
}

static kiln_status check_channel(const struct op_call *c, int in)
{
    const struct type *x = c->in[0], *v = in < c->n_in ? c->in[in] : NULL;
    if (!v || v->rank == 0) return KILN_OK;
    if (v->rank == 1 && v->dims[0] == x->dims[channel_axis(x)]) return KILN_OK;
    return op_fail(c, KILN_E_SHAPE, "%s is %s, it must have one value for each channel of x, %s", c->op->in_names[in],
                   type_string(v).s, type_string(x).s);
}

static kiln_status infer_channels(struct op_call *c, int from)
{
    const struct type *x = c->in[0];
    if (x->rank == 0) return op_fail(c, KILN_E_SHAPE, "x is a scalar");
    for (int i = from; i < c->n_in; i++) TRY(check_channel(c, i));
    type_copy(&c->out[0], x);
    c->out[0].weak = false;
    c->out[0].dtype = float_of_all(c);
    return KILN_OK;
}

kiln_status infer_batch_norm(struct op_call *c)
{
    return infer_channels(c, 1);
}

kiln_status infer_batch_norm_train(struct op_call *c)
{
    TRY(infer_channels(c, 1));
    for (int i = 1; i < 3; i++)
        c->out[i] =
            (struct type){.dtype = c->out[0].dtype, .rank = 1, .dims = {c->in[0]->dims[channel_axis(c->in[0])]}};
    return KILN_OK;
}

kiln_status infer_batch_norm_backward(struct op_call *c)
{
    if (!type_same_shape(c->in[0], c->in[2]))
        return op_fail(c, KILN_E_SHAPE, "x is %s, dy is %s", type_string(c->in[0]).s, type_string(c->in[2]).s);
    TRY(check_channel(c, 1));
    type_copy(&c->out[0], c->in[0]);
    c->out[0].weak = false;
    c->out[0].dtype = float_of_all(c);
    return KILN_OK;
}

// A vector over channels, seen over x's dimensions.
static struct view along_channel(struct view v, const struct type *x)
{
    if (v.immediate || v.rank == 0) return v;
    for (int i = channel_axis(x) + 1; i < x->rank; i++) v = view_insert(&v, v.rank);
    return v;
}

kiln_status lower_batch_norm(const struct op_call *c, struct lowering *lo)
{
    const struct type *x = c->in[0];
    struct view in[5] = {c->vin[0], c->vin[1], c->vin[2], optional(c, 3, 1), optional(c, 4, 0)};
    for (int i = 1; i < 5; i++) in[i] = along_channel(in[i], x);
    double eps = attr_float(c, AT_batch_norm_eps);
    return lower_pointwise(lo, FAMILY_batch_norm, dtype_class(c->out[0].dtype), 5, in, &c->vout[0], 1, &eps);
}

// x as [channel, everything else]: the row is all but the channel.
struct channel_rows {
    int rank, n_reduce, perm[MAX_RANK];
    int64_t dims[MAX_RANK];
    double n;
};

static void channel_rows(const struct type *x, struct channel_rows *r)
{
    int axis = channel_axis(x), at = 0;
    r->perm[at++] = axis;
    for (int i = 0; i < x->rank; i++)
        if (i != axis) r->perm[at++] = i;
    r->rank = x->rank;
    r->n_reduce = x->rank - 1;
    r->n = 1;
    for (int i = 0; i < x->rank; i++) {
        r->dims[i] = x->dims[r->perm[i]];
        if (i) r->n *= (double)r->dims[i];
    }
}

// A vector over channels over the permuted space: size 1 along the row.
static struct view per_row(struct view v, int rank)
{
    if (v.immediate || v.rank == 0) return v;
    while (v.rank < rank) v = view_insert(&v, v.rank);
    return v;
}

// A vector has rows of one element.
static void at_least_a_row(struct channel_rows *r)
{
    if (r->n_reduce > 0) return;
    r->dims[r->rank++] = 1;
    r->n_reduce = 1;
}

static struct view permuted(const struct view *v, const struct channel_rows *r, int x_rank)
{
    struct view p = view_permute(v, r->perm);
    return r->rank > x_rank ? view_insert(&p, p.rank) : p;
}

kiln_status lower_batch_norm_train(const struct op_call *c, struct lowering *lo)
{
    const struct type *x = c->in[0];
    struct channel_rows r;
    channel_rows(x, &r);
    at_least_a_row(&r);
    if (type_numel(x) == 0) return op_fail(c, KILN_E_SHAPE, "x has no elements: %s", type_string(x).s);
    enum scalar_class cls = dtype_class(c->out[0].dtype);
    struct view xs = permuted(&c->vin[0], &r, x->rank), y = permuted(&c->vout[0], &r, x->rank);
    struct view mean = per_row(c->vout[1], r.rank), var = per_row(c->vout[2], r.rank);
    struct view in[3] = {xs, per_row(optional(c, 1, 1), r.rank), per_row(optional(c, 2, 0), r.rank)};
    double scalars[2] = {r.n, attr_float(c, AT_batch_norm_train_eps)}, n_dof[2] = {r.n, r.n};
    TRY(lower_row(lo, FAMILY_layer_norm, cls, r.rank, r.dims, r.n_reduce, 3, in, &y, 2, scalars));
    TRY(lower_row(lo, FAMILY_reduce_mean, cls, r.rank, r.dims, r.n_reduce, 1, &xs, &mean, 1, n_dof));
    return lower_row(lo, FAMILY_reduce_var, cls, r.rank, r.dims, r.n_reduce, 1, &xs, &var, 2, n_dof);
}

kiln_status lower_batch_norm_backward(const struct op_call *c, struct lowering *lo)
{
    const struct type *x = c->in[0];
    struct channel_rows r;
    channel_rows(x, &r);
    at_least_a_row(&r);
    if (type_numel(x) == 0) return KILN_OK;
    struct view in[3] = {permuted(&c->vin[0], &r, x->rank), per_row(c->vin[1], r.rank),
                         permuted(&c->vin[2], &r, x->rank)};
    struct view out = permuted(&c->vout[0], &r, x->rank);
    double scalars[2] = {r.n, attr_float(c, AT_batch_norm_backward_eps)};
    return lower_row(lo, FAMILY_layer_norm_backward, dtype_class(c->out[0].dtype), r.rank, r.dims, r.n_reduce, 3, in,
                     &out, 2, scalars);
}

// Group normalisation: layer normalisation of x with its channels as two axes, groups and their channels.

kiln_status infer_group_norm(struct op_call *c)
{
    const struct type *x = c->in[0];
    int64_t groups = attr_int(c, AT_group_norm_groups);
    if (x->rank < 2) return op_fail(c, KILN_E_SHAPE, "x is %s, it must have a batch and channels", type_string(x).s);
    if (x->rank == MAX_RANK) return op_fail(c, KILN_E_SHAPE, "x has rank %d, at most %d", MAX_RANK, MAX_RANK - 1);
    if (groups < 1) return op_fail(c, KILN_E_ARGUMENT, "groups must be positive, got %lld", (long long)groups);
    if (x->dims[1] % groups)
        return op_fail(c, KILN_E_SHAPE, "%lld groups do not divide the channels of x, %s", (long long)groups,
                       type_string(x).s);
    return infer_channels(c, 1);
}

// An axis of groups * k elements as two.
static struct view split_axis(struct view v, int axis, int64_t groups)
{
    if (v.immediate || v.rank == 0) return v;
    int64_t inner = v.dims[axis] / groups, stride = v.strides[axis];
    v = view_insert(&v, axis);
    v.dims[axis] = groups;
    v.strides[axis] = stride * inner;
    v.dims[axis + 1] = inner;
    return v;
}

// A vector over channels, seen over [groups, channels of one, 1 ...].
static struct view along_groups(struct view v, int64_t groups, int x_rank)
{
    if (v.immediate || v.rank == 0) return v;
    v = split_axis(v, 0, groups);
    for (int i = 2; i < x_rank; i++) v = view_insert(&v, v.rank);
    return v;
}

// Of each group over [N, groups, 1, 1 ...].
static kiln_status lower_statistic(const struct op_call *c, struct lowering *lo, int family, int n_scalars,
                                   const struct view *rows, double n, struct view *out)
{
    enum scalar_class cls = dtype_class(c->out[0].dtype);
    int64_t dims[MAX_RANK];
    double scalars[2] = {n, n};
    for (int i = 0; i < rows->rank; i++) dims[i] = i < 2 ? rows->dims[i] : 1;
    TRY(lower_temp(lo, cls == CLASS_F64 ? KILN_F64 : KILN_F32, rows->rank, dims, out));
    return lower_row(lo, family, cls, rows->rank, rows->dims, rows->rank - 2, 1, rows, out, n_scalars, scalars);
}

kiln_status lower_group_norm(const struct op_call *c, struct lowering *lo)
{
    const struct type *x = c->in[0];
    int64_t groups = attr_int(c, AT_group_norm_groups);
    enum scalar_class cls = dtype_class(c->out[0].dtype);
    if (type_numel(&c->out[0]) == 0) return KILN_OK;
    struct view rows = split_axis(c->vin[0], 1, groups), out = split_axis(c->vout[0], 1, groups);
    double n = (double)(type_numel(x) / x->dims[0] / groups), eps = attr_float(c, AT_group_norm_eps);
    if (c->n_in == 1) {
        struct view in[3] = {rows, view_number(1), view_number(0)};
        double scalars[2] = {n, eps};
        return lower_row(lo, FAMILY_layer_norm, cls, out.rank, out.dims, x->rank - 1, 3, in, &out, 2, scalars);
    }
    struct view in[5] = {rows, rows, rows, along_groups(optional(c, 1, 1), groups, x->rank),
                         along_groups(optional(c, 2, 0), groups, x->rank)};
    TRY(lower_statistic(c, lo, FAMILY_reduce_mean, 1, &rows, n, &in[1]));
    TRY(lower_statistic(c, lo, FAMILY_reduce_var, 2, &rows, n, &in[2]));
    return lower_pointwise(lo, FAMILY_batch_norm, cls, 5, in, &out, 1, &eps);
}
