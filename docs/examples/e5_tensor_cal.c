// A plain function of tensors: the product of two matrices of ones, plus ones.
#include "check.h"

static kiln_tensor *tensor_cal(kiln_tensor *x, kiln_tensor *y, kiln_tensor *z)
{
    return kiln_add(kiln_matmul(x, y), z);
}

int main(void)
{
    kiln_device *dev = open_device();
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *x = kiln_ones(dev, KILN_F32, KILN_SHAPE(2, 3)), *y = kiln_ones(dev, KILN_F32, KILN_SHAPE(3, 4));
    kiln_tensor *z = kiln_ones(dev, KILN_F32, KILN_SHAPE(2, 4));
    int failures = check_text("x y + z", tensor_cal(x, y, z), "[[4. 4. 4. 4.]\n [4. 4. 4. 4.]]");
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
    return failures != 0;
}
