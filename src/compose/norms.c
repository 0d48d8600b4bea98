// Normalisations of activations and of weights, and distances.
#include "compose/composite.h"

kiln_tensor *compose_instance_norm(kiln_tensor *x, const kiln_group_norm_opts *o)
{
    if (kiln_rank(x) < 3 || kiln_dims(x)[1] == 0) {
        error_set(KILN_E_SHAPE, "x must be [N,C,...] with channels and something behind them, it is %s", type_of(x).s);
        return NULL;
    }
    kiln_group_norm_opts opts = *o;
    opts.size = sizeof opts;
    if (opts.eps == 0) opts.eps = KILN_ZERO;
    return kiln_group_norm(x, kiln_dims(x)[1], &opts);
}

kiln_tensor *compose_local_response_norm(kiln_tensor *x, int64_t size, const kiln_local_response_norm_opts *o)
{
    if (kiln_rank(x) < 2 || size < 1) {
        error_set(size < 1 ? KILN_E_ARGUMENT : KILN_E_SHAPE,
                  "size must be positive and x have channels, got %lld and %s", (long long)size, type_of(x).s);
        return NULL;
    }
    int64_t channels = kiln_dims(x)[1];
    kiln_tensor *sum = NULL, *wide = kiln_pad(kiln_square(x), KILN_PAD(.before = KILN_ARGS(0, size / 2),
                                                                       .after = KILN_ARGS(0, (size - 1) / 2)));
    for (int64_t i = 0; i < size && !error_pending; i++) {
        kiln_tensor *part = kiln_narrow(wide, 1, i, channels);
        sum = sum ? kiln_add(sum, part) : part;
    }
    kiln_tensor *base = kiln_add(kiln_mul(sum, kiln_scalar(o->alpha / (double)size)), kiln_scalar(o->k));
    return kiln_mul(x, kiln_pow(base, kiln_scalar(-o->beta)));
}

static kiln_tensor *norm_along(kiln_tensor *x, int64_t axis, double p, bool keepdims)
{
    return kiln_norm(x, KILN_NORM(.axes = KILN_AXES(axis), .keepdims = keepdims, .ord = p));
}

kiln_tensor *compose_normalize(kiln_tensor *x, int64_t axis, const kiln_normalize_opts *o)
{
    return kiln_div(x, kiln_maximum(norm_along(x, axis, o->p, true), kiln_scalar(o->eps)));
}

kiln_tensor *compose_cosine_similarity(kiln_tensor *a, kiln_tensor *b, int64_t axis,
                                       const kiln_cosine_similarity_opts *o)
{
    kiln_tensor *both[2] = {a, b}, *product = kiln_mul(a, b);
    int at = error_pending ? -1 : composite_axis("axis", axis, kiln_rank(product), product);
    if (at < 0) return NULL;
    kiln_tensor *y = kiln_sum(product, KILN_REDUCE(.axes = KILN_AXES(at)));
    for (int i = 0; i < 2; i++) {
        kiln_tensor *wide = kiln_expand(both[i], kiln_rank(product), kiln_dims(product));
        y = kiln_div(y, kiln_maximum(norm_along(wide, at, 2, false), kiln_scalar(o->eps)));
    }
    return y;
}

kiln_tensor *compose_pairwise_distance(kiln_tensor *a, kiln_tensor *b, const kiln_pairwise_distance_opts *o)
{
    return norm_along(kiln_add(kiln_sub(a, b), kiln_scalar(o->eps)), -1, o->p, o->keepdims);
}

// |a|^2 + |b|^2 - 2 a b, and its root, which has no slope at 0.
static kiln_tensor *distance_by_products(kiln_tensor *a, kiln_tensor *b)
{
    const kiln_reduce_opts *rows = KILN_REDUCE(.axes = KILN_AXES(-1), .keepdims = true);
    kiln_tensor *of_a = kiln_sum(kiln_square(a), rows), *of_b = kiln_transpose(kiln_sum(kiln_square(b), rows), -2, -1);
    kiln_tensor *products = kiln_mul(kiln_matmul(a, kiln_transpose(b, -2, -1)), kiln_scalar(-2));
    kiln_tensor *square = kiln_add(kiln_add(products, of_a), of_b);
    kiln_tensor *apart = kiln_greater(square, kiln_scalar(0));
    return kiln_where(apart, kiln_sqrt(kiln_where(apart, square, kiln_scalar(1))), kiln_scalar(0));
}

