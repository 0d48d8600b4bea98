// Recurrent networks: steps and sequences.
#include "compose/case.h"

#include <math.h>
#include <string.h>

// Inputs of sequences: x, then states, lengths, and weights in PyTorch's order.
enum kind { RNN, GRU, LSTM };

// --- a layer in one direction by plain loops

struct layer {
    enum kind kind;
    const struct host *w_ih, *w_hh, *b_ih, *b_hh, *w_hr;
    bool relu;
};

static long double sigmoid(long double x)
{
    return 1 / (1 + expl(-x));
}

static long double row_by(const struct host *w, int64_t row, const long double *v, int64_t n)
{
    long double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += w->v[row * n + i] * v[i];
    return sum;
}

static long double bias_at(const struct host *b, int64_t i)
{
    return b ? b->v[i] : 0;
}

// h [P] and c [H] are read and written; x [I].
static void step(const struct layer *l, const long double *x, int64_t in, long double *h, long double *c)
{
    static const int64_t gates[] = {1, 3, 4};
    int64_t rows = l->w_ih->dims[0], n = rows / gates[l->kind], p = l->w_hh->dims[1];
    long double a[32], b[32], new_h[8];
    for (int64_t r = 0; r < rows; r++) {
        a[r] = row_by(l->w_ih, r, x, in) + bias_at(l->b_ih, r);
        b[r] = row_by(l->w_hh, r, h, p) + bias_at(l->b_hh, r);
    }
    for (int64_t i = 0; i < n; i++) {
        if (l->kind == RNN) {
            new_h[i] = l->relu ? fmaxl(0, a[i] + b[i]) : tanhl(a[i] + b[i]);
        } else if (l->kind == GRU) {
            long double r = sigmoid(a[i] + b[i]), z = sigmoid(a[n + i] + b[n + i]);
            new_h[i] = (1 - z) * tanhl(a[2 * n + i] + r * b[2 * n + i]) + z * h[i];
        } else {
            c[i] = sigmoid(a[n + i] + b[n + i]) * c[i] + sigmoid(a[i] + b[i]) * tanhl(a[2 * n + i] + b[2 * n + i]);
            new_h[i] = sigmoid(a[3 * n + i] + b[3 * n + i]) * tanhl(c[i]);
        }
    }
    for (int64_t i = 0; i < p; i++) h[i] = l->w_hr ? row_by(l->w_hr, i, new_h, n) : new_h[i];
}

// x and y [T, N, ...] of which y's features from `at` on are this direction's; h and c [N, ...] begin, and end.
static void sequence(const struct layer *l, const struct host *x, struct host *y, int64_t at, long double *h,
                     long double *c, const struct host *lengths, bool reverse)
{
    int64_t T = x->dims[0], N = x->dims[1], in = x->dims[2], p = l->w_hh->dims[1], n = l->w_ih->dims[0] / 4;
    for (int64_t b = 0; b < N; b++)
        for (int64_t k = 0; k < T; k++) {
            int64_t t = reverse ? T - 1 - k : k;
            long double *to = y->v + (t * N + b) * y->dims[2] + at;
            if (lengths && t >= lengths->v[b]) {
                for (int64_t i = 0; i < p; i++) to[i] = 0;
                continue;
            }
            step(l, x->v + (t * N + b) * in, in, h + b * p, c + b * n);
            memcpy(to, h + b * p, sizeof *to * (size_t)p);
        }
}

// --- steps

static void call_rnn_cell(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_rnn_cell(in[0], in[1], in[2], in[3], in[4], in[5], NULL);
}

static void call_rnn_cell_relu(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_rnn_cell(in[0], in[1], in[2], in[3], NULL, NULL, KILN_RNN_CELL(.relu = true));
}

static void call_gru_cell(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_gru_cell(in[0], in[1], in[2], in[3], in[4], in[5]);
}

static void call_lstm_cell(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_lstm_cell(in[0], in[1], in[2], in[3], in[4], in[5], in[6], &out[0], &out[1]);
}

static void call_lstm_cell_plain(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_lstm_cell(in[0], in[1], in[2], in[3], in[4], NULL, NULL, &out[0], &out[1]);
}

// in: x [N, I], h, perhaps c, then weights.
static void one_step(const struct host *in, struct host *out, struct layer l, bool biased)
{
    size_t first = l.kind == LSTM ? 3 : 2;
    l.w_ih = &in[first], l.w_hh = &in[first + 1];
    if (biased) l.b_ih = &in[first + 2], l.b_hh = &in[first + 3];
    long double none[8];
    out[0] = host_copy(&in[1]);
    if (l.kind == LSTM) out[1] = host_copy(&in[2]);
    int64_t width = in[0].dims[1], n = in[1].dims[1];
    for (int64_t b = 0; b < in[0].dims[0]; b++)
        step(&l, in[0].v + b * width, width, out[0].v + b * n, l.kind == LSTM ? out[1].v + b * n : none);
}

