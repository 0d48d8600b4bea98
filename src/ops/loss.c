// Cross entropy: one row kernel over the class axis, then the reduction over what is left.
//
// A label that names no class is an error on the CPU, which looks at every label first; on a GPU, where no launch can
// fail, its loss is NaN. The gradient there is NaN on both.
#include "ops/family.h"

enum { REDUCTION_MEAN, REDUCTION_SUM, REDUCTION_NONE };
struct loss_attrs {
    int64_t reduction;
    double smooth;
    bool ignore;
    int64_t ignore_index;
};

_Static_assert(AT_cross_entropy_reduction == AT_cross_entropy_backward_reduction &&
                   AT_cross_entropy_label_smoothing == AT_cross_entropy_backward_label_smoothing &&
                   AT_cross_entropy_ignore == AT_cross_entropy_backward_ignore &&
                   AT_cross_entropy_ignore_index == AT_cross_entropy_backward_ignore_index,
               "loss_attrs serves both");

static struct loss_attrs loss_attrs(const struct op_call *c)
{
    return (struct loss_attrs){attr_int(c, AT_cross_entropy_reduction), attr_float(c, AT_cross_entropy_label_smoothing),
                               attr_int(c, AT_cross_entropy_ignore) != 0, attr_int(c, AT_cross_entropy_ignore_index)};
}

static int class_axis(const struct type *x)
{
    return x->rank > 1 ? 1 : 0;
}

static bool soft(const struct op_call *c)
{
    return dtype_kind_of[c->in[1]->dtype] == KIND_FLOAT;
}

// The shape of the labels and of the unreduced loss.
static struct type without_classes(const struct type *x)
{
    struct type t = {.dtype = dtype_kind_of[x->dtype] == KIND_FLOAT ? x->dtype : KILN_F32};
    for (int i = 0; i < x->rank; i++)
        if (i != class_axis(x)) t.dims[t.rank++] = x->dims[i];
    return t;
}

static const char *labels_hint(const struct type *x, const struct type *t)
{
    if (t->rank == 2 && x->rank == 2 && t->dims[0] == x->dims[0] && t->dims[1] == 1)
        return "; kiln_squeeze(labels, KILN_AXES(1)) takes the last axis away";
    if (dtype_kind_of[x->dtype] != KIND_FLOAT && dtype_kind_of[t->dtype] == KIND_FLOAT)
        return "; the logits come first";
    if (type_same_shape(x, t)) return "; kiln_cast makes floats of labels, kiln_argmax indices";
    if (dtype_kind_of[t->dtype] == KIND_FLOAT) return "; kiln_cast makes integers of labels";
    return "";
}

static kiln_status check_loss(const struct op_call *c)
{
    const struct type *x = c->in[0], *t = c->in[1];
    struct loss_attrs a = loss_attrs(c);
    if (x->rank == 0) return op_fail(c, KILN_E_SHAPE, "logits is a scalar");
    struct type rest = without_classes(x);
    if (soft(c) ? !type_same_shape(x, t) : !type_same_shape(&rest, t))
        return op_fail(
            c, KILN_E_SHAPE,
            "logits is %s, labels is %s: class indices are integers of the shape without axis %d, probabilities are "
            "floats of the same shape%s",
            type_string(x).s, type_string(t).s, class_axis(x), labels_hint(x, t));
    if (t->dtype == KILN_BOOL)
        return op_fail(c, KILN_E_DTYPE, "labels is %s; it must be integers or floats", type_string(t).s);
    if (x->dims[class_axis(x)] == 0) return op_fail(c, KILN_E_SHAPE, "logits has no classes: %s", type_string(x).s);
    if (a.reduction < 0 || a.reduction > REDUCTION_NONE)
        return op_fail(c, KILN_E_ARGUMENT, "reduction %lld is not 0 (mean), 1 (sum) or 2 (none)",
                       (long long)a.reduction);
    if (!(a.smooth >= 0 && a.smooth <= 1))
        return op_fail(c, KILN_E_ARGUMENT, "label_smoothing %g is outside [0, 1]", a.smooth);
    return KILN_OK;
}

