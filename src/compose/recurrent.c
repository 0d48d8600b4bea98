// Recurrent networks. A sequence is a scan for each layer and direction; what depends on the inputs alone is one
// product for all steps, before it. Weights, gates and their order are PyTorch's.
#include "compose/composite.h"

#include <kiln/control.h>
#include <string.h>

enum kind { RNN, GRU, LSTM };

static const int64_t gates_of[] = {[RNN] = 1, [GRU] = 3, [LSTM] = 4};
static const size_t states_of[] = {[RNN] = 1, [GRU] = 1, [LSTM] = 2};

// A layer in one direction.
struct layer {
    enum kind kind;
    bool relu;
    int64_t hidden;
    kiln_tensor *w_ih, *w_hh, *b_ih, *b_hh, *w_hr; // biases and w_hr may be NULL
};

static bool is_matrix(kiln_tensor *t, int64_t rows, int64_t columns)
{
    return kiln_rank(t) == 2 && kiln_dims(t)[0] == rows && kiln_dims(t)[1] == columns;
}

static bool is_vector(kiln_tensor *t, int64_t n)
{
    return !t || (kiln_rank(t) == 1 && kiln_dims(t)[0] == n);
}

// Of inputs with `in` features, told of by x. `where` names the layer in messages.
static bool layer_fits(struct layer *l, kiln_tensor *x, int64_t in, const char *where)
{
    int64_t gates = gates_of[l->kind], rows = kiln_rank(l->w_ih) == 2 ? kiln_dims(l->w_ih)[0] : -1;
    if (rows < gates || rows % gates || kiln_dims(l->w_ih)[1] != in) {
        error_set(KILN_E_SHAPE, "%sw_ih must be [%lld H,%lld], it is %s, x is %s", where, (long long)gates,
                  (long long)in, type_of(l->w_ih).s, type_of(x).s);
        return false;
    }
    l->hidden = rows / gates;
    int64_t state = l->w_hr && kiln_rank(l->w_hr) == 2 ? kiln_dims(l->w_hr)[0] : l->hidden;
    if (!is_matrix(l->w_hh, rows, state) || (l->w_hr && !is_matrix(l->w_hr, state, l->hidden))) {
        error_set(KILN_E_SHAPE, "%sw_hh must be [%lld,%lld], it is %s, w_ih is %s%s%s", where, (long long)rows,
                  (long long)state, type_of(l->w_hh).s, type_of(l->w_ih).s, l->w_hr ? ", w_hr is " : "",
                  l->w_hr ? type_of(l->w_hr).s : "");
        return false;
    }
    if (is_vector(l->b_ih, rows) && is_vector(l->b_hh, rows)) return true;
    error_set(KILN_E_SHAPE, "%sb_ih and b_hh must be [%lld], they are %s and %s", where, (long long)rows,
              l->b_ih ? type_of(l->b_ih).s : "none", l->b_hh ? type_of(l->b_hh).s : "none");
    return false;
}

static int64_t state_size(const struct layer *l)
{
    return l->w_hr ? kiln_dims(l->w_hr)[0] : l->hidden;
}

// --- a step: from what the inputs give to the gates, and from the state

static kiln_tensor *gate(const struct layer *l, kiln_tensor *t, int64_t i)
{
    return kiln_narrow(t, -1, i * l->hidden, l->hidden);
}

static kiln_tensor *from_state(const struct layer *l, kiln_tensor *h)
{
    return kiln_matmul(h, kiln_transpose(l->w_hh, 0, 1));
}

static void step_rnn(const struct layer *l, kiln_tensor *x, kiln_tensor **state)
{
    kiln_tensor *sum = kiln_add(x, from_state(l, state[0]));
    state[0] = l->relu ? kiln_relu(sum) : kiln_tanh(sum);
}

