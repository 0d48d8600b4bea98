#include "grad/rules/parts.h"

static bool differentiable(kiln_dtype dtype)
{
    return dtype == KILN_F16 || dtype == KILN_BF16 || dtype == KILN_F32 || dtype == KILN_F64;
}

kiln_status rule_by_parts(kiln_fn fn, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor *dout,
                          kiln_tensor **din)
{
    int64_t wrt[8];
    kiln_tensor *grads[8] = {NULL};
    size_t n = 0;
    for (size_t i = 0; i < n_in; i++)
        if (in[i] && kiln_rule_wants(i) && differentiable(kiln_rule_in_dtype(i))) wrt[n++] = (int64_t)i;
    if (n == 0) return kiln_error();
    kiln_grad_opts opts = {.size = sizeof opts, .wrt = {n, wrt}, .sens = {1, &dout}};
    if (kiln_grad(fn, user, in, n_in, &opts, grads, n)) return kiln_error();
    for (size_t i = 0; i < n; i++) din[wrt[i]] = grads[i];
    return kiln_error();
}
