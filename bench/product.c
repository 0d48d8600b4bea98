// Products of matrices: dtypes, layouts, sizes.
#include "bench.h"

static kiln_status setup_product(struct state *s, kiln_dtype dtype)
{
    int64_t g = s->z->g;
    random_input_of(s, 0, dtype, KILN_SHAPE(g, g));
    random_input_of(s, 1, dtype, KILN_SHAPE(g, g));
    s->flops = 2.0 * (double)g * (double)g * (double)g;
    s->bytes = 3.0 * (double)kiln_dtype_size(dtype) * (double)(g * g);
    return kiln_error();
}

kiln_status setup_product_f32(struct state *s)
{
    return setup_product(s, KILN_F32);
}

kiln_status setup_product_bf16(struct state *s)
{
    return setup_product(s, KILN_BF16);
}

kiln_status setup_product_f16(struct state *s)
{
    return setup_product(s, KILN_F16);
}

kiln_status setup_product_bias(struct state *s)
{
    random_input(s, 2, KILN_SHAPE(s->z->g));
    return setup_product(s, KILN_F32);
}

kiln_status setup_product_batch(struct state *s)
{
    random_input(s, 0, KILN_SHAPE(64, 128, 128));
    random_input(s, 1, KILN_SHAPE(64, 128, 128));
    s->flops = 2.0 * 64 * 128 * 128 * 128;
    return kiln_error();
}

kiln_status run_product(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_matmul(in[0], in[1]);
    return kiln_error();
}

kiln_status setup_einsum(struct state *s)
{
    random_input(s, 0, KILN_SHAPE(8, 256, 16, 64));
    random_input(s, 1, KILN_SHAPE(8, 256, 16, 64));
    s->flops = 2.0 * 8 * 16 * 256 * 256 * 64;
    return kiln_error();
}

kiln_status run_einsum(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_einsum("bqhd,bkhd->bhqk", in, 2);
    return kiln_error();
}

kiln_status run_product_bias(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    *out = kiln_gelu_tanh(kiln_add(kiln_matmul(in[0], in[1]), in[2]));
    return kiln_error();
}

// --- by size: rows, columns of the first, columns of the second, how many

kiln_status setup_sized_product(struct state *s)
{
    const int64_t *n = case_sizes(s);
    double many = n[3] ? (double)n[3] : 1, size_B = (double)kiln_dtype_size(case_dtype(s));
    const int64_t shapes[2][3] = {{n[3], n[0], n[1]}, {n[3], n[1], n[2]}};
    for (int i = 0; i < 2; i++) {
        int64_t rows = shapes[i][1], columns = shapes[i][2];
        bool swapped = s->c->transposed & 1 << i;
        int64_t dims[] = {n[3], swapped ? columns : rows, swapped ? rows : columns};
        random_input_of(s, i, case_dtype(s), n[3] ? 3 : 2, n[3] ? dims : dims + 1);
    }
    s->flops = 2 * many * (double)(n[0] * n[1] * n[2]);
    s->bytes = size_B * many * (double)(n[0] * n[1] + n[1] * n[2] + n[0] * n[2]);
    return kiln_error();
}

kiln_status run_sized_product(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *t[2];
    for (int i = 0; i < 2; i++) t[i] = s->c->transposed & 1 << i ? kiln_transpose(in[i], -2, -1) : in[i];
    *out = kiln_matmul(t[0], t[1]);
    return kiln_error();
}
