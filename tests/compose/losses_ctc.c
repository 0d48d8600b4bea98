// Connectionist temporal classification against the sum over all paths: every sequence of classes as long as the input,
// of which those count that become the labels when repetitions are merged and blanks dropped.
#include "compose/case.h"

#include <kiln/nn.h>

enum { STEPS = 5, BATCH = 4, CLASSES = 3, LENGTH = 3 };

static bool gives(const int *path, int steps, int blank, const long double *labels, int length)
{
    int at = 0;
    for (int t = 0; t < steps; t++) {
        if (path[t] == blank || (t > 0 && path[t] == path[t - 1])) continue;
        if (at == length || path[t] != (int)labels[at]) return false;
        at++;
    }
    return at == length;
}

// -log of the probability of sample n; x: log probabilities [T, N, C].
static long double brute(const struct host *x, int n, int steps, const long double *labels, int length, int blank)
{
    int path[STEPS] = {0};
    long double sum = 0;
    while (true) {
        if (gives(path, steps, blank, labels, length)) {
            long double p = 0;
            for (int t = 0; t < steps; t++) p += x->v[(t * BATCH + n) * CLASSES + path[t]];
            sum += expl(p);
        }
        int at = 0;
        while (at < steps && ++path[at] == CLASSES) path[at++] = 0;
        if (at == steps) break;
    }
    return -logl(sum);
}

// Lengths and labels as they are drawn: sample n has 2 + n steps, n labels of class 0 or 1, so that the last blank is
// class 2; the third sample repeats a label and has just enough steps.
static kiln_tensor *integers(kiln_tensor *x, size_t rank, const int64_t *dims, const int64_t *v)
{
    return kiln_from_data(kiln_tensor_device(x), KILN_I64, rank, dims, v);
}

static const int64_t labels_[BATCH * LENGTH] = {9, 9, 9, 1, -7, 9, 0, 0, 9, 0, 1, 0}, steps_[] = {2, 3, 4, 5},
                                     lengths_[] = {0, 1, 2, 3};

static kiln_tensor *ctc(kiln_tensor *x, int reduction)
{
    kiln_tensor *labels = integers(x, KILN_SHAPE(BATCH, LENGTH), labels_);
    kiln_tensor *steps = integers(x, KILN_SHAPE(BATCH), steps_), *lengths = integers(x, KILN_SHAPE(BATCH), lengths_);
    return kiln_loss_ctc(kiln_log_softmax(x, 2), labels, steps, lengths,
                         KILN_LOSS_CTC(.blank = 2, .reduction = reduction));
}

static void call_ctc(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = ctc(in[0], KILN_REDUCTION_NONE);
    out[1] = ctc(in[0], KILN_REDUCTION_MEAN);
}

static struct host normalised(const struct host *x)
{
    struct host y = host_copy(x);
    for (int64_t i = 0; i < x->n; i += CLASSES) {
        long double sum = 0;
        for (int c = 0; c < CLASSES; c++) sum += expl(x->v[i + c]);
        for (int c = 0; c < CLASSES; c++) y.v[i + c] = x->v[i + c] - logl(sum);
    }
    return y;
}

static void expect_ctc(const struct host *in, struct host *out)
{
    struct host x = normalised(&in[0]);
    out[0] = host_new(in[0].dtype, 1, (int64_t[]){BATCH});
    out[1] = host_new(in[0].dtype, 0, NULL);
    for (int n = 0; n < BATCH; n++) {
        long double labels[LENGTH];
        for (int k = 0; k < LENGTH; k++) labels[k] = (long double)labels_[n * LENGTH + k];
        out[0].v[n] = brute(&x, n, (int)steps_[n], labels, (int)lengths_[n], 2);
        out[1].v[0] += out[0].v[n] / (long double)(lengths_[n] ? lengths_[n] : 1) / BATCH;
    }
    host_free(&x);
}

// Labels that no path gives: three the same need five steps, here there are four.
static void impossible(kiln_tensor *const *in, kiln_tensor **out, bool zero)
{
    kiln_tensor *x = kiln_log_softmax(in[0], 2);
    static const int64_t labels[BATCH * LENGTH] = {1, 1, 1, 1, 1, 1, 1, 2, 1, 2, 2, 2}, steps[] = {4, 5, 3, 0};
    kiln_tensor *all = kiln_full_int(kiln_tensor_device(x), KILN_I32, KILN_SHAPE(BATCH), 3);
    out[0] = kiln_loss_ctc(x, integers(x, KILN_SHAPE(BATCH, LENGTH), labels), integers(x, KILN_SHAPE(BATCH), steps),
                           all, KILN_LOSS_CTC(.zero_infinity = zero, .reduction = KILN_REDUCTION_NONE));
}

static void call_impossible(kiln_tensor *const *in, kiln_tensor **out)
{
    impossible(in, out, false);
}

static void call_zero(kiln_tensor *const *in, kiln_tensor **out)
{
    impossible(in, out, true);
}

static void expect_without(const struct host *in, struct host *out, long double value)
{
    struct host x = normalised(&in[0]);
    out[0] = host_new(in[0].dtype, 1, (int64_t[]){BATCH});
    out[0].v[0] = out[0].v[3] = value;
    out[0].v[1] = brute(&x, 1, 5, (long double[]){1, 1, 1}, 3, 0);
    out[0].v[2] = brute(&x, 2, 3, (long double[]){1, 2, 1}, 3, 0);
    host_free(&x);
}

static void expect_impossible(const struct host *in, struct host *out)
{
    expect_without(in, out, INFINITY);
}

static void expect_zero(const struct host *in, struct host *out)
{
    expect_without(in, out, 0);
}

static void call_no_labels(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *x = kiln_log_softmax(in[0], 2), *none = kiln_zeros(kiln_tensor_device(x), KILN_I32, KILN_SHAPE(BATCH));
    kiln_tensor *labels = kiln_zeros(kiln_tensor_device(x), KILN_I32, KILN_SHAPE(BATCH, 0));
    kiln_tensor *steps = kiln_full_int(kiln_tensor_device(x), KILN_I32, KILN_SHAPE(BATCH), STEPS);
    out[0] = kiln_loss_ctc(x, labels, steps, none, KILN_LOSS_CTC(.blank = 1, .reduction = KILN_REDUCTION_SUM));
}

static void expect_no_labels(const struct host *in, struct host *out)
{
    struct host x = normalised(&in[0]);
    out[0] = host_new(in[0].dtype, 0, NULL);
    for (int n = 0; n < BATCH; n++) out[0].v[0] += brute(&x, n, STEPS, NULL, 0, 1);
    host_free(&x);
}

static const struct op_case losses_ctc_cases[] = {
    {"loss_ctc", "lengths", "5x4x3", IN_FLOATS, call_ctc, expect_ctc, .n_out = 2, .units = 64, .order = 1},
    {"loss_ctc", "impossible", "5x4x3", IN_WIDE, call_impossible, expect_impossible, .units = 64},
    {"loss_ctc", "zero_infinity", "5x4x3", IN_WIDE, call_zero, expect_zero, .units = 64, .order = 1},
    {"loss_ctc", "no labels", "5x4x3", IN_WIDE, call_no_labels, expect_no_labels, .units = 64, .order = 1},
};
FAMILY_OF(losses_ctc);
