// Rows over matrices: broadcasts, reductions along each axis, running sums.
#include "bench.h"

kiln_status setup_matrix(struct state *s)
{
    const struct sizes *z = s->z;
    random_input(s, 0, KILN_SHAPE(z->r, z->c));
    random_input(s, 1, KILN_SHAPE(z->c));
    random_input(s, 2, KILN_SHAPE(z->r, 1));
    s->bytes = 8.0 * (double)(z->r * z->c);
    return kiln_error();
}

kiln_status setup_matrix_read(struct state *s)
{
    random_input(s, 0, KILN_SHAPE(s->z->r, s->z->c));
    s->bytes = 4.0 * (double)(s->z->r * s->z->c);
    return kiln_error();
}

kiln_status run_broadcast(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *h = kiln_mul(in[0], in[1]);
    kiln_replace(&h, kiln_add(h, in[2]));
    kiln_replace(&h, kiln_mul(h, kiln_scalar(0.5)));
    *out = h;
    return kiln_error();
}

kiln_status run_sum_rows(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_sum(in[0], KILN_REDUCE(.axes = KILN_AXES(-1)));
    return kiln_error();
}

kiln_status run_sum_cols(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_sum(in[0], KILN_REDUCE(.axes = KILN_AXES(0)));
    return kiln_error();
}

kiln_status run_transpose_add(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_add(kiln_contiguous(kiln_transpose(in[0], 0, 1)), kiln_scalar(1));
    return kiln_error();
}

kiln_status run_var_rows(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_var(in[0], KILN_VAR(.axes = KILN_AXES(-1)));
    return kiln_error();
}

kiln_status run_argmax_rows(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_argmax(in[0], KILN_REDUCE(.axes = KILN_AXES(-1)));
    return kiln_error();
}

kiln_status run_argmax_cols(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_argmax(in[0], KILN_REDUCE(.axes = KILN_AXES(0)));
    return kiln_error();
}

kiln_status run_logsumexp_rows(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_logsumexp(in[0], KILN_REDUCE(.axes = KILN_AXES(-1)));
    return kiln_error();
}

kiln_status run_cumsum_rows(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_cumsum(in[0], 1);
    return kiln_error();
}

kiln_status run_cumsum_cols(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_cumsum(in[0], 0);
    return kiln_error();
}

// --- three axes, and the four of images

kiln_status setup_cube(struct state *s)
{
    int64_t rows = s->z->r / 64;
    random_input(s, 0, KILN_SHAPE(rows, 64, s->z->c));
    s->bytes = 4.0 * (double)(rows * 64 * s->z->c);
    return kiln_error();
}

kiln_status run_reduce_middle(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_sum(in[0], KILN_REDUCE(.axes = KILN_AXES(1)));
    return kiln_error();
}

kiln_status run_reduce_first(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_sum(in[0], KILN_REDUCE(.axes = KILN_AXES(0)));
    return kiln_error();
}

kiln_status setup_images(struct state *s)
{
    random_input(s, 0, KILN_SHAPE(s->z->b, 64, 56, 56));
    s->bytes = 4.0 * (double)s->z->b * 64 * 56 * 56;
    return kiln_error();
}

kiln_status run_mean_channels(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_mean(in[0], KILN_REDUCE(.axes = KILN_AXES(0, 2, 3)));
    return kiln_error();
}

kiln_status run_mean_images(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_mean(in[0], KILN_REDUCE(.axes = KILN_AXES(2, 3)));
    return kiln_error();
}

// --- squared distances between two sets of points in a few dimensions

kiln_status setup_distances(struct state *s)
{
    const int64_t *n = case_sizes(s); // points, dimensions
    for (int i = 0; i < 2; i++) random_input(s, i, KILN_SHAPE(n[0], n[1]));
    s->flops = 3.0 * (double)(n[0] * n[0] * n[1]);
    s->bytes = 4.0 * (double)(n[0] * n[0] + 2 * n[0] * n[1]);
    return kiln_error();
}

kiln_status run_distances(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *d = kiln_sub(kiln_unsqueeze(in[0], 1), kiln_unsqueeze(in[1], 0));
    *out = kiln_sum(kiln_mul(d, d), KILN_REDUCE(.axes = KILN_AXES(-1)));
    return kiln_error();
}
