// Convolution in two dimensions and its two gradients, each one hand-written kernel. All three are linear in both
// operands, so they are each other's gradients.
//
// Launch of every convolution kernel: scalars are 64-bit integers, in this order: N C H W O OH OW KH KW SH SW PH PW DH
// DW G. Strides of an operand are over its own four dimensions: x and dx (n, c, h, w), w and dw (o, c/g, kh, kw), y and
// dy (n, o, oh, ow); the bias has its stride at [1]. The space is the output's. conv2d: x, w, bias (immediate 0 when
// absent), y. conv2d_input_grad: dy, w, dx. conv2d_weight_grad: x, dy, dw.
#include "ops/family.h"

struct conv_shape {
    int64_t n, c, h, w, o, oh, ow, kh, kw, stride[2], padding[2], dilation[2], groups;
};

_Static_assert(AT_conv2d_opts_stride == AT_conv2d_grad_opts_stride &&
                   AT_conv2d_opts_groups == AT_conv2d_grad_opts_groups,
               "read_options serves both");

// The options are attributes from `at` on.
static kiln_status read_options(const struct op_call *c, int at, struct conv_shape *v)
{
    const struct attr *a = &c->attrs[at];
    for (int i = 0; i < 2; i++) {
        v->stride[i] = a[AT_conv2d_opts_stride].v[i];
        v->padding[i] = a[AT_conv2d_opts_padding].v[i];
        v->dilation[i] = a[AT_conv2d_opts_dilation].v[i];
        if (v->stride[i] < 1)
            return op_fail(c, KILN_E_ARGUMENT, "stride %lld is not positive", (long long)v->stride[i]);
        if (v->padding[i] < 0) return op_fail(c, KILN_E_ARGUMENT, "padding %lld is negative", (long long)v->padding[i]);
        if (v->dilation[i] < 1)
            return op_fail(c, KILN_E_ARGUMENT, "dilation %lld is not positive", (long long)v->dilation[i]);
        if (v->stride[i] > INT32_MAX || v->padding[i] > INT32_MAX || v->dilation[i] > INT32_MAX)
            return op_fail(c, KILN_E_ARGUMENT, "stride, padding or dilation is above %d", INT32_MAX);
    }
    v->groups = a[AT_conv2d_opts_groups].i;
    if (v->groups < 1) return op_fail(c, KILN_E_ARGUMENT, "groups %lld is not positive", (long long)v->groups);
    if (v->groups > INT32_MAX) return op_fail(c, KILN_E_ARGUMENT, "groups is above %d", INT32_MAX);
    return KILN_OK;
}

static kiln_status rank4(const struct op_call *c, int in)
{
    if (c->in[in]->rank == 4) return KILN_OK;
    return op_fail(c, KILN_E_SHAPE, "%s must have 4 dimensions%s, it is %s%s", c->op->in_names[in],
                   in ? "" : ", [N, C, H, W]", type_string(c->in[in]).s,
                   !in && c->in[in]->rank == 3 ? "; kiln_unsqueeze(x, 0) makes it a batch of one" : "");
}

static int64_t out_size(int64_t in, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation)
{
    int64_t span = in + 2 * padding - dilation * (kernel - 1) - 1;
    return span < 0 ? -1 : span / stride + 1;
}

static bool is_side(int64_t size)
{
    return size >= 0 && size <= INT32_MAX;
}

static kiln_status out_sizes(const struct op_call *c, struct conv_shape *v)
{
    if (!is_side(v->h) || !is_side(v->w) || !is_side(v->kh) || !is_side(v->kw))
        return op_fail(c, KILN_E_SHAPE, "an image or a kernel has a side below 0 or above %d", INT32_MAX);
    v->oh = out_size(v->h, v->kh, v->stride[0], v->padding[0], v->dilation[0]);
    v->ow = out_size(v->w, v->kw, v->stride[1], v->padding[1], v->dilation[1]);
    if (v->kh > 0 && v->kw > 0 && v->oh >= 0 && v->ow >= 0) return KILN_OK;
    return op_fail(c, KILN_E_SHAPE,
                   "a kernel of %lld x %lld with dilation %lld, %lld does not fit into %lld x %lld with padding %lld, "
                   "%lld; %s is %s",
                   (long long)v->kh, (long long)v->kw, (long long)v->dilation[0], (long long)v->dilation[1],
                   (long long)v->h, (long long)v->w, (long long)v->padding[0], (long long)v->padding[1],
                   c->op->in_names[0], type_string(c->in[0]).s);
}

