// Attention from its parts, as one op, and to a cache.
#include "bench.h"

#include <kiln/control.h>

// --- attention, from its parts

kiln_status setup_attention(struct state *s)
{
    const struct sizes *z = s->z;
    kiln_dtype dtype = z->s > 1024 ? KILN_BF16 : KILN_F32;
    for (int i = 0; i < 3; i++) random_input_of(s, i, dtype, KILN_SHAPE(z->qb, z->h, z->s, z->d));
    s->flops = 4.0 * (double)(z->qb * z->h) * (double)(z->s * z->s) * (double)z->d;
    return kiln_error();
}

kiln_status setup_attention_causal(struct state *s)
{
    setup_attention(s);
    own_input(s, 3, causal_mask(s->dev, s->z->s));
    s->flops /= 2;
    return kiln_error();
}

kiln_status run_attention(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = attention(in[0], in[1], in[2], in[3]);
    return kiln_error();
}

// --- attention to a cache: CACHED places, one after the other, in caches of s places that are half full

enum { CACHED = 16 };

kiln_status setup_sdpa_cached(struct state *s)
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

kiln_status run_sdpa_cached(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *half = kiln_full_int(s->dev, KILN_I64, KILN_SHAPE0, s->z->s / 2), *made[4];
    kiln_tensor *all[] = {in[1], in[2], half, in[0]};
    if (kiln_scan(cached_place, NULL, all, 4, KILN_SCAN(.carried = 3), made, 4)) return kiln_error();
    *out = made[3];
    return kiln_error();
}

// --- as one op, by size: batch, heads, sequence, width of a head

kiln_status setup_sdpa(struct state *s)
{
    const int64_t *n = case_sizes(s);
    for (int i = 0; i < 3; i++) random_input(s, i, KILN_SHAPE(n[0], n[1], n[2], n[3]));
    s->flops = 4.0 * (double)(n[0] * n[1] * n[2] * n[2] * n[3]);
    return kiln_error();
}

kiln_status setup_sdpa_grad(struct state *s)
{
    setup_sdpa(s);
    own_sensitivity(s);
    s->flops *= 3.5; // the scores are made again
    return kiln_error();
}

kiln_status run_sdpa(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_sdpa(in[0], in[1], in[2], NULL, NULL);
    return kiln_error();
}

kiln_status run_sdpa_causal(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_sdpa(in[0], in[1], in[2], NULL, KILN_ATTENTION(.causal = true));
    return kiln_error();
}
