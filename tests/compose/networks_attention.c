// Attention, with caches too; positions.
#include "compose/case.h"

#include <math.h>
#include <string.h>

enum { ROUNDED = 3 << 16 };

#define CALL(name, expression)                                         \
    static void call_##name(kiln_tensor *const *in, kiln_tensor **out) \
    {                                                                  \
        out[0] = expression;                                           \
    }

// --- attention. In the reference all have the dimensions [B, heads, places, width].

CALL(sdpa, kiln_scaled_dot_product_attention(in[0], in[1], in[2], NULL, NULL))
CALL(sdpa_causal, kiln_sdpa(in[0], in[1], in[2], NULL, KILN_ATTENTION(.causal = true)))
CALL(sdpa_added, kiln_sdpa(in[0], in[1], in[2], in[3], KILN_ATTENTION(.scale = 0.25, .softcap = 2)))
// Each query sees the first key at least.
CALL(sdpa_seen, kiln_sdpa(in[0], in[1], in[2],
                          kiln_less_equal(in[3], kiln_arange(kiln_tensor_device(in[3]), KILN_I64, 4, -1, -1)), NULL))

struct attention {
    const struct host *q, *k, *v, *added;
    bool causal, first_is_seen;
    const struct host *limits;    // [B, 1, 1, S]: key j is seen where limits <= 4 - j
    int64_t heads, of_keys, L, S; // L, S: places of queries and keys
    int64_t first[4];             // the place of the first query, of each of B
    long double scale, cap;
};

static long double score(const struct attention *a, int64_t b, int64_t h, int64_t i, int64_t j)
{
    int64_t width = a->q->dims[a->q->rank - 1], kv = h / (a->heads / a->of_keys);
    const long double *q = a->q->v + ((b * a->heads + h) * a->L + i) * width;
    const long double *k = a->k->v + ((b * a->of_keys + kv) * a->S + j) * width;
    long double sum = 0;
    for (int64_t d = 0; d < width; d++) sum += q[d] * k[d];
    sum *= a->scale > 0 ? a->scale : 1 / sqrtl(width);
    if (a->cap > 0) sum = a->cap * tanhl(sum / a->cap);
    if (a->added) sum += a->added->v[((b * a->heads + h) * a->L + i) * a->S + j];
    if (a->causal && j > a->first[b] + i) return -INFINITY;
    if (a->limits && a->limits->v[b * a->S + j] > 4 - j) return -INFINITY;
    return sum;
}

static void attend(const struct attention *a, struct host *out, int64_t batch)
{
    int64_t dims[KILN_MAX_RANK], width = a->v->dims[a->v->rank - 1];
    memcpy(dims, a->q->dims, sizeof *dims * (size_t)a->q->rank);
    dims[a->q->rank - 1] = width;
    *out = host_new(a->q->dtype, a->q->rank, dims);
    for (int64_t n = 0; n < batch * a->heads * a->L; n++) {
        int64_t b = n / a->L / a->heads, h = n / a->L % a->heads, kv = h / (a->heads / a->of_keys);
        long double total = 0, peak = -INFINITY;
        for (int64_t j = 0; j < a->S; j++) peak = fmaxl(peak, score(a, b, h, n % a->L, j));
        for (int64_t j = 0; j < a->S; j++) {
            long double w = expl(score(a, b, h, n % a->L, j) - peak);
            total += w;
            for (int64_t d = 0; d < width; d++)
                out->v[n * width + d] += w * a->v->v[((b * a->of_keys + kv) * a->S + j) * width + d];
        }
        for (int64_t d = 0; d < width; d++) out->v[n * width + d] /= total;
    }
}

// q [B, H, L, D] and k, or one dimension fewer, without heads.
static struct attention attention_of(const struct host *in)
{
    int rank = in[0].rank;
    struct attention a = {.q = &in[0], .k = &in[1], .v = &in[2], .L = in[0].dims[rank - 2], .S = in[1].dims[rank - 2]};
    a.heads = rank > 2 ? in[0].dims[rank - 3] : 1;
    a.of_keys = rank > 2 ? in[1].dims[rank - 3] : 1;
    for (int i = 0; i < 4; i++) a.first[i] = a.S - a.L;
    return a;
}

static int64_t batch_of(const struct host *q)
{
    return q->rank > 3 ? q->dims[0] : 1;
}

static void expect_sdpa(const struct host *in, struct host *out)
{
    struct attention a = attention_of(in);
    attend(&a, out, batch_of(in));
}

static void expect_sdpa_causal(const struct host *in, struct host *out)
{
    struct attention a = attention_of(in);
    a.causal = true;
    attend(&a, out, batch_of(in));
}

static void expect_sdpa_added(const struct host *in, struct host *out)
{
    struct attention a = attention_of(in);
    a.added = &in[3];
    a.scale = 0.25L;
    a.cap = 2;
    attend(&a, out, batch_of(in));
}

static void expect_sdpa_seen(const struct host *in, struct host *out)
{
    struct attention a = attention_of(in);
    a.limits = &in[3];
    attend(&a, out, batch_of(in));
}

