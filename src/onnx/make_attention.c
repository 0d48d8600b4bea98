// Attention and rotary embeddings.
#include "onnx/onnx_fns.h"
#include <kiln/composites.h>
#include <math.h>
#include <string.h>

struct attention {
    int64_t causal, heads[2], mode, past; // heads of queries, of keys and values
    double scale, softcap;
    bool flat;          // [B, L, heads * D] instead of [B, heads, L, D]
    kiln_tensor *in[3]; // [B, heads, L, D]
    kiln_tensor *mask;  // or NULL
};

static kiln_status read_attributes(struct onnx_call *c, struct attention *a)
{
    int64_t precision;
    TRY(onnx_int(c, "is_causal", 0, &a->causal));
    TRY(onnx_int(c, "q_num_heads", 0, &a->heads[0]));
    TRY(onnx_int(c, "kv_num_heads", 0, &a->heads[1]));
    TRY(onnx_int(c, "qk_matmul_output_mode", 0, &a->mode));
    TRY(onnx_int(c, "softmax_precision", 0, &precision)); // of sums that are in f32 or wider always
    TRY(onnx_float(c, "scale", 0, &a->scale));
    TRY(onnx_float(c, "softcap", 0, &a->softcap));
    if (a->mode < 0 || a->mode > 3)
        return onnx_bad(c, KILN_E_FORMAT, "qk_matmul_output_mode is %lld", (long long)a->mode);
    if (!(a->softcap >= 0)) return onnx_bad(c, KILN_E_FORMAT, "softcap is %g", a->softcap);
    return KILN_OK;
}

// [B, L, heads * D] as [B, heads, L, D].
static kiln_tensor *with_heads(struct onnx_call *c, kiln_tensor *x, int64_t heads)
{
    const int64_t *d = kiln_dims(x);
    if (heads < 1 || d[2] % heads) {
        onnx_bad(c, KILN_E_SHAPE, "%lld heads of %lld", (long long)heads, (long long)d[2]);
        return NULL;
    }
    return kiln_transpose(kiln_reshape(x, KILN_SHAPE(d[0], d[1], heads, d[2] / heads)), 1, 2);
}

static kiln_tensor *without_heads(kiln_tensor *x)
{
    return kiln_flatten(kiln_transpose(x, 1, 2), 2, 3);
}

static kiln_status read_inputs(struct onnx_call *c, struct attention *a)
{
    for (int i = 0; i < 3; i++) {
        NEED(a->in[i] = onnx_in(c, i));
        size_t rank = kiln_rank(a->in[i]);
        if (i == 0) a->flat = rank == 3;
        if (rank != (a->flat ? 3 : 4)) return onnx_bad(c, KILN_E_SHAPE, "input %d has rank %zu", i, rank);
        if (a->flat) NEED(a->in[i] = with_heads(c, a->in[i], a->heads[i > 0]));
    }
    for (int i = 1; i < 3; i++) {
        if (!onnx_has(c, 3 + i)) continue;
        kiln_tensor *both[2] = {onnx_in(c, 3 + i), a->in[i]};
        if (i == 1 && kiln_rank(both[0]) == 4) a->past = kiln_dims(both[0])[2];
        NEED(a->in[i] = kiln_concat(both, 2, 2));
    }
    a->mask = onnx_has(c, 3) ? onnx_in(c, 3) : NULL;
    return kiln_error();
}

// A mask that ends before the keys do sees none of the rest.
static kiln_tensor *whole_mask(kiln_tensor *mask, int64_t keys)
{
    size_t rank = kiln_rank(mask);
    int64_t short_of = rank ? keys - kiln_dims(mask)[rank - 1] : 0, after[KILN_MAX_RANK] = {0};
    if (short_of <= 0 || kiln_dims(mask)[rank - 1] == 1) return mask;
    after[rank - 1] = short_of;
    bool seen = kiln_tensor_dtype(mask) == KILN_BOOL;
    return kiln_pad(mask, KILN_PAD(.after = {rank, after}, .value = seen ? 0 : -INFINITY));
}

// Query i sees the keys up to i behind those of the past.
static kiln_tensor *mask_of(struct onnx_call *c, const struct attention *a)
{
    int64_t keys = kiln_dims(a->in[1])[2], length = kiln_dims(a->in[0])[2];
    kiln_tensor *mask = a->mask ? whole_mask(a->mask, keys) : NULL;
    if (!a->causal) return mask;
    kiln_tensor *key = kiln_arange(c->dev, KILN_I64, 0, (double)keys, 1);
    double first = (double)a->past;
    kiln_tensor *query = kiln_unsqueeze(kiln_arange(c->dev, KILN_I64, first, first + (double)length, 1), 1);
    kiln_tensor *seen = kiln_less_equal(key, query);
    if (!mask) return seen;
    if (kiln_tensor_dtype(mask) == KILN_BOOL) return kiln_logical_and(mask, seen);
    return kiln_where(seen, mask, kiln_scalar(-INFINITY));
}

