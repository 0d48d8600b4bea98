// The cases of peers/torch_rows.py: same names, shapes and arithmetic. Each is a set-up, which makes random inputs and
// states flops and bytes as the peer's script does, and one call.
#include "bench.h"

#include <kiln/control.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

const struct sizes *bench_sizes(const char *name)
{
    static const struct sizes tiny = {.n = 1 << 12,
                                      .r = 128,
                                      .c = 128,
                                      .g = 64,
                                      .b = 2,
                                      .s = 32,
                                      .h = 2,
                                      .d = 16,
                                      .qb = 1,
                                      .bl = 4,
                                      .bm = 32,
                                      .vocab = 64,
                                      .dm = 32,
                                      .heads = 2,
                                      .layers = 2,
                                      .seq = 16,
                                      .batch = 2,
                                      .lstm_length = 8,
                                      .lstm_batch = 4,
                                      .lstm_units = 16};
    static const struct sizes small = {.n = 1 << 22,
                                       .r = 4096,
                                       .c = 1024,
                                       .g = 1024,
                                       .b = 32,
                                       .s = 512,
                                       .h = 8,
                                       .d = 64,
                                       .qb = 1,
                                       .bl = 64,
                                       .bm = 128,
                                       .vocab = 512,
                                       .dm = 128,
                                       .heads = 4,
                                       .layers = 2,
                                       .seq = 128,
                                       .batch = 4,
                                       .lstm_length = 64,
                                       .lstm_batch = 64,
                                       .lstm_units = 256};
    static const struct sizes big = {.n = 1 << 27,
                                     .r = 65536,
                                     .c = 2048,
                                     .g = 8192,
                                     .b = 256,
                                     .s = 4096,
                                     .h = 16,
                                     .d = 128,
                                     .qb = 4,
                                     .bl = 1024,
                                     .bm = 8192,
                                     .vocab = 50304,
                                     .dm = 768,
                                     .heads = 12,
                                     .layers = 12,
                                     .seq = 1024,
                                     .batch = 4,
                                     .lstm_length = 256,
                                     .lstm_batch = 256,
                                     .lstm_units = 1024};
    return !strcmp(name, "tiny") ? &tiny : !strcmp(name, "small") ? &small : !strcmp(name, "large") ? &big : NULL;
}

void own_input(struct state *s, int i, kiln_tensor *t)
{
    s->in[i] = t ? kiln_own(t) : NULL;
}

static void random_input(struct state *s, int i, size_t rank, const int64_t *dims)
{
    own_input(s, i, kiln_normal(s->dev, KILN_F32, rank, dims, 0, 1));
}

static void random_input_of(struct state *s, int i, kiln_dtype dtype, size_t rank, const int64_t *dims)
{
    kiln_tensor *t = kiln_normal(s->dev, KILN_F32, rank, dims, 0, 1);
    own_input(s, i, dtype == KILN_F32 ? t : kiln_cast(t, dtype));
}

// --- vectors

static kiln_status setup_vectors(struct state *s)
{
    random_input(s, 0, KILN_SHAPE(s->z->n));
    random_input(s, 1, KILN_SHAPE(s->z->n));
    s->bytes = 12.0 * (double)s->z->n;
    return kiln_error();
}

static kiln_status setup_add(struct state *s)
{
    s->flops = (double)s->z->n;
    return setup_vectors(s);
}

static kiln_status setup_vector(struct state *s)
{
    random_input(s, 0, KILN_SHAPE(s->z->n));
    s->flops = (double)s->z->n;
    s->bytes = 4.0 * (double)s->z->n;
    return kiln_error();
}

static kiln_status run_add(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_add(in[0], in[1]);
    return kiln_error();
}

static kiln_status run_chain5(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *x = in[0], *y = in[1];
    kiln_tensor *half = kiln_mul(kiln_relu(kiln_add(kiln_mul(x, y), x)), kiln_scalar(0.5));
    *out = kiln_add(kiln_sigmoid(kiln_tanh(kiln_sub(half, y))), x);
    return kiln_error();
}

static kiln_status run_sum_all(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_sum(in[0], NULL);
    return kiln_error();
}

// --- matrices

