// LSTM, GRU and RNN as scans: what depends on the inputs alone is one product for all steps, before the loop.
#include "onnx/onnx_fns.h"
#include <kiln/control.h>
#include <string.h>

enum recurrent_kind { RNN, GRU, LSTM };

struct recurrent {
    enum recurrent_kind kind;
    int64_t hidden, gates;
    bool relu, linear_before_reset, batch_first;
    // Of the direction that runs:
    kiln_tensor *r, *r_bias, *peep; // [gates*H, H]; its bias [gates*H] where a step needs it apart; [3H] or NULL
    kiln_tensor *valid;             // [T, B, 1], or NULL
};

// Columns [i H, (i + 1) H).
static kiln_tensor *gate(const struct recurrent *u, kiln_tensor *t, int64_t i)
{
    return kiln_narrow(t, -1, i * u->hidden, u->hidden);
}

static kiln_tensor *peeped(const struct recurrent *u, kiln_tensor *x, kiln_tensor *cell, int64_t i)
{
    return u->peep ? kiln_add(x, kiln_mul(gate(u, u->peep, i), cell)) : x;
}

// Gates i, o, f, c.
static kiln_status step_lstm(const struct recurrent *u, kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *all = kiln_add(in[2], kiln_matmul(in[0], u->r)), *cell = in[1];
    kiln_tensor *i = kiln_sigmoid(peeped(u, gate(u, all, 0), cell, 0));
    kiln_tensor *f = kiln_sigmoid(peeped(u, gate(u, all, 2), cell, 2));
    kiln_tensor *now = kiln_add(kiln_mul(f, cell), kiln_mul(i, kiln_tanh(gate(u, all, 3))));
    kiln_tensor *o = kiln_sigmoid(peeped(u, gate(u, all, 1), now, 1));
    out[0] = kiln_mul(o, kiln_tanh(now));
    out[1] = now;
    out[2] = kiln_alias(out[0]);
    return kiln_error();
}

// Gates z, r, h.
static kiln_status step_gru(const struct recurrent *u, kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *h = in[0], *x = in[1], *all = kiln_matmul(h, u->r), *candidate;
    kiln_tensor *z = kiln_sigmoid(kiln_add(gate(u, x, 0), gate(u, all, 0)));
    kiln_tensor *r = kiln_sigmoid(kiln_add(gate(u, x, 1), gate(u, all, 1)));
    if (u->linear_before_reset) {
        kiln_tensor *from_h = gate(u, all, 2);
        if (u->r_bias) from_h = kiln_add(from_h, gate(u, u->r_bias, 2));
        candidate = kiln_tanh(kiln_add(gate(u, x, 2), kiln_mul(r, from_h)));
    } else {
        candidate = kiln_tanh(kiln_add(gate(u, x, 2), kiln_matmul(kiln_mul(r, h), gate(u, u->r, 2))));
    }
    out[0] = kiln_add(kiln_mul(kiln_sub(kiln_scalar(1), z), candidate), kiln_mul(z, h));
    out[1] = kiln_alias(out[0]);
    return kiln_error();
}

static kiln_status step_rnn(const struct recurrent *u, kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *sum = kiln_add(in[1], kiln_matmul(in[0], u->r));
    out[0] = u->relu ? kiln_relu(sum) : kiln_tanh(sum);
    out[1] = kiln_alias(out[0]);
    return kiln_error();
}

static kiln_status step(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct recurrent *u = user;
    TRY(u->kind == LSTM ? step_lstm(u, in, out) : u->kind == GRU ? step_gru(u, in, out) : step_rnn(u, in, out));
    for (size_t i = 0; u->valid && i < n_out; i++)
        out[i] = kiln_where(in[n_in - 1], out[i], i + 1 < n_out ? in[i] : kiln_scalar(0));
    return kiln_error();
}

