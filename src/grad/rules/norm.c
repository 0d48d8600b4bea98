// Softmax and normalisation. First derivatives are one kernel each; the gradients of those kernels go by their
// decomposition.
#include "grad/rules/parts.h"
#include "ir/graph.h"
#include "tensor/tensor.h"

static kiln_tensor *sum_axis(kiln_tensor *t, int64_t axis)
{
    return kiln_sum(t, KILN_REDUCE(.axes = KILN_AXES(axis), .keepdims = true));
}

RULE(softmax)
{
    din[0] = kiln_softmax_backward(out[0], dout[0], kiln_rule_int("axis"));
    return kiln_error();
}

// f = y (dy - sum(y dy)) is linear and symmetric in dy.
RULE(softmax_backward)
{
    kiln_tensor *y = in[0], *dy = in[1], *g = dout[0];
    int64_t axis = kiln_rule_int("axis");
    if (kiln_rule_wants(0))
        din[0] = kiln_sub(kiln_mul(g, kiln_sub(dy, sum_axis(kiln_mul(y, dy), axis))),
                          kiln_mul(dy, sum_axis(kiln_mul(g, y), axis)));
    if (kiln_rule_wants(1)) din[1] = kiln_softmax_backward(y, g, axis);
    return kiln_error();
}

RULE(log_softmax)
{
    din[0] = kiln_log_softmax_backward(out[0], dout[0], kiln_rule_int("axis"));
    return kiln_error();
}

// f = dy - exp(y) sum(dy)
RULE(log_softmax_backward)
{
    kiln_tensor *y = in[0], *dy = in[1], *g = dout[0];
    int64_t axis = kiln_rule_int("axis");
    kiln_tensor *gp = kiln_mul(g, kiln_exp(y));
    if (kiln_rule_wants(0)) din[0] = kiln_neg(kiln_mul(gp, sum_axis(dy, axis)));
    if (kiln_rule_wants(1)) din[1] = kiln_sub(g, sum_axis(gp, axis));
    return kiln_error();
}

static kiln_tensor *weight_or_one(kiln_tensor *w)
{
    return w ? w : kiln_scalar(1);
}

// In a graph that computes with it, x is there to be read again.
static bool is_given(const kiln_tensor *x)
{
    if (!x->builder || !x->builder->graph || x->value < 0) return false;
    return x->builder->graph->values.v[x->value].kind == IR_INPUT;
}

// (x - mean) / deviation. Where a graph makes the numbers of each row for x's gradient too, and x can be read again, it
// is made from those where it is needed; else, and where they would be rounded, it is one kernel.
static kiln_tensor *normalised(kiln_tensor *x, int64_t n_axes, double eps)
{
    bool narrow = kiln_tensor_dtype(x) != KILN_F32 && kiln_tensor_dtype(x) != KILN_F64;
    if (narrow || !is_given(x) || !kiln_rule_wants(0))
        return kiln_layer_norm(x, n_axes, KILN_LAYER_NORM(.eps = eps ? eps : KILN_ZERO));
    int64_t axes[KILN_MAX_RANK];
    for (int64_t i = 0; i < n_axes; i++) axes[i] = -i - 1;
    kiln_reduce_opts rows = {.size = sizeof rows, .axes = {(size_t)n_axes, axes}, .keepdims = true};
    kiln_tensor *d = kiln_sub(x, kiln_mean(x, &rows));
    return kiln_mul(d, kiln_rsqrt(kiln_add(kiln_mean(kiln_mul(d, d), &rows), kiln_scalar(eps))));
}

// In eager mode before there is x's gradient, which has the size of both tensors that this takes.
static kiln_tensor *layer_norm_weight(kiln_tensor *x, kiln_tensor *dy, int64_t n_axes, double eps)
{
    kiln_tensor *n = normalised(x, n_axes, eps), *product = kiln_mul(dy, n);
    kiln_free(&n);
    return product;
}

RULE(layer_norm)
{
    int64_t n_axes = kiln_rule_int("n_axes");
    double eps = kiln_rule_float("eps");
    kiln_tensor *w = kiln_rule_n_in() > 1 ? in[1] : NULL;
    bool of_weight = kiln_rule_n_in() > 1 && kiln_rule_wants(1), eager = !in[0]->builder;
    if (of_weight && eager) din[1] = layer_norm_weight(in[0], dout[0], n_axes, eps);
    if (kiln_rule_wants(0)) din[0] = kiln_layer_norm_backward(in[0], weight_or_one(w), dout[0], n_axes, eps);
    if (of_weight && !eager) din[1] = layer_norm_weight(in[0], dout[0], n_axes, eps);
    if (kiln_rule_n_in() > 2 && kiln_rule_wants(2)) din[2] = dout[0];
    return kiln_error();
}

struct norm {
    int64_t n_axes, axes[KILN_MAX_RANK];
    size_t count;
    double eps;
    bool channels;
};