// --- with caches

static void call_cached(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_attention_cached(in[0], in[1], in[2], in[3], in[4], in[5], NULL, &out[0], &out[1], &out[2]);
}

static void expect_cached(const struct host *in, struct host *out)
{
    struct host now[3] = {in[0]};
    int64_t L = in[0].dims[2], width = in[0].dims[3];
    struct attention a = {.causal = true, .heads = in[0].dims[1], .of_keys = in[3].dims[1], .L = L, .S = in[3].dims[2]};
    for (int64_t b = 0; b < in[0].dims[0]; b++) {
        long double at = in[5].v[in[5].n > 1 ? b : 0];
        a.first[b] = (int64_t)fminl(at, (long double)(a.S - L));
    }
    for (int i = 0; i < 2; i++) {
        out[1 + i] = host_copy(&in[3 + i]);
        for (int64_t r = 0; r < in[1 + i].n / (L * width); r++)
            memcpy(out[1 + i].v + (r * a.S + a.first[r / a.of_keys]) * width, in[1 + i].v + r * L * width,
                   sizeof(long double) * (size_t)(L * width));
        now[1 + i] = out[1 + i];
    }
    a.q = &now[0], a.k = &now[1], a.v = &now[2];
    attend(&a, out, in[0].dims[0]);
}

// --- positions

CALL(rope, kiln_rope(in[0], NULL, NULL))
CALL(rope_pairs,
     kiln_rope(in[0], NULL, KILN_ROPE(.base = 100, .dims = 4, .interleaved = true, .scale = 0.5, .offset = 3)))
CALL(rope_at, kiln_rope(in[0], in[1], NULL))
CALL(rotary, kiln_rotary_embedding(in[0], in[1], in[2], NULL))
CALL(rotary_pairs, kiln_rotary_embedding(in[0], in[1], in[2], KILN_ROTARY_EMBEDDING(.interleaved = true)))
CALL(sinusoidal, kiln_add(in[0], kiln_sinusoidal_positions(kiln_tensor_device(in[0]), kiln_tensor_dtype(in[0]), 5, 7)))
CALL(alibi, kiln_add(in[0], kiln_alibi_bias(kiln_tensor_device(in[0]), kiln_tensor_dtype(in[0]), 3, 2, 4)))

// Turns elements i and k of a row.
static void turn(const long double *x, long double *y, int64_t i, int64_t k, long double cos, long double sin)
{
    y[i] = x[i] * cos - x[k] * sin;
    y[k] = x[k] * cos + x[i] * sin;
}

struct rotation {
    int64_t dims;
    bool pairs;
    long double base, scale;
    const struct host *at; // [B, 1, T]
    int64_t offset;
};

static void rotated(const struct host *x, struct host *out, const struct rotation *r)
{
    *out = host_copy(x);
    int64_t width = x->dims[x->rank - 1], T = x->dims[x->rank - 2];
    for (int64_t row = 0; row < x->n / width; row++) {
        long double t = r->at ? r->at->v[row / (T * x->dims[1]) * T + row % T] : (long double)(row % T);
        for (int64_t i = 0; i < r->dims / 2; i++) {
            long double angle = (t + r->offset) * r->scale * powl(r->base, -2.0L * i / r->dims);
            int64_t a = r->pairs ? 2 * i : i, b = r->pairs ? 2 * i + 1 : i + r->dims / 2;
            turn(x->v + row * width, out->v + row * width, a, b, cosl(angle), sinl(angle));
        }
    }
}

static void expect_rope(const struct host *in, struct host *out)
{
    rotated(in, out, &(struct rotation){in->dims[in->rank - 1], false, 10000, 1, NULL, 0});
}

static void expect_rope_pairs(const struct host *in, struct host *out)
{
    rotated(in, out, &(struct rotation){4, true, 100, 0.5L, NULL, 3});
}

static void expect_rope_at(const struct host *in, struct host *out)
{
    rotated(in, out, &(struct rotation){in->dims[in->rank - 1], false, 10000, 1, &in[1], 0});
}

static void rotary(const struct host *in, struct host *out, bool pairs)
{
    *out = host_copy(in);
    int64_t width = in->dims[in->rank - 1], T = in->dims[in->rank - 2], half = in[1].dims[1];
    for (int64_t row = 0; row < in->n / width; row++)
        for (int64_t i = 0; i < half; i++)
            turn(in->v + row * width, out->v + row * width, pairs ? 2 * i : i, pairs ? 2 * i + 1 : i + half,
                 in[1].v[row % T * half + i], in[2].v[row % T * half + i]);
}

static void expect_rotary(const struct host *in, struct host *out)
{
    rotary(in, out, false);
}

static void expect_rotary_pairs(const struct host *in, struct host *out)
{
    rotary(in, out, true);
}

static void expect_sinusoidal(const struct host *in, struct host *out)
{
    *out = host_copy(in);
    for (int64_t t = 0; t < 5; t++)
        for (int64_t i = 0; i < 7; i++) {
            long double angle = t * powl(10000, -(long double)(i / 2 * 2) / 7);
            out->v[t * 7 + i] += i % 2 ? cosl(angle) : sinl(angle);
        }
}