static kiln_status check_way(struct onnx_call *c, struct recurrent *u, const char *direction)
{
    static const char *const usual[] = {[RNN] = "Tanh", [GRU] = "Sigmoid Tanh", [LSTM] = "Sigmoid Tanh Tanh"};
    static const char *const others[] = {"activation_alpha", "activation_beta", "clip"};
    int64_t forget = 0, linear = 0;
    const struct onnx_attr *a = onnx_attr(c, "activations");
    for (size_t i = 0; i < COUNT_OF(others); i++)
        if (onnx_attr(c, others[i])) return onnx_bad(c, KILN_E_UNSUPPORTED, "attribute %s", others[i]);
    if (u->kind == LSTM) TRY(onnx_int(c, "input_forget", 0, &forget));
    if (u->kind == GRU) TRY(onnx_int(c, "linear_before_reset", 0, &linear));
    u->linear_before_reset = linear != 0;
    if (forget) return onnx_bad(c, KILN_E_UNSUPPORTED, "input_forget is set");
    size_t each = u->kind == RNN ? 1 : u->kind == GRU ? 2 : 3, n = a ? a->n : 0;
    if (a && (a->type != ONNX_STRINGS || n != each * (!strcmp(direction, "bidirectional") ? 2 : 1)))
        return onnx_bad(c, KILN_E_FORMAT, "%zu activations", n);
    u->relu = u->kind == RNN && n && !strcmp(a->strings[0], "Relu");
    for (size_t i = 0; i < n; i++) {
        const char *want = u->relu ? "Relu" : i % each == 0 && each > 1 ? "Sigmoid" : "Tanh";
        if (strcmp(a->strings[i], want) != 0)
            return onnx_bad(c, KILN_E_UNSUPPORTED, "its activations are not %s", usual[u->kind]);
    }
    return KILN_OK;
}

// Whether each step is one of its sequence, [T, B, 1]; NULL where there are no lengths.
static kiln_tensor *valid_steps(struct onnx_call *c, kiln_tensor *x)
{
    if (!onnx_has(c, 4)) return NULL;
    int64_t steps = kiln_dims(x)[0];
    kiln_tensor *t = kiln_arange(c->dev, KILN_I64, 0, (double)steps, 1), *lengths = onnx_in(c, 4);
    if (lengths && (kiln_rank(lengths) != 1 || kiln_dims(lengths)[0] != kiln_dims(x)[1])) {
        onnx_bad(c, KILN_E_SHAPE, "sequence_lens of rank %zu for %lld sequences", kiln_rank(lengths),
                 (long long)kiln_dims(x)[1]);
        return NULL;
    }
    return kiln_less(kiln_reshape(t, KILN_SHAPE(steps, 1, 1)), kiln_unsqueeze(lengths, 1));
}

// Row `d` of input i, or NULL.
static kiln_tensor *of_direction(struct onnx_call *c, int i, int64_t d)
{
    return onnx_has(c, i) ? kiln_select(onnx_in(c, i), 0, d) : NULL;
}

static kiln_tensor *initial(struct onnx_call *c, const struct recurrent *u, int i, int64_t d, kiln_tensor *x,
                            int64_t hidden)
{
    if (onnx_has(c, i)) return kiln_select(onnx_in(c, i), u->batch_first ? 1 : 0, d);
    return kiln_zeros(c->dev, kiln_tensor_dtype(x), KILN_SHAPE(kiln_dims(x)[1], hidden));
}

// The biases of both products are added before the loop, but for that of a GRU's candidate where it is reset, too.
static kiln_tensor *before_loop(struct onnx_call *c, struct recurrent *u, kiln_tensor *x, int64_t d)
{
    kiln_tensor *w = of_direction(c, 1, d), *bias = of_direction(c, 3, d);
    kiln_tensor *y = kiln_matmul(x, kiln_transpose(w, 0, 1));
    if (!bias) return y;
    int64_t width = u->gates * u->hidden;
    kiln_tensor *of_w = kiln_narrow(bias, 0, 0, width), *of_r = kiln_narrow(bias, 0, width, width);
    u->r_bias = of_r;
    if (u->kind == GRU && u->linear_before_reset) {
        kiln_tensor *parts[] = {kiln_narrow(of_r, 0, 0, 2 * u->hidden),
                                kiln_zeros(c->dev, kiln_tensor_dtype(x), 1, &u->hidden)};
        of_r = kiln_concat(parts, 2, 0);
    }
    return kiln_add(y, kiln_add(of_w, of_r));
}