// Seen over x's dimensions: a vector of channels as [C, 1, 1 ...].
static kiln_tensor *over(const struct norm *a, kiln_tensor *v, kiln_tensor *x)
{
    if (!a->channels || kiln_rank(v) == 0 || kiln_rank(x) < 2) return v;
    int64_t dims[KILN_MAX_RANK] = {kiln_numel(v)};
    for (size_t i = 1; i + 1 < kiln_rank(x); i++) dims[i] = 1;
    return kiln_reshape(v, kiln_rank(x) - 1, dims);
}

static kiln_tensor *mean_over(const struct norm *a, kiln_tensor *t)
{
    kiln_reduce_opts opts = {.size = sizeof opts, .axes = {a->count, a->axes}, .keepdims = true};
    return a->count ? kiln_mean(t, &opts) : t;
}

// The formula of layer_norm's and batch_norm's gradient by x, of (x, weight, dy).
static kiln_status backward_parts(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct norm *a = user;
    kiln_tensor *x = in[0], *d = kiln_sub(x, mean_over(a, x));
    kiln_tensor *r = kiln_rsqrt(kiln_add(mean_over(a, kiln_square(d)), kiln_scalar(a->eps)));
    kiln_tensor *g = kiln_mul(in[2], over(a, in[1], x)), *h = kiln_mul(d, r);
    out[0] = kiln_mul(r, kiln_sub(kiln_sub(g, mean_over(a, g)), kiln_mul(h, mean_over(a, kiln_mul(g, h)))));
    return kiln_error();
}

RULE(layer_norm_backward)
{
    struct norm a = {.n_axes = kiln_rule_int("n_axes"), .eps = kiln_rule_float("eps")};
    for (; (int64_t)a.count < a.n_axes; a.count++) a.axes[a.count] = -(int64_t)a.count - 1;
    return rule_by_parts(backward_parts, &a, in, 3, dout[0], din);
}

static struct norm channel_norm(void)
{
    struct norm a = {.eps = kiln_rule_float("eps"), .channels = true};
    size_t rank = kiln_rule_in_shape(0, NULL);
    for (size_t i = 0; i < rank; i++)
        if (i != (rank > 1 ? 1 : 0)) a.axes[a.count++] = (int64_t)i;
    return a;
}

RULE(batch_norm_backward)
{
    struct norm a = channel_norm();
    return rule_by_parts(backward_parts, &a, in, 3, dout[0], din);
}

// Of (x, mean, var, weight, bias), of which the last one or two may be missing.
static kiln_status batch_norm_parts(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct norm *a = user;
    kiln_tensor *x = in[0], *r = kiln_rsqrt(kiln_add(over(a, in[2], x), kiln_scalar(a->eps)));
    kiln_tensor *y = kiln_mul(kiln_sub(x, over(a, in[1], x)), r);
    if (n_in > 3) y = kiln_mul(y, over(a, in[3], x));
    out[0] = n_in > 4 ? kiln_add(y, over(a, in[4], x)) : y;
    return kiln_error();
}

RULE(batch_norm)
{
    struct norm a = channel_norm();
    size_t n_in = kiln_rule_n_in();
    kiln_tensor *parts[5] = {in[0], in[1], in[2]};
    if (n_in > 3) parts[3] = weight_or_one(in[3]); // a bias may come without a weight
    if (n_in > 4) parts[4] = in[4];
    return rule_by_parts(batch_norm_parts, &a, parts, n_in, dout[0], din);
}

RULE(rms_norm)
{
    int64_t n_axes = kiln_rule_int("n_axes");
    double eps = kiln_rule_float("eps");
    kiln_tensor *w = kiln_rule_n_in() > 1 ? in[1] : NULL;
    if (kiln_rule_wants(0)) din[0] = kiln_rms_norm_backward(in[0], weight_or_one(w), dout[0], n_axes, eps);
    if (kiln_rule_n_in() > 1 && kiln_rule_wants(1))
        din[1] = kiln_mul(dout[0], kiln_rms_norm(in[0], n_axes, KILN_RMS_NORM(.eps = eps ? eps : KILN_ZERO)));
    return kiln_error();
}

// The formula of rms_norm's gradient by x, of (x, weight, dy).
static kiln_status rms_backward_parts(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct norm *a = user;
    kiln_tensor *r = kiln_rsqrt(kiln_add(mean_over(a, kiln_square(in[0])), kiln_scalar(a->eps)));
    kiln_tensor *g = kiln_mul(in[2], in[1]), *h = kiln_mul(in[0], r);
    out[0] = kiln_mul(r, kiln_sub(g, kiln_mul(h, mean_over(a, kiln_mul(g, h)))));
    return kiln_error();
}

RULE(rms_norm_backward)
{
    struct norm a = {.n_axes = kiln_rule_int("n_axes"), .eps = kiln_rule_float("eps")};
    for (; (int64_t)a.count < a.n_axes; a.count++) a.axes[a.count] = -(int64_t)a.count - 1;
    return rule_by_parts(rms_backward_parts, &a, in, 3, dout[0], din);
}

