// Softmax and normalisation; the gradients by their Jacobians, element by element.
#include "reference/structured.h"

struct lines lines_of(const struct host *h, int axis)
{
    struct lines l = {1, 1, 1};
    for (int i = 0; i < h->rank; i++) *(i < axis ? &l.outer : i == axis ? &l.length : &l.inner) *= h->dims[i];
    return l;
}

struct host reference_softmax(const struct host *x, int axis, bool log, int dtype)
{
    struct host y = host_new(dtype, x->rank, x->dims);
    struct lines l = lines_of(x, axis);
    for (int64_t o = 0; o < l.outer; o++)
        for (int64_t i = 0; i < l.inner; i++) {
            long double largest = -INFINITY, sum = 0;
            for (int64_t k = 0; k < l.length; k++) {
                long double v = x->v[line_at(&l, o, i, k)];
                largest = isnan(v) || isnan(largest) ? NAN : fmaxl(largest, v);
            }
            for (int64_t k = 0; k < l.length; k++) sum += expl(x->v[line_at(&l, o, i, k)] - largest);
            for (int64_t k = 0; k < l.length; k++) {
                long double v = x->v[line_at(&l, o, i, k)] - largest;
                y.v[line_at(&l, o, i, k)] = log ? v - logl(sum) : expl(v) / sum;
            }
        }
    return y;
}

// softmax: dy_j/dx_i = y_j ([i = j] - y_i); its logarithm: [i = j] - exp(y_i).
struct host reference_softmax_backward(const struct host *y, const struct host *dy, int axis, bool log, int dtype,
                                       struct host *scale)
{
    struct host dx = host_new(dtype, y->rank, y->dims);
    *scale = host_new(dtype, y->rank, y->dims);
    struct lines l = lines_of(y, axis);
    for (int64_t o = 0; o < l.outer; o++)
        for (int64_t i = 0; i < l.inner; i++)
            for (int64_t k = 0; k < l.length; k++) {
                long double yk = y->v[line_at(&l, o, i, k)], sum = 0, size = 0;
                for (int64_t j = 0; j < l.length; j++) {
                    long double yj = y->v[line_at(&l, o, i, j)], d = dy->v[line_at(&l, o, i, j)];
                    long double term = log ? (j == k) - expl(yk) : yj * ((j == k) - yk);
                    sum += term * d;
                    size += fabsl(term * d) + (j == k ? fabsl(log ? d : yk * d) : 0);
                }
                dx.v[line_at(&l, o, i, k)] = sum;
                scale->v[line_at(&l, o, i, k)] = size;
            }
    return dx;
}

int64_t normed_at(const struct normed *n, int64_t set, int64_t member)
{
    if (!n->by_channel) return set * n->members + member;
    struct lines l = lines_of(n->x, n->x->rank > 1 ? 1 : 0);
    return line_at(&l, member / l.inner, member % l.inner, set);
}

static long double affine(const struct normed *n, const struct host *h, int64_t set, int64_t member,
                          long double fallback)
{
    if (!h) return fallback;
    return h->rank == 0 ? h->v[0] : h->v[n->by_channel ? set : member];
}

static void statistics(const struct normed *n, int64_t set, long double *mean, long double *var)
{
    *mean = *var = 0;
    for (int64_t k = 0; k < n->members; k++) *mean += n->x->v[normed_at(n, set, k)] / n->members;
    for (int64_t k = 0; k < n->members; k++) {
        long double d = n->x->v[normed_at(n, set, k)] - *mean;
        *var += d * d / n->members;
    }
}

struct host reference_norm(const struct normed *n, int dtype, struct host *mean, struct host *var)
{
    struct host y = host_new(dtype, n->x->rank, n->x->dims);
    if (mean) *mean = host_new(dtype, 1, &n->sets);
    if (var) *var = host_new(dtype, 1, &n->sets);
    for (int64_t s = 0; s < n->sets; s++) {
        long double m, v;
        statistics(n, s, &m, &v);
        if (mean) mean->v[s] = m;
        if (var) var->v[s] = v;
        for (int64_t k = 0; k < n->members; k++) {
            int64_t at = normed_at(n, s, k);
            y.v[at] =
                (n->x->v[at] - m) / sqrtl(v + n->eps) * affine(n, n->weight, s, k, 1) + affine(n, n->bias, s, k, 0);
        }
    }
    return y;
}

// With c = x - mean, r = 1 / sqrt(var + eps): dy_j/dx_i = w_j r ([i = j] - 1/n - c_i c_j r^2 / n).
struct host reference_norm_backward(const struct normed *n, const struct host *dy, int dtype, struct host *scale)
{
    struct host dx = host_new(dtype, n->x->rank, n->x->dims);
    *scale = host_new(dtype, n->x->rank, n->x->dims);
    for (int64_t s = 0; s < n->sets; s++) {
        long double m, v;
        statistics(n, s, &m, &v);
        long double r = 1 / sqrtl(v + n->eps);
        for (int64_t i = 0; i < n->members; i++) {
            long double sum = 0, size = 0;
            for (int64_t j = 0; j < n->members; j++) {
                int64_t at = normed_at(n, s, j);
                long double ci = n->x->v[normed_at(n, s, i)] - m, cj = n->x->v[at] - m,
                            w = affine(n, n->weight, s, j, 1) * r * dy->v[at];
                sum += w * ((i == j) - (1 + ci * cj * r * r) / n->members);
                size += fabsl(w) * ((i == j) + (1 + fabsl(ci * cj) * r * r) / n->members);
            }
            dx.v[normed_at(n, s, i)] = sum;
            scale->v[normed_at(n, s, i)] = size;
        }
    }
    return dx;
}
