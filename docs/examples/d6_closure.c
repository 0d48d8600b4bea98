// A closure: an outer function of (1, 2) gives an inner one that adds both to its argument. In C the values that an
// inner function takes with it are its user data, and each closure is captured by itself.
#include "check.h"

struct closure {
    int64_t a, b;
};

static kiln_status inner(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct closure *c = user;
    out[0] = kiln_add(in[0], kiln_scalar_int(c->a + c->b));
    return kiln_error();
}

static kiln_function *outer(struct closure *c, int64_t a, int64_t b, kiln_capture capture)
{
    *c = (struct closure){a, b};
    return kiln_jit(inner, c, KILN_JIT(.capture = capture));
}

static int call(kiln_device *dev, kiln_function *f, int64_t argument, int64_t want)
{
    kiln_tensor *x = kiln_full(dev, KILN_I64, KILN_SHAPE0, (double)argument), *y = NULL;
    kiln_call(f, &x, 1, &y, 1);
    int64_t got = kiln_item_int(y);
    printf("inner(%d) = %d\n", (int)argument, (int)got);
    return got != want || kiln_error();
}

int main(void)
{
    kiln_device *dev = open_device();
    kiln_scope *scope = kiln_scope_begin();
    int failures = 0;
    for (kiln_capture capture = KILN_CAPTURE_STRICT; capture <= KILN_CAPTURE_TRACE; capture++) {
        struct closure first, second;
        kiln_function *f = outer(&first, 1, 2, capture), *g = outer(&second, 10, 20, capture);
        failures += call(dev, f, 1, 4) + call(dev, f, 2, 5) + call(dev, g, 1, 31);
        kiln_function_free(&f);
        kiln_function_free(&g);
    }
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
    return failures != 0;
}
