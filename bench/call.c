// The cost of an op by itself.
#include "bench.h"

kiln_status setup_dispatch(struct state *s)
{
    random_input(s, 0, KILN_SHAPE(4));
    return kiln_error();
}

kiln_status run_dispatch(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *one = kiln_scalar(1), *t = kiln_add(in[0], one);
    for (int i = 1; i < 1000; i++) {
        kiln_tensor *before = t;
        t = kiln_add(before, one);
        kiln_free(&before);
    }
    *out = t;
    return kiln_error();
}

kiln_status setup_products(struct state *s)
{
    random_input(s, 0, KILN_SHAPE(8, 8));
    own_input(s, 1, kiln_eye(s->dev, KILN_F32, 8, 8)); // so that values stay what they are
    return kiln_error();
}

// Launches of which each needs the one before, captured as well as eagerly.
kiln_status run_products(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *t = kiln_matmul(in[0], in[1]);
    for (int i = 1; i < 128; i++) {
        kiln_tensor *before = t;
        t = kiln_matmul(before, in[1]);
        kiln_free(&before);
    }
    *out = t;
    return kiln_error();
}
