// Fourier transforms, systems of equations, singular values.
#include "bench.h"

static kiln_tensor *normal(struct state *s, size_t rank, const int64_t *dims)
{
    return kiln_normal(s->dev, KILN_F32, rank, dims, 0, 1);
}

static void own_complex(struct state *s, size_t rank, const int64_t *dims)
{
    own_input(s, 0, kiln_complex(normal(s, rank, dims), normal(s, rank, dims)));
}

// --- Fourier transforms: 2^20 elements, 1024 x 1024 on both axes

kiln_status setup_fft(struct state *s)
{
    own_complex(s, KILN_SHAPE(s->z->n / 4));
    s->bytes = 16.0 * (double)(s->z->n / 4);
    return kiln_error();
}

kiln_status run_fft(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_fft(in[0], -1, NULL);
    return kiln_error();
}

kiln_status setup_fft2(struct state *s)
{
    own_complex(s, KILN_SHAPE(s->z->c, s->z->c));
    s->bytes = 16.0 * (double)(s->z->c * s->z->c);
    return kiln_error();
}

kiln_status run_fft2(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_fft2(in[0], NULL);
    return kiln_error();
}

// --- small systems: 256 of 32 unknowns, with 8 right sides

kiln_status setup_solve_batch(struct state *s)
{
    int64_t n = 8 * s->z->b;
    kiln_tensor *far_from_singular = kiln_mul(kiln_eye(s->dev, KILN_F32, 32, 32), 16);
    own_input(s, 0, kiln_add(normal(s, KILN_SHAPE(n, 32, 32)), far_from_singular));
    own_input(s, 1, normal(s, KILN_SHAPE(n, 32, 8)));
    s->flops = (double)n * (2.0 / 3 * 32 * 32 * 32 + 2.0 * 32 * 32 * 8);
    return kiln_error();
}

kiln_status run_solve_batch(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_solve(in[0], in[1]);
    return kiln_error();
}

// --- one system, and singular values of many matrices

kiln_status setup_solve(struct state *s)
{
    int64_t n = s->z->g;
    random_input(s, 0, KILN_SHAPE(n, n));
    random_input(s, 1, KILN_SHAPE(n, 16));
    s->flops = 2.0 / 3 * (double)n * (double)n * (double)n;
    return kiln_error();
}

kiln_status run_solve(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_solve(in[0], in[1]);
    return kiln_error();
}

kiln_status setup_svd(struct state *s)
{
    random_input(s, 0, KILN_SHAPE(64, 64, 64));
    return kiln_error();
}

kiln_status run_svd(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *u, *vh;
    return kiln_svd(in[0], false, &u, out, &vh);
}
