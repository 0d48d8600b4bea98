// Gradients by tensors of integers and a number: integers have integer gradients, the number has none, unless it is
// mutable.
#include "check.h"

static kiln_status sum(void *user, kiln_bundle *in, kiln_bundle **out)
{
    kiln_tensor *s = kiln_add(kiln_bundle_tensor(in, "x"), kiln_bundle_tensor(in, "y"));
    *out = kiln_bundle_create();
    return kiln_bundle_append(*out, NULL, KILN_TENSOR(kiln_add(s, kiln_bundle_tensor(in, "z"))));
}

static kiln_status gradients(void *user, kiln_bundle *in, kiln_bundle **out)
{
    return kiln_bundle_grad(sum, NULL, in, KILN_BUNDLE_GRAD(.wrt = KILN_ARGS(0, 1, 2)), NULL, out);
}

static int check(kiln_bundle *grads, const char *name)
{
    kiln_tensor *g = kiln_bundle_tensor(grads, name);
    return CHECK(name, g, 1) + (kiln_tensor_dtype(g) != KILN_I64);
}

int main(void)
{
    kiln_device *dev = open_device();
    kiln_scope *scope = kiln_scope_begin();
    kiln_function *f = kiln_bundle_jit(gradients, NULL, NULL);
    kiln_bundle *in = kiln_bundle_create(), *grads;
    kiln_bundle_set(in, "x", KILN_TENSOR(kiln_from_data(dev, KILN_I64, KILN_SHAPE(1), (int64_t[]){1})));
    kiln_bundle_set(in, "y", KILN_INT(2));
    kiln_bundle_set(in, "z", KILN_TENSOR(kiln_from_data(dev, KILN_I64, KILN_SHAPE(1), (int64_t[]){3})));
    kiln_bundle_call(f, in, &grads);
    int failures = (kiln_bundle_count(grads) != 2) + check(grads, "x") + check(grads, "z");

    kiln_bundle_call(f, kiln_mutable_bundle(in), &grads);
    failures += (kiln_bundle_count(grads) != 3) + check(grads, "x") + check(grads, "y") + check(grads, "z");
    kiln_function_free(&f);
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
    return failures != 0;
}
