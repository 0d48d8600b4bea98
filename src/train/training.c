// A training's life: options, its folder, and what is told of files that cannot be written.
#include "train/training.h"
#include "base/clock.h"
#include "base/handles.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

kiln_status training_check(const char *function, const kiln_training *t)
{
    if (error_pending) return error_pending;
    return handle_check(function, "the training", HANDLE_TRAINING, t);
}

kiln_status training_complain(kiln_training *t, const char *file, const char *act, int number)
{
    if (t->opts.strict) return error_set(KILN_E_IO, "training: %s/%s %s: %s", t->path, file, act, strerror(number));
    progress_clear(t);
    log_warn("training: %s/%s %s: %s; the training goes on", t->path, file, act, strerror(number));
    return KILN_OK;
}

// --- options

static kiln_status check_number(const char *name, int64_t v)
{
    if (v >= 0) return KILN_OK;
    return error_set(KILN_E_ARGUMENT, "training_create: .%s is %lld, it must not be negative", name, (long long)v);
}

static kiln_status read_monitor(kiln_training *t)
{
    const kiln_training_opts *o = &t->opts;
    const char *mode = o->mode ? o->mode : "min";
    t->more_is_better = !strcmp(mode, "max");
    if (!t->more_is_better && strcmp(mode, "min") != 0)
        return error_set(KILN_E_ARGUMENT, "training_create: .mode is \"%s\", it must be \"min\" or \"max\"", mode);
    if (!(o->min_delta >= 0))
        return error_set(KILN_E_ARGUMENT, "training_create: .min_delta is %g, it must not be negative", o->min_delta);
    if (!o->monitor && (o->patience || o->keep_best))
        return error_set(KILN_E_ARGUMENT, "training_create: .%s needs .monitor, the name that says what is better",
                         o->patience ? "patience" : "keep_best");
    if (o->monitor && !(t->monitor = strdup(o->monitor))) return error_set(KILN_E_MEMORY, "training_create: no memory");
    return KILN_OK;
}

static kiln_status read_options(kiln_training *t, const kiln_training_opts *opts)
{
    kiln_training_opts *o = &t->opts;
    TRY(options_read("training_create", KILN_TRAINING, o, opts));
    TRY(check_number("epochs", o->epochs));
    TRY(check_number("steps", o->steps));
    TRY(check_number("print_every", o->print_every));
    TRY(check_number("log_every", o->log_every));
    TRY(check_number("patience", o->patience));
    if (o->checkpoint_every < -1 || o->checkpoint_epochs < -1 || o->keep < -1)
        return error_set(
            KILN_E_ARGUMENT,
            "training_create: .checkpoint_every, .checkpoint_epochs and .keep are %lld, %lld and %lld, they "
            "must not be below -1",
            (long long)o->checkpoint_every, (long long)o->checkpoint_epochs, (long long)o->keep);
    if (o->resume && o->overwrite)
        return error_set(KILN_E_ARGUMENT, "training_create: .resume and .overwrite are both there");
    const char *how = o->progress;
    if (how && strcmp(how, "bar") && strcmp(how, "lines") && strcmp(how, "none"))
        return error_set(KILN_E_ARGUMENT,
                         "training_create: .progress is \"%s\", it must be \"bar\", \"lines\" or \"none\"", how);
    if (!o->log_every) o->log_every = 10;
    if (!o->checkpoint_epochs && !o->checkpoint_every) o->checkpoint_epochs = 1;
    if (!o->keep) o->keep = 2;
    TRY(read_monitor(t));
    if (o->title && !(t->title = strdup(o->title))) return error_set(KILN_E_MEMORY, "training_create: no memory");
    return KILN_OK;
}

// --- the folder

static bool is_there(const char *folder, const char *name)
{
    char *path = file_path(folder, name);
    bool there = path && access(path, F_OK) == 0;
    free(path);
    return there;
}

static const char *found_in(const char *folder)
{
    for (size_t i = 0; i < RECORDS; i++)
        if (is_there(folder, record_name(i))) return record_name(i);
    return checkpoint_any(folder) ? "checkpoints" : NULL;
}

// What an earlier training has left goes, or is an error.
static kiln_status clear_folder(kiln_training *t)
{
    const char *found = t->opts.resume ? NULL : found_in(t->path);
    if (!found) return KILN_OK;
    if (!t->opts.overwrite)
        return error_set(KILN_E_STATE,
                         "training_create: %s holds an earlier training (%s); .resume goes on with it, .overwrite "
                         "removes it",
                         t->path, found);
    for (size_t i = 0; i < RECORDS; i++) {
        int failed = file_remove(t->path, record_name(i));
        if (failed) TRY(training_complain(t, record_name(i), "cannot be removed", failed));
    }
    return checkpoint_remove_all(t);
}

static kiln_status open_folder(kiln_training *t, const char *path)
{
    if (!path) return KILN_OK;
    if (!path[0]) return error_set(KILN_E_ARGUMENT, "training_create: the path is empty");
    t->path = strdup(path);
    if (!t->path) return error_set(KILN_E_MEMORY, "training_create: no memory");
    int failed = file_make_folder(path);
    if (failed) return training_complain(t, "", "cannot be made", failed);
    return clear_folder(t);
}

// --- life

kiln_training *kiln_training_create(const char *path, const kiln_training_opts *opts)
{
    if (error_pending) return NULL;
    kiln_training *t = handle_new(HANDLE_TRAINING, sizeof *t);
    if (!t) {
        error_set(KILN_E_MEMORY, "training_create: no memory");
        return NULL;
    }
    t->begun_ns = t->curves_ns = clock_now_ns();
    t->saved_step = -1;
    if (read_options(t, opts) || open_folder(t, path)) {
        kiln_training_free(&t);
        return NULL;
    }
    records_init(t);
    progress_init(t);
    return t;
}

// With an error pending, which may be why the loop has ended, no tensor can be read: what was read is written.
void kiln_training_free(kiln_training **t)
{
    if (!handle_may_free("training_free", HANDLE_TRAINING, t)) return;
    kiln_training *own = *t;
    if (!error_pending) (void)values_fold(own);
    (void)records_write(own);
    (void)curves_write(own);
    progress_end(own);
    history_finish(&own->history);
    kept_finish(own);
    free(own->path);
    free(own->title);
    free(own->monitor);
    handle_free(HANDLE_TRAINING, own);
    *t = NULL;
}
