// Checkpoints of a training: when they are saved, which are kept, and the one that a training goes on from. What was
// logged is among what they hold, so that logs go on without a row missing or twice.
#include "train/kept.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <kiln/grad.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILE_B = 32 };
static const char best_file[] = "best.ckpt";

static void name_of(char name[FILE_B], int64_t step)
{
    snprintf(name, FILE_B, "step-%08" PRId64 ".ckpt", step);
}

// --- files of a folder

static int64_t step_of(const char *name)
{
    int64_t step = -1;
    int end = 0;
    bool fits = sscanf(name, "step-%" SCNd64 ".ckpt%n", &step, &end) == 1 && end > 0 && !name[end];
    return fits ? step : -1;
}

static int newest_first(const void *a, const void *b)
{
    int64_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return x < y ? 1 : x > y ? -1 : 0;
}

// The steps of which there are checkpoints, to be freed, from the newest on.
static size_t steps_in(const char *folder, int64_t **out)
{
    DIR *dir = opendir(folder);
    size_t n = 0;
    *out = NULL;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        int64_t step = step_of(e->d_name), *grown = step < 0 ? NULL : realloc(*out, (n + 1) * sizeof *grown);
        if (!grown) continue;
        *out = grown;
        (*out)[n++] = step;
    }
    if (dir) closedir(dir);
    if (n) qsort(*out, n, sizeof **out, newest_first);
    return n;
}

bool checkpoint_any(const char *folder)
{
    int64_t *steps;
    size_t n = steps_in(folder, &steps);
    free(steps);
    return n > 0;
}

// All but the `keep` newest; those of later steps than this one's, which could not be read, count for nothing.
static kiln_status prune(kiln_training *t, int64_t keep)
{
    int64_t *steps;
    size_t n = steps_in(t->path, &steps);
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < n && !status; i++) {
        char name[FILE_B];
        if (steps[i] > t->counters.steps || keep-- > 0) continue;
        name_of(name, steps[i]);
        int failed = file_remove(t->path, name);
        if (failed) status = training_complain(t, name, "cannot be removed", failed);
    }
    free(steps);
    return status;
}

kiln_status checkpoint_remove_all(kiln_training *t)
{
    int failed = file_remove(t->path, best_file);
    if (failed) TRY(training_complain(t, best_file, "cannot be removed", failed));
    t->counters.steps = INT64_MAX;
    kiln_status status = prune(t, 0);
    t->counters.steps = 0;
    return status;
}

// --- the training's own numbers, and what was logged

static kiln_device *device_of(const struct kept_tensors *list)
{
    return list->n ? kiln_tensor_device(list->tensors[0]) : kiln_get_device();
}

static kiln_status put_array(kiln_checkpoint *c, kiln_device *dev, const char *name, kiln_dtype dtype, size_t rows,
                             size_t columns, const void *data)
{
    const int64_t dims[] = {(int64_t)rows, (int64_t)columns};
    if (!rows || !columns) return KILN_OK;
    kiln_tensor *x = kiln_from_data(dev, dtype, 2, dims, data);
    kiln_status status = x ? kiln_checkpoint_put(c, &name, &x, 1) : error_pending;
    kiln_free(&x);
    return status;
}

static kiln_status get_array(const kiln_checkpoint *c, kiln_device *dev, const char *name, size_t rows, size_t columns,
                             size_t item_B, void *data)
{
    if (!rows || !columns) return KILN_OK;
    kiln_tensor *x = kiln_checkpoint_get(c, dev, name);
    kiln_status status = x ? kiln_read(x, data, rows * columns * item_B) : error_pending;
    kiln_free(&x);
    return status;
}

// A column: its values, whether rows have them, and what waits for the next row.
static kiln_status put_column(kiln_checkpoint *c, kiln_device *dev, const struct train_column *column, size_t i,
                              size_t rows)
{
    char name[64];
    const double waiting[] = {column->sum, column->weight, column->epoch_sum, column->epoch_weight};
    snprintf(name, sizeof name, "training.column%zu", i);
    TRY(kiln_checkpoint_put_string(c, name, column->name));
    snprintf(name, sizeof name, "training.values%zu", i);
    TRY(put_array(c, dev, name, KILN_F64, rows, 1, column->values));
    snprintf(name, sizeof name, "training.has%zu", i);
    TRY(put_array(c, dev, name, KILN_BOOL, rows, 1, column->has));
    snprintf(name, sizeof name, "training.waiting%zu", i);
    return put_array(c, dev, name, KILN_F64, COUNT_OF(waiting), 1, waiting);
}

