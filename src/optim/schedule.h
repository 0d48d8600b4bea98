// A schedule, shared by the files of this folder.
#pragma once
#include "base/base.h"
#include <kiln/optim.h>

enum schedule_kind { CONSTANT, STEP, MULTI_STEP, EXPONENTIAL, COSINE, WARMUP, ONE_CYCLE, POLYNOMIAL, PLATEAU };

struct kiln_schedule {
    enum schedule_kind kind;
    double lr, gamma, min_lr; // ONE_CYCLE: the top, -, the last. POLYNOMIAL: the first, the power, the last
    double first;             // ONE_CYCLE
    double rise;              // ONE_CYCLE: the step of the top
    int64_t steps;            // period, total or warm-up
    size_t n;
    int64_t *milestones;
    kiln_schedule *after;
    bool owned; // by an optimiser or a warm-up, which frees it
    // PLATEAU, which alone has a state: lr falls, as metrics tell.
    struct schedule_plateau {
        double best, threshold;
        int64_t patience, cooldown;
        int64_t bad, cooling; // steps without progress, and still to wait
        bool rises, absolute;
    } plateau;
};

kiln_schedule *schedule_make(kiln_schedule init);
// With an error "schedule_<name>: <what>" where it does not fit.
__attribute__((format(printf, 3, 4))) bool schedule_check(const char *name, bool fits, const char *format, ...);
// Whether the caller may become the owner, whatever else is pending; else an error.
bool schedule_take(const char *function, kiln_schedule *schedule);
bool schedule_is_rate(double lr);
