// Gated units and other activations, norms, distances, embedding bags, products of pairs.
#include "compose/case.h"

#include <math.h>

// How many units of f32 rounding one of f16 and bf16 is worth, a few times: for ops whose steps are rounded.
enum { ROUNDED = 3 << 16 };

#define CALL(name, expression)                                         \
    static void call_##name(kiln_tensor *const *in, kiln_tensor **out) \
    {                                                                  \
        out[0] = expression;                                           \
    }

static struct host like(const struct host *x)
{
    return host_new(x->dtype, x->rank, x->dims);
}

// --- halves

CALL(glu, kiln_glu(in[0], -1))
CALL(swiglu, kiln_swiglu(in[0], 1))
CALL(geglu, kiln_geglu(in[0], -1))
CALL(reglu, kiln_reglu(in[0], 0))
CALL(bilinear_glu, kiln_bilinear_glu(in[0], -1))

typedef long double (*pair_fn)(long double, long double);

static void halved(const struct host *x, struct host *out, int axis, pair_fn fn)
{
    int64_t dims[KILN_MAX_RANK];
    for (int i = 0; i < x->rank; i++) dims[i] = i == axis ? x->dims[i] / 2 : x->dims[i];
    *out = host_new(x->dtype, x->rank, dims);
    struct lines from = lines_of(x, axis), to = lines_of(out, axis);
    for (int64_t o = 0; o < to.outer; o++)
        for (int64_t i = 0; i < to.inner; i++)
            for (int64_t k = 0; k < to.length; k++)
                out->v[line_at(&to, o, i, k)] =
                    fn(x->v[line_at(&from, o, i, k)], x->v[line_at(&from, o, i, k + to.length)]);
}

static long double sigmoid(long double x)
{
    return 1 / (1 + expl(-x));
}

static long double pair_glu(long double a, long double b)
{
    return a * sigmoid(b);
}

static long double pair_swiglu(long double a, long double b)
{
    return a * sigmoid(a) * b;
}

static long double pair_geglu(long double a, long double b)
{
    return a * (1 + erfl(a / sqrtl(2))) / 2 * b;
}

static long double pair_reglu(long double a, long double b)
{
    return a > 0 ? a * b : 0;
}

static long double pair_product(long double a, long double b)
{
    return a * b;
}

static void expect_glu(const struct host *in, struct host *out)
{
    halved(in, out, in->rank - 1, pair_glu);
}

static void expect_swiglu(const struct host *in, struct host *out)
{
    halved(in, out, 1, pair_swiglu);
}

static void expect_geglu(const struct host *in, struct host *out)
{
    halved(in, out, in->rank - 1, pair_geglu);
}

static void expect_reglu(const struct host *in, struct host *out)
{
    halved(in, out, 0, pair_reglu);
}

static void expect_bilinear_glu(const struct host *in, struct host *out)
{
    halved(in, out, in->rank - 1, pair_product);
}

// --- other activations

CALL(rrelu, kiln_rrelu(in[0], NULL))
// A slope is drawn from one number only.
CALL(rrelu_training, kiln_rrelu(in[0], KILN_RRELU(.lower = 0.25, .upper = 0.25, .training = true)))
CALL(softmin, kiln_softmin(in[0], 0))
CALL(softmax2d, kiln_softmax2d(in[0]))
CALL(maxout, kiln_maxout(in[0], 1, 3))

static void slopes(const struct host *x, struct host *out, long double slope)
{
    *out = like(x);
    for (int64_t i = 0; i < x->n; i++) out->v[i] = x->v[i] * (x->v[i] < 0 ? slope : 1);
}

static void expect_rrelu(const struct host *in, struct host *out)
{
    slopes(in, out, (0.125L + 1 / 3.0L) / 2);
}

static void expect_rrelu_training(const struct host *in, struct host *out)
{
    slopes(in, out, 0.25);
}

static void expect_softmin(const struct host *in, struct host *out)
{
    struct host x = host_copy(in);
    for (int64_t i = 0; i < x.n; i++) x.v[i] = -x.v[i];
    *out = reference_softmax(&x, 0, false, x.dtype);
    host_free(&x);
}

