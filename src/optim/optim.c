// What all optimisers share: groups of parameters, the step, the rate. state.c holds what is kept beside parameters.
#include "optim/optim.h"
#include "base/handles.h"
#include "optim/kinds.h"
#include "optim/schedule.h"
#include "optim/state.h"

#include <inttypes.h>
#include <kiln/jit.h>
#include <kiln/ops.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_rate(double lr)
{
    return lr >= 0 && isfinite(lr);
}

// `at`: "" for what a constructor was given, else which group, for messages.
static kiln_status check_numbers(const struct optim_kind *kind, const char *at, const struct optim_numbers *numbers)
{
    TRY(kiln_error());
    if (!is_rate(numbers->lr))
        return error_set(KILN_E_ARGUMENT, "%s: %s.lr must be a number not below 0, got %g", kind->name, at,
                         numbers->lr);
    for (const struct optim_field *f = kind->fields; f->name; f++) {
        double v = *(const double *)((const char *)numbers + f->at);
        if (!(v >= 0 && (v < f->end || (f->closed && v == f->end))))
            return error_set(KILN_E_ARGUMENT, "%s: %s.%s must be in [0, %g%s, got %g", kind->name, at, f->name, f->end,
                             f->closed ? "]" : ")", v);
    }
    return KILN_OK;
}

static kiln_status group_add(kiln_optim *opt, kiln_tensor *const *params, size_t n, const struct optim_numbers *numbers,
                             struct optim_group **out)
{
    struct optim_group **more = realloc(opt->groups, (opt->n_groups + 1) * sizeof *more);
    if (more) opt->groups = more;
    struct optim_group *g = more ? calloc(1, sizeof *g) : NULL;
    if (!g) return error_set(KILN_E_MEMORY, "%s: host memory is exhausted", opt->kind.name);
    *g = (struct optim_group){.opt = opt, .n = n, .first = state_count_params(opt), .o = *numbers, .scale = 1};
    kiln_status status = state_fill(g, params);
    if (status) {
        state_drop(g);
        free(g);
        return status;
    }
    opt->groups[opt->n_groups++] = g;
    if (out) *out = g;
    return KILN_OK;
}

kiln_optim *optim_make(const struct optim_kind *kind, const struct optim_numbers *numbers, kiln_tensor *const *params,
                       size_t n)
{
    if (kiln_error() || state_check_params(kind, NULL, params, n) || check_numbers(kind, "", numbers)) return NULL;
    kiln_optim *opt = handle_new(HANDLE_OPTIM, sizeof *opt);
    if (!opt) {
        error_set(KILN_E_MEMORY, "%s: host memory is exhausted", kind->name);
        return NULL;
    }
    *opt = (kiln_optim){.kind = *kind, .lr = numbers->lr, .n_slots = MAX_SLOTS};
    while (opt->n_slots && !opt->kind.slots[opt->n_slots - 1]) opt->n_slots--;
    if (group_add(opt, params, n, numbers, NULL)) kiln_optim_free(&opt);
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
    for (size_t i = 0; i < o->n_groups; i++) {
        state_drop(o->groups[i]);
        kiln_schedule_free(&o->groups[i]->schedule);
        free(o->groups[i]);
    }
    for (size_t i = 0; i < WHOLE_MAX; i++) kiln_free(&o->whole[i]);
    kiln_schedule_free(&o->schedule);
    free(o->groups);
    handle_free(HANDLE_OPTIM, o);
}

// Groups of their own numbers

// Sets the number of this place, where the option is not left out and the kind has such a number.
static kiln_status choose(const kiln_optim *opt, struct optim_numbers *numbers, const char *name, size_t at, double v)
{
    if (v == 0) return KILN_OK;
    for (const struct optim_field *f = opt->kind.fields; f->name; f++) {
        if (f->at != at) continue;
        *(double *)((char *)numbers + at) = option_or(v, 0);
        return KILN_OK;
    }
    return error_set(KILN_E_ARGUMENT, "%s: group %zu: .%s is %g, and the optimiser has no such number", opt->kind.name,
                     opt->n_groups, name, v);
}
#define CHOOSE(member) choose(opt, numbers, #member, offsetof(struct optim_numbers, member), o->member)

static kiln_status choose_all(const kiln_optim *opt, const kiln_optim_group_opts *o, struct optim_numbers *numbers)
{
    if (o->lr != 0) numbers->lr = option_or(o->lr, 0);
    TRY(CHOOSE(weight_decay));
    TRY(CHOOSE(momentum));
    TRY(CHOOSE(beta1));
    TRY(CHOOSE(beta2));
    TRY(CHOOSE(eps));
    char at[48];
    snprintf(at, sizeof at, "group %zu: ", opt->n_groups);
    TRY(check_numbers(&opt->kind, at, numbers));
    double scale = option_or(o->lr_scale, 1);
    if (!is_rate(scale))
        return error_set(KILN_E_ARGUMENT, "%s: %s.lr_scale must be a number not below 0, got %g", opt->kind.name, at,
                         scale);
    if (numbers->momentum > 0 && opt->groups[0]->o.momentum == 0)
        return error_set(KILN_E_ARGUMENT,
                         "%s: %s.momentum is %g, and the optimiser was made without one and keeps no velocity",
                         opt->kind.name, at, o->momentum);
    return KILN_OK;
}

