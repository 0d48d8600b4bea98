// Losses of pairs and triples of vectors.
#include "compose/losses.h"

kiln_tensor *compose_loss_margin_ranking(kiln_tensor *a, kiln_tensor *b, kiln_tensor *target, double margin,
                                         int64_t reduction)
{
    kiln_tensor *difference = kiln_sub(a, b);
    if (error_pending || !loss_fits("target", target, difference, reduction)) return NULL;
    kiln_tensor *t = kiln_sub(kiln_scalar(margin), kiln_mul(difference, target));
    return loss_reduce(loss_above(t), reduction);
}

static const kiln_reduce_opts *last_axis(void)
{
    static const int64_t axis[] = {-1};
    static const kiln_reduce_opts o = {.size = sizeof o, .axes = {1, axis}};
    return &o;
}

// sum(a b) / (|a| |b|) along the last axis; squares of norms below eps^2 count as it.
static kiln_tensor *cosine(kiln_tensor *a, kiln_tensor *b)
{
    kiln_tensor *least = kiln_scalar(1e-12), *ab = kiln_sum(kiln_mul(a, b), last_axis());
    kiln_tensor *aa = kiln_maximum(kiln_sum(kiln_square(a), last_axis()), least);
    kiln_tensor *bb = kiln_maximum(kiln_sum(kiln_square(b), last_axis()), least);
    return kiln_div(ab, kiln_mul(kiln_sqrt(aa), kiln_sqrt(bb)));
}

static bool vectors(const char *name, const kiln_tensor *t)
{
    if (!error_pending && kiln_rank(t) == 0) error_set(KILN_E_SHAPE, "%s is a number, it must be vectors", name);
    return !error_pending;
}

kiln_tensor *compose_loss_cosine_embedding(kiln_tensor *a, kiln_tensor *b, kiln_tensor *target, double margin,
                                           int64_t reduction)
{
    if (!vectors("a", a) || !vectors("b", b)) return NULL;
    kiln_tensor *c = cosine(a, b);
    if (error_pending || !loss_fits("target", target, c, reduction)) return NULL;
    kiln_tensor *apart = loss_above(kiln_sub(c, kiln_scalar(margin)));
    kiln_tensor *near = kiln_sub(kiln_scalar(1), c);
    return loss_reduce(kiln_where(kiln_greater(target, kiln_scalar(0)), near, apart), reduction);
}

static kiln_tensor *distance(kiln_tensor *a, kiln_tensor *b, const kiln_loss_triplet_margin_opts *o)
{
    kiln_tensor *d = kiln_add(kiln_sub(a, b), kiln_scalar(o->eps));
    return kiln_norm(d, KILN_NORM(.axes = KILN_AXES(-1), .ord = o->p));
}

kiln_tensor *compose_loss_triplet_margin(kiln_tensor *anchor, kiln_tensor *positive, kiln_tensor *negative,
                                         const kiln_loss_triplet_margin_opts *o)
{
    if (!vectors("anchor", anchor) || !vectors("positive", positive) || !vectors("negative", negative)) return NULL;
    if (!loss_positive("p", o->p, false) || !loss_positive("margin", o->margin, true)) return NULL;
    kiln_tensor *near = distance(anchor, positive, o), *far = distance(anchor, negative, o);
    if (o->swap) far = kiln_minimum(far, distance(positive, negative, o));
    kiln_tensor *t = loss_above(kiln_add(kiln_sub(near, far), kiln_scalar(o->margin)));
    return error_pending || !loss_reduction_is(o->reduction, t) ? NULL : loss_reduce(t, o->reduction);
}

static kiln_tensor *unit(kiln_tensor *t)
{
    kiln_tensor *square = kiln_sum(kiln_square(t), KILN_REDUCE(.axes = KILN_AXES(-1), .keepdims = true));
    return kiln_mul(t, kiln_rsqrt(kiln_maximum(square, kiln_scalar(1e-12))));
}

// The cross entropy of the similarities of each query to all keys, over the temperature; its own key is the label.
kiln_tensor *compose_loss_info_nce(kiln_tensor *queries, kiln_tensor *keys, double temperature, int64_t reduction)
{
    if (kiln_rank(queries) != 2 || kiln_rank(keys) != 2 || kiln_dims(queries)[1] != kiln_dims(keys)[1] ||
        kiln_dims(keys)[0] < kiln_dims(queries)[0])
        error_set(KILN_E_SHAPE, "queries must be [N, D] and keys [M, D], M at least N; they are %s and %s",
                  type_of(queries).s, type_of(keys).s);
    if (!loss_positive("temperature", temperature, false) || !loss_reduction_is(reduction, queries)) return NULL;
    kiln_tensor *scores = kiln_matmul(unit(queries), kiln_transpose(unit(keys), 0, 1));
    kiln_tensor *log_p = kiln_log_softmax(kiln_div(scores, kiln_scalar(temperature)), 1);
    return loss_reduce(kiln_neg(kiln_diagonal(log_p, 0, 0, 1)), reduction);
}
