// Convolutions, pooling, norms, losses.
#include "onnx/write.h"
#include "ops/attrs.h"
#include <math.h>
#include <string.h>

static unsigned wide(unsigned dtype)
{
    return dtype == KILN_F64 ? KILN_F64 : KILN_F32;
}

// Floats that f32 holds: ONNX's attributes are of that dtype.
static bool is_single(double v, unsigned dtype)
{
    return dtype != KILN_F64 || (double)(float)v == v;
}

// --- windows

static void put_window(struct onnx_writer *w, int stride, int padding, int dilation)
{
    const struct attr *a = onnx_node_of(w)->attrs;
    int64_t pads[4] = {a[padding].v[0], a[padding].v[1], a[padding].v[0], a[padding].v[1]};
    onnx_put_list(w, "strides", 2, a[stride].v);
    onnx_put_list(w, "pads", 4, pads);
    if (dilation >= 0) onnx_put_list(w, "dilations", 2, a[dilation].v);
}

void onnx_write_conv2d(struct onnx_writer *w)
{
    unsigned dtype = onnx_computes_in(w, "Conv", onnx_type_out(w, 0)->dtype);
    if (dtype == DTYPE_COUNT) return;
    const char *x = onnx_operand(w, 0, dtype), *weight = onnx_operand(w, 1, dtype);
    const char *bias = onnx_has_operand(w, 2) ? onnx_operand(w, 2, dtype) : "";
    onnx_put_list(w, "kernel_shape", 2, onnx_type_in(w, 1)->dims + 2);
    put_window(w, AT_conv2d_stride, AT_conv2d_padding, AT_conv2d_dilation);
    onnx_put_int(w, "group", onnx_attr_of(w, AT_conv2d_groups));
    onnx_gives(w, 0, PUT(w, "Conv", x, weight, bias), dtype);
}

// The image may be larger than what windows at their places reach: rows and columns at its end.
void onnx_write_conv2d_input_grad(struct onnx_writer *w)
{
    const struct attr *a = onnx_node_of(w)->attrs;
    const struct type *dy = onnx_type_in(w, 0), *weight = onnx_type_in(w, 1), *y = onnx_type_out(w, 0);
    unsigned dtype = onnx_computes_in(w, "ConvTranspose", y->dtype);
    int64_t more[2];
    for (int i = 0; i < 2; i++) {
        int64_t window = a[AT_conv2d_input_grad_dilation].v[i] * (weight->dims[2 + i] - 1) + 1;
        int64_t reached = a[AT_conv2d_input_grad_stride].v[i] * (dy->dims[2 + i] - 1) + window;
        more[i] = y->dims[2 + i] - (reached - 2 * a[AT_conv2d_input_grad_padding].v[i]);
    }
    if (dtype == DTYPE_COUNT) return;
    const char *in = onnx_operand(w, 0, dtype), *by = onnx_operand(w, 1, dtype);
    onnx_put_list(w, "kernel_shape", 2, weight->dims + 2);
    put_window(w, AT_conv2d_input_grad_stride, AT_conv2d_input_grad_padding, AT_conv2d_input_grad_dilation);
    onnx_put_list(w, "output_padding", 2, more);
    onnx_put_int(w, "group", onnx_attr_of(w, AT_conv2d_input_grad_groups));
    onnx_gives(w, 0, PUT(w, "ConvTranspose", in, by), dtype);
}

// Integers for which ONNX has no pooling, in a float that holds them.
static unsigned pool_dtype(struct onnx_writer *w, const char *op)
{
    unsigned dtype = onnx_type_out(w, 0)->dtype;
    if (dtype == KILN_I16) return KILN_F32;
    return dtype == KILN_I32 ? KILN_F64 : onnx_computes_in(w, op, dtype);
}

