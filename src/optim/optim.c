// What all optimisers share: handles on the parameters, state, the step.
#include "optim/optim.h"
#include "base/dtype.h"
#include "base/handles.h"
#include "optim/kinds.h"

#include <inttypes.h>
#include <kiln/jit.h>
#include <kiln/ops.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static kiln_status check_params(const char *kind, kiln_tensor *const *params, size_t n)
{
    if (!params || n == 0) return error_set(KILN_E_ARGUMENT, "%s: there are no parameters", kind);
    for (size_t i = 0; i < n; i++) {
        if (!params[i]) return error_set(KILN_E_ARGUMENT, "%s: parameter %zu is NULL", kind, i);
        if (!dtype_is_float(kiln_tensor_dtype(params[i])) || !kiln_is_leaf(params[i]))
            return error_set(KILN_E_ARGUMENT,
                             "%s: parameter %zu \"%s\" must be a leaf of a float dtype, it is %s of %s", kind, i,
                             kiln_name(params[i]), kiln_is_leaf(params[i]) ? "a leaf" : "a result",
                             kiln_dtype_name(kiln_tensor_dtype(params[i])));
        if (!kiln_requires_grad(params[i]) && !*kiln_name(params[i])) // a frozen parameter has its name
            return error_set(KILN_E_ARGUMENT,
                             "%s: parameter %zu is no parameter: no gradient would ever move it; make one of it with "
                             "kiln_parameter",
                             kind, i);
    }
    return KILN_OK;
}

// Zeros beside each parameter; narrow floats keep their state in f32, where small second moments do not vanish.
static kiln_status make_slots(kiln_optim *opt)
{
    for (size_t i = 0; i < opt->n; i++) {
        kiln_tensor *p = opt->params[i];
        kiln_dtype dtype = kiln_tensor_dtype(p) == KILN_F64 ? KILN_F64 : KILN_F32;
        for (size_t j = 0; j < opt->n_slots; j++) {
            char name[64];
            snprintf(name, sizeof name, "optim.%zu.%s", i, opt->kind.slots[j]);
            kiln_tensor *zeros = kiln_zeros(kiln_tensor_device(p), dtype, kiln_rank(p), kiln_dims(p));
            if (!zeros) return kiln_error();
            opt->slots[i * opt->n_slots + j] = kiln_own(zeros);
            TRY(kiln_state(zeros));
            opt->names[i * opt->n_slots + j] = strdup(name);
            if (!opt->names[i * opt->n_slots + j])
                return error_set(KILN_E_MEMORY, "%s: host memory is exhausted", opt->kind.name);
        }
    }
    return KILN_OK;
}

static kiln_status fill(kiln_optim *opt, kiln_tensor *const *params)
{
    size_t n = opt->n;
    while (opt->n_slots < MAX_SLOTS && opt->kind.slots[opt->n_slots]) opt->n_slots++;
    opt->params = calloc(n, sizeof *opt->params);
    opt->slots = calloc(n * opt->n_slots + 1, sizeof *opt->slots);
    opt->names = calloc(n * opt->n_slots + 1, sizeof *opt->names);
    if (!opt->params || !opt->slots || !opt->names)
        return error_set(KILN_E_MEMORY, "%s: host memory is exhausted", opt->kind.name);
    for (size_t i = 0; i < n; i++) {
        kiln_tensor *p = kiln_alias(params[i]);
        if (!p) return kiln_error();
        opt->params[i] = kiln_own(p);
    }
    return make_slots(opt);
}

kiln_optim *optim_make(const kiln_optim *init, kiln_tensor *const *params, size_t n)
{
    if (kiln_error() || check_params(init->kind.name, params, n)) return NULL;
    if (!(init->lr >= 0) || !isfinite(init->lr)) {
        error_set(KILN_E_ARGUMENT, "%s: .lr must be a number not below 0, got %g", init->kind.name, init->lr);
        return NULL;
    }
    kiln_optim *opt = handle_new(HANDLE_OPTIM, sizeof *opt);
    if (!opt) {
        error_set(KILN_E_MEMORY, "%s: host memory is exhausted", init->kind.name);
        return NULL;
    }
    *opt = *init;
    opt->n = n;
    if (fill(opt, params)) kiln_optim_free(&opt);
    return opt;
}

static kiln_status check(const char *function, const kiln_optim *opt)
{
    return kiln_error() ? kiln_error() : handle_check(function, "opt", HANDLE_OPTIM, opt);
}

void kiln_optim_free(kiln_optim **opt)
{
    if (!handle_may_free("optim_free", HANDLE_OPTIM, opt)) return;
    kiln_optim *o = *opt;
    *opt = NULL;
    for (size_t i = 0; o->params && i < o->n; i++) kiln_free(&o->params[i]);
    for (size_t i = 0; o->slots && i < o->n * o->n_slots; i++) kiln_free(&o->slots[i]);
    for (size_t i = 0; o->names && i < o->n * o->n_slots; i++) free(o->names[i]);
    kiln_schedule_free(&o->schedule);
    free(o->params);
    free(o->slots);
    free(o->names);
    handle_free(HANDLE_OPTIM, o);
}

