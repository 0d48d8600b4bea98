// What is logged, until it is a row. Tensors wait as copies, which are read together: a read waits for the device.
#include "train/training.h"
#include "base/dtype.h"
#include "base/text.h"

#include <kiln/grad.h>
#include <kiln/jit.h>
#include <kiln/ops.h>
#include <math.h>
#include <string.h>

kiln_status values_check_name(const char *function, const char *name)
{
    static const char *const taken[] = {"step", "epoch", "seconds"};
    char shown[4 * NAME_MAX_B + 8] = "";
    if (!name || !name[0]) return error_set(KILN_E_ARGUMENT, "%s: the name is %s", function, name ? "empty" : "NULL");
    if (strlen(name) > NAME_MAX_B)
        return error_set(KILN_E_ARGUMENT, "%s: the name is longer than %d bytes: \"%.20s...\"", function, NAME_MAX_B,
                         name);
    for (size_t i = 0; i < COUNT_OF(taken); i++)
        if (!strcmp(name, taken[i]))
            return error_set(KILN_E_ARGUMENT, "%s: \"%s\" is a column of every row", function, name);
    strcpy(shown, name);
    text_escape(shown, sizeof shown);
    if (!strcmp(shown, name)) return KILN_OK;
    return error_set(KILN_E_ARGUMENT, "%s: the name is no UTF-8, or holds control characters: \"%s\"", function, shown);
}

static kiln_status take(struct train_column *c, double value, double weight)
{
    c->sum += value * weight;
    c->weight += weight;
    c->epoch_sum += value * weight;
    c->epoch_weight += weight;
    return KILN_OK;
}

static kiln_status log_value(const char *function, kiln_training *t, const char *name, double value, double weight)
{
    TRY(training_begin(function, t));
    TRY(values_check_name(function, name));
    if (!(weight > 0 && weight < INFINITY))
        return error_set(KILN_E_ARGUMENT, "%s: the weight of \"%s\" is %g, it must be positive", function, name,
                         weight);
    struct train_column *c = history_column(&t->history, name);
    if (!c) return error_pending;
    TRY(values_settle(c));
    return take(c, value, weight);
}

kiln_status kiln_training_log(kiln_training *t, const char *name, double value)
{
    return log_value("training_log", t, name, value, 1);
}

kiln_status kiln_training_log_mean(kiln_training *t, const char *name, double mean, double weight)
{
    return log_value("training_log_mean", t, name, mean, weight);
}

// --- tensors

// n floats of one device, as one read.
static kiln_status read_floats(kiln_tensor *const *from, size_t n, float *to)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_no_grad_begin();
    kiln_tensor *all = kiln_stack(from, n, 0);
    kiln_status status = all ? kiln_read(all, to, n * sizeof *to) : error_pending;
    kiln_no_grad_end();
    kiln_scope_end(&scope);
    return status;
}

kiln_status values_settle(struct train_column *c)
{
    float floats[WAITING_MAX];
    size_t n = c->n_waiting;
    if (!n) return KILN_OK;
    bool together = n > 1 && kiln_tensor_dtype(c->waiting[0]) == KILN_F32;
    if (together) TRY(read_floats(c->waiting, n, floats));
    for (size_t i = 0; i < n; i++) {
        double value = together ? (double)floats[i] : kiln_item(c->waiting[i]);
        if (!error_pending) take(c, value, 1);
        kiln_free(&c->waiting[i]);
    }
    c->n_waiting = 0;
    return error_pending;
}

static kiln_status check_tensor(const char *name, kiln_tensor *x)
{
    static const char function[] = "training_log_tensor";
    if (!x) return error_set(KILN_E_ARGUMENT, "%s: the tensor of \"%s\" is NULL", function, name);
    int64_t n = kiln_numel(x);
    kiln_dtype dtype = kiln_tensor_dtype(x);
    if (error_pending) return error_pending;
    if (dtype >= KILN_C64)
        return error_set(KILN_E_DTYPE, "%s: \"%s\" is of %s, it must be a real number", function, name,
                         kiln_dtype_name(dtype));
    if (n != 1)
        return error_set(KILN_E_SHAPE, "%s: \"%s\" has %lld elements, it must have one", function, name, (long long)n);
    if (kiln_is_capturing())
        return error_set(KILN_E_STATE,
                         "%s: \"%s\" is not computed yet in a capture; log what the captured function "
                         "returns",
                         function, name);
    return KILN_OK;
}

