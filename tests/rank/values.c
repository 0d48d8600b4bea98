// Elementwise ops, reductions, what goes along an axis, views.
#include "rank.h"
#include <math.h>

// --- elementwise

RUN(mul_add)
{
    return kiln_add(kiln_mul(in[0], in[1]), in[2]);
}
WANT(mul_add)
{
    int64_t dims[KILN_MAX_RANK], i[KILN_MAX_RANK];
    for (int d = 0; d < rank; d++) dims[d] = in[0].dims[d] * in[1].dims[d];
    struct array out = array_new(rank, dims);
    EACH(&out, i) * array_at(&out, rank, i) = at(&in[0], rank, i) * at(&in[1], rank, i) + at(&in[2], rank, i);
    return out;
}

RUN(where)
{
    return kiln_where(kiln_less(in[0], in[1]), kiln_tanh(in[2]), kiln_scalar(0.5));
}
WANT(where)
{
    int64_t i[KILN_MAX_RANK];
    struct array out = array_new(rank, in[2].dims);
    EACH(&out, i)
    *array_at(&out, rank, i) = at(&in[0], rank, i) < at(&in[1], rank, i) ? tanh(at(&in[2], rank, i)) : 0.5;
    return out;
}

// --- reductions

enum fold { FOLD_SUM, FOLD_MAX, FOLD_PROD };

// Over the axes of the mask, which stay with size 1.
static struct array fold(const struct array *x, uint32_t mask, enum fold how)
{
    int64_t dims[KILN_MAX_RANK], i[KILN_MAX_RANK];
    for (int d = 0; d < x->rank; d++) dims[d] = mask >> d & 1 ? 1 : x->dims[d];
    struct array out = array_new(x->rank, dims);
    for (int64_t k = 0; k < out.n; k++) out.v[k] = how == FOLD_SUM ? 0 : how == FOLD_MAX ? -INFINITY : 1;
    EACH(x, i)
    {
        double *to = array_at(&out, x->rank, i), v = at(x, x->rank, i);
        *to = how == FOLD_SUM ? *to + v : how == FOLD_MAX ? fmax(*to, v) : *to * v;
    }
    return out;
}

static uint32_t axes_from(int first, int rank, int64_t *axes, size_t *n)
{
    uint32_t mask = 0;
    *n = 0;
    for (int d = first; d < rank; d += 2) {
        mask |= 1u << d;
        axes[(*n)++] = d % 4 < 2 ? d : d - rank;
    }
    return mask;
}

RUN(sum)
{
    int64_t axes[KILN_MAX_RANK];
    size_t n;
    axes_from(0, rank, axes, &n);
    return kiln_sum(in[0], KILN_REDUCE(.axes = {n, axes}));
}
WANT(sum)
{
    int64_t axes[KILN_MAX_RANK];
    size_t n;
    uint32_t mask = axes_from(0, rank, axes, &n);
    struct array out = fold(&in[0], mask, FOLD_SUM);
    array_drop_axes(&out, mask);
    return out;
}

RUN(max)
{
    int64_t axes[KILN_MAX_RANK];
    size_t n;
    axes_from(1, rank, axes, &n);
    return kiln_max(in[0], KILN_REDUCE(.axes = {n, axes}, .keepdims = true));
}
WANT(max)
{
    int64_t axes[KILN_MAX_RANK];
    size_t n;
    return fold(&in[0], axes_from(1, rank, axes, &n), FOLD_MAX);
}

// Of a product that is broadcast, so that in a graph both are one kernel.
RUN(sum_of_product)
{
    int64_t axes[KILN_MAX_RANK];
    size_t n;
    axes_from(1, rank, axes, &n);
    return kiln_mean(kiln_mul(in[0], in[1]), KILN_REDUCE(.axes = {n, axes}, .keepdims = true));
}
WANT(sum_of_product)
{
    int64_t axes[KILN_MAX_RANK], i[KILN_MAX_RANK], dims[KILN_MAX_RANK];
    size_t n;
    for (int d = 0; d < rank; d++) dims[d] = in[0].dims[d] * in[1].dims[d];
    struct array product = array_new(rank, dims);
    EACH(&product, i) * array_at(&product, rank, i) = at(&in[0], rank, i) * at(&in[1], rank, i);
    struct array out = fold(&product, axes_from(1, rank, axes, &n), FOLD_SUM);
    for (int64_t k = 0; k < out.n; k++) out.v[k] /= (double)(product.n / out.n);
    return out;
}

RUN(var)
{
    int64_t axes[KILN_MAX_RANK];
    size_t n;
    axes_from(2, rank, axes, &n);
    return kiln_var(in[0], KILN_VAR(.axes = {n, axes}, .keepdims = true));
}
WANT(var)
{
    int64_t axes[KILN_MAX_RANK], i[KILN_MAX_RANK];
    size_t n;
    uint32_t mask = axes_from(2, rank, axes, &n);
    struct array mean = fold(&in[0], mask, FOLD_SUM), out = array_new(rank, mean.dims);
    double count = (double)(in[0].n / mean.n);
    EACH(&in[0], i)
    {
        double by = at(&in[0], rank, i) - at(&mean, rank, i) / count;
        *array_at(&out, rank, i) += by * by / count;
    }
    return out;
}

