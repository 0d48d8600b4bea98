// Convolutions over one and two dimensions.
#include "onnx/onnx_fns.h"
#include "onnx/window.h"
#include <string.h>

kiln_status onnx_convolve(struct onnx_call *c, kiln_tensor *x, kiln_tensor *weight, kiln_tensor *bias, kiln_tensor **y)
{
    struct onnx_window w;
    int64_t groups;
    NEED(x && weight);
    TRY(onnx_int(c, "group", 1, &groups));
    if (kiln_rank(weight) != kiln_rank(x) || groups < 1)
        return onnx_bad(c, KILN_E_SHAPE, "an input of rank %zu, a weight of %zu, %lld groups", kiln_rank(x),
                        kiln_rank(weight), (long long)groups);
    TRY(onnx_window(c, x, kiln_dims(weight) + 2, &w));
    bool even = onnx_is_even(&w);
    kiln_tensor *image = onnx_to_image(&w, x);
    if (!even) image = onnx_padded(&w, image, 0);
    *y = kiln_conv2d(image, onnx_to_image(&w, weight),
                     KILN_CONV2D(.bias = bias, .stride = {w.stride[0], w.stride[1]},
                                 .padding = {even ? w.begin[0] : 0, even ? w.begin[1] : 0},
                                 .dilation = {w.dilation[0], w.dilation[1]}, .groups = groups));
    *y = onnx_from_image(&w, *y);
    NEED(*y);
    return KILN_OK;
}

kiln_status onnx_op_conv(struct onnx_call *c)
{
    TRY(onnx_check_counts(c, 2, 3, 1));
    kiln_tensor *x = onnx_in(c, 0), *weight = onnx_in(c, 1), *bias = onnx_has(c, 2) ? onnx_in(c, 2) : NULL, *y;
    if (error_pending) return error_pending;
    TRY(onnx_convolve(c, x, weight, bias, &y));
    return onnx_give(c, 0, y);
}

struct transposed {
    int64_t more[2], size[2], full[2]; // output_padding; of the result; of one without padding
};

static kiln_status read_sizes(struct onnx_call *c, const struct onnx_window *w, kiln_tensor *image,
                              struct transposed *t)
{
    kiln_ints more, asked;
    size_t n = w->flat ? 1 : 2;
    TRY(onnx_ints(c, "output_padding", &more));
    TRY(onnx_ints(c, "output_shape", &asked));
    // Some exporters give the whole shape.
    if (asked.count == n + 2) asked = (kiln_ints){n, asked.v + 2};
    if ((more.v && more.count != n) || (asked.v && asked.count != n))
        return onnx_bad(c, KILN_E_SHAPE, "output_padding has %zu entries, output_shape %zu", more.count, asked.count);
    for (size_t i = 0; i < 2; i++) {
        size_t k = i + n - 2; // in the lists, where i is not the one that is made up
        bool real = i + n >= 2;
        t->more[i] = more.v && real ? more.v[k] : 0;
        t->full[i] = w->stride[i] * (kiln_dims(image)[2 + i] - 1) + (w->kernel[i] - 1) * w->dilation[i] + 1;
        t->size[i] = asked.v && real ? asked.v[k] : 0;
        if (t->more[i] < 0 || t->more[i] > INT32_MAX || t->size[i] < 0 || t->size[i] > INT32_MAX)
            return onnx_bad(c, KILN_E_SHAPE, "output_padding or output_shape is out of range");
    }
    return KILN_OK;
}

// What is asked for, by auto_pad or output_shape, decides how much is cut off; else pads do.
static kiln_status find_sizes(struct onnx_call *c, struct onnx_window *w, kiln_tensor *image, struct transposed *t)
{
    const char *mode;
    TRY(onnx_string(c, "auto_pad", "NOTSET", &mode));
    bool same = !strncmp(mode, "SAME", 4), upper = !strcmp(mode, "SAME_UPPER");
    TRY(read_sizes(c, w, image, t));
    for (int i = 0; i < 2; i++) {
        if (!t->size[i] && same) t->size[i] = kiln_dims(image)[2 + i] * w->stride[i];
        if (!t->size[i]) {
            t->size[i] = t->full[i] + t->more[i] - w->begin[i] - w->end[i];
        } else {
            int64_t total = t->full[i] + t->more[i] - t->size[i];
            if (total < 0) total = 0;
            w->begin[i] = upper ? total / 2 : total - total / 2;
            w->end[i] = total - w->begin[i];
        }
        if (t->size[i] < 1) return onnx_bad(c, KILN_E_SHAPE, "the result has size %lld", (long long)t->size[i]);
    }
    return KILN_OK;
}

static kiln_tensor *cut_out(kiln_tensor *y, const struct onnx_window *w, const struct transposed *t)
{
    for (int i = 0; i < 2 && y; i++) {
        int64_t lack = w->begin[i] + t->size[i] - kiln_dims(y)[2 + i], after[4] = {0};
        after[2 + i] = lack;
        if (lack > 0) y = kiln_pad(y, KILN_PAD(.after = {4, after}));
        y = kiln_narrow(y, 2 + i, w->begin[i], t->size[i]);
    }
    return y;
}

// The gradient of a convolution by its input.
kiln_status onnx_op_conv_transpose(struct onnx_call *c)
{
    struct onnx_window w;
    struct transposed t;
    int64_t groups;
    TRY(onnx_check_counts(c, 2, 3, 1));
    TRY(onnx_int(c, "group", 1, &groups));
    kiln_tensor *x = onnx_in(c, 0), *weight = onnx_in(c, 1);
    NEED(x && weight);
    if (kiln_rank(weight) != kiln_rank(x) || groups < 1)
        return onnx_bad(c, KILN_E_SHAPE, "an input of rank %zu, a weight of %zu, %lld groups", kiln_rank(x),
                        kiln_rank(weight), (long long)groups);
    TRY(onnx_window(c, x, kiln_dims(weight) + 2, &w));
    kiln_tensor *image = onnx_to_image(&w, x);
    NEED(image);
    TRY(find_sizes(c, &w, image, &t));
    bool even = onnx_is_even(&w) && !t.more[0] && !t.more[1];
    for (int i = 0; i < 2; i++) even = even && t.size[i] == t.full[i] - 2 * w.begin[i];
    kiln_tensor *y = kiln_conv2d_input_grad(
        image, onnx_to_image(&w, weight), even ? t.size[0] : t.full[0], even ? t.size[1] : t.full[1],
        KILN_CONV2D_GRAD(.stride = {w.stride[0], w.stride[1]},
                         .padding = {even ? w.begin[0] : 0, even ? w.begin[1] : 0},
                         .dilation = {w.dilation[0], w.dilation[1]}, .groups = groups));
    if (!even) y = cut_out(y, &w, &t);
    if (onnx_has(c, 2)) {
        kiln_tensor *bias = onnx_in(c, 2);
        NEED(bias);
        y = kiln_add(y, kiln_reshape(bias, KILN_SHAPE(1, kiln_numel(bias), 1, 1)));
    }
    return onnx_give(c, 0, onnx_from_image(&w, y));
}