static kiln_tensor *sum_channels(const struct norm *a, kiln_tensor *t)
{
    kiln_reduce_opts opts = {.size = sizeof opts, .axes = {a->count, a->axes}};
    return a->count ? kiln_sum(t, &opts) : t;
}

static kiln_tensor *add_or_first(kiln_tensor *sum, kiln_tensor *term)
{
    return sum ? kiln_add(sum, term) : term;
}

// The batch's mean and variance are results too: their gradients join x's.
static kiln_tensor *through_statistics(const struct norm *a, kiln_tensor *x, kiln_tensor *mean, kiln_tensor *dmean,
                                       kiln_tensor *dvar, kiln_tensor *dx)
{
    double n = (double)kiln_numel(x) / (double)kiln_numel(mean);
    if (dmean)
        dx = add_or_first(dx, kiln_expand(kiln_mul(over(a, dmean, x), kiln_scalar(1 / n)), kiln_rank(x), kiln_dims(x)));
    if (dvar)
        dx = add_or_first(dx, kiln_mul(kiln_sub(x, over(a, mean, x)), kiln_mul(over(a, dvar, x), kiln_scalar(2 / n))));
    return dx;
}

RULE(batch_norm_train)
{
    struct norm a = channel_norm();
    kiln_tensor *w = kiln_rule_n_in() > 1 ? in[1] : NULL;
    double eps = kiln_rule_float("eps");
    if (kiln_rule_wants(0)) {
        if (dout[0]) din[0] = kiln_batch_norm_backward(in[0], weight_or_one(w), dout[0], eps);
        din[0] = through_statistics(&a, in[0], out[1], dout[1], dout[2], din[0]);
    }
    if (!dout[0]) return kiln_error();
    if (kiln_rule_n_in() > 1 && kiln_rule_wants(1)) {
        kiln_tensor *h = kiln_batch_norm(in[0], out[1], out[2], KILN_BATCH_NORM(.eps = eps ? eps : KILN_ZERO));
        din[1] = sum_channels(&a, kiln_mul(dout[0], h));
    }
    if (kiln_rule_n_in() > 2 && kiln_rule_wants(2)) din[2] = sum_channels(&a, dout[0]);
    return kiln_error();
}

// x [N, C, ...] as [N, groups, C / groups, ...].
static kiln_tensor *grouped(kiln_tensor *x, int64_t groups)
{
    size_t rank = kiln_rank(x);
    int64_t dims[KILN_MAX_RANK];
    const int64_t *d = kiln_dims(x);
    for (size_t i = 0; i < rank; i++) dims[i + (i > 0)] = d[i];
    dims[2] = d[1] / groups;
    dims[1] = groups;
    return kiln_reshape(x, rank + 1, dims);
}

RULE(group_norm)
{
    struct norm a = channel_norm();
    int64_t groups = kiln_rule_int("groups"), rank = (int64_t)kiln_rank(dout[0]);
    const int64_t *dims = kiln_dims(dout[0]);
    bool weighted = kiln_rule_n_in() > 1 && in[1];
    if (kiln_rule_wants(0)) {
        kiln_tensor *g = weighted ? kiln_mul(dout[0], over(&a, in[1], dout[0])) : dout[0];
        din[0] =
            kiln_layer_norm_backward(grouped(in[0], groups), weight_or_one(NULL), grouped(g, groups), rank - 1, a.eps);
        din[0] = kiln_reshape(din[0], (size_t)rank, dims);
    }
    if (weighted && kiln_rule_wants(1)) {
        kiln_tensor *h = kiln_group_norm(in[0], groups, KILN_GROUP_NORM(.eps = a.eps ? a.eps : KILN_ZERO));
        din[1] = sum_channels(&a, kiln_mul(dout[0], h));
    }
    if (kiln_rule_n_in() > 2 && kiln_rule_wants(2)) din[2] = sum_channels(&a, dout[0]);
    return kiln_error();
}

static const kiln_rule_spec rules[] = {
    {.op = "softmax", .fn = softmax, .needs_out = 1},
    {.op = "softmax_backward", .fn = softmax_backward, .needs_in = 3},
    {.op = "log_softmax", .fn = log_softmax, .needs_out = 1},
    {.op = "log_softmax_backward", .fn = log_softmax_backward, .needs_in = 3},
    {.op = "layer_norm", .fn = layer_norm, .needs_in = 3},
    {.op = "layer_norm_backward", .fn = layer_norm_backward, .needs_in = 7},
    {.op = "rms_norm", .fn = rms_norm, .needs_in = 3},
    {.op = "rms_norm_backward", .fn = rms_norm_backward, .needs_in = 7},
    {.op = "group_norm", .fn = group_norm, .needs_in = 3},
    {.op = "batch_norm", .fn = batch_norm, .needs_in = 31},
    {.op = "batch_norm_backward", .fn = batch_norm_backward, .needs_in = 7},
    {.op = "batch_norm_train", .fn = batch_norm_train, .needs_in = 3, .needs_out = 6, .missing_is_null = true},
};
RULES(norm, rules);
