// The gradients of a product by a bundle of two matrices: a bundle of two gradients, eagerly and captured. New values
// are no new capture.
#include "check.h"

static kiln_status product(void *user, kiln_bundle *in, kiln_bundle **out)
{
    kiln_bundle *z = kiln_bundle_bundle(in, "z");
    *out = kiln_bundle_create();
    return kiln_bundle_append(*out, NULL,
                              KILN_TENSOR(kiln_matmul(kiln_bundle_tensor_at(z, 0), kiln_bundle_tensor_at(z, 1))));
}

static kiln_status gradients(void *user, kiln_bundle *in, kiln_bundle **out)
{
    return kiln_bundle_grad(product, NULL, in, KILN_BUNDLE_GRAD(.names = KILN_NAMES("z")), NULL, out);
}

static int check(kiln_bundle *grads, float scale)
{
    kiln_bundle *z = kiln_bundle_bundle(grads, "z");
    int failures = CHECK("d/dx", kiln_bundle_tensor_at(z, 0), 1.41, 1.6, 6.6, 1.41, 1.6, 6.6);
    return failures + CHECK("d/dy", kiln_bundle_tensor_at(z, 1), 1.7 * scale, 1.7 * scale, 1.7 * scale, 1.9 * scale,
                            1.9 * scale, 1.9 * scale, 1.5 * scale, 1.5 * scale, 1.5 * scale);
}

int main(void)
{
    kiln_device *dev = open_device();
    kiln_scope *scope = kiln_scope_begin();
    const float xs[] = {0.5f, 0.6f, 0.4f, 1.2f, 1.3f, 1.1f};
    const float ys[] = {0.01f, 0.3f, 1.1f, 0.1f, 0.2f, 1.3f, 2.1f, 1.2f, 3.3f};
    kiln_tensor *pair[] = {kiln_from_data(dev, KILN_F32, KILN_SHAPE(2, 3), xs),
                           kiln_from_data(dev, KILN_F32, KILN_SHAPE(3, 3), ys)};
    kiln_bundle *in = kiln_bundle_create(), *z = kiln_bundle_of(pair, 2), *grads;
    kiln_bundle_set(in, "z", KILN_BUNDLE(z));
    gradients(NULL, in, &grads);
    int failures = check(grads, 1);

    kiln_function *f = kiln_bundle_jit(gradients, NULL, NULL);
    kiln_bundle_call(f, in, &grads);
    failures += check(grads, 1);

    kiln_bundle_set_at(z, 0, KILN_TENSOR(kiln_mul(pair[0], kiln_scalar(2))));
    kiln_bundle_set(in, "z", KILN_BUNDLE(z));
    kiln_bundle_call(f, in, &grads);
    failures += check(grads, 2);
    kiln_jit_stats stats = {.size = sizeof stats};
    kiln_function_stats(f, &stats);
    if (stats.captures != 1) failures++;
    kiln_function_free(&f);
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
    return failures != 0;
}
