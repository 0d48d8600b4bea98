// Cells whose weight is a matrix or a kernel: dense, embedding, convolution.
#include "nn/cell.h"
#include "nn/init.h"
#include "base/options.h"

#include <inttypes.h>
#include <kiln/ops.h>
#include <string.h>

// --- dense

// Images that nobody made rows of.
static bool is_unflattened(const kiln_tensor *x, int64_t in)
{
    size_t rank = kiln_rank(x);
    int64_t n = 1;
    for (size_t i = 1; i < rank; i++) n *= kiln_dims(x)[i];
    return rank > 2 && n == in && kiln_dims(x)[rank - 1] != in;
}

static kiln_status run_dense(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                             size_t n_out)
{
    kiln_tensor *w = cell_tensor_at(cell, 0), *bias = cell_tensor_at(cell, 1);
    if (is_unflattened(in[0], kiln_dim(w, 1)))
        return error_set(KILN_E_SHAPE,
                         "x has rank %zu, and %" PRId64
                         " elements behind its first axis; kiln_nn_flatten before this cell "
                         "makes rows of them",
                         kiln_rank(in[0]), kiln_dim(w, 1));
    kiln_tensor *y = kiln_matmul(in[0], kiln_transpose(w, 0, 1));
    out[0] = bias ? kiln_add(y, bias) : y;
    return kiln_error();
}

kiln_cell *kiln_nn_dense(kiln_device *dev, int64_t in, int64_t out, const kiln_nn_dense_opts *opts)
{
    kiln_nn_dense_opts o;
    if (options_read("nn_dense", KILN_NN_DENSE, &o, opts)) return NULL;
    if (kiln_error()) return NULL;
    if (in < 1 || out < 1) {
        error_set(KILN_E_ARGUMENT, "nn_dense: in and out must be positive, got %" PRId64 " and %" PRId64, in, out);
        return NULL;
    }
    kiln_cell *cell = cell_make("dense", run_dense, 0);
    if (!cell) return NULL;
    kiln_dtype dtype = dtype_or_f32(o.dtype);
    char by_fan[INIT_TEXT_B];
    init_by_fan_in(by_fan, in);
    kiln_cell_make_parameter(cell, "weight", dev, dtype, KILN_SHAPE(out, in), o.weight_init ? o.weight_init : by_fan);
    if (cell_wants_bias("nn_dense", o.bias, o.no_bias, true))
        kiln_cell_make_parameter(cell, "bias", dev, dtype, KILN_SHAPE(out), o.bias_init ? o.bias_init : by_fan);
    cell_say_sizes(cell, "%" PRId64 " → %" PRId64, in, out);
    return cell_or_null(cell);
}

// --- embedding

static kiln_status run_embedding(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                 size_t n_out)
{
    out[0] = kiln_embedding(cell_tensor_at(cell, 0), in[0]);
    return kiln_error();
}

kiln_cell *kiln_nn_embedding(kiln_device *dev, int64_t count, int64_t width, const char *init)
{
    if (kiln_error()) return NULL;
    if (count < 1 || width < 1) {
        error_set(KILN_E_ARGUMENT, "nn_embedding: count and width must be positive, got %" PRId64 " and %" PRId64,
                  count, width);
        return NULL;
    }
    kiln_cell *cell = cell_make("embedding", run_embedding, 0);
    if (cell)
        kiln_cell_make_parameter(cell, "weight", dev, KILN_F32, KILN_SHAPE(count, width), init ? init : "normal(1)");
    cell_say_sizes(cell, "%" PRId64 " × %" PRId64, count, width);
    return cell_or_null(cell);
}

// --- convolution

struct conv_settings {
    int64_t kernel[2], stride[2], padding[2], dilation[2], groups;
    bool same;
};

static kiln_tensor *append_zeros(kiln_tensor *x, int64_t axis, int64_t count)
{
    int64_t dims[KILN_MAX_RANK];
    memcpy(dims, kiln_dims(x), kiln_rank(x) * sizeof *dims);
    dims[axis] = count;
    kiln_tensor *parts[] = {x, kiln_zeros(kiln_tensor_device(x), kiln_tensor_dtype(x), kiln_rank(x), dims)};
    return kiln_concat(parts, 2, axis);
}

// Pads so that the output has ceil(size / stride) places. The op pads both ends alike; an odd zero is appended to the
// input.
static kiln_tensor *pad_same(const struct conv_settings *c, kiln_tensor *x, int64_t padding[2])
{
    for (int i = 0; i < 2 && x; i++) {
        int64_t size = kiln_dims(x)[2 + i], places = (size + c->stride[i] - 1) / c->stride[i];
        int64_t total = (places - 1) * c->stride[i] + (c->kernel[i] - 1) * c->dilation[i] + 1 - size;
        if (total < 0) total = 0;
        padding[i] = total / 2;
        if (total % 2) x = append_zeros(x, 2 + i, 1);
    }
    return x;
}

