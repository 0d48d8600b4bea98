// Ops by their names.
#include "tensor/apply.h"
#include "tensor/tensor.h"
#include <kiln/ops.h>

kiln_tensor *kiln_apply(const char *name, kiln_tensor *const *in, size_t n_in)
{
    if (error_pending) return NULL;
    const struct op *op = name ? op_find(name) : NULL;
    if (!name)
        error_set(KILN_E_ARGUMENT, "apply: op is NULL");
    else if (!op)
        error_set(KILN_E_ARGUMENT, "apply: no op is named \"%s\"%s", name, op_nearest(name).s);
    else if (op->n_attrs || op->n_out != 1 || (op->flags & OP_CREATES))
        error_set(KILN_E_ARGUMENT, "apply: %s takes more than tensors or has several results; call its function",
                  op->name);
    else
        return op_apply1(op, NULL, n_in > 255 ? 256 : (int)n_in, in, NULL);
    return NULL;
}