// Gates r, z, n; the bias b_hh of n is behind the reset, and not in x.
static void step_gru(const struct layer *l, kiln_tensor *x, kiln_tensor **state)
{
    kiln_tensor *all = from_state(l, state[0]), *reset = gate(l, all, 2);
    kiln_tensor *r = kiln_sigmoid(kiln_add(gate(l, x, 0), gate(l, all, 0)));
    kiln_tensor *z = kiln_sigmoid(kiln_add(gate(l, x, 1), gate(l, all, 1)));
    if (l->b_hh) reset = kiln_add(reset, gate(l, l->b_hh, 2));
    kiln_tensor *n = kiln_tanh(kiln_add(gate(l, x, 2), kiln_mul(r, reset)));
    state[0] = kiln_add(n, kiln_mul(z, kiln_sub(state[0], n)));
}

// Gates i, f, g, o.
static void step_lstm(const struct layer *l, kiln_tensor *x, kiln_tensor **state)
{
    kiln_tensor *all = kiln_add(x, from_state(l, state[0]));
    kiln_tensor *kept = kiln_mul(kiln_sigmoid(gate(l, all, 1)), state[1]);
    kiln_tensor *c = kiln_add(kept, kiln_mul(kiln_sigmoid(gate(l, all, 0)), kiln_tanh(gate(l, all, 2))));
    kiln_tensor *h = kiln_mul(kiln_sigmoid(gate(l, all, 3)), kiln_tanh(c));
    state[0] = l->w_hr ? kiln_matmul(h, kiln_transpose(l->w_hr, 0, 1)) : h;
    state[1] = c;
}

static void step(const struct layer *l, kiln_tensor *x, kiln_tensor **state)
{
    if (l->kind == RNN) step_rnn(l, x, state);
    if (l->kind == GRU) step_gru(l, x, state);
    if (l->kind == LSTM) step_lstm(l, x, state);
}

// The inputs' share of the gates, for all steps at once, with the biases that go with it.
static kiln_tensor *from_inputs(const struct layer *l, kiln_tensor *x)
{
    kiln_tensor *y = kiln_matmul(x, kiln_transpose(l->w_ih, 0, 1)), *of_h = l->b_hh;
    if (l->b_ih) y = kiln_add(y, l->b_ih);
    if (!of_h) return y;
    if (l->kind != GRU) return kiln_add(y, of_h);
    kiln_tensor *parts[] = {kiln_narrow(of_h, 0, 0, 2 * l->hidden),
                            kiln_zeros(kiln_tensor_device(of_h), kiln_tensor_dtype(of_h), KILN_SHAPE(l->hidden))};
    return kiln_add(y, kiln_concat(parts, 2, 0));
}

// --- cells

static bool state_fits(const struct layer *l, const char *name, kiln_tensor *h, kiln_tensor *x)
{
    size_t rank = kiln_rank(x);
    bool fits = kiln_rank(h) == rank && kiln_dims(h)[rank - 1] == l->hidden;
    for (size_t i = 0; fits && i + 1 < rank; i++) fits = kiln_dims(h)[i] == kiln_dims(x)[i];
    if (!fits)
        error_set(KILN_E_SHAPE, "%s must be [...,%lld] as x, it is %s, x is %s", name, (long long)l->hidden,
                  type_of(h).s, type_of(x).s);
    return fits;
}

static kiln_status one_step(struct layer *l, kiln_tensor *x, kiln_tensor **state)
{
    size_t rank = kiln_rank(x);
    if (rank < 1) return error_set(KILN_E_SHAPE, "x must be [...,I], it is %s", type_of(x).s);
    if (!layer_fits(l, x, kiln_dims(x)[rank - 1], "")) return error_pending;
    if (!state_fits(l, "h", state[0], x)) return error_pending;
    if (l->kind == LSTM && !state_fits(l, "c", state[1], x)) return error_pending;
    step(l, from_inputs(l, x), state);
    return error_pending;
}

