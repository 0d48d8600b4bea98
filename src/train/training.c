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

static kiln_status read_options(kiln_training *t, const kiln_training_opts *opts)
{
    kiln_training_opts *o = &t->opts;
    TRY(options_read("training_create", KILN_TRAINING, o, opts));
    TRY(check_number("epochs", o->epochs));
    TRY(check_number("steps", o->steps));
    TRY(check_number("print_every", o->print_every));
    TRY(check_number("log_every", o->log_every));
    const char *how = o->progress;
    if (how && strcmp(how, "bar") && strcmp(how, "lines") && strcmp(how, "none"))
        return error_set(KILN_E_ARGUMENT,
                         "training_create: .progress is \"%s\", it must be \"bar\", \"lines\" or \"none\"", how);
    if (!o->log_every) o->log_every = 10;
    if (!o->print_every) o->print_every = o->steps ? (o->steps + 19) / 20 : 100;
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

static int remove_file(const char *folder, const char *name)
{
    char *path = file_path(folder, name);
    int failed = !path ? ENOMEM : unlink(path) && errno != ENOENT ? errno : 0;
    free(path);
    return failed;
}

// What an earlier training has left goes, or is an error.
static kiln_status clear_folder(kiln_training *t)
{
    for (size_t i = 0; i < RECORDS; i++) {
        const char *name = record_name(i);
        if (!is_there(t->path, name)) continue;
        if (!t->opts.overwrite)
            return error_set(KILN_E_STATE, "training_create: %s holds an earlier training (%s); .overwrite removes it",
                             t->path, name);
        int failed = remove_file(t->path, name);
        if (failed) TRY(training_complain(t, name, "cannot be removed", failed));
    }
    return KILN_OK;
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
    free(own->path);
    free(own->title);
    handle_free(HANDLE_TRAINING, own);
    *t = NULL;
}
