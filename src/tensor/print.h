// Text of tensors, as NumPy prints arrays.
#pragma once
#include "base/str.h"
#include "ir/type.h"

// Appends the text of row-major host data of type `t`, without a newline at the end. `data` may be NULL when the type
// has no elements. Errors: KILN_E_MEMORY.
kiln_status tensor_format(struct str *out, const struct type *t, const void *data);