static void expect_softmax2d(const struct host *in, struct host *out)
{
    *out = reference_softmax(in, in->rank - 3, false, in->dtype);
}

static void expect_maxout(const struct host *in, struct host *out)
{
    int64_t dims[] = {in->dims[0], in->dims[1] / 3, in->dims[2]};
    *out = host_new(in->dtype, 3, dims);
    struct lines from = lines_of(in, 1), to = lines_of(out, 1);
    for (int64_t o = 0; o < to.outer; o++)
        for (int64_t i = 0; i < to.inner; i++)
            for (int64_t k = 0; k < to.length; k++) {
                long double *y = &out->v[line_at(&to, o, i, k)];
                *y = -INFINITY;
                for (int64_t p = 0; p < 3; p++) *y = fmaxl(*y, in->v[line_at(&from, o, i, 3 * k + p)]);
            }
}

// --- norms of activations

CALL(instance_norm, kiln_instance_norm(in[0], KILN_GROUP_NORM(.weight = in[1], .bias = in[2])))
CALL(instance_norm_plain, kiln_instance_norm(in[0], KILN_GROUP_NORM(.eps = 0.1)))
CALL(local_response_norm, kiln_local_response_norm(in[0], 3, KILN_LOCAL_RESPONSE_NORM(.alpha = 0.5, .k = 2)))
CALL(local_response_norm_even, kiln_local_response_norm(in[0], 4, NULL))
CALL(normalize, kiln_normalize(in[0], 1, NULL))
CALL(normalize_first, kiln_normalize(in[0], -1, KILN_NORMALIZE(.p = 1, .eps = 3)))

static void instance_norm(const struct host *in, struct host *out, bool affine, long double eps)
{
    const struct host *x = &in[0];
    *out = like(x);
    int64_t sets = x->dims[0] * x->dims[1], n = x->n / sets;
    for (int64_t s = 0; s < sets; s++) {
        long double mean = 0, var = 0;
        for (int64_t k = 0; k < n; k++) mean += x->v[s * n + k] / n;
        for (int64_t k = 0; k < n; k++) var += (x->v[s * n + k] - mean) * (x->v[s * n + k] - mean) / n;
        for (int64_t k = 0; k < n; k++) {
            long double y = (x->v[s * n + k] - mean) / sqrtl(var + eps);
            out->v[s * n + k] = affine ? y * in[1].v[s % x->dims[1]] + in[2].v[s % x->dims[1]] : y;
        }
    }
}

static void expect_instance_norm(const struct host *in, struct host *out)
{
    instance_norm(in, out, true, 1e-5L);
}

static void expect_instance_norm_plain(const struct host *in, struct host *out)
{
    instance_norm(in, out, false, 0.1L);
}

static void response_norm(const struct host *x, struct host *out, int64_t size, long double alpha, long double k)
{
    *out = like(x);
    struct lines l = lines_of(x, 1);
    for (int64_t o = 0; o < l.outer; o++)
        for (int64_t i = 0; i < l.inner; i++)
            for (int64_t c = 0; c < l.length; c++) {
                long double sum = 0;
                for (int64_t p = c - size / 2; p < c - size / 2 + size; p++)
                    if (p >= 0 && p < l.length) sum += x->v[line_at(&l, o, i, p)] * x->v[line_at(&l, o, i, p)];
                out->v[line_at(&l, o, i, c)] = x->v[line_at(&l, o, i, c)] / powl(k + alpha / size * sum, 0.75L);
            }
}

static void expect_local_response_norm(const struct host *in, struct host *out)
{
    response_norm(in, out, 3, 0.5L, 2);
}

static void expect_local_response_norm_even(const struct host *in, struct host *out)
{
    response_norm(in, out, 4, 1e-4L, 1);
}

static long double order_p(const long double *v, int64_t n, int64_t step, long double p)
{
    long double sum = 0;
    for (int64_t k = 0; k < n; k++) sum += powl(fabsl(v[k * step]), p);
    return powl(sum, 1 / p);
}

