// Where the loop stands: steps and epochs, and what is due at their ends.
#include "train/training.h"
#include "base/clock.h"

// Curves are drawn at ends, and while it takes so long to get there.
#define CURVES_NS 30000000000u

double training_seconds(const kiln_training *t)
{
    return t->earlier_s + 1e-9 * (double)(clock_now_ns() - t->begun_ns);
}

int64_t training_total(const kiln_training *t)
{
    return t->opts.steps;
}

static bool steps_left(const kiln_training *t)
{
    return !t->stopped && (t->opts.steps == 0 || t->steps < t->opts.steps);
}

static kiln_status end_epoch(kiln_training *t)
{
    TRY(values_fold(t));
    t->epochs++;
    t->in_epoch = false;
    TRY(records_write(t));
    TRY(curves_write(t));
    progress_epoch(t);
    return KILN_OK;
}

static bool begin_epoch(kiln_training *t)
{
    if (t->in_epoch && end_epoch(t)) return false;
    if (!steps_left(t) || (t->opts.epochs && t->epochs >= t->opts.epochs)) {
        progress_end(t);
        return false;
    }
    t->in_epoch = true;
    t->epoch_steps = 0;
    t->epoch_ns = clock_now_ns();
    values_begin_epoch(t);
    return true;
}

bool kiln_training_epoch(kiln_training *t)
{
    return !training_check("training_epoch", t) && begin_epoch(t);
}

bool kiln_training_goes_on(kiln_training *t)
{
    if (training_check("training_goes_on", t)) return false;
    if (steps_left(t)) return true;
    if (!t->in_epoch && !values_fold(t) && !records_write(t) && !curves_write(t)) progress_end(t);
    return false;
}

kiln_status kiln_training_step(kiln_training *t)
{
    TRY(training_check("training_step", t));
    TRY(records_write(t));
    t->steps++;
    t->epoch_steps++;
    if (t->steps % t->opts.log_every == 0 || t->steps == t->opts.steps) TRY(values_fold(t));
    progress_step(t);
    if (clock_now_ns() - t->curves_ns > CURVES_NS) TRY(curves_write(t));
    return KILN_OK;
}

kiln_status kiln_training_stop(kiln_training *t)
{
    TRY(training_check("training_stop", t));
    t->stopped = true;
    return KILN_OK;
}

int64_t kiln_training_steps(const kiln_training *t)
{
    return training_check("training_steps", t) ? 0 : t->steps;
}

int64_t kiln_training_epochs(const kiln_training *t)
{
    return training_check("training_epochs", t) ? 0 : t->epochs;
}
