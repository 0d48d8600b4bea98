// Normalisations.
#include "onnx/onnx_fns.h"
#include <string.h>

// An option of 0 means its default.
static double eps_option(double eps)
{
    return eps == 0 ? KILN_ZERO : eps;
}

static kiln_tensor *mix(kiln_tensor *old, kiln_tensor *now, double momentum)
{
    return kiln_add(kiln_mul(old, kiln_scalar(momentum)), kiln_mul(now, kiln_scalar(1 - momentum)));
}

kiln_status onnx_op_batch_norm(struct onnx_call *c)
{
    double eps, momentum;
    int64_t training;
    kiln_tensor *in[5], *y, *mean, *var;
    TRY(onnx_check_counts(c, 5, 5, 3));
    TRY(onnx_float(c, "epsilon", 1e-5f, &eps));
    TRY(onnx_float(c, "momentum", 0.9f, &momentum));
    TRY(onnx_int(c, "training_mode", 0, &training));
    for (int i = 0; i < 5; i++)
        if (!(in[i] = onnx_in(c, i))) return error_pending;
    const kiln_batch_norm_opts opts = {.size = sizeof opts, .weight = in[1], .bias = in[2], .eps = eps_option(eps)};
    if (!training) {
        TRY(onnx_check_counts(c, 5, 5, 1));
        return onnx_give(c, 0, kiln_batch_norm(in[0], in[3], in[4], &opts));
    }
    TRY(kiln_batch_norm_train(in[0], &opts, &y, &mean, &var));
    TRY(onnx_give(c, 0, y));
    if (onnx_wants(c, 1)) TRY(onnx_give(c, 1, mix(in[3], mean, momentum)));
    return onnx_wants(c, 2) ? onnx_give(c, 2, mix(in[4], var, momentum)) : KILN_OK;
}

// (x - mean) / sqrt(var + eps) over axes, and what it is divided by.
static kiln_tensor *normalised(kiln_tensor *x, const int64_t *axes, size_t n, double eps, kiln_tensor **mean,
                               kiln_tensor **inverse)
{
    *mean = kiln_mean(x, KILN_REDUCE(.axes = {n, axes}, .keepdims = true));
    kiln_tensor *var = kiln_var(x, KILN_VAR(.axes = {n, axes}, .keepdims = true));
    *inverse = kiln_rsqrt(kiln_add(var, kiln_scalar(eps)));
    return kiln_mul(kiln_sub(x, *mean), *inverse);
}

kiln_status onnx_op_layer_norm(struct onnx_call *c)
{
    double eps;
    int64_t axis, stash, axes[KILN_MAX_RANK];
    kiln_tensor *mean, *inverse;
    TRY(onnx_check_counts(c, 2, 3, 3));
    TRY(onnx_float(c, "epsilon", 1e-5f, &eps));
    TRY(onnx_int(c, "axis", -1, &axis));
    TRY(onnx_int(c, "stash_type", 1, &stash));
    kiln_tensor *x = onnx_in(c, 0), *weight = onnx_in(c, 1), *bias = onnx_has(c, 2) ? onnx_in(c, 2) : NULL;
    NEED(x && weight);
    size_t rank = kiln_rank(x);
    TRY(onnx_axis(c, axis, rank, &axis));
    size_t n = rank - (size_t)axis;
    const int64_t *dims = kiln_dims(x) + axis;
    weight = kiln_expand(weight, n, dims);
    if (bias) bias = kiln_expand(bias, n, dims);
    TRY(onnx_give(
        c, 0, kiln_layer_norm(x, (int64_t)n, KILN_LAYER_NORM(.weight = weight, .bias = bias, .eps = eps_option(eps)))));
    if (!onnx_wants(c, 1) && !onnx_wants(c, 2)) return KILN_OK;
    for (size_t i = 0; i < n; i++) axes[i] = axis + (int64_t)i;
    if (stash == 1 && kiln_tensor_dtype(x) != KILN_F64) x = kiln_cast(x, KILN_F32);
    NEED(normalised(x, axes, n, eps, &mean, &inverse));
    if (onnx_wants(c, 1)) TRY(onnx_give(c, 1, mean));
    return onnx_wants(c, 2) ? onnx_give(c, 2, inverse) : KILN_OK;
}

kiln_status onnx_op_instance_norm(struct onnx_call *c)
{
    double eps;
    TRY(onnx_check_counts(c, 3, 3, 1));
    TRY(onnx_float(c, "epsilon", 1e-5f, &eps));
    kiln_tensor *x = onnx_in(c, 0), *weight = onnx_in(c, 1), *bias = onnx_in(c, 2);
    NEED(x && weight && bias);
    if (kiln_rank(x) < 3) return onnx_bad(c, KILN_E_SHAPE, "its input has rank %zu", kiln_rank(x));
    if (kiln_dims(x)[1] == 0) return onnx_give(c, 0, kiln_alias(x));
    return onnx_give(
        c, 0,
        kiln_group_norm(x, kiln_dims(x)[1], KILN_GROUP_NORM(.weight = weight, .bias = bias, .eps = eps_option(eps))));
}

// A value a group, for each of its channels.
static kiln_tensor *of_groups(kiln_tensor *t, int64_t channels)
{
    int64_t groups = kiln_numel(t);
    return groups ? kiln_repeat_interleave(t, channels / groups, 0) : t;
}

