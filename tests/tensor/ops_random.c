// Random numbers against the words of their generator, on the CPU, at each level of instructions, and on Vulkan.
#include "ops_check.h"

// Philox4x32-10 as its authors give it.
static void philox(uint64_t seed, uint64_t counter, uint32_t *word)
{
    uint32_t c[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), 0, 0},
             key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    for (int round = 0; round < 10; round++) {
        uint64_t p = (uint64_t)0xD2511F53u * c[0], q = (uint64_t)0xCD9E8D57u * c[2];
        uint32_t next[4] = {(uint32_t)(q >> 32) ^ c[1] ^ key[0], (uint32_t)q, (uint32_t)(p >> 32) ^ c[3] ^ key[1],
                            (uint32_t)p};
        memcpy(c, next, sizeof c);
        key[0] += 0x9E3779B9u;
        key[1] += 0xBB67AE85u;
    }
    memcpy(word, c, sizeof c);
}

// The vectors that come with Random123: counter and key all zeros.
TEST_BODY(test_philox)
{
    uint32_t word[4];
    philox(0, 0, word);
    assert_int_equal(word[0], 0x6627e8d5u);
    assert_int_equal(word[1], 0xe169c58du);
    assert_int_equal(word[2], 0xbc57ac4cu);
    assert_int_equal(word[3], 0x9b00dbd8u);
}

enum { DRAWN = 10001 };

TEST_BODY(test_uniform)
{
    uint64_t seed = 0x123456789abcdefull, offset = 0xfffffffeull; // the counter carries into its second word
    static double want[DRAWN];
    for (int i = 0; i < DRAWN; i++) {
        uint32_t word[4];
        philox(seed, offset + (uint64_t)i / 4, word);
        float z = (float)(word[i % 4] >> 8) * 0x1p-24f;
        want[i] = (double)(-2.0f + 5.0f * z);
    }
    kiln_set_rng_state(dev, seed, offset);
    EXPECT(kiln_uniform(dev, KILN_F32, KILN_SHAPE(73, 137), -2, 3), want, DRAWN);
    uint64_t s2, o2;
    kiln_rng_state(dev, &s2, &o2);
    assert_true(s2 == seed && o2 == offset + (DRAWN + 1) / 2);
    for (int i = 0; i < DRAWN; i++) {
        uint32_t word[4];
        philox(seed, offset + (uint64_t)i / 2, word);
        const uint32_t *pair = word + i % 2 * 2;
        want[i] = ((double)(pair[0] >> 5) * 0x1p26 + (pair[1] >> 6)) * 0x1p-53;
    }
    kiln_set_rng_state(dev, seed, offset);
    EXPECT(kiln_uniform(dev, KILN_F64, KILN_SHAPE(DRAWN), 0, 1), want, DRAWN);
    kiln_set_rng_state(dev, seed, offset);
    for (int i = 0; i < DRAWN; i++) {
        uint32_t word[4];
        philox(seed, offset + (uint64_t)i / 4, word);
        want[i] = (float)(word[i % 4] >> 8) * 0x1p-24f < 0.3f;
    }
    EXPECT(kiln_bernoulli(dev, KILN_BOOL, KILN_SHAPE(DRAWN), 0.3), want, DRAWN);
    assert_null(kiln_uniform(dev, KILN_I32, KILN_SHAPE(1), 0, 1));
    EXPECT_FAILURE(KILN_E_DTYPE, "uniform");
    assert_null(kiln_bernoulli(dev, KILN_F32, KILN_SHAPE(1), 1.5));
    EXPECT_FAILURE(KILN_E_ARGUMENT, "bernoulli");
    EXPECT_SHAPE(kiln_uniform(dev, KILN_F32, KILN_SHAPE(0), 0, 1), 0);
}

__extension__ typedef unsigned __int128 u128;

