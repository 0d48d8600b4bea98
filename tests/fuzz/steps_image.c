// Steps on images and lines: convolutions, pooling, other sizes.
#include "fuzz.h"

// The last axes of any tensor as images, or as lines [N, C, L].
static kiln_tensor *as_images(kiln_tensor *x)
{
    size_t rank = kiln_rank(x);
    int64_t h = rank > 1 ? kiln_dims(x)[rank - 2] : 1, w = rank ? kiln_dims(x)[rank - 1] : 1;
    if (rank == 4) return x;
    return kiln_reshape(x, KILN_SHAPE(1, rank == 3 ? kiln_dims(x)[0] : 1, h, w));
}

static kiln_tensor *as_lines(kiln_tensor *x)
{
    size_t rank = kiln_rank(x);
    if (rank == 3) return x;
    int64_t c = rank > 1 ? kiln_dims(x)[rank - 2] : 1, n = rank == 4 ? kiln_dims(x)[0] * kiln_dims(x)[1] : 1;
    return kiln_reshape(x, KILN_SHAPE(n, c, kiln_dims(x)[rank - 1]));
}

static bool is_image(kiln_tensor *x)
{
    return kiln_rank(x) > 1 && kiln_rank(x) < 5 && is_float(x) && kiln_numel(x);
}

// A weight, of the second operand where it has as many elements.
static kiln_tensor *weight(struct operands *o, size_t rank, const int64_t *dims, const char **name)
{
    int64_t n = 1;
    for (size_t i = 0; i < rank; i++) n *= dims[i];
    bool taken = is_float(o->b) && kiln_numel(o->b) >= n;
    kiln_tensor *w =
        taken ? kiln_narrow(kiln_reshape(o->b, KILN_SHAPE(-1)), 0, 0, n)
              : kiln_mul(kiln_arange(o->run->dev, dtype_of_run(o->run, KILN_F32), 0, (double)n, 1), kiln_scalar(0.125));
    *name = taken ? o->nb : "arange / 8";
    return kiln_cast(kiln_reshape(w, rank, dims), kiln_tensor_dtype(o->a));
}

// One group, or one for each channel.
static int64_t choose_groups(struct operands *o, int64_t channels)
{
    return choose(o, 3) ? 1 : channels;
}

kiln_tensor *step_conv(struct operands *o)
{
    const char *nw;
    kiln_tensor *x = is_image(o->a) ? as_images(o->a) : NULL;
    if (!x) return NULL;
    int64_t channels = kiln_dims(x)[1], groups = choose_groups(o, channels);
    int64_t d[] = {groups * (1 + choose(o, 2)), channels / groups, kiln_dims(x)[2] > 1 ? 2 : 1,
                   kiln_dims(x)[3] > 2 ? 3 : 1};
    kiln_tensor *w = weight(o, 4, d, &nw);
    kiln_conv2d_opts opts = {
        .size = sizeof opts, .stride = {1, 1 + choose(o, 2)}, .padding = {choose(o, 2), 1}, .groups = groups};
    say(o, "conv2d(%s as images, %s as %dx%dx%dx%d, stride 1 %d, padding %d 1, groups %d)", o->na, nw, (int)d[0],
        (int)d[1], (int)d[2], (int)d[3], (int)opts.stride[1], (int)opts.padding[0], (int)groups);
    return kiln_conv2d(x, w, &opts);
}

kiln_tensor *step_conv_line(struct operands *o)
{
    const char *nw;
    kiln_tensor *x = is_image(o->a) ? as_lines(o->a) : NULL;
    if (!x) return NULL;
    int64_t channels = kiln_dims(x)[1], groups = choose_groups(o, channels), side = kiln_dims(x)[2] > 2 ? 3 : 1;
    int64_t out = 1 + choose(o, 2), stride = 1 + choose(o, 2), padding = choose(o, 2), dilation = 1;
    if (choose(o, 2)) {
        kiln_tensor *w = weight(o, 3, (int64_t[]){channels, out, side}, &nw);
        say(o, "conv_transpose1d(%s as lines, %s as %dx%dx%d, stride %d, groups %d)", o->na, nw, (int)channels,
            (int)out, (int)side, (int)stride, (int)groups);
        return kiln_conv_transpose1d(x, w, KILN_CONV_TRANSPOSE1D(.stride = stride, .groups = groups));
    }
    if (side == 3 && kiln_dims(x)[2] > 4 && choose(o, 2)) dilation = 2;
    kiln_tensor *w = weight(o, 3, (int64_t[]){groups * out, channels / groups, side}, &nw);
    say(o, "conv1d(%s as lines, %s as %dx%dx%d, stride %d, padding %d, dilation %d, groups %d)", o->na, nw,
        (int)(groups * out), (int)(channels / groups), (int)side, (int)stride, (int)padding, (int)dilation,
        (int)groups);
    return kiln_conv1d(x, w, KILN_CONV1D(.stride = stride, .padding = padding, .dilation = dilation, .groups = groups));
}

