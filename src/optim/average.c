// Averages of parameters over steps: exponential, or of all that were taken up.
//
// The weight of a new value is a number of the host, so that an update is captured as a step of an optimiser is.
#include "base/dtype.h"
#include "base/handles.h"
#include "base/options.h"
#include "optim/optim.h"

#include <inttypes.h>
#include <kiln/jit.h>
#include <kiln/ops.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kiln_average {
    const char *name; // of the function that made it
    size_t n;
    kiln_tensor **params, **values; // n
    kiln_tensor **saved;            // the parameters' own values while the averages are in; NULL each: they are not
    char **names;
    int64_t updates;
    double decay;
    bool equal, warmup, is_in;
};

static kiln_status out_of_memory(const char *name)
{
    return error_set(KILN_E_MEMORY, "%s: host memory is exhausted", name);
}

static kiln_status check_params(const char *name, kiln_tensor *const *params, size_t n)
{
    TRY(kiln_error());
    if (!params || !n) return error_set(KILN_E_ARGUMENT, "%s: there are no parameters", name);
    for (size_t i = 0; i < n; i++) {
        if (!params[i]) return error_set(KILN_E_ARGUMENT, "%s: parameter %zu is NULL", name, i);
        kiln_dtype dtype = kiln_tensor_dtype(params[i]);
        TRY(kiln_error());
        if (!dtype_is_float(dtype) || !kiln_is_leaf(params[i]) || !kiln_tensor_device(params[i]))
            return error_set(KILN_E_ARGUMENT, "%s: parameter %zu must be a leaf of a float dtype, it is %s of %s", name,
                             i, kiln_is_leaf(params[i]) ? "a leaf" : "a result", kiln_dtype_name(dtype));
    }
    return KILN_OK;
}

static kiln_tensor *copy_of(kiln_tensor *t, kiln_dtype dtype)
{
    kiln_tensor *copy = kiln_tensor_dtype(t) == dtype ? kiln_contiguous(t) : kiln_cast(t, dtype);
    return copy ? kiln_own(copy) : NULL;
}

static kiln_status fill(kiln_average *a, kiln_tensor *const *params)
{
    a->params = calloc(a->n, sizeof *a->params);
    a->values = calloc(a->n, sizeof *a->values);
    a->saved = calloc(a->n, sizeof *a->saved);
    a->names = calloc(a->n, sizeof *a->names);
    if (!a->params || !a->values || !a->saved || !a->names) return out_of_memory(a->name);
    for (size_t i = 0; i < a->n; i++) {
        kiln_tensor *p = kiln_alias(params[i]);
        if (!p) return kiln_error();
        a->params[i] = kiln_own(p);
        kiln_dtype dtype = kiln_tensor_dtype(p);
        a->values[i] = copy_of(p, dtype_is_half_float(dtype) ? KILN_F32 : dtype);
        if (!a->values[i] || kiln_state(a->values[i])) return kiln_error();
        char name[48];
        snprintf(name, sizeof name, "average.%zu", i);
        a->names[i] = strdup(name);
        if (!a->names[i]) return out_of_memory(a->name);
    }
    return KILN_OK;
}

static kiln_average *make(kiln_average init, kiln_tensor *const *params)
{
    if (check_params(init.name, params, init.n)) return NULL;
    kiln_average *a = handle_new(HANDLE_AVERAGE, sizeof *a);
    if (!a) {
        out_of_memory(init.name);
        return NULL;
    }
    *a = init;
    kiln_no_grad_begin();
    kiln_status status = fill(a, params);
    kiln_no_grad_end();
    if (status) kiln_average_free(&a);
    return a;
}

kiln_average *kiln_average_ema(kiln_tensor *const *params, size_t n, const kiln_ema_opts *opts)
{
    kiln_ema_opts o;
    if (options_read("average_ema", KILN_EMA, &o, opts)) return NULL;
    double decay = option_or(o.decay, 0.999);
    if (!kiln_error() && !(decay >= 0 && decay < 1))
        error_set(KILN_E_ARGUMENT, "average_ema: .decay must be in [0, 1), got %g", decay);
    return make((kiln_average){.name = "average_ema", .n = n, .decay = decay, .warmup = o.warmup}, params);
}

