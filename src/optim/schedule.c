// Learning rates as functions of the step. A schedule is a kind and its numbers, and never changes; plateau.c holds
// the one that does.
#include "base/handles.h"
#include "base/options.h"
#include "optim/schedule.h"

#include <inttypes.h>
#include <kiln/optim.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool schedule_check(const char *name, bool fits, const char *format, ...)
{
    char what[160];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    if (!kiln_error() && !fits) error_set(KILN_E_ARGUMENT, "schedule_%s: %s", name, what);
    return !kiln_error();
}

bool schedule_take(const char *function, kiln_schedule *schedule)
{
    if (handle_check(function, "schedule", HANDLE_SCHEDULE, schedule)) return false;
    if (!schedule->owned) return true;
    error_set(KILN_E_ARGUMENT, "%s: the schedule already belongs to an optimiser or a warm-up; make another one",
              function);
    return false;
}

bool schedule_is_rate(double lr)
{
    return lr >= 0 && isfinite(lr);
}

kiln_schedule *schedule_make(kiln_schedule init)
{
    kiln_schedule *s = handle_new(HANDLE_SCHEDULE, sizeof *s);
    if (s)
        *s = init;
    else
        error_set(KILN_E_MEMORY, "schedule: host memory is exhausted");
    return s;
}

void kiln_schedule_free(kiln_schedule **schedule)
{
    if (!handle_may_free("schedule_free", HANDLE_SCHEDULE, schedule)) return;
    for (kiln_schedule *s = *schedule, *after; s; s = after) { // chains may be long
        after = s->after;
        free(s->milestones);
        handle_free(HANDLE_SCHEDULE, s);
    }
    *schedule = NULL;
}

kiln_schedule *kiln_schedule_constant(double lr)
{
    if (!schedule_check("constant", schedule_is_rate(lr), "the rate must be a number not below 0, got %g", lr))
        return NULL;
    return schedule_make((kiln_schedule){.kind = CONSTANT, .lr = lr});
}

kiln_schedule *kiln_schedule_step(double lr, int64_t period, double gamma)
{
    if (!schedule_check("step", schedule_is_rate(lr) && schedule_is_rate(gamma),
                        "rate and gamma must be numbers not below 0, got %g and %g", lr, gamma) ||
        !schedule_check("step", period > 0, "the period must be positive, got %" PRId64, period))
        return NULL;
    return schedule_make((kiln_schedule){.kind = STEP, .lr = lr, .steps = period, .gamma = gamma});
}

kiln_schedule *kiln_schedule_multi_step(double lr, size_t n, const int64_t *milestones, double gamma)
{
    if (!schedule_check("multi_step", schedule_is_rate(lr) && schedule_is_rate(gamma),
                        "rate and gamma must be numbers not below 0, got %g and %g", lr, gamma) ||
        !schedule_check("multi_step", !n || milestones, "milestones is NULL"))
        return NULL;
    for (size_t i = 1; i < n; i++)
        if (!schedule_check("multi_step", milestones[i - 1] < milestones[i],
                            "the milestones must ascend, got %" PRId64 " before %" PRId64, milestones[i - 1],
                            milestones[i]))
            return NULL;
    kiln_schedule *s = schedule_make((kiln_schedule){.kind = MULTI_STEP, .lr = lr, .gamma = gamma, .n = n});
    if (!s || !n) return s;
    s->milestones = malloc(n * sizeof *milestones);
    if (s->milestones)
        memcpy(s->milestones, milestones, n * sizeof *milestones);
    else
        kiln_schedule_free(&s);
    if (!s) error_set(KILN_E_MEMORY, "schedule_multi_step: host memory is exhausted");
    return s;
}

kiln_schedule *kiln_schedule_exponential(double lr, double gamma)
{
    if (!schedule_check("exponential", schedule_is_rate(lr) && schedule_is_rate(gamma),
                        "rate and gamma must be numbers not below 0, got %g and %g", lr, gamma))
        return NULL;
    return schedule_make((kiln_schedule){.kind = EXPONENTIAL, .lr = lr, .gamma = gamma});
}

kiln_schedule *kiln_schedule_cosine(double lr, double min_lr, int64_t total)
{
    if (!schedule_check("cosine", schedule_is_rate(lr) && schedule_is_rate(min_lr) && min_lr <= lr,
                        "the rates must be 0 <= min_lr <= lr, got %g and %g", min_lr, lr) ||
        !schedule_check("cosine", total > 0, "the number of steps must be positive, got %" PRId64, total))
        return NULL;
    return schedule_make((kiln_schedule){.kind = COSINE, .lr = lr, .min_lr = min_lr, .steps = total});
}

kiln_schedule *kiln_schedule_polynomial(double lr, double end_lr, int64_t total, double power)
{
    if (!schedule_check("polynomial", schedule_is_rate(lr) && schedule_is_rate(end_lr),
                        "the rates must be numbers not below 0, got %g and %g", lr, end_lr) ||
        !schedule_check("polynomial", total > 0, "the number of steps must be positive, got %" PRId64, total) ||
        !schedule_check("polynomial", power > 0 && isfinite(power), "the power must be positive, got %g", power))
        return NULL;
    return schedule_make(
        (kiln_schedule){.kind = POLYNOMIAL, .lr = lr, .min_lr = end_lr, .steps = total, .gamma = power});
}

