// A function that leaves a value behind: x + 1 is its result, and an attribute of its object from then on. As state,
// which captured functions may write, it works in every capture. The capture that runs the C code at every call takes
// it as it is in C, too: a handle that is replaced.
#include "check.h"

struct net {
    kiln_tensor *attr; // state
};

static kiln_status construct(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct net *self = user;
    out[0] = kiln_add(in[0], kiln_scalar(1));
    return kiln_assign(self->attr, out[0]);
}

static int run(kiln_device *dev, const char *what, const kiln_jit_opts *opts)
{
    struct net net = {.attr = kiln_zeros(dev, KILN_F32, KILN_SHAPE(3))};
    int failures = 0;
    kiln_state(net.attr);
    kiln_function *f = kiln_jit(construct, &net, opts);
    for (int i = 0; i < 2; i++) {
        const float values[2][3] = {{1, 2, 3}, {5, 6, 7}};
        kiln_tensor *x = kiln_from_data(dev, KILN_F32, KILN_SHAPE(3), values[i]), *y = NULL;
        kiln_call(f, &x, 1, &y, 1);
        printf("%s, call %d\n", what, i + 1);
        failures += check_text("x + 1", y, i ? "[6. 7. 8.]" : "[2. 3. 4.]");
        failures += check_text("the attribute", net.attr, i ? "[6. 7. 8.]" : "[2. 3. 4.]");
    }
    kiln_function_free(&f);
    return failures;
}

static kiln_status construct_in_c(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct net *self = user;
    kiln_free(&self->attr);
    out[0] = kiln_add(in[0], kiln_scalar(1));
    self->attr = kiln_own(kiln_alias(out[0]));
    return kiln_error();
}

static int run_in_c(kiln_device *dev)
{
    struct net net = {NULL};
    int failures = 0;
    kiln_function *f = kiln_jit(construct_in_c, &net, KILN_JIT(.capture = KILN_CAPTURE_AUTO));
    for (int i = 0; i < 2; i++) {
        kiln_tensor *x = kiln_full(dev, KILN_F32, KILN_SHAPE(3), i + 1), *y = NULL;
        kiln_call(f, &x, 1, &y, 1);
        failures += check_text("x + 1", y, i ? "[3. 3. 3.]" : "[2. 2. 2.]");
        failures += check_text("the attribute", net.attr, i ? "[3. 3. 3.]" : "[2. 2. 2.]");
    }
    kiln_free(&net.attr);
    kiln_function_free(&f);
    return failures;
}

int main(void)
{
    kiln_device *dev = open_device();
    kiln_scope *scope = kiln_scope_begin();
    int failures = run(dev, "strict", NULL);
    failures += run(dev, "auto", KILN_JIT(.capture = KILN_CAPTURE_AUTO));
    failures += run_in_c(dev);
    failures += run(dev, "trace", KILN_JIT(.capture = KILN_CAPTURE_TRACE));
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
    return failures != 0;
}
