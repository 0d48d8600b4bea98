// Poolings over one and two dimensions, and over all of them.
#include "onnx/onnx_fns.h"
#include "onnx/window.h"
#include <math.h>

static kiln_pool2d_opts pool_options(const struct onnx_window *w, bool padded, bool ceil_mode, bool exclude)
{
    return (kiln_pool2d_opts){.size = sizeof(kiln_pool2d_opts),
                              .kernel = {w->kernel[0], w->kernel[1]},
                              .stride = {w->stride[0], w->stride[1]},
                              .padding = {padded ? 0 : w->begin[0], padded ? 0 : w->begin[1]},
                              .dilation = {w->dilation[0], w->dilation[1]},
                              .ceil_mode = ceil_mode,
                              .exclude_padding = exclude};
}

kiln_status onnx_op_max_pool(struct onnx_call *c)
{
    struct onnx_window w;
    int64_t ceil_mode, order;
    TRY(onnx_check_counts(c, 1, 1, 1));
    TRY(onnx_int(c, "ceil_mode", 0, &ceil_mode));
    TRY(onnx_int(c, "storage_order", 0, &order)); // of the places, which are not given
    kiln_tensor *x = onnx_in(c, 0);
    NEED(x);
    TRY(onnx_window(c, x, NULL, &w));
    bool even = onnx_is_even(&w);
    kiln_tensor *image = onnx_to_image(&w, x);
    unsigned dtype = kiln_tensor_dtype(x);
    if (dtype >= DTYPE_COUNT) return onnx_bad(c, KILN_E_UNSUPPORTED, "of %s", dtype_name(dtype));
    if (!even) image = onnx_padded(&w, image, dtype_is_float(dtype) ? -INFINITY : (double)dtype_lowest(dtype));
    kiln_pool2d_opts opts = pool_options(&w, !even, ceil_mode != 0, false);
    return onnx_give(c, 0, onnx_from_image(&w, kiln_max_pool2d(image, &opts)));
}

// Where padding counts for nothing and is not even: the mean over what is padded with zeros, divided by that of ones.
static kiln_tensor *mean_of_inside(const struct onnx_window *w, kiln_tensor *image, const kiln_pool2d_opts *opts)
{
    kiln_tensor *inside = kiln_avg_pool2d(onnx_padded(w, kiln_ones_like(image), 0), opts);
    return kiln_div(kiln_avg_pool2d(onnx_padded(w, image, 0), opts), inside);
}

kiln_status onnx_op_average_pool(struct onnx_call *c)
{
    struct onnx_window w;
    int64_t ceil_mode, include;
    TRY(onnx_check_counts(c, 1, 1, 1));
    TRY(onnx_int(c, "ceil_mode", 0, &ceil_mode));
    TRY(onnx_int(c, "count_include_pad", 0, &include));
    kiln_tensor *x = onnx_in(c, 0);
    NEED(x);
    TRY(onnx_window(c, x, NULL, &w));
    bool even = onnx_is_even(&w);
    kiln_tensor *image = onnx_to_image(&w, x);
    NEED(image);
    // What counts is the image and its padding, not what lies beyond where windows are rounded up.
    if (include) image = onnx_padded(&w, image, 0);
    kiln_pool2d_opts opts = pool_options(&w, !even || include, ceil_mode != 0, even || include);
    kiln_tensor *y = even || include ? kiln_avg_pool2d(image, &opts) : mean_of_inside(&w, image, &opts);
    return onnx_give(c, 0, onnx_from_image(&w, y));
}

static kiln_status read_whole(struct onnx_call *c, kiln_tensor **x, int64_t *axes, size_t *n)
{
    TRY(onnx_check_counts(c, 1, 1, 1));
    *x = onnx_in(c, 0);
    NEED(*x);
    if (kiln_rank(*x) < 3) return onnx_bad(c, KILN_E_SHAPE, "its input has rank %zu", kiln_rank(*x));
    *n = kiln_rank(*x) - 2;
    for (size_t i = 0; i < *n; i++) axes[i] = (int64_t)i + 2;
    return KILN_OK;
}

kiln_status onnx_op_global_average_pool(struct onnx_call *c)
{
    int64_t axes[KILN_MAX_RANK];
    size_t n;
    kiln_tensor *x;
    TRY(read_whole(c, &x, axes, &n));
    return onnx_give(c, 0, kiln_mean(x, KILN_REDUCE(.axes = {n, axes}, .keepdims = true)));
}

kiln_status onnx_op_global_max_pool(struct onnx_call *c)
{
    int64_t axes[KILN_MAX_RANK];
    size_t n;
    kiln_tensor *x;
    TRY(read_whole(c, &x, axes, &n));
    return onnx_give(c, 0, kiln_max(x, KILN_REDUCE(.axes = {n, axes}, .keepdims = true)));
}