static kiln_status get_column(const kiln_checkpoint *c, kiln_device *dev, struct train_history *h, size_t i)
{
    char name[64];
    double waiting[4];
    snprintf(name, sizeof name, "training.column%zu", i);
    const char *text = kiln_checkpoint_get_string(c, name);
    if (!text || values_check_name("training", text)) return error_pending;
    struct train_column *column = history_column(h, text);
    if (!column) return error_pending;
    snprintf(name, sizeof name, "training.values%zu", i);
    TRY(get_array(c, dev, name, h->n_rows, 1, sizeof *column->values, column->values));
    snprintf(name, sizeof name, "training.has%zu", i);
    TRY(get_array(c, dev, name, h->n_rows, 1, sizeof *column->has, column->has));
    snprintf(name, sizeof name, "training.waiting%zu", i);
    TRY(get_array(c, dev, name, COUNT_OF(waiting), 1, sizeof *waiting, waiting));
    column->sum = waiting[0];
    column->weight = waiting[1];
    column->epoch_sum = waiting[2];
    column->epoch_weight = waiting[3];
    return KILN_OK;
}

static kiln_status put_history(kiln_training *t, kiln_checkpoint *c, kiln_device *dev)
{
    struct train_history *h = &t->history;
    TRY(kiln_checkpoint_put_int(c, "training.rows", (int64_t)h->n_rows));
    TRY(kiln_checkpoint_put_int(c, "training.columns", (int64_t)h->n_columns));
    TRY(put_array(c, dev, "training.row_steps", KILN_I64, h->n_rows, 1, h->steps));
    TRY(put_array(c, dev, "training.row_epochs", KILN_I64, h->n_rows, 1, h->epochs));
    TRY(put_array(c, dev, "training.row_seconds", KILN_F64, h->n_rows, 1, h->seconds));
    for (size_t i = 0; i < h->n_columns; i++) {
        TRY(values_settle(&h->columns[i]));
        TRY(put_column(c, dev, &h->columns[i], i, h->n_rows));
    }
    return KILN_OK;
}

// The numbers of a file are not trusted: there are as many rows as an array has.
static kiln_status get_rows(struct train_history *h, const kiln_checkpoint *c, kiln_device *dev)
{
    int64_t rows;
    TRY(kiln_checkpoint_get_int(c, "training.rows", &rows));
    kiln_tensor *steps = rows ? kiln_checkpoint_get(c, dev, "training.row_steps") : NULL;
    int64_t found = steps ? kiln_numel(steps) : 0;
    kiln_free(&steps);
    if (error_pending) return error_pending;
    if (found != rows)
        return error_set(KILN_E_FORMAT, "training: a checkpoint with %" PRId64 " rows, of %" PRId64, found, rows);
    for (int64_t i = 0; i < rows; i++) TRY(history_add_row(h, 0, 0, 0));
    TRY(get_array(c, dev, "training.row_steps", h->n_rows, 1, sizeof *h->steps, h->steps));
    TRY(get_array(c, dev, "training.row_epochs", h->n_rows, 1, sizeof *h->epochs, h->epochs));
    return get_array(c, dev, "training.row_seconds", h->n_rows, 1, sizeof *h->seconds, h->seconds);
}

// Into an empty history.
static kiln_status get_history(struct train_history *h, const kiln_checkpoint *c, kiln_device *dev)
{
    int64_t columns;
    TRY(get_rows(h, c, dev));
    TRY(kiln_checkpoint_get_int(c, "training.columns", &columns));
    for (int64_t i = 0; i < columns; i++) TRY(get_column(c, dev, h, (size_t)i));
    return KILN_OK;
}

