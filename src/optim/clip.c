// Clipping of gradients, on the device: nothing is read back.
//
// The norm over all gradients is that of the vector of their norms; these are stacked in groups, and again, until one
// is left. Clipped gradients are new tensors that take the place of the old: two parameters may share one gradient's
// storage.
#include "base/base.h"
#include "base/dtype.h"

#include <kiln/ops.h>
#include <kiln/optim.h>
#include <math.h>
#include <stdlib.h>

#define GROUP 128

static kiln_status check(const char *call, kiln_tensor *const *params, size_t n, double limit)
{
    if (kiln_error()) return kiln_error();
    if (!(limit > 0)) return error_set(KILN_E_ARGUMENT, "%s: the limit must be positive, got %g", call, limit);
    if (n && !params) return error_set(KILN_E_ARGUMENT, "%s: params is NULL", call);
    for (size_t i = 0; i < n; i++)
        if (!params[i]) return error_set(KILN_E_ARGUMENT, "%s: parameter %zu is NULL", call, i);
    return KILN_OK;
}

kiln_status kiln_clip_grad_value(kiln_tensor *const *params, size_t n, double limit)
{
    TRY(check("clip_grad_value", params, n, limit));
    kiln_scope *scope = kiln_scope_begin();
    kiln_no_grad_begin();
    for (size_t i = 0; i < n && !kiln_error(); i++) {
        kiln_tensor *g = kiln_gradient(params[i]);
        kiln_tensor *clipped = g ? kiln_clip(g, kiln_scalar(-limit), kiln_scalar(limit)) : NULL;
        if (clipped) kiln_set_gradient(params[i], clipped);
    }
    kiln_no_grad_end();
    kiln_scope_end(&scope);
    return kiln_error();
}

// A narrow float's norm may exceed its range.
static kiln_tensor *norm_of(kiln_tensor *g)
{
    kiln_dtype dtype = kiln_tensor_dtype(g);
    return kiln_norm(dtype_is_half_float(dtype) ? kiln_cast(g, KILN_F32) : g, NULL);
}

// Reduces norms[0..n) to one; overwrites the array.
static kiln_tensor *combine(kiln_tensor **norms, size_t n)
{
    while (n > 1) {
        size_t left = 0;
        for (size_t i = 0; i < n; i += GROUP) {
            size_t count = n - i < GROUP ? n - i : GROUP;
            kiln_tensor *group = kiln_norm(kiln_stack(norms + i, count, 0), NULL);
            if (!group) return NULL;
            norms[left++] = group;
        }
        n = left;
    }
    return norms[0];
}

static kiln_tensor *clip_by_norm(kiln_tensor *const *params, kiln_tensor **norms, size_t n, double max_norm)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        kiln_tensor *g = kiln_gradient(params[i]);
        if (!g) continue;
        norms[count] = norm_of(g);
        if (!norms[count++]) return NULL;
    }
    if (!count) return kiln_zeros(n ? kiln_tensor_device(params[0]) : NULL, KILN_F32, KILN_SHAPE0);
    kiln_tensor *total = combine(norms, count);
    // The same small term as elsewhere in the field keeps a zero norm from dividing.
    kiln_tensor *scale =
        kiln_minimum(kiln_div(kiln_scalar(max_norm), kiln_add(total, kiln_scalar(1e-6))), kiln_scalar(1));
    for (size_t i = 0; i < n && scale; i++) {
        kiln_tensor *g = kiln_gradient(params[i]);
        if (!g) continue;
        kiln_dtype dtype = kiln_tensor_dtype(g);
        kiln_tensor *scaled = kiln_mul(g, scale);
        if (scaled && kiln_tensor_dtype(scaled) != dtype) scaled = kiln_cast(scaled, dtype);
        if (!scaled || kiln_set_gradient(params[i], scaled)) return NULL;
    }
    return scale ? total : NULL;
}

kiln_tensor *kiln_clip_grad_norm(kiln_tensor *const *params, size_t n, double max_norm)
{
    if (check("clip_grad_norm", params, n, max_norm)) return NULL;
    kiln_tensor **norms = malloc((n + 1) * sizeof *norms);
    if (!norms) {
        error_set(KILN_E_MEMORY, "clip_grad_norm: host memory is exhausted");
        return NULL;
    }
    kiln_scope *scope = kiln_scope_begin();
    kiln_no_grad_begin();
    kiln_tensor *total = clip_by_norm(params, norms, n, max_norm);
    kiln_no_grad_end();
    if (total) kiln_keep(total);
    kiln_scope_end(&scope);
    free(norms);
    return total;
}
