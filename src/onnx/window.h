// Windows of convolutions and poolings over one or two dimensions; one is taken as the second of two.
#pragma once
#include "onnx/call.h"

struct onnx_window {
    bool flat; // of one dimension
    int64_t kernel[2], stride[2], dilation[2], begin[2], end[2];
};

// Reads kernel_shape (given by `kernel` where it may be left out), strides, dilations, pads and auto_pad for x of
// [N, C, ...].
kiln_status onnx_window(struct onnx_call *c, kiln_tensor *x, const int64_t *kernel, struct onnx_window *w);
kiln_tensor *onnx_to_image(const struct onnx_window *w, kiln_tensor *x);   // [N, C, L] as [N, C, 1, L]
kiln_tensor *onnx_from_image(const struct onnx_window *w, kiln_tensor *x); // and back
// Whether padding is the same on both sides; else x is to be padded before.
bool onnx_is_even(const struct onnx_window *w);
kiln_tensor *onnx_padded(const struct onnx_window *w, kiln_tensor *image, double value);

// make_conv.c: by the attributes of the node. bias may be NULL.
kiln_status onnx_convolve(struct onnx_call *c, kiln_tensor *x, kiln_tensor *weight, kiln_tensor *bias, kiln_tensor **y);
