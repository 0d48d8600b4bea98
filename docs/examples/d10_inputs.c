// The gradients of a product by both matrices at once. Where another language passes a tuple, C passes an array of
// inputs, which captured functions take as they are: new values are no new capture.
#include "check.h"

static kiln_status product(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_matmul(in[0], in[1]);
    return kiln_error();
}

static kiln_status gradients(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    return kiln_grad(product, NULL, in, n_in, KILN_GRAD(.wrt = KILN_ARGS(0, 1)), out, n_out);
}

static int check(kiln_tensor *const *grads)
{
    int failures = CHECK("d/dx", grads[0], 1.41, 1.6, 6.6, 1.41, 1.6, 6.6);
    return failures + CHECK("d/dy", grads[1], 1.7, 1.7, 1.7, 1.9, 1.9, 1.9, 1.5, 1.5, 1.5);
}

int main(void)
{
    kiln_device *dev = open_device();
    kiln_scope *scope = kiln_scope_begin();
    const float xs[] = {0.5f, 0.6f, 0.4f, 1.2f, 1.3f, 1.1f};
    const float ys[] = {0.01f, 0.3f, 1.1f, 0.1f, 0.2f, 1.3f, 2.1f, 1.2f, 3.3f};
    kiln_tensor *in[] = {kiln_from_data(dev, KILN_F32, KILN_SHAPE(2, 3), xs),
                         kiln_from_data(dev, KILN_F32, KILN_SHAPE(3, 3), ys)};
    kiln_tensor *grads[2] = {NULL};
    gradients(NULL, in, 2, grads, 2);
    int failures = check(grads);

    kiln_function *f = kiln_jit(gradients, NULL, NULL);
    kiln_call(f, in, 2, grads, 2);
    failures += check(grads);

    kiln_tensor *twice[] = {kiln_mul(in[0], kiln_scalar(2)), in[1]};
    kiln_call(f, twice, 2, grads, 2);
    failures += CHECK("d/dy of twice x", grads[1], 3.4, 3.4, 3.4, 3.8, 3.8, 3.8, 3, 3, 3);
    kiln_jit_stats stats = {.size = sizeof stats};
    kiln_function_stats(f, &stats);
    if (stats.captures != 1) failures++;
    kiln_function_free(&f);
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
    return failures != 0;
}
