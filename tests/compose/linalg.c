// What follows from factorisations: results in long double by other means, series and elimination.
#include "compose/case.h"
#include <string.h>

// Matrices of a batch.
static int64_t rows(const struct host *h)
{
    return h->dims[h->rank - 2];
}

static int64_t cols(const struct host *h)
{
    return h->dims[h->rank - 1];
}

// x / 16 + 2 I, as the cases below hand it to the ops: well conditioned.
static kiln_tensor *dominant(kiln_tensor *x)
{
    kiln_tensor *one = kiln_eye(kiln_tensor_device(x), kiln_tensor_dtype(x), kiln_dim(x, -2), kiln_dim(x, -1));
    return kiln_add(kiln_mul(x, kiln_scalar(0.0625)), kiln_mul(one, kiln_scalar(2)));
}

static struct host dominant_host(const struct host *x)
{
    struct host h = host_copy(x);
    for (int64_t i = 0; i < h.n; i++) h.v[i] = h.v[i] / 16 + (i / cols(x) % rows(x) == i % cols(x) ? 2 : 0);
    return h;
}

static void product(int64_t m, int64_t k, int64_t n, const long double *a, const long double *b, long double *out)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            long double sum = 0;
            for (int64_t l = 0; l < k; l++) sum += a[i * k + l] * b[l * n + j];
            out[i * n + j] = sum;
        }
}

// By Gauss and Jordan; the diagonal is the largest.
static void inverse(int64_t n, const long double *x, long double *out)
{
    long double a[64];
    memcpy(a, x, (size_t)(n * n) * sizeof a[0]);
    for (int64_t i = 0; i < n * n; i++) out[i] = i / n == i % n;
    for (int64_t k = 0; k < n; k++) {
        long double pivot = a[k * n + k];
        for (int64_t j = 0; j < n; j++) a[k * n + j] /= pivot, out[k * n + j] /= pivot;
        for (int64_t i = 0; i < n; i++) {
            long double f = a[i * n + k];
            for (int64_t j = 0; j < n && i != k; j++)
                a[i * n + j] -= f * a[k * n + j], out[i * n + j] -= f * out[k * n + j];
        }
    }
}

static void call_power(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_matrix_power(dominant(in[0]), 5);
}

static void power_of(const struct host *x, int n, struct host *out)
{
    int64_t size = cols(x);
    *out = host_copy(x);
    for (int64_t b = 0; b < x->n; b += size * size)
        for (int k = 1; k < n; k++) {
            long double t[64];
            product(size, size, size, out->v + b, x->v + b, t);
            memcpy(out->v + b, t, (size_t)(size * size) * sizeof t[0]);
        }
}

static void expect_power(const struct host *in, struct host *out)
{
    struct host x = dominant_host(&in[0]);
    power_of(&x, 5, out);
    host_free(&x);
}

static void call_power_down(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_matrix_power(dominant(in[0]), -2);
}

static void expect_power_down(const struct host *in, struct host *out)
{
    struct host x = dominant_host(&in[0]), y = host_copy(&x);
    int64_t n = cols(&x);
    for (int64_t b = 0; b < x.n; b += n * n) inverse(n, x.v + b, y.v + b);
    power_of(&y, 2, out);
    host_free(&x);
    host_free(&y);
}

static void call_power_0(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_matrix_power(in[0], 0);
}

static void expect_power_0(const struct host *in, struct host *out)
{
    out[0] = host_copy(&in[0]);
    for (int64_t i = 0; i < out[0].n; i++) out[0].v[i] = i / cols(in) % rows(in) == i % cols(in);
}

static void call_exp(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_matrix_exp(in[0]);
}

static void call_exp_large(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_matrix_exp(kiln_mul(in[0], kiln_scalar(8)));
}

// By its series, of a 64th of the matrix, squared six times.
static void exp_of(const struct host *x, long double factor, struct host *out)
{
    int64_t n = cols(x), count = n * n;
    out[0] = host_copy(x);
    for (int64_t b = 0; b < x->n; b += count) {
        long double a[64], term[64], sum[64], t[64];
        for (int64_t i = 0; i < count; i++) {
            a[i] = x->v[b + i] * factor / 64;
            term[i] = sum[i] = i / n == i % n;
        }
        for (int k = 1; k < 40; k++) {
            product(n, n, n, term, a, t);
            for (int64_t i = 0; i < count; i++) sum[i] += term[i] = t[i] / k;
        }
        for (int k = 0; k < 6; k++) {
            product(n, n, n, sum, sum, t);
            memcpy(sum, t, sizeof sum);
        }
        memcpy(out->v + b, sum, (size_t)count * sizeof sum[0]);
    }
}