static void write_pool(struct onnx_writer *w, const char *op, bool mean)
{
    const struct attr *a = onnx_node_of(w)->attrs;
    const int64_t *stride = a[AT_max_pool2d_stride].v, *kernel = a[AT_max_pool2d_kernel].v;
    const int64_t *padding = a[AT_max_pool2d_padding].v, *dilation = a[AT_max_pool2d_dilation].v;
    int64_t steps[2], pads[4] = {padding[0], padding[1], padding[0], padding[1]};
    bool ceil_mode = a[AT_max_pool2d_ceil_mode].i != 0, spread = dilation[0] != 1 || dilation[1] != 1;
    unsigned dtype = pool_dtype(w, op);
    if (dtype == DTYPE_COUNT) return;
    const char *x = onnx_operand(w, 0, dtype);
    for (int i = 0; i < 2; i++) steps[i] = stride[i] ? stride[i] : kernel[i];
    onnx_put_list(w, "kernel_shape", 2, kernel);
    onnx_put_list(w, "strides", 2, steps);
    onnx_put_list(w, "pads", 4, pads);
    if (spread || !mean) onnx_put_list(w, "dilations", 2, dilation);
    onnx_put_int(w, "ceil_mode", ceil_mode);
    if (mean) onnx_put_int(w, "count_include_pad", a[AT_avg_pool2d_exclude_padding].i == 0);
    if (mean && spread) onnx_needs(w, 19);
    onnx_gives(w, 0, PUT(w, op, x), dtype);
}

_Static_assert(AT_max_pool2d_stride == AT_avg_pool2d_stride && AT_max_pool2d_kernel == AT_avg_pool2d_kernel &&
                   AT_max_pool2d_padding == AT_avg_pool2d_padding && AT_max_pool2d_dilation == AT_avg_pool2d_dilation &&
                   AT_max_pool2d_ceil_mode == AT_avg_pool2d_ceil_mode,
               "write_pool serves both");

void onnx_write_max_pool2d(struct onnx_writer *w)
{
    write_pool(w, "MaxPool", false);
}

// Where windows are rounded up, what lies beyond the padding counts in Kiln, and not in ONNX.
void onnx_write_avg_pool2d(struct onnx_writer *w)
{
    const struct attr *a = onnx_node_of(w)->attrs;
    const struct type *x = onnx_type_in(w, 0), *y = onnx_type_out(w, 0);
    for (int i = 0; i < 2 && a[AT_avg_pool2d_ceil_mode].i && !a[AT_avg_pool2d_exclude_padding].i; i++) {
        int64_t kernel = a[AT_avg_pool2d_kernel].v[i], stride = a[AT_avg_pool2d_stride].v[i];
        int64_t window = a[AT_avg_pool2d_dilation].v[i] * (kernel - 1) + 1;
        int64_t reached = (y->dims[2 + i] - 1) * (stride ? stride : kernel) + window;
        if (reached > x->dims[2 + i] + 2 * a[AT_avg_pool2d_padding].v[i]) {
            onnx_cannot(w, "a mean over a window beyond the padding, by the ceil_mode");
            return;
        }
    }
    write_pool(w, "AveragePool", true);
}

// --- norms

static const char *put_ones(struct onnx_writer *w, unsigned dtype, int rank, const int64_t *dims, double value)
{
    struct type t = {.dtype = (uint8_t)dtype, .rank = (uint8_t)rank};
    memcpy(t.dims, dims, sizeof *dims * (size_t)rank);
    return onnx_put_full(w, &t, value, (int64_t)value);
}

// (x - mean) / sqrt(var + eps), of dimensions that broadcast.
static const char *put_normalised(struct onnx_writer *w, const char *x, const char *mean, const char *var, double eps,
                                  unsigned dtype)
{
    const char *spread = PUT(w, "Sqrt", PUT(w, "Add", var, onnx_put_scalar(w, dtype, eps)));
    return PUT(w, "Div", PUT(w, "Sub", x, mean), spread);
}

static const char *put_mean(struct onnx_writer *w, const char *x, size_t n, const int64_t *axes)
{
    const char *list = onnx_put_ints(w, n, axes);
    return n ? PUT(w, "ReduceMean", x, list) : x;
}

