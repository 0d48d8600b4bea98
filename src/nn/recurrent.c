// Recurrent cells: steps and sequences, with PyTorch's parameters.
#include "nn/cell.h"
#include "nn/init.h"

#include <inttypes.h>
#include <kiln/composites.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum kind { RNN, GRU, LSTM };

static const struct of_kind {
    const char *layer, *cell;
    int64_t gates;
    size_t states;
} kinds[] = {
    [RNN] = {"rnn", "rnn_cell", 1, 1}, [GRU] = {"gru", "gru_cell", 3, 1}, [LSTM] = {"lstm", "lstm_cell", 4, 2}};

struct recurrent {
    enum kind kind;
    kiln_nn_recurrent_opts o;
    size_t n_weights;
};

// Uniform in plus and minus 1 / sqrt(hidden), as PyTorch begins.
struct initial {
    char text[INIT_TEXT_B];
};

static struct initial initial_of(int64_t hidden, const kiln_nn_recurrent_opts *o)
{
    struct initial i;
    if (o->init)
        snprintf(i.text, sizeof i.text, "%s", o->init);
    else
        init_by_fan_in(i.text, hidden);
    return i;
}

static kiln_cell *begin(const char *name, enum kind kind, kiln_construct_fn run, int64_t in, int64_t hidden,
                        const kiln_nn_recurrent_opts *o)
{
    char function[24];
    if (kiln_error()) return NULL;
    if (in < 1 || hidden < 1 || o->layers < 0 || o->projection < 0 || !(o->dropout >= 0 && o->dropout < 1)) {
        error_set(KILN_E_ARGUMENT,
                  "nn_%s: in and hidden must be positive, layers and projection not negative, dropout in [0, 1), got "
                  "%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 ", %g",
                  name, in, hidden, o->layers, o->projection, o->dropout);
        return NULL;
    }
    if ((o->projection && kind != LSTM) || (o->relu && kind != RNN)) {
        error_set(KILN_E_ARGUMENT, "nn_%s: .projection is of lstm, .relu of rnn", name);
        return NULL;
    }
    kiln_cell *cell = cell_make(name, run, sizeof(struct recurrent));
    if (!cell) return NULL;
    struct recurrent *r = cell->user;
    *r = (struct recurrent){.kind = kind, .o = *o};
    r->o.init = NULL; // borrowed
    cell_say_sizes(cell, "%" PRId64 " → %" PRId64, in, hidden);
    snprintf(function, sizeof function, "nn_%s", name);
    r->o.no_bias = !cell_wants_bias(function, o->bias, o->no_bias, true);
    cell->n_in = cell->n_out = 0;
    return cell;
}

// --- steps

static kiln_status run_step(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                            size_t n_out)
{
    const struct recurrent *r = user;
    kiln_tensor *w[4], *h = in[1];
    for (size_t i = 0; i < 4; i++) w[i] = cell_tensor_at(cell, i);
    if (r->kind == LSTM) return kiln_lstm_cell(in[0], h, in[2], w[0], w[1], w[2], w[3], &out[0], &out[1]);
    out[0] = r->kind == GRU ? kiln_gru_cell(in[0], h, w[0], w[1], w[2], w[3])
                            : kiln_rnn_cell(in[0], h, w[0], w[1], w[2], w[3], KILN_RNN_CELL(.relu = r->o.relu));
    return kiln_error();
}

static kiln_cell *step_cell(enum kind kind, kiln_device *dev, int64_t in, int64_t hidden,
                            const kiln_nn_recurrent_opts *opts)
{
    kiln_nn_recurrent_opts o;
    const struct of_kind *k = &kinds[kind];
    char name[24];
    snprintf(name, sizeof name, "nn_%s", k->cell);
    if (options_read(name, KILN_NN_RECURRENT, &o, opts)) return NULL;
    if (!kiln_error() && (o.layers || o.bidirectional || o.batch_first || o.lengths || o.dropout > 0 || o.projection))
        error_set(KILN_E_ARGUMENT, "nn_%s: a step has only .bias, .no_bias, .relu, .init and .dtype", k->cell);
    kiln_cell *cell = begin(k->cell, kind, run_step, in, hidden, &o);
    if (!cell) return NULL;
    cell->n_in = 1 + k->states;
    cell->n_out = k->states;
    int64_t rows = k->gates * hidden;
    struct initial init = initial_of(hidden, &o);
    kiln_dtype dtype = dtype_or_f32(o.dtype);
    kiln_cell_make_parameter(cell, "weight_ih", dev, dtype, KILN_SHAPE(rows, in), init.text);
    kiln_cell_make_parameter(cell, "weight_hh", dev, dtype, KILN_SHAPE(rows, hidden), init.text);
    if (!((struct recurrent *)cell->user)->o.no_bias) {
        kiln_cell_make_parameter(cell, "bias_ih", dev, dtype, KILN_SHAPE(rows), init.text);
        kiln_cell_make_parameter(cell, "bias_hh", dev, dtype, KILN_SHAPE(rows), init.text);
    }
    return cell_or_null(cell);
}

kiln_cell *kiln_nn_rnn_cell(kiln_device *dev, int64_t in, int64_t hidden, const kiln_nn_recurrent_opts *opts)
{
    return step_cell(RNN, dev, in, hidden, opts);
}

kiln_cell *kiln_nn_gru_cell(kiln_device *dev, int64_t in, int64_t hidden, const kiln_nn_recurrent_opts *opts)
{
    return step_cell(GRU, dev, in, hidden, opts);
}