// What a training counts, where it lies. Goes both ways.
static kiln_status counters(struct train_counters *n, kiln_checkpoint *to, const kiln_checkpoint *from)
{
    int64_t *const wholes[] = {&n->steps,    &n->epochs,    &n->in_epoch, &n->epoch_steps,
                               &n->has_best, &n->best_step, &n->bad};
    double *const numbers[] = {&n->seconds, &n->best};
    char name[64];
    for (size_t i = 0; i < COUNT_OF(wholes); i++) {
        static const char *const names[] = {"steps",    "epochs",    "in_epoch", "epoch_steps",
                                            "has_best", "best_step", "bad"};
        snprintf(name, sizeof name, "training.%s", names[i]);
        TRY(to ? kiln_checkpoint_put_int(to, name, *wholes[i]) : kiln_checkpoint_get_int(from, name, wholes[i]));
    }
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        static const char *const names[] = {"seconds", "best"};
        snprintf(name, sizeof name, "training.%s", names[i]);
        TRY(to ? kiln_checkpoint_put_double(to, name, *numbers[i])
               : kiln_checkpoint_get_double(from, name, numbers[i]));
    }
    return KILN_OK;
}

// Random numbers of the devices of what is kept, in the order in which they come. Goes both ways.
static kiln_status generators(const struct kept_tensors *list, kiln_checkpoint *to, const kiln_checkpoint *from,
                              bool set)
{
    kiln_device *seen[16];
    size_t n = 0;
    for (size_t i = 0; i < list->n && n < COUNT_OF(seen); i++) {
        kiln_device *dev = kiln_tensor_device(list->tensors[i]);
        bool new = true;
        for (size_t k = 0; k < n; k++) new = new &&seen[k] != dev;
        if (!new) continue;
        char names[2][64];
        uint64_t seed, offset;
        TRY(kiln_rng_state(dev, &seed, &offset));
        int64_t numbers[] = {(int64_t)seed, (int64_t)offset};
        snprintf(names[0], sizeof names[0], "training.seed%zu", n);
        snprintf(names[1], sizeof names[1], "training.offset%zu", n);
        for (int k = 0; k < 2; k++)
            TRY(to ? kiln_checkpoint_put_int(to, names[k], numbers[k])
                   : kiln_checkpoint_get_int(from, names[k], &numbers[k]));
        if (set) TRY(kiln_set_rng_state(dev, (uint64_t)numbers[0], (uint64_t)numbers[1]));
        seen[n++] = dev;
    }
    return KILN_OK;
}

// --- saving

static kiln_status fill(kiln_training *t, kiln_checkpoint *c, const struct kept_tensors *list)
{
    struct train_counters now = t->counters;
    struct str text;
    str_init(&text);
    kiln_status status = kept_text(t, &text);
    if (!status) status = kiln_checkpoint_put_string(c, "training.kept", str_text(&text));
    str_free(&text);
    TRY(status);
    now.seconds = training_seconds(t);
    TRY(counters(&now, c, NULL));
    TRY(put_history(t, c, device_of(list)));
    TRY(generators(list, c, NULL, false));
    TRY(kept_put(t, c));
    return list->n ? kiln_checkpoint_put(c, (const char *const *)list->names, list->tensors, list->n) : KILN_OK;
}

static kiln_status save(kiln_training *t, const char *name)
{
    struct kept_tensors list = {0};
    kiln_scope *scope = kiln_scope_begin();
    kiln_checkpoint *c = kiln_checkpoint_create();
    char *path = file_path(t->path, name);
    kiln_status status = c ? kept_list(t, false, &list) : error_pending;
    if (!status && !path) status = error_set(KILN_E_MEMORY, "training: no memory for a path");
    if (!status) status = fill(t, c, &list);
    if (!status) status = kiln_checkpoint_save(c, path);
    free(path);
    kept_list_free(&list);
    kiln_checkpoint_free(&c);
    kiln_scope_end(&scope);
    return status;
}

// A disk that is full or a folder that cannot be written does not end the training.
static kiln_status bear(kiln_training *t, kiln_status status)
{
    if (t->opts.strict || (status != KILN_E_IO && status != KILN_E_MISSING)) return status;
    char text[1024];
    snprintf(text, sizeof text, "%s", kiln_error_message());
    kiln_error_clear();
    progress_clear(t);
    log_warn("training: a checkpoint is not saved: %s; the training goes on", text);
    return KILN_OK;
}

static kiln_status save_step(kiln_training *t)
{
    char name[FILE_B];
    name_of(name, t->counters.steps);
    TRY(save(t, name));
    t->saved_step = t->counters.steps;
    t->saved_epochs = t->counters.epochs;
    return t->opts.keep > 0 ? prune(t, t->opts.keep) : KILN_OK;
}

