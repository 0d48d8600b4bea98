// Learning rates as functions of the step. A schedule is a kind and its numbers, and never changes.
#include "base/handles.h"
#include "base/options.h"

#include <inttypes.h>
#include <kiln/optim.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum schedule_kind { CONSTANT, STEP, MULTI_STEP, EXPONENTIAL, COSINE, WARMUP, ONE_CYCLE };

struct kiln_schedule {
    enum schedule_kind kind;
    double lr, gamma, min_lr; // ONE_CYCLE: the top, -, the last
    double first;             // ONE_CYCLE
    double rise;              // ONE_CYCLE: the step of the top
    int64_t steps;            // period, total or warm-up
    size_t n;
    int64_t *milestones;
    kiln_schedule *after;
};

static bool check(const char *name, bool fits, const char *what)
{
    if (!kiln_error() && !fits) error_set(KILN_E_ARGUMENT, "schedule_%s: %s", name, what);
    return !kiln_error();
}

static bool is_rate(double lr)
{
    return lr >= 0 && isfinite(lr);
}

static kiln_schedule *make(kiln_schedule init)
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
    if (!check("constant", is_rate(lr), "the rate must be a number not below 0")) return NULL;
    return make((kiln_schedule){.kind = CONSTANT, .lr = lr});
}

kiln_schedule *kiln_schedule_step(double lr, int64_t period, double gamma)
{
    if (!check("step", is_rate(lr) && is_rate(gamma), "rate and gamma must be numbers not below 0") ||
        !check("step", period > 0, "the period must be positive"))
        return NULL;
    return make((kiln_schedule){.kind = STEP, .lr = lr, .steps = period, .gamma = gamma});
}

kiln_schedule *kiln_schedule_multi_step(double lr, size_t n, const int64_t *milestones, double gamma)
{
    if (!check("multi_step", is_rate(lr) && is_rate(gamma), "rate and gamma must be numbers not below 0") ||
        !check("multi_step", !n || milestones, "milestones is NULL"))
        return NULL;
    for (size_t i = 1; i < n; i++)
        if (!check("multi_step", milestones[i - 1] < milestones[i], "the milestones must ascend")) return NULL;
    kiln_schedule *s = make((kiln_schedule){.kind = MULTI_STEP, .lr = lr, .gamma = gamma, .n = n});
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
    if (!check("exponential", is_rate(lr) && is_rate(gamma), "rate and gamma must be numbers not below 0")) return NULL;
    return make((kiln_schedule){.kind = EXPONENTIAL, .lr = lr, .gamma = gamma});
}

kiln_schedule *kiln_schedule_cosine(double lr, double min_lr, int64_t total)
{
    if (!check("cosine", is_rate(lr) && is_rate(min_lr) && min_lr <= lr, "the rates must be 0 <= min_lr <= lr") ||
        !check("cosine", total > 0, "the number of steps must be positive"))
        return NULL;
    return make((kiln_schedule){.kind = COSINE, .lr = lr, .min_lr = min_lr, .steps = total});
}

kiln_schedule *kiln_schedule_warmup(int64_t warmup, kiln_schedule *after)
{
    kiln_schedule *s = NULL;
    if (after && handle_check("schedule_warmup", "after", HANDLE_SCHEDULE, after)) return NULL;
    if (check("warmup", after, "the schedule to go on with is NULL") &&
        check("warmup", warmup >= 0, "the steps must not be below 0"))
        s = make((kiln_schedule){.kind = WARMUP, .steps = warmup, .after = after});
    if (!s) kiln_schedule_free(&after);
    return s;
}

kiln_schedule *kiln_schedule_one_cycle(double max_lr, int64_t total, const kiln_one_cycle_opts *opts)
{
    kiln_one_cycle_opts o;
    if (options_read("schedule_one_cycle", KILN_ONE_CYCLE, &o, opts)) return NULL;
    double part = o.pct_start == 0 ? 0.3 : o.pct_start, div = o.div_factor == 0 ? 25 : o.div_factor;
    double final_div = o.final_div_factor == 0 ? 1e4 : o.final_div_factor;
    if (!check("one_cycle", is_rate(max_lr), "the rate must be a number not below 0") ||
        !check("one_cycle", total > 1, "the number of steps must be above 1") ||
        !check("one_cycle", part > 0 && part < 1 && div > 0 && final_div > 0,
               ".pct_start must be in (0, 1), the factors positive"))
        return NULL;
    double first = max_lr / div, rise = fmax(part * (double)total - 1, 0);
    return make((kiln_schedule){
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
        error_set(KILN_E_ARGUMENT, "schedule_lr: the step must not be below 0");
        return NAN;
    }
    double part;
    const kiln_schedule *s = past_warmups(schedule, &step, &part);
    return rate(s, step) * part;
}
