// Pooling in two dimensions. Launch of every pooling kernel: scalars are 64-bit integers, in this order: N C H W OH OW
// KH KW SH SW PH PW DH DW, and whether padding is excluded from the mean. Strides of an operand are over its own (n, c,
// h, w). The space is the output's; operands: max_pool2d and avg_pool2d x, y; max_pool2d_backward x, dy, dx;
// avg_pool2d_backward dy, dx.
#include "ops/family.h"

struct pool_shape {
    int64_t n, c, h, w, oh, ow, kernel[2], stride[2], padding[2], dilation[2];
    bool ceil_mode, exclude;
};

// The options are attributes from `at` on.
static kiln_status read_options(const struct op_call *c, int at, struct pool_shape *p)
{
    const struct attr *a = &c->attrs[at];
    for (int i = 0; i < 2; i++) {
        p->kernel[i] = a[AT_pool2d_opts_kernel].v[i];
        p->stride[i] = a[AT_pool2d_opts_stride].v[i] ? a[AT_pool2d_opts_stride].v[i] : p->kernel[i];
        p->padding[i] = a[AT_pool2d_opts_padding].v[i];
        p->dilation[i] = a[AT_pool2d_opts_dilation].v[i];
        if (p->kernel[i] < 1 || p->stride[i] < 1 || p->dilation[i] < 1 || p->padding[i] < 0)
            return op_fail(c, KILN_E_ARGUMENT,
                           "kernel %lld, stride %lld and dilation %lld must be positive, padding %lld not negative",
                           (long long)p->kernel[i], (long long)p->stride[i], (long long)p->dilation[i],
                           (long long)p->padding[i]);
        if (p->kernel[i] > INT32_MAX || p->stride[i] > INT32_MAX || p->dilation[i] > INT32_MAX)
            return op_fail(c, KILN_E_ARGUMENT, "kernel, stride or dilation is above %d", INT32_MAX);
        int64_t reach = p->dilation[i] * (p->kernel[i] - 1) + 1;
        if (p->padding[i] >= reach)
            return op_fail(c, KILN_E_ARGUMENT, "padding %lld: a window of %lld would hold nothing else",
                           (long long)p->padding[i], (long long)reach);
    }
    p->ceil_mode = a[AT_pool2d_opts_ceil_mode].i != 0;
    p->exclude = a[AT_pool2d_opts_exclude_padding].i != 0;
    return KILN_OK;
}

// With ceil_mode a last window may hang over the edge, but must start inside the image or its left padding.
static int64_t out_size(const struct pool_shape *p, int i, int64_t in)
{
    int64_t span = in + 2 * p->padding[i] - p->dilation[i] * (p->kernel[i] - 1) - 1;
    if (span < 0) return -1;
    int64_t n = (span + (p->ceil_mode ? p->stride[i] - 1 : 0)) / p->stride[i] + 1;
    if (p->ceil_mode && (n - 1) * p->stride[i] >= in + p->padding[i]) n--;
    return n;
}

static kiln_status pool_of(const struct op_call *c, int at, const struct type *x, int64_t h, int64_t w,
                           struct pool_shape *p)
{
    if (x->rank != 4)
        return op_fail(c, KILN_E_SHAPE, "%s must have 4 dimensions, [N, C, H, W]; it is %s", c->op->in_names[0],
                       type_string(x).s);
    bool largest = c->op->index == OP_max_pool2d || c->op->index == OP_max_pool2d_backward;
    if (dtype_kind_of[x->dtype] != KIND_FLOAT && !(largest && dtype_kind_of[x->dtype] == KIND_INT))
        return op_fail(c, KILN_E_DTYPE, "takes floats%s, %s is %s", largest ? " and integers" : "", c->op->in_names[0],
                       type_string(x).s);
    TRY(read_options(c, at, p));
    p->n = x->dims[0], p->c = x->dims[1], p->h = h, p->w = w;
    if (h < 0 || w < 0 || h > INT32_MAX || w > INT32_MAX)
        return op_fail(c, KILN_E_SHAPE, "an image has a side below 0 or above %d", INT32_MAX);
    p->oh = out_size(p, 0, h);
    p->ow = out_size(p, 1, w);
    if (p->oh >= 0 && p->ow >= 0) return KILN_OK;
    return op_fail(c, KILN_E_SHAPE, "a window of %lld x %lld does not fit into %lld x %lld, %s is %s",
                   (long long)p->kernel[0], (long long)p->kernel[1], (long long)h, (long long)w, c->op->in_names[0],
                   type_string(x).s);
}