kiln_tensor *compose_rnn_cell(kiln_tensor *x, kiln_tensor *h, kiln_tensor *w_ih, kiln_tensor *w_hh, kiln_tensor *b_ih,
                              kiln_tensor *b_hh, const kiln_rnn_cell_opts *o)
{
    struct layer l = {.kind = RNN, .relu = o->relu, .w_ih = w_ih, .w_hh = w_hh, .b_ih = b_ih, .b_hh = b_hh};
    return one_step(&l, x, &h) ? NULL : h;
}

kiln_tensor *compose_gru_cell(kiln_tensor *x, kiln_tensor *h, kiln_tensor *w_ih, kiln_tensor *w_hh, kiln_tensor *b_ih,
                              kiln_tensor *b_hh)
{
    struct layer l = {.kind = GRU, .w_ih = w_ih, .w_hh = w_hh, .b_ih = b_ih, .b_hh = b_hh};
    return one_step(&l, x, &h) ? NULL : h;
}

kiln_status compose_lstm_cell(kiln_tensor *x, kiln_tensor *h, kiln_tensor *c, kiln_tensor *w_ih, kiln_tensor *w_hh,
                              kiln_tensor *b_ih, kiln_tensor *b_hh, kiln_tensor **h_next, kiln_tensor **c_next)
{
    struct layer l = {.kind = LSTM, .w_ih = w_ih, .w_hh = w_hh, .b_ih = b_ih, .b_hh = b_hh};
    kiln_tensor *state[2] = {h, c};
    if (one_step(&l, x, state)) return error_pending;
    *h_next = state[0];
    *c_next = state[1];
    return error_pending;
}

// --- sequences

struct sequence {
    enum kind kind;
    const kiln_recurrent_opts *o;
    kiln_tensor *const *weights;
    kiln_tensor *x, *valid;   // [T, N, ...]; whether a step is one of the sequence, [T, N, 1], or NULL
    kiln_tensor *first[2];    // [layers D, N, ...], or NULL
    int64_t directions, each; // weights of a layer in one direction
    bool has_bias;
};

struct scanned {
    const struct layer *l;
    bool masked;
};

// in: what is carried, the inputs' share, perhaps whether the step is one of the sequence.
static kiln_status scan_step(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct scanned *s = user;
    size_t n = states_of[s->l->kind];
    kiln_tensor *state[2] = {in[0], n > 1 ? in[1] : NULL};
    (void)n_in, (void)n_out;
    step(s->l, in[n], state);
    for (size_t i = 0; i < n; i++) out[i] = s->masked ? kiln_where(in[n + 1], state[i], in[i]) : state[i];
    out[n] = s->masked ? kiln_where(in[n + 1], state[0], kiln_scalar(0)) : state[0];
    return kiln_error();
}

static kiln_tensor *begin_state(const struct sequence *s, const struct layer *l, size_t which, int64_t row,
                                kiln_tensor *x)
{
    if (s->first[which]) return kiln_select(s->first[which], 0, row);
    int64_t width = which ? l->hidden : state_size(l);
    return kiln_zeros(kiln_tensor_device(x), kiln_tensor_dtype(x), KILN_SHAPE(kiln_dims(s->x)[1], width));
}

static bool first_fits(const struct sequence *s, const struct layer *l, size_t which)
{
    kiln_tensor *t = s->first[which];
    int64_t width = which ? l->hidden : state_size(l), rows = s->o->layers * s->directions, n = kiln_dims(s->x)[1];
    if (!t || (kiln_rank(t) == 3 && kiln_dims(t)[0] == rows && kiln_dims(t)[1] == n && kiln_dims(t)[2] == width))
        return true;
    error_set(KILN_E_SHAPE, "%s must be [%lld,%lld,%lld], it is %s, x is %s", which ? "c0" : "h0", (long long)rows,
              (long long)n, (long long)width, type_of(t).s, type_of(s->x).s);
    return false;
}