static kiln_status setup_matrix(struct state *s)
{
    const struct sizes *z = s->z;
    random_input(s, 0, KILN_SHAPE(z->r, z->c));
    random_input(s, 1, KILN_SHAPE(z->c));
    random_input(s, 2, KILN_SHAPE(z->r, 1));
    s->bytes = 8.0 * (double)(z->r * z->c);
    return kiln_error();
}

static kiln_status setup_matrix_read(struct state *s)
{
    random_input(s, 0, KILN_SHAPE(s->z->r, s->z->c));
    s->bytes = 4.0 * (double)(s->z->r * s->z->c);
    return kiln_error();
}

static kiln_status run_broadcast(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_mul(kiln_add(kiln_mul(in[0], in[1]), in[2]), kiln_scalar(0.5));
    return kiln_error();
}

static kiln_status run_sum_rows(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_sum(in[0], KILN_REDUCE(.axes = KILN_AXES(-1)));
    return kiln_error();
}

static kiln_status run_sum_cols(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_sum(in[0], KILN_REDUCE(.axes = KILN_AXES(0)));
    return kiln_error();
}

static kiln_status run_transpose_add(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_add(kiln_contiguous(kiln_transpose(in[0], 0, 1)), kiln_scalar(1));
    return kiln_error();
}

static kiln_status run_softmax(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_softmax(in[0], -1);
    return kiln_error();
}

static kiln_status run_layer_norm(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_layer_norm(in[0], 1, KILN_LAYER_NORM(.weight = in[1], .bias = in[1]));
    return kiln_error();
}

static kiln_status run_rms_norm(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *m = in[0];
    kiln_tensor *mean = kiln_mean(kiln_mul(m, m), KILN_REDUCE(.axes = KILN_AXES(-1), .keepdims = true));
    *out = kiln_mul(kiln_mul(m, kiln_rsqrt(kiln_add(mean, kiln_scalar(1e-6)))), in[1]);
    return kiln_error();
}

// In 8 groups.
static kiln_status setup_group_norm(struct state *s)
{
    int64_t b = s->z->b;
    random_input(s, 0, KILN_SHAPE(b, 64, 56, 56));
    random_input(s, 1, KILN_SHAPE(64));
    s->bytes = 8.0 * (double)b * 64 * 56 * 56;
    return kiln_error();
}

static kiln_status run_group_norm(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_group_norm(in[0], 8, KILN_GROUP_NORM(.weight = in[1], .bias = in[1]));
    return kiln_error();
}

static kiln_status setup_labels(struct state *s)
{
    setup_matrix_read(s);
    own_input(s, 1, kiln_randint(s->dev, KILN_I64, KILN_SHAPE(s->z->r), 0, s->z->c));
    return kiln_error();
}

static kiln_status setup_gather(struct state *s)
{
    setup_labels(s);
    s->bytes *= 2;
    return kiln_error();
}

static kiln_status run_cross_entropy(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_cross_entropy(in[0], in[1], NULL);
    return kiln_error();
}

static kiln_status run_gather_rows(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_index_select(in[0], 0, kiln_remainder(in[1], kiln_scalar_int(4096)));
    return kiln_error();
}

// Places of a vector among sorted numbers.
static kiln_status setup_search(struct state *s)
{
    kiln_tensor *sorted, *order;
    random_input(s, 1, KILN_SHAPE(s->z->n));
    kiln_sort(kiln_normal(s->dev, KILN_F32, KILN_SHAPE(s->z->n / 16), 0, 1), 0, false, &sorted, &order);
    if (kiln_error()) return kiln_error();
    own_input(s, 0, sorted);
    return kiln_error();
}

static kiln_status run_search(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_searchsorted(in[0], in[1], false);
    return kiln_error();
}

static kiln_status run_histogram(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *edges;
    kiln_histogram(in[0], 100, KILN_HISTOGRAM(.lo = -3, .hi = 3), out, &edges);
    return kiln_error();
}

// A class of each row, by its logits.
static kiln_status run_categorical(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_categorical(in[0], KILN_SHAPE0);
    return kiln_error();
}

// --- products

