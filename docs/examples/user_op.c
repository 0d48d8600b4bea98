// Ops of the user's own: one with its gradients as expressions, one with a rule in C.
//
// On a Vulkan device such an op is compiled at its first use, where the library can do that; else it runs on the CPU,
// and one warning says so.
#include "check.h"

// y = sqrt(x^2 + 1): dx = dy x / y. The rule keeps the input and the output.
static kiln_status soft_abs_rule(void *user, kiln_tensor *const *in, kiln_tensor *const *out, kiln_tensor *const *dout,
                                 kiln_tensor **din)
{
    din[0] = kiln_div(kiln_mul(dout[0], in[0]), out[0]);
    return kiln_error();
}

static kiln_status call(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_apply(user, in, n_in);
    return kiln_error();
}

int main(void)
{
    kiln_device *dev = open_device();
    kiln_scope *scope = kiln_scope_begin();
    int failures = 0;

    // a b^2, with its gradients as expressions.
    kiln_register_op(
        KILN_OP(.name = "user_scale_square", .n_in = 2, .expr = "a * b * b", .grad = {"dy * b * b", "dy * 2 * a * b"}));
    kiln_tensor *a = kiln_from_data(dev, KILN_F32, KILN_SHAPE(3), (float[]){1, 2, 3});
    kiln_tensor *b = kiln_from_data(dev, KILN_F32, KILN_SHAPE(3), (float[]){2, -1, 0.5f});
    kiln_tensor *in[] = {a, b}, *results[3] = {NULL};
    kiln_value_and_grad(call, (void *)"user_scale_square", in, 2, KILN_GRAD(.wrt = KILN_ARGS(0, 1)), results, 3);
    failures += CHECK("a b^2", results[0], 4, 2, 0.75);
    failures += CHECK("its gradient by a", results[1], 4, 1, 0.25);
    failures += CHECK("its gradient by b", results[2], 4, -4, 3);

    // sqrt(x^2 + 1), with a rule in C.
    kiln_register_op(KILN_OP(.name = "user_soft_abs", .n_in = 1, .expr = "sqrt(x * x + 1)"));
    kiln_register_bprop("user_soft_abs", soft_abs_rule, NULL);
    kiln_tensor *x = kiln_from_data(dev, KILN_F32, KILN_SHAPE(2), (float[]){0, -0.75f});
    kiln_value_and_grad(call, (void *)"user_soft_abs", &x, 1, NULL, results, 2);
    failures += CHECK("sqrt(x^2 + 1)", results[0], 1, 1.25);
    failures += CHECK("its gradient", results[1], 0, -0.6);

    // A mistake in an expression is found at once, and the message shows where.
    kiln_status status = kiln_register_op(KILN_OP(.name = "user_wrong", .n_in = 1, .expr = "x + frobnicate(x)"));
    printf("as expected: %s\n", kiln_error_message());
    failures += status != KILN_E_ARGUMENT;
    kiln_error_clear();

    kiln_scope_end(&scope);
    kiln_device_close(&dev);
    return failures != 0;
}
