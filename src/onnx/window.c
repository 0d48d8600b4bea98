// Windows: attributes as Kiln's options.
#include "onnx/window.h"
#include <string.h>

static kiln_status read_two(struct onnx_call *c, const char *name, bool flat, int64_t fallback, int64_t *out)
{
    kiln_ints v;
    TRY(onnx_ints(c, name, &v));
    out[0] = flat ? 1 : fallback;
    out[1] = fallback;
    if (!v.v) return KILN_OK;
    if (v.count != (flat ? 1u : 2u)) return onnx_bad(c, KILN_E_SHAPE, "%s has %zu entries", name, v.count);
    if (!flat) out[0] = v.v[0];
    out[1] = v.v[flat ? 0 : 1];
    for (int i = 0; i < 2; i++)
        if (out[i] < 1 || out[i] > INT32_MAX)
            return onnx_bad(c, KILN_E_ARGUMENT, "%s has %lld", name, (long long)out[i]);
    return KILN_OK;
}

static kiln_status read_pads(struct onnx_call *c, struct onnx_window *w)
{
    kiln_ints v;
    size_t n = w->flat ? 1 : 2;
    TRY(onnx_ints(c, "pads", &v));
    if (!v.v) return KILN_OK;
    if (v.count != 2 * n) return onnx_bad(c, KILN_E_SHAPE, "pads has %zu entries", v.count);
    for (size_t i = 0; i < 2 * n; i++)
        if (v.v[i] < 0 || v.v[i] > INT32_MAX) return onnx_bad(c, KILN_E_ARGUMENT, "pads has %lld", (long long)v.v[i]);
    for (size_t i = 0; i < n; i++) {
        w->begin[2 - n + i] = v.v[i];
        w->end[2 - n + i] = v.v[n + i];
    }
    return KILN_OK;
}

// So much around that there is one place for each `stride` elements.
static void pad_to_same(struct onnx_window *w, kiln_tensor *x, bool upper)
{
    for (int i = w->flat; i < 2; i++) {
        int64_t size = kiln_dims(x)[w->flat ? 2 : 2 + i], places = (size + w->stride[i] - 1) / w->stride[i];
        int64_t total = (places - 1) * w->stride[i] + (w->kernel[i] - 1) * w->dilation[i] + 1 - size;
        if (total < 0) total = 0;
        w->begin[i] = upper ? total / 2 : total - total / 2;
        w->end[i] = total - w->begin[i];
    }
}

kiln_status onnx_window(struct onnx_call *c, kiln_tensor *x, const int64_t *kernel, struct onnx_window *w)
{
    const char *mode;
    size_t rank = kiln_rank(x);
    if (rank != 3 && rank != 4)
        return onnx_bad(c, KILN_E_UNSUPPORTED, "over %zu dimensions; 1 and 2 are", rank < 2 ? 0 : rank - 2);
    *w = (struct onnx_window){.flat = rank == 3};
    TRY(read_two(c, "kernel_shape", w->flat, 0, w->kernel));
    TRY(read_two(c, "strides", w->flat, 1, w->stride));
    TRY(read_two(c, "dilations", w->flat, 1, w->dilation));
    if (!w->kernel[1] && !kernel) return onnx_bad(c, KILN_E_FORMAT, "attribute kernel_shape is not given");
    if (!w->kernel[1]) {
        w->kernel[0] = w->flat ? 1 : kernel[0];
        w->kernel[1] = kernel[w->flat ? 0 : 1];
    }
    for (int i = 0; kernel && i < (w->flat ? 1 : 2); i++)
        if (kernel[i] != w->kernel[w->flat ? 1 : i])
            return onnx_bad(c, KILN_E_SHAPE, "kernel_shape is not the weight's");
    TRY(onnx_string(c, "auto_pad", "NOTSET", &mode));
    TRY(read_pads(c, w));
    if (!strcmp(mode, "NOTSET")) return KILN_OK;
    for (int i = 0; i < 2; i++) w->begin[i] = w->end[i] = 0;
    if (!strcmp(mode, "VALID")) return KILN_OK;
    bool upper = !strcmp(mode, "SAME_UPPER");
    if (!upper && strcmp(mode, "SAME_LOWER") != 0) return onnx_bad(c, KILN_E_FORMAT, "auto_pad is \"%.20s\"", mode);
    pad_to_same(w, x, upper);
    return KILN_OK;
}

kiln_tensor *onnx_to_image(const struct onnx_window *w, kiln_tensor *x)
{
    return w->flat ? kiln_unsqueeze(x, 2) : x;
}

kiln_tensor *onnx_from_image(const struct onnx_window *w, kiln_tensor *x)
{
    return w->flat ? kiln_squeeze(x, KILN_AXES(2)) : x;
}

bool onnx_is_even(const struct onnx_window *w)
{
    return w->begin[0] == w->end[0] && w->begin[1] == w->end[1];
}

kiln_tensor *onnx_padded(const struct onnx_window *w, kiln_tensor *image, double value)
{
    return kiln_pad(image, KILN_PAD(.before = KILN_ARGS(0, 0, w->begin[0], w->begin[1]),
                                    .after = KILN_ARGS(0, 0, w->end[0], w->end[1]), .value = value));
}
