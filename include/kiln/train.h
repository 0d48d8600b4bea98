/// @file train.h
/// Help around a training loop: progress, logs, curves, checkpoints, early stopping.
///
///     kiln_training *t = kiln_training_create("runs/first", KILN_TRAINING(.epochs = 5, .resume = true));
///     kiln_training_keep_cell(t, "net", net);
///     kiln_training_keep_optim(t, "optim", opt);
///     kiln_training_keep_loader(t, "data", loader);
///     while (kiln_training_epoch(t)) {
///         for (bool more = true; more && kiln_training_goes_on(t);) {
///             kiln_scope *scope = kiln_scope_begin();
///             kiln_tensor *batch[2];
///             kiln_loader_next(loader, batch, 2, &more);
///             if (more) {
///                 kiln_training_log_tensor(t, "train/loss", one_step(batch));
///                 kiln_training_step(t);
///             }
///             kiln_scope_end(&scope);
///         }
///         kiln_training_log(t, "valid/accuracy", accuracy_of(net));
///     }
///     kiln_training_free(&t);
///
/// The loop stays the program's. A training belongs to one thread at a time. Its folder holds "log.csv", "log.jsonl",
/// "curves.svg", "curves.html" and checkpoints, "step-00000100.ckpt". A file that cannot be written, as on a full disk,
/// is a warning (kiln_set_log) and no error, unless .strict asks for one: the training goes on, and what is missing is
/// written once that is possible. While an error is pending nothing has an effect, and loops by kiln_training_epoch and
/// kiln_training_goes_on end; freeing works.
#ifndef KILN_TRAIN_H
#define KILN_TRAIN_H

#include <kiln/data.h>
#include <kiln/nn.h>
#include <kiln/optim.h>
#include <kiln/random.h>
#include <kiln/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_training kiln_training;

/// Options of kiln_training_create.
typedef struct kiln_training_opts {
    size_t size KILN_0;
    int64_t epochs KILN_0; ///< after which kiln_training_epoch ends the loop; 0: not known
    /// After which kiln_training_goes_on ends the loop; 0: not known, or as many as .epochs of the loader that is kept.
    int64_t steps KILN_0;
    const char *title KILN_0;         ///< before lines of progress; NULL: nothing
    const char *progress KILN_0;      ///< "bar", "lines", "none"; NULL: a bar on a terminal, else lines
    FILE *output KILN_0;              ///< where progress goes, open as long as the training lives; NULL: stderr
    int64_t print_every KILN_0;       ///< steps between lines; 0: up to 20 of them, or each 100, if they say news
    int64_t log_every KILN_0;         ///< steps that are one row, the mean of what was logged; 0: 10
    bool no_csv KILN_0;               ///< no "log.csv"
    bool no_jsonl KILN_0;             ///< no "log.jsonl"
    bool no_curves KILN_0;            ///< no "curves.svg" and "curves.html"
    int64_t checkpoint_every KILN_0;  ///< steps between checkpoints; 0: at the ends of epochs, -1: none
    int64_t checkpoint_epochs KILN_0; ///< epochs between checkpoints; 0: 1 without .checkpoint_every, -1: none
    int64_t keep KILN_0;              ///< how many of the newest are kept; 0: 2, -1: all
    bool resume KILN_0;               ///< go on from the newest checkpoint in the folder, where there is one
    bool overwrite KILN_0;            ///< remove what an earlier training has left in the folder
    const char *monitor KILN_0;       ///< the name by which the best is told, as "valid/loss"; NULL: none
    const char *mode KILN_0;          ///< what is better of it: "min" (NULL), "max"
    double min_delta KILN_0;          ///< by how much more than this it has to be better, >= 0
    int64_t patience KILN_0;          ///< rows with it, in a row and none better, after which loops end; 0: never
    bool keep_best KILN_0;            ///< save "best.ckpt" where it is better
    bool strict KILN_0;               ///< a file that cannot be written is an error
} kiln_training_opts;
#define KILN_TRAINING(...) KILN_OPTS_(kiln_training_opts, __VA_ARGS__)

/// A training that keeps its files in the folder `path`, which is made where there is none; NULL: no files. Errors:
/// KILN_E_STATE for a folder that holds the files of an earlier training, without .resume and .overwrite;
/// KILN_E_ARGUMENT for both of these, for numbers that are negative and for words that are none of those above.
KILN_API kiln_training *kiln_training_create(const char *path, const kiln_training_opts *opts);
/// Writes what is not written yet, ends the line of progress, frees the training and nulls the pointer; NULL is fine.
KILN_API void kiln_training_free(kiln_training **t);

