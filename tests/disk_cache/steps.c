// A small convolutional network, trained for some steps by one captured function, from seeded numbers. Prints the
// losses, a sum over the weights, and what was compiled, as JSON. usage: cache_steps DEVICE
#include <inttypes.h>
#include <kiln/kiln.h>
#include <stdio.h>

#define STEPS 3
#define BATCH 4

struct training {
    kiln_cell *net;
    kiln_optim *sgd;
};

static kiln_status step(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct training *t = user;
    kiln_optim_zero_grad(t->sgd);
    out[0] = kiln_cross_entropy(kiln_cell_call(t->net, in[0]), in[1], NULL);
    kiln_backward(out[0], NULL);
    return kiln_optim_step(t->sgd);
}

static kiln_cell *make_net(kiln_device *dev)
{
    return kiln_nn_sequential(KILN_CELLS(
        kiln_nn_conv2d(dev, 1, 4, 3, KILN_NN_CONV2D(.padding = {1, 1}, .bias = true)), kiln_nn_relu(),
        kiln_nn_max_pool2d(KILN_POOL2D(.kernel = {2, 2})), kiln_nn_conv2d(dev, 4, 8, 3, KILN_NN_CONV2D(.bias = true)),
        kiln_nn_relu(), kiln_nn_max_pool2d(KILN_POOL2D(.kernel = {2, 2})), kiln_nn_flatten(),
        kiln_nn_dense(dev, 32, 16, NULL), kiln_nn_relu(), kiln_nn_dense(dev, 16, 5, NULL)));
}

static void train(kiln_device *dev)
{
    kiln_tensor *params[16], *loss, *sum = kiln_zeros(dev, KILN_F32, KILN_SHAPE0);
    struct training t = {.net = make_net(dev)};
    size_t n = kiln_cell_parameters(t.net, params, 16);
    t.sgd = kiln_optim_sgd(params, n, KILN_SGD(.lr = 0.1, .momentum = 0.9));
    kiln_function *f = kiln_jit(step, &t, NULL);
    kiln_tensor *in[] = {kiln_normal(dev, KILN_F32, KILN_SHAPE(BATCH, 1, 12, 12), 0, 1),
                         kiln_randint(dev, KILN_I64, KILN_SHAPE(BATCH), 0, 5)};
    printf("{\"losses\": [");
    for (int i = 0; i < STEPS && !kiln_call(f, in, 2, &loss, 1); i++) printf("%s%.9g", i ? ", " : "", kiln_item(loss));
    for (size_t i = 0; i < n; i++) sum = kiln_add(sum, kiln_sum(kiln_square(params[i]), NULL));
    kiln_jit_stats of_f = {.size = sizeof of_f};
    kiln_device_stats of_dev = {.size = sizeof of_dev};
    kiln_function_stats(f, &of_f);
    printf("], \"weights\": %.9g, ", kiln_item(sum));
    kiln_device_get_stats(dev, &of_dev);
    printf("\"captures\": %" PRIu64 ", \"compiled\": %" PRIu64 ", \"compiled_on_device\": %" PRIu64 "}\n",
           of_f.captures, of_f.kernels_compiled, of_dev.kernels_compiled);
    kiln_function_free(&f);
    kiln_optim_free(&t.sgd);
    kiln_cell_free(&t.net);
}

int main(int argc, char **argv)
{
    kiln_device *dev = kiln_device_open(argc > 1 ? argv[1] : NULL);
    if (!dev) {
        fprintf(stderr, "%s\n", kiln_error_message());
        return kiln_error() == KILN_E_MISSING ? 77 : 1;
    }
    kiln_seed(dev, 1);
    kiln_scope *scope = kiln_scope_begin();
    train(dev);
    if (kiln_error()) fprintf(stderr, "%s\n", kiln_error_message());
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
    return kiln_error() != KILN_OK;
}
