// A gradient rule for multiplication, written by hand and registered in the place of the built-in one.
//
// The rule gives the gradients as if both inputs had the shape of the output; where one was broadcast, the library
// sums.
#include "check.h"

static int calls;

static kiln_status mul_rule(void *user, kiln_tensor *const *in, kiln_tensor *const *out, kiln_tensor *const *dout,
                            kiln_tensor **din)
{
    calls++;
    if (kiln_rule_wants(0)) din[0] = kiln_mul(in[1], dout[0]);
    if (kiln_rule_wants(1)) din[1] = kiln_mul(in[0], dout[0]);
    return kiln_error();
}

static kiln_status net(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_matmul(kiln_mul(in[0], in[2]), in[1]);
    return kiln_error();
}

int main(void)
{
    kiln_device *dev = open_device();
    kiln_scope *scope = kiln_scope_begin();
    const float xs[] = {0.8f, 0.6f, 0.2f, 1.8f, 1.3f, 1.1f};
    const float ys[] = {0.11f, 3.3f, 1.1f, 1.1f, 0.2f, 1.4f, 1.1f, 2.2f, 0.3f}, zs[] = {2.0f};
    kiln_tensor *in[] = {kiln_from_data(dev, KILN_F32, KILN_SHAPE(2, 3), xs),
                         kiln_from_data(dev, KILN_F32, KILN_SHAPE(3, 3), ys),
                         kiln_from_data(dev, KILN_F32, KILN_SHAPE(1), zs)};
    kiln_register_bprop("Mul", mul_rule, NULL);
    kiln_tensor *grads[2] = {NULL};
    kiln_grad(net, NULL, in, 3, KILN_GRAD(.wrt = KILN_ARGS(0, 2)), grads, 2);
    int failures = CHECK("d/dx", grads[0], 9.02, 5.4, 7.2, 9.02, 5.4, 7.2);
    failures += CHECK("d/dz, summed over x", grads[1], 2.6 * 4.51 + 1.9 * 2.7 + 1.3 * 3.6);
    if (calls != 1) failures++;
    printf("the rule ran %d time(s)\n", calls);

    kiln_register_bprop("mul", NULL, NULL); // the built-in rule again
    kiln_grad(net, NULL, in, 3, NULL, grads, 1);
    failures += CHECK("d/dx", grads[0], 9.02, 5.4, 7.2, 9.02, 5.4, 7.2);
    if (calls != 1) failures++;
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
    return failures != 0;
}