// Axes in another order, where the sizes say so.
static const char *order_hint(const struct op_call *c, const struct conv_shape *v, int64_t w_channels)
{
    const struct type *x = c->in[0], *w = c->in[1];
    if (c->op->index != OP_conv2d) return "";
    if (w_channels == v->c && v->groups > 1) return "; of w axis 1 is the input channels divided by groups";
    if (x->dims[3] == w_channels * v->groups)
        return "; x looks like NHWC: kiln_permute(x, KILN_AXES(0, 3, 1, 2)) makes it NCHW";
    if (w->dims[2] * v->groups == v->c && w->dims[0] == w->dims[1])
        return "; w looks like HWIO: kiln_permute(w, KILN_AXES(3, 2, 0, 1)) makes it OIHW";
    return "";
}

static kiln_status check_groups(const struct op_call *c, const struct conv_shape *v, int64_t w_channels)
{
    if (v->c % v->groups || v->o % v->groups || w_channels != v->c / v->groups)
        return op_fail(c, KILN_E_SHAPE,
                       "%s is %s and %s is %s: %lld input channels (axis 1, NCHW), %lld outputs and groups %lld do not "
                       "fit a weight with %lld channels%s",
                       c->op->in_names[0], type_string(c->in[0]).s, c->op->in_names[1], type_string(c->in[1]).s,
                       (long long)v->c, (long long)v->o, (long long)v->groups, (long long)w_channels,
                       order_hint(c, v, w_channels));
    return KILN_OK;
}

static kiln_status float_result(struct op_call *c)
{
    bool weak;
    struct type acc = *c->in[0];
    for (int i = 1; i < c->n_in && i < 3; i++)
        if (c->in[i] && !type_promote(&acc, c->in[i], &acc.dtype, &weak))
            return op_no_common_dtype(c, acc.dtype, c->in[i]->dtype);
    c->out[0] = (struct type){.dtype = acc.dtype, .rank = 4};
    if (dtype_kind_of[acc.dtype] == KIND_FLOAT) return KILN_OK;
    return op_fail(c, KILN_E_DTYPE, "takes floats: %s is %s, %s is %s", c->op->in_names[0], type_string(c->in[0]).s,
                   c->op->in_names[1], type_string(c->in[1]).s);
}

static void set_dims(struct type *t, int64_t a, int64_t b, int64_t c, int64_t d)
{
    t->dims[0] = a, t->dims[1] = b, t->dims[2] = c, t->dims[3] = d;
}

static kiln_status conv_forward(const struct op_call *c, struct conv_shape *v)
{
    const struct type *x = c->in[0], *w = c->in[1];
    TRY(rank4(c, 0));
    TRY(rank4(c, 1));
    TRY(read_options(c, AT_conv2d_stride, v));
    v->n = x->dims[0], v->c = x->dims[1], v->h = x->dims[2], v->w = x->dims[3];
    v->o = w->dims[0], v->kh = w->dims[2], v->kw = w->dims[3];
    TRY(check_groups(c, v, w->dims[1]));
    return out_sizes(c, v);
}

kiln_status infer_conv2d(struct op_call *c)
{
    struct conv_shape v;
    TRY(conv_forward(c, &v));
    const struct type *bias = c->n_in > 2 ? c->in[2] : NULL;
    if (bias && (bias->rank != 1 || bias->dims[0] != v.o))
        return op_fail(c, KILN_E_SHAPE, "bias is %s, it must have %lld values, the outputs of w %s",
                       type_string(bias).s, (long long)v.o, type_string(c->in[1]).s);
    TRY(float_result(c));
    set_dims(&c->out[0], v.n, v.o, v.oh, v.ow);
    return KILN_OK;
}

// dy must be what conv2d would give for the sizes in v.
static kiln_status check_dy(const struct op_call *c, const struct conv_shape *v, int in)
{
    const struct type *dy = c->in[in];
    if (dy->dims[0] == v->n && dy->dims[1] == v->o && dy->dims[2] == v->oh && dy->dims[3] == v->ow) return KILN_OK;
    return op_fail(c, KILN_E_SHAPE, "dy is %s, the convolution gives [%lld,%lld,%lld,%lld]", type_string(dy).s,
                   (long long)v->n, (long long)v->o, (long long)v->oh, (long long)v->ow);
}

