// A plain function of tensors, traced: the product of two matrices of ones, plus ones. The ops of the first call are
// recorded; later calls replay them without running the C code, so the line is printed once.
#include "check.h"

static kiln_status tensor_cal(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *product = kiln_matmul(in[0], in[1]);
    ++*(int *)user;
    printf("the product is recorded or computed\n");
    out[0] = kiln_add(product, in[2]);
    return kiln_error();
}

int main(void)
{
    kiln_device *dev = open_device();
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *x = kiln_ones(dev, KILN_F32, KILN_SHAPE(2, 3)), *y = kiln_ones(dev, KILN_F32, KILN_SHAPE(3, 4));
    kiln_tensor *z = kiln_ones(dev, KILN_F32, KILN_SHAPE(2, 4)), *in[] = {x, y, z};
    int runs = 0, failures = 0;
    kiln_function *f = kiln_jit(tensor_cal, &runs, KILN_JIT(.capture = KILN_CAPTURE_TRACE));
    for (int i = 0; i < 3; i++) {
        kiln_tensor *out = NULL;
        kiln_call(f, in, 3, &out, 1);
        failures += check_text("x y + z", out, "[[4. 4. 4. 4.]\n [4. 4. 4. 4.]]");
    }
    if (runs != 1) failures++;
    kiln_explain(f, stdout);
    kiln_function_free(&f);
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
    return failures != 0;
}
