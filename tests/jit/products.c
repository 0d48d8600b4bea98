// Products with what goes on with their results, in captured functions on the CPU: one launch each, the bits of eager
// mode, whatever else reads the operands and the result, and wherever in memory they come to lie.
#include "jit_fixture.h"
#include <kiln/grad.h>

enum { MOST = 3 };

static const struct sizes {
    int64_t m, n, k;
} sizes[] = {{130, 97, 65}, {25, 1025, 33}, {257, 64, 300}, {1000, 3, 40}, {48, 48, 48}, {64, 2100, 2}};
static const struct sizes *now;

#define FN(name) \
    static kiln_status name(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)

// in: x[m, k], w[k, n], row[n], other[m, n]
FN(bias_gelu)
{
    out[0] = kiln_gelu_tanh(kiln_add(kiln_matmul(in[0], in[1]), in[2]));
    return kiln_error();
}

FN(relu_alone)
{
    out[0] = kiln_relu(kiln_matmul(in[0], in[1]));
    return kiln_error();
}

FN(bias_alone)
{
    out[0] = kiln_add(kiln_matmul(in[0], in[1]), in[2]);
    return kiln_error();
}

FN(activations)
{
    kiln_tensor *y = kiln_matmul(in[0], in[1]);
    out[0] = kiln_mul(kiln_silu(y), kiln_sigmoid(kiln_add(kiln_tanh(y), in[3])));
    return kiln_error();
}

FN(residual)
{
    out[0] = kiln_add(kiln_add(kiln_matmul(in[0], in[1]), in[2]), in[3]);
    return kiln_error();
}

FN(converted)
{
    out[0] = kiln_cast(kiln_mul(kiln_add(kiln_matmul(in[0], in[1]), in[2]), kiln_scalar(0.5)), KILN_BF16);
    return kiln_error();
}

FN(softmax_of_rows)
{
    out[0] = kiln_softmax(kiln_add(kiln_matmul(in[0], in[1]), in[2]), -1);
    return kiln_error();
}

FN(norm_of_rows)
{
    out[0] = kiln_layer_norm(kiln_add(kiln_matmul(in[0], in[1]), in[3]), 1, NULL);
    return kiln_error();
}

FN(product_kept)
{
    out[0] = kiln_matmul(in[0], in[1]);
    out[1] = kiln_tanh(kiln_add(out[0], in[2]));
    return kiln_error();
}

FN(batched)
{
    kiln_tensor *x = kiln_reshape(in[0], KILN_SHAPE(1, now->m, now->k));
    kiln_tensor *both[] = {x, kiln_neg(x)};
    out[0] = kiln_relu(kiln_add(kiln_matmul(kiln_concat(both, 2, 0), in[1]), in[2]));
    return kiln_error();
}

// What must not be made slice by slice.
FN(softmax_of_columns)
{
    out[0] = kiln_softmax(kiln_add(kiln_matmul(in[0], in[1]), in[2]), 0);
    return kiln_error();
}

FN(total)
{
    out[0] = kiln_sum(kiln_square(kiln_matmul(in[0], in[1])), NULL);
    return kiln_error();
}

FN(rows_upside_down)
{
    out[0] = kiln_add(kiln_flip(kiln_matmul(in[0], in[1]), KILN_AXES(0)), in[3]);
    return kiln_error();
}

FN(first_row_to_all)
{
    kiln_tensor *y = kiln_matmul(in[0], in[1]);
    out[0] = kiln_exp(kiln_add(kiln_narrow(y, 0, 0, 1), in[3]));
    return kiln_error();
}

FN(numbered_rows)
{
    kiln_tensor *rows =
        kiln_reshape(kiln_arange(kiln_tensor_device(in[0]), KILN_F32, 0, (double)now->m, 1), KILN_SHAPE(now->m, 1));
    out[0] = kiln_mul(kiln_add(kiln_matmul(in[0], in[1]), rows), kiln_add(rows, kiln_scalar(1)));
    return kiln_error();
}