kiln_status infer_cross_entropy(struct op_call *c)
{
    TRY(check_loss(c));
    c->out[0] = without_classes(c->in[0]);
    if (loss_attrs(c).reduction != REDUCTION_NONE) c->out[0].rank = 0;
    return KILN_OK;
}

kiln_status infer_cross_entropy_backward(struct op_call *c)
{
    TRY(check_loss(c));
    struct type dy = without_classes(c->in[0]);
    if (loss_attrs(c).reduction != REDUCTION_NONE) dy.rank = 0;
    if (!type_same_shape(&dy, c->in[2]))
        return op_fail(c, KILN_E_SHAPE, "dy is %s, it must be %s", type_string(c->in[2]).s, type_string(&dy).s);
    type_copy(&c->out[0], c->in[0]);
    c->out[0].weak = false;
    c->out[0].dtype = dy.dtype;
    return KILN_OK;
}

// Everything over the space [rest..., classes].
struct loss_space {
    int rank, perm[MAX_RANK];
    int64_t dims[MAX_RANK], rows;
    double n;
    struct view x, t;
    enum scalar_class cls;
};

static void loss_space(const struct op_call *c, struct loss_space *s)
{
    const struct type *x = c->in[0];
    int axis = class_axis(x), at = 0;
    for (int i = 0; i < x->rank; i++)
        if (i != axis) s->perm[at++] = i;
    s->perm[at] = axis;
    s->rank = x->rank;
    s->rows = 1;
    for (int i = 0; i < x->rank; i++) {
        s->dims[i] = x->dims[s->perm[i]];
        if (i + 1 < x->rank) s->rows *= s->dims[i];
    }
    s->n = (double)s->dims[s->rank - 1];
    s->x = view_permute(&c->vin[0], s->perm);
    s->t = soft(c) ? view_permute(&c->vin[1], s->perm) : view_insert(&c->vin[1], c->vin[1].rank);
    s->cls = dtype_class(without_classes(x).dtype);
}

// The labels as i64, each of them a class or the one to ignore.
static kiln_status checked_labels(const struct op_call *c, struct lowering *lo, struct loss_space *s)
{
    const struct view *labels = &c->vin[1];
    struct loss_attrs a = loss_attrs(c);
    struct view checked;
    if (soft(c) || s->rows == 0 || !lo->caps->checks_indices) return KILN_OK;
    TRY(lower_temp(lo, KILN_I64, labels->rank, labels->dims, &checked));
    struct launch l;
    launch_init(&l, lo, kernel_of(FAMILY_check_labels, CLASS_I64), labels->rank, labels->dims);
    launch_operand(&l, labels, labels->strides, false);
    launch_operand(&l, &checked, checked.strides, true);
    launch_scalar_i(&l, (int64_t)s->n);
    launch_scalar_i(&l, a.ignore ? a.ignore_index : 0);
    l.extent[0] = s->rows;
    TRY(lo->launch(lo, &l));
    s->t = view_insert(&checked, checked.rank);
    return KILN_OK;
}

// What lies between: 16-bit floats would overflow in a sum that the mean brings back, and round a second time.
static uint8_t temp_dtype(uint8_t dtype)
{
    return dtype_is_half_float(dtype) ? KILN_F32 : dtype;
}

// Number of labels that count, as a scalar temporary.
static kiln_status count_labels(const struct op_call *c, struct lowering *lo, const struct loss_space *s,
                                struct view *count)
{
    const struct view *t = &c->vin[1];
    int64_t ignore = attr_int(c, AT_cross_entropy_ignore_index);
    TRY(lower_temp(lo, temp_dtype(without_classes(c->in[0]).dtype), 0, NULL, count));
    struct view rows = t->rank ? *t : view_insert(t, 0);
    return lower_row_integers(lo, FAMILY_count_labels, s->cls, rows.rank, rows.dims, rows.rank, 1, &rows, count, 1,
                              &ignore, 0, NULL);
}

