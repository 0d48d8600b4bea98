// Convolutions of lines and volumes, and transposed ones; that of images is in linear.c.
#include "nn/cell.h"
#include "nn/init.h"
#include "base/options.h"

#include <inttypes.h>
#include <kiln/composites.h>
#include <kiln/nn_images.h>
#include <string.h>

struct settings {
    const char *name;
    int n; // dimensions
    int64_t kernel[3], stride[3], padding[3], more[3], dilation[3], groups;
    bool same;
};

struct parameters {
    bool bias;
    const char *weight_init, *bias_init;
    kiln_dtype dtype;
};

static void take_list(int64_t *to, const int64_t *from, int n, int64_t fallback)
{
    for (int i = 0; i < n; i++) to[i] = from[i] ? from[i] : fallback;
}

// Sizes: the first alone is for all.
static kiln_status take_sizes(const struct settings *c, const char *field, int64_t *to, int64_t *from, int64_t fallback)
{
    TRY(options_spread(c->name, field, from, c->n));
    take_list(to, from, c->n, fallback);
    return KILN_OK;
}

void cell_watch_padding(const char *name, int n, const int64_t *kernel, const int64_t *padding)
{
    bool alone = n > 1 && padding[0] > 0;
    for (int i = 1; i < n; i++) alone &= padding[i] == 0 && kernel[i] == kernel[0];
    if (!alone) return;
    long long p = (long long)padding[0];
    log_warn_here(n == 2 ? "%s: .padding is {%lld, 0}, which pads the height alone; {%lld, %lld} is a ring"
                         : "%s: .padding is {%lld, 0, 0}, which pads the depth alone; {%lld, %lld, %lld} is all around",
                  name, p, p, p, p);
}

static kiln_status check(const struct settings *c, int64_t in, int64_t out)
{
    if (in < 1 || out < 1)
        return error_set(KILN_E_ARGUMENT, "%s: in and out must be positive, got %" PRId64 " and %" PRId64, c->name, in,
                         out);
    for (int i = 0; i < c->n; i++) {
        if (c->kernel[i] < 1 || c->stride[i] < 1 || c->dilation[i] < 1 || c->padding[i] < 0)
            return error_set(KILN_E_ARGUMENT,
                             "%s: kernel %" PRId64 ", stride %" PRId64 " and dilation %" PRId64
                             " must be positive, padding %" PRId64 " not negative",
                             c->name, c->kernel[i], c->stride[i], c->dilation[i], c->padding[i]);
        if (c->more[i] < 0 || c->more[i] >= c->stride[i])
            return error_set(KILN_E_ARGUMENT,
                             "%s: .output_padding must be from 0 to below the stride, %" PRId64 ", it is %" PRId64,
                             c->name, c->stride[i], c->more[i]);
    }
    if (c->groups < 1 || in % c->groups || out % c->groups)
        return error_set(KILN_E_ARGUMENT,
                         "%s: groups must divide in and out, got %" PRId64 " for %" PRId64 " and %" PRId64, c->name,
                         c->groups, in, out);
    return KILN_OK;
}

static kiln_status read_pad_mode(struct settings *c, const char *mode)
{
    if (!mode) mode = "pad";
    bool pad = !strcmp(mode, "pad");
    c->same = !strcmp(mode, "same");
    if (!pad && !c->same && strcmp(mode, "valid") != 0)
        return error_set(KILN_E_ARGUMENT, "%s: unknown .pad_mode \"%.40s\"; there are \"pad\", \"same\" and \"valid\"",
                         c->name, mode);
    for (int i = 0; i < c->n; i++)
        if (!pad && c->padding[i])
            return error_set(KILN_E_ARGUMENT, "%s: .padding goes with .pad_mode \"pad\" only, got \"%s\"", c->name,
                             mode);
    return KILN_OK;
}

