// Each kind of macro and option of the public headers once, as C and as C++.
#include <kiln/debug.h>
#include <kiln/kiln.h>

static kiln_status product(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_mul(kiln_mul(in[0], in[1]), (kiln_tensor *)user);
    return kiln_error();
}

static double sum_of(kiln_tensor *t)
{
    return kiln_item(kiln_sum(t, NULL));
}

int main(void)
{
    kiln_device *dev = kiln_device_open("cpu");
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *x = kiln_reshape(kiln_arange(dev, KILN_F32, 0, 24, 1), KILN_SHAPE(1, 2, 3, 4));
    kiln_tensor *pair[] = {x, x};
    double s = 0;
    s += sum_of(kiln_sum(x, KILN_REDUCE(.axes = KILN_AXES(0, 1), .keepdims = true)));          // 276
    s += sum_of(kiln_slice(x, KILN_SLICE(.start = KILN_ARGS(0, 1), .stop = KILN_ARGS(1, 2)))); // 12 .. 23: 210
    s += sum_of(kiln_pad(x, KILN_PAD(.before = KILN_ARGS(0, 0, 1, 1), .after = KILN_ARGS(0, 0, 0, 0))));          // 276
    s += sum_of(kiln_conv2d(x, kiln_ones(dev, KILN_F32, KILN_SHAPE(1, 2, 1, 1)), KILN_CONV2D(.stride = {1, 1}))); // 276
    s += sum_of(kiln_concat(pair, 2, 0));                                                                         // 552
    s += sum_of(kiln_full(dev, KILN_F32, KILN_SHAPE0, 4));

    kiln_tensor *w = kiln_parameter(kiln_full(dev, KILN_F32, KILN_SHAPE(2), 3), "w");
    kiln_tensor *in[] = {kiln_ones(dev, KILN_F32, KILN_SHAPE(2)), kiln_ones(dev, KILN_F32, KILN_SHAPE(2))};
    kiln_tensor *sens = kiln_full(dev, KILN_F32, KILN_SHAPE(2), 2), *grads[2] = {NULL, NULL};
    kiln_grad(product, w, in, 2, KILN_GRAD(.wrt = KILN_ARGS(1), .params = KILN_PARAMS(w), .sens = KILN_TENSORS(sens)),
              grads, 2);
    s += sum_of(grads[0]) + sum_of(grads[1]); // 12 and 4

    kiln_cell *net = kiln_nn_sequential(KILN_CELLS(
        kiln_nn_flatten(), kiln_nn_dense(dev, 24, 1, KILN_NN_DENSE(.no_bias = true, .weight_init = "ones"))));
    s += sum_of(kiln_cell_call(net, x)); // 276
    kiln_tensor *params[1] = {NULL};
    kiln_cell_parameters(net, params, 1);
    kiln_optim *opt = kiln_optim_sgd(params, 1, KILN_SGD(.lr = 0.5, .momentum = 0.9));
    kiln_backward_with(kiln_sum(kiln_cell_call(net, x), NULL), KILN_BACKWARD(.keep_tape = true));
    kiln_optim_step(opt);
    s += sum_of(params[0]); // 24 - 138
    kiln_optim_free(&opt);
    kiln_cell_free(&net);
    kiln_device_stats stats = {.size = sizeof stats};
    kiln_device_get_stats(dev, &stats);
    int bad =
        s != 276 + 210 + 276 + 276 + 552 + 4 + 12 + 4 + 276 - 114 || stats.launches == 0 || kiln_kernel_count() < 90;
    if (bad) fprintf(stderr, "%g %s\n", s, kiln_error_message());
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
    if (!bad) puts("good");
    return bad;
}
