// The cases of loops inside of graphs: a recurrence of many small steps, and a recurrent network with its gradient.
#include "bench.h"

#include <kiln/control.h>

// --- 1,000 steps of two ops on four elements

enum { SCAN_STEPS = 1000, SCAN_WIDTH = 4 };

kiln_status setup_scan(struct state *s)
{
    kiln_tensor *steps = kiln_normal(s->dev, KILN_F32, KILN_SHAPE(SCAN_STEPS, SCAN_WIDTH), 0, 1);
    own_input(s, 0, steps);
    own_input(s, 1, kiln_zeros(s->dev, KILN_F32, KILN_SHAPE(SCAN_WIDTH)));
    return kiln_error();
}

static kiln_status decay_and_add(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = kiln_add(kiln_mul(in[0], kiln_scalar(0.5)), in[1]);
    return kiln_error();
}

kiln_status run_scan(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    (void)s;
    return kiln_scan(decay_and_add, NULL, (kiln_tensor *[]){in[1], in[0]}, 2, KILN_SCAN(.carried = 1), out, 1);
}

// --- a loop as long as the device's values say: as many trips, of which the host knows nothing

kiln_status setup_while(struct state *s)
{
    own_input(s, 0, kiln_ones(s->dev, KILN_F32, KILN_SHAPE(SCAN_WIDTH)));
    own_input(s, 1, kiln_full(s->dev, KILN_F32, KILN_SHAPE0, SCAN_STEPS));
    return kiln_error();
}

static kiln_status is_below(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *const *all = user;
    (void)n_in, (void)n_out;
    out[0] = kiln_less(kiln_max(in[0], NULL), all[1]);
    return kiln_error();
}

static kiln_status add_one_step(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *const *all = user;
    (void)n_in, (void)n_out;
    out[0] = kiln_add(in[0], all[0]);
    return kiln_error();
}

kiln_status run_while(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *zero = kiln_zeros_like(in[0]);
    (void)s;
    return kiln_while(is_below, add_one_step, (void *)(uintptr_t)in, &zero, 1, NULL, out, 1);
}

// --- LSTM, forward and backward. x: [length, batch, units]; gates in the order input, forget, cell, output

kiln_status setup_lstm(struct state *s)
{
    int64_t length = s->z->lstm_length, batch = s->z->lstm_batch, units = s->z->lstm_units;
    double spread = 1 / kiln_item(kiln_sqrt(kiln_scalar((double)units)));
    own_input(s, 0, kiln_normal(s->dev, KILN_F32, KILN_SHAPE(length, batch, units), 0, 1));
    for (int i = 1; i <= 2; i++)
        own_input(s, i, kiln_uniform(s->dev, KILN_F32, KILN_SHAPE(units, 4 * units), -spread, spread));
    own_input(s, 3, kiln_uniform(s->dev, KILN_F32, KILN_SHAPE(4 * units), -spread, spread));
    double steps = (double)length * (double)batch;
    s->flops = 3 * 2 * 2 * steps * (double)units * 4 * (double)units;
    return kiln_error();
}

static kiln_status lstm_step(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *gates = kiln_add(in[2], kiln_matmul(in[0], user)), *g[4];
    (void)n_in, (void)n_out;
    if (kiln_split(gates, -1, g, 4)) return kiln_error();
    kiln_tensor *kept = kiln_mul(kiln_sigmoid(g[1]), in[1]);
    out[1] = kiln_add(kept, kiln_mul(kiln_sigmoid(g[0]), kiln_tanh(g[2])));
    out[0] = out[2] = kiln_mul(kiln_sigmoid(g[3]), kiln_tanh(out[1]));
    return kiln_error();
}

static kiln_status lstm_loss(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    (void)user, (void)n_in, (void)n_out;
    const int64_t *dims = kiln_dims(in[0]);
    kiln_tensor *all[3], *y[3], *x = kiln_add(kiln_matmul(in[0], in[1]), in[3]);
    all[0] = all[1] = kiln_zeros(kiln_tensor_device(in[0]), KILN_F32, KILN_SHAPE(dims[1], dims[2]));
    all[2] = x;
    if (kiln_scan(lstm_step, in[2], all, 3, KILN_SCAN(.carried = 2), y, 3)) return kiln_error();
    out[0] = kiln_sum(y[2], NULL);
    return kiln_error();
}

// The loss, and a number of all gradients, so that each is computed.
kiln_status run_lstm(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *all[4];
    (void)s;
    if (kiln_value_and_grad(lstm_loss, NULL, in, 4, KILN_GRAD(.wrt = KILN_ARGS(1, 2, 3)), all, 4)) return kiln_error();
    *out = all[0];
    for (int i = 1; i < 4; i++) *out = kiln_add(*out, kiln_mean(all[i], NULL));
    return kiln_error();
}

// --- a recurrent network that the host unrolls, with its gradients: 64 steps of tanh(x wi + h wh + b)

enum { RNN_STEPS = 64 };

static int64_t rnn_steps(const struct state *s)
{
    return s->z->lstm_length < RNN_STEPS ? s->z->lstm_length : RNN_STEPS;
}

kiln_status setup_rnn(struct state *s)
{
    int64_t length = rnn_steps(s), batch = s->z->lstm_batch / 2, units = s->z->lstm_units / 2;
    double spread = 1 / kiln_item(kiln_sqrt(kiln_scalar((double)units)));
    own_input(s, 0, kiln_uniform(s->dev, KILN_F32, KILN_SHAPE(units, units), -spread, spread));
    own_input(s, 1, kiln_uniform(s->dev, KILN_F32, KILN_SHAPE(units, units), -spread, spread));
    own_input(s, 2, kiln_uniform(s->dev, KILN_F32, KILN_SHAPE(units), -spread, spread));
    own_input(s, 3, kiln_normal(s->dev, KILN_F32, KILN_SHAPE(length, batch, units), 0, 1));
    s->flops = 3 * 2 * 2 * (double)(length * batch * units * units);
    return kiln_error();
}

static kiln_status rnn_loss(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const int64_t *dims = kiln_dims(in[3]), length = dims[0];
    kiln_tensor *h = kiln_zeros(kiln_tensor_device(in[0]), KILN_F32, KILN_SHAPE(dims[1], dims[2]));
    (void)user, (void)n_in, (void)n_out;
    for (int64_t t = 0; t < length; t++) {
        kiln_tensor *x = kiln_matmul(kiln_select(in[3], 0, t), in[0]);
        h = kiln_tanh(kiln_add(kiln_add(x, kiln_matmul(h, in[1])), in[2]));
    }
    out[0] = kiln_sum(h, NULL);
    return kiln_error();
}

kiln_status run_rnn(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    (void)s;
    return kiln_value_and_grad(rnn_loss, NULL, in, 4, KILN_GRAD(.wrt = KILN_ARGS(0, 1, 2)), out, 4);
}