/// Ends the epoch that was in progress, with a row for what was logged since the last one, and begins the next. False:
/// there is none, as all are done, the steps too, .patience is over, or kiln_training_stop was called; or an error is
/// pending. The first call of it or of those below reads the checkpoint of a training that goes on: an epoch that was
/// interrupted is the one that begins. Errors are then those of kiln_checkpoint_load, of a checkpoint that does not
/// hold what is kept, and KILN_E_ARGUMENT for one that holds other things; nothing has changed.
KILN_API bool kiln_training_epoch(kiln_training *t);
/// Whether there is a step to make. Loops without epochs are `while (kiln_training_goes_on(t))`.
KILN_API bool kiln_training_goes_on(kiln_training *t);
/// Ends a step: counts it, and makes and writes a row where one is due.
KILN_API kiln_status kiln_training_step(kiln_training *t);
/// Lets the loops end.
KILN_API kiln_status kiln_training_stop(kiln_training *t);

// --- what checkpoints hold, beside what was logged, how far the training is, and the random numbers of the devices of
// all these: with it a training that goes on is, to the bit, the one that was not interrupted. What is kept is named
// before the loop begins, each under a name of its own, and has to live as long as the training. Errors:
// KILN_E_ARGUMENT for a name that is NULL, empty, there already, or holds dots; KILN_E_STATE once a step or an epoch
// has begun.

/// Parameters and buffers (kiln_cell_state).
KILN_API kiln_status kiln_training_keep_cell(kiln_training *t, const char *name, kiln_cell *cell);
/// State, steps, rates and what plateaus remember (kiln_optim_state).
KILN_API kiln_status kiln_training_keep_optim(kiln_training *t, const char *name, kiln_optim *opt);
/// Averages and how many updates they have seen (kiln_average_state).
KILN_API kiln_status kiln_training_keep_average(kiln_training *t, const char *name, kiln_average *average);
/// The place in the data (kiln_loader_get_state).
KILN_API kiln_status kiln_training_keep_loader(kiln_training *t, const char *name, kiln_loader *loader);
/// A generator of the program's own.
KILN_API kiln_status kiln_training_keep_generator(kiln_training *t, const char *name, kiln_generator *g);
/// A tensor that the program writes in place, as a state that goes from step to step.
KILN_API kiln_status kiln_training_keep_tensor(kiln_training *t, const char *name, kiln_tensor *x);
/// A number of the program's own, where it lies.
KILN_API kiln_status kiln_training_keep_int(kiln_training *t, const char *name, int64_t *value);
KILN_API kiln_status kiln_training_keep_double(kiln_training *t, const char *name, double *value);

/// Saves a checkpoint now. With .checkpoint_every and .checkpoint_epochs they are saved by themselves, and at the end.
/// Errors: KILN_E_STATE for a training without a folder, else as kiln_checkpoint_save.
KILN_API kiln_status kiln_training_save(kiln_training *t);
/// Puts the cells, averages and tensors of "best.ckpt" back, as for a test after training. Errors: KILN_E_STATE where
/// there is none.
KILN_API kiln_status kiln_training_restore_best(kiln_training *t);
/// The best value of .monitor so far and its step, which may be NULL. False: there is none.
KILN_API bool kiln_training_best(const kiln_training *t, double *value, int64_t *step);

// --- logs

/// Logs a number by name, as "train/loss", "valid/accuracy", "lr": a column of the logs. Of several before a row, it
/// gets the mean. Errors: KILN_E_ARGUMENT for a name that is NULL, empty, longer than 100 bytes, no UTF-8, holds
/// control characters, or is "step", "epoch" or "seconds", the columns of each row.
KILN_API kiln_status kiln_training_log(kiln_training *t, const char *name, double value);
/// The same with a weight in the mean, above 0, as the number of samples in a batch.
KILN_API kiln_status kiln_training_log_mean(kiln_training *t, const char *name, double mean, double weight);
/// Logs the value that a tensor of one element has now. It is read when a row is made, so that steps do not wait for
/// the device. Errors also: KILN_E_SHAPE for several elements, KILN_E_DTYPE for complex numbers and storage dtypes,
/// KILN_E_STATE in a capture.
KILN_API kiln_status kiln_training_log_tensor(kiln_training *t, const char *name, kiln_tensor *x);