static kiln_status run_direction(struct onnx_call *c, struct recurrent *u, kiln_tensor *x, int64_t d, bool reverse,
                                 kiln_tensor **out)
{
    int64_t rows = u->gates * u->hidden;
    kiln_tensor *r = of_direction(c, 2, d);
    NEED(r);
    if (kiln_rank(r) != 2 || kiln_dims(r)[0] != rows || kiln_dims(r)[1] != u->hidden)
        return onnx_bad(c, KILN_E_SHAPE, "R does not fit hidden_size %lld", (long long)u->hidden);
    u->r = kiln_transpose(r, 0, 1);
    u->r_bias = NULL;
    u->peep = u->kind == LSTM ? of_direction(c, 7, d) : NULL;
    kiln_tensor *in[4] = {initial(c, u, 5, d, x, u->hidden)};
    size_t n = 1;
    if (u->kind == LSTM) in[n++] = initial(c, u, 6, d, x, u->hidden);
    in[n] = before_loop(c, u, x, d);
    in[n + 1] = u->valid;
    for (size_t i = 0; i <= n; i++) NEED(in[i]);
    return kiln_scan(step, u, in, n + 1 + (u->valid != NULL), KILN_SCAN(.carried = n, .reverse = reverse), out, n + 1);
}

// Y [T, D, B, H], then what is carried in the end, [D, B, H]; with layout 1 the batch comes first.
static kiln_status give_all(struct onnx_call *c, const struct recurrent *u, kiln_tensor *(*of)[3], size_t directions,
                            bool batch_first)
{
    size_t n_carried = u->kind == LSTM ? 2 : 1;
    kiln_tensor *list[2];
    if (onnx_wants(c, 0)) {
        for (size_t d = 0; d < directions; d++) list[d] = of[d][n_carried];
        kiln_tensor *y = kiln_stack(list, directions, 1);
        TRY(onnx_give(c, 0, batch_first ? kiln_permute(y, KILN_AXES(2, 0, 1, 3)) : y));
    }
    for (size_t i = 0; i < n_carried; i++) {
        if (!onnx_wants(c, (int)i + 1)) continue;
        for (size_t d = 0; d < directions; d++) list[d] = of[d][i];
        TRY(onnx_give(c, (int)i + 1, kiln_stack(list, directions, batch_first)));
    }
    return KILN_OK;
}

static kiln_status recurrent(struct onnx_call *c, enum recurrent_kind kind)
{
    struct recurrent u = {.kind = kind, .gates = kind == LSTM ? 4 : kind == GRU ? 3 : 1};
    kiln_tensor *of[2][3];
    const char *direction;
    int64_t layout;
    TRY(onnx_check_counts(c, 3, kind == LSTM ? 8 : 6, kind == LSTM ? 3 : 2));
    TRY(onnx_string(c, "direction", "forward", &direction));
    TRY(check_way(c, &u, direction));
    TRY(onnx_int(c, "hidden_size", 0, &u.hidden));
    TRY(onnx_int(c, "layout", 0, &layout));
    u.batch_first = layout != 0;
    kiln_tensor *x = onnx_in(c, 0), *w = onnx_in(c, 1);
    NEED(x && w);
    size_t directions = !strcmp(direction, "bidirectional") ? 2 : 1;
    if (kiln_rank(x) != 3 || kiln_rank(w) != 3 || kiln_dims(w)[0] != (int64_t)directions || u.hidden < 0 ||
        u.hidden > 1 << 24)
        return onnx_bad(c, KILN_E_SHAPE, "an input of rank %zu, a weight of rank %zu", kiln_rank(x), kiln_rank(w));
    if (!u.hidden) u.hidden = kiln_dims(w)[1] / u.gates;
    if (layout) x = kiln_transpose(x, 0, 1);
    NEED(x);
    u.valid = valid_steps(c, x);
    if (error_pending) return error_pending;
    for (size_t d = 0; d < directions; d++)
        TRY(run_direction(c, &u, x, (int64_t)d, d == 1 || !strcmp(direction, "reverse"), of[d]));
    return give_all(c, &u, of, directions, layout != 0);
}

kiln_status onnx_op_rnn(struct onnx_call *c)
{
    return recurrent(c, RNN);
}

kiln_status onnx_op_gru(struct onnx_call *c)
{
    return recurrent(c, GRU);
}

kiln_status onnx_op_lstm(struct onnx_call *c)
{
    return recurrent(c, LSTM);
}
