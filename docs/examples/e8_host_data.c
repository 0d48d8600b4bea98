// A captured function that makes a tensor of host data: it becomes a constant of the graph, and the function returns
// it.
#include "check.h"

static kiln_status construct(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const int64_t x[] = {1, 2, 3};
    out[0] = kiln_from_data(user, KILN_I64, KILN_SHAPE(3), x);
    return kiln_error();
}

int main(void)
{
    kiln_device *dev = open_device();
    kiln_scope *scope = kiln_scope_begin();
    int failures = 0;
    kiln_function *f = kiln_jit(construct, dev, NULL);
    for (int i = 0; i < 2; i++) {
        kiln_tensor *out = NULL;
        kiln_call(f, NULL, 0, &out, 1);
        failures += check_text("y", out, "[1 2 3]");
        if (!out || kiln_tensor_dtype(out) != KILN_I64) failures++;
    }
    kiln_function_free(&f);

    // The strict syntax allows only what stays a tensor from input to output.
    kiln_tensor *out = NULL;
    f = kiln_jit(construct, dev, KILN_JIT(.syntax = KILN_SYNTAX_STRICT));
    kiln_call(f, NULL, 0, &out, 1);
    printf("strict syntax: %s\n", kiln_error_message());
    if (!kiln_error()) failures++;
    kiln_error_clear();
    kiln_function_free(&f);
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
    return failures != 0;
}
