// Metrics over many batches. Counts are added up on the device, so that no batch waits for it; scores of the area under
// the curve are kept, as that depends on the order of all of them.
#include "train/training.h"
#include "base/dtype.h"
#include "base/handles.h"

#include <kiln/composites.h>
#include <kiln/grad.h>
#include <kiln/jit.h>
#include <kiln/ops.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum average { MACRO, MICRO, WEIGHTED, BINARY };

struct kiln_metric {
    int64_t classes, top_k;
    bool auroc;
    enum average average;
    kiln_tensor *counts;        // i64 [classes, classes]: row: the label, column: the prediction
    kiln_tensor *hits;          // i64: labels among the k best
    int64_t samples;            // that hits are of
    kiln_tensor **scores, **of; // of each batch: rank 1
    size_t batches;
};

static kiln_status check(const char *function, const kiln_metric *m)
{
    if (error_pending) return error_pending;
    return handle_check(function, "the metric", HANDLE_METRIC, m);
}

// --- life

static kiln_status read_options(kiln_metric *m, const kiln_metric_opts *opts)
{
    static const char *const averages[] = {
        [MACRO] = "macro",
        [MICRO] = "micro",
        [WEIGHTED] = "weighted",
        [BINARY] = "binary"
    };
    kiln_metric_opts o;
    TRY(options_read("metric_create", KILN_METRIC, &o, opts));
    if (o.classes < 0 || o.classes == 1 || o.classes > 30000)
        return error_set(KILN_E_ARGUMENT, "metric_create: .classes is %lld, from 2 to 30000 are allowed",
                         (long long)o.classes);
    if (o.top_k < 0) return error_set(KILN_E_ARGUMENT, "metric_create: .top_k is %lld", (long long)o.top_k);
    if (!o.classes && !o.top_k && !o.auroc)
        return error_set(KILN_E_ARGUMENT, "metric_create: none of .classes, .top_k and .auroc is there");
    m->classes = o.classes;
    m->top_k = o.top_k;
    m->auroc = o.auroc;
    size_t i = 0;
    while (o.average && i < COUNT_OF(averages) && strcmp(o.average, averages[i]) != 0) i++;
    m->average = (enum average)i;
    if (i == COUNT_OF(averages))
        return error_set(KILN_E_ARGUMENT,
                         "metric_create: .average is \"%s\", it must be \"macro\", \"micro\", "
                         "\"weighted\" or \"binary\"",
                         o.average);
    if (m->average == BINARY && m->classes != 2)
        return error_set(KILN_E_ARGUMENT, "metric_create: .average is \"binary\", of %lld classes",
                         (long long)m->classes);
    return KILN_OK;
}

kiln_metric *kiln_metric_create(const kiln_metric_opts *opts)
{
    if (error_pending) return NULL;
    kiln_metric *m = handle_new(HANDLE_METRIC, sizeof *m);
    if (!m) error_set(KILN_E_MEMORY, "metric_create: no memory");
    if (m && read_options(m, opts)) kiln_metric_free(&m);
    return m;
}

static void empty(kiln_metric *m)
{
    kiln_free(&m->counts);
    kiln_free(&m->hits);
    for (size_t i = 0; i < m->batches; i++) {
        kiln_free(&m->scores[i]);
        kiln_free(&m->of[i]);
    }
    free(m->scores);
    free(m->of);
    m->scores = m->of = NULL;
    m->batches = 0;
    m->samples = 0;
}

void kiln_metric_free(kiln_metric **metric)
{
    if (!handle_may_free("metric_free", HANDLE_METRIC, metric)) return;
    empty(*metric);
    handle_free(HANDLE_METRIC, *metric);
    *metric = NULL;
}

kiln_status kiln_metric_reset(kiln_metric *m)
{
    TRY(check("metric_reset", m));
    empty(m);
    return KILN_OK;
}

// --- batches

// What a batch adds; all of it before anything of the metric changes.
struct batch {
    kiln_tensor *counts, *hits, *scores, *of;
};