static void expect_rnn_cell(const struct host *in, struct host *out)
{
    one_step(in, out, (struct layer){.kind = RNN}, true);
}

static void expect_rnn_cell_relu(const struct host *in, struct host *out)
{
    one_step(in, out, (struct layer){.kind = RNN, .relu = true}, false);
}

static void expect_gru_cell(const struct host *in, struct host *out)
{
    one_step(in, out, (struct layer){.kind = GRU}, true);
}

static void expect_lstm_cell(const struct host *in, struct host *out)
{
    one_step(in, out, (struct layer){.kind = LSTM}, true);
}

static void expect_lstm_cell_plain(const struct host *in, struct host *out)
{
    one_step(in, out, (struct layer){.kind = LSTM}, false);
}

// --- sequences: of one layer, and of two in both directions

static void call_rnn(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_rnn(in[0], in[1], NULL, in + 2, 4, NULL, &out[0], &out[1]);
}

static void call_gru(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_gru(in[0], in[1], NULL, in + 2, 4, NULL, &out[0], &out[1]);
}

static void call_lstm(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_lstm(in[0], in[1], in[2], NULL, in + 3, 4, NULL, &out[0], &out[1], &out[2]);
}

static void call_gru_lengths(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_gru(in[0], in[1], in[2], in + 3, 4, KILN_RECURRENT(.bidirectional = true), &out[0], &out[1]);
}

static void call_lstm_deep(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_lstm(in[0], NULL, NULL, in[1], in + 2, 8,
              KILN_RECURRENT(.layers = 2, .bidirectional = true, .batch_first = true), &out[0], &out[1], &out[2]);
}

static void call_lstm_projected(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_lstm(in[0], NULL, NULL, NULL, in + 1, 5, KILN_RECURRENT(.projected = true), &out[0], &out[1], &out[2]);
}

static void call_rnn_relu_alone(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_rnn(in[0], in[1], NULL, in + 2, 4, KILN_RECURRENT(.layers = 2, .relu = true), &out[0], &out[1]);
}

struct network {
    enum kind kind;
    int64_t layers, directions;
    bool biased, projected, relu;
    const struct host *x, *h0, *c0, *lengths, *weights; // x [T, N, I]
};

static struct host zeros_or(const struct host *given, int dtype, int64_t rows, int64_t n, int64_t width)
{
    int64_t dims[] = {rows, n, width};
    return given ? host_copy(given) : host_new(dtype, 3, dims);
}

static void network(const struct network *w, struct host *y, struct host *h, struct host *c)
{
    int64_t each = 2 + 2 * w->biased + w->projected, rows = w->layers * w->directions, T = w->x->dims[0],
            N = w->x->dims[1];
    static const int64_t gates[] = {1, 3, 4};
    int64_t width = w->weights[0].dims[0] / gates[w->kind], p = w->weights[1].dims[1];
    int64_t dims[] = {T, N, w->directions * p};
    struct host x = host_copy(w->x);
    *h = zeros_or(w->h0, x.dtype, rows, N, p);
    *c = zeros_or(w->c0, x.dtype, rows, N, width);
    for (int64_t row = 0; row < rows; row++) {
        const struct host *at = w->weights + row * each;
        struct layer l = {w->kind, at, at + 1, NULL, NULL, w->projected ? at + each - 1 : NULL, w->relu};
        if (w->biased) l.b_ih = at + 2, l.b_hh = at + 3;
        bool reverse = row % w->directions == 1;
        if (!reverse) *y = host_new(x.dtype, 3, dims);
        sequence(&l, &x, y, reverse ? p : 0, h->v + row * N * p, c->v + row * N * width, w->lengths, reverse);
        if ((row + 1) % w->directions) continue;
        host_free(&x);
        x = host_copy(y);
        if (row + 1 < rows) host_free(y);
    }
    host_free(&x);
}

static void without_c(const struct network *w, struct host *out)
{
    struct host c;
    network(w, &out[0], &out[1], &c);
    host_free(&c);
}

static void expect_rnn(const struct host *in, struct host *out)
{
    without_c(&(struct network){RNN, 1, 1, true, .x = in, .h0 = in + 1, .weights = in + 2}, out);
}

static void expect_gru(const struct host *in, struct host *out)
{
    without_c(&(struct network){GRU, 1, 1, true, .x = in, .h0 = in + 1, .weights = in + 2}, out);
}

static void expect_lstm(const struct host *in, struct host *out)
{
    network(&(struct network){LSTM, 1, 1, true, .x = in, .h0 = in + 1, .c0 = in + 2, .weights = in + 3}, &out[0],
            &out[1], &out[2]);
}

