// Metrics of classes, from their confusion matrix, and of numbers.
#include "compose/composite.h"
#include "base/dtype.h"

#include <kiln/grad.h>
#include <math.h>
#include <string.h>

static const kiln_reduce_opts *axis_opts(const int64_t *axis)
{
    static const int64_t rows[] = {0}, cols[] = {1};
    static const kiln_reduce_opts over_rows = {.size = sizeof over_rows, .axes = {1, rows}};
    static const kiln_reduce_opts over_cols = {.size = sizeof over_cols, .axes = {1, cols}};
    return *axis ? &over_cols : &over_rows;
}

static bool same_shape(const kiln_tensor *a, const kiln_tensor *b)
{
    bool same = kiln_rank(a) == kiln_rank(b);
    for (size_t i = 0; same && i < kiln_rank(a); i++) same = kiln_dims(a)[i] == kiln_dims(b)[i];
    return same;
}

static bool is_integer(const kiln_tensor *t)
{
    kiln_dtype dtype = kiln_tensor_dtype(t);
    return dtype == KILN_BOOL || dtype_info[dtype].kind == KIND_INT;
}

// Integers of the same shape.
static bool classes_fit(kiln_tensor *predictions, kiln_tensor *labels)
{
    if (error_pending) return false;
    if (!is_integer(predictions) || !is_integer(labels))
        error_set(KILN_E_DTYPE, "predictions and labels must be integers, they are %s and %s", type_of(predictions).s,
                  type_of(labels).s);
    else if (!same_shape(predictions, labels))
        error_set(KILN_E_SHAPE, "predictions is %s, labels is %s; they must be the same", type_of(predictions).s,
                  type_of(labels).s);
    return !error_pending;
}

kiln_tensor *compose_accuracy(kiln_tensor *scores, kiln_tensor *labels, int64_t k)
{
    size_t rank = kiln_rank(scores);
    bool fits = rank >= 1 && kiln_rank(labels) == rank - 1;
    for (size_t i = 0; fits && i + 1 < rank; i++) fits = kiln_dims(scores)[i] == kiln_dims(labels)[i];
    if (!fits || !is_integer(labels))
        error_set(fits ? KILN_E_DTYPE : KILN_E_SHAPE,
                  "scores must be [..., C] and labels integers [...], they are %s and %s", type_of(scores).s,
                  type_of(labels).s);
    else if (k < 1 || k > kiln_dims(scores)[rank - 1])
        error_set(KILN_E_ARGUMENT, "k is %lld, there are %lld classes", (long long)k,
                  (long long)kiln_dims(scores)[rank - 1]);
    if (error_pending) return NULL;
    kiln_tensor *values, *places, *own = kiln_unsqueeze(kiln_cast(labels, KILN_I64), -1);
    kiln_topk(kiln_stop_gradient(scores), k, -1, true, &values, &places);
    kiln_tensor *hits = kiln_any(kiln_equal(places, own), KILN_REDUCE(.axes = KILN_AXES(-1)));
    return kiln_mean(kiln_cast(hits, KILN_F32), NULL);
}

// i64 [C, C]: row: the label, column: the prediction.
static kiln_tensor *counts_of(kiln_tensor *predictions, kiln_tensor *labels, int64_t classes)
{
    if (!classes_fit(predictions, labels)) return NULL;
    if (classes < 1 || classes > INT32_MAX) {
        error_set(KILN_E_ARGUMENT, "there are %lld classes", (long long)classes);
        return NULL;
    }
    kiln_tensor *p = kiln_reshape(kiln_cast(predictions, KILN_I64), KILN_SHAPE(-1));
    kiln_tensor *l = kiln_reshape(kiln_cast(labels, KILN_I64), KILN_SHAPE(-1)), *zero = kiln_scalar_int(0);
    kiln_tensor *n = kiln_scalar_int(classes), *outside = kiln_scalar_int(classes * classes);
    kiln_tensor *sound = kiln_logical_and(kiln_logical_and(kiln_greater_equal(p, zero), kiln_less(p, n)),
                                          kiln_logical_and(kiln_greater_equal(l, zero), kiln_less(l, n)));
    kiln_tensor *at = kiln_where(sound, kiln_add(kiln_mul(l, n), p), outside);
    kiln_tensor *none = kiln_zeros(kiln_tensor_device(at), KILN_I64, KILN_SHAPE(classes * classes));
    return kiln_reshape(kiln_scatter_add(none, 0, at, kiln_ones_like(at)), KILN_SHAPE(classes, classes));
}