static kiln_status conv_input_grad(const struct op_call *c, struct conv_shape *v)
{
    const struct type *dy = c->in[0], *w = c->in[1];
    TRY(rank4(c, 0));
    TRY(rank4(c, 1));
    TRY(read_options(c, AT_conv2d_input_grad_stride, v));
    v->n = dy->dims[0], v->o = w->dims[0];
    if (__builtin_mul_overflow(w->dims[1], v->groups, &v->c)) v->c = -1;
    v->h = attr_int(c, AT_conv2d_input_grad_height), v->w = attr_int(c, AT_conv2d_input_grad_width), v->kh = w->dims[2],
    v->kw = w->dims[3];
    TRY(check_groups(c, v, w->dims[1]));
    TRY(out_sizes(c, v));
    return check_dy(c, v, 0);
}

kiln_status infer_conv2d_input_grad(struct op_call *c)
{
    struct conv_shape v;
    TRY(conv_input_grad(c, &v));
    TRY(float_result(c));
    set_dims(&c->out[0], v.n, v.c, v.h, v.w);
    return KILN_OK;
}

static kiln_status conv_weight_grad(const struct op_call *c, struct conv_shape *v)
{
    const struct type *x = c->in[0], *dy = c->in[1];
    TRY(rank4(c, 0));
    TRY(rank4(c, 1));
    TRY(read_options(c, AT_conv2d_weight_grad_stride, v));
    v->n = x->dims[0], v->c = x->dims[1], v->h = x->dims[2], v->w = x->dims[3], v->o = dy->dims[1];
    v->kh = attr_int(c, AT_conv2d_weight_grad_height), v->kw = attr_int(c, AT_conv2d_weight_grad_width);
    TRY(check_groups(c, v, v->c / v->groups));
    TRY(out_sizes(c, v));
    return check_dy(c, v, 1);
}

kiln_status infer_conv2d_weight_grad(struct op_call *c)
{
    struct conv_shape v;
    TRY(conv_weight_grad(c, &v));
    TRY(float_result(c));
    set_dims(&c->out[0], v.o, v.c / v.groups, v.kh, v.kw);
    return KILN_OK;
}

// --- as a sum of products ---

static void set_strides(struct launch_operand *o, const int64_t (*of)[4])
{
    int64_t old[4];
    memcpy(old, o->strides, sizeof old);
    for (int d = 0; d < 8; d++) {
        o->strides[d] = 0;
        for (int i = 0; i < 4; i++) o->strides[d] += of[d][i] * old[i];
    }
}

// y[n, g, o, oy, ox] = b[g, o] + sum over c, ky, kx of x[n, g, c, oy * S - P + ky * D, ...] * w[g, o, c, ky, kx]:
// strides alone, but for the image's border.
int unfold_conv2d(struct launch *l, struct launch_window *windows)
{
    const int64_t *s = (const int64_t *)l->scalars; // N C H W O OH OW KH KW SH SW PH PW DH DW G
    int64_t groups = s[15], c = s[1] / groups, o = s[4] / groups;
    const int64_t sizes[MAX_RANK] = {s[0], groups, o, s[5], s[6], c, s[7], s[8]};
    const int64_t x[8][4] = {{1}, {0, c}, {0}, {0, 0, s[9]}, {0, 0, 0, s[10]}, {0, 1}, {0, 0, s[13]}, {0, 0, 0, s[14]}};
    const int64_t w[8][4] = {{0}, {o}, {1}, {0}, {0}, {0, 1}, {0, 0, 1}, {0, 0, 0, 1}};
    const int64_t bias[8][4] = {{0}, {0, o}, {0, 1}}, y[8][4] = {{1}, {0, o}, {0, 1}, {0, 0, 1}, {0, 0, 0, 1}};
    struct launch_operand *image = &l->operands[0];
    int64_t corner = s[11] * image->strides[2] + s[12] * image->strides[3];
    image->address -= (uint64_t)(corner * (int64_t)dtype_size_B[image->dtype]);
    set_strides(image, x);
    set_strides(&l->operands[1], w);
    set_strides(&l->operands[2], bias);
    set_strides(&l->operands[3], y);
    memcpy(l->sizes, sizes, sizeof sizes);
    l->rank = 8;
    l->n_reduce = 3;
    l->n_scalars = 0;
    int n = 0;
    for (int i = 0; i < 2; i++) {
        int64_t step = s[9 + i], padding = s[11 + i], tap = s[13 + i], size = s[2 + i];
        int64_t last = step * (s[5 + i] - 1) - padding + tap * (s[7 + i] - 1);
        if (padding == 0 && last < size) continue;
        windows[n++] = (struct launch_window){(uint8_t)(3 + i), (uint8_t)(6 + i),  (int32_t)step,
                                              (int32_t)tap,     (int32_t)-padding, (int32_t)size};
    }
    return n;
}

