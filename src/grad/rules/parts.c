// Differentiates an op by calling its decomposition and taking the gradient of that.
#include "grad/rules/parts.h"
#include "base/dtype.h"

struct parts {
    kiln_fn fn;
    void *user;
    kiln_dtype dtype;
};

// The parts may meet in a wider dtype than the op's result has.
static kiln_status in_dtype_of_op(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct parts *p = user;
    if (p->fn(p->user, in, n_in, out, n_out)) return kiln_error();
    if (kiln_tensor_dtype(out[0]) != p->dtype) out[0] = kiln_cast(out[0], p->dtype);
    return kiln_error();
}

kiln_status rule_by_parts(kiln_fn fn, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor *dout,
                          kiln_tensor **din)
{
    int64_t wrt[8];
    kiln_tensor *grads[8] = {NULL};
    size_t n = 0;
    for (size_t i = 0; i < n_in; i++)
        if (in[i] && kiln_rule_wants(i) && dtype_is_float(kiln_rule_in_dtype(i))) wrt[n++] = (int64_t)i;
    if (n == 0) return kiln_error();
    kiln_grad_opts opts = {.size = sizeof opts, .wrt = {n, wrt}, .sens = {1, &dout}};
    struct parts parts = {fn, user, kiln_tensor_dtype(dout)};
    if (kiln_grad(in_dtype_of_op, &parts, in, n_in, &opts, grads, n)) return kiln_error();
    for (size_t i = 0; i < n; i++) din[wrt[i]] = grads[i];
    return kiln_error();
}
