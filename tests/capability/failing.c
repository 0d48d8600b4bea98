// A program with a mistake in one of its functions, for the debugger to find.
#include <kiln/kiln.h>

static kiln_tensor *train_step(kiln_tensor *x, kiln_tensor *w)
{
    int step = 7;
    kiln_tensor *h = kiln_relu(x);
    kiln_tensor *y = kiln_matmul(h, w); // x is f32[2,3], w is f32[4,5]
    return step ? y : h;
}

int main(void)
{
    kiln_device *dev = kiln_device_open("cpu");
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *y = train_step(kiln_ones(dev, KILN_F32, KILN_SHAPE(2, 3)), kiln_ones(dev, KILN_F32, KILN_SHAPE(4, 5)));
    fprintf(stderr, "%s\n", kiln_error_message());
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
    return y ? 1 : 0;
}