static kiln_status check_dy(const struct op_call *c, const struct pool_shape *p, const struct type *dy)
{
    if (dy->rank == 4 && dy->dims[0] == p->n && dy->dims[1] == p->c && dy->dims[2] == p->oh && dy->dims[3] == p->ow)
        return KILN_OK;
    return op_fail(c, KILN_E_SHAPE, "dy is %s, the pooling gives [%lld,%lld,%lld,%lld]", type_string(dy).s,
                   (long long)p->n, (long long)p->c, (long long)p->oh, (long long)p->ow);
}

static void result(struct op_call *c, const struct pool_shape *p, int64_t h, int64_t w)
{
    c->out[0] = (struct type){.dtype = c->in[0]->dtype, .rank = 4, .dims = {p->n, p->c, h, w}};
}

kiln_status infer_pool2d(struct op_call *c)
{
    struct pool_shape p;
    const struct type *x = c->in[0];
    TRY(pool_of(c, AT_max_pool2d_kernel, x, x->rank == 4 ? x->dims[2] : 0, x->rank == 4 ? x->dims[3] : 0, &p));
    result(c, &p, p.oh, p.ow);
    return KILN_OK;
}

kiln_status infer_pool2d_backward(struct op_call *c)
{
    struct pool_shape p;
    const struct type *x = c->in[0];
    TRY(pool_of(c, AT_max_pool2d_backward_kernel, x, x->rank == 4 ? x->dims[2] : 0, x->rank == 4 ? x->dims[3] : 0, &p));
    TRY(check_dy(c, &p, c->in[1]));
    result(c, &p, p.h, p.w);
    return KILN_OK;
}

kiln_status infer_avg_pool2d_backward(struct op_call *c)
{
    struct pool_shape p;
    TRY(pool_of(c, AT_avg_pool2d_backward_kernel, c->in[0], attr_int(c, AT_avg_pool2d_backward_height),
                attr_int(c, AT_avg_pool2d_backward_width), &p));
    TRY(check_dy(c, &p, c->in[0]));
    result(c, &p, p.h, p.w);
    return KILN_OK;
}

static kiln_status launch_pool(const struct op_call *c, struct lowering *lo, int family, const struct pool_shape *p)
{
    const struct view *out = &c->vout[0];
    if (type_numel(&c->out[0]) == 0) return KILN_OK;
    struct launch l;
    launch_init(&l, lo, kernel_of(family, dtype_class(out->dtype)), 4, out->dims);
    for (int i = 0; i < c->n_in; i++) launch_operand(&l, &c->vin[i], c->vin[i].strides, false);
    launch_operand(&l, out, out->strides, true);
    const int64_t scalars[] = {p->n,          p->c,          p->h,           p->w,           p->oh,
                               p->ow,         p->kernel[0],  p->kernel[1],   p->stride[0],   p->stride[1],
                               p->padding[0], p->padding[1], p->dilation[0], p->dilation[1], p->exclude};
    for (size_t i = 0; i < COUNT_OF(scalars); i++) launch_scalar_i(&l, scalars[i]);
    l.extent[0] = type_numel(&c->out[0]);
    return lo->launch(lo, &l);
}

kiln_status lower_pool2d(const struct op_call *c, struct lowering *lo)
{
    struct pool_shape p;
    TRY(pool_of(c, AT_max_pool2d_kernel, c->in[0], c->in[0]->dims[2], c->in[0]->dims[3], &p));
    return launch_pool(c, lo, c->op->family, &p);
}

kiln_status lower_max_pool2d_backward(const struct op_call *c, struct lowering *lo)
{
    struct pool_shape p;
    TRY(pool_of(c, AT_max_pool2d_backward_kernel, c->in[0], c->in[0]->dims[2], c->in[0]->dims[3], &p));
    return launch_pool(c, lo, FAMILY_max_pool2d_backward, &p);
}

kiln_status lower_avg_pool2d_backward(const struct op_call *c, struct lowering *lo)
{
    struct pool_shape p;
    TRY(pool_of(c, AT_avg_pool2d_backward_kernel, c->in[0], attr_int(c, AT_avg_pool2d_backward_height),
                attr_int(c, AT_avg_pool2d_backward_width), &p));
    return launch_pool(c, lo, FAMILY_avg_pool2d_backward, &p);
}