static bool is_integer(const kiln_tensor *t)
{
    kiln_dtype dtype = kiln_tensor_dtype(t);
    return dtype == KILN_BOOL || dtype_info[dtype].kind == KIND_INT;
}

static kiln_tensor *counts_of(const kiln_metric *m, kiln_tensor *scores, kiln_tensor *labels)
{
    if (!is_integer(scores)) {
        int64_t last = kiln_dim(scores, -1);
        if (!error_pending && last != m->classes)
            error_set(KILN_E_SHAPE, "metric_update: scores of %lld classes, the metric is of %lld", (long long)last,
                      (long long)m->classes);
        scores = kiln_argmax(scores, KILN_REDUCE(.axes = KILN_AXES(-1)));
    }
    return kiln_confusion_matrix(scores, labels, m->classes, NULL);
}

static kiln_tensor *hits_of(const kiln_metric *m, kiln_tensor *scores, kiln_tensor *labels)
{
    double n = (double)kiln_numel(labels);
    kiln_tensor *share = kiln_accuracy(scores, labels, m->top_k);
    return kiln_cast(kiln_round(kiln_mul(share, kiln_scalar(n))), KILN_I64);
}

// Of two columns the second is of the class that is looked for.
static kiln_tensor *line_of(kiln_tensor *scores)
{
    if (kiln_rank(scores) == 2 && kiln_dim(scores, 1) == 2) return kiln_select(scores, 1, 1);
    return kiln_reshape(scores, KILN_SHAPE(-1));
}

static kiln_tensor *added(kiln_tensor *sum, kiln_tensor *more)
{
    return sum && more ? kiln_add(sum, more) : more;
}

static kiln_status add_batch(const kiln_metric *m, kiln_tensor *scores, kiln_tensor *labels, struct batch *b)
{
    if (m->classes) b->counts = added(m->counts, counts_of(m, scores, labels));
    if (m->top_k) b->hits = added(m->hits, hits_of(m, scores, labels));
    if (m->auroc) {
        kiln_tensor *line = line_of(scores);
        b->scores = kiln_mul(line, kiln_scalar(1)); // copies: the program may write its own
        b->of = kiln_not_equal(kiln_reshape(labels, KILN_SHAPE(-1)), kiln_scalar_int(0));
        if (!error_pending && kiln_numel(b->scores) != kiln_numel(b->of))
            error_set(KILN_E_SHAPE, "metric_update: %lld scores of %lld labels", (long long)kiln_numel(b->scores),
                      (long long)kiln_numel(b->of));
    }
    return error_pending;
}

static kiln_status room_for(kiln_metric *m)
{
    kiln_tensor **scores = realloc(m->scores, (m->batches + 1) * sizeof *scores);
    if (scores) m->scores = scores;
    kiln_tensor **of = realloc(m->of, (m->batches + 1) * sizeof *of);
    if (of) m->of = of;
    return scores && of ? KILN_OK : error_set(KILN_E_MEMORY, "metric_update: no memory");
}

static void take(kiln_tensor **slot, kiln_tensor *x)
{
    if (!x) return;
    kiln_free(slot);
    *slot = kiln_own(x);
}

kiln_status kiln_metric_update(kiln_metric *m, kiln_tensor *scores, kiln_tensor *labels)
{
    struct batch b = {0};
    TRY(check("metric_update", m));
    if (!scores || !labels)
        return error_set(KILN_E_ARGUMENT, "metric_update: %s are NULL", scores ? "the labels" : "the scores");
    if (kiln_is_capturing())
        return error_set(KILN_E_STATE, "metric_update: a metric is no part of a capture; give it what the captured "
                                       "function returns");
    if (m->auroc) TRY(room_for(m));
    kiln_scope *scope = kiln_scope_begin();
    kiln_no_grad_begin();
    int64_t n = kiln_numel(labels);
    kiln_status status = error_pending ? error_pending : add_batch(m, scores, labels, &b);
    if (!status) {
        take(&m->counts, b.counts);
        take(&m->hits, b.hits);
        m->samples += n;
        if (m->auroc) {
            m->scores[m->batches] = kiln_own(b.scores);
            m->of[m->batches++] = kiln_own(b.of);
        }
    }
    kiln_no_grad_end();
    kiln_scope_end(&scope);
    return status;
}