kiln_status checkpoint_write(kiln_training *t)
{
    return bear(t, save_step(t));
}

kiln_status checkpoint_write_best(kiln_training *t)
{
    return bear(t, save(t, best_file));
}

kiln_status kiln_training_save(kiln_training *t)
{
    TRY(training_begin("training_save", t));
    if (!t->path) return error_set(KILN_E_STATE, "training_save: the training has no folder");
    return save_step(t);
}

// --- going on

static kiln_status check_kept(const kiln_training *t, const kiln_checkpoint *c, const char *path)
{
    const char *has = kiln_checkpoint_get_string(c, "training.kept");
    struct str text;
    if (!has) return error_pending;
    str_init(&text);
    kiln_status status = kept_text(t, &text);
    if (!status && strcmp(has, str_text(&text)) != 0)
        status = error_set(KILN_E_ARGUMENT, "training: %s holds %s; the training keeps %s", path,
                           has[0] ? has : "nothing", text.len ? str_text(&text) : "nothing");
    str_free(&text);
    return status;
}

// All is looked for before anything is written, but for the tensors, which are checked by the call that writes them.
static kiln_status restore(kiln_training *t, const kiln_checkpoint *c, const char *path, struct kept_tensors *list)
{
    struct train_counters then = {0};
    struct train_history h = {0};
    TRY(check_kept(t, c, path));
    TRY(kept_list(t, false, list));
    TRY(counters(&then, NULL, c));
    TRY(generators(list, NULL, c, false));
    TRY(kept_get(t, c, false));
    kiln_status status = get_history(&h, c, device_of(list));
    if (!status && (then.steps < 0 || then.epochs < 0 || then.epoch_steps < 0))
        status = error_set(KILN_E_FORMAT, "training: %s counts %" PRId64 " steps, %" PRId64 " epochs", path, then.steps,
                           then.epochs);
    if (!status && list->n)
        status = kiln_checkpoint_restore(c, (const char *const *)list->names, list->tensors, list->n);
    if (!status) status = kept_get(t, c, true);
    if (!status) status = generators(list, NULL, c, true);
    if (status) {
        history_finish(&h);
        return status;
    }
    history_finish(&t->history);
    t->history = h;
    t->counters = then;
    t->saved_step = then.steps;
    t->saved_epochs = then.epochs;
    t->went_on = then.in_epoch;
    return KILN_OK;
}

static kiln_status go_on_from(kiln_training *t, const char *path)
{
    struct kept_tensors list = {0};
    kiln_scope *scope = kiln_scope_begin();
    kiln_checkpoint *c = kiln_checkpoint_load(path);
    kiln_status status = c ? restore(t, c, path, &list) : error_pending;
    t->unreadable = !c;
    kept_list_free(&list);
    kiln_checkpoint_free(&c);
    kiln_scope_end(&scope);
    return status;
}

// The newest that can be read; the others are told.
kiln_status checkpoint_resume(kiln_training *t)
{
    int64_t *steps;
    size_t n = steps_in(t->path, &steps);
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < n; i++) {
        char name[FILE_B];
        name_of(name, steps[i]);
        char *path = file_path(t->path, name);
        status = path ? go_on_from(t, path) : error_set(KILN_E_MEMORY, "training: no memory for a path");
        free(path);
        if (!status || !t->unreadable || i + 1 == n) break;
        log_warn("training: an older checkpoint is taken: %s", kiln_error_message());
        kiln_error_clear();
    }
    free(steps);
    return status;
}

kiln_status kiln_training_restore_best(kiln_training *t)
{
    TRY(training_begin("training_restore_best", t));
    char *path = t->path ? file_path(t->path, best_file) : NULL;
    if (!path || access(path, F_OK)) {
        free(path);
        return error_set(KILN_E_STATE, "training_restore_best: there is no %s; .monitor and .keep_best save it",
                         best_file);
    }
    struct kept_tensors list = {0};
    kiln_checkpoint *c = kiln_checkpoint_load(path);
    kiln_status status = c ? kept_list(t, true, &list) : error_pending;
    if (!status && list.n) status = kiln_checkpoint_restore(c, (const char *const *)list.names, list.tensors, list.n);
    kept_list_free(&list);
    kiln_checkpoint_free(&c);
    free(path);
    return status;
}
