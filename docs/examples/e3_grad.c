// The gradient of a network by its first input: matmul(x * z, y) with a parameter z. Twice the sums of the rows of y.
// Then as a graph: kiln_grad inside a captured function, and kiln_grad of a captured function.
#include "check.h"

static kiln_status construct(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                             size_t n_out)
{
    out[0] = kiln_matmul(kiln_mul(in[0], kiln_cell_parameter(cell, "z")), in[1]);
    return kiln_error();
}

// The gradient as a function that can be captured itself.
static kiln_status gradient(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    return kiln_grad(kiln_cell_fn, user, in, n_in, NULL, out, 1);
}

static int as_graphs(kiln_cell *net, kiln_tensor *const *in)
{
    kiln_tensor *dx = NULL;
    int failures = 0;
    kiln_function *captured = kiln_jit(gradient, net, NULL);
    kiln_call(captured, in, 2, &dx, 1);
    failures += CHECK("d/dx, one graph of forward and backward", dx, 9.02, 5.4, 7.2, 9.02, 5.4, 7.2);
    kiln_function_free(&captured);

    kiln_set_mode(KILN_MODE_GRAPH);
    kiln_grad(kiln_cell_fn, net, in, 2, NULL, &dx, 1);
    failures += CHECK("d/dx in graph mode", dx, 9.02, 5.4, 7.2, 9.02, 5.4, 7.2);
    kiln_set_mode(KILN_MODE_EAGER);
    return failures;
}

int main(void)
{
    kiln_device *dev = open_device();
    kiln_scope *scope = kiln_scope_begin();
    kiln_cell *net = kiln_cell_create(KILN_CELL(.kind = "net", .construct = construct, .n_in = 2, .n_out = 1));
    kiln_cell_make_parameter(net, "z", dev, KILN_F32, KILN_SHAPE(1), "2.0");
    const float xs[] = {0.8f, 0.6f, 0.2f, 1.8f, 1.3f, 1.1f};
    const float ys[] = {0.11f, 3.3f, 1.1f, 1.1f, 0.2f, 1.4f, 1.1f, 2.2f, 0.3f};
    kiln_tensor *x = kiln_from_data(dev, KILN_F32, KILN_SHAPE(2, 3), xs);
    kiln_tensor *y = kiln_from_data(dev, KILN_F32, KILN_SHAPE(3, 3), ys);
    kiln_tensor *in[] = {x, y}, *dx = NULL, *both[2] = {NULL};
    int failures = 0;

    kiln_grad(kiln_cell_fn, net, in, 2, NULL, &dx, 1);
    failures += CHECK("d/dx", dx, 9.02, 5.4, 7.2, 9.02, 5.4, 7.2);

    // By both inputs and the parameter at once.
    kiln_tensor *z = kiln_cell_parameter(net, "z"), *all[3] = {NULL};
    kiln_grad(kiln_cell_fn, net, in, 2, KILN_GRAD(.wrt = KILN_ARGS(0, 1), .params = KILN_PARAMS(z)), all, 3);
    failures += CHECK("d/dx", all[0], 9.02, 5.4, 7.2, 9.02, 5.4, 7.2);
    failures += CHECK("d/dy", all[1], 5.2, 5.2, 5.2, 3.8, 3.8, 3.8, 2.6, 2.6, 2.6);
    failures += CHECK("d/dz", all[2], 2.6 * 4.51 + 1.9 * 2.7 + 1.3 * 3.6);

    // The gradient of the output may be scaled: sens.
    kiln_tensor *sens = kiln_full(dev, KILN_F32, KILN_SHAPE(2, 3), 10);
    kiln_grad(kiln_cell_fn, net, in, 2, KILN_GRAD(.sens = KILN_TENSORS(sens)), both, 1);
    failures += CHECK("10 d/dx", both[0], 90.2, 54, 72, 90.2, 54, 72);

    failures += as_graphs(net, in);
    kiln_cell_free(&net);
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
    return failures != 0;
}