FN(transposed)
{
    out[0] = kiln_tanh(kiln_add(kiln_transpose(kiln_matmul(in[0], in[1]), 0, 1), kiln_scalar(1)));
    return kiln_error();
}

// Square only where m = n = k: the input is operand, residual, and given away.
FN(layers)
{
    kiln_tensor *h = in[0];
    for (int i = 0; i < 4; i++) h = kiln_add(kiln_tanh(kiln_matmul(h, in[1])), h);
    out[0] = h;
    return kiln_error();
}

static const struct {
    const char *name;
    kiln_fn fn;
    size_t n_out;
    uint64_t launches;  // 0: whatever
    bool square, folds; // folds: in another order than eager mode
} functions[] = {
    {"bias_gelu", bias_gelu, 1, 1},
    {"relu_alone", relu_alone, 1, 1},
    {"bias_alone", bias_alone, 1, 1},
    {"activations", activations, 1, 1},
    {"residual", residual, 1, 1},
    {"converted", converted, 1, 1},
    {"softmax_of_rows", softmax_of_rows, 1, 1, false, true},
    {"norm_of_rows", norm_of_rows, 1, 1, false, true},
    {"product_kept", product_kept, 2, 1},
    {"batched", batched, 1, 0},
    {"softmax_of_columns", softmax_of_columns, 1, 2, false, true},
    {"total", total, 1, 2, false, true},
    {"rows_upside_down", rows_upside_down, 1, 2},
    {"first_row_to_all", first_row_to_all, 1, 2},
    {"numbered_rows", numbered_rows, 1, 2},
    {"transposed", transposed, 1, 2},
    {"layers", layers, 1, 4, true},
};

static kiln_tensor *values(struct fixture *f, kiln_dtype dtype, size_t rank, const int64_t *dims, int seed)
{
    int64_t n = 1;
    for (size_t i = 0; i < rank; i++) n *= dims[i];
    float *v = malloc(sizeof *v * (size_t)n);
    assert_non_null(v);
    for (int64_t i = 0; i < n; i++) v[i] = (float)((i * 7919 + seed * 131) % 211 - 105) / 150;
    kiln_tensor *t = kiln_from_data(f->dev, KILN_F32, rank, dims, v);
    free(v);
    return dtype == KILN_F32 ? t : kiln_cast(t, dtype);
}

static void inputs(struct fixture *f, kiln_dtype dtype, kiln_tensor **in)
{
    in[0] = values(f, dtype, KILN_SHAPE(now->m, now->k), 1);
    in[1] = values(f, dtype, KILN_SHAPE(now->k, now->n), 2);
    in[2] = values(f, dtype, KILN_SHAPE(now->n), 3);
    in[3] = values(f, dtype, KILN_SHAPE(now->m, now->n), 4);
}

static void same_bits(const char *name, kiln_tensor *got, kiln_tensor *want)
{
    size_t size_B = (size_t)kiln_numel(want) * kiln_dtype_size(kiln_tensor_dtype(want));
    char *a = malloc(2 * size_B);
    assert_non_null(a);
    ok(kiln_read(got, a, size_B));
    ok(kiln_read(want, a + size_B, size_B));
    if (memcmp(a, a + size_B, size_B))
        fail_msg("%s, %dx%dx%d: not the bits of eager mode", name, (int)now->m, (int)now->n, (int)now->k);
    free(a);
}

static void alike(const char *name, kiln_tensor *got, kiln_tensor *want)
{
    double by = kiln_tensor_dtype(want) == KILN_BF16 ? 1e-2 : 1e-5;
    kiln_tensor *a = kiln_cast(got, KILN_F64), *b = kiln_cast(want, KILN_F64);
    double off = kiln_item(kiln_max(kiln_abs(kiln_sub(a, b)), NULL)), most = kiln_item(kiln_max(kiln_abs(b), NULL));
    if (!(off <= by * (1 + most)))
        fail_msg("%s, %dx%dx%d: off by %g", name, (int)now->m, (int)now->n, (int)now->k, off);
}

