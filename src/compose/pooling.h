// Options of pooling in one, two or three dimensions.
#pragma once
#include "compose/composite.h"
#include "compose/sliding.h"

struct pooling {
    int n; // dimensions
    int64_t kernel[3], stride[3], padding[3], dilation[3];
    bool ceil_mode, exclude_padding;
};
typedef kiln_tensor *(*pool_fn)(kiln_tensor *x, const kiln_pool2d_opts *o);

struct pooling pool_of_line(const kiln_pool1d_opts *o);
struct pooling pool_of_image(const kiln_pool2d_opts *o);
struct pooling pool_of_volume(const kiln_pool3d_opts *o);
// x has the rank; false with an error.
bool pool_takes(const struct pooling *p, kiln_tensor *x);
// The windows along dimension i of size `size`; false with an error.
bool pool_sliding(const struct pooling *p, int i, int64_t size, struct sliding *s);
kiln_tensor *pooled(kiln_tensor *x, const struct pooling *p, pool_fn fn);
// Means of so many parts of each of the n axes behind the first two; 0 parts: as they are.
kiln_tensor *averaged_parts(kiln_tensor *x, int n, int64_t *size);