RUN(prod)
{
    return kiln_prod(in[0], KILN_REDUCE(.axes = KILN_AXES(0, rank / 2)));
}
WANT(prod)
{
    uint32_t mask = 1u | 1u << rank / 2;
    struct array out = fold(&in[0], mask, FOLD_PROD);
    array_drop_axes(&out, mask);
    return out;
}

RUN(argmax)
{
    return kiln_argmax(in[0], KILN_REDUCE(.axes = KILN_AXES(rank / 2)));
}
WANT(argmax)
{
    int64_t i[KILN_MAX_RANK], axis = rank / 2;
    struct array best = fold(&in[0], 1u << axis, FOLD_MAX), out = array_new(rank, best.dims);
    EACH(&in[0], i)
    if (at(&in[0], rank, i) == at(&best, rank, i)) *array_at(&out, rank, i) = (double)i[axis];
    array_drop_axes(&out, 1u << axis);
    return out;
}

// --- along an axis

// Across the other axes the rows lie in another order than they are read.
RUN(softmax)
{
    return kiln_softmax(kiln_transpose(in[0], 1, -1), rank / 2);
}
WANT(softmax)
{
    int64_t i[KILN_MAX_RANK], j[KILN_MAX_RANK], dims[KILN_MAX_RANK], last = rank - 1;
    for (int d = 0; d < rank; d++) dims[d] = in[0].dims[d == 1 ? last : d == last ? 1 : d];
    struct array out = array_new(rank, dims);
    EACH(&out, i)
    {
        for (int d = 0; d < rank; d++) j[d] = i[d == 1 ? last : d == last ? 1 : d];
        *array_at(&out, rank, i) = exp(at(&in[0], rank, j));
    }
    struct array sum = fold(&out, 1u << rank / 2, FOLD_SUM);
    EACH(&out, i) * array_at(&out, rank, i) /= at(&sum, rank, i);
    return out;
}

RUN(layer_norm)
{
    return kiln_layer_norm(in[0], rank - 2, KILN_LAYER_NORM(.eps = 0.25));
}
WANT(layer_norm)
{
    int64_t i[KILN_MAX_RANK];
    uint32_t mask = (1u << rank) - 4;
    struct array out = array_new(rank, in[0].dims), mean = fold(&in[0], mask, FOLD_SUM);
    double count = (double)(in[0].n / mean.n);
    EACH(&out, i) * array_at(&out, rank, i) = pow(at(&in[0], rank, i) - at(&mean, rank, i) / count, 2);
    struct array var = fold(&out, mask, FOLD_SUM);
    EACH(&out, i)
    *array_at(&out, rank, i) =
        (at(&in[0], rank, i) - at(&mean, rank, i) / count) / sqrt(at(&var, rank, i) / count + 0.25);
    return out;
}

RUN(cumsum)
{
    return kiln_cumsum(in[0], rank / 2);
}
WANT(cumsum)
{
    int64_t i[KILN_MAX_RANK], axis = rank / 2;
    struct array out = array_new(rank, in[0].dims);
    EACH(&out, i)
    {
        double sum = at(&in[0], rank, i);
        if (i[axis]--) sum += at(&out, rank, i);
        i[axis]++;
        *array_at(&out, rank, i) = sum;
    }
    return out;
}

RUN(sort)
{
    kiln_tensor *values, *indices;
    return kiln_sort(in[0], rank / 2, true, &values, &indices) ? NULL : values;
}
WANT(sort)
{
    int64_t i[KILN_MAX_RANK], j[KILN_MAX_RANK], axis = rank / 2, size = in[0].dims[axis];
    struct array out = array_new(rank, in[0].dims);
    EACH(&out, i)
    {
        for (int d = 0; d < rank; d++) j[d] = i[d];
        for (int64_t k = 0; k < size; k++) { // how many of the line are larger
            int64_t larger = 0;
            j[axis] = k;
            double v = at(&in[0], rank, j);
            for (j[axis] = 0; j[axis] < size; j[axis]++) larger += at(&in[0], rank, j) > v;
            if (larger == i[axis]) *array_at(&out, rank, i) = v;
        }
    }
    return out;
}

// --- views

// Even axes, then odd ones, from the last on.
static void shuffle(int rank, int64_t *axes)
{
    int n = 0;
    for (int odd = 0; odd < 2; odd++)
        for (int d = rank - 1; d >= 0; d--)
            if (d % 2 == odd) axes[n++] = d;
}

static struct array permuted(const struct array *x, const int64_t *axes)
{
    int64_t dims[KILN_MAX_RANK], i[KILN_MAX_RANK], j[KILN_MAX_RANK];
    for (int d = 0; d < x->rank; d++) dims[d] = x->dims[axes[d]];
    struct array out = array_new(x->rank, dims);
    EACH(&out, i)
    {
        for (int d = 0; d < x->rank; d++) j[axes[d]] = i[d];
        *array_at(&out, x->rank, i) = at(x, x->rank, j);
    }
    return out;
}

