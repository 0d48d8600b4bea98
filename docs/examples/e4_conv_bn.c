// Convolution and batch norm, a captured function of three ops on a parameter, relu: (4 / sqrt(1.00001))^2 twice. The
// network itself runs op by op, then in graph mode, where the captured function becomes a part of its graph.
#include "check.h"

// x + x, times p, squared.
static kiln_status add_mul_mul(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *p = kiln_cell_parameter(*(kiln_cell **)user, "param"), *x = kiln_mul(kiln_add(in[0], in[0]), p);
    out[0] = kiln_mul(x, x);
    return kiln_error();
}

static kiln_status construct(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                             size_t n_out)
{
    kiln_tensor *x = kiln_cell_call(kiln_cell_child(cell, "conv"), in[0]);
    x = kiln_cell_call(kiln_cell_child(cell, "bn"), x);
    kiln_function *captured = user;
    kiln_tensor *y = NULL;
    kiln_call(captured, &x, 1, &y, 1);
    out[0] = kiln_cell_call(kiln_cell_child(cell, "relu"), y);
    return kiln_error();
}

int main(void)
{
    kiln_device *dev = open_device();
    kiln_scope *scope = kiln_scope_begin();
    kiln_cell *net = NULL;
    kiln_function *captured = kiln_jit(add_mul_mul, &net, NULL);
    net =
        kiln_cell_create(KILN_CELL(.kind = "conv_bn", .construct = construct, .user = captured, .n_in = 1, .n_out = 1));
    kiln_cell_make_parameter(net, "param", dev, KILN_F32, KILN_SHAPE0, "0.5");
    kiln_cell_add_child(
        net, "conv",
        kiln_nn_conv2d(dev, 1, 2, 2, KILN_NN_CONV2D(.stride = {1, 1}, .weight_init = "ones", .pad_mode = "valid")));
    kiln_cell_add_child(
        net, "bn",
        kiln_nn_batch_norm2d(dev, 2, KILN_NN_BATCH_NORM(.momentum = 0.99, .eps = 1e-5, .gamma_init = "ones")));
    kiln_cell_add_child(net, "relu", kiln_nn_relu());

    int failures = 0;
    for (kiln_mode mode = KILN_MODE_EAGER; mode <= KILN_MODE_GRAPH; mode++) {
        kiln_set_mode(mode);
        kiln_tensor *y = kiln_cell_call(net, kiln_ones(dev, KILN_F32, KILN_SHAPE(1, 1, 2, 2)));
        failures += CHECK(mode == KILN_MODE_GRAPH ? "output in graph mode" : "output", y, 15.99984, 15.99984);
        if (y && (kiln_rank(y) != 4 || kiln_dim(y, 1) != 2)) failures++;
    }
    kiln_cell_print(net, stdout);
    kiln_cell_free(&net);
    kiln_function_free(&captured);
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
    return failures != 0;
}
