// Convolutions, pooling and resizing of images and sequences, and their gradients.
#include "bench.h"

#include <string.h>

kiln_status setup_conv(struct state *s)
{
    int64_t b = s->z->b;
    random_input(s, 0, KILN_SHAPE(b, 64, 56, 56));
    random_input(s, 1, KILN_SHAPE(64, 64, 3, 3));
    s->flops = 2.0 * (double)b * 64 * 64 * 9 * 56 * 56;
    return kiln_error();
}

kiln_status run_conv(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_conv2d(in[0], in[1], KILN_CONV2D(.padding = {1, 1}));
    return kiln_error();
}

kiln_status setup_conv1d(struct state *s)
{
    int64_t b = s->z->b;
    random_input(s, 0, KILN_SHAPE(b, 64, 1024));
    random_input(s, 1, KILN_SHAPE(64, 64, 9));
    s->flops = 2.0 * (double)b * 64 * 64 * 9 * 1024;
    return kiln_error();
}

kiln_status run_conv1d(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_conv1d(in[0], in[1], KILN_CONV1D(.padding = 4));
    return kiln_error();
}

kiln_status setup_conv_transpose(struct state *s)
{
    int64_t b = s->z->b;
    random_input(s, 0, KILN_SHAPE(b, 64, 28, 28));
    random_input(s, 1, KILN_SHAPE(64, 32, 4, 4));
    s->flops = 2.0 * (double)b * 64 * 32 * 16 * 28 * 28;
    return kiln_error();
}

kiln_status run_conv_transpose(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_conv_transpose2d(in[0], in[1], KILN_CONV_TRANSPOSE2D(.stride = {2, 2}, .padding = {1, 1}));
    return kiln_error();
}

kiln_status setup_resize(struct state *s)
{
    int64_t b = s->z->b;
    random_input(s, 0, KILN_SHAPE(b, 3, 256, 256));
    s->bytes = 4.0 * (double)b * 3 * (256 * 256 + 224 * 224);
    return kiln_error();
}

kiln_status run_resize(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_interpolate(in[0], KILN_INTERPOLATE(.sizes = KILN_ARGS(224, 224), .mode = "bilinear"));
    return kiln_error();
}

// --- convolutions by size: images, channels in and out, side of the image, of the kernel, stride, groups

static void shape_of_conv(const struct state *s, int64_t *x, int64_t *w)
{
    const int64_t *n = case_sizes(s), groups = n[6] ? n[6] : 1;
    memcpy(x, (int64_t[]){n[0], n[1], n[3], n[3]}, 4 * sizeof *x);
    memcpy(w, (int64_t[]){n[2], n[1] / groups, n[4], n[4]}, 4 * sizeof *w);
}

kiln_status setup_sized_conv(struct state *s)
{
    int64_t x[4], w[4], stride = case_sizes(s)[5], side = (case_sizes(s)[3] + stride - 1) / stride;
    shape_of_conv(s, x, w);
    random_input(s, 0, 4, x);
    random_input(s, 1, 4, w);
    s->flops = 2.0 * (double)(x[0] * w[0] * w[1] * w[2] * w[3] * side * side);
    return kiln_error();
}

kiln_status run_sized_conv(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    const int64_t *n = case_sizes(s), stride = n[5], padding = n[4] / 2;
    *out =
        kiln_conv2d(in[0], in[1],
                    KILN_CONV2D(.padding = {padding, padding}, .stride = {stride, stride}, .groups = n[6] ? n[6] : 1));
    return kiln_error();
}

kiln_status setup_conv_grad(struct state *s)
{
    setup_sized_conv(s);
    own_sensitivity(s);
    s->flops *= 3;
    return kiln_error();
}

// --- pooling of windows that overlap: 3x3, stride 2

kiln_status setup_pool(struct state *s)
{
    int64_t b = s->z->b;
    random_input(s, 0, KILN_SHAPE(b, 64, 56, 56));
    s->bytes = 4.0 * (double)b * 64 * (56 * 56 + 28 * 28);
    return kiln_error();
}

kiln_status setup_pool_grad(struct state *s)
{
    setup_pool(s);
    own_sensitivity(s);
    s->bytes *= 2;
    return kiln_error();
}

kiln_status run_pool(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_max_pool2d(in[0], KILN_POOL2D(.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}));
    return kiln_error();
}