static const char *put_square(struct onnx_writer *w, const char *x)
{
    return PUT(w, "Mul", x, x);
}

static const char *put_scaled(struct onnx_writer *w, const char *y, const char *weight, const char *bias)
{
    if (weight) y = PUT(w, "Mul", y, weight);
    return bias ? PUT(w, "Add", y, bias) : y;
}

// In f64 by its parts: ONNX's op computes in f32.
static void write_layer_norm_by_parts(struct onnx_writer *w, double eps)
{
    const struct type *x = onnx_type_in(w, 0);
    int64_t n = onnx_attr_of(w, AT_layer_norm_n_axes), axes[MAX_RANK];
    for (int64_t i = 0; i < n; i++) axes[i] = x->rank - n + i;
    const char *in = onnx_operand(w, 0, KILN_F64), *mean = put_mean(w, in, (size_t)n, axes);
    const char *var = put_mean(w, put_square(w, PUT(w, "Sub", in, mean)), (size_t)n, axes);
    const char *y = put_normalised(w, in, mean, var, eps, KILN_F64);
    const char *weight = onnx_has_operand(w, 1) ? onnx_operand(w, 1, KILN_F64) : NULL;
    const char *bias = onnx_has_operand(w, 2) ? onnx_operand(w, 2, KILN_F64) : NULL;
    onnx_gives(w, 0, put_scaled(w, y, weight, bias), KILN_F64);
}

void onnx_write_layer_norm(struct onnx_writer *w)
{
    const struct type *x = onnx_type_in(w, 0);
    unsigned dtype = onnx_type_out(w, 0)->dtype;
    int64_t n = onnx_attr_of(w, AT_layer_norm_n_axes);
    double eps = onnx_node_of(w)->attrs[AT_layer_norm_eps].f;
    if (dtype == KILN_F64) {
        write_layer_norm_by_parts(w, eps);
        return;
    }
    const char *in = onnx_operand(w, 0, dtype), *bias = onnx_has_operand(w, 2) ? onnx_operand(w, 2, dtype) : "";
    const char *weight =
        onnx_has_operand(w, 1) ? onnx_operand(w, 1, dtype) : put_ones(w, dtype, (int)n, x->dims + x->rank - n, 1);
    onnx_put_int(w, "axis", -n);
    onnx_put_float(w, "epsilon", eps);
    onnx_gives(w, 0, PUT(w, "LayerNormalization", in, weight, bias), dtype);
}

void onnx_write_rms_norm(struct onnx_writer *w)
{
    unsigned dtype = wide(onnx_type_out(w, 0)->dtype);
    const struct type *x = onnx_type_in(w, 0);
    int64_t n = onnx_attr_of(w, AT_rms_norm_n_axes), axes[MAX_RANK];
    for (int64_t i = 0; i < n; i++) axes[i] = x->rank - n + i;
    const char *in = onnx_operand(w, 0, dtype), *mean = put_mean(w, put_square(w, in), (size_t)n, axes);
    const char *eps = onnx_put_scalar(w, dtype, onnx_node_of(w)->attrs[AT_rms_norm_eps].f);
    const char *y = PUT(w, "Div", in, PUT(w, "Sqrt", PUT(w, "Add", mean, eps)));
    onnx_gives(w, 0, put_scaled(w, y, onnx_has_operand(w, 1) ? onnx_operand(w, 1, dtype) : NULL, NULL), dtype);
}

// A value a channel, to be broadcast over what follows it.
static const char *of_channels(struct onnx_writer *w, const char *x, const struct type *image)
{
    int64_t dims[MAX_RANK];
    size_t n = image->rank > 1 ? (size_t)image->rank - 1 : 1;
    for (size_t i = 0; i < n; i++) dims[i] = i ? 1 : -1;
    const char *shape = onnx_put_ints(w, n, dims);
    return n > 1 ? PUT(w, "Reshape", x, shape) : x;
}

static const char *put_channels(struct onnx_writer *w, int i, unsigned dtype)
{
    return onnx_has_operand(w, i) ? of_channels(w, onnx_operand(w, i, dtype), onnx_type_in(w, 0)) : NULL;
}