// A cell with a weight [a, b, kernel ...] and perhaps a bias [out].
static kiln_cell *make(kiln_device *dev, const struct settings *c, kiln_construct_fn run, int64_t a, int64_t b,
                       int64_t out, const struct parameters *p)
{
    if (kiln_error()) return NULL;
    kiln_cell *cell = cell_make(c->name + strlen("nn_"), run, sizeof *c);
    if (!cell) return NULL;
    memcpy(cell->user, c, sizeof *c);
    cell_watch_padding(c->name, c->n, c->kernel, c->padding);
    cell_say_sizes(cell, "→ %" PRId64 ", kernel %" PRId64, out, c->kernel[0]);
    int64_t dims[5] = {a, b};
    memcpy(dims + 2, c->kernel, (size_t)c->n * sizeof *dims);
    kiln_dtype dtype = dtype_or_f32(p->dtype);
    // Of transposed convolutions too this is what PyTorch takes for fan_in: all but the first dimension.
    int64_t fan_in = b;
    for (int i = 0; i < c->n; i++) fan_in *= c->kernel[i];
    char by_fan[INIT_TEXT_B];
    init_by_fan_in(by_fan, fan_in);
    kiln_cell_make_parameter(cell, "weight", dev, dtype, (size_t)c->n + 2, dims,
                             p->weight_init ? p->weight_init : by_fan);
    if (p->bias)
        kiln_cell_make_parameter(cell, "bias", dev, dtype, KILN_SHAPE(out), p->bias_init ? p->bias_init : by_fan);
    return cell_or_null(cell);
}

// --- lines and volumes

static kiln_status run_conv1d(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                              size_t n_out)
{
    const struct settings *c = user;
    out[0] = kiln_conv1d(in[0], cell_tensor_at(cell, 0),
                         KILN_CONV1D(.bias = cell_tensor_at(cell, 1), .stride = c->stride[0], .padding = c->padding[0],
                                     .dilation = c->dilation[0], .groups = c->groups, .same = c->same));
    return kiln_error();
}

kiln_cell *kiln_nn_conv1d(kiln_device *dev, int64_t in, int64_t out, int64_t kernel, const kiln_nn_conv1d_opts *opts)
{
    kiln_nn_conv1d_opts o;
    if (options_read("nn_conv1d", KILN_NN_CONV1D, &o, opts) || kiln_error()) return NULL;
    struct settings c = {.name = "nn_conv1d", .n = 1, .kernel = {kernel}, .groups = o.groups ? o.groups : 1};
    take_list(c.stride, &o.stride, 1, 1);
    take_list(c.padding, &o.padding, 1, 0);
    take_list(c.dilation, &o.dilation, 1, 1);
    if (check(&c, in, out) || read_pad_mode(&c, o.pad_mode)) return NULL;
    return make(
        dev, &c, run_conv1d, out, in / c.groups, out,
        &(struct parameters){cell_wants_bias(c.name, o.bias, o.no_bias, false), o.weight_init, o.bias_init, o.dtype});
}

static kiln_status run_conv3d(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                              size_t n_out)
{
    const struct settings *c = user;
    kiln_conv3d_opts o = {.size = sizeof o, .bias = cell_tensor_at(cell, 1), .groups = c->groups, .same = c->same};
    memcpy(o.stride, c->stride, sizeof o.stride);
    memcpy(o.padding, c->padding, sizeof o.padding);
    memcpy(o.dilation, c->dilation, sizeof o.dilation);
    out[0] = kiln_conv3d(in[0], cell_tensor_at(cell, 0), &o);
    return kiln_error();
}

kiln_cell *kiln_nn_conv3d(kiln_device *dev, int64_t in, int64_t out, int64_t kernel, const kiln_nn_conv3d_opts *opts)
{
    kiln_nn_conv3d_opts o;
    if (options_read("nn_conv3d", KILN_NN_CONV3D, &o, opts) || kiln_error()) return NULL;
    struct settings c = {.name = "nn_conv3d", .n = 3, .groups = o.groups ? o.groups : 1};
    take_list(c.kernel, (int64_t[]){kernel, o.kernel_height, o.kernel_width}, 3, kernel);
    if (take_sizes(&c, ".stride", c.stride, o.stride, 1)) return NULL;
    if (take_sizes(&c, ".dilation", c.dilation, o.dilation, 1)) return NULL;
    take_list(c.padding, o.padding, 3, 0);
    if (check(&c, in, out) || read_pad_mode(&c, o.pad_mode)) return NULL;
    return make(
        dev, &c, run_conv3d, out, in / c.groups, out,
        &(struct parameters){cell_wants_bias(c.name, o.bias, o.no_bias, false), o.weight_init, o.bias_init, o.dtype});
}