// Until version 20 weight and bias are of groups, then of channels.
kiln_status onnx_op_group_norm(struct onnx_call *c)
{
    double eps;
    int64_t groups, stash;
    TRY(onnx_check_counts(c, 3, 3, 1));
    TRY(onnx_float(c, "epsilon", 1e-5f, &eps));
    TRY(onnx_int(c, "num_groups", 0, &groups));
    TRY(onnx_int(c, "stash_type", 1, &stash));
    kiln_tensor *x = onnx_in(c, 0), *weight = onnx_in(c, 1), *bias = onnx_in(c, 2);
    NEED(x && weight && bias);
    size_t rank = kiln_rank(x);
    if (rank < 2 || groups < 1 || kiln_dims(x)[1] % groups)
        return onnx_bad(c, KILN_E_SHAPE, "%lld groups of %lld channels", (long long)groups,
                        (long long)(rank < 2 ? 0 : kiln_dims(x)[1]));
    if (c->opset < 21) {
        weight = of_groups(weight, kiln_dims(x)[1]);
        bias = of_groups(bias, kiln_dims(x)[1]);
    }
    return onnx_give(
        c, 0, kiln_group_norm(x, groups, KILN_GROUP_NORM(.weight = weight, .bias = bias, .eps = eps_option(eps))));
}

kiln_status onnx_op_rms_norm(struct onnx_call *c)
{
    double eps;
    int64_t axis, stash;
    TRY(onnx_check_counts(c, 2, 2, 1));
    TRY(onnx_float(c, "epsilon", 1e-5f, &eps));
    TRY(onnx_int(c, "axis", -1, &axis));
    TRY(onnx_int(c, "stash_type", 1, &stash));
    kiln_tensor *x = onnx_in(c, 0), *weight = onnx_in(c, 1);
    NEED(x && weight);
    size_t rank = kiln_rank(x);
    TRY(onnx_axis(c, axis, rank, &axis));
    kiln_tensor *y = kiln_rms_norm(x, (int64_t)rank - axis, KILN_RMS_NORM(.eps = eps_option(eps)));
    return onnx_give(c, 0, kiln_mul(y, weight));
}

// Squares are added up over `size` channels around each, as a pooling along them.
kiln_status onnx_op_lrn(struct onnx_call *c)
{
    double alpha, beta, bias;
    int64_t size;
    TRY(onnx_check_counts(c, 1, 1, 1));
    TRY(onnx_float(c, "alpha", 1e-4f, &alpha));
    TRY(onnx_float(c, "beta", 0.75, &beta));
    TRY(onnx_float(c, "bias", 1, &bias));
    TRY(onnx_int(c, "size", 0, &size));
    kiln_tensor *x = onnx_in(c, 0);
    NEED(x);
    if (kiln_rank(x) < 2 || size < 1 || size > 1 << 16)
        return onnx_bad(c, KILN_E_SHAPE, "%lld channels at a time, in rank %zu", (long long)size, kiln_rank(x));
    int64_t n = kiln_dims(x)[0], channels = kiln_dims(x)[1], each = kiln_numel(x) ? kiln_numel(x) / (n * channels) : 0;
    kiln_tensor *squares = kiln_reshape(kiln_square(x), KILN_SHAPE(n, 1, channels, each));
    squares =
        kiln_pad(squares, KILN_PAD(.before = KILN_ARGS(0, 0, (size - 1) / 2), .after = KILN_ARGS(0, 0, size / 2)));
    kiln_tensor *means = kiln_avg_pool2d(squares, KILN_POOL2D(.kernel = {size, 1}, .stride = {1, 1}));
    means = kiln_reshape(means, kiln_rank(x), kiln_dims(x));
    kiln_tensor *base = kiln_add(kiln_mul(means, kiln_scalar(alpha)), kiln_scalar(bias));
    return onnx_give(c, 0, kiln_div(x, kiln_pow(base, kiln_scalar(beta))));
}

kiln_status onnx_op_lp_norm(struct onnx_call *c)
{
    int64_t axis, p;
    TRY(onnx_check_counts(c, 1, 1, 1));
    TRY(onnx_int(c, "axis", -1, &axis));
    TRY(onnx_int(c, "p", 2, &p));
    kiln_tensor *x = onnx_in(c, 0);
    NEED(x);
    if (p != 1 && p != 2) return onnx_bad(c, KILN_E_UNSUPPORTED, "p is %lld", (long long)p);
    kiln_tensor *norm = kiln_norm(x, KILN_NORM(.axes = {1, &axis}, .keepdims = true, .ord = (double)p));
    return onnx_give(c, 0, kiln_div(x, norm));
}

kiln_status onnx_op_mean_variance_norm(struct onnx_call *c)
{
    static const int64_t usual[] = {0, 2, 3};
    kiln_ints axes;
    TRY(onnx_check_counts(c, 1, 1, 1));
    TRY(onnx_ints(c, "axes", &axes));
    if (!axes.v) axes = (kiln_ints){COUNT_OF(usual), usual};
    kiln_tensor *x = onnx_in(c, 0);
    NEED(x);
    kiln_tensor *mean = kiln_mean(x, KILN_REDUCE(.axes = axes, .keepdims = true));
    kiln_tensor *std = kiln_std(x, KILN_VAR(.axes = axes, .keepdims = true));
    return onnx_give(c, 0, kiln_div(kiln_sub(x, mean), kiln_add(std, kiln_scalar(1e-9))));
}
