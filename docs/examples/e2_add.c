// A single op, run at once: the sum of two tensors of ones. Then the same op captured.
#include "check.h"

static const char twos[] = "[[[[2. 2. 2. 2.]\n   [2. 2. 2. 2.]\n   [2. 2. 2. 2.]]\n\n"
                           "  [[2. 2. 2. 2.]\n   [2. 2. 2. 2.]\n   [2. 2. 2. 2.]]\n\n"
                           "  [[2. 2. 2. 2.]\n   [2. 2. 2. 2.]\n   [2. 2. 2. 2.]]]]";

static kiln_status add(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_add(in[0], in[1]);
    return kiln_error();
}

int main(void)
{
    kiln_device *dev = open_device();
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *x = kiln_ones(dev, KILN_F32, KILN_SHAPE(1, 3, 3, 4));
    kiln_tensor *y = kiln_ones(dev, KILN_F32, KILN_SHAPE(1, 3, 3, 4));
    int failures = check_text("x + y", kiln_add(x, y), twos);

    kiln_function *captured = kiln_jit(add, NULL, NULL);
    kiln_tensor *in[] = {x, y}, *sum = NULL;
    kiln_call(captured, in, 2, &sum, 1);
    failures += check_text("x + y, captured", sum, twos);
    kiln_function_free(&captured);
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
    return failures != 0;
}