static kiln_status setup_product(struct state *s, kiln_dtype dtype)
{
    int64_t g = s->z->g;
    random_input_of(s, 0, dtype, KILN_SHAPE(g, g));
    random_input_of(s, 1, dtype, KILN_SHAPE(g, g));
    s->flops = 2.0 * (double)g * (double)g * (double)g;
    s->bytes = 3.0 * (double)kiln_dtype_size(dtype) * (double)(g * g);
    return kiln_error();
}

static kiln_status setup_product_f32(struct state *s)
{
    return setup_product(s, KILN_F32);
}

static kiln_status setup_product_bf16(struct state *s)
{
    return setup_product(s, KILN_BF16);
}

static kiln_status setup_product_f16(struct state *s)
{
    return setup_product(s, KILN_F16);
}

static kiln_status setup_product_bias(struct state *s)
{
    random_input(s, 2, KILN_SHAPE(s->z->g));
    return setup_product(s, KILN_F32);
}

static kiln_status setup_product_batch(struct state *s)
{
    random_input(s, 0, KILN_SHAPE(64, 128, 128));
    random_input(s, 1, KILN_SHAPE(64, 128, 128));
    s->flops = 2.0 * 64 * 128 * 128 * 128;
    return kiln_error();
}

static kiln_status run_product(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_matmul(in[0], in[1]);
    return kiln_error();
}

static kiln_status setup_einsum(struct state *s)
{
    random_input(s, 0, KILN_SHAPE(8, 256, 16, 64));
    random_input(s, 1, KILN_SHAPE(8, 256, 16, 64));
    s->flops = 2.0 * 8 * 16 * 256 * 256 * 64;
    return kiln_error();
}

static kiln_status run_einsum(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_einsum("bqhd,bkhd->bhqk", in, 2);
    return kiln_error();
}

static kiln_status setup_solve(struct state *s)
{
    int64_t n = s->z->g;
    random_input(s, 0, KILN_SHAPE(n, n));
    random_input(s, 1, KILN_SHAPE(n, 16));
    s->flops = 2.0 / 3 * (double)n * (double)n * (double)n;
    return kiln_error();
}

static kiln_status run_solve(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_solve(in[0], in[1]);
    return kiln_error();
}

static kiln_status setup_svd(struct state *s)
{
    random_input(s, 0, KILN_SHAPE(64, 64, 64));
    return kiln_error();
}

static kiln_status run_svd(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *u, *vh;
    return kiln_svd(in[0], false, &u, out, &vh);
}

static kiln_status run_product_bias(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_gelu_tanh(kiln_add(kiln_matmul(in[0], in[1]), in[2]));
    return kiln_error();
}

static kiln_status setup_conv(struct state *s)
{
    int64_t b = s->z->b;
    random_input(s, 0, KILN_SHAPE(b, 64, 56, 56));
    random_input(s, 1, KILN_SHAPE(64, 64, 3, 3));
    s->flops = 2.0 * (double)b * 64 * 64 * 9 * 56 * 56;
    return kiln_error();
}

static kiln_status run_conv(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_conv2d(in[0], in[1], KILN_CONV2D(.padding = {1, 1}));
    return kiln_error();
}

static kiln_status setup_conv1d(struct state *s)
{
    int64_t b = s->z->b;
    random_input(s, 0, KILN_SHAPE(b, 64, 1024));
    random_input(s, 1, KILN_SHAPE(64, 64, 9));
    s->flops = 2.0 * (double)b * 64 * 64 * 9 * 1024;
    return kiln_error();
}

static kiln_status run_conv1d(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_conv1d(in[0], in[1], KILN_CONV1D(.padding = 4));
    return kiln_error();
}

static kiln_status setup_conv_transpose(struct state *s)
{
    int64_t b = s->z->b;
    random_input(s, 0, KILN_SHAPE(b, 64, 28, 28));
    random_input(s, 1, KILN_SHAPE(64, 32, 4, 4));
    s->flops = 2.0 * (double)b * 64 * 32 * 16 * 28 * 28;
    return kiln_error();
}

static kiln_status run_conv_transpose(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_conv_transpose2d(in[0], in[1], KILN_CONV_TRANSPOSE2D(.stride = {2, 2}, .padding = {1, 1}));
    return kiln_error();
}