static void expect_exp(const struct host *in, struct host *out)
{
    exp_of(&in[0], 1, out);
}

static void expect_exp_large(const struct host *in, struct host *out)
{
    exp_of(&in[0], 8, out);
}

// Tall matrices of full rank: (x^T x)^-1 x^T.
static void pinv_of(const struct host *x, struct host *out)
{
    int64_t m = rows(x), n = cols(x), dims[HOST_MAX_RANK];
    memcpy(dims, x->dims, sizeof dims);
    dims[x->rank - 2] = n, dims[x->rank - 1] = m;
    *out = host_new(x->dtype, x->rank, dims);
    for (int64_t b = 0; b < x->n; b += m * n) {
        long double t[64], square[64], inverted[64];
        for (int64_t i = 0; i < m * n; i++) t[i % n * m + i / n] = x->v[b + i];
        product(n, m, n, t, x->v + b, square);
        inverse(n, square, inverted);
        product(n, n, m, inverted, t, out->v + b);
    }
}

static void call_pinv(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_pinv(dominant(in[0]), 0);
}

static void expect_pinv(const struct host *in, struct host *out)
{
    struct host x = dominant_host(&in[0]);
    pinv_of(&x, out);
    host_free(&x);
}

static void call_pinv_turned(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_transpose(kiln_pinv(kiln_transpose(dominant(in[0]), -2, -1), 0), -2, -1);
}

static void call_lstsq(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_lstsq(dominant(in[0]), in[1], 0);
}

static void expect_lstsq(const struct host *in, struct host *out)
{
    struct host x = dominant_host(&in[0]), inverse_of_x;
    int64_t k = in[1].rank == 1 ? 1 : cols(&in[1]), dims[2] = {cols(&x), k};
    pinv_of(&x, &inverse_of_x);
    out[0] = host_new(in[0].dtype, in[1].rank == 1 ? 1 : 2, dims);
    product(cols(&x), rows(&x), k, inverse_of_x.v, in[1].v, out[0].v);
    host_free(&x);
    host_free(&inverse_of_x);
}

// Of x [3,2] the product with its transpose has rank 2.
static void call_rank(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *x = dominant(in[0]);
    kiln_tensor *all[] = {kiln_matrix_rank(kiln_matmul(x, kiln_transpose(x, 0, 1)), 0), kiln_matrix_rank(x, 0),
                          kiln_matrix_rank(kiln_zeros_like(x), 0), kiln_matrix_rank(x, 1)};
    out[0] = kiln_stack(all, 4, 0);
}

static void expect_rank(const struct host *in, struct host *out)
{
    (void)in;
    out[0] = host_new(KILN_I64, 1, (int64_t[]){4});
    out[0].v[0] = out[0].v[1] = 2;
}

static const char *const sums[] = {"1", "-1", "inf", "-inf", "fro"};

static void call_norms(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *all[5];
    for (int i = 0; i < 5; i++) all[i] = kiln_matrix_norm(in[0], sums[i]);
    out[0] = kiln_stack(all, 5, 0);
}

static void expect_norms(const struct host *in, struct host *out)
{
    int64_t m = rows(in), n = cols(in), count = in->n / (m * n);
    out[0] = host_new(in->dtype, 2, (int64_t[]){5, count});
    for (int64_t b = 0; b < count; b++) {
        long double extreme[4] = {0, INFINITY, 0, INFINITY}, squares = 0;
        for (int way = 0; way < 2; way++)
            for (int64_t i = 0; i < (way ? m : n); i++) {
                long double sum = 0;
                for (int64_t j = 0; j < (way ? n : m); j++)
                    sum += fabsl(in->v[b * m * n + (way ? i * n + j : j * n + i)]);
                extreme[2 * way] = fmaxl(extreme[2 * way], sum);
                extreme[2 * way + 1] = fminl(extreme[2 * way + 1], sum);
            }
        for (int64_t i = 0; i < m * n; i++) squares += in->v[b * m * n + i] * in->v[b * m * n + i];
        for (int i = 0; i < 4; i++) out->v[i * count + b] = extreme[i];
        out->v[4 * count + b] = sqrtl(squares);
    }
}

