// Losses of classes, by their numbers. An ignored label counts for nothing; any other that names no class is an error
// on the CPU and gives 0 on a GPU, as indices do.
#include "compose/losses.h"

bool loss_labels(kiln_tensor *x, kiln_tensor *labels, int64_t reduction)
{
    if (!loss_reduction_is(reduction, x)) return false;
    size_t rank = kiln_rank(x);
    bool fits = rank >= 2 && kiln_rank(labels) == rank - 1;
    for (size_t i = 0, at = 0; fits && i < rank; i++)
        if (i != 1) fits = kiln_dims(labels)[at++] == kiln_dims(x)[i];
    if (dtype_info[kiln_tensor_dtype(labels)].kind != KIND_INT)
        error_set(KILN_E_DTYPE, "labels must be integers, it is %s", type_of(labels).s);
    else if (!fits)
        error_set(KILN_E_SHAPE, "x must be [N, C, ...] and labels [N, ...], they are %s and %s", type_of(x).s,
                  type_of(labels).s);
    return !error_pending;
}

static bool class_weights(kiln_tensor *weight, int64_t classes)
{
    if (!weight || error_pending) return !error_pending;
    if (kiln_rank(weight) != 1 || kiln_dims(weight)[0] != classes)
        error_set(KILN_E_SHAPE, "weight must be [%lld], it is %s", (long long)classes, type_of(weight).s);
    return !error_pending;
}

struct labelled {
    kiln_tensor *index;  // with those that count for nothing as class 0; labels below 0 stay out of range
    kiln_tensor *counts; // bool: NULL: all do
};

static struct labelled labelled(kiln_tensor *labels, int64_t classes, bool ignore, int64_t ignored)
{
    struct labelled l = {kiln_cast(labels, KILN_I64), NULL};
    kiln_tensor *none = kiln_scalar_int(0);
    if (ignore) {
        l.counts = kiln_not_equal(l.index, kiln_scalar_int(ignored));
        l.index = kiln_where(l.counts, l.index, none);
    }
    kiln_tensor *below = kiln_sub(l.index, kiln_scalar_int(classes));
    l.index = kiln_where(kiln_less(l.index, none), below, l.index);
    return l;
}

static kiln_tensor *picked(kiln_tensor *x, kiln_tensor *index)
{
    return kiln_squeeze(kiln_gather(x, 1, kiln_unsqueeze(index, 1)), KILN_AXES(1));
}

// The weight of each label, 0 of ignored ones; NULL: all are 1.
static kiln_tensor *weights_of(const struct labelled *l, kiln_tensor *weight, kiln_dtype dtype)
{
    kiln_tensor *w = weight ? kiln_cast(kiln_take(weight, 0, l->index), dtype) : NULL;
    if (!l->counts) return w;
    return w ? kiln_where(l->counts, w, kiln_scalar(0)) : kiln_cast(l->counts, dtype);
}

static kiln_tensor *reduced(kiln_tensor *loss, kiln_tensor *weights, int64_t reduction)
{
    if (reduction != KILN_REDUCTION_MEAN || !weights) return loss_reduce(loss, reduction);
    return kiln_div(kiln_sum(loss, NULL), kiln_sum(weights, NULL));
}

kiln_tensor *compose_loss_weighted_nll(kiln_tensor *log_probs, kiln_tensor *labels,
                                       const kiln_loss_weighted_nll_opts *o)
{
    if (!loss_labels(log_probs, labels, o->reduction)) return NULL;
    int64_t classes = kiln_dims(log_probs)[1];
    if (!class_weights(o->weight, classes)) return NULL;
    struct labelled l = labelled(labels, classes, o->ignore, o->ignore_index);
    kiln_tensor *w = weights_of(&l, o->weight, kiln_tensor_dtype(log_probs)), *t = kiln_neg(picked(log_probs, l.index));
    if (l.counts) t = kiln_where(l.counts, t, kiln_scalar(0)); // -INFINITY times 0 is none
    return reduced(w ? kiln_mul(t, w) : t, w, o->reduction);
}