void onnx_write_batch_norm(struct onnx_writer *w)
{
    const struct type *x = onnx_type_in(w, 0), *mean = onnx_type_in(w, 1);
    unsigned dtype = onnx_type_out(w, 0)->dtype;
    double eps = onnx_node_of(w)->attrs[AT_batch_norm_eps].f;
    if (x->rank < 2 || !is_single(eps, dtype)) {
        unsigned in = wide(dtype);
        const char *y =
            put_normalised(w, onnx_operand(w, 0, in), put_channels(w, 1, in), put_channels(w, 2, in), eps, in);
        onnx_gives(w, 0, put_scaled(w, y, put_channels(w, 3, in), put_channels(w, 4, in)), in);
        return;
    }
    const char *in = onnx_operand(w, 0, dtype);
    const char *weight = onnx_has_operand(w, 3) ? onnx_operand(w, 3, dtype) : put_ones(w, dtype, 1, mean->dims, 1);
    const char *bias = onnx_has_operand(w, 4) ? onnx_operand(w, 4, dtype) : put_ones(w, dtype, 1, mean->dims, 0);
    const char *centre = onnx_operand(w, 1, dtype), *var = onnx_operand(w, 2, dtype);
    onnx_put_float(w, "epsilon", eps);
    onnx_gives(w, 0, PUT(w, "BatchNormalization", in, weight, bias, centre, var), dtype);
}

void onnx_write_batch_norm_train(struct onnx_writer *w)
{
    const struct type *x = onnx_type_in(w, 0);
    unsigned dtype = wide(onnx_type_out(w, 0)->dtype);
    double eps = onnx_node_of(w)->attrs[AT_batch_norm_train_eps].f;
    int64_t axes[MAX_RANK];
    size_t n = 0;
    for (int d = 0; d < x->rank; d++)
        if (d != (x->rank > 1)) axes[n++] = d;
    const char *in = onnx_operand(w, 0, dtype), *mean = put_mean(w, in, n, axes);
    const char *var = put_mean(w, put_square(w, PUT(w, "Sub", in, mean)), n, axes);
    const char *y = put_normalised(w, in, mean, var, eps, dtype);
    onnx_gives(w, 0, put_scaled(w, y, put_channels(w, 1, dtype), put_channels(w, 2, dtype)), dtype);
    onnx_gives(w, 1, onnx_put_reshape(w, mean, onnx_type_out(w, 1)), dtype);
    onnx_gives(w, 2, onnx_put_reshape(w, var, onnx_type_out(w, 2)), dtype);
}

// By its parts: ONNX's op takes values of groups or of channels, by its version.
void onnx_write_group_norm(struct onnx_writer *w)
{
    const struct type *x = onnx_type_in(w, 0);
    unsigned dtype = wide(onnx_type_out(w, 0)->dtype);
    int64_t groups = onnx_attr_of(w, AT_group_norm_groups), axis = 2;
    double eps = onnx_node_of(w)->attrs[AT_group_norm_eps].f;
    struct type rows = {.dtype = (uint8_t)dtype, .rank = 3, .dims = {x->dims[0], groups, 0}};
    int64_t n = x->dims[0] * groups;
    rows.dims[2] = n ? type_numel(x) / n : 0;
    const char *in = onnx_put_reshape(w, onnx_operand(w, 0, dtype), &rows), *mean = put_mean(w, in, 1, &axis);
    const char *var = put_mean(w, put_square(w, PUT(w, "Sub", in, mean)), 1, &axis);
    const char *y = onnx_put_reshape(w, put_normalised(w, in, mean, var, eps, dtype), onnx_type_out(w, 0));
    onnx_gives(w, 0, put_scaled(w, y, put_channels(w, 1, dtype), put_channels(w, 2, dtype)), dtype);
}

// --- attention

