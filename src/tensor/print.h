// Text of tensors, as NumPy prints arrays.
#pragma once
#include "base/str.h"
#include "ir/type.h"
#include <kiln/print.h>

// Appends the text of row-major host data of type `t`, without a newline at the end; `complex`: the last dimension are
// pairs. `data` may be NULL when the type has no elements. `o`: of print_options_read. Errors: KILN_E_MEMORY.
kiln_status tensor_format(struct str *out, const struct type *t, bool complex, const void *data,
                          const kiln_print_opts *o);

// print_options.c: a call's options, which may be NULL, and for what they leave out those of the process.
kiln_status print_options_read(const char *function, const kiln_print_opts *opts, kiln_print_opts *out);