// The numbers of a step. A captured step asks for them at each of its calls, in the order in which it asks at first.

static double advance(void *user)
{
    kiln_optim *opt = user;
    opt->lr_now = kiln_optim_lr(opt);
    opt->steps++; // the formulas count from 1
    return opt->lr_now;
}

static double minus_rate(void *user)
{
    const kiln_optim *opt = user;
    return -(opt->kind.rate ? opt->kind.rate(opt) : opt->lr_now);
}

static double eps_now(void *user)
{
    const kiln_optim *opt = user;
    return opt->kind.eps ? opt->kind.eps(opt) : opt->eps;
}

static double decay_now(void *user)
{
    const kiln_optim *opt = user;
    return 1 - opt->lr_now * opt->weight_decay;
}

static kiln_status begin_step(kiln_optim *opt, struct optim_step *s)
{
    bool ok = kiln_host_number(advance, opt) && (s->minus_rate = kiln_host_number(minus_rate, opt)) &&
              (s->eps = kiln_host_number(eps_now, opt)) && (s->decay = kiln_host_number(decay_now, opt));
    return ok ? KILN_OK : kiln_error();
}

static kiln_status step_all(kiln_optim *opt, const struct optim_step *s)
{
    size_t n_moved = 0;
    for (size_t i = 0; i < opt->n; i++) {
        kiln_tensor *p = opt->params[i], *g = kiln_gradient(p);
        if (!g) {
            TRY(kiln_error());
            continue;
        }
        n_moved++;
        kiln_scope *scope = kiln_scope_begin();
        kiln_status status = opt->kind.update(opt, p, g, opt->slots + i * opt->n_slots, s);
        kiln_scope_end(&scope);
        TRY(status);
    }
    if (!n_moved && !kiln_is_capturing())
        log_warn(
            "optim_step: none of the %zu parameters has a gradient, none has moved; is kiln_backward called before "
            "the step?",
            opt->n);
    return KILN_OK;
}

kiln_status kiln_optim_step(kiln_optim *opt)
{
    TRY(check("optim_step", opt));
    int64_t steps = opt->steps;
    struct optim_step s;
    kiln_scope *scope = kiln_scope_begin();
    if (!scope) return kiln_error();
    kiln_no_grad_begin();
    kiln_status status = begin_step(opt, &s);
    if (!status) status = step_all(opt, &s);
    kiln_no_grad_end();
    kiln_scope_end(&scope);
    // What only recorded the step did not take it.
    if (status || kiln_is_capturing()) opt->steps = steps;
    return status;
}

kiln_status kiln_optim_zero_grad(kiln_optim *opt)
{
    TRY(check("optim_zero_grad", opt));
    for (size_t i = 0; i < opt->n; i++) TRY(kiln_set_gradient(opt->params[i], NULL));
    return KILN_OK;
}

double kiln_optim_lr(const kiln_optim *opt)
{
    if (check("optim_lr", opt)) return NAN;
    return opt->schedule ? kiln_schedule_lr(opt->schedule, opt->steps) : opt->lr;
}

kiln_status kiln_optim_set_lr(kiln_optim *opt, double lr)
{
    TRY(check("optim_set_lr", opt));
    if (!(lr >= 0) || !isfinite(lr))
        return error_set(KILN_E_ARGUMENT, "optim_set_lr: the rate must not be below 0, got %g", lr);
    kiln_schedule_free(&opt->schedule);
    opt->lr = lr;
    return KILN_OK;
}

kiln_status kiln_optim_set_schedule(kiln_optim *opt, kiln_schedule *schedule)
{
    if (schedule) TRY(handle_check("optim_set_schedule", "schedule", HANDLE_SCHEDULE, schedule));
    bool there = opt && !handle_check("optim_set_schedule", "opt", HANDLE_OPTIM, opt);
    if (check("optim_set_schedule", opt) || opt->schedule == schedule) {
        if (!there || opt->schedule != schedule) kiln_schedule_free(&schedule);
        return kiln_error();
    }
    opt->lr = kiln_optim_lr(opt);
    kiln_schedule_free(&opt->schedule);
    opt->schedule = schedule;
    return kiln_error();
}

int64_t kiln_optim_steps(const kiln_optim *opt)
{
    return check("optim_steps", opt) == KILN_OK ? opt->steps : 0;
}

kiln_status kiln_optim_set_steps(kiln_optim *opt, int64_t steps)
{
    TRY(check("optim_set_steps", opt));
    if (steps < 0) return error_set(KILN_E_ARGUMENT, "optim_set_steps: the number must not be below 0");
    opt->steps = steps;
    return KILN_OK;
}

size_t kiln_optim_state(kiln_optim *opt, const char **names, kiln_tensor **tensors, size_t max)
{
    if (check("optim_state", opt)) return 0;
    size_t n = opt->n * opt->n_slots;
    for (size_t i = 0; i < n && i < max; i++) {
        if (names) names[i] = opt->names[i];
        if (tensors) tensors[i] = opt->slots[i];
    }
    return n;
}
