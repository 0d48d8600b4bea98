// Where the loop stands: steps and epochs, and what is due at their ends.
#include "train/training.h"
#include "base/clock.h"

// Curves are drawn at ends, and while it takes so long to get there.
#define CURVES_NS 30000000000u

double training_seconds(const kiln_training *t)
{
    return t->counters.seconds + 1e-9 * (double)(clock_now_ns() - t->begun_ns);
}

int64_t training_total(const kiln_training *t)
{
    return t->total;
}

// Where it is not said: epochs of the loader, if there is one.
static void count_steps(kiln_training *t)
{
    int64_t batches = kept_batches(t);
    t->total = t->opts.steps ? t->opts.steps : batches * t->opts.epochs;
    t->progress.every = t->opts.print_every ? t->opts.print_every : t->total ? (t->total + 19) / 20 : 100;
}

kiln_status training_begin(const char *function, kiln_training *t)
{
    TRY(training_check(function, t));
    if (t->begun) return KILN_OK;
    if (t->opts.resume && t->path) TRY(checkpoint_resume(t));
    count_steps(t);
    if (error_pending) return error_pending;
    t->begun = true;
    t->begun_ns = t->epoch_ns = clock_now_ns();
    return KILN_OK;
}

static bool steps_left(const kiln_training *t)
{
    return !t->stopped && !stop_is_due(t) && (t->opts.steps == 0 || t->counters.steps < t->opts.steps);
}

// --- ends

// A training that has not moved since is saved already.
static kiln_status save(kiln_training *t)
{
    if (t->saved_step == t->counters.steps && t->saved_epochs == t->counters.epochs) return KILN_OK;
    return checkpoint_write(t);
}

static kiln_status end_epoch(kiln_training *t)
{
    TRY(values_fold(t));
    t->counters.epochs++;
    t->counters.in_epoch = false;
    TRY(records_write(t));
    TRY(curves_write(t));
    progress_epoch(t);
    int64_t every = t->opts.checkpoint_epochs;
    return t->path && every > 0 && t->counters.epochs % every == 0 ? save(t) : KILN_OK;
}

// Once the loop is told that nothing is left.
static kiln_status end(kiln_training *t)
{
    if (t->ended) return KILN_OK;
    TRY(values_fold(t));
    TRY(records_write(t));
    TRY(curves_write(t));
    if (t->path && (t->opts.checkpoint_every > 0 || t->opts.checkpoint_epochs > 0)) TRY(save(t));
    progress_end(t);
    if (stop_is_due(t)) progress_stopped(t);
    if (t->monitor && !t->told && !t->counters.has_best)
        log_warn("training: nothing was logged by the name \"%s\", which .monitor watches", t->monitor);
    t->ended = true;
    return KILN_OK;
}

// --- the loop

static kiln_status begin_epoch(kiln_training *t, bool *more)
{
    bool went_on = t->went_on;
    t->went_on = false;
    if (t->counters.in_epoch && !went_on) TRY(end_epoch(t));
    *more = went_on || (steps_left(t) && (t->opts.epochs == 0 || t->counters.epochs < t->opts.epochs));
    if (!*more) return end(t);
    t->epoch_ns = clock_now_ns();
    if (went_on) return KILN_OK;
    t->counters.in_epoch = true;
    t->counters.epoch_steps = 0;
    values_begin_epoch(t);
    return KILN_OK;
}

bool kiln_training_epoch(kiln_training *t)
{
    bool more = false;
    return !training_begin("training_epoch", t) && !begin_epoch(t, &more) && more;
}

bool kiln_training_goes_on(kiln_training *t)
{
    if (training_begin("training_goes_on", t)) return false;
    if (steps_left(t)) return true;
    if (!t->counters.in_epoch) (void)end(t);
    return false;
}

kiln_status kiln_training_step(kiln_training *t)
{
    TRY(training_begin("training_step", t));
    TRY(records_write(t));
    t->counters.steps++;
    t->counters.epoch_steps++;
    int64_t steps = t->counters.steps, every = t->opts.checkpoint_every;
    if (steps % t->opts.log_every == 0 || steps == t->opts.steps) TRY(values_fold(t));
    progress_step(t);
    if (t->path && every > 0 && steps % every == 0) TRY(save(t));
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
    return training_check("training_steps", t) ? 0 : t->counters.steps;
}

int64_t kiln_training_epochs(const kiln_training *t)
{
    return training_check("training_epochs", t) ? 0 : t->counters.epochs;
}
