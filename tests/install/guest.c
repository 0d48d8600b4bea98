// A program of somebody else: the version, and a captured function, whose kernels are compiled while it runs.
#include <kiln/kiln.h>

static kiln_status squares(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_sum(kiln_mul(in[0], in[0]), NULL);
    return kiln_error();
}

int main(void)
{
    kiln_device *dev = kiln_device_open(NULL);
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *x = kiln_arange(dev, KILN_F32, 0, 4, 1), *y = NULL;
    kiln_function *f = kiln_jit(squares, NULL, NULL);
    kiln_call(f, &x, 1, &y, 1);
    if (kiln_version() != KILN_VERSION) return 2;
    printf("kiln %s: %g\n", kiln_version_string(), kiln_item(y));
    int status = kiln_error() ? 1 : 0;
    if (status) fprintf(stderr, "%s\n", kiln_error_message());
    kiln_function_free(&f);
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
    return status;
}
