// A single op, run at once: the sum of two tensors of ones.
#include "check.h"

int main(void)
{
    kiln_device *dev = open_device();
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *x = kiln_ones(dev, KILN_F32, KILN_SHAPE(1, 3, 3, 4));
    kiln_tensor *y = kiln_ones(dev, KILN_F32, KILN_SHAPE(1, 3, 3, 4));
    int failures = check_text("x + y", kiln_add(x, y),
                              "[[[[2. 2. 2. 2.]\n   [2. 2. 2. 2.]\n   [2. 2. 2. 2.]]\n\n"
                              "  [[2. 2. 2. 2.]\n   [2. 2. 2. 2.]\n   [2. 2. 2. 2.]]\n\n"
                              "  [[2. 2. 2. 2.]\n   [2. 2. 2. 2.]\n   [2. 2. 2. 2.]]]]");
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
    return failures != 0;
}
