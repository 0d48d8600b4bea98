// Rows that move elements: over strided inputs, permuted, joined, padded.
#include "bench.h"

static kiln_tensor *every_second(kiln_tensor *t)
{
    return kiln_slice(
        t, KILN_SLICE(.start = KILN_ARGS(0, 0), .stop = KILN_ARGS(INT64_MAX, INT64_MAX), .step = KILN_ARGS(1, 2)));
}

// Two matrices, of which every second column is looked at.
kiln_status setup_strided(struct state *s)
{
    for (int i = 0; i < 2; i++) random_input(s, i, KILN_SHAPE(s->z->r, s->z->c));
    s->bytes = 10.0 * (double)(s->z->r * s->z->c);
    return kiln_error();
}

kiln_status run_strided_add(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_add(every_second(in[0]), every_second(in[1]));
    return kiln_error();
}

kiln_status run_strided_chain(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *x = every_second(in[0]), *y = every_second(in[1]);
    kiln_tensor *h = kiln_mul(x, y);
    kiln_replace(&h, kiln_add(h, x));
    kiln_replace(&h, kiln_sub(h, kiln_scalar(0.5)));
    kiln_replace(&h, kiln_relu(h));
    kiln_replace(&h, kiln_mul(h, y));
    *out = h;
    return kiln_error();
}

// --- permuted

static void count_copy(struct state *s)
{
    s->bytes = 8.0 * (double)kiln_numel(s->in[0]);
}

kiln_status setup_image_copy(struct state *s)
{
    random_input(s, 0, KILN_SHAPE(s->z->b, 64, 56, 56));
    count_copy(s);
    return kiln_error();
}

kiln_status run_permute_nhwc(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_contiguous(kiln_permute(in[0], KILN_AXES(0, 2, 3, 1)));
    return kiln_error();
}

// [batch, sequence, heads, width]
kiln_status setup_permute_heads(struct state *s)
{
    const struct sizes *z = s->z;
    random_input(s, 0, KILN_SHAPE(8 * z->qb, z->s, z->h, z->d));
    count_copy(s);
    return kiln_error();
}

kiln_status run_permute_heads(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_contiguous(kiln_permute(in[0], KILN_AXES(0, 2, 1, 3)));
    return kiln_error();
}

kiln_status setup_permute_inner(struct state *s)
{
    random_input(s, 0, KILN_SHAPE(s->z->n / 4096, 64, 64));
    count_copy(s);
    return kiln_error();
}

kiln_status run_permute_inner(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_contiguous(kiln_permute(in[0], KILN_AXES(0, 2, 1)));
    return kiln_error();
}

// --- joined, padded

kiln_status setup_concat(struct state *s)
{
    for (int i = 0; i < 4; i++) random_input(s, i, KILN_SHAPE(s->z->r, s->z->c / 4));
    s->bytes = 8.0 * (double)(s->z->r * s->z->c);
    return kiln_error();
}

kiln_status run_concat(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_concat(in, 4, 1);
    return kiln_error();
}

kiln_status run_pad(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_pad(in[0], KILN_PAD(.before = KILN_ARGS(0, 0, 1, 1), .after = KILN_ARGS(0, 0, 1, 1)));
    return kiln_error();
}