static kiln_status reduce_loss(const struct op_call *c, struct lowering *lo, const struct loss_space *s,
                               const struct view *loss)
{
    struct loss_attrs a = loss_attrs(c);
    const struct view *out = &c->vout[0];
    struct view rows = loss->rank ? *loss : view_insert(loss, 0);
    double n = (double)s->rows;
    if (a.reduction == REDUCTION_MEAN && !(a.ignore && !soft(c)))
        return lower_row(lo, FAMILY_reduce_mean, s->cls, rows.rank, rows.dims, rows.rank, 1, &rows, out, 1, &n);
    if (a.reduction == REDUCTION_SUM)
        return lower_row(lo, FAMILY_reduce_sum, s->cls, rows.rank, rows.dims, rows.rank, 1, &rows, out, 0, NULL);
    struct view in[2];
    TRY(lower_temp(lo, temp_dtype(out->dtype), 0, NULL, &in[0]));
    TRY(lower_row(lo, FAMILY_reduce_sum, s->cls, rows.rank, rows.dims, rows.rank, 1, &rows, &in[0], 0, NULL));
    TRY(count_labels(c, lo, s, &in[1]));
    return lower_pointwise(lo, FAMILY_div, s->cls, 2, in, out, 0, NULL);
}

kiln_status lower_cross_entropy(const struct op_call *c, struct lowering *lo)
{
    struct loss_attrs a = loss_attrs(c);
    struct loss_space s;
    loss_space(c, &s);
    TRY(checked_labels(c, lo, &s));
    struct type rest = without_classes(c->in[0]);
    struct view loss = c->vout[0];
    if (a.reduction != REDUCTION_NONE) TRY(lower_temp(lo, temp_dtype(rest.dtype), rest.rank, rest.dims, &loss));
    struct view in[2] = {s.x, s.t}, out = view_insert(&loss, loss.rank);
    double scalars[2] = {s.n, a.smooth};
    int64_t ignored[2] = {a.ignore, a.ignore_index};
    if (soft(c))
        TRY(lower_row(lo, FAMILY_cross_entropy_soft, s.cls, s.rank, s.dims, 1, 2, in, &out, 2, scalars));
    else // without smoothing the other classes' logits do not count, and may be infinite
        TRY(lower_row_integers(lo, a.smooth > 0 ? FAMILY_cross_entropy_smooth : FAMILY_cross_entropy, s.cls, s.rank,
                               s.dims, 1, 2, in, &out, 2, ignored, a.smooth > 0 ? 2 : 0, scalars));
    return a.reduction == REDUCTION_NONE ? KILN_OK : reduce_loss(c, lo, &s, &loss);
}

kiln_status lower_cross_entropy_backward(const struct op_call *c, struct lowering *lo)
{
    struct loss_attrs a = loss_attrs(c);
    struct loss_space s;
    loss_space(c, &s);
    if (type_numel(&c->out[0]) == 0) return KILN_OK;
    struct view dy = c->vin[2];
    if (a.reduction == REDUCTION_MEAN) {
        struct view in[2] = {dy, view_number((double)s.rows)};
        if (a.ignore && !soft(c)) TRY(count_labels(c, lo, &s, &in[1]));
        TRY(lower_temp(lo, temp_dtype(c->out[0].dtype), 0, NULL, &dy));
        TRY(lower_pointwise(lo, FAMILY_div, s.cls, 2, in, &dy, 0, NULL));
    }
    if (dy.rank) dy = view_insert(&dy, dy.rank);
    struct view in[3] = {s.x, s.t, dy}, out = view_permute(&c->vout[0], s.perm);
    double scalars[2] = {s.n, a.smooth};
    int64_t ignored[2] = {a.ignore, a.ignore_index};
    if (soft(c))
        return lower_row(lo, FAMILY_cross_entropy_soft_backward, s.cls, s.rank, s.dims, 1, 3, in, &out, 2, scalars);
    return lower_row_integers(lo, FAMILY_cross_entropy_backward, s.cls, s.rank, s.dims, 1, 3, in, &out, 2, ignored, 2,
                              scalars);
}