static kiln_status run_conv2d(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                              size_t n_out)
{
    const struct conv_settings *c = user;
    kiln_tensor *x = in[0];
    int64_t padding[2] = {c->padding[0], c->padding[1]};
    if (c->same && kiln_rank(x) == 4) x = pad_same(c, x, padding);
    if (!x) return kiln_error();
    out[0] = kiln_conv2d(x, cell_tensor_at(cell, 0),
                         KILN_CONV2D(.bias = cell_tensor_at(cell, 1), .stride = {c->stride[0], c->stride[1]},
                                     .padding = {padding[0], padding[1]}, .dilation = {c->dilation[0], c->dilation[1]},
                                     .groups = c->groups));
    return kiln_error();
}

static kiln_status check_conv(int64_t in, int64_t out, const struct conv_settings *c, const char *pad_mode)
{
    bool sizes = in > 0 && out > 0, windows = true;
    for (int i = 0; i < 2; i++)
        windows &= c->kernel[i] > 0 && c->stride[i] > 0 && c->dilation[i] > 0 && c->padding[i] >= 0;
    if (!sizes)
        return error_set(KILN_E_ARGUMENT, "nn_conv2d: in and out must be positive, got %" PRId64 " and %" PRId64, in,
                         out);
    if (!windows)
        return error_set(KILN_E_ARGUMENT,
                         "nn_conv2d: kernel, stride and dilation must be positive, padding not negative");
    if (c->groups < 1 || in % c->groups || out % c->groups)
        return error_set(KILN_E_ARGUMENT,
                         "nn_conv2d: groups must divide in and out, got %" PRId64 " for %" PRId64 " and %" PRId64,
                         c->groups, in, out);
    bool pad = !strcmp(pad_mode, "pad");
    if (!pad && strcmp(pad_mode, "same") && strcmp(pad_mode, "valid"))
        return error_set(KILN_E_ARGUMENT,
                         "nn_conv2d: unknown .pad_mode \"%s\"; there are \"pad\", \"same\" and \"valid\"", pad_mode);
    if (!pad && (c->padding[0] || c->padding[1]))
        return error_set(KILN_E_ARGUMENT, "nn_conv2d: .padding goes with .pad_mode \"pad\" only, got \"%s\"", pad_mode);
    return KILN_OK;
}

kiln_cell *kiln_nn_conv2d(kiln_device *dev, int64_t in, int64_t out, int64_t kernel, const kiln_nn_conv2d_opts *opts)
{
    kiln_nn_conv2d_opts o;
    if (options_read("nn_conv2d", KILN_NN_CONV2D, &o, opts)) return NULL;
    if (options_spread("nn_conv2d", ".stride", o.stride, 2) || options_spread("nn_conv2d", ".dilation", o.dilation, 2))
        return NULL;
    struct conv_settings c = {.kernel = {kernel, o.kernel_width ? o.kernel_width : kernel},
                              .groups = o.groups ? o.groups : 1};
    for (int i = 0; i < 2; i++) {
        c.stride[i] = o.stride[i] ? o.stride[i] : 1;
        c.dilation[i] = o.dilation[i] ? o.dilation[i] : 1;
        c.padding[i] = o.padding[i];
    }
    const char *pad_mode = o.pad_mode ? o.pad_mode : "pad";
    c.same = !strcmp(pad_mode, "same");
    if (kiln_error() || check_conv(in, out, &c, pad_mode)) return NULL;
    kiln_cell *cell = cell_make("conv2d", run_conv2d, sizeof c);
    if (!cell) return NULL;
    memcpy(cell->user, &c, sizeof c);
    cell_watch_padding("nn_conv2d", 2, c.kernel, c.padding);
    cell_say_sizes(cell, "%" PRId64 " → %" PRId64 ", %" PRId64 "×%" PRId64, in, out, c.kernel[0], c.kernel[1]);
    kiln_dtype dtype = dtype_or_f32(o.dtype);
    char by_fan[INIT_TEXT_B];
    init_by_fan_in(by_fan, in / c.groups * c.kernel[0] * c.kernel[1]);
    kiln_cell_make_parameter(cell, "weight", dev, dtype, KILN_SHAPE(out, in / c.groups, c.kernel[0], c.kernel[1]),
                             o.weight_init ? o.weight_init : by_fan);
    if (cell_wants_bias("nn_conv2d", o.bias, o.no_bias, false))
        kiln_cell_make_parameter(cell, "bias", dev, dtype, KILN_SHAPE(out), o.bias_init ? o.bias_init : by_fan);
    return cell_or_null(cell);
}