RUN(permute)
{
    int64_t axes[KILN_MAX_RANK];
    shuffle(rank, axes);
    return kiln_contiguous(kiln_permute(in[0], (kiln_ints){(size_t)rank, axes}));
}
WANT(permute)
{
    int64_t axes[KILN_MAX_RANK];
    shuffle(rank, axes);
    return permuted(&in[0], axes);
}

RUN(reversed)
{
    kiln_tensor *y = kiln_permute(kiln_mul(in[0], in[0]), KILN_AXES0);
    return kiln_add(kiln_reshape(y, KILN_SHAPE(-1)), kiln_reshape(in[0], KILN_SHAPE(-1)));
}
WANT(reversed)
{
    int64_t axes[KILN_MAX_RANK];
    for (int d = 0; d < rank; d++) axes[d] = rank - 1 - d;
    struct array out = permuted(&in[0], axes);
    for (int64_t k = 0; k < out.n; k++) out.v[k] = out.v[k] * out.v[k] + in[0].v[k];
    out.rank = 1, out.dims[0] = out.n;
    return out;
}

// Odd axes backwards; of the middle one every second element.
RUN(slice)
{
    int64_t start[KILN_MAX_RANK], step[KILN_MAX_RANK];
    for (int d = 0; d < rank; d++) {
        start[d] = d % 2 ? KILN_END : 0;
        step[d] = d % 2 ? -1 : 1;
    }
    start[rank / 2] = 0, step[rank / 2] = 2;
    return kiln_neg(kiln_slice(in[0], KILN_SLICE(.start = {(size_t)rank, start}, .step = {(size_t)rank, step})));
}
WANT(slice)
{
    int64_t dims[KILN_MAX_RANK], i[KILN_MAX_RANK], j[KILN_MAX_RANK];
    for (int d = 0; d < rank; d++) dims[d] = 2;
    struct array out = array_new(rank, dims);
    EACH(&out, i)
    {
        for (int d = 0; d < rank; d++) j[d] = d == rank / 2 ? 2 * i[d] : d % 2 ? 1 - i[d] : i[d];
        *array_at(&out, rank, i) = -at(&in[0], rank, j);
    }
    return out;
}

// The first element of axis 1, put back between others with a stride of 0; the last axis without its first.
RUN(parts)
{
    int64_t dims[KILN_MAX_RANK];
    for (int d = 0; d < rank; d++) dims[d] = d == 1 ? 3 : -1;
    kiln_tensor *x = kiln_expand(kiln_unsqueeze(kiln_select(in[0], 1, 0), 1), (size_t)rank, dims);
    return kiln_exp(kiln_squeeze(kiln_narrow(kiln_flip(x, KILN_AXES(0)), -1, 1, 1), KILN_AXES(-1)));
}
WANT(parts)
{
    int64_t dims[KILN_MAX_RANK], i[KILN_MAX_RANK];
    for (int d = 0; d < rank; d++) dims[d] = d == 1 ? 3 : in[0].dims[d];
    dims[rank - 1] = 1;
    struct array out = array_new(rank, dims);
    EACH(&out, i)
    {
        int64_t j[KILN_MAX_RANK];
        for (int d = 0; d < rank; d++) j[d] = d == 0 ? 1 - i[0] : d == 1 ? 0 : d == rank - 1 ? 1 : i[d];
        *array_at(&out, rank, i) = exp(at(&in[0], rank, j));
    }
    array_drop_axes(&out, 1u << (rank - 1));
    return out;
}

RUN(diagonal)
{
    return kiln_abs(kiln_diagonal(in[0], 1, 0, rank / 2));
}
WANT(diagonal)
{
    int64_t dims[KILN_MAX_RANK], i[KILN_MAX_RANK];
    int n = 0;
    for (int d = 1; d < rank; d++)
        if (d != rank / 2) dims[n++] = 2;
    dims[n++] = 2;
    struct array out = array_new(n, dims);
    EACH(&out, i)
    {
        int64_t j[KILN_MAX_RANK];
        for (int d = 1, k = 0; d < rank; d++)
            if (d != rank / 2) j[d] = i[k++];
        j[0] = i[n - 1], j[rank / 2] = i[n - 1] + 1;
        *array_at(&out, n, i) = fabs(at(&in[0], rank, j));
    }
    return out;
}

// A row of as many dimensions as there are.
RUN(fold_all)
{
    int64_t axes[KILN_MAX_RANK];
    shuffle(rank, axes);
    return kiln_logsumexp(kiln_permute(in[0], (kiln_ints){(size_t)rank, axes}), NULL);
}
WANT(fold_all)
{
    struct array out = array_new(0, NULL);
    for (int64_t k = 0; k < in[0].n; k++) *out.v += exp(in[0].v[k]);
    *out.v = log(*out.v);
    return out;
}