// Sums of an invocation of the weight's gradient, outputs by taps: as many as registers hold, `most` a side, fewer
// where these would not be there. Few numbers, for each is a pipeline; the kernel is told both, and its grid counts
// tiles.
static int64_t tiles_of(int64_t size, uint32_t most, uint32_t *side)
{
    *side = size == 1 ? 1 : size <= 4 ? 4 : most;
    return (size + *side - 1) / *side;
}

// Results of an invocation at one pixel, of the convolution and of the image's gradient: what a tap costs is shared.
static int64_t rows_of(int64_t size, const struct view *out, uint32_t *rows)
{
    *rows = size > 8 && out->dtype != KILN_F64 ? 16 : 8;
    return (size + *rows - 1) / *rows;
}

static kiln_status launch_conv(const struct op_call *c, struct lowering *lo, int family, const struct conv_shape *v,
                               const struct view *bias)
{
    const struct view *out = &c->vout[0];
    struct launch l;
    launch_init(&l, lo, kernel_of(family, dtype_class(out->dtype)), 4, out->dims);
    for (int i = 0; i < 2; i++) launch_operand(&l, &c->vin[i], c->vin[i].strides, false);
    if (bias) {
        int64_t strides[MAX_RANK] = {0, bias->immediate ? 0 : bias->strides[0]};
        launch_operand(&l, bias, strides, false);
    }
    launch_operand(&l, out, out->strides, true);
    const int64_t scalars[] = {v->n,          v->c,           v->h,           v->w,         v->o,         v->oh,
                               v->ow,         v->kh,          v->kw,          v->stride[0], v->stride[1], v->padding[0],
                               v->padding[1], v->dilation[0], v->dilation[1], v->groups};
    for (size_t i = 0; i < COUNT_OF(scalars); i++) launch_scalar_i(&l, scalars[i]);
    // Strides are constants of a pipeline: a division by 1 costs nothing there.
    l.variant[0] = (uint32_t)v->stride[0], l.variant[1] = (uint32_t)v->stride[1];
    // As a matrix product: columns, rows, groups.
    if (family == FAMILY_conv2d)
        l.extent[0] = v->n * v->oh * v->ow, l.extent[1] = rows_of(v->o / v->groups, out, &l.variant[2]),
        l.extent[2] = v->groups;
    else if (family == FAMILY_conv2d_input_grad)
        l.extent[0] = v->n * v->h * v->w, l.extent[1] = rows_of(v->c / v->groups, out, &l.variant[2]),
        l.extent[2] = v->groups;
    else
        l.extent[0] = tiles_of(v->c / v->groups * v->kh * v->kw, 8, &l.variant[3]),
        l.extent[1] = tiles_of(v->o / v->groups, out->dtype == KILN_F64 ? 4 : 8, &l.variant[2]),
        l.extent[2] = v->groups;
    return lo->launch(lo, &l);
}

kiln_status lower_conv2d(const struct op_call *c, struct lowering *lo)
{
    struct conv_shape v;
    TRY(conv_forward(c, &v));
    if (type_numel(&c->out[0]) == 0) return KILN_OK;
    struct view bias = c->n_in > 2 && c->in[2] ? c->vin[2] : view_number(0);
    if (v.c == 0) return lower_copy(lo, &bias, &c->vout[0]);
    return launch_conv(c, lo, FAMILY_conv2d, &v, &bias);
}

kiln_status lower_conv2d_input_grad(const struct op_call *c, struct lowering *lo)
{
    struct conv_shape v;
    TRY(conv_input_grad(c, &v));
    if (type_numel(&c->out[0]) == 0) return KILN_OK;
    if (type_numel(c->in[0]) == 0) return lower_fill(lo, 0, &c->vout[0]);
    return launch_conv(c, lo, FAMILY_conv2d_input_grad, &v, NULL);
}

kiln_status lower_conv2d_weight_grad(const struct op_call *c, struct lowering *lo)
{
    struct conv_shape v;
    TRY(conv_weight_grad(c, &v));
    if (type_numel(&c->out[0]) == 0) return KILN_OK;
    if (type_numel(c->in[1]) == 0) return lower_fill(lo, 0, &c->vout[0]);
    return launch_conv(c, lo, FAMILY_conv2d_weight_grad, &v, NULL);
}