// Row i of the scores sees the columns up to i + S - L, which may go with open dimensions.
static const char *put_causal(struct onnx_writer *w, const char *scores, const char *never, int rank, unsigned dtype)
{
    const char *shape = PUT(w, "Shape", scores), *size[2];
    for (int i = 0; i < 2; i++) {
        const char *at = onnx_put_integer(w, KILN_I64, rank - 2 + i);
        onnx_put_int(w, "axis", 0);
        size[i] = PUT(w, "Gather", shape, at);
    }
    const char *ones = PUT(w, "Expand", onnx_put_scalar(w, dtype, 1), shape), *last = PUT(w, "Sub", size[1], size[0]);
    onnx_put_int(w, "upper", 0);
    ones = PUT(w, "Trilu", ones, last);
    return PUT(w, "Where", onnx_put_cast(w, ones, dtype, KILN_BOOL), scores, never);
}

// What its gradient needs beside the result is nothing that a model gives.
void onnx_write_flash_attention(struct onnx_writer *w)
{
    const struct type *q = onnx_type_in(w, 0), *k = onnx_type_in(w, 1);
    unsigned dtype = wide(onnx_type_out(w, 0)->dtype);
    double scale = onnx_node_of(w)->attrs[AT_flash_attention_scale].f;
    int64_t perm[MAX_RANK];
    for (int i = 0; i < k->rank; i++) perm[i] = i < k->rank - 2 ? i : 2 * k->rank - 3 - i;
    if (scale == 0) scale = 1 / sqrt(q->dims[q->rank - 1] > 0 ? (double)q->dims[q->rank - 1] : 1);
    const char *queries = PUT(w, "Mul", onnx_operand(w, 0, dtype), onnx_put_scalar(w, dtype, scale));
    const char *keys = onnx_operand(w, 1, dtype), *values = onnx_operand(w, 2, dtype);
    const char *never = onnx_put_scalar(w, dtype, -INFINITY);
    onnx_put_list(w, "perm", k->rank, perm);
    const char *scores = PUT(w, "MatMul", queries, PUT(w, "Transpose", keys));
    if (onnx_has_operand(w, 3) && onnx_type_in(w, 3)->dtype == KILN_BOOL)
        scores = PUT(w, "Where", onnx_operand_as_is(w, 3), scores, never);
    else if (onnx_has_operand(w, 3))
        scores = PUT(w, "Add", scores, onnx_operand(w, 3, dtype));
    if (onnx_attr_of(w, AT_flash_attention_causal))
        scores = put_causal(w, scores, never, onnx_type_out(w, 0)->rank, dtype);
    onnx_put_int(w, "axis", -1);
    onnx_gives(w, 0, PUT(w, "MatMul", PUT(w, "Softmax", scores), values), dtype);
}

// --- softmax, backwards

static const char *put_total(struct onnx_writer *w, const char *x, int axis)
{
    return PUT(w, "ReduceSum", x, onnx_put_ints(w, 1, (const int64_t[]){axis}));
}

void onnx_write_softmax_backward(struct onnx_writer *w)
{
    unsigned dtype = wide(onnx_type_out(w, 0)->dtype);
    int axis = onnx_axis_of(w, AT_softmax_backward_axis, onnx_type_in(w, 0)->rank);
    const char *y = onnx_operand(w, 0, dtype), *dy = onnx_operand(w, 1, dtype);
    const char *total = put_total(w, PUT(w, "Mul", y, dy), axis);
    onnx_gives(w, 0, PUT(w, "Mul", y, PUT(w, "Sub", dy, total)), dtype);
}

void onnx_write_log_softmax_backward(struct onnx_writer *w)
{
    unsigned dtype = wide(onnx_type_out(w, 0)->dtype);
    int axis = onnx_axis_of(w, AT_log_softmax_backward_axis, onnx_type_in(w, 0)->rank);
    const char *y = onnx_operand(w, 0, dtype), *dy = onnx_operand(w, 1, dtype);
    const char *share = PUT(w, "Mul", PUT(w, "Exp", y), put_total(w, dy, axis));
    onnx_gives(w, 0, PUT(w, "Sub", dy, share), dtype);
}

