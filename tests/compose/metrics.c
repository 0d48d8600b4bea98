// Metrics against plain loops.
#include "compose/case.h"

enum { CLASSES = 4 };

static void call_accuracy(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_accuracy(in[0], in[1], 1);
    out[1] = kiln_accuracy(in[0], in[1], 3);
}

static void expect_accuracy(const struct host *in, struct host *out)
{
    int64_t classes = in[0].dims[in[0].rank - 1];
    for (int k = 0; k < 2; k++) {
        out[k] = host_new(KILN_F32, 0, NULL);
        for (int64_t s = 0; s < in[1].n; s++) {
            const long double *x = &in[0].v[s * classes];
            int64_t label = (int64_t)in[1].v[s], above = 0;
            for (int64_t c = 0; c < classes; c++) above += x[c] > x[label] || (x[c] == x[label] && c < label);
            out[k].v[0] += (above < (k ? 3 : 1)) / (long double)in[1].n;
        }
    }
}

static void counts(const struct host *in, long double m[CLASSES][CLASSES])
{
    for (int i = 0; i < CLASSES * CLASSES; i++) m[i / CLASSES][i % CLASSES] = 0;
    for (int64_t s = 0; s < in[0].n; s++) m[(int)in[1].v[s]][(int)in[0].v[s]]++;
}

static void call_confusion(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_confusion_matrix(in[0], in[1], CLASSES, NULL);
    out[1] = kiln_confusion_matrix(in[0], in[1], CLASSES, KILN_CONFUSION_MATRIX(.normalize = "true"));
    out[2] = kiln_confusion_matrix(in[0], in[1], CLASSES, KILN_CONFUSION_MATRIX(.normalize = "pred"));
    out[3] = kiln_confusion_matrix(in[0], in[1], CLASSES, KILN_CONFUSION_MATRIX(.normalize = "all"));
}

static void expect_confusion(const struct host *in, struct host *out)
{
    long double m[CLASSES][CLASSES], rows[CLASSES] = {0}, cols[CLASSES] = {0}, all = 0;
    counts(in, m);
    for (int i = 0; i < CLASSES; i++)
        for (int k = 0; k < CLASSES; k++) rows[i] += m[i][k], cols[k] += m[i][k], all += m[i][k];
    for (int o = 0; o < 4; o++) {
        out[o] = host_new(o ? KILN_F32 : KILN_I64, 2, (int64_t[]){CLASSES, CLASSES});
        for (int i = 0; i < CLASSES; i++)
            for (int k = 0; k < CLASSES; k++) {
                long double by = o == 0 ? 1 : o == 1 ? rows[i] : o == 2 ? cols[k] : all;
                out[o].v[i * CLASSES + k] = by == 0 ? 0 : m[i][k] / by;
            }
    }
}

static long double share(long double a, long double b)
{
    return b == 0 ? 0 : a / b;
}

// The score of one class, or of all samples, from hits, predictions and labels.
typedef long double score_fn(long double hits, long double predicted, long double labelled);

static long double precision(long double hits, long double predicted, long double labelled)
{
    (void)labelled;
    return share(hits, predicted);
}
static long double recall(long double hits, long double predicted, long double labelled)
{
    (void)predicted;
    return share(hits, labelled);
}
static long double f_score(long double hits, long double predicted, long double labelled)
{
    long double p = share(hits, predicted), r = share(hits, labelled);
    return share(5 * p * r, 4 * p + r);
}

static void averages(const struct host *in, struct host *out, score_fn *score)
{
    long double m[CLASSES][CLASSES], hits = 0, all = 0;
    counts(in, m);
    for (int o = 0; o < 4; o++) out[o] = host_new(KILN_F32, o == 3, (int64_t[]){CLASSES});
    for (int c = 0; c < CLASSES; c++) {
        long double predicted = 0, labelled = 0;
        for (int k = 0; k < CLASSES; k++) predicted += m[k][c], labelled += m[c][k];
        long double one = score(m[c][c], predicted, labelled);
        hits += m[c][c], all += labelled;
        out[0].v[0] += one / CLASSES;
        out[2].v[0] += one * labelled;
        out[3].v[c] = one;
    }
    out[1].v[0] = score(hits, all, all);
    out[2].v[0] = share(out[2].v[0], all);
}

#define AVERAGED(name, call)                                           \
    static void call_##name(kiln_tensor *const *in, kiln_tensor **out) \
    {                                                                  \
        for (int i = 0; i < 4; i++) out[i] = call;                     \
    }                                                                  \
    static void expect_##name(const struct host *in, struct host *out) \
    {                                                                  \
        averages(in, out, name);                                       \
    }
static const char *const how[] = {NULL, "micro", "weighted", "none"};
AVERAGED(precision, kiln_precision(in[0], in[1], CLASSES, KILN_PRECISION(.average = how[i])))
AVERAGED(recall, kiln_recall(in[0], in[1], CLASSES, KILN_PRECISION(.average = how[i])))
AVERAGED(f_score, kiln_f_score(in[0], in[1], CLASSES, KILN_F_SCORE(.average = how[i], .beta = 2)))

