// A training: what was logged, where the loop stands, and how it is told.
#pragma once
#include "base/options.h"
#include "base/str.h"
#include <kiln/train.h>

enum { WAITING_MAX = 64, NAME_MAX_B = 100 };

// A name that is logged: a column of the table, and what has come for the next row and for the epoch.
struct train_column {
    char *name;
    double *values; // a row each
    bool *has;
    double sum, weight;
    double epoch_sum, epoch_weight;
    kiln_tensor *waiting[WAITING_MAX]; // copies, of one dtype and device, not read yet
    size_t n_waiting;
};

struct train_history {
    size_t n_rows, cap, n_columns;
    int64_t *steps, *epochs; // a row each
    double *seconds;
    struct train_column *columns;
};

// A file to which rows are appended.
struct train_record {
    const struct record_format *format; // NULL: not wanted
    size_t rows, columns, size_B;       // that are in the file as far as is known
    bool broken;                        // what it holds is not known: it is written anew
};
enum { RECORD_CSV, RECORD_JSONL, RECORDS };

struct train_progress {
    FILE *out;
    bool bar, lines; // neither: nothing is told
    bool drawn;      // the cursor stands in a line that is drawn again
    uint64_t drawn_ns;
    int64_t every;       // steps between lines
    size_t printed_rows; // that the last line knew
    // The rate is that of this process, without the first step, which compiles.
    int64_t timed_from;
    uint64_t timed_ns;
};

// What a checkpoint holds of where a training stands; truth values are integers for its sake.
struct train_counters {
    int64_t steps, epochs; // done
    int64_t in_epoch, epoch_steps;
    int64_t has_best, best_step, bad; // bad: rows since without a better one
    double best;
    double seconds; // that earlier processes have taken
};

struct kiln_training {
    kiln_training_opts opts;
    char *path, *title;
    struct train_history history;
    struct train_record records[RECORDS];
    struct train_progress progress;
    size_t curves_rows; // that the curves of the folder show
    uint64_t curves_ns; // when they were drawn
    struct train_counters counters;
    struct train_kept *kept; // a growing list
    size_t n_kept;
    char *monitor;
    bool more_is_better, told; // of what is watched; told: it was logged
    bool begun, ended, stopped;
    bool went_on;                     // in an epoch, which the next call of kiln_training_epoch is to begin
    bool unreadable;                  // of the checkpoint that was tried last
    int64_t total;                    // steps, as far as is known: 0 if not
    int64_t saved_step, saved_epochs; // of the newest checkpoint; -1: none
    uint64_t begun_ns, epoch_ns;
};

// --- training.c
kiln_status training_check(const char *function, const kiln_training *t);
// The same of a function of the loop, which is the first to go on from a checkpoint.
kiln_status training_begin(const char *function, kiln_training *t);
// What could not be done with a file: an error where the caller wants that, else a warning.
kiln_status training_complain(kiln_training *t, const char *file, const char *act, int number);
double training_seconds(const kiln_training *t);
int64_t training_total(const kiln_training *t); // steps, 0: not known

// --- history.c
void history_finish(struct train_history *h);
// The column of a name, made where there is none. NULL with an error of memory.
struct train_column *history_column(struct train_history *h, const char *name);
struct train_column *history_find(const struct train_history *h, const char *name);
// Room for one more row, which is all missing.
kiln_status history_add_row(struct train_history *h, int64_t step, int64_t epoch, double seconds);

// --- values.c
kiln_status values_check_name(const char *function, const char *name); // of a column
// Reads what waits.
kiln_status values_settle(struct train_column *c);
// Moves what was logged into the row of this step, a new one where there is none yet that no file has. Without anything
// logged there is no row.
kiln_status values_fold(kiln_training *t);
void values_begin_epoch(kiln_training *t);
// The newest number of a column. False: there is none.
bool values_last(const struct train_history *h, const struct train_column *c, double *value);

// --- records.c
void records_init(kiln_training *t);
// Writes rows that are not in the files yet.
kiln_status records_write(kiln_training *t);
const char *record_name(size_t i);

// --- curves.c
kiln_status curves_write(kiln_training *t); // those of the folder, with all rows

// --- checkpoint.c
bool checkpoint_any(const char *folder);
kiln_status checkpoint_remove_all(kiln_training *t);
kiln_status checkpoint_resume(kiln_training *t);
kiln_status checkpoint_write(kiln_training *t);
kiln_status checkpoint_write_best(kiln_training *t);

// --- kept.c
void kept_finish(kiln_training *t);
int64_t kept_batches(const kiln_training *t); // of an epoch of the first loader; 0: there is none

// --- stop.c
kiln_status stop_look(kiln_training *t); // at a row that was just made or added to
bool stop_is_due(const kiln_training *t);

// --- progress.c
void progress_init(kiln_training *t);
void progress_step(kiln_training *t);  // a step is done
void progress_epoch(kiln_training *t); // an epoch is done
void progress_end(kiln_training *t);
void progress_stopped(kiln_training *t);
void progress_clear(kiln_training *t); // before others write to the terminal

// --- files.c: 0, or errno.
char *file_path(const char *folder, const char *name); // NULL: no memory
// Appends to a file that has to have `size_B` bytes; ESTALE where it has others.
int file_append(const char *path, size_t size_B, const char *text, size_t n);
int file_replace(const char *path, const char *text, size_t n); // all or nothing
int file_remove(const char *folder, const char *name);          // one that is not there, too
int file_make_folder(const char *path);                         // with those above it
