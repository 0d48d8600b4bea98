// What kiln_backward and kiln_grad share: the gradient that a run begins with.
#pragma once
#include "tensor/tensor.h"

kiln_status backward_check_sens(const char *function, int index, const kiln_tensor *out, const kiln_tensor *sens);
// `out` has no place on the tape: why not.
kiln_status backward_has_no_root(const char *function, const kiln_tensor *out);
bool grad_is_nested(void); // functional.c: whether this thread is in a function that kiln_grad differentiates
kiln_tensor *backward_root(const kiln_tensor *out, kiln_tensor *sens); // sens, or ones, as a new handle