// The scores as they are after the product (mode 0), the cap (1), the mask (2), the softmax (3).
static kiln_tensor *scores(const struct attention *a, kiln_tensor *mask)
{
    kiln_tensor *q = a->in[0], *k = a->in[1];
    int64_t of_q = kiln_dims(q)[1], of_k = kiln_dims(k)[1], width = kiln_dims(q)[3];
    double scale = a->scale != 0 ? a->scale : 1 / sqrt(width > 0 ? (double)width : 1);
    if (of_k && of_q != of_k) k = kiln_repeat_interleave(k, of_q / of_k, 1);
    kiln_tensor *s = kiln_matmul(kiln_mul(q, kiln_scalar(scale)), kiln_transpose(k, 2, 3));
    if (a->mode > 0 && a->softcap > 0)
        s = kiln_mul(kiln_tanh(kiln_mul(s, kiln_scalar(1 / a->softcap))), kiln_scalar(a->softcap));
    if (a->mode > 1 && mask)
        s = kiln_tensor_dtype(mask) == KILN_BOOL ? kiln_where(mask, s, kiln_scalar(-INFINITY)) : kiln_add(s, mask);
    return a->mode > 2 ? kiln_softmax(s, -1) : s;
}

kiln_status onnx_op_attention(struct onnx_call *c)
{
    struct attention a = {0};
    TRY(onnx_check_counts(c, 3, 6, 4));
    TRY(read_attributes(c, &a));
    TRY(read_inputs(c, &a));
    kiln_tensor *mask = mask_of(c, &a);
    if (error_pending) return error_pending;
    kiln_tensor *y = kiln_scaled_dot_product_attention(a.in[0], a.in[1], a.in[2], mask,
                                                       KILN_ATTENTION(.scale = a.scale, .softcap = a.softcap));
    NEED(y);
    TRY(onnx_give(c, 0, a.flat ? without_heads(y) : y));
    for (int i = 1; i < 3; i++)
        if (onnx_wants(c, i)) TRY(onnx_give(c, i, kiln_alias(a.in[i])));
    return onnx_wants(c, 3) ? onnx_give(c, 3, scores(&a, mask)) : KILN_OK;
}

// cos and sin for each place of the sequence: rows of a cache by position_ids, or as they are; [B, 1, L, half].
static kiln_tensor *turns(struct onnx_call *c, int i)
{
    kiln_tensor *t = onnx_in(c, i);
    if (t && onnx_has(c, 3)) t = kiln_take(t, 0, onnx_in(c, 3));
    if (t && kiln_rank(t) != 3) {
        onnx_bad(c, KILN_E_SHAPE, "%s has rank %zu", i == 1 ? "cos_cache" : "sin_cache", kiln_rank(t));
        return NULL;
    }
    return kiln_unsqueeze(t, 1);
}

kiln_status onnx_op_rotary_embedding(struct onnx_call *c)
{
    int64_t interleaved, dims, heads;
    TRY(onnx_check_counts(c, 3, 4, 1));
    TRY(onnx_int(c, "interleaved", 0, &interleaved));
    TRY(onnx_int(c, "rotary_embedding_dim", 0, &dims));
    TRY(onnx_int(c, "num_heads", 0, &heads));
    kiln_tensor *x = onnx_in(c, 0), *cos = turns(c, 1), *sin = turns(c, 2);
    NEED(x && cos && sin);
    size_t rank = kiln_rank(x);
    if (rank != 3 && rank != 4) return onnx_bad(c, KILN_E_SHAPE, "its input has rank %zu", rank);
    if (rank == 3) NEED(x = with_heads(c, x, heads));
    if (!dims) dims = kiln_dims(x)[3];
    if (2 * kiln_dims(cos)[3] != dims)
        return onnx_bad(c, KILN_E_SHAPE, "cos_cache has %lld values for %lld elements", (long long)kiln_dims(cos)[3],
                        (long long)dims);
    kiln_tensor *y = kiln_rotary_embedding(x, cos, sin, KILN_ROTARY_EMBEDDING(.interleaved = interleaved != 0));
    return onnx_give(c, 0, rank == 3 ? without_heads(y) : y);
}
