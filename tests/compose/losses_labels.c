// Losses of classes and of pairs, against plain loops.
#include "compose/case.h"

#include <kiln/nn.h>

// 16-bit floats are rounded at each step.
#define HALVES (1 << 18)
#define NONE   KILN_REDUCTION_NONE

static struct host samples_of(const struct host *labels, int dtype)
{
    return host_new(dtype, labels->rank, labels->dims);
}

// Log probability of class c at sample s of [N, C, rest], by softmax if asked for.
static long double log_p(const struct host *x, int64_t s, int64_t c, bool softmax)
{
    int64_t classes = x->dims[1], rest = x->n / (x->dims[0] * classes), n = s / rest, r = s % rest;
    long double sum = 0, own = x->v[(n * classes + c) * rest + r];
    for (int64_t k = 0; k < classes; k++) sum += expl(x->v[(n * classes + k) * rest + r]);
    return softmax ? own - logl(sum) : own;
}

static const kiln_loss_weighted_nll_opts *nll_opts(kiln_tensor *weight, int reduction)
{
    static kiln_loss_weighted_nll_opts o;
    o = (kiln_loss_weighted_nll_opts){
        .size = sizeof o, .weight = weight, .ignore = true, .ignore_index = 2, .reduction = reduction};
    return &o;
}

static void call_nll(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *w = kiln_exp(in[2]);
    out[0] = kiln_loss_weighted_nll(in[0], in[1], nll_opts(w, KILN_REDUCTION_MEAN));
    out[1] = kiln_loss_weighted_nll(in[0], in[1], nll_opts(w, NONE));
    out[2] = kiln_loss_weighted_nll(in[0], in[1], nll_opts(NULL, KILN_REDUCTION_MEAN));
    out[3] = kiln_loss_weighted_nll(in[0], in[1], NULL);
}

static void expect_nll(const struct host *in, struct host *out)
{
    long double weighted = 0, weights = 0, plain = 0, counted = 0, all = 0;
    for (int k = 0; k < 4; k++) out[k] = k == 1 ? samples_of(&in[1], in[0].dtype) : host_new(in[0].dtype, 0, NULL);
    for (int64_t s = 0; s < in[1].n; s++) {
        int64_t label = (int64_t)in[1].v[s];
        long double loss = -log_p(&in[0], s, label, false), w = expl(in[2].v[label]);
        all += loss;
        out[1].v[s] = label == 2 ? 0 : w * loss;
        if (label == 2) continue;
        weighted += w * loss, weights += w, plain += loss, counted++;
    }
    out[0].v[0] = weighted / weights;
    out[2].v[0] = plain / counted;
    out[3].v[0] = all / (long double)in[1].n;
}

static void call_cross_entropy(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *w = kiln_exp(in[2]);
    out[0] = kiln_loss_weighted_cross_entropy(in[0], in[1],
                                              KILN_LOSS_WEIGHTED_CROSS_ENTROPY(.weight = w, .label_smoothing = 0.2));
    out[1] = kiln_loss_weighted_cross_entropy(in[0], in[1],
                                              KILN_LOSS_WEIGHTED_CROSS_ENTROPY(.weight = w, .label_smoothing = 0.2,
                                                                               .ignore = true, .ignore_index = 1,
                                                                               .reduction = KILN_REDUCTION_SUM));
    out[2] = kiln_loss_weighted_cross_entropy(in[0], in[1], KILN_LOSS_WEIGHTED_CROSS_ENTROPY(.reduction = NONE));
}

static void expect_cross_entropy(const struct host *in, struct host *out)
{
    int64_t classes = in[0].dims[1];
    long double mean = 0, weights = 0, sum = 0;
    out[0] = host_new(in[0].dtype, 0, NULL);
    out[1] = host_new(in[0].dtype, 0, NULL);
    out[2] = samples_of(&in[1], in[0].dtype);
    for (int64_t s = 0; s < in[1].n; s++) {
        int64_t label = (int64_t)in[1].v[s];
        long double own = -log_p(&in[0], s, label, true), w = expl(in[2].v[label]), flat = 0;
        for (int64_t c = 0; c < classes; c++) flat -= expl(in[2].v[c]) * log_p(&in[0], s, c, true);
        long double loss = 0.8L * w * own + 0.2L * flat / (long double)classes;
        mean += loss, weights += w;
        if (label != 1) sum += loss;
        out[2].v[s] = own;
    }
    out[0].v[0] = mean / weights;
    out[1].v[0] = sum;
}

static void call_soft(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *p = kiln_softmax(in[1], 1), *w = kiln_exp(in[2]);
    out[0] = kiln_loss_weighted_cross_entropy(in[0], p,
                                              KILN_LOSS_WEIGHTED_CROSS_ENTROPY(.weight = w, .label_smoothing = 0.1));
}