static void call_iou(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_iou(in[0], in[1], CLASSES);
}

static void expect_iou(const struct host *in, struct host *out)
{
    out[0] = host_new(KILN_F32, 1, (int64_t[]){CLASSES});
    for (int c = 0; c < CLASSES; c++) {
        long double both = 0, any = 0;
        for (int64_t s = 0; s < in[0].n; s++) {
            bool p = (int)in[0].v[s] == c, l = (int)in[1].v[s] == c;
            both += p && l, any += p || l;
        }
        out[0].v[c] = share(both, any);
    }
}

static void call_perplexity(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_perplexity(in[0], in[1], KILN_PERPLEXITY(.ignore = true, .ignore_index = 1));
}

static void expect_perplexity(const struct host *in, struct host *out)
{
    int64_t classes = in[0].dims[1];
    long double sum = 0, counted = 0;
    for (int64_t s = 0; s < in[1].n; s++) {
        long double all = 0;
        if (in[1].v[s] == 1) continue;
        for (int64_t c = 0; c < classes; c++) all += expl(in[0].v[s * classes + c]);
        sum += logl(all) - in[0].v[s * classes + (int64_t)in[1].v[s]];
        counted++;
    }
    out[0] = host_new(in[0].dtype, 0, NULL);
    out[0].v[0] = expl(sum / counted);
}

static void call_r2(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_r2_score(in[0], in[1]);
}

static void expect_r2(const struct host *in, struct host *out)
{
    long double mean = 0, rest = 0, all = 0;
    for (int64_t i = 0; i < in[0].n; i++) mean += in[1].v[i] / (long double)in[0].n;
    for (int64_t i = 0; i < in[0].n; i++) {
        rest += (in[0].v[i] - in[1].v[i]) * (in[0].v[i] - in[1].v[i]);
        all += (in[1].v[i] - mean) * (in[1].v[i] - mean);
    }
    out[0] = host_new(in[0].dtype, 0, NULL);
    out[0].v[0] = 1 - rest / all;
}

// Rounded, so that there are equal scores.
static void call_auroc(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_auroc(in[0], in[1]);
    out[1] = kiln_auroc(kiln_greater(in[0], kiln_scalar(0)), in[1]);
}

static void expect_auroc(const struct host *in, struct host *out)
{
    for (int k = 0; k < 2; k++) {
        long double wins = 0, pairs = 0;
        for (int64_t i = 0; i < in[0].n; i++)
            for (int64_t j = 0; j < in[0].n; j++) {
                long double a = in[0].v[i], b = in[0].v[j];
                if (k) a = a > 0, b = b > 0;
                if (in[1].v[i] == 0 || in[1].v[j] != 0) continue;
                wins += a > b ? 1 : a == b ? 0.5L : 0;
                pairs++;
            }
        out[k] = host_new(KILN_F32, 0, NULL);
        out[k].v[0] = wins / pairs;
    }
}

static const struct op_case metrics_cases[] = {
    {"accuracy", "rows", "20x5 i20<5", IN_FLOATS, call_accuracy, expect_accuracy, .n_out = 2, .units = 4},
    {"accuracy", "more axes", "3x4x5 i3x4<5", IN_WIDE, call_accuracy, expect_accuracy, .n_out = 2, .units = 4},
    {"confusion_matrix", "vectors", "i40<4 i40<4", IN_F32, call_confusion, expect_confusion, .n_out = 4, .units = 4},
    {"confusion_matrix", "few", "i2x1<4 i2x1<2", IN_F32, call_confusion, expect_confusion, .n_out = 4, .units = 4},
    {"precision", "averages", "i40<4 i40<4", IN_F32, call_precision, expect_precision, .n_out = 4, .units = 8},
    {"precision", "few", "i3<3 i3<3", IN_F32, call_precision, expect_precision, .n_out = 4, .units = 8},
    {"recall", "averages", "i40<4 i40<4", IN_F32, call_recall, expect_recall, .n_out = 4, .units = 8},
    {"f_score", "averages", "i40<4 i40<4", IN_F32, call_f_score, expect_f_score, .n_out = 4, .units = 16},
    {"f_score", "few", "i3<3 i3<3", IN_F32, call_f_score, expect_f_score, .n_out = 4, .units = 16},
    {"iou", "images", "i3x5<4 i3x5<4", IN_F32, call_iou, expect_iou, .units = 4},
    {"perplexity", "rows", "8x3 i8<3", IN_WIDE, call_perplexity, expect_perplexity, .units = 32, .order = 2},
    {"r2_score", "rows", "4x3 4x3", IN_WIDE, call_r2, expect_r2, .units = 32, .order = 2},
    {"auroc", "scores", "30 b30", IN_FLOATS, call_auroc, expect_auroc, .n_out = 2, .units = 4},
    {"auroc", "integers", "30 b30", IN_INTEGERS, call_auroc, expect_auroc, .n_out = 2, .units = 4},
};
FAMILY_OF(metrics);
