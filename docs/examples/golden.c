// Gradients whose results are known: by several inputs, with values beside, of integers, through a write in place.
#include "check.h"

// x y z
static kiln_status product(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_mul(kiln_mul(in[0], in[1]), in[2]);
    return kiln_error();
}

// x exp(y) z^2, and z beside it
static kiln_status with_value(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_mul(kiln_mul(in[0], kiln_exp(in[1])), kiln_pow(in[2], kiln_scalar(2)));
    out[1] = in[2];
    return kiln_error();
}

// x + 2 + z; the number in between is no tensor and has no gradient
static kiln_status integer_sum(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_add(kiln_add(in[0], kiln_scalar_int(2)), in[1]);
    return kiln_error();
}

// Adds y to x where x lies.
static kiln_status add_in_place(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_add_(in[0], in[1]);
    out[0] = in[0];
    return kiln_error();
}

static kiln_tensor *pair(kiln_device *dev, float a, float b)
{
    return kiln_from_data(dev, KILN_F32, KILN_SHAPE(2), (float[]){a, b});
}

int main(void)
{
    kiln_device *dev = open_device();
    kiln_scope *scope = kiln_scope_begin();
    int failures = 0;

    kiln_tensor *in[] = {pair(dev, 1, 2), pair(dev, -2, 3), pair(dev, 0, 3)}, *grads[3] = {NULL};
    kiln_grad(product, NULL, in, 3, KILN_GRAD(.wrt = KILN_ARGS(1, 2)), grads, 2);
    failures += CHECK("d(x y z)/dy", grads[0], 0, 6);
    failures += CHECK("d(x y z)/dz", grads[1], -2, 6);

    kiln_tensor *aux_in[] = {pair(dev, 3, 3), pair(dev, 0, 0), pair(dev, 5, 5)};
    kiln_grad(with_value, NULL, aux_in, 3, KILN_GRAD(.wrt = KILN_ARGS(1, 2), .outputs = 2, .has_aux = true), grads, 3);
    failures += CHECK("d(x exp(y) z^2)/dy", grads[0], 75, 75);
    failures += CHECK("d(x exp(y) z^2)/dz", grads[1], 30, 30);
    failures += CHECK("z", grads[2], 5, 5);

    kiln_tensor *ints[] = {kiln_from_data(dev, KILN_I64, KILN_SHAPE(1), (int64_t[]){1}),
                           kiln_from_data(dev, KILN_I64, KILN_SHAPE(1), (int64_t[]){3})};
    kiln_grad(integer_sum, NULL, ints, 2, KILN_GRAD(.wrt = KILN_ARGS(0, 1)), grads, 2);
    for (int i = 0; i < 2; i++) {
        failures += check_text("d(x + 2 + z) by an integer", grads[i], "[1]");
        if (grads[i]) failures += kiln_tensor_dtype(grads[i]) != KILN_I64;
    }

    kiln_tensor *sum[] = {kiln_full(dev, KILN_F32, KILN_SHAPE0, 2), kiln_full(dev, KILN_F32, KILN_SHAPE0, 3)};
    kiln_tensor *results[2] = {NULL};
    kiln_value_and_grad(add_in_place, NULL, sum, 2, NULL, results, 2);
    failures += CHECK("x += y", results[0], 5);
    failures += CHECK("its gradient by x", results[1], 1);

    if (kiln_error()) fprintf(stderr, "%s\n", kiln_error_message());
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
    return failures != 0;
}