// a / b, 0 where b is.
static kiln_tensor *share(kiln_tensor *a, kiln_tensor *b)
{
    kiln_tensor *zero = kiln_scalar(0), *none = kiln_equal(b, zero);
    return kiln_where(none, zero, kiln_div(a, kiln_where(none, kiln_scalar(1), b)));
}

kiln_tensor *compose_confusion_matrix(kiln_tensor *predictions, kiln_tensor *labels, int64_t classes,
                                      const kiln_confusion_matrix_opts *o)
{
    const char *by = o->normalize ? o->normalize : "";
    kiln_tensor *counts = counts_of(predictions, labels, classes);
    if (error_pending || !by[0]) return counts;
    kiln_tensor *n = kiln_cast(counts, KILN_F32);
    if (!strcmp(by, "true")) return share(n, kiln_sum(n, KILN_REDUCE(.axes = KILN_AXES(1), .keepdims = true)));
    if (!strcmp(by, "pred")) return share(n, kiln_sum(n, KILN_REDUCE(.axes = KILN_AXES(0), .keepdims = true)));
    if (!strcmp(by, "all")) return share(n, kiln_sum(n, NULL));
    error_set(KILN_E_ARGUMENT, "normalize is \"%s\", it must be \"true\", \"pred\" or \"all\"", by);
    return NULL;
}

struct score {
    kiln_tensor *hits, *predicted, *labelled; // f32 [C]
};

static struct score score_of(kiln_tensor *predictions, kiln_tensor *labels, int64_t classes)
{
    kiln_tensor *n = kiln_cast(counts_of(predictions, labels, classes), KILN_F32);
    return (struct score){kiln_diagonal(n, 0, 0, 1), kiln_sum(n, axis_opts(&(int64_t){0})),
                          kiln_sum(n, axis_opts(&(int64_t){1}))};
}

// (1 + b^2) hits / (b^2 labelled + predicted): recall for b = INFINITY, precision for b = 0.
static kiln_tensor *ratio(const struct score *s, double beta)
{
    if (beta == 0) return share(s->hits, s->predicted);
    if (beta == INFINITY) return share(s->hits, s->labelled);
    double square = beta * beta;
    kiln_tensor *below = kiln_add(kiln_mul(s->labelled, kiln_scalar(square)), s->predicted);
    return share(kiln_mul(s->hits, kiln_scalar(1 + square)), below);
}

static kiln_tensor *averaged(struct score s, double beta, const char *average)
{
    const char *how = average ? average : "macro";
    if (error_pending) return NULL;
    if (!strcmp(how, "none")) return ratio(&s, beta);
    if (!strcmp(how, "macro")) return kiln_mean(ratio(&s, beta), NULL);
    if (!strcmp(how, "weighted"))
        return share(kiln_sum(kiln_mul(ratio(&s, beta), s.labelled), NULL), kiln_sum(s.labelled, NULL));
    if (!strcmp(how, "micro")) {
        s = (struct score){kiln_sum(s.hits, NULL), kiln_sum(s.predicted, NULL), kiln_sum(s.labelled, NULL)};
        return ratio(&s, beta);
    }
    error_set(KILN_E_ARGUMENT, "average is \"%s\", it must be \"macro\", \"micro\", \"weighted\" or \"none\"", how);
    return NULL;
}

kiln_tensor *compose_precision(kiln_tensor *predictions, kiln_tensor *labels, int64_t classes,
                               const kiln_precision_opts *o)
{
    return averaged(score_of(predictions, labels, classes), 0, o->average);
}

kiln_tensor *compose_recall(kiln_tensor *predictions, kiln_tensor *labels, int64_t classes,
                            const kiln_precision_opts *o)
{
    return averaged(score_of(predictions, labels, classes), INFINITY, o->average);
}