// A copy outside of all scopes, and of what gradients need.
static kiln_tensor *copy_of(kiln_tensor *x)
{
    kiln_dtype dtype = kiln_tensor_dtype(x);
    bool whole = dtype != KILN_F32 && dtype != KILN_F64, half = dtype == KILN_F16 || dtype == KILN_BF16;
    kiln_scope *scope = kiln_scope_begin();
    kiln_no_grad_begin();
    if (dtype == KILN_BOOL || half) x = kiln_cast(x, half ? KILN_F32 : KILN_I32);
    kiln_tensor *one = whole && !half ? kiln_scalar_int(1) : kiln_scalar(1);
    kiln_tensor *copy = kiln_mul(kiln_reshape(x, KILN_SHAPE0), one);
    if (copy) kiln_own(copy);
    kiln_no_grad_end();
    kiln_scope_end(&scope);
    return copy;
}

kiln_status kiln_training_log_tensor(kiln_training *t, const char *name, kiln_tensor *x)
{
    TRY(training_begin("training_log_tensor", t));
    TRY(values_check_name("training_log_tensor", name));
    TRY(check_tensor(name, x));
    struct train_column *c = history_column(&t->history, name);
    if (!c) return error_pending;
    kiln_tensor *copy = copy_of(x);
    if (!copy) return error_pending;
    bool fits = !c->n_waiting || (kiln_tensor_dtype(c->waiting[0]) == kiln_tensor_dtype(copy) &&
                                  kiln_tensor_device(c->waiting[0]) == kiln_tensor_device(copy));
    if ((!fits || c->n_waiting == WAITING_MAX) && values_settle(c)) kiln_free(&copy);
    if (copy) c->waiting[c->n_waiting++] = copy;
    return error_pending;
}

// --- rows

// The last row, where it is of this step and in no file yet.
static bool can_join(const kiln_training *t)
{
    const struct train_history *h = &t->history;
    bool same = h->n_rows && h->steps[h->n_rows - 1] == t->counters.steps;
    for (size_t i = 0; i < RECORDS; i++) same = same && t->records[i].rows < h->n_rows;
    return same;
}

kiln_status values_fold(kiln_training *t)
{
    struct train_history *h = &t->history;
    bool any = false;
    for (size_t i = 0; i < h->n_columns; i++) {
        TRY(values_settle(&h->columns[i]));
        any = any || h->columns[i].weight > 0;
    }
    if (!any) return KILN_OK;
    if (!can_join(t))
        TRY(history_add_row(h, t->counters.steps, t->counters.epochs + t->counters.in_epoch, training_seconds(t)));
    for (size_t i = 0; i < h->n_columns; i++) {
        struct train_column *c = &h->columns[i];
        if (!(c->weight > 0)) continue;
        c->values[h->n_rows - 1] = c->sum / c->weight;
        c->has[h->n_rows - 1] = true;
        c->sum = c->weight = 0;
    }
    return stop_look(t);
}

void values_begin_epoch(kiln_training *t)
{
    for (size_t i = 0; i < t->history.n_columns; i++)
        t->history.columns[i].epoch_sum = t->history.columns[i].epoch_weight = 0;
}

bool values_last(const struct train_history *h, const struct train_column *c, double *value)
{
    for (size_t i = h->n_rows; i-- > 0;) {
        if (!c->has[i]) continue;
        *value = c->values[i];
        return true;
    }
    return false;
}

size_t kiln_training_history(const kiln_training *t, const char *name, int64_t *steps, double *values, size_t max)
{
    if (training_check("training_history", t)) return 0;
    if (!name) {
        error_set(KILN_E_ARGUMENT, "training_history: the name is NULL");
        return 0;
    }
    const struct train_history *h = &t->history;
    const struct train_column *c = history_find(h, name);
    size_t n = 0, skipped = 0;
    for (size_t i = 0; c && i < h->n_rows; i++) n += c->has[i];
    for (size_t i = 0, k = 0; c && i < h->n_rows; i++) {
        if (!c->has[i] || (n > max && skipped++ < n - max)) continue;
        if (steps) steps[k] = h->steps[i];
        if (values) values[k] = c->values[i];
        k++;
    }
    return n;
}
