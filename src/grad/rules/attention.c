// Attention: the first gradients are one kernel, but of a mask; those of the gradients go by their parts.
#include "grad/rules/parts.h"
#include <math.h>
#include <string.h>

static kiln_tensor *transposed(kiln_tensor *t)
{
    return kiln_transpose(t, -2, -1);
}

static kiln_flash_attention_opts options(kiln_tensor *mask)
{
    return (kiln_flash_attention_opts){.size = sizeof(kiln_flash_attention_opts),
                                       .mask = mask,
                                       .scale = kiln_rule_float("scale"),
                                       .causal = kiln_rule_int("causal") != 0};
}

static double scale_of(const kiln_flash_attention_opts *o, kiln_tensor *q)
{
    return o->scale != 0 ? o->scale : 1 / sqrt(kiln_dim(q, -1) > 0 ? (double)kiln_dim(q, -1) : 1);
}

static kiln_tensor *sees(kiln_tensor *q, kiln_tensor *k)
{
    kiln_device *dev = kiln_tensor_device(q);
    int64_t queries = kiln_dim(q, -2), keys = kiln_dim(k, -2);
    kiln_tensor *key = kiln_arange(dev, KILN_I32, 0, (double)keys, 1);
    kiln_tensor *last = kiln_arange(dev, KILN_I32, (double)(keys - queries), (double)keys, 1);
    return kiln_less_equal(key, kiln_unsqueeze(last, 1));
}

static kiln_tensor *weights(kiln_tensor *q, kiln_tensor *k, const kiln_flash_attention_opts *o)
{
    kiln_tensor *scores = kiln_mul(kiln_matmul(q, transposed(k)), kiln_scalar(scale_of(o, q)));
    if (o->mask && kiln_tensor_dtype(o->mask) == KILN_BOOL)
        scores = kiln_where(o->mask, scores, kiln_scalar(-INFINITY));
    else if (o->mask)
        scores = kiln_add(scores, o->mask);
    if (o->causal) scores = kiln_where(sees(q, k), scores, kiln_scalar(-INFINITY));
    return kiln_softmax(scores, -1);
}

// in: q, k, v, mask
static kiln_status by_parts(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    (void)n_in, (void)n_out;
    kiln_flash_attention_opts o = *(const kiln_flash_attention_opts *)user;
    o.mask = in[3];
    out[0] = kiln_matmul(weights(in[0], in[1], &o), in[2]);
    return kiln_error();
}

RULE(flash_attention)
{
    bool masked = kiln_rule_n_in() > 3 && in[3];
    kiln_flash_attention_opts o = options(masked ? in[3] : NULL);
    if (!dout[0]) return kiln_error();
    if (masked && kiln_rule_wants(3)) return rule_by_parts(by_parts, &o, in, 4, dout[0], din);
    return kiln_flash_attention_backward(in[0], in[1], in[2], out[0], out[1], dout[0], &o, &din[0], &din[1], &din[2]);
}

static kiln_tensor *sum_of(kiln_tensor *a, kiln_tensor *b)
{
    return a && b ? kiln_add(a, b) : a ? a : b;
}

static kiln_tensor *product(kiln_tensor *a, kiln_tensor *b)
{
    return a && b ? kiln_matmul(a, b) : NULL;
}

// With p the weights, t = dy v^T and ds = p (t - sum(p t)): dq = scale ds k, dk = scale ds^T q, dv = p^T dy. g are the
// gradients by these three; y and stats count as functions of the other inputs.
RULE(flash_attention_backward)
{
    kiln_tensor *q = in[0], *k = in[1], *v = in[2], *dy = in[5];
    kiln_flash_attention_opts o = options(kiln_rule_n_in() > 6 ? in[6] : NULL);
    kiln_tensor *scale = kiln_scalar(scale_of(&o, q)), *p = weights(q, k, &o), *t = kiln_matmul(dy, transposed(v));
    kiln_tensor *ds = kiln_mul(kiln_softmax_backward(p, t, -1), scale);
    kiln_tensor *g_q = dout[0], *g_k = dout[1], *g_v = dout[2], *by_p = NULL, *by_t = NULL;
    kiln_tensor *by_ds = sum_of(product(g_q, transposed(k)), g_k ? product(q, transposed(g_k)) : NULL);
    if (by_ds) {
        by_ds = kiln_mul(by_ds, scale);
        by_t = kiln_softmax_backward(p, by_ds, -1);
        const kiln_reduce_opts *row = KILN_REDUCE(.axes = KILN_AXES(-1), .keepdims = true);
        by_p = kiln_sub(kiln_mul(by_ds, kiln_sub(t, kiln_sum(kiln_mul(p, t), row))),
                        kiln_mul(t, kiln_sum(kiln_mul(by_ds, p), row)));
    }
    if (g_v) by_p = sum_of(by_p, product(dy, transposed(g_v)));
    kiln_tensor *by_score = by_p ? kiln_softmax_backward(p, by_p, -1) : NULL;
    kiln_tensor *scaled = by_score ? kiln_mul(by_score, scale) : NULL;
    if (kiln_rule_wants(0)) din[0] = sum_of(product(scaled, k), product(ds, g_k));
    if (kiln_rule_wants(1) && scaled) din[1] = product(transposed(scaled), q);
    if (kiln_rule_wants(1) && g_q) din[1] = sum_of(din[1], product(transposed(ds), g_q));
    if (kiln_rule_wants(2) && by_t) din[2] = product(transposed(by_t), dy);
    if (kiln_rule_wants(5)) din[5] = sum_of(product(by_t, v), product(p, g_v));
    if (kiln_rule_n_in() > 6 && kiln_rule_wants(6)) din[6] = by_score;
    return kiln_error();
}

static const kiln_rule_spec rules[] = {
    {.op = "flash_attention", .fn = flash_attention, .needs_in = 15, .needs_out = 3},
    {.op = "flash_attention_backward", .fn = flash_attention_backward, .needs_in = 0x67},
};
RULES(attention, rules);