// --- transposed

static kiln_tensor *transposed2d(const struct settings *c, kiln_tensor *x, kiln_tensor *w, kiln_tensor *bias)
{
    return kiln_conv_transpose2d(
        x, w,
        KILN_CONV_TRANSPOSE2D(.bias = bias, .stride = {c->stride[0], c->stride[1]},
                              .padding = {c->padding[0], c->padding[1]}, .output_padding = {c->more[0], c->more[1]},
                              .dilation = {c->dilation[0], c->dilation[1]}, .groups = c->groups));
}

static kiln_tensor *transposed3d(const struct settings *c, kiln_tensor *x, kiln_tensor *w, kiln_tensor *bias)
{
    kiln_conv_transpose3d_opts o = {.size = sizeof o, .bias = bias, .groups = c->groups};
    memcpy(o.stride, c->stride, sizeof o.stride);
    memcpy(o.padding, c->padding, sizeof o.padding);
    memcpy(o.output_padding, c->more, sizeof o.output_padding);
    memcpy(o.dilation, c->dilation, sizeof o.dilation);
    return kiln_conv_transpose3d(x, w, &o);
}

static kiln_status run_transposed(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                  size_t n_out)
{
    const struct settings *c = user;
    kiln_tensor *w = cell_tensor_at(cell, 0), *bias = cell_tensor_at(cell, 1);
    if (c->n == 1)
        out[0] = kiln_conv_transpose1d(in[0], w,
                                       KILN_CONV_TRANSPOSE1D(.bias = bias, .stride = c->stride[0],
                                                             .padding = c->padding[0], .output_padding = c->more[0],
                                                             .dilation = c->dilation[0], .groups = c->groups));
    else
        out[0] = c->n == 2 ? transposed2d(c, in[0], w, bias) : transposed3d(c, in[0], w, bias);
    return kiln_error();
}

static kiln_cell *transposed(const char *name, int n, kiln_device *dev, int64_t in, int64_t out, int64_t kernel,
                             const kiln_nn_conv_transpose_opts *opts)
{
    kiln_nn_conv_transpose_opts o;
    if (options_read_as(name, "KILN_NN_CONV_TRANSPOSE", &o, sizeof o, opts) || kiln_error()) return NULL;
    struct settings c = {.name = name, .n = n, .groups = o.groups ? o.groups : 1};
    if (take_sizes(&c, ".kernel", c.kernel, o.kernel, kernel)) return NULL;
    if (take_sizes(&c, ".stride", c.stride, o.stride, 1)) return NULL;
    if (take_sizes(&c, ".dilation", c.dilation, o.dilation, 1)) return NULL;
    take_list(c.padding, o.padding, n, 0);
    take_list(c.more, o.output_padding, n, 0);
    if (check(&c, in, out)) return NULL;
    return make(
        dev, &c, run_transposed, in, out / c.groups, out,
        &(struct parameters){cell_wants_bias(c.name, o.bias, o.no_bias, false), o.weight_init, o.bias_init, o.dtype});
}

kiln_cell *kiln_nn_conv_transpose1d(kiln_device *dev, int64_t in, int64_t out, int64_t kernel,
                                    const kiln_nn_conv_transpose_opts *opts)
{
    return transposed("nn_conv_transpose1d", 1, dev, in, out, kernel, opts);
}

kiln_cell *kiln_nn_conv_transpose2d(kiln_device *dev, int64_t in, int64_t out, int64_t kernel,
                                    const kiln_nn_conv_transpose_opts *opts)
{
    return transposed("nn_conv_transpose2d", 2, dev, in, out, kernel, opts);
}

kiln_cell *kiln_nn_conv_transpose3d(kiln_device *dev, int64_t in, int64_t out, int64_t kernel,
                                    const kiln_nn_conv_transpose_opts *opts)
{
    return transposed("nn_conv_transpose3d", 3, dev, in, out, kernel, opts);
}