// Singular values of 2 x 2 matrices from the trace and the determinant of x^T x.
static void two_values(const long double *x, long double *s)
{
    long double trace = x[0] * x[0] + x[1] * x[1] + x[2] * x[2] + x[3] * x[3], det = x[0] * x[3] - x[1] * x[2];
    s[0] = sqrtl((trace + sqrtl(trace * trace - 4 * det * det)) / 2);
    s[1] = fabsl(det) / s[0];
}

static kiln_tensor *uneven(kiln_tensor *x)
{
    kiln_device *dev = kiln_tensor_device(x);
    return kiln_mul(dominant(x), kiln_arange(dev, kiln_tensor_dtype(x), 1, 3, 1)); // the second column twice
}

static void call_spectral(kiln_tensor *const *in, kiln_tensor **out)
{
    static const char *const ords[] = {"2", "-2", "nuc"};
    kiln_tensor *all[5], *x = uneven(in[0]);
    for (int i = 0; i < 3; i++) all[i] = kiln_matrix_norm(x, ords[i]);
    all[3] = kiln_matrix_cond(x, "2");
    all[4] = kiln_matrix_cond(x, "1");
    out[0] = kiln_stack(all, 5, 0);
}

static void expect_spectral(const struct host *in, struct host *out)
{
    struct host x = dominant_host(&in[0]);
    int64_t count = x.n / 4;
    out[0] = host_new(in->dtype, 2, (int64_t[]){5, count});
    for (int64_t i = 1; i < x.n; i += 2) x.v[i] *= 2;
    for (int64_t b = 0; b < count; b++) {
        long double s[2], turned[4], *v = x.v + 4 * b, sides[2];
        two_values(v, s);
        inverse(2, v, turned);
        for (int i = 0; i < 2; i++) {
            const long double *a = i ? turned : v;
            sides[i] = fmaxl(fabsl(a[0]) + fabsl(a[2]), fabsl(a[1]) + fabsl(a[3]));
        }
        long double all[5] = {s[0], s[1], s[0] + s[1], s[0] / s[1], sides[0] * sides[1]};
        for (int i = 0; i < 5; i++) out->v[i * count + b] = all[i];
    }
    host_free(&x);
}

static void call_chain(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_multi_dot(in, 4);
}

static void expect_chain(const struct host *in, struct host *out)
{
    long double a[64], b[64];
    bool row = in[0].rank == 1, column = in[3].rank == 1;
    int64_t m = row ? 1 : in[0].dims[0], k = in[0].dims[in[0].rank - 1], dims[2];
    int rank = 0;
    memcpy(a, in[0].v, (size_t)in[0].n * sizeof a[0]);
    for (int i = 1; i < 4; i++) {
        int64_t n = in[i].rank == 1 ? 1 : in[i].dims[1];
        product(m, k, n, a, in[i].v, b);
        memcpy(a, b, sizeof a);
        k = n;
    }
    if (!row) dims[rank++] = m;
    if (!column) dims[rank++] = k;
    out[0] = host_new(promoted(in[0].dtype, in[1].dtype), rank, dims);
    memcpy(out[0].v, a, (size_t)out[0].n * sizeof a[0]);
}

// Of [[a, -b], [b, a]] and c, a, b, c the numbers of x + 4: a + b i, a - b i, c. Values as pairs, c last.
static kiln_tensor *blocks(kiln_tensor *x)
{
    kiln_tensor *row[3], *v[3];
    x = kiln_add(x, kiln_scalar(4));
    for (int i = 0; i < 3; i++) v[i] = kiln_select(x, -1, i);
    kiln_tensor *zero = kiln_zeros_like(v[0]);
    kiln_tensor *m[3][3] = {{v[0], kiln_neg(v[1]), zero}, {v[1], v[0], zero}, {zero, zero, v[2]}};
    for (int i = 0; i < 3; i++) row[i] = kiln_stack(m[i], 3, -1);
    return kiln_stack(row, 3, -2);
}

