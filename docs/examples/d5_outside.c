// A function that reads a plain C variable. In the strict capture its value at the capture stays: a change outside is
// not seen, unless a hash of it is given. The capture that runs the C code at every call sees it.
#include "check.h"

struct net {
    int64_t len;
};

static kiln_status construct(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct net *self = user;
    out[0] = kiln_add(in[0], kiln_scalar_int(self->len));
    return kiln_error();
}

static uint64_t hash(void *user)
{
    return (uint64_t)((const struct net *)user)->len;
}

static int run(kiln_device *dev, const char *what, const kiln_jit_opts *opts, int64_t second)
{
    struct net net = {.len = 1};
    int failures = 0;
    kiln_function *f = kiln_jit(construct, &net, opts);
    for (; net.len <= 2; net.len++) {
        kiln_tensor *x = kiln_from_data(dev, KILN_I64, KILN_SHAPE(1), (int64_t[]){2}), *y = NULL;
        kiln_call(f, &x, 1, &y, 1);
        int64_t got = kiln_item_int(y), want = net.len == 1 ? 3 : second;
        printf("%s, len = %d: %d\n", what, (int)net.len, (int)got);
        if (got != want || kiln_error()) failures++;
    }
    kiln_function_free(&f);
    return failures;
}

int main(void)
{
    kiln_device *dev = open_device();
    kiln_scope *scope = kiln_scope_begin();
    int failures = run(dev, "strict", NULL, 3);
    failures += run(dev, "strict with a hash", KILN_JIT(.hash_args = hash), 4);
    failures += run(dev, "trace", KILN_JIT(.capture = KILN_CAPTURE_TRACE), 3);
    failures += run(dev, "auto", KILN_JIT(.capture = KILN_CAPTURE_AUTO), 4);
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
    return failures != 0;
}