static void expect_soft(const struct host *in, struct host *out)
{
    int64_t classes = in[0].dims[1], samples = in[0].n / classes;
    out[0] = host_new(in[0].dtype, 0, NULL);
    for (int64_t s = 0; s < samples; s++)
        for (int64_t c = 0; c < classes; c++) {
            long double t = 0.9L * expl(log_p(&in[1], s, c, true)) + 0.1L / (long double)classes;
            out[0].v[0] -= t * expl(in[2].v[c]) * log_p(&in[0], s, c, true) / (long double)samples;
        }
}

static void call_multi_margin(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_loss_multi_margin(in[0], in[1], KILN_LOSS_MULTI_MARGIN(.reduction = NONE));
}

static void call_squared_margin(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *w = kiln_exp(in[2]);
    out[0] = kiln_loss_multi_margin(in[0], in[1],
                                    KILN_LOSS_MULTI_MARGIN(.p = 2, .margin = 0.7, .weight = w, .reduction = NONE));
}

static void multi_margin(const struct host *in, struct host *out, bool squared)
{
    int64_t n = in[0].dims[0], classes = in[0].dims[1];
    out[0] = host_new(in[0].dtype, 1, &n);
    for (int64_t s = 0; s < n; s++) {
        int64_t label = (int64_t)in[1].v[s];
        for (int64_t c = 0; c < classes; c++) {
            long double d = (squared ? 0.7L : 1) - in[0].v[s * classes + label] + in[0].v[s * classes + c];
            d = c == label || d < 0 ? 0 : d;
            out[0].v[s] += (squared ? d * d * expl(in[2].v[label]) : d) / (long double)classes;
        }
    }
}

static void expect_multi_margin(const struct host *in, struct host *out)
{
    multi_margin(in, out, false);
}

static void expect_squared_margin(const struct host *in, struct host *out)
{
    multi_margin(in, out, true);
}

static void call_multilabel_margin(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_loss_multilabel_margin(in[0], in[1], NONE);
}

static void expect_multilabel_margin(const struct host *in, struct host *out)
{
    int64_t n = in[0].dims[0], classes = in[0].dims[1];
    out[0] = host_new(in[0].dtype, 1, &n);
    for (int64_t s = 0; s < n; s++) {
        const long double *x = &in[0].v[s * classes], *labels = &in[1].v[s * classes];
        bool is_label[16] = {false};
        int64_t count = 0;
        while (count < classes && labels[count] >= 0) is_label[(int)labels[count++]] = true;
        for (int64_t k = 0; k < count; k++)
            for (int64_t c = 0; c < classes; c++)
                if (!is_label[c]) out[0].v[s] += fmaxl(0, 1 - x[(int)labels[k]] + x[c]) / (long double)classes;
    }
}

static void call_multilabel_soft(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_loss_multilabel_soft_margin(in[0], in[1], in[2], NONE);
    out[1] = kiln_loss_multilabel_soft_margin(in[0], in[1], NULL, KILN_REDUCTION_MEAN);
}

static void expect_multilabel_soft(const struct host *in, struct host *out)
{
    int64_t n = in[0].dims[0], classes = in[0].dims[1];
    out[0] = host_new(in[0].dtype, 1, &n);
    out[1] = host_new(in[0].dtype, 0, NULL);
    for (int64_t i = 0; i < in[0].n; i++) {
        long double x = in[0].v[i], loss = log1pl(expl(-fabsl(x))) + fmaxl(x, 0) - x * in[1].v[i];
        out[0].v[i / classes] += loss * in[2].v[i % classes] / (long double)classes;
        out[1].v[0] += loss / (long double)in[0].n;
    }
}

static void call_ranking(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_loss_margin_ranking(in[0], in[1], in[2], 0.3, NONE);
}

static void expect_ranking(const struct host *in, struct host *out)
{
    out[0] = host_new(in[0].dtype, in[0].rank, in[0].dims);
    for (int64_t i = 0; i < in[0].n; i++) out[0].v[i] = fmaxl(0, 0.3L - in[2].v[i] * (in[0].v[i] - in[1].v[i]));
}

static void call_cosine(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_loss_cosine_embedding(in[0], in[1], in[2], 0.1, NONE);
}