static void normalized(const struct host *x, struct host *out, int axis, long double p, long double eps)
{
    *out = like(x);
    struct lines l = lines_of(x, axis);
    for (int64_t o = 0; o < l.outer; o++)
        for (int64_t i = 0; i < l.inner; i++) {
            long double norm = fmaxl(eps, order_p(&x->v[line_at(&l, o, i, 0)], l.length, l.inner, p));
            for (int64_t k = 0; k < l.length; k++) out->v[line_at(&l, o, i, k)] = x->v[line_at(&l, o, i, k)] / norm;
        }
}

static void expect_normalize(const struct host *in, struct host *out)
{
    normalized(in, out, 1, 2, 1e-12L);
}

static void expect_normalize_first(const struct host *in, struct host *out)
{
    normalized(in, out, in->rank - 1, 1, 3);
}

// --- distances

CALL(cosine_similarity, kiln_cosine_similarity(in[0], in[1], -1, NULL))
CALL(pairwise_distance, kiln_pairwise_distance(in[0], in[1], KILN_PAIRWISE_DISTANCE(.p = 3, .keepdims = true)))
CALL(pairwise_distance_2, kiln_pairwise_distance(in[0], in[1], NULL))
CALL(cdist, kiln_cdist(in[0], in[1], NULL))
CALL(cdist_3, kiln_cdist(in[0], in[1], KILN_CDIST(.p = 3)))

// Of a [2, 3, 4] and b [3, 4].
static void expect_cosine_similarity(const struct host *in, struct host *out)
{
    *out = host_new(in[0].dtype, 2, in[0].dims);
    for (int64_t r = 0; r < out->n; r++) {
        const long double *a = in[0].v + 4 * r, *b = in[1].v + 4 * (r % 3);
        long double dot = 0;
        for (int k = 0; k < 4; k++) dot += a[k] * b[k];
        out->v[r] = dot / order_p(a, 4, 1, 2) / order_p(b, 4, 1, 2);
    }
}

static void pairwise(const struct host *in, struct host *out, long double p, bool keepdims)
{
    int64_t n = in[0].dims[1], dims[] = {in[0].dims[0], 1};
    *out = host_new(in[0].dtype, keepdims ? 2 : 1, dims);
    for (int64_t r = 0; r < out->n; r++) {
        long double d[8];
        for (int64_t k = 0; k < n; k++) d[k] = in[0].v[r * n + k] - in[1].v[r * n + k] + 1e-6L;
        out->v[r] = order_p(d, n, 1, p);
    }
}

static void expect_pairwise_distance(const struct host *in, struct host *out)
{
    pairwise(in, out, 3, true);
}

static void expect_pairwise_distance_2(const struct host *in, struct host *out)
{
    pairwise(in, out, 2, false);
}

// Of a [B, P, M] and b [R, M].
static void cdist(const struct host *in, struct host *out, long double p)
{
    int64_t m = in[0].dims[2], dims[] = {in[0].dims[0], in[0].dims[1], in[1].dims[0]};
    *out = host_new(in[0].dtype, 3, dims);
    for (int64_t i = 0; i < out->n; i++) {
        long double d[8];
        for (int64_t k = 0; k < m; k++) d[k] = in[0].v[i / dims[2] * m + k] - in[1].v[i % dims[2] * m + k];
        out->v[i] = order_p(d, m, 1, p);
    }
}

static void expect_cdist(const struct host *in, struct host *out)
{
    cdist(in, out, 2);
}

static void expect_cdist_3(const struct host *in, struct host *out)
{
    cdist(in, out, 3);
}

// --- norms of weights

CALL(weight_norm, kiln_weight_norm(in[0], in[1], 0))
CALL(weight_norm_last, kiln_weight_norm(in[0], in[1], -1))

static void weight_norm(const struct host *in, struct host *out, int axis)
{
    *out = like(in);
    struct lines l = lines_of(in, axis);
    for (int64_t k = 0; k < l.length; k++) {
        long double sum = 0;
        for (int64_t o = 0; o < l.outer; o++)
            for (int64_t i = 0; i < l.inner; i++) sum += powl(in->v[line_at(&l, o, i, k)], 2);
        for (int64_t o = 0; o < l.outer; o++)
            for (int64_t i = 0; i < l.inner; i++)
                out->v[line_at(&l, o, i, k)] = in[1].v[k] * in->v[line_at(&l, o, i, k)] / sqrtl(sum);
    }
}