/// How many steps and epochs are done.
KILN_API int64_t kiln_training_steps(const kiln_training *t);
KILN_API int64_t kiln_training_epochs(const kiln_training *t);
/// What has been logged by a name: steps and values of the last `max` rows that have it, in order, into arrays that may
/// be NULL. Returns how many rows there are in all.
KILN_API size_t kiln_training_history(const kiln_training *t, const char *name, int64_t *steps, double *values,
                                      size_t max);

// --- curves

/// Options of kiln_training_save_curves.
typedef struct kiln_curves_opts {
    size_t size KILN_0;
    kiln_names names KILN_0;  ///< which, as KILN_NAMES("train/loss", "valid/loss"); none: all
    const char *x KILN_0;     ///< "step" (NULL), "epoch" or "seconds"
    bool log_x KILN_0;        ///< a logarithmic axis; what is not above 0 is a gap there
    bool log_y KILN_0;        ///< the same
    bool together KILN_0;     ///< all in one panel
    const char *title KILN_0; ///< NULL: that of the training
    int64_t width KILN_0;     ///< pixels, from 100 to 10000; 0: 740
    int64_t height KILN_0;    ///< of a panel's plot; 0: 240
} kiln_curves_opts;
#define KILN_CURVES(...) KILN_OPTS_(kiln_curves_opts, __VA_ARGS__)
/// Draws what was logged as curves, to a picture ".svg" or a page ".html" without other files, in the colours of the
/// reader's system and with numbers under the pointer. Names that end alike, as "train/loss" and "valid/loss", share a
/// panel. Numbers that are not finite are gaps; rows that lack a name are not. A folder has such files by itself.
/// Errors: KILN_E_ARGUMENT for other endings, names that nothing is logged by, and numbers out of range; KILN_E_IO.
KILN_API kiln_status kiln_training_save_curves(const kiln_training *t, const char *path, const kiln_curves_opts *opts);

// --- metrics over batches: what the ops kiln_accuracy, kiln_precision, kiln_recall, kiln_f_score, kiln_iou and
// kiln_auroc give for all samples at once. Nothing waits for the device before a value is asked for.
//
//     kiln_metric *m = kiln_metric_create(KILN_METRIC(.classes = 10));
//     for (...) kiln_metric_update(m, kiln_cell_call(net, x), labels);
//     kiln_training_log(t, "valid/accuracy", kiln_metric_value(m, "accuracy"));
//     kiln_metric_free(&m);

typedef struct kiln_metric kiln_metric;

/// Options of kiln_metric_create: what is asked for, at least one of the first three.
typedef struct kiln_metric_opts {
    size_t size KILN_0;
    int64_t classes KILN_0; ///< "accuracy", "precision", "recall", "f1" and "iou" of so many classes, from 2 to 30000
    int64_t top_k KILN_0;   ///< "top_k": labels among the k highest scores
    bool auroc KILN_0;      ///< "auroc", of two classes; all scores are kept
    const char *average
        KILN_0; ///< over classes: "macro" (NULL), "micro", "weighted" by labels, "binary": class 1 alone
} kiln_metric_opts;
#define KILN_METRIC(...) KILN_OPTS_(kiln_metric_opts, __VA_ARGS__)
/// A metric without samples.
KILN_API kiln_metric *kiln_metric_create(const kiln_metric_opts *opts);
/// Frees and nulls the pointer; NULL is fine.
KILN_API void kiln_metric_free(kiln_metric **m);
/// Adds a batch. scores: floats [..., classes], of which the greatest counts, or predictions, integers [...]; of .auroc
/// floats [N], or [N, 2], whose second column counts. labels: integers [...]. Errors: KILN_E_SHAPE, KILN_E_DTYPE;
/// KILN_E_STATE in a capture. A batch that is refused adds nothing.
KILN_API kiln_status kiln_metric_update(kiln_metric *m, kiln_tensor *scores, kiln_tensor *labels);
/// The value of all batches by name. NaN where there was none, and of "auroc" where one class is missing. Errors:
/// KILN_E_ARGUMENT, and NaN, for a name that the metric does not have.
KILN_API double kiln_metric_value(const kiln_metric *m, const char *what);
/// The confusion matrix so far, i64 [classes, classes]: how often label i was predicted as j; a new handle. Errors:
/// KILN_E_STATE without batches or .classes.
KILN_API kiln_tensor *kiln_metric_matrix(const kiln_metric *m);
/// Forgets all batches.
KILN_API kiln_status kiln_metric_reset(kiln_metric *m);

#ifdef __cplusplus
}
#endif
#endif