static long double dot(const long double *a, const long double *b, int64_t n)
{
    long double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

static void expect_cosine(const struct host *in, struct host *out)
{
    int64_t n = in[0].dims[0], width = in[0].dims[1];
    out[0] = host_new(in[0].dtype, 1, &n);
    for (int64_t s = 0; s < n; s++) {
        const long double *a = &in[0].v[s * width], *b = &in[1].v[s * width];
        long double c = dot(a, b, width) / sqrtl(dot(a, a, width) * dot(b, b, width));
        out[0].v[s] = in[2].v[s] > 0 ? 1 - c : fmaxl(0, c - 0.1L);
    }
}

static void call_triplet(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_loss_triplet_margin(in[0], in[1], in[2], KILN_LOSS_TRIPLET_MARGIN(.reduction = NONE));
    out[1] = kiln_loss_triplet_margin(in[0], in[1], in[2],
                                      KILN_LOSS_TRIPLET_MARGIN(.p = 3, .margin = 2, .swap = true, .reduction = NONE));
}

static long double apart(const long double *a, const long double *b, int64_t n, long double p)
{
    long double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += powl(fabsl(a[i] - b[i] + 1e-6L), p);
    return powl(sum, 1 / p);
}

static void expect_triplet(const struct host *in, struct host *out)
{
    int64_t n = in[0].dims[0], width = in[0].dims[1];
    for (int k = 0; k < 2; k++) {
        out[k] = host_new(in[0].dtype, 1, &n);
        for (int64_t s = 0; s < n; s++) {
            const long double *a = &in[0].v[s * width], *b = &in[1].v[s * width], *c = &in[2].v[s * width];
            long double p = k ? 3 : 2, far = apart(a, c, width, p);
            if (k) far = fminl(far, apart(b, c, width, p));
            out[k].v[s] = fmaxl(0, apart(a, b, width, p) - far + (k ? 2 : 1));
        }
    }
}

static void call_info_nce(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_loss_info_nce(in[0], in[1], 0.5, NONE);
}

static void expect_info_nce(const struct host *in, struct host *out)
{
    int64_t n = in[0].dims[0], keys = in[1].dims[0], width = in[0].dims[1];
    out[0] = host_new(in[0].dtype, 1, &n);
    for (int64_t s = 0; s < n; s++) {
        long double sum = 0, own = 0;
        const long double *a = &in[0].v[s * width];
        for (int64_t k = 0; k < keys; k++) {
            const long double *b = &in[1].v[k * width];
            long double c = dot(a, b, width) / sqrtl(dot(a, a, width) * dot(b, b, width)) / 0.5L;
            sum += expl(c);
            if (k == s) own = c;
        }
        out[0].v[s] = logl(sum) - own;
    }
}

static const struct op_case losses_labels_cases[] = {
    {"loss_weighted_nll", "rows", "5x4 i5<4 4", IN_WIDE, call_nll, expect_nll, .n_out = 4, .units = 64, .order = 2},
    {"loss_weighted_nll", "rows, halves", "5x4 i5<4 4", IN_HALF, call_nll, expect_nll, .n_out = 4, .units = HALVES},
    {"loss_weighted_nll", "images", "2x4x3x2 i2x3x2<4 4", IN_WIDE, call_nll, expect_nll, .n_out = 4, .units = 64,
     .order = 1},
    {"loss_weighted_cross_entropy", "rows", "5x4 i5<4 4", IN_WIDE, call_cross_entropy, expect_cross_entropy, .n_out = 3,
     .units = 64, .order = 2},
    {"loss_weighted_cross_entropy", "images", "2x3x4 i2x4<3 3", IN_WIDE, call_cross_entropy, expect_cross_entropy,
     .n_out = 3, .units = 64, .order = 1},
    {"loss_weighted_cross_entropy", "probabilities", "2x3x4 2x3x4 3", IN_WIDE, call_soft, expect_soft, .units = 64,
     .order = 1},
    {"loss_multi_margin", "rows", "5x4 i5<4", IN_WIDE, call_multi_margin, expect_multi_margin, .units = 32, .order = 2},
    {"loss_multi_margin", "squares", "5x4 i5<4 4", IN_WIDE, call_squared_margin, expect_squared_margin, .units = 32,
     .order = 2},
    {"loss_multilabel_margin", "rows", "6x5 n6x5<5", IN_WIDE, call_multilabel_margin, expect_multilabel_margin,
     .units = 32, .order = 1},
    {"loss_multilabel_soft_margin", "rows", "3x4 3x4 4", IN_WIDE, call_multilabel_soft, expect_multilabel_soft,
     .n_out = 2, .units = 32, .order = 2},
    {"loss_margin_ranking", "vectors", "7 7 7", IN_FLOATS, call_ranking, expect_ranking, .units = 8, .order = 1},
    {"loss_cosine_embedding", "rows", "5x3 5x3 5", IN_WIDE, call_cosine, expect_cosine, .units = 32, .order = 1},
    {"loss_triplet_margin", "rows", "5x3 5x3 5x3", IN_WIDE, call_triplet, expect_triplet, .n_out = 2, .units = 64,
     .order = 2},
    {"loss_info_nce", "rows", "3x4 5x4", IN_WIDE, call_info_nce, expect_info_nce, .units = 64, .order = 2},
};
FAMILY_OF(losses_labels);