// A vector over the classes, as it lies beside x [N, C, ...].
static kiln_tensor *beside(kiln_tensor *weight, kiln_tensor *x)
{
    int64_t dims[KILN_MAX_RANK];
    if (error_pending) return NULL;
    for (size_t i = 0; i < kiln_rank(x); i++) dims[i] = i == 1 ? -1 : 1;
    return kiln_reshape(kiln_cast(weight, kiln_tensor_dtype(x)), kiln_rank(x), dims);
}

static kiln_tensor *over_classes(kiln_tensor *t)
{
    return kiln_sum(t, KILN_REDUCE(.axes = KILN_AXES(1)));
}

static kiln_tensor *of_probabilities(kiln_tensor *log_p, kiln_tensor *target,
                                     const kiln_loss_weighted_cross_entropy_opts *o)
{
    double smooth = o->label_smoothing, classes = (double)kiln_dims(log_p)[1];
    if (smooth > 0) target = kiln_add(kiln_mul(target, kiln_scalar(1 - smooth)), kiln_scalar(smooth / classes));
    if (o->weight) target = kiln_mul(target, beside(o->weight, log_p));
    kiln_tensor *t = kiln_neg(over_classes(kiln_mul(target, log_p)));
    if (o->reduction != KILN_REDUCTION_MEAN) return loss_reduce(t, o->reduction);
    return kiln_mean(t, NULL);
}

static bool same_shape(const kiln_tensor *a, const kiln_tensor *b)
{
    bool same = kiln_rank(a) == kiln_rank(b);
    for (size_t i = 0; same && i < kiln_rank(a); i++) same = kiln_dims(a)[i] == kiln_dims(b)[i];
    return same;
}

// (1 - s) w[l] (-log p[l]) + s / C sum_c w[c] (-log p[c]), over the sum of w[l] for the mean.
kiln_tensor *compose_loss_weighted_cross_entropy(kiln_tensor *logits, kiln_tensor *labels,
                                                 const kiln_loss_weighted_cross_entropy_opts *o)
{
    double smooth = o->label_smoothing;
    bool soft = dtype_is_float(kiln_tensor_dtype(labels));
    if (!(smooth >= 0 && smooth <= 1)) error_set(KILN_E_ARGUMENT, "label_smoothing %g is outside [0, 1]", smooth);
    if (soft && loss_reduction_is(o->reduction, logits) && (kiln_rank(logits) < 2 || !same_shape(logits, labels)))
        error_set(KILN_E_SHAPE, "x must be [N, C, ...] and probabilities the same, they are %s and %s",
                  type_of(logits).s, type_of(labels).s);
    if (soft && o->ignore) error_set(KILN_E_ARGUMENT, "probabilities have no label to ignore");
    if (error_pending || (!soft && !loss_labels(logits, labels, o->reduction))) return NULL;
    int64_t classes = kiln_dims(logits)[1];
    if (!class_weights(o->weight, classes)) return NULL;
    kiln_tensor *log_p = kiln_log_softmax(logits, 1);
    if (soft) return of_probabilities(log_p, labels, o);
    struct labelled l = labelled(labels, classes, o->ignore, o->ignore_index);
    kiln_tensor *w = weights_of(&l, o->weight, kiln_tensor_dtype(log_p)), *t = kiln_neg(picked(log_p, l.index));
    if (l.counts) t = kiln_where(l.counts, t, kiln_scalar(0));
    if (w) t = kiln_mul(t, w);
    if (smooth > 0) {
        kiln_tensor *all = o->weight ? kiln_mul(log_p, beside(o->weight, log_p)) : log_p;
        kiln_tensor *flat = kiln_mul(over_classes(all), kiln_scalar(-smooth / (double)classes));
        if (l.counts) flat = kiln_where(l.counts, flat, kiln_scalar(0));
        t = kiln_add(kiln_mul(t, kiln_scalar(1 - smooth)), flat);
    }
    return reduced(t, w, o->reduction);
}

// 1 at the label's class, along axis 1 of [N, C].
static kiln_tensor *at_label(kiln_tensor *index, int64_t classes, kiln_dtype dtype)
{
    return kiln_cast(kiln_one_hot(index, classes), dtype);
}

static bool rows_of_classes(kiln_tensor *x)
{
    if (!error_pending && kiln_rank(x) != 2) error_set(KILN_E_SHAPE, "x must be [N, C], it is %s", type_of(x).s);
    return !error_pending;
}