// --- results

struct class_counts {
    double hits, predicted, labelled;
};

static double share(double a, double b)
{
    return b > 0 ? a / b : 0;
}

static double of_class(const struct class_counts *c, const char *what)
{
    if (!strcmp(what, "precision")) return share(c->hits, c->predicted);
    if (!strcmp(what, "recall")) return share(c->hits, c->labelled);
    if (!strcmp(what, "f1")) return share(2 * c->hits, c->predicted + c->labelled);
    return share(c->hits, c->predicted + c->labelled - c->hits); // intersection over union
}

static double averaged(const kiln_metric *m, const struct class_counts *c, const char *what)
{
    struct class_counts all = {0, 0, 0};
    double sum = 0;
    for (int64_t i = 0; i < m->classes; i++) {
        all.hits += c[i].hits;
        all.predicted += c[i].predicted;
        all.labelled += c[i].labelled;
        sum += of_class(&c[i], what) * (m->average == WEIGHTED ? c[i].labelled : 1);
    }
    if (!strcmp(what, "accuracy")) return all.labelled > 0 ? all.hits / all.labelled : NAN;
    if (m->average == BINARY) return of_class(&c[1], what);
    if (m->average == MICRO) return of_class(&all, what);
    return m->average == WEIGHTED ? share(sum, all.labelled) : sum / (double)m->classes;
}

static double by_counts(const kiln_metric *m, const char *what)
{
    size_t n = (size_t)m->classes;
    int64_t *counts = calloc(n * n, sizeof *counts);
    struct class_counts *c = calloc(n, sizeof *c);
    double value = NAN;
    if (!counts || !c) error_set(KILN_E_MEMORY, "metric_value: no memory");
    if (!error_pending && m->counts) kiln_read(m->counts, counts, n * n * sizeof *counts);
    for (size_t i = 0; i < n * n && !error_pending; i++) {
        double count = (double)counts[i];
        c[i / n].labelled += count;
        c[i % n].predicted += count;
        if (i / n == i % n) c[i / n].hits += count;
    }
    if (!error_pending) value = averaged(m, c, what);
    free(counts);
    free(c);
    return value;
}

static double area(const kiln_metric *m)
{
    if (!m->batches) return NAN;
    kiln_scope *scope = kiln_scope_begin();
    double value = kiln_item(kiln_auroc(kiln_concat(m->scores, m->batches, 0), kiln_concat(m->of, m->batches, 0)));
    kiln_scope_end(&scope);
    return value;
}

double kiln_metric_value(const kiln_metric *m, const char *what)
{
    static const char *const of_counts[] = {"accuracy", "precision", "recall", "f1", "iou"};
    if (check("metric_value", m)) return NAN;
    if (!what) {
        error_set(KILN_E_ARGUMENT, "metric_value: the name is NULL");
        return NAN;
    }
    bool counted = false;
    for (size_t i = 0; i < COUNT_OF(of_counts); i++) counted = counted || !strcmp(what, of_counts[i]);
    if (counted && m->classes) return by_counts(m, what);
    if (!strcmp(what, "top_k") && m->top_k) return m->hits ? (double)kiln_item_int(m->hits) / (double)m->samples : NAN;
    if (!strcmp(what, "auroc") && m->auroc) return area(m);
    error_set(KILN_E_ARGUMENT,
              "metric_value: the metric has no \"%s\"; .classes gives accuracy, precision, recall, f1 and "
              "iou, .top_k top_k, .auroc auroc",
              what);
    return NAN;
}

kiln_tensor *kiln_metric_matrix(const kiln_metric *m)
{
    if (check("metric_matrix", m)) return NULL;
    if (m->counts) return kiln_alias(m->counts);
    error_set(KILN_E_STATE, "metric_matrix: %s",
              m->classes ? "no batch has been counted" : "the metric has no .classes");
    return NULL;
}
