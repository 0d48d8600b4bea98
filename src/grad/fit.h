// Gradients in the type of the value that they are for.
#pragma once
#include "tensor/tensor.h"

// g as a gradient for a value of this type: summed over what was broadcast, cast to its dtype. May return g itself.
kiln_tensor *grad_fit(const char *op, int input, kiln_tensor *g, const struct type *type);
void grad_type_of(const struct type *value, struct type *out); // the type of the gradient of a value