kiln_schedule *kiln_schedule_linear(double lr, double end_lr, int64_t total)
{
    if (!schedule_check("linear", schedule_is_rate(lr) && schedule_is_rate(end_lr),
                        "the rates must be numbers not below 0, got %g and %g", lr, end_lr) ||
        !schedule_check("linear", total > 0, "the number of steps must be positive, got %" PRId64, total))
        return NULL;
    return schedule_make((kiln_schedule){.kind = POLYNOMIAL, .lr = lr, .min_lr = end_lr, .steps = total, .gamma = 1});
}

kiln_schedule *kiln_schedule_warmup(int64_t warmup, kiln_schedule *after)
{
    kiln_schedule *s = NULL;
    if (after && !schedule_take("schedule_warmup", after)) return NULL;
    if (schedule_check("warmup", after, "the schedule to go on with is NULL") &&
        schedule_check("warmup", warmup >= 0, "the steps must not be below 0, got %" PRId64, warmup))
        s = schedule_make((kiln_schedule){.kind = WARMUP, .steps = warmup, .after = after});
    if (s)
        after->owned = true;
    else
        kiln_schedule_free(&after);
    return s;
}

kiln_schedule *kiln_schedule_one_cycle(double max_lr, int64_t total, const kiln_one_cycle_opts *opts)
{
    kiln_one_cycle_opts o;
    if (options_read("schedule_one_cycle", KILN_ONE_CYCLE, &o, opts)) return NULL;
    double part = o.pct_start == 0 ? 0.3 : o.pct_start, div = o.div_factor == 0 ? 25 : o.div_factor;
    double final_div = o.final_div_factor == 0 ? 1e4 : o.final_div_factor;
    if (!schedule_check("one_cycle", schedule_is_rate(max_lr), "the rate must be a number not below 0, got %g",
                        max_lr) ||
        !schedule_check("one_cycle", total > 1, "the number of steps must be above 1, got %" PRId64, total) ||
        !schedule_check("one_cycle", part > 0 && part < 1 && div > 0 && final_div > 0,
                        ".pct_start must be in (0, 1), the factors positive, got %g, %g and %g", part, div, final_div))
        return NULL;
    double first = max_lr / div, rise = fmax(part * (double)total - 1, 0);
    return schedule_make((kiln_schedule){
        .kind = ONE_CYCLE, .lr = max_lr, .min_lr = first / final_div, .first = first, .rise = rise, .steps = total});
}

// From a to b along half a cosine; part in [0, 1].
static double along_cosine(double a, double b, double part)
{
    const double pi = 3.14159265358979323846;
    return b + (a - b) * 0.5 * (1 + cos(pi * part));
}

// Goes through the warm-ups in front of a schedule: what is left of the rate, and the step from there.
static const kiln_schedule *past_warmups(const kiln_schedule *s, int64_t *step, double *part)
{
    for (*part = 1; s->kind == WARMUP; s = s->after) {
        if (*step >= s->steps) {
            *step -= s->steps;
        } else {
            *part *= (double)(*step + 1) / (double)(s->steps + 1);
            *step = 0;
        }
    }
    return s;
}

static double rate(const kiln_schedule *s, int64_t step)
{
    switch (s->kind) {
    case CONSTANT: return s->lr;
    case STEP: return s->lr * pow(s->gamma, (double)(step / s->steps));
    case MULTI_STEP: {
        size_t passed = 0;
        while (passed < s->n && s->milestones[passed] <= step) passed++;
        return s->lr * pow(s->gamma, (double)passed);
    }
    case EXPONENTIAL: return s->lr * pow(s->gamma, (double)step);
    case COSINE: return step >= s->steps ? s->min_lr : along_cosine(s->lr, s->min_lr, (double)step / (double)s->steps);
    case POLYNOMIAL: {
        double left = step >= s->steps ? 0 : 1 - (double)step / (double)s->steps;
        return s->min_lr + (s->lr - s->min_lr) * pow(left, s->gamma);
    }
    case PLATEAU: return s->lr;
    case WARMUP: break; // past_warmups
    case ONE_CYCLE: {
        double at = fmin((double)step, (double)(s->steps - 1)), last = (double)(s->steps - 1);
        if (at < s->rise) return along_cosine(s->first, s->lr, at / s->rise);
        return last > s->rise ? along_cosine(s->lr, s->min_lr, (at - s->rise) / (last - s->rise)) : s->min_lr;
    }
    }
    return NAN;
}

double kiln_schedule_lr(const kiln_schedule *schedule, int64_t step)
{
    if (kiln_error() || handle_check("schedule_lr", "schedule", HANDLE_SCHEDULE, schedule)) return NAN;
    if (step < 0) {
        error_set(KILN_E_ARGUMENT, "schedule_lr: the step must not be below 0, got %" PRId64, step);
        return NAN;
    }
    double part;
    const kiln_schedule *s = past_warmups(schedule, &step, &part);
    return rate(s, step) * part;
}