// Layer `row` / directions in direction `row` % directions of input x: out gets its states, then what it gives.
static kiln_status run_direction(const struct sequence *s, int64_t row, kiln_tensor *x, kiln_tensor **out)
{
    kiln_tensor *const *w = s->weights + row * s->each;
    struct layer l = {.kind = s->kind, .relu = s->o->relu, .w_ih = w[0], .w_hh = w[1]};
    if (s->has_bias) l.b_ih = w[2], l.b_hh = w[3];
    if (s->o->projected) l.w_hr = w[s->each - 1];
    char where[64];
    bool back = row % s->directions == 1;
    snprintf(where, sizeof where, "layer %lld%s: ", (long long)(row / s->directions), back ? " reversed" : "");
    if (!layer_fits(&l, x, kiln_dims(x)[2], where)) return error_pending;
    size_t n = states_of[s->kind], n_in = n;
    for (size_t i = 0; i < n; i++)
        if (!first_fits(s, &l, i)) return error_pending;
    kiln_tensor *in[4];
    kiln_tensor *share = from_inputs(&l, x);
    for (size_t i = 0; i < n; i++) in[i] = begin_state(s, &l, i, row, share);
    in[n_in++] = share;
    if (s->valid) in[n_in++] = s->valid;
    if (error_pending) return error_pending;
    struct scanned user = {&l, s->valid != NULL};
    return kiln_scan(scan_step, &user, in, n_in, KILN_SCAN(.carried = n, .reverse = back), out, n + 1);
}

static kiln_status run_layers(const struct sequence *s, kiln_tensor **y, kiln_tensor **states)
{
    enum { MAX_ROWS = 256 };
    int64_t rows = s->o->layers * s->directions;
    kiln_tensor *last[2][MAX_ROWS], *x = s->x;
    if (rows > MAX_ROWS)
        return error_set(KILN_E_ARGUMENT, "at most %d layers and directions, got %lld", MAX_ROWS, (long long)rows);
    size_t n = states_of[s->kind];
    for (int64_t layer = 0; layer < s->o->layers; layer++) {
        kiln_tensor *given[2];
        for (int64_t d = 0; d < s->directions; d++) {
            kiln_tensor *out[3];
            int64_t row = layer * s->directions + d;
            TRY(run_direction(s, row, x, out));
            for (size_t i = 0; i < n; i++) last[i][row] = out[i];
            given[d] = out[n];
        }
        x = s->directions > 1 ? kiln_concat(given, 2, -1) : given[0];
        if (s->o->dropout > 0 && layer + 1 < s->o->layers) x = kiln_dropout(x, s->o->dropout);
    }
    *y = x;
    for (size_t i = 0; i < n; i++) states[i] = kiln_stack(last[i], (size_t)rows, 0);
    return error_pending;
}

// Two weights of a layer and direction, perhaps a third that projects, and two biases unless there is just no room for
// them.
static void count_weights(struct sequence *s, size_t n)
{
    int64_t without = 2 + (s->o->projected ? 1 : 0);
    s->has_bias = (int64_t)n != s->o->layers * s->directions * without;
    s->each = without + (s->has_bias ? 2 : 0);
}

static kiln_status check_sequence(const struct sequence *s, kiln_tensor *lengths, size_t n)
{
    const kiln_recurrent_opts *o = s->o;
    int64_t batch = kiln_rank(s->x) == 3 ? kiln_dims(s->x)[1] : -1;
    if (o->layers < 1 || !(o->dropout >= 0 && o->dropout < 1))
        return error_set(KILN_E_ARGUMENT, ".layers must be positive and .dropout in [0, 1), got %lld and %g",
                         (long long)o->layers, o->dropout);
    if ((o->projected && s->kind != LSTM) || (o->relu && s->kind != RNN))
        return error_set(KILN_E_ARGUMENT, ".projected is of lstm, .relu of rnn");
    if ((int64_t)n != o->layers * s->directions * s->each)
        return error_set(
            KILN_E_ARGUMENT,
            "%lld layers in %lld directions have %lld weights each, or %lld without biases, got %zu in all",
            (long long)o->layers, (long long)s->directions, (long long)s->each, (long long)s->each - 2, n);
    if (lengths && (kiln_rank(lengths) != 1 || kiln_dims(lengths)[0] != batch))
        return error_set(KILN_E_SHAPE, "lengths must be [%lld], they are %s, x is %s", (long long)batch,
                         type_of(lengths).s, type_of(s->x).s);
    return error_pending;
}