static void expect_weight_norm(const struct host *in, struct host *out)
{
    weight_norm(in, out, 0);
}

static void expect_weight_norm_last(const struct host *in, struct host *out)
{
    weight_norm(in, out, 1);
}

static void call_spectral_norm(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_spectral_norm(in[0], in[1], in[2], 1, KILN_SPECTRAL_NORM(.iterations = 2), &out[0], &out[1], &out[2]);
}

static void call_spectral_norm_frozen(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *u, *v;
    kiln_spectral_norm(in[0], kiln_cast(kiln_stop_gradient(in[1]), kiln_tensor_dtype(in[0])),
                       kiln_cast(kiln_stop_gradient(in[2]), kiln_tensor_dtype(in[0])), 0,
                       KILN_SPECTRAL_NORM(.frozen = true), &out[0], &u, &v);
}

static void to_unit(long double *v, int64_t n)
{
    long double norm = order_p(v, n, 1, 2);
    for (int64_t i = 0; i < n; i++) v[i] /= norm;
}

// Of w [3, 4] with rows along its last axis: the matrix is its transpose.
static void expect_spectral_norm(const struct host *in, struct host *out)
{
    out[0] = like(&in[0]);
    out[1] = like(&in[1]);
    out[2] = like(&in[2]);
    long double *u = out[1].v, *v = out[2].v, sigma = 0;
    for (int i = 0; i < 4; i++) u[i] = in[1].v[i];
    for (int turn = 0; turn < 2; turn++) {
        for (int c = 0; c < 3; c++) v[c] = 0;
        for (int c = 0; c < 3; c++)
            for (int r = 0; r < 4; r++) v[c] += in[0].v[c * 4 + r] * u[r];
        to_unit(v, 3);
        for (int r = 0; r < 4; r++) u[r] = 0;
        for (int c = 0; c < 3; c++)
            for (int r = 0; r < 4; r++) u[r] += in[0].v[c * 4 + r] * v[c];
        to_unit(u, 4);
    }
    for (int c = 0; c < 3; c++)
        for (int r = 0; r < 4; r++) sigma += u[r] * in[0].v[c * 4 + r] * v[c];
    for (int i = 0; i < 12; i++) out[0].v[i] = in[0].v[i] / sigma;
}

// Of integer u and v, that differences leave alone.
static void expect_spectral_norm_frozen(const struct host *in, struct host *out)
{
    out[0] = like(&in[0]);
    long double sigma = 0;
    for (int r = 0; r < 2; r++)
        for (int c = 0; c < 3; c++) sigma += in[1].v[r] * in[0].v[r * 3 + c] * in[2].v[c];
    for (int i = 0; i < 6; i++) out[0].v[i] = in[0].v[i] / sigma;
}

// --- bags

CALL(bag_mean, kiln_embedding_bag(in[0], in[1], NULL, NULL, NULL))
CALL(bag_max, kiln_embedding_bag(in[0], in[1], NULL, NULL, KILN_EMBEDDING_BAG(.mode = "max")))
CALL(bag_weighted, kiln_embedding_bag(in[0], in[1], NULL, in[2], KILN_EMBEDDING_BAG(.mode = "sum")))
// Two empty bags, in the midst and at the end.
#define OFFSETS(t) kiln_from_data(kiln_tensor_device(t), KILN_I64, KILN_SHAPE(4), (int64_t[]){0, 2, 2, 5})
CALL(bag_offsets, kiln_embedding_bag(in[0], in[1], OFFSETS(in[1]), NULL, NULL))
CALL(bag_offsets_max, kiln_embedding_bag(in[0], in[1], OFFSETS(in[1]), NULL, KILN_EMBEDDING_BAG(.mode = "max")))
CALL(bag_offsets_sum, kiln_embedding_bag(in[0], in[1], OFFSETS(in[1]), in[2], KILN_EMBEDDING_BAG(.mode = "sum")))