// The mean over classes of max(0, margin - x[label] + x[c])^p w[label], c not being the label.
kiln_tensor *compose_loss_multi_margin(kiln_tensor *x, kiln_tensor *labels, const kiln_loss_multi_margin_opts *o)
{
    if (!rows_of_classes(x) || !loss_labels(x, labels, o->reduction)) return NULL;
    if (o->p != 1 && o->p != 2) error_set(KILN_E_ARGUMENT, "p is %lld, it must be 1 or 2", (long long)o->p);
    int64_t classes = kiln_dims(x)[1];
    if (error_pending || !class_weights(o->weight, classes)) return NULL;
    struct labelled l = labelled(labels, classes, false, 0);
    kiln_tensor *own = kiln_gather(x, 1, kiln_unsqueeze(l.index, 1));
    kiln_tensor *t = loss_above(kiln_add(kiln_sub(x, own), kiln_scalar(o->margin)));
    if (o->p == 2) t = kiln_square(t);
    kiln_tensor *others = kiln_sub(kiln_scalar(1), at_label(l.index, classes, kiln_tensor_dtype(x)));
    t = kiln_mean(kiln_mul(t, others), KILN_REDUCE(.axes = KILN_AXES(1)));
    if (o->weight) t = kiln_mul(t, kiln_cast(kiln_take(o->weight, 0, l.index), kiln_tensor_dtype(x)));
    return loss_reduce(t, o->reduction);
}

// labels [N, C]: classes of the sample in front of the first number below 0.
kiln_tensor *compose_loss_multilabel_margin(kiln_tensor *x, kiln_tensor *labels, int64_t reduction)
{
    if (!rows_of_classes(x) || !loss_reduction_is(reduction, x)) return NULL;
    if (dtype_info[kiln_tensor_dtype(labels)].kind != KIND_INT)
        error_set(KILN_E_DTYPE, "labels must be integers, it is %s", type_of(labels).s);
    else if (!same_shape(x, labels))
        error_set(KILN_E_SHAPE, "labels is %s, x is %s; they must be the same", type_of(labels).s, type_of(x).s);
    if (error_pending) return NULL;
    int64_t classes = kiln_dims(x)[1];
    kiln_dtype dtype = kiln_tensor_dtype(x);
    kiln_tensor *wide = kiln_cast(labels, KILN_I64), *none = kiln_scalar_int(0);
    kiln_tensor *ended = kiln_cumsum(kiln_less(wide, none), 1), *counts = kiln_equal(ended, none);
    kiln_tensor *index = kiln_where(counts, wide, none), *weight = kiln_cast(counts, dtype);
    kiln_tensor *hot = kiln_mul(at_label(index, classes, dtype), kiln_unsqueeze(weight, 2)); // [N, label, class]
    kiln_tensor *others = kiln_sub(kiln_scalar(1), kiln_max(hot, KILN_REDUCE(.axes = KILN_AXES(1))));
    kiln_tensor *own = kiln_unsqueeze(kiln_gather(x, 1, index), 2);
    kiln_tensor *t = loss_above(kiln_add(kiln_sub(kiln_unsqueeze(x, 1), own), kiln_scalar(1)));
    t = kiln_mul(kiln_mul(t, kiln_unsqueeze(others, 1)), kiln_unsqueeze(weight, 2));
    t = kiln_div(kiln_sum(t, KILN_REDUCE(.axes = KILN_AXES(1, 2))), kiln_scalar((double)classes));
    return loss_reduce(t, reduction);
}

// The mean over classes of the binary cross entropy of logits.
kiln_tensor *compose_loss_multilabel_soft_margin(kiln_tensor *x, kiln_tensor *target, kiln_tensor *weight,
                                                 int64_t reduction)
{
    if (!loss_fits("target", target, x, reduction) || (weight && !loss_fits("weight", weight, x, reduction)))
        return NULL;
    if (kiln_rank(x) == 0) error_set(KILN_E_SHAPE, "x has no classes: it is %s", type_of(x).s);
    kiln_tensor *t = kiln_bce_with_logits(x, target);
    if (weight) t = kiln_mul(t, weight);
    return loss_reduce(kiln_mean(t, KILN_REDUCE(.axes = KILN_AXES(-1))), reduction);
}