static void check(struct fixture *f, size_t i, kiln_dtype dtype, kiln_level level)
{
    kiln_scope *s = kiln_scope_begin();
    kiln_tensor *in[4], *twin[4], *out[MOST], *want[MOST];
    bool given = functions[i].square;
    kiln_jit_opts o = {.size = sizeof o, .name = functions[i].name, .level = level, .eager_rounding = true};
    o.donate = given ? (kiln_ints){1, (const int64_t[]){0}} : (kiln_ints){0};
    kiln_function *j = kiln_jit(functions[i].fn, NULL, &o);
    for (int call = 0; call < 2; call++) {
        inputs(f, dtype, in);
        inputs(f, dtype, twin);
        ok(functions[i].fn(NULL, twin, 4, want, functions[i].n_out));
        ok(kiln_call(j, in, 4, out, functions[i].n_out));
        for (size_t k = 0; k < functions[i].n_out; k++)
            (functions[i].folds ? alike : same_bits)(functions[i].name, out[k], want[k]);
        for (int k = given; k < 4; k++) same_bits("an operand", in[k], twin[k]);
    }
    kiln_cost cost = {.size = sizeof cost};
    ok(kiln_function_cost(j, &cost));
    if (KILN_WITH_LLVM && functions[i].launches && dtype == KILN_F32 && level == KILN_LEVEL_FUSION &&
        cost.launches != functions[i].launches)
        fail_msg("%s, %dx%dx%d: %d launches, not %d", functions[i].name, (int)now->m, (int)now->n, (int)now->k,
                 (int)cost.launches, (int)functions[i].launches);
    kiln_function_free(&j);
    kiln_scope_end(&s);
}

static void of_every_size(void **state)
{
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        now = &sizes[s];
        bool square = now->m == now->n && now->n == now->k;
        for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
            if (functions[i].square && !square) continue;
            check(*state, i, KILN_F32, KILN_LEVEL_FUSION);
            if (s < 2) check(*state, i, KILN_BF16, KILN_LEVEL_FUSION);
            if (s < 1) check(*state, i, KILN_F64, KILN_LEVEL_FUSION);
            if (s < 1) check(*state, i, KILN_F32, KILN_LEVEL_PASSES);
        }
    }
}

// What a backward pass needs of the result is there, and gradients are those of eager mode.
static void with_gradients(void **state)
{
    struct fixture *f = *state;
    now = &sizes[0];
    kiln_function *j = kiln_jit(bias_gelu, NULL, NULL);
    kiln_tensor *grads[2][3];
    for (int captured = 0; captured < 2; captured++) {
        kiln_tensor *in[4], *out;
        inputs(f, KILN_F32, in);
        for (int i = 0; i < 3; i++) kiln_set_requires_grad(in[i], true);
        ok(captured ? kiln_call(j, in, 4, &out, 1) : bias_gelu(NULL, in, 4, &out, 1));
        ok(kiln_backward(kiln_sum(kiln_square(out), NULL), NULL));
        for (int i = 0; i < 3; i++) grads[captured][i] = kiln_gradient(in[i]);
    }
    for (int i = 0; i < 3; i++) {
        kiln_tensor *off = kiln_max(kiln_abs(kiln_sub(grads[0][i], grads[1][i])), NULL);
        kiln_tensor *most = kiln_max(kiln_abs(grads[0][i]), NULL);
        assert_true(kiln_item(off) <= 1e-5 * (1 + kiln_item(most)));
    }
    kiln_function_free(&j);
}

int main(void)
{
    if (choose_device(0, NULL)) return 77;
    const struct CMUnitTest tests[] = {FIXTURE(of_every_size), FIXTURE(with_gradients)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
