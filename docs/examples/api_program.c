// The shape of a program: open a device, open a scope, compute, take a gradient, look at the error once, close.
#include <kiln/kiln.h>

// A function in the sense of gradients: inputs in, outputs out, user data beside.
static kiln_status net(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_matmul(kiln_mul(in[0], in[2]), in[1]);
    return kiln_error();
}

int main(void)
{
    kiln_device *dev = kiln_device_open(NULL);
    kiln_scope *scope = kiln_scope_begin();
    const float xs[] = {0.8f, 0.6f, 0.2f, 1.8f, 1.3f, 1.1f}, zs[] = {2.0f};
    const float ys[] = {0.11f, 3.3f, 1.1f, 1.1f, 0.2f, 1.4f, 1.1f, 2.2f, 0.3f};
    kiln_tensor *x = kiln_from_data(dev, KILN_F32, KILN_SHAPE(2, 3), xs);
    kiln_tensor *y = kiln_from_data(dev, KILN_F32, KILN_SHAPE(3, 3), ys);
    kiln_tensor *z = kiln_from_data(dev, KILN_F32, KILN_SHAPE(1), zs);

    kiln_tensor *in[] = {x, y, z}, *dx = NULL;
    kiln_grad(net, NULL, in, 3, KILN_GRAD(.wrt = KILN_ARGS(0)), &dx, 1); // [[9.02 5.4 7.2] [9.02 5.4 7.2]]
    kiln_print(dx, stdout);

    int status = kiln_error() ? 1 : 0;
    if (status) fprintf(stderr, "%s\n", kiln_error_message());
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
    return status;
}
