// Rows over vectors: elementwise ops, alone and in chains, and random numbers. Chains free what they are done with, as
// Python's counts of references do for the peers.
#include "bench.h"

kiln_status setup_vectors(struct state *s)
{
    random_input(s, 0, KILN_SHAPE(s->z->n));
    random_input(s, 1, KILN_SHAPE(s->z->n));
    s->bytes = 12.0 * (double)s->z->n;
    return kiln_error();
}

kiln_status setup_add(struct state *s)
{
    s->flops = (double)s->z->n;
    return setup_vectors(s);
}

kiln_status setup_vector(struct state *s)
{
    random_input(s, 0, KILN_SHAPE(s->z->n));
    s->flops = (double)s->z->n;
    s->bytes = 4.0 * (double)s->z->n;
    return kiln_error();
}

kiln_status setup_unary(struct state *s)
{
    setup_vector(s);
    s->bytes *= 2;
    return kiln_error();
}

kiln_status run_add(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_add(in[0], in[1]);
    return kiln_error();
}

kiln_status run_chain5(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *x = in[0], *y = in[1];
    kiln_tensor *h = kiln_mul(x, y);
    kiln_replace(&h, kiln_add(h, x));
    kiln_replace(&h, kiln_relu(h));
    kiln_replace(&h, kiln_mul(h, kiln_scalar(0.5)));
    kiln_replace(&h, kiln_sub(h, y));
    kiln_replace(&h, kiln_tanh(h));
    kiln_replace(&h, kiln_sigmoid(h));
    kiln_replace(&h, kiln_add(h, x));
    *out = h;
    return kiln_error();
}

kiln_status run_sum_all(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_sum(in[0], NULL);
    return kiln_error();
}

kiln_status run_sin(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_sin(in[0]);
    return kiln_error();
}

kiln_status run_gelu(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_gelu(in[0]);
    return kiln_error();
}

// --- chains of other dtypes

kiln_status setup_chain(struct state *s)
{
    kiln_dtype dtype = case_dtype(s);
    for (int i = 0; i < 2; i++) {
        if (dtype == KILN_I32)
            own_input(s, i, kiln_randint(s->dev, KILN_I32, KILN_SHAPE(s->z->n), -1000, 1000));
        else
            random_input_of(s, i, dtype, KILN_SHAPE(s->z->n));
    }
    s->bytes = 3.0 * (double)kiln_dtype_size(dtype) * (double)s->z->n;
    return kiln_error();
}

kiln_status run_chain_int(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *x = in[0], *y = in[1];
    kiln_tensor *h = kiln_mul(x, y);
    kiln_replace(&h, kiln_add(h, x));
    kiln_replace(&h, kiln_maximum(h, kiln_scalar_int(0)));
    kiln_replace(&h, kiln_mul(h, kiln_scalar_int(3)));
    kiln_replace(&h, kiln_sub(h, y));
    kiln_replace(&h, kiln_add(h, x));
    *out = h;
    return kiln_error();
}

// --- random numbers

// No inputs: what is read is nothing.
kiln_status setup_normal(struct state *s)
{
    s->bytes = 4.0 * (double)s->z->n;
    return kiln_error();
}

kiln_status run_normal(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_normal(s->dev, KILN_F32, KILN_SHAPE(s->z->n), 0, 1);
    return kiln_error();
}

kiln_status run_dropout(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_dropout(in[0], 0.5);
    return kiln_error();
}
