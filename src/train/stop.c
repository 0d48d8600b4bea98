// The best value so far, and when to stop without a better one.
#include "train/training.h"

#include <math.h>
#include <string.h>

// Whether the newest row has the name that is watched.
static bool is_told(const kiln_training *t, double *value)
{
    const struct train_history *h = &t->history;
    const struct train_column *c = t->monitor && h->n_rows ? history_find(h, t->monitor) : NULL;
    if (!c || !c->has[h->n_rows - 1]) return false;
    *value = c->values[h->n_rows - 1];
    return true;
}

static bool is_better(const kiln_training *t, double value)
{
    const struct train_counters *n = &t->counters;
    if (isnan(value)) return false;
    if (!n->has_best) return true;
    return t->more_is_better ? value > n->best + t->opts.min_delta : value < n->best - t->opts.min_delta;
}

kiln_status stop_look(kiln_training *t)
{
    struct train_counters *n = &t->counters;
    double value;
    if (!is_told(t, &value)) return KILN_OK;
    t->told = true;
    if (is_better(t, value)) {
        n->best = value;
        n->best_step = n->steps;
        n->has_best = true;
        n->bad = 0;
        return t->opts.keep_best && t->path ? checkpoint_write_best(t) : KILN_OK;
    }
    n->bad++;
    return KILN_OK;
}

bool stop_is_due(const kiln_training *t)
{
    return t->opts.patience > 0 && t->counters.bad >= t->opts.patience;
}

bool kiln_training_best(const kiln_training *t, double *value, int64_t *step)
{
    if (training_check("training_best", t) || !t->counters.has_best) return false;
    if (value) *value = t->counters.best;
    if (step) *step = t->counters.best_step;
    return true;
}
