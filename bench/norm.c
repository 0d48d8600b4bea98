// Rows that normalise: softmax, norms, their gradients, losses.
#include "bench.h"

kiln_status run_softmax(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_softmax(in[0], -1);
    return kiln_error();
}

kiln_status run_layer_norm(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_layer_norm(in[0], 1, KILN_LAYER_NORM(.weight = in[1], .bias = in[1]));
    return kiln_error();
}

kiln_status run_rms_norm(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *m = in[0];
    kiln_tensor *h = kiln_mul(m, m);
    kiln_replace(&h, kiln_mean(h, KILN_REDUCE(.axes = KILN_AXES(-1), .keepdims = true)));
    kiln_replace(&h, kiln_rsqrt(kiln_add(h, kiln_scalar(1e-6))));
    kiln_replace(&h, kiln_mul(m, h));
    kiln_replace(&h, kiln_mul(h, in[1]));
    *out = h;
    return kiln_error();
}

// In 8 groups.
kiln_status setup_group_norm(struct state *s)
{
    int64_t b = s->z->b;
    random_input(s, 0, KILN_SHAPE(b, 64, 56, 56));
    random_input(s, 1, KILN_SHAPE(64));
    s->bytes = 8.0 * (double)b * 64 * 56 * 56;
    return kiln_error();
}

kiln_status run_group_norm(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_group_norm(in[0], 8, KILN_GROUP_NORM(.weight = in[1], .bias = in[1]));
    return kiln_error();
}

// --- bf16

kiln_status setup_matrix_bf16(struct state *s)
{
    random_input_of(s, 0, KILN_BF16, KILN_SHAPE(s->z->r, s->z->c));
    random_input_of(s, 1, KILN_BF16, KILN_SHAPE(s->z->c));
    s->bytes = 4.0 * (double)(s->z->r * s->z->c);
    return kiln_error();
}

// --- with gradients: of the input, and of weight and bias where there are some

kiln_status setup_softmax_grad(struct state *s)
{
    random_input(s, 0, KILN_SHAPE(s->z->r, s->z->c));
    own_sensitivity(s);
    s->bytes = 16.0 * (double)(s->z->r * s->z->c);
    return kiln_error();
}

kiln_status setup_layer_norm_grad(struct state *s)
{
    random_input(s, 0, KILN_SHAPE(s->z->r, s->z->c));
    for (int i = 1; i < 3; i++) random_input(s, i, KILN_SHAPE(s->z->c));
    own_sensitivity(s);
    s->bytes = 16.0 * (double)(s->z->r * s->z->c);
    return kiln_error();
}

kiln_status run_layer_norm_affine(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_layer_norm(in[0], 1, KILN_LAYER_NORM(.weight = in[1], .bias = in[2]));
    return kiln_error();
}

kiln_status setup_batch_norm(struct state *s)
{
    random_input(s, 0, KILN_SHAPE(s->z->b, 64, 56, 56));
    for (int i = 1; i < 3; i++) random_input(s, i, KILN_SHAPE(64));
    s->bytes = 8.0 * (double)s->z->b * 64 * 56 * 56;
    return kiln_error();
}

kiln_status setup_batch_norm_grad(struct state *s)
{
    setup_batch_norm(s);
    own_sensitivity(s);
    s->bytes *= 2;
    return kiln_error();
}

// Gives the statistics of the batch as well.
kiln_status run_batch_norm_train(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    return kiln_batch_norm_train(in[0], KILN_BATCH_NORM(.weight = in[1], .bias = in[2]), &out[0], &out[1], &out[2]);
}

kiln_status run_batch_norm(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *made[3];
    if (run_batch_norm_train(s, in, made)) return kiln_error();
    *out = made[0];
    return kiln_error();
}