static void expect_gru_lengths(const struct host *in, struct host *out)
{
    without_c(&(struct network){GRU, 1, 2, false, .x = in, .h0 = in + 1, .lengths = in + 2, .weights = in + 3}, out);
}

static void expect_lstm_projected(const struct host *in, struct host *out)
{
    network(&(struct network){LSTM, 1, 1, true, true, .x = in, .weights = in + 1}, &out[0], &out[1], &out[2]);
}

// [A, B, C] as [B, A, C].
static struct host exchanged(const struct host *x)
{
    int64_t dims[] = {x->dims[1], x->dims[0], x->dims[2]};
    struct host out = host_new(x->dtype, 3, dims);
    for (int64_t a = 0; a < x->dims[0]; a++)
        for (int64_t b = 0; b < x->dims[1]; b++)
            memcpy(out.v + (b * dims[1] + a) * dims[2], x->v + (a * dims[0] + b) * dims[2],
                   sizeof *out.v * (size_t)dims[2]);
    return out;
}

static void expect_lstm_deep(const struct host *in, struct host *out)
{
    struct host x = exchanged(in), y;
    network(&(struct network){LSTM, 2, 2, false, .x = &x, .lengths = in + 1, .weights = in + 2}, &y, &out[1], &out[2]);
    out[0] = exchanged(&y);
    host_free(&x);
    host_free(&y);
}

// x [T, I], h0 [layers, H].
static void expect_rnn_relu_alone(const struct host *in, struct host *out)
{
    struct host x = in[0], h0 = in[1];
    x.rank = h0.rank = 3;
    x.dims[2] = in[0].dims[1], x.dims[1] = 1;
    h0.dims[2] = in[1].dims[1], h0.dims[1] = 1;
    without_c(&(struct network){RNN, 2, 1, false, false, true, .x = &x, .h0 = &h0, .weights = in + 2}, out);
    for (int i = 0; i < 2; i++) {
        out[i].rank = 2;
        out[i].dims[1] = out[i].dims[2];
    }
}

static const struct op_case networks_recurrent_cases[] = {
    {"rnn_cell", "tanh", "2x3 2x4 4x3 4x4 4 4", IN_WIDE, call_rnn_cell, expect_rnn_cell, .units = 64, .order = 2},
    {"rnn_cell", "relu", "2x3 2x4 4x3 4x4", IN_WIDE, call_rnn_cell_relu, expect_rnn_cell_relu, .units = 64, .order = 2},
    {"gru_cell", "biased", "2x3 2x2 6x3 6x2 6 6", IN_WIDE, call_gru_cell, expect_gru_cell, .units = 64, .order = 2},
    {"lstm_cell", "biased", "2x3 2x2 2x2 8x3 8x2 8 8", IN_WIDE, call_lstm_cell, expect_lstm_cell, .n_out = 2,
     .units = 64, .order = 2},
    {"lstm_cell", "plain", "2x3 2x2 2x2 8x3 8x2", IN_WIDE, call_lstm_cell_plain, expect_lstm_cell_plain, .n_out = 2,
     .units = 64},
    {"rnn", "one layer", "3x2x2 1x2x3 3x2 3x3 3 3", IN_WIDE, call_rnn, expect_rnn, .n_out = 2, .units = 256,
     .order = 2},
    {"gru", "one layer", "3x2x2 1x2x2 6x2 6x2 6 6", IN_WIDE, call_gru, expect_gru, .n_out = 2, .units = 256,
     .order = 2},
    {"lstm", "one layer", "3x2x2 1x2x2 1x2x2 8x2 8x2 8 8", IN_WIDE, call_lstm, expect_lstm, .n_out = 3, .units = 256,
     .order = 2},
    {"gru", "both directions, lengths", "4x3x2 2x3x2 i3<5 6x2 6x2 6x2 6x2", IN_WIDE, call_gru_lengths,
     expect_gru_lengths, .n_out = 2, .units = 256, .order = 1},
    {"lstm", "two layers, both directions, batch first", "3x4x2 i3<5 8x2 8x2 8x2 8x2 8x4 8x2 8x4 8x2", IN_WIDE,
     call_lstm_deep, expect_lstm_deep, .n_out = 3, .units = 512, .order = 1},
    {"lstm", "projected", "3x2x2 12x2 12x2 12 12 2x3", IN_WIDE, call_lstm_projected, expect_lstm_projected, .n_out = 3,
     .units = 256, .order = 1},
    {"rnn", "two layers, relu, alone", "4x2 2x3 3x2 3x3 3x3 3x3", IN_WIDE, call_rnn_relu_alone, expect_rnn_relu_alone,
     .n_out = 2, .units = 256},
    {"lstm", "no steps", "0x2x2 1x2x2 1x2x2 8x2 8x2 8 8", IN_WIDE, call_lstm, expect_lstm, .n_out = 3, .units = 64},
};
FAMILY_OF(networks_recurrent);
