// Initialisers: those that the host computes, and the default of layers.
#pragma once
#include "base/base.h"
#include <kiln/tensor.h>

// Uniform in [-1 / sqrt(fan_in), 1 / sqrt(fan_in)) as the text of an initialiser; returns `text`. The default of
// weights and biases in PyTorch and MindSpore: kaiming_uniform with a slope of sqrt(5), which has a gain of sqrt(1 /
// 3).
enum { INIT_TEXT_B = 48 };
const char *init_by_fan_in(char text[INIT_TEXT_B], int64_t fan_in);

// Fills `out`, row-major, with zeros before; `number` is what stood in parentheses.
typedef kiln_status (*init_fill_fn)(kiln_device *dev, double *out, size_t rank, const int64_t *dims, double number);
kiln_tensor *init_by_host(kiln_device *dev, kiln_dtype dtype, size_t rank, const int64_t *dims, const char *name,
                          init_fill_fn fill, double number);
kiln_status init_orthogonal(kiln_device *dev, double *out, size_t rank, const int64_t *dims, double gain);
kiln_status init_dirac(kiln_device *dev, double *out, size_t rank, const int64_t *dims, double groups);
kiln_status init_eye(kiln_device *dev, double *out, size_t rank, const int64_t *dims, double number);
