// A plain function of tensors, captured: the product of two matrices of ones, plus ones.
#include "check.h"

static kiln_tensor *tensor_cal(kiln_tensor *x, kiln_tensor *y, kiln_tensor *z)
{
    return kiln_add(kiln_matmul(x, y), z);
}

static kiln_status captured(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = tensor_cal(in[0], in[1], in[2]);
    return kiln_error();
}

int main(void)
{
    kiln_device *dev = open_device();
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *x = kiln_ones(dev, KILN_F32, KILN_SHAPE(2, 3)), *y = kiln_ones(dev, KILN_F32, KILN_SHAPE(3, 4));
    kiln_tensor *z = kiln_ones(dev, KILN_F32, KILN_SHAPE(2, 4));
    int failures = check_text("x y + z", tensor_cal(x, y, z), "[[4. 4. 4. 4.]\n [4. 4. 4. 4.]]");

    kiln_function *fast = kiln_jit(captured, NULL, NULL);
    kiln_tensor *in[] = {x, y, z}, *out = NULL;
    kiln_call(fast, in, 3, &out, 1);
    failures += check_text("x y + z, captured", out, "[[4. 4. 4. 4.]\n [4. 4. 4. 4.]]");
    kiln_function_free(&fast);
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
    return failures != 0;
}
