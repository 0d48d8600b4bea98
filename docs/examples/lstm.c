// A recurrent network by kiln_scan: an LSTM learns to go on with waves of which it has seen the beginning. Its 24 steps
// are one node of the graph, whose body is compiled once, forward and backward.
#include "check.h"

#include <kiln/control.h>

#define REGION(name) \
    static kiln_status name(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)

enum { LENGTH = 24, BATCH = 16, UNITS = 16, STEPS = 150 };

struct net {
    kiln_tensor *input, *hidden, *bias, *out, *out_bias; // gates in the order input, forget, cell, output
    kiln_optim *opt;
};

static kiln_tensor *weights(kiln_device *dev, int64_t rows, int64_t columns, const char *name)
{
    double spread = 1 / sqrt(UNITS);
    return kiln_parameter(kiln_uniform(dev, KILN_F32, KILN_SHAPE(rows, columns), -spread, spread), name);
}

// in: what the network says and remembers, then the gates' share of the input at this step.
REGION(step)
{
    const struct net *net = user;
    kiln_tensor *gates = kiln_add(in[2], kiln_matmul(in[0], net->hidden)), *g[4];
    if (kiln_split(gates, -1, g, 4)) return kiln_error();
    kiln_tensor *kept = kiln_mul(kiln_sigmoid(g[1]), in[1]);
    out[1] = kiln_add(kept, kiln_mul(kiln_sigmoid(g[0]), kiln_tanh(g[2])));
    out[0] = out[2] = kiln_mul(kiln_sigmoid(g[3]), kiln_tanh(out[1]));
    return kiln_error();
}

// in: waves, [LENGTH + 1, BATCH, 1]. Gives the mean squared error of what each step says of the next one.
REGION(train)
{
    const struct net *net = user;
    kiln_tensor *seen = kiln_narrow(in[0], 0, 0, LENGTH), *next = kiln_narrow(in[0], 0, 1, LENGTH);
    kiln_tensor *none = kiln_zeros(kiln_tensor_device(in[0]), KILN_F32, KILN_SHAPE(BATCH, UNITS));
    kiln_tensor *all[] = {none, none, kiln_add(kiln_matmul(seen, net->input), net->bias)}, *made[3];
    if (kiln_scan(step, user, all, 3, KILN_SCAN(.carried = 2), made, 3)) return kiln_error();
    kiln_tensor *said = kiln_add(kiln_matmul(made[2], net->out), net->out_bias);
    out[0] = kiln_loss_mse(said, next, KILN_REDUCTION_MEAN);
    kiln_optim_zero_grad(net->opt);
    kiln_backward(out[0], NULL);
    return kiln_optim_step(net->opt);
}

// Waves of several lengths, each from somewhere on.
static kiln_tensor *waves(kiln_device *dev)
{
    kiln_tensor *time = kiln_reshape(kiln_arange(dev, KILN_F32, 0, LENGTH + 1, 1), KILN_SHAPE(LENGTH + 1, 1, 1));
    kiln_tensor *speed = kiln_uniform(dev, KILN_F32, KILN_SHAPE(1, BATCH, 1), 0.3, 0.9);
    kiln_tensor *from = kiln_uniform(dev, KILN_F32, KILN_SHAPE(1, BATCH, 1), 0, 6.28);
    return kiln_sin(kiln_add(kiln_mul(time, speed), from));
}

int main(void)
{
    kiln_device *dev = open_device();
    kiln_seed(dev, 5);
    kiln_scope *scope = kiln_scope_begin();
    struct net net = {.input = weights(dev, 1, 4 * UNITS, "input"),
                      .hidden = weights(dev, UNITS, 4 * UNITS, "hidden"),
                      .bias = weights(dev, 1, 4 * UNITS, "bias"),
                      .out = weights(dev, UNITS, 1, "out"),
                      .out_bias = weights(dev, 1, 1, "out bias")};
    kiln_tensor *params[] = {net.input, net.hidden, net.bias, net.out, net.out_bias};
    net.opt = kiln_optim_adam(params, 5, KILN_ADAM(.lr = 0.02));
    kiln_function *f = kiln_jit(train, &net, NULL);
    double first = 0, last = 0;
    for (int i = 0; i < STEPS && !kiln_error(); i++) {
        kiln_scope *inner = kiln_scope_begin();
        kiln_tensor *x = waves(dev), *loss;
        kiln_call(f, &x, 1, &loss, 1);
        last = kiln_error() ? 0 : kiln_item(loss);
        if (i == 0) first = last;
        if (i % 30 == 0) printf("step %3d: error %.5f\n", i, last);
        kiln_scope_end(&inner);
    }
    kiln_jit_stats stats = {.size = sizeof stats};
    kiln_function_stats(f, &stats);
    printf("error %.5f at the beginning, %.5f at the end; %d ops in the graph\n", first, last, (int)stats.nodes);
    bool failed = kiln_error() || !(last < first / 20) || stats.captures != 1 || stats.nodes > 500;
    if (kiln_error()) fprintf(stderr, "%s\n", kiln_error_message());
    kiln_function_free(&f);
    kiln_optim_free(&net.opt);
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
    return failed;
}