kiln_tensor *step_conv_transposed(struct operands *o)
{
    const char *nw;
    kiln_tensor *x = is_image(o->a) ? as_images(o->a) : NULL;
    if (!x) return NULL;
    int64_t channels = kiln_dims(x)[1], groups = choose_groups(o, channels), stride = 1 + choose(o, 2);
    int64_t d[] = {channels, 1 + choose(o, 2), 2, 1 + choose(o, 3)}, more = stride - 1;
    kiln_tensor *w = weight(o, 4, d, &nw);
    kiln_conv_transpose2d_opts opts = {
        .size = sizeof opts, .stride = {1, stride}, .output_padding = {0, choose(o, 2) ? more : 0}, .groups = groups};
    say(o, "conv_transpose2d(%s as images, %s as %dx%dx%dx%d, stride 1 %d, output_padding 0 %d, groups %d)", o->na, nw,
        (int)d[0], (int)d[1], (int)d[2], (int)d[3], (int)stride, (int)opts.output_padding[1], (int)groups);
    return kiln_conv_transpose2d(x, w, &opts);
}

// Small images of many channels, of which the operand's elements make each: what Winograd's ways are for, forward and
// as the gradient of the image.
kiln_tensor *step_conv_deep(struct operands *o)
{
    static const char *const ways[] = {"mean of images and channels", "mean of images and places", "mean of places"};
    int64_t images = 1 + choose(o, 9), channels = 40 + choose(o, 30), outputs = 40 + choose(o, 24),
            side = 5 + choose(o, 11), k = kiln_numel(o->a);
    uint32_t how = choose(o, 3);
    if (!is_float(o->a) || !k || k > 64) return NULL;
    kiln_tensor *mix = pattern(o, 5, 2, (int64_t[]){k, channels}), *row = kiln_reshape(o->a, KILN_SHAPE(1, k));
    kiln_tensor *color = with_noise(o->run, kiln_matmul(row, mix));
    kiln_tensor *x = kiln_add(pattern(o, 11, 4, (int64_t[]){images, 1, side, side}),
                              kiln_reshape(color, KILN_SHAPE(1, channels, 1, 1)));
    kiln_tensor *w =
        kiln_div(pattern(o, 7, 4, (int64_t[]){outputs, channels, 3, 3}), kiln_scalar(64)); // sums stay small
    x = with_noise(o->run, kiln_conv2d(x, w, KILN_CONV2D(.padding = {1, 1})));
    say(o, "conv2d(%d images of %s in %d channels, %dx%d, [%d,%d,3,3]): %s", (int)images, o->na, (int)channels,
        (int)side, (int)side, (int)outputs, (int)channels, ways[how]);
    if (how == 0) return kiln_mean(x, KILN_REDUCE(.axes = KILN_AXES(0, 1)));
    return kiln_mean(x, how == 1 ? KILN_REDUCE(.axes = KILN_AXES(0, 2, 3)) : KILN_REDUCE(.axes = KILN_AXES(2, 3)));
}

static kiln_tensor *pool_line(struct operands *o, bool max)
{
    kiln_tensor *x = as_lines(o->a);
    int64_t kernel = kiln_dims(x)[2] > 1 ? 2 : 1;
    kiln_pool1d_opts opts = {.size = sizeof opts, .kernel = kernel, .stride = 1 + choose(o, 2)};
    opts.padding = kernel == 2 ? choose(o, 2) : 0;
    opts.ceil_mode = choose(o, 2);
    say(o, "%s_pool1d(%s as lines, kernel %d, stride %d, padding %d, ceil_mode %d)", max ? "max" : "avg", o->na,
        (int)kernel, (int)opts.stride, (int)opts.padding, (int)opts.ceil_mode);
    return max ? kiln_max_pool1d(x, &opts) : kiln_avg_pool1d(x, &opts);
}

kiln_tensor *step_pool(struct operands *o)
{
    kiln_tensor *x = is_image(o->a) ? as_images(o->a) : NULL;
    if (!x) return NULL;
    int64_t h = kiln_dims(x)[2] > 1 ? 2 : 1, w = kiln_dims(x)[3] > 1 ? 2 : 1;
    kiln_pool2d_opts opts = {.size = sizeof opts, .kernel = {h, w}, .stride = {1, 1 + choose(o, 2)}};
    bool max = choose(o, 2);
    if (choose(o, 3) == 0) return pool_line(o, max);
    if (choose(o, 4) == 0) {
        say(o, "adaptive_avg_pool2d(%s as images, %d, %d)", o->na, (int)h, (int)w + 1);
        return kiln_adaptive_avg_pool2d(x, h, w + 1);
    }
    say(o, "%s_pool2d(%s as images, kernel %d %d, stride 1 %d)", max ? "max" : "avg", o->na, (int)h, (int)w,
        (int)opts.stride[1]);
    return max ? kiln_max_pool2d(x, &opts) : kiln_avg_pool2d(x, &opts);
}

kiln_tensor *step_resize(struct operands *o)
{
    static const char *const modes[] = {"bilinear", "nearest", "bicubic"};
    kiln_tensor *x = is_image(o->a) ? as_images(o->a) : NULL;
    if (!x) return NULL;
    const char *mode = modes[choose(o, 3)];
    int64_t h = 1 + choose(o, 5), w = 1 + choose(o, 7);
    bool corners = *mode == 'b' && choose(o, 2);
    say(o, "resize(%s as images, %d, %d, %s%s)", o->na, (int)h, (int)w, mode, corners ? ", align_corners" : "");
    return kiln_resize(x, h, w, KILN_RESIZE(.mode = mode, .align_corners = corners));
}