static void call_eigvals(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_view_as_real(kiln_eigvals(blocks(in[0])));
}

static void expect_eigvals(const struct host *in, struct host *out)
{
    out[0] = host_new(in->dtype, 3, (int64_t[]){in->n / 3, 3, 2});
    for (int64_t b = 0; b < in->n / 3; b++) {
        const long double *v = in->v + 3 * b;
        long double *w = out->v + 6 * b;
        w[0] = w[2] = v[0] + 4, w[1] = v[1] + 4, w[3] = -w[1], w[4] = v[2] + 4;
    }
}

// v diag(w) v^-1 of the complex factors would be x; here what does not change with phases: |v|^2 w.
static void call_eig(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *w, *v;
    if (kiln_eig(blocks(in[0]), &w, &v)) return;
    kiln_tensor *size = kiln_square(kiln_abs(v));
    kiln_tensor *parts[] = {kiln_mul(size, kiln_unsqueeze(kiln_real(w), -2)),
                            kiln_mul(size, kiln_unsqueeze(kiln_imag(w), -2))};
    out[0] = kiln_stack(parts, 2, 0);
}

static void expect_eig(const struct host *in, struct host *out)
{
    int64_t n = in->n / 3;
    out[0] = host_new(in->dtype, 4, (int64_t[]){2, n, 3, 3});
    for (int64_t b = 0; b < n; b++)
        for (int i = 0; i < 9; i++) {
            int row = i / 3, col = i % 3;
            long double size = row < 2 && col < 2 ? 0.5L : row == col, re = in->v[3 * b + (col < 2 ? 0 : 2)] + 4;
            out->v[9 * b + i] = size * re;
            out->v[9 * (n + b) + i] = col < 2 ? size * (in->v[3 * b + 1] + 4) * (col ? -1 : 1) : 0;
        }
}

static const struct op_case linalg_cases[] = {
    {"eig", "pairs", "2x3", IN_WIDE, call_eig, expect_eig, .units = 64, .order = 2, .lo = -1, .hi = 1},
    {"eigvals", "pairs", "2x3", IN_WIDE, call_eigvals, expect_eigvals, .units = 64, .order = 2, .lo = -1, .hi = 1},
    {"matrix_power", "5", "2x3x3", IN_WIDE, call_power, expect_power, .units = 64, .order = 2},
    {"matrix_power", "-2", "2x3x3", IN_WIDE, call_power_down, expect_power_down, .units = 128, .order = 2},
    {"matrix_power", "0", "2x3x3", IN_FLOATS, call_power_0, expect_power_0, .units = 1},
    {"matrix_exp", "small", "2x3x3", IN_WIDE, call_exp, expect_exp, .units = 256, .order = 2},
    {"matrix_exp", "large", "2x3x3", IN_WIDE, call_exp_large, expect_exp_large, .units = 16384, .order = 1, .lo = -1,
     .hi = 1},
    {"matrix_exp", "1x1", "1x1", IN_WIDE, call_exp, expect_exp, .units = 64, .order = 2},
    {"pinv", "tall", "2x4x3", IN_WIDE, call_pinv, expect_pinv, .units = 256, .order = 2},
    {"pinv", "wide", "2x4x3", IN_WIDE, call_pinv_turned, expect_pinv, .units = 256},
    {"lstsq", "matrix", "4x3 4x2", IN_WIDE, call_lstsq, expect_lstsq, .units = 256, .order = 1},
    {"lstsq", "vector", "4x3 4", IN_WIDE, call_lstsq, expect_lstsq, .units = 256, .order = 1},
    {"matrix_rank", "2", "3x2", IN_WIDE, call_rank, expect_rank},
    {"matrix_norm", "sums", "2x3x4", IN_WIDE, call_norms, expect_norms, .units = 32, .order = 1},
    {"matrix_cond", "and norms", "3x2x2", IN_WIDE, call_spectral, expect_spectral, .units = 256, .order = 2},
    {"multi_dot", "matrices", "2x5 5x3 3x4 4x2", IN_WIDE, call_chain, expect_chain, .units = 256, .order = 2},
    {"multi_dot", "vectors", "5 5x3 3x4 4", IN_WIDE, call_chain, expect_chain, .units = 256, .order = 1},
};
FAMILY_OF(linalg);