kiln_tensor *compose_f_score(kiln_tensor *predictions, kiln_tensor *labels, int64_t classes, const kiln_f_score_opts *o)
{
    if (!(o->beta > 0 && o->beta < INFINITY)) error_set(KILN_E_ARGUMENT, "beta is %g, it must be positive", o->beta);
    return averaged(score_of(predictions, labels, classes), o->beta, o->average);
}

kiln_tensor *compose_iou(kiln_tensor *predictions, kiln_tensor *labels, int64_t classes)
{
    struct score s = score_of(predictions, labels, classes);
    return share(s.hits, kiln_sub(kiln_add(s.predicted, s.labelled), s.hits));
}

kiln_tensor *compose_perplexity(kiln_tensor *logits, kiln_tensor *labels, const kiln_perplexity_opts *o)
{
    return kiln_exp(
        kiln_cross_entropy(logits, labels, KILN_CROSS_ENTROPY(.ignore = o->ignore, .ignore_index = o->ignore_index)));
}

kiln_tensor *compose_r2_score(kiln_tensor *x, kiln_tensor *target)
{
    if (!error_pending && !same_shape(x, target))
        error_set(KILN_E_SHAPE, "x is %s, target is %s; they must be the same", type_of(x).s, type_of(target).s);
    kiln_tensor *rest = kiln_sum(kiln_squared_difference(x, target), NULL);
    kiln_tensor *all = kiln_sum(kiln_squared_difference(target, kiln_mean(target, NULL)), NULL);
    return kiln_sub(kiln_scalar(1), kiln_div(rest, all));
}

// The share of pairs of a positive and a negative sample in which the positive one has the higher score, equal ones
// counting half: from the ranks of the positive ones (H. B. Mann and D. R. Whitney, 1947). Equal scores share the mean
// of their ranks.
kiln_tensor *compose_auroc(kiln_tensor *scores, kiln_tensor *labels)
{
    if (!error_pending && (kiln_rank(scores) != 1 || !same_shape(scores, labels)))
        error_set(KILN_E_SHAPE, "scores and labels must be [N], they are %s and %s", type_of(scores).s,
                  type_of(labels).s);
    kiln_tensor *sorted, *places, *one = kiln_scalar(1);
    kiln_sort(kiln_stop_gradient(scores), 0, false, &sorted, &places);
    if (error_pending) return NULL;
    int64_t n = kiln_dims(sorted)[0];
    kiln_device *dev = kiln_tensor_device(sorted);
    kiln_tensor *is_positive = kiln_cast(kiln_not_equal(labels, kiln_scalar_int(0)), KILN_F64);
    kiln_tensor *positive = kiln_take(is_positive, 0, places);
    kiln_tensor *at = kiln_arange(dev, KILN_F64, 1, (double)n + 1, 1),
                *edge = kiln_ones(dev, KILN_BOOL, KILN_SHAPE(n > 0));
    int64_t inner = n > 0 ? n - 1 : 0;
    kiln_tensor *jumps = kiln_not_equal(kiln_narrow(sorted, 0, n - inner, inner), kiln_narrow(sorted, 0, 0, inner));
    kiln_tensor *begins = kiln_concat((kiln_tensor *[]){edge, jumps}, 2, 0);
    kiln_tensor *ends = kiln_concat((kiln_tensor *[]){jumps, edge}, 2, 0);
    kiln_tensor *first = kiln_cummax(kiln_where(begins, at, kiln_scalar(0)), 0);
    kiln_tensor *behind = kiln_flip(kiln_where(ends, at, kiln_scalar((double)n + 1)), KILN_AXES(0));
    kiln_tensor *last = kiln_flip(kiln_cummin(behind, 0), KILN_AXES(0));
    kiln_tensor *rank = kiln_mul(kiln_add(first, last), kiln_scalar(0.5));
    kiln_tensor *p = kiln_sum(positive, NULL), *q = kiln_sub(kiln_scalar((double)n), p);
    kiln_tensor *least = kiln_mul(kiln_mul(p, kiln_add(p, one)), kiln_scalar(0.5));
    kiln_tensor *wins = kiln_sub(kiln_sum(kiln_mul(rank, positive), NULL), least);
    return kiln_cast(kiln_div(wins, kiln_mul(p, q)), KILN_F32);
}
