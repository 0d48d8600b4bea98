// What composites ask of complex tensors.
#pragma once
#include <kiln/tensor.h>

bool is_complex(const kiln_tensor *t);