TEST_BODY(test_randint)
{
    static const int64_t bounds[][2] = {{-5, 12}, {0, INT64_C(1) << 40}, {INT64_MIN, INT64_MAX}};
    static int64_t got[DRAWN];
    for (int b = 0; b < 3; b++) {
        uint64_t range = (uint64_t)bounds[b][1] - (uint64_t)bounds[b][0];
        kiln_set_rng_state(dev, 99, 7);
        kiln_read(kiln_randint(dev, KILN_I64, KILN_SHAPE(DRAWN), bounds[b][0], bounds[b][1]), got, sizeof got);
        OK();
        for (int i = 0; i < DRAWN; i++) {
            uint32_t word[4];
            philox(99, 7 + (uint64_t)i / 2, word);
            uint64_t x = (uint64_t)word[i % 2 * 2] << 32 | word[i % 2 * 2 + 1];
            int64_t want = (int64_t)((uint64_t)((u128)x * range >> 64) + (uint64_t)bounds[b][0]);
            assert_true(got[i] == want);
        }
    }
    kiln_tensor *t = kiln_randint(dev, KILN_U8, KILN_SHAPE(1000), 3, 6);
    assert_int_equal(kiln_item_int(kiln_min(t, NULL)), 3);
    assert_int_equal(kiln_item_int(kiln_max(t, NULL)), 5);
    assert_null(kiln_randint(dev, KILN_I32, KILN_SHAPE(1), 3, 3));
    EXPECT_FAILURE(KILN_E_ARGUMENT, "randint");
}

// 1 + 2 times the i-th of the normal numbers that a seed makes, in f32 and in f64.
static double normal_f32(uint64_t seed, int i)
{
    uint32_t word[4];
    philox(seed, (uint64_t)i / 4, word);
    const uint32_t *pair = word + i % 4 / 2 * 2;
    double r = sqrt(-2 * log(((double)(pair[0] >> 8) + 1) * 0x1p-24));
    double angle = (pair[1] >> 8) * 0x1p-24 * 6.283185307179586;
    return 1 + 2 * r * (i % 2 ? sin(angle) : cos(angle));
}

static double normal_f64(uint64_t seed, int i)
{
    uint32_t word[4];
    philox(seed, (uint64_t)i / 2, word);
    double u = ((double)(word[0] >> 5) * 0x1p26 + (word[1] >> 6) + 1) * 0x1p-53;
    double angle = ((double)(word[2] >> 5) * 0x1p26 + (word[3] >> 6)) * 0x1p-53 * 6.283185307179586;
    return 1 + 2 * sqrt(-2 * log(u)) * (i % 2 ? sin(angle) : cos(angle));
}

TEST_BODY(test_normal)
{
    enum { LONG = (1 << 19) + 77 }; // several pieces, as the host makes them
    static const int sizes[] = {1, 2, 3, DRAWN, LONG};
    double *want = malloc(LONG * sizeof *want);
    assert_non_null(want);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        int n = sizes[s];
        for (int i = 0; i < n; i++) want[i] = normal_f32(5, i);
        kiln_seed(dev, 5);
        EXPECT_NEAR(kiln_normal(dev, KILN_F32, KILN_SHAPE(n), 1, 2), want, n, n == LONG ? 4e-6 : 2e-6);
        for (int i = 0; i < n; i++) want[i] = normal_f64(5, i);
        kiln_seed(dev, 5);
        EXPECT_NEAR(kiln_normal(dev, KILN_F64, KILN_SHAPE(n), 1, 2), want, n, 2e-13);
    }
    free(want);
    kiln_seed(dev, 5);
    kiln_tensor *t = kiln_normal(dev, KILN_F32, KILN_SHAPE(DRAWN), 1, 2);
    assert_true(fabs(kiln_item(kiln_mean(t, NULL)) - 1) < 0.08);
    assert_true(fabs(kiln_item(kiln_std(t, NULL)) - 2) < 0.06);
}