static kiln_status setup_resize(struct state *s)
{
    int64_t b = s->z->b;
    random_input(s, 0, KILN_SHAPE(b, 3, 256, 256));
    s->bytes = 4.0 * (double)b * 3 * (256 * 256 + 224 * 224);
    return kiln_error();
}

static kiln_status run_resize(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_interpolate(in[0], KILN_INTERPOLATE(.sizes = KILN_ARGS(224, 224), .mode = "bilinear"));
    return kiln_error();
}

// --- attention, from its parts

static kiln_status setup_attention(struct state *s)
{
    const struct sizes *z = s->z;
    kiln_dtype dtype = z->s > 1024 ? KILN_BF16 : KILN_F32;
    for (int i = 0; i < 3; i++) random_input_of(s, i, dtype, KILN_SHAPE(z->qb, z->h, z->s, z->d));
    s->flops = 4.0 * (double)(z->qb * z->h) * (double)(z->s * z->s) * (double)z->d;
    return kiln_error();
}

static kiln_status setup_attention_causal(struct state *s)
{
    setup_attention(s);
    own_input(s, 3, causal_mask(s->dev, s->z->s));
    s->flops /= 2;
    return kiln_error();
}

static kiln_status run_attention(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = attention(in[0], in[1], in[2], in[3]);
    return kiln_error();
}

// --- attention to a cache: CACHED places, one after the other, in caches of s places that are half full

enum { CACHED = 16 };

static kiln_status setup_sdpa_cached(struct state *s)
{
    const struct sizes *z = s->z;
    random_input(s, 0, KILN_SHAPE(CACHED, 4, z->h, 1, z->d));
    for (int i = 1; i < 3; i++) random_input(s, i, KILN_SHAPE(4, z->h, z->s, z->d));
    s->flops = 4.0 * CACHED * 4 * (double)(z->h * z->s * z->d);
    return kiln_error();
}

// in: caches, the place, then query, key and value at once.
static kiln_status cached_place(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    (void)user, (void)n_in, (void)n_out;
    kiln_attention_cached(in[3], in[3], in[3], in[0], in[1], in[2], NULL, &out[3], &out[0], &out[1]);
    out[2] = kiln_add(in[2], kiln_scalar_int(1));
    return kiln_error();
}

static kiln_status run_sdpa_cached(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *half = kiln_full_int(s->dev, KILN_I64, KILN_SHAPE0, s->z->s / 2), *made[4];
    kiln_tensor *all[] = {in[1], in[2], half, in[0]};
    if (kiln_scan(cached_place, NULL, all, 4, KILN_SCAN(.carried = 3), made, 4)) return kiln_error();
    *out = made[3];
    return kiln_error();
}

// --- the cost of an op by itself

static kiln_status setup_dispatch(struct state *s)
{
    random_input(s, 0, KILN_SHAPE(4));
    return kiln_error();
}

static kiln_status run_dispatch(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *one = kiln_scalar(1), *t = kiln_add(in[0], one);
    for (int i = 1; i < 1000; i++) {
        kiln_tensor *before = t;
        t = kiln_add(before, one);
        kiln_free(&before);
    }
    *out = t;
    return kiln_error();
}

static kiln_status setup_products(struct state *s)
{
    random_input(s, 0, KILN_SHAPE(8, 8));
    own_input(s, 1, kiln_eye(s->dev, KILN_F32, 8, 8)); // so that values stay what they are
    return kiln_error();
}

// Launches of which each needs the one before, captured as well as eagerly.
static kiln_status run_products(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *t = kiln_matmul(in[0], in[1]);
    for (int i = 1; i < 128; i++) {
        kiln_tensor *before = t;
        t = kiln_matmul(before, in[1]);
        kiln_free(&before);
    }
    *out = t;
    return kiln_error();
}

#define CASE(name, ceiling, ops, setup, run) {#name, CEILING_##ceiling, ops, setup, run},
const struct bench_case bench_cases[] = {
#include "cases.def"
};
#undef CASE
const int bench_case_count = sizeof bench_cases / sizeof bench_cases[0];
