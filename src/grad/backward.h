// What kiln_backward and kiln_grad share: the gradient that a run begins with.
#pragma once
#include "tensor/tensor.h"

kiln_status backward_check_sens(const char *function, int index, const kiln_tensor *out, const kiln_tensor *sens);
kiln_tensor *backward_root(const kiln_tensor *out, kiln_tensor *sens); // sens, or ones, as a new handle