kiln_tensor *compose_cdist(kiln_tensor *a, kiln_tensor *b, const kiln_cdist_opts *o)
{
    size_t rank = kiln_rank(a), of_b = kiln_rank(b);
    if (rank < 2 || of_b < 2 || kiln_dims(a)[rank - 1] != kiln_dims(b)[of_b - 1]) {
        error_set(KILN_E_SHAPE, "a and b must be rows of one size, a is %s, b is %s", type_of(a).s, type_of(b).s);
        return NULL;
    }
    if (o->p == 2 && (kiln_dims(a)[rank - 2] > 25 || kiln_dims(b)[of_b - 2] > 25)) return distance_by_products(a, b);
    return norm_along(kiln_sub(kiln_unsqueeze(a, -2), kiln_unsqueeze(b, -3)), -1, o->p, false);
}

// The norm over all axes but one, with 1 in their place.
static kiln_tensor *norm_but(kiln_tensor *v, int axis)
{
    int64_t axes[KILN_MAX_RANK];
    size_t n = 0;
    for (int i = 0; i < (int)kiln_rank(v); i++)
        if (i != axis) axes[n++] = i;
    if (!n) return kiln_abs(v);
    return kiln_norm(v, KILN_NORM(.axes = {n, axes}, .keepdims = true));
}

kiln_tensor *compose_weight_norm(kiln_tensor *v, kiln_tensor *g, int64_t axis)
{
    int at = composite_axis("axis", axis, kiln_rank(v), v);
    if (at < 0) return NULL;
    bool fits = kiln_rank(g) <= kiln_rank(v);
    for (size_t i = 0; fits && i < kiln_rank(g); i++) {
        size_t k = i + kiln_rank(v) - kiln_rank(g);
        fits = kiln_dims(g)[i] == ((int)k == at ? kiln_dims(v)[k] : 1);
    }
    if (!fits) {
        error_set(KILN_E_SHAPE, "g must have the size of axis %lld of v and 1 elsewhere, g is %s, v is %s",
                  (long long)axis, type_of(g).s, type_of(v).s);
        return NULL;
    }
    return kiln_mul(v, kiln_div(g, norm_but(v, at)));
}

// w as a matrix whose rows lie along an axis.
static kiln_tensor *rows_along(kiln_tensor *w, int axis)
{
    int64_t order[KILN_MAX_RANK] = {axis};
    size_t n = 1;
    for (int i = 0; i < (int)kiln_rank(w); i++)
        if (i != axis) order[n++] = i;
    return kiln_reshape(kiln_permute(w, (kiln_ints){n, order}), KILN_SHAPE(kiln_dims(w)[axis], -1));
}

static kiln_tensor *unit(kiln_tensor *x, double eps)
{
    return kiln_normalize(x, 0, KILN_NORMALIZE(.eps = eps ? eps : KILN_ZERO));
}

kiln_status compose_spectral_norm(kiln_tensor *w, kiln_tensor *u, kiln_tensor *v, int64_t axis,
                                  const kiln_spectral_norm_opts *o, kiln_tensor **y, kiln_tensor **u_next,
                                  kiln_tensor **v_next)
{
    int at = composite_axis("axis", axis, kiln_rank(w), w);
    if (at < 0) return error_pending;
    int64_t rows = kiln_dims(w)[at], columns = rows ? kiln_numel(w) / rows : 0;
    if (kiln_rank(u) != 1 || kiln_rank(v) != 1 || kiln_dims(u)[0] != rows || kiln_dims(v)[0] != columns)
        return error_set(KILN_E_SHAPE, "u must be [%lld] and v [%lld] for w %s, u is %s, v is %s", (long long)rows,
                         (long long)columns, type_of(w).s, type_of(u).s, type_of(v).s);
    kiln_tensor *matrix = rows_along(w, at), *still = kiln_stop_gradient(matrix);
    u = kiln_stop_gradient(u);
    v = kiln_stop_gradient(v);
    for (int64_t i = 0; i < o->iterations && !o->frozen && !error_pending; i++) {
        v = unit(kiln_matmul(u, still), o->eps);
        u = unit(kiln_matmul(still, v), o->eps);
    }
    *y = kiln_div(w, kiln_matmul(u, kiln_matmul(matrix, v)));
    *u_next = u;
    *v_next = v;
    return error_pending;
}