static void bags(const struct host *in, struct host *out, int64_t n_bags, const int64_t *first, char mode)
{
    int64_t width = in[0].dims[1], dims[] = {n_bags, width};
    *out = host_new(in[0].dtype, 2, dims);
    for (int64_t b = 0; b < n_bags; b++)
        for (int64_t d = 0; d < width; d++) {
            long double *y = &out->v[b * width + d], n = (long double)(first[b + 1] - first[b]);
            if (mode == 'x' && n > 0) *y = -INFINITY;
            for (int64_t i = first[b]; i < first[b + 1]; i++) {
                long double row = in[0].v[(int64_t)in[1].v[i] * width + d];
                *y = mode == 'x' ? fmaxl(*y, row) : *y + (mode == 'w' ? in[2].v[i] : 1) * row;
            }
            if (mode == 'm' && n > 0) *y /= n;
        }
}

static const int64_t threes[] = {0, 3, 6}, by_offsets[] = {0, 2, 2, 5, 5};

static void expect_bag_mean(const struct host *in, struct host *out)
{
    bags(in, out, 2, threes, 'm');
}

static void expect_bag_max(const struct host *in, struct host *out)
{
    bags(in, out, 2, threes, 'x');
}

static void expect_bag_weighted(const struct host *in, struct host *out)
{
    bags(in, out, 2, threes, 'w');
}

static void expect_bag_offsets(const struct host *in, struct host *out)
{
    bags(in, out, 4, by_offsets, 'm');
}

static void expect_bag_offsets_max(const struct host *in, struct host *out)
{
    bags(in, out, 4, by_offsets, 'x');
}

static void expect_bag_offsets_sum(const struct host *in, struct host *out)
{
    bags(in, out, 4, by_offsets, 'w');
}

// --- products of pairs

CALL(bilinear, kiln_bilinear(in[0], in[1], in[2], in[3]))
CALL(bilinear_vectors, kiln_bilinear(in[0], in[1], in[2], NULL))

static void bilinear(const struct host *in, struct host *out, int64_t rows, bool biased)
{
    int64_t o = in[2].dims[0], n = in[2].dims[1], m = in[2].dims[2], dims[] = {rows, o};
    *out = in[0].rank == 1 ? host_new(in[0].dtype, 1, &o) : host_new(in[0].dtype, 2, dims);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t k = 0; k < o; k++) {
            long double sum = biased ? in[3].v[k] : 0;
            for (int64_t i = 0; i < n; i++)
                for (int64_t j = 0; j < m; j++)
                    sum += in[0].v[r * n + i] * in[2].v[(k * n + i) * m + j] * in[1].v[r * m + j];
            out->v[r * o + k] = sum;
        }
}

static void expect_bilinear(const struct host *in, struct host *out)
{
    bilinear(in, out, 2, true);
}

static void expect_bilinear_vectors(const struct host *in, struct host *out)
{
    bilinear(in, out, 1, false);
}