// Slopes of 3 heads: of two, 2^-4 and 2^-8, then the first of four, 2^-2.
static void expect_alibi(const struct host *in, struct host *out)
{
    static const long double slopes[] = {1 / 16.0L, 1 / 256.0L, 1 / 4.0L};
    *out = host_copy(in);
    for (int64_t n = 0; n < 24; n++) out->v[n] += slopes[n / 8] * (n % 4 - (n / 4 % 2 + 2));
}

static const struct op_case networks_attention_cases[] = {
    {"scaled_dot_product_attention", "heads", "2x2x3x4 2x2x5x4 2x2x5x3", IN_WIDE, call_sdpa, expect_sdpa, .units = 64,
     .order = 2},
    {"scaled_dot_product_attention", "rounded", "2x3x4 2x5x4 2x5x3", IN_HALF, call_sdpa, expect_sdpa, .units = ROUNDED},
    {"scaled_dot_product_attention", "matrices", "3x4 5x4 5x2", IN_WIDE, call_sdpa, expect_sdpa, .units = 64},
    {"scaled_dot_product_attention", "causal", "1x2x4x4 1x2x4x4 1x2x4x3", IN_WIDE, call_sdpa_causal, expect_sdpa_causal,
     .units = 64, .order = 2},
    {"scaled_dot_product_attention", "causal, aligned at the end", "2x2x4 2x5x4 2x5x4", IN_WIDE, call_sdpa_causal,
     expect_sdpa_causal, .units = 64},
    {"scaled_dot_product_attention", "shared heads, causal", "2x4x3x4 2x2x3x4 2x2x3x5", IN_WIDE, call_sdpa_causal,
     expect_sdpa_causal, .units = 64, .order = 2},
    {"scaled_dot_product_attention", "shared heads, one query", "2x6x1x4 2x2x3x4 2x2x3x5", IN_WIDE, call_sdpa_causal,
     expect_sdpa_causal, .units = 64, .order = 1},
    {"scaled_dot_product_attention", "added mask, capped", "2x4x3x4 2x2x5x4 2x2x5x3 2x4x3x5", IN_WIDE, call_sdpa_added,
     expect_sdpa_added, .units = 64, .order = 2},
    {"scaled_dot_product_attention", "seen or not, shared heads", "2x4x3x2 2x2x5x2 2x2x5x3 i2x1x1x5<5", IN_WIDE,
     call_sdpa_seen, expect_sdpa_seen, .units = 64, .order = 1},
    {"scaled_dot_product_attention", "no queries", "2x0x4 2x5x4 2x5x3", IN_WIDE, call_sdpa, expect_sdpa, .units = 64},
    {"attention_cached", "one place", "2x2x1x3 2x2x1x3 2x2x1x3 2x2x5x3 2x2x5x3 i-<5", IN_WIDE, call_cached,
     expect_cached, .n_out = 3, .units = 64, .order = 1},
    {"attention_cached", "two places, shared heads", "2x4x2x3 2x2x2x3 2x2x2x3 2x2x5x3 2x2x5x3 i-<4", IN_WIDE,
     call_cached, expect_cached, .n_out = 3, .units = 64, .order = 2},
    {"attention_cached", "places of each", "2x4x2x3 2x2x2x3 2x2x2x3 2x2x5x3 2x2x5x3 i2<4", IN_WIDE, call_cached,
     expect_cached, .n_out = 3, .units = 64, .order = 1},
    {"attention_cached", "one each, shared heads", "2x4x1x3 2x2x1x3 2x2x1x3 2x2x5x3 2x2x5x3 i2<4", IN_WIDE, call_cached,
     expect_cached, .n_out = 3, .units = 64},
    {"rope", "halves", "2x2x5x6", IN_WIDE, call_rope, expect_rope, .units = 64, .order = 2},
    {"rope", "rounded", "2x5x4", IN_HALF, call_rope, expect_rope, .units = ROUNDED},
    {"rope", "pairs, a part", "2x3x7", IN_WIDE, call_rope_pairs, expect_rope_pairs, .units = 64, .order = 2},
    {"rope", "at positions", "2x2x3x4 i2x1x3<9", IN_WIDE, call_rope_at, expect_rope_at, .units = 64, .order = 1},
    {"rotary_embedding", "halves, a part", "2x3x5 3x2 3x2", IN_FLOATS, call_rotary, expect_rotary, .units = ROUNDED / 4,
     .order = 2},
    {"rotary_embedding", "pairs", "2x3x4 3x2 3x2", IN_WIDE, call_rotary_pairs, expect_rotary_pairs, .units = 4,
     .order = 2},
    {"sinusoidal_positions", "odd width", "5x7", IN_WIDE, call_sinusoidal, expect_sinusoidal, .units = 16, .order = 1},
    {"alibi_bias", "three heads", "3x2x4", IN_WIDE, call_alibi, expect_alibi, .units = 16, .order = 1},
};
FAMILY_OF(networks_attention);