kiln_average *kiln_average_swa(kiln_tensor *const *params, size_t n)
{
    return make((kiln_average){.name = "average_swa", .n = n, .equal = true}, params);
}

void kiln_average_free(kiln_average **average)
{
    if (!handle_may_free("average_free", HANDLE_AVERAGE, average)) return;
    kiln_average *a = *average;
    *average = NULL;
    for (size_t i = 0; i < a->n; i++) {
        if (a->params) kiln_free(&a->params[i]);
        if (a->values) kiln_free(&a->values[i]);
        if (a->saved) kiln_free(&a->saved[i]);
        if (a->names) free(a->names[i]);
    }
    free(a->params);
    free(a->values);
    free(a->saved);
    free(a->names);
    handle_free(HANDLE_AVERAGE, a);
}

static kiln_status check(const char *function, const kiln_average *a)
{
    return kiln_error() ? kiln_error() : handle_check(function, "average", HANDLE_AVERAGE, a);
}

// The weight of the next value, which counts from now on.
static double weight(void *user)
{
    kiln_average *a = user;
    double t = (double)a->updates++;
    if (a->equal) return 1 / (t + 1);
    return 1 - (a->warmup ? fmin(a->decay, (1 + t) / (10 + t)) : a->decay);
}

static kiln_status move_all(kiln_average *a)
{
    kiln_tensor *w = kiln_host_number(weight, a);
    for (size_t i = 0; w && i < a->n; i++) TRY(kiln_lerp_(a->values[i], a->params[i], w));
    return kiln_error();
}

kiln_status kiln_average_update(kiln_average *a)
{
    TRY(check("average_update", a));
    if (a->is_in)
        return error_set(KILN_E_STATE, "average_update: the averages are in the parameters; swap them out first");
    int64_t updates = a->updates;
    kiln_scope *scope = kiln_scope_begin();
    if (!scope) return kiln_error();
    kiln_no_grad_begin();
    kiln_status status = move_all(a);
    kiln_no_grad_end();
    kiln_scope_end(&scope);
    if (status || kiln_is_capturing()) a->updates = updates; // what only recorded it did not take it
    return status;
}

static kiln_status swap_in(kiln_average *a)
{
    for (size_t i = 0; i < a->n; i++) {
        a->saved[i] = copy_of(a->params[i], kiln_tensor_dtype(a->params[i]));
        if (!a->saved[i]) return kiln_error();
    }
    a->is_in = true; // from the first on: the own values come back whatever fails here
    for (size_t i = 0; i < a->n; i++) TRY(kiln_assign(a->params[i], a->values[i]));
    return KILN_OK;
}

static kiln_status swap_out(kiln_average *a)
{
    for (size_t i = 0; i < a->n; i++) TRY(kiln_assign(a->params[i], a->saved[i]));
    a->is_in = false;
    return KILN_OK;
}

kiln_status kiln_average_swap(kiln_average *a)
{
    TRY(check("average_swap", a));
    if (kiln_is_capturing()) return error_set(KILN_E_STATE, "average_swap: parameters are swapped outside of captures");
    kiln_no_grad_begin();
    kiln_status status = a->is_in ? swap_out(a) : swap_in(a);
    kiln_no_grad_end();
    for (size_t i = 0; !a->is_in && i < a->n; i++) kiln_free(&a->saved[i]);
    return status;
}

bool kiln_average_is_in(const kiln_average *a)
{
    return check("average_is_in", a) == KILN_OK && a->is_in;
}

int64_t kiln_average_updates(const kiln_average *a)
{
    return check("average_updates", a) == KILN_OK ? a->updates : 0;
}

kiln_status kiln_average_set_updates(kiln_average *a, int64_t updates)
{
    TRY(check("average_set_updates", a));
    if (updates < 0)
        return error_set(KILN_E_ARGUMENT, "average_set_updates: the number must not be below 0, got %" PRId64, updates);
    a->updates = updates;
    return KILN_OK;
}

size_t kiln_average_state(kiln_average *a, const char **names, kiln_tensor **tensors, size_t max)
{
    if (check("average_state", a)) return 0;
    for (size_t i = 0; i < a->n && i < max; i++) {
        if (names) names[i] = a->names[i];
        if (tensors) tensors[i] = a->values[i];
    }
    return a->n;
}
