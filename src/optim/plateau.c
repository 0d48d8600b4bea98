// The schedule that falls where a metric no longer gets better.
#include "base/handles.h"
#include "base/options.h"
#include "optim/schedule.h"

#include <inttypes.h>
#include <math.h>

enum { STATE = 4 }; // rate, best, steps without progress, steps to wait

kiln_schedule *kiln_schedule_plateau(double lr, const kiln_plateau_opts *opts)
{
    kiln_plateau_opts o;
    if (options_read("schedule_plateau", KILN_PLATEAU, &o, opts)) return NULL;
    double factor = o.factor == 0 ? 0.1 : o.factor, threshold = option_or(o.threshold, 1e-4);
    if (!schedule_check("plateau", schedule_is_rate(lr) && schedule_is_rate(o.min_lr),
                        "the rates must be numbers not below 0, got %g and .min_lr %g", lr, o.min_lr) ||
        !schedule_check("plateau", factor > 0 && factor < 1, ".factor must be in (0, 1), got %g", factor) ||
        !schedule_check("plateau", schedule_is_rate(threshold), ".threshold must be a number not below 0, got %g",
                        threshold) ||
        !schedule_check("plateau", o.patience >= -1 && o.cooldown >= 0,
                        ".patience must not be below -1, .cooldown not below 0, got %" PRId64 " and %" PRId64,
                        o.patience, o.cooldown))
        return NULL;
    kiln_schedule init = {.kind = PLATEAU, .lr = lr, .gamma = factor, .min_lr = o.min_lr};
    init.plateau = (struct schedule_plateau){.best = o.rises ? -INFINITY : INFINITY,
                                             .threshold = threshold,
                                             .patience = o.patience == 0    ? 10
                                                         : o.patience == -1 ? 0
                                                                            : o.patience,
                                             .cooldown = o.cooldown,
                                             .rises = o.rises,
                                             .absolute = o.absolute};
    return schedule_make(init);
}

static bool is_better(const struct schedule_plateau *p, double metric)
{
    if (isinf(p->best)) return p->rises ? metric > p->best : metric < p->best;
    double gain = p->absolute ? p->threshold : p->threshold * fabs(p->best);
    return p->rises ? metric > p->best + gain : metric < p->best - gain;
}

// What a schedule ends in, behind its warm-ups.
static kiln_schedule *last_of(kiln_schedule *s)
{
    while (s->kind == WARMUP) s = s->after;
    return s;
}

static kiln_status check(const char *function, const kiln_schedule *s)
{
    return kiln_error() ? kiln_error() : handle_check(function, "schedule", HANDLE_SCHEDULE, s);
}

kiln_status kiln_schedule_report(kiln_schedule *schedule, double metric)
{
    TRY(check("schedule_report", schedule));
    kiln_schedule *s = last_of(schedule);
    struct schedule_plateau *p = &s->plateau;
    if (s->kind != PLATEAU) return KILN_OK;
    bool better = is_better(p, metric);
    if (better) p->best = metric;
    p->bad = better ? 0 : p->bad + 1;
    if (p->cooling > 0) {
        p->cooling--;
        p->bad = 0;
    }
    if (p->bad <= p->patience) return KILN_OK;
    s->lr = fmin(s->lr, fmax(s->lr * s->gamma, s->min_lr));
    p->cooling = p->cooldown;
    p->bad = 0;
    return KILN_OK;
}

size_t kiln_schedule_state(const kiln_schedule *schedule, double *values, size_t max)
{
    if (check("schedule_state", schedule)) return 0;
    const kiln_schedule *s = last_of((kiln_schedule *)schedule);
    if (s->kind != PLATEAU) return 0;
    const double now[STATE] = {s->lr, s->plateau.best, (double)s->plateau.bad, (double)s->plateau.cooling};
    for (size_t i = 0; values && i < STATE && i < max; i++) values[i] = now[i];
    return STATE;
}

kiln_status kiln_schedule_set_state(kiln_schedule *schedule, const double *values, size_t n)
{
    TRY(check("schedule_set_state", schedule));
    kiln_schedule *s = last_of(schedule);
    size_t want = s->kind == PLATEAU ? STATE : 0;
    if (n && !values) return error_set(KILN_E_ARGUMENT, "schedule_set_state: values is NULL, n is %zu", n);
    if (n != want)
        return error_set(KILN_E_ARGUMENT, "schedule_set_state: the state has %zu numbers, %zu are given", want,
                         values ? n : 0);
    if (!n) return KILN_OK;
    if (!schedule_is_rate(values[0]) || isnan(values[1]) || !(values[2] >= 0 && values[2] < 0x1p53) ||
        !(values[3] >= 0 && values[3] < 0x1p53))
        return error_set(KILN_E_ARGUMENT, "schedule_set_state: %g, %g, %g, %g is no state of a plateau", values[0],
                         values[1], values[2], values[3]);
    s->lr = values[0];
    s->plateau.best = values[1];
    s->plateau.bad = (int64_t)values[2];
    s->plateau.cooling = (int64_t)values[3];
    return KILN_OK;
}
