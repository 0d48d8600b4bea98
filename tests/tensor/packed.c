// Products with packed weights as programs use them: weights of a file, decoding a row at a time and reading many, in
// captured functions, with gradients, at the level of x86-64 that KILN_CPU_ISA names.
#include <kiln/kiln.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PACKINGS = 4, N = 37, BLOCKS = 3 };
static const struct packing {
    const char *name;
    int elements, size_B, half[2]; // where numbers in f16 lie; -1: none
} packings[PACKINGS] = {
    {"q4_0", 32, 18, {0, -1}}, {"q8_0", 32, 34, {0, -1}}, {"q4_K", 256, 144, {0, 2}}, {"q6_K", 256, 210, {208, -1}}};

static kiln_device *dev;

// Rows of random bytes, with halves from 2^-5 to 2^-2.
static kiln_tensor *rows(const struct packing *f)
{
    int64_t row_B = BLOCKS * f->size_B;
    unsigned char *bytes = malloc((size_t)(N * row_B));
    assert_non_null(bytes);
    uint32_t seed = 7;
    for (int64_t i = 0; i < N * row_B; i++) bytes[i] = (unsigned char)((seed = seed * 1664525 + 1013904223) >> 24);
    for (int64_t b = 0; b < N * BLOCKS; b++)
        for (int h = 0; h < 2; h++)
            if (f->half[h] >= 0) {
                unsigned char *high = &bytes[b * f->size_B + f->half[h] + 1];
                *high = (unsigned char)((*high & 0x83) | (10 + *high / 4 % 4) << 2);
            }
    kiln_tensor *t = kiln_from_data(dev, KILN_U8, KILN_SHAPE(N, row_B), bytes);
    free(bytes);
    return t;
}

static double largest(kiln_tensor *t)
{
    return kiln_item(kiln_max(kiln_abs(t), NULL));
}

static kiln_tensor *in_f64(kiln_tensor *x, kiln_tensor *w, int64_t format)
{
    kiln_tensor *unpacked = kiln_cast(kiln_unpack_blocks(w, format), KILN_F64);
    return kiln_matmul(kiln_cast(x, KILN_F64), kiln_transpose(unpacked, 0, 1));
}

static void error_is_that_of_f32(void **state)
{
    static const int64_t m[] = {1, 2, 4, 5, 9};
    for (int p = 0; p < PACKINGS; p++)
        for (int i = 0; i < 5; i++) {
            kiln_scope *scope = kiln_scope_begin();
            int64_t format = kiln_packing(packings[p].name), k = BLOCKS * packings[p].elements;
            kiln_tensor *w = rows(&packings[p]), *x = kiln_normal(dev, KILN_F32, KILN_SHAPE(m[i], k), 0, 1);
            kiln_tensor *got = kiln_matmul_packed(x, w, format), *want = in_f64(x, w, format);
            double off = largest(kiln_sub(kiln_cast(got, KILN_F64), want)), top = largest(want);
            assert_int_equal(kiln_error(), KILN_OK);
            if (!(top > 1 && off < 2e-6 * top))
                fail_msg("%s, %d rows: off by %g of %g", packings[p].name, (int)m[i], off, top);
            kiln_scope_end(&scope);
        }
}

static kiln_status network(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_tanh(kiln_matmul_packed(kiln_mul(in[0], kiln_scalar(0.01)), in[1], *(int64_t *)user));
    return kiln_error();
}

static kiln_status summed(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    if (network(user, in, n_in, out, n_out)) return kiln_error();
    out[0] = kiln_sum(out[0], NULL);
    return kiln_error();
}

// The same bits as eagerly, and the gradient of the product with unpacked weights.
static void graphs_have_it(void **state)
{
    for (int p = 0; p < PACKINGS; p++) {
        kiln_scope *scope = kiln_scope_begin();
        int64_t format = kiln_packing(packings[p].name), k = BLOCKS * packings[p].elements;
        kiln_tensor *in[] = {kiln_normal(dev, KILN_F32, KILN_SHAPE(3, k), 0, 1), rows(&packings[p])}, *want, *got;
        kiln_function *f = kiln_jit(network, &format, NULL);
        for (int call = 0; call < 2; call++) {
            assert_int_equal(network(&format, in, 2, &want, 1), KILN_OK);
            assert_int_equal(kiln_call(f, in, 2, &got, 1), KILN_OK);
            assert_true(largest(kiln_sub(got, want)) < 1e-6 && largest(want) > 0.1);
        }
        kiln_function_free(&f);
        kiln_tensor *dx;
        assert_int_equal(kiln_grad(summed, &format, in, 2, NULL, &dx, 1), KILN_OK);
        kiln_tensor *dy = kiln_sub(kiln_scalar(1), kiln_square(want));
        kiln_tensor *exact = kiln_mul(kiln_matmul(dy, kiln_unpack_blocks(in[1], format)), kiln_scalar(0.01));
        assert_int_equal(kiln_error(), KILN_OK);
        assert_true(largest(kiln_sub(dx, exact)) <= 1e-5 * largest(exact) && largest(exact) > 0);
        kiln_scope_end(&scope);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(error_is_that_of_f32), cmocka_unit_test(graphs_have_it)};
    dev = kiln_device_open(argc > 1 ? argv[1] : "cpu");
    if (!dev) return 77; // no driver, or a level that the machine lacks
    kiln_set_device(dev);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    kiln_device_close(&dev);
    return failed;
}