// One sequence alone is a batch of one; a batch may come first.
static kiln_tensor *time_first(kiln_tensor *x, const kiln_recurrent_opts *o)
{
    if (kiln_rank(x) == 2) return kiln_unsqueeze(x, 1);
    if (kiln_rank(x) == 3) return o->batch_first ? kiln_transpose(x, 0, 1) : x;
    error_set(KILN_E_SHAPE, "x must be %s or [T,I], it is %s", o->batch_first ? "[N,T,I]" : "[T,N,I]", type_of(x).s);
    return NULL;
}

static kiln_status run_sequence(enum kind kind, kiln_tensor *x, kiln_tensor *const *first, kiln_tensor *lengths,
                                kiln_tensor *const *weights, size_t n, const kiln_recurrent_opts *o, kiln_tensor **y,
                                kiln_tensor **states)
{
    bool alone = kiln_rank(x) == 2;
    struct sequence s = {.kind = kind, .o = o, .weights = weights, .x = time_first(x, o)};
    s.directions = o->bidirectional ? 2 : 1;
    count_weights(&s, n);
    if (!s.x || check_sequence(&s, lengths, n)) return error_pending;
    for (size_t i = 0; i < states_of[kind]; i++)
        s.first[i] = first[i] && alone ? kiln_unsqueeze(first[i], 1) : first[i];
    if (lengths) {
        int64_t steps = kiln_dims(s.x)[0];
        kiln_tensor *t = kiln_arange(kiln_tensor_device(x), KILN_I64, 0, (double)steps, 1);
        s.valid = kiln_less(kiln_reshape(t, KILN_SHAPE(steps, 1, 1)), kiln_unsqueeze(lengths, 1));
    }
    TRY(run_layers(&s, y, states));
    if (alone) {
        *y = kiln_squeeze(*y, KILN_AXES(1));
        for (size_t i = 0; i < states_of[kind]; i++) states[i] = kiln_squeeze(states[i], KILN_AXES(1));
    } else if (o->batch_first) {
        *y = kiln_transpose(*y, 0, 1);
    }
    return error_pending;
}

kiln_status compose_rnn(kiln_tensor *x, kiln_tensor *h0, kiln_tensor *lengths, kiln_tensor *const *weights, size_t n,
                        const kiln_recurrent_opts *o, kiln_tensor **y, kiln_tensor **h)
{
    return run_sequence(RNN, x, &h0, lengths, weights, n, o, y, h);
}

kiln_status compose_gru(kiln_tensor *x, kiln_tensor *h0, kiln_tensor *lengths, kiln_tensor *const *weights, size_t n,
                        const kiln_recurrent_opts *o, kiln_tensor **y, kiln_tensor **h)
{
    return run_sequence(GRU, x, &h0, lengths, weights, n, o, y, h);
}

kiln_status compose_lstm(kiln_tensor *x, kiln_tensor *h0, kiln_tensor *c0, kiln_tensor *lengths,
                         kiln_tensor *const *weights, size_t n, const kiln_recurrent_opts *o, kiln_tensor **y,
                         kiln_tensor **h, kiln_tensor **c)
{
    kiln_tensor *first[2] = {h0, c0}, *states[2] = {NULL};
    kiln_status status = run_sequence(LSTM, x, first, lengths, weights, n, o, y, states);
    *h = states[0];
    *c = states[1];
    return status;
}