static kiln_status add_group(kiln_optim *opt, kiln_tensor *const *params, size_t n, const kiln_optim_group_opts *o)
{
    struct optim_numbers numbers = opt->groups[0]->o;
    struct optim_group *g;
    if (opt->kind.whole)
        return error_set(KILN_E_UNSUPPORTED, "%s: it moves all parameters as one vector, in one group", opt->kind.name);
    numbers.lr = opt->lr;
    TRY(state_check_params(&opt->kind, opt, params, n));
    TRY(choose_all(opt, o, &numbers));
    TRY(group_add(opt, params, n, &numbers, &g));
    g->own_rate = o->lr != 0 || o->schedule;
    g->scale = option_or(o->lr_scale, 1);
    g->schedule = o->schedule;
    return KILN_OK;
}

kiln_status kiln_optim_add_group(kiln_optim *opt, kiln_tensor *const *params, size_t n,
                                 const kiln_optim_group_opts *opts)
{
    kiln_optim_group_opts o;
    if (options_read("optim_add_group", KILN_OPTIM_GROUP, &o, opts)) return kiln_error();
    if (o.schedule && !schedule_take("optim_add_group", o.schedule)) return kiln_error();
    kiln_status status = check("optim_add_group", opt);
    if (!status) status = add_group(opt, params, n, &o);
    if (status)
        kiln_schedule_free(&o.schedule);
    else if (o.schedule)
        o.schedule->owned = true;
    return status;
}

size_t kiln_optim_groups(const kiln_optim *opt)
{
    return check("optim_groups", opt) ? 0 : opt->n_groups;
}

static struct optim_group *group_of(const char *function, const kiln_optim *opt, size_t group)
{
    if (check(function, opt)) return NULL;
    if (group < opt->n_groups) return opt->groups[group];
    error_set(KILN_E_ARGUMENT, "%s: group is %zu, and %s has %zu", function, group, opt->kind.name, opt->n_groups);
    return NULL;
}

double optim_group_rate(const struct optim_group *g)
{
    double base = !g->own_rate  ? kiln_optim_lr(g->opt)
                  : g->schedule ? kiln_schedule_lr(g->schedule, g->opt->steps)
                                : g->o.lr;
    return base * g->scale;
}

double kiln_optim_group_lr(const kiln_optim *opt, size_t group)
{
    const struct optim_group *g = group_of("optim_group_lr", opt, group);
    return g ? optim_group_rate(g) : NAN;
}

kiln_schedule *kiln_optim_schedule(const kiln_optim *opt, size_t group)
{
    const struct optim_group *g = group_of("optim_schedule", opt, group);
    if (!g) return NULL;
    return g->schedule || group > 0 ? g->schedule : opt->schedule;
}

kiln_status kiln_optim_set_group_lr(kiln_optim *opt, size_t group, double lr)
{
    struct optim_group *g = group_of("optim_set_group_lr", opt, group);
    if (!g) return kiln_error();
    if (!is_rate(lr)) return error_set(KILN_E_ARGUMENT, "optim_set_group_lr: the rate must not be below 0, got %g", lr);
    kiln_schedule_free(&g->schedule);
    g->o.lr = lr;
    g->own_rate = true;
    g->scale = 1;
    return KILN_OK;
}

// The numbers of a step. A captured step asks for them at each of its calls, in the order in which it asks at first.

static double advance(void *user)
{
    kiln_optim *opt = user;
    for (size_t i = 0; i < opt->n_groups; i++) opt->groups[i]->lr_now = optim_group_rate(opt->groups[i]);
    opt->steps++; // the formulas count from 1
    return opt->groups[0]->lr_now;
}

static double minus_rate(void *user)
{
    const struct optim_group *g = user;
    return -(g->opt->kind.rate ? g->opt->kind.rate(g) : g->lr_now);
}

static double eps_now(void *user)
{
    const struct optim_group *g = user;
    return g->opt->kind.eps ? g->opt->kind.eps(g) : g->o.eps;
}

static double decay_now(void *user)
{
    const struct optim_group *g = user;
    return 1 - g->lr_now * g->o.weight_decay;
}

static double more_now(void *user)
{
    const struct optim_group *g = user;
    return g->opt->kind.more(g);
}

kiln_status optim_begin_step(struct optim_group *g, struct optim_step *s)
{
    s->more = NULL;
    bool ok = (s->minus_rate = kiln_host_number(minus_rate, g)) && (s->eps = kiln_host_number(eps_now, g)) &&
              (s->decay = kiln_host_number(decay_now, g)) &&
              (!g->opt->kind.more || (s->more = kiln_host_number(more_now, g)));
    return ok ? KILN_OK : kiln_error();
}