// --- cross entropy

struct loss {
    int axis;
    unsigned dtype;
    const char *at;      // the axis, as a list
    const char *ignored; // which labels, with the axis; NULL: none
    double smoothing;
};

static const char *put_times(struct onnx_writer *w, const char *x, double by, unsigned dtype)
{
    return by == 1 ? x : PUT(w, "Mul", x, onnx_put_scalar(w, dtype, by));
}

static const char *put_loss_of_classes(struct onnx_writer *w, struct loss *l, const char *log_p)
{
    const struct attr *a = onnx_node_of(w)->attrs;
    const char *label = PUT(w, "Unsqueeze", onnx_operand(w, 1, KILN_I64), l->at);
    if (a[AT_cross_entropy_ignore].i) {
        int64_t which = a[AT_cross_entropy_ignore_index].i;
        l->ignored = PUT(w, "Equal", label, onnx_put_integer(w, KILN_I64, which));
        label = PUT(w, "Where", l->ignored, onnx_put_integer(w, KILN_I64, 0), label);
    }
    onnx_put_int(w, "axis", l->axis);
    const char *loss = PUT(w, "Neg", PUT(w, "GatherElements", log_p, label));
    if (l->smoothing != 0) {
        const char *even = PUT(w, "Neg", PUT(w, "ReduceMean", log_p, l->at));
        loss =
            PUT(w, "Add", put_times(w, loss, 1 - l->smoothing, l->dtype), put_times(w, even, l->smoothing, l->dtype));
    }
    return l->ignored ? PUT(w, "Where", l->ignored, onnx_put_scalar(w, l->dtype, 0), loss) : loss;
}

static const char *put_loss_of_chances(struct onnx_writer *w, const struct loss *l, const char *log_p)
{
    const char *chance = put_times(w, onnx_operand(w, 1, l->dtype), 1 - l->smoothing, l->dtype);
    double classes = (double)onnx_type_in(w, 0)->dims[l->axis];
    if (l->smoothing != 0) chance = PUT(w, "Add", chance, onnx_put_scalar(w, l->dtype, l->smoothing / classes));
    return PUT(w, "Neg", put_total(w, PUT(w, "Mul", chance, log_p), l->axis));
}

static const char *put_reduced(struct onnx_writer *w, const struct loss *l, const char *loss)
{
    enum { MEAN, SUM, NONE };
    int64_t how = onnx_attr_of(w, AT_cross_entropy_reduction);
    if (how == NONE) return PUT(w, "Squeeze", loss, l->at);
    bool by_count = how == MEAN && l->ignored;
    onnx_put_int(w, "keepdims", 0);
    const char *y = PUT(w, how == SUM || by_count ? "ReduceSum" : "ReduceMean", loss);
    if (!by_count) return y;
    const char *counted = onnx_put_cast(w, PUT(w, "Not", l->ignored), KILN_BOOL, l->dtype);
    onnx_put_int(w, "keepdims", 0);
    return PUT(w, "Div", y, PUT(w, "ReduceSum", counted));
}

void onnx_write_cross_entropy(struct onnx_writer *w)
{
    const struct type *x = onnx_type_in(w, 0), *labels = onnx_type_in(w, 1);
    struct loss l = {.axis = x->rank > 1,
                     .dtype = wide(onnx_type_out(w, 0)->dtype),
                     .smoothing = onnx_node_of(w)->attrs[AT_cross_entropy_label_smoothing].f};
    const char *logits = onnx_operand(w, 0, l.dtype);
    l.at = onnx_put_ints(w, 1, (const int64_t[]){l.axis});
    onnx_put_int(w, "axis", l.axis);
    const char *log_p = PUT(w, "LogSoftmax", logits);
    const char *loss = dtype_kind_of[labels->dtype] == KIND_FLOAT ? put_loss_of_chances(w, &l, log_p)
                                                                  : put_loss_of_classes(w, &l, log_p);
    onnx_gives(w, 0, put_reduced(w, &l, loss), l.dtype);
}