kiln_cell *kiln_nn_lstm_cell(kiln_device *dev, int64_t in, int64_t hidden, const kiln_nn_recurrent_opts *opts)
{
    return step_cell(LSTM, dev, in, hidden, opts);
}

// --- sequences

// x, then all states or none, then the lengths if there are some.
static kiln_status check_counts(const kiln_cell *cell, const struct recurrent *r, size_t n_in, size_t n_out)
{
    size_t states = kinds[r->kind].states, given = n_in - r->o.lengths;
    if ((given != 1 && given != 1 + states) || n_out < 1 || n_out > 1 + states)
        return error_set(
            KILN_E_ARGUMENT,
            "%s cell: takes x and perhaps %zu states%s, and gives 1 to %zu outputs, got %zu inputs and %zu "
            "outputs",
            cell->kind, states, r->o.lengths ? ", then lengths" : "", 1 + states, n_in, n_out);
    return KILN_OK;
}

static kiln_status run_sequence(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                size_t n_out)
{
    const struct recurrent *r = user;
    TRY(check_counts(cell, r, n_in, n_out));
    size_t n = r->n_weights, given = n_in - r->o.lengths;
    kiln_tensor *lengths = r->o.lengths ? in[n_in - 1] : NULL, *h0 = given > 1 ? in[1] : NULL, *made[3] = {NULL};
    kiln_tensor *weights[5 * 256];
    for (size_t i = 0; i < n; i++) weights[i] = cell_tensor_at(cell, i);
    const kiln_recurrent_opts *o =
        KILN_RECURRENT(.layers = r->o.layers, .bidirectional = r->o.bidirectional, .batch_first = r->o.batch_first,
                       .dropout = cell->training ? r->o.dropout : 0, .projected = r->o.projection > 0,
                       .relu = r->o.relu);
    kiln_status status =
        r->kind == LSTM  ? kiln_lstm(in[0], h0, h0 ? in[2] : NULL, lengths, weights, n, o, &made[0], &made[1], &made[2])
        : r->kind == GRU ? kiln_gru(in[0], h0, lengths, weights, n, o, &made[0], &made[1])
                         : kiln_rnn(in[0], h0, lengths, weights, n, o, &made[0], &made[1]);
    memcpy(out, made, n_out * sizeof *out);
    return status;
}

static void add(kiln_cell *cell, const char *what, int64_t layer, bool reverse, kiln_device *dev, size_t rank,
                const int64_t *dims, const char *init)
{
    struct recurrent *r = cell->user;
    char name[64];
    snprintf(name, sizeof name, "%s_l%" PRId64 "%s", what, layer, reverse ? "_reverse" : "");
    kiln_cell_make_parameter(cell, name, dev, dtype_or_f32(r->o.dtype), rank, dims, init);
    r->n_weights++;
}

static void add_layer(kiln_cell *cell, int64_t layer, bool reverse, kiln_device *dev, int64_t in, int64_t hidden,
                      const char *init)
{
    const struct recurrent *r = cell->user;
    int64_t rows = kinds[r->kind].gates * hidden, state = r->o.projection ? r->o.projection : hidden;
    add(cell, "weight_ih", layer, reverse, dev, KILN_SHAPE(rows, in), init);
    add(cell, "weight_hh", layer, reverse, dev, KILN_SHAPE(rows, state), init);
    if (!r->o.no_bias) {
        add(cell, "bias_ih", layer, reverse, dev, KILN_SHAPE(rows), init);
        add(cell, "bias_hh", layer, reverse, dev, KILN_SHAPE(rows), init);
    }
    if (r->o.projection) add(cell, "weight_hr", layer, reverse, dev, KILN_SHAPE(state, hidden), init);
}

static kiln_cell *sequence_cell(enum kind kind, kiln_device *dev, int64_t in, int64_t hidden,
                                const kiln_nn_recurrent_opts *opts)
{
    kiln_nn_recurrent_opts o;
    char name[16];
    snprintf(name, sizeof name, "nn_%s", kinds[kind].layer);
    if (options_read(name, KILN_NN_RECURRENT, &o, opts)) return NULL;
    if (!o.layers) o.layers = 1;
    int64_t directions = o.bidirectional ? 2 : 1, state = o.projection ? o.projection : hidden;
    if (!kiln_error() && o.layers > 256 / directions)
        error_set(KILN_E_ARGUMENT, "%s: at most 256 layers and directions, got %" PRId64, name, o.layers * directions);
    kiln_cell *cell = begin(kinds[kind].layer, kind, run_sequence, in, hidden, &o);
    if (!cell) return NULL;
    if (o.dropout > 0) cell->by_mode = "dropout";
    struct initial init = initial_of(hidden, &o);
    for (int64_t layer = 0; layer < o.layers; layer++)
        for (int64_t d = 0; d < directions; d++)
            add_layer(cell, layer, d == 1, dev, layer ? state * directions : in, hidden, init.text);
    return cell_or_null(cell);
}

kiln_cell *kiln_nn_rnn(kiln_device *dev, int64_t in, int64_t hidden, const kiln_nn_recurrent_opts *opts)
{
    return sequence_cell(RNN, dev, in, hidden, opts);
}

kiln_cell *kiln_nn_gru(kiln_device *dev, int64_t in, int64_t hidden, const kiln_nn_recurrent_opts *opts)
{
    return sequence_cell(GRU, dev, in, hidden, opts);
}

kiln_cell *kiln_nn_lstm(kiln_device *dev, int64_t in, int64_t hidden, const kiln_nn_recurrent_opts *opts)
{
    return sequence_cell(LSTM, dev, in, hidden, opts);
}