static const struct op_case networks_cases[] = {
    {"glu", "last axis", "3x4", IN_WIDE, call_glu, expect_glu, .units = 8, .order = 2},
    {"glu", "rounded", "2x3x6", IN_HALF, call_glu, expect_glu, .units = ROUNDED},
    {"glu", "none", "0x4", IN_WIDE, call_glu, expect_glu, .units = 8},
    {"swiglu", "middle axis", "2x4x3", IN_WIDE, call_swiglu, expect_swiglu, .units = 8, .order = 2},
    {"geglu", "last axis", "3x4", IN_WIDE, call_geglu, expect_geglu, .units = 8, .order = 2},
    {"reglu", "first axis", "4x3", IN_FLOATS, call_reglu, expect_reglu, .units = 4, .order = 2},
    {"bilinear_glu", "last axis", "3x4", IN_FLOATS, call_bilinear_glu, expect_bilinear_glu, .units = 2, .order = 2},
    {"rrelu", "inference", "3x4", IN_FLOATS, call_rrelu, expect_rrelu, .units = 4, .order = 2},
    {"rrelu", "training", "3x4", IN_FLOATS, call_rrelu_training, expect_rrelu_training, .units = 4, .order = 2},
    {"softmin", "first axis", "3x4", IN_WIDE, call_softmin, expect_softmin, .units = 16, .order = 2},
    {"softmax2d", "batch", "2x3x2x2", IN_WIDE, call_softmax2d, expect_softmax2d, .units = 16, .order = 2},
    {"softmax2d", "single", "3x2x2", IN_WIDE, call_softmax2d, expect_softmax2d, .units = 16},
    {"maxout", "middle axis", "2x6x2", IN_FLOATS, call_maxout, expect_maxout, .order = 2},
    {"instance_norm", "affine", "2x3x2x2 3 3", IN_WIDE, call_instance_norm, expect_instance_norm, .units = 64,
     .order = 2},
    {"instance_norm", "plain", "2x3x4", IN_WIDE, call_instance_norm_plain, expect_instance_norm_plain, .units = 32},
    {"local_response_norm", "odd", "2x5x3", IN_WIDE, call_local_response_norm, expect_local_response_norm, .units = 16,
     .order = 2},
    {"local_response_norm", "even", "2x3x2x2", IN_WIDE, call_local_response_norm_even, expect_local_response_norm_even,
     .units = 16},
    {"normalize", "middle axis", "2x4x3", IN_WIDE, call_normalize, expect_normalize, .units = 16, .order = 2},
    {"normalize", "by eps", "4x2", IN_WIDE, call_normalize_first, expect_normalize_first, .units = 16, .order = 2},
    {"cosine_similarity", "broadcast", "2x3x4 3x4", IN_WIDE, call_cosine_similarity, expect_cosine_similarity,
     .units = 32, .order = 2},
    {"pairwise_distance", "order 3", "3x4 3x4", IN_WIDE, call_pairwise_distance, expect_pairwise_distance, .units = 32,
     .order = 2},
    {"pairwise_distance", "order 2", "3x4 3x4", IN_WIDE, call_pairwise_distance_2, expect_pairwise_distance_2,
     .units = 32, .order = 2},
    {"cdist", "few rows", "2x3x4 5x4", IN_WIDE, call_cdist, expect_cdist, .units = 32, .order = 2},
    {"cdist", "by products", "2x3x4 30x4", IN_WIDE, call_cdist, expect_cdist, .units = 256, .order = 1},
    {"cdist", "order 3", "2x3x4 30x4", IN_WIDE, call_cdist_3, expect_cdist_3, .units = 64, .order = 1},
    {"weight_norm", "first axis", "3x2x2 3x1x1", IN_WIDE, call_weight_norm, expect_weight_norm, .units = 16,
     .order = 2},
    {"weight_norm", "last axis", "3x2 2", IN_WIDE, call_weight_norm_last, expect_weight_norm_last, .units = 16,
     .order = 2},
    {"spectral_norm", "two turns", "3x4 4 3", IN_WIDE, call_spectral_norm, expect_spectral_norm, .n_out = 3,
     .units = 64},
    {"spectral_norm", "frozen", "2x3 i2<4 i3<4", IN_WIDE, call_spectral_norm_frozen, expect_spectral_norm_frozen,
     .units = 64, .lo = 0.5, .hi = 2, .order = 2},
    {"embedding_bag", "mean", "5x3 i2x3<5", IN_WIDE, call_bag_mean, expect_bag_mean, .units = 8, .order = 2},
    {"embedding_bag", "max", "5x3 i2x3<5", IN_FLOATS, call_bag_max, expect_bag_max},
    {"embedding_bag", "weighted", "5x3 i2x3<5 2x3", IN_WIDE, call_bag_weighted, expect_bag_weighted, .units = 8,
     .order = 2},
    {"embedding_bag", "offsets, mean", "5x3 i5<5", IN_WIDE, call_bag_offsets, expect_bag_offsets, .units = 8,
     .order = 2},
    {"embedding_bag", "offsets, max", "5x3 i5<5", IN_FLOATS, call_bag_offsets_max, expect_bag_offsets_max},
    {"embedding_bag", "offsets, weighted", "5x3 i5<5 5", IN_WIDE, call_bag_offsets_sum, expect_bag_offsets_sum,
     .units = 8, .order = 2},
    {"bilinear", "biased", "2x3 2x4 2x3x4 2", IN_WIDE, call_bilinear, expect_bilinear, .units = 64, .order = 2},
    {"bilinear", "vectors", "3 4 2x3x4", IN_WIDE, call_bilinear_vectors, expect_bilinear_vectors, .units = 64},
};
FAMILY_OF(networks);
