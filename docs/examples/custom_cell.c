// A cell of the user's own: a residual block, out = relu(x + f(x)), with a trainable gate, trained on a small problem.
#include "check.h"

static kiln_status construct(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                             size_t n_out)
{
    kiln_tensor *inside = kiln_cell_call(kiln_cell_child(cell, "inside"), in[0]);
    out[0] = kiln_relu(kiln_add(in[0], kiln_mul(inside, kiln_cell_parameter(cell, "gate"))));
    return kiln_error();
}

static kiln_cell *residual(kiln_device *dev, int64_t width)
{
    kiln_cell *cell = kiln_cell_create(KILN_CELL(.kind = "residual", .construct = construct, .n_in = 1, .n_out = 1));
    kiln_cell_make_parameter(cell, "gate", dev, KILN_F32, KILN_SHAPE(1), "0.5");
    kiln_cell_add_child(cell, "inside",
                        kiln_nn_sequential(KILN_CELLS(kiln_nn_dense(dev, width, 2 * width, NULL), kiln_nn_tanh(),
                                                      kiln_nn_dense(dev, 2 * width, width, NULL))));
    return cell;
}

int main(void)
{
    enum { STEPS = 200, POINTS = 64 };
    kiln_device *dev = open_device();
    kiln_seed(dev, 3);
    kiln_scope *scope = kiln_scope_begin();
    kiln_cell *net = kiln_nn_sequential(
        KILN_CELLS(kiln_nn_dense(dev, 1, 8, NULL), residual(dev, 8), residual(dev, 8), kiln_nn_dense(dev, 8, 1, NULL)));
    kiln_cell_print(net, stdout);
    kiln_cell_set_training(net, true);

    size_t n = kiln_cell_parameters(net, NULL, 0);
    kiln_tensor *params[32] = {NULL};
    if (n > 32) n = 0;
    kiln_cell_parameters(net, params, n);
    kiln_optim *opt = kiln_optim_adamw(params, n, KILN_ADAM(.lr = 0.01));
    kiln_optim_set_schedule(opt, kiln_schedule_warmup(10, kiln_schedule_cosine(0.02, 1e-4, STEPS - 10)));

    // sin(2 x) at 64 places of [-2, 2).
    kiln_tensor *x = kiln_reshape(kiln_arange(dev, KILN_F32, -2, 2, 4.0 / POINTS), KILN_SHAPE(POINTS, 1));
    kiln_tensor *y = kiln_sin(kiln_mul(x, kiln_scalar(2)));
    double first = 0, last = 0;
    for (int step = 0; step < STEPS && !kiln_error(); step++) {
        kiln_scope *inner = kiln_scope_begin();
        kiln_tensor *loss = kiln_loss_mse(kiln_cell_call(net, x), y, KILN_REDUCTION_MEAN);
        kiln_backward(loss, NULL);
        kiln_clip_grad_norm(params, n, 1);
        kiln_optim_step(opt);
        if (step == 0) first = kiln_item(loss);
        if (step == STEPS - 1) last = kiln_item(loss);
        if (step % 50 == 0) printf("step %3d: loss %.5f\n", step, kiln_item(loss));
        kiln_scope_end(&inner);
    }
    printf("loss %.5f at the beginning, %.5f at the end\n", first, last);
    bool failed = kiln_error() || !(last < first / 20);
    if (kiln_error()) fprintf(stderr, "%s\n", kiln_error_message());
    kiln_optim_free(&opt);
    kiln_cell_free(&net);
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
    return failed;
}
