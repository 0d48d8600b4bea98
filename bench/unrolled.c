// An LSTM that the host unrolls, small, with its gradients: a graph of some 37 nodes a step, whose forward values are
// read in the reverse order. What compiling it takes is counted.
#include "bench.h"

enum { BATCH = 2, UNITS = 4 };

kiln_status setup_unrolled(struct state *s)
{
    own_input(s, 0, kiln_uniform(s->dev, KILN_F32, KILN_SHAPE(s->c->sizes[0], BATCH, 4 * UNITS), -1, 1));
    own_input(s, 1, kiln_uniform(s->dev, KILN_F32, KILN_SHAPE(UNITS, 4 * UNITS), -0.5, 0.5));
    return kiln_error();
}

static kiln_status loss(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const int64_t *steps = user;
    kiln_tensor *h = kiln_zeros(kiln_tensor_device(in[0]), KILN_F32, KILN_SHAPE(BATCH, UNITS)), *kept = h, *sum = h;
    (void)n_in, (void)n_out;
    for (int64_t i = 0; i < *steps; i++) {
        kiln_tensor *g[4], *gates = kiln_add(kiln_select(in[0], 0, i), kiln_matmul(h, in[1]));
        if (kiln_split(gates, -1, g, 4)) return kiln_error();
        kept = kiln_mul(kiln_sigmoid(g[1]), kept);
        kept = kiln_add(kept, kiln_mul(kiln_sigmoid(g[0]), kiln_tanh(g[2])));
        h = kiln_mul(kiln_sigmoid(g[3]), kiln_tanh(kept));
        sum = kiln_add(sum, h);
    }
    out[0] = kiln_sum(kiln_square(sum), NULL);
    return kiln_error();
}

kiln_status run_unrolled(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    int64_t steps = s->c->sizes[0];
    kiln_tensor *all[3];
    if (kiln_value_and_grad(loss, &steps, in, 2, KILN_GRAD(.wrt = KILN_ARGS(0, 1)), all, 3)) return kiln_error();
    *out = kiln_add(all[0], kiln_add(kiln_sum(all[1], NULL), kiln_sum(all[2], NULL)));
    return kiln_error();
}
