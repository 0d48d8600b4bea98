// Convolution and pooling. A convolution and its two gradients are linear in both operands: each is the gradient of the
// others.
#include "grad/rules/rules.h"
#include <string.h>

static void copy_pair(int64_t *dst, const char *attr)
{
    const int64_t *v;
    if (kiln_rule_ints(attr, &v) == 2) memcpy(dst, v, 2 * sizeof *v);
}

static kiln_conv2d_opts conv_options(void)
{
    kiln_conv2d_opts o = {.size = sizeof o, .groups = kiln_rule_int("groups")};
    copy_pair(o.stride, "stride");
    copy_pair(o.padding, "padding");
    copy_pair(o.dilation, "dilation");
    return o;
}

static kiln_conv2d_grad_opts grad_options(void)
{
    kiln_conv2d_grad_opts o = {.size = sizeof o, .groups = kiln_rule_int("groups")};
    copy_pair(o.stride, "stride");
    copy_pair(o.padding, "padding");
    copy_pair(o.dilation, "dilation");
    return o;
}

static int64_t in_dim(size_t input, size_t axis)
{
    return rule_in_dims(input)[axis];
}

RULE(conv2d)
{
    kiln_conv2d_grad_opts o = grad_options();
    if (kiln_rule_wants(0)) din[0] = kiln_conv2d_input_grad(dout[0], in[1], in_dim(0, 2), in_dim(0, 3), &o);
    if (kiln_rule_wants(1)) din[1] = kiln_conv2d_weight_grad(in[0], dout[0], in_dim(1, 2), in_dim(1, 3), &o);
    if (kiln_rule_n_in() > 2 && kiln_rule_wants(2)) din[2] = kiln_sum(dout[0], KILN_REDUCE(.axes = KILN_AXES(0, 2, 3)));
    return kiln_error();
}

// Of (dy, w).
RULE(conv2d_input_grad)
{
    kiln_conv2d_opts o = conv_options();
    kiln_conv2d_grad_opts g = grad_options();
    if (kiln_rule_wants(0)) din[0] = kiln_conv2d(dout[0], in[1], &o);
    if (kiln_rule_wants(1)) din[1] = kiln_conv2d_weight_grad(dout[0], in[0], in_dim(1, 2), in_dim(1, 3), &g);
    return kiln_error();
}

// Of (x, dy).
RULE(conv2d_weight_grad)
{
    kiln_conv2d_opts o = conv_options();
    kiln_conv2d_grad_opts g = grad_options();
    if (kiln_rule_wants(0)) din[0] = kiln_conv2d_input_grad(in[1], dout[0], in_dim(0, 2), in_dim(0, 3), &g);
    if (kiln_rule_wants(1)) din[1] = kiln_conv2d(in[0], dout[0], &o);
    return kiln_error();
}

static kiln_pool2d_opts pool_options(void)
{
    kiln_pool2d_opts o = {.size = sizeof o,
                          .ceil_mode = kiln_rule_int("ceil_mode") != 0,
                          .exclude_padding = kiln_rule_int("exclude_padding") != 0};
    copy_pair(o.kernel, "kernel");
    copy_pair(o.stride, "stride");
    copy_pair(o.padding, "padding");
    copy_pair(o.dilation, "dilation");
    return o;
}

RULE(max_pool2d)
{
    kiln_pool2d_opts o = pool_options();
    din[0] = kiln_max_pool2d_backward(in[0], dout[0], &o);
    return kiln_error();
}

RULE(avg_pool2d)
{
    kiln_pool2d_opts o = pool_options();
    din[0] = kiln_avg_pool2d_backward(dout[0], in_dim(0, 2), in_dim(0, 3), &o);
    return kiln_error();
}

RULE(avg_pool2d_backward)
{
    kiln_pool2d_opts o = pool_options();
    din[0] = kiln_avg_pool2d(dout[0], &o);
    return kiln_error();
}

static const kiln_rule_spec rules[] = {
    {.op = "conv2d", .fn = conv2d, .needs_in_for = {1 << 1, 1 << 0, 0}},
    {.op = "conv2d_input_grad", .fn = conv2d_input_grad, .needs_in_for = {1 << 1, 1 << 0}},
    {.op = "conv2d_weight_grad", .fn = conv2d_weight_grad, .needs_in_for = {1 << 1, 1 << 0}},
    {.op = "max_pool2d", .fn = max_pool2d, .needs_in = 1},
    {.op = "avg_pool2d", .fn = avg_pool2d},
    {.op = "avg_pool2d_backward", .fn = avg_pool2d_backward},
};
RULES(conv, rules);