TEST_BODY(test_randperm)
{
    static int64_t got[DRAWN], again[DRAWN];
    static bool seen[DRAWN];
    kiln_seed(dev, 1);
    kiln_read(kiln_randperm(dev, DRAWN), got, sizeof got);
    int fixed = 0;
    for (int i = 0; i < DRAWN; i++) {
        assert_true(got[i] >= 0 && got[i] < DRAWN && !seen[got[i]]);
        seen[got[i]] = true;
        fixed += got[i] == i;
    }
    assert_true(fixed < 12);
    kiln_read(kiln_randperm(dev, DRAWN), again, sizeof again);
    assert_memory_not_equal(got, again, sizeof got);
    kiln_seed(dev, 1);
    kiln_read(kiln_randperm(dev, DRAWN), again, sizeof again);
    assert_memory_equal(got, again, sizeof got);
    EXPECT_SHAPE(kiln_randperm(dev, 0), 0);
}

TEST_BODY(test_dropout)
{
    static float got[DRAWN];
    kiln_tensor *x = kiln_ones(dev, KILN_F32, KILN_SHAPE(DRAWN));
    uint64_t seed, offset;
    kiln_seed(dev, 3);
    kiln_rng_state(dev, &seed, &offset);
    kiln_tensor *y = kiln_dropout(x, 0.25);
    kiln_read(y, got, sizeof got);
    OK();
    int kept = 0;
    for (int i = 0; i < DRAWN; i++) {
        uint32_t word[4];
        philox(3, (uint64_t)i / 4, word);
        bool keep = (float)(word[i % 4] >> 8) * 0x1p-24f >= 0.25f;
        assert_true(got[i] == (keep ? (float)(1 / 0.75) : 0));
        kept += keep;
    }
    assert_true(abs(kept - DRAWN * 3 / 4) < 200);
    assert_true(
        kiln_item_int(kiln_all(kiln_equal(y, kiln_dropout_again(x, 0.25, (int64_t)seed, (int64_t)offset)), NULL)));
    kiln_tensor *square = kiln_reshape(kiln_narrow(x, 0, 0, 10000), KILN_SHAPE(100, 100));
    kiln_tensor *turned = kiln_dropout_again(kiln_transpose(square, 0, 1), 0.25, (int64_t)seed, (int64_t)offset);
    assert_true(kiln_item_int(
        kiln_all(kiln_equal(kiln_reshape(turned, KILN_SHAPE(10000)), kiln_narrow(y, 0, 0, 10000)), NULL)));
    EXPECT_LIST(kiln_dropout(kiln_ones(dev, KILN_F64, KILN_SHAPE(3)), 0), 1, 1, 1);
    EXPECT_LIST(kiln_dropout(kiln_ones(dev, KILN_F64, KILN_SHAPE(3)), 1), 0, 0, 0);
    assert_null(kiln_dropout(kiln_ones(dev, KILN_I32, KILN_SHAPE(3)), 0.5));
    EXPECT_FAILURE(KILN_E_DTYPE, "dropout");
}

static kiln_status f_dropout_fresh(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = kiln_dropout(in[0], 0.5);
    return kiln_error();
}

TEST_BODY(test_dropout_gradient)
{
    kiln_tensor *in[] = {kiln_ones(dev, KILN_F32, KILN_SHAPE(1000))}, *both[2] = {NULL};
    kiln_value_and_grad(f_dropout_fresh, NULL, in, 1, NULL, both, 2);
    assert_true(kiln_item_int(kiln_all(kiln_equal(both[0], both[1]), NULL)));
    OK();
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_philox),           cmocka_unit_test(test_uniform),  cmocka_unit_test(test_randint),
    cmocka_unit_test(test_normal),           cmocka_unit_test(test_randperm), cmocka_unit_test(test_dropout),
    cmocka_unit_test(test_dropout_gradient),
};

int main(int argc, char **argv)
{
    return run_on_device(argc, argv, tests, sizeof tests / sizeof *tests);
}