static kiln_status step_group(struct optim_group *o, size_t *n_moved)
{
    struct optim_step s;
    TRY(optim_begin_step(o, &s));
    for (size_t i = 0; i < o->n; i++) {
        kiln_tensor *p = o->params[i], *g = kiln_gradient(p);
        if (!g) {
            TRY(kiln_error());
            continue;
        }
        ++*n_moved;
        kiln_scope *scope = kiln_scope_begin();
        kiln_status status = o->opt->kind.update(o, p, g, o->slots + i * o->opt->n_slots, &s);
        if (!status) status = kiln_error();
        kiln_scope_end(&scope);
        TRY(status);
    }
    return KILN_OK;
}

static kiln_status step_all(kiln_optim *opt)
{
    size_t n_moved = 0;
    if (!kiln_host_number(advance, opt)) return kiln_error();
    if (opt->kind.whole) {
        struct optim_step s;
        TRY(optim_begin_step(opt->groups[0], &s));
        return opt->kind.whole(opt, &s);
    }
    for (size_t i = 0; i < opt->n_groups; i++) TRY(step_group(opt->groups[i], &n_moved));
    if (!n_moved && !kiln_is_capturing())
        log_warn_here(
            "optim_step: none of the %zu parameters has a gradient, none has moved; is kiln_backward called before "
            "the step?",
            state_count_params(opt));
    return KILN_OK;
}

kiln_status kiln_optim_step(kiln_optim *opt)
{
    TRY(check("optim_step", opt));
    int64_t steps = opt->steps;
    kiln_scope *scope = kiln_scope_begin();
    if (!scope) return kiln_error();
    kiln_no_grad_begin();
    kiln_status status = step_all(opt);
    kiln_no_grad_end();
    kiln_scope_end(&scope);
    // What only recorded the step did not take it.
    if (status || kiln_is_capturing()) opt->steps = steps;
    return status;
}

static kiln_status step_after(kiln_optim *opt, kiln_closure_fn fn, void *user, double *loss)
{
    kiln_tensor *t = fn(user);
    TRY(kiln_error());
    if (!t) return error_set(KILN_E_ARGUMENT, "optim_step_closure: the closure gave no loss");
    if (loss) *loss = kiln_item(t);
    TRY(kiln_error());
    return kiln_optim_step(opt);
}

kiln_status kiln_optim_step_closure(kiln_optim *opt, kiln_closure_fn fn, void *user, double *loss)
{
    TRY(check("optim_step_closure", opt));
    if (!fn) return error_set(KILN_E_ARGUMENT, "optim_step_closure: fn is NULL");
    kiln_scope *scope = kiln_scope_begin();
    if (!scope) return kiln_error();
    kiln_status status = opt->kind.closure ? opt->kind.closure(opt, fn, user, loss) : step_after(opt, fn, user, loss);
    kiln_scope_end(&scope);
    return status;
}

kiln_status kiln_optim_zero_grad(kiln_optim *opt)
{
    TRY(check("optim_zero_grad", opt));
    for (size_t i = 0; i < opt->n_groups; i++)
        for (size_t k = 0; k < opt->groups[i]->n; k++) TRY(kiln_set_gradient(opt->groups[i]->params[k], NULL));
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
    bool again =
        schedule && opt && !handle_check("optim_set_schedule", "opt", HANDLE_OPTIM, opt) && opt->schedule == schedule;
    if (again) return kiln_error();
    if (schedule && !schedule_take("optim_set_schedule", schedule)) return kiln_error();
    if (check("optim_set_schedule", opt)) {
        kiln_schedule_free(&schedule);
        return kiln_error();
    }
    opt->lr = kiln_optim_lr(opt);
    kiln_schedule_free(&opt->schedule);
    opt->schedule = schedule;
    if (schedule) schedule->owned = true;
    return kiln_error();
}

int64_t kiln_optim_steps(const kiln_optim *opt)
{
    return check("optim_steps", opt) == KILN_OK ? opt->steps : 0;
}

kiln_status kiln_optim_set_steps(kiln_optim *opt, int64_t steps)
{
    TRY(check("optim_set_steps", opt));
    if (steps < 0)
        return error_set(KILN_E_ARGUMENT, "optim_set_steps: the number must not be below 0, got %" PRId64, steps);
    opt->steps = steps;
    return KILN_OK;
}

size_t kiln_optim_state(kiln_optim *opt, const char **names, kiln_tensor **tensors, size_t max)
{
    return check("optim_state", opt) ? 0 : state_list(opt, names, tensors, max);
}

kiln_status kiln_optim_report(kiln_optim *opt, double metric)
{
    TRY(check("optim_report", opt));
    if (opt->schedule) TRY(kiln_schedule_report(opt->schedule, metric));
    for (size_t i = 0; i < opt->n_groups; i++)
        if (opt->groups[i]->schedule) TRY(kiln_schedule_report(opt->groups[i]->schedule, metric));
    return KILN_OK;
}
