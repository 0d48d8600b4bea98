// Every f16 as it becomes an f32, and what lies between neighbours as it becomes an f16, eagerly and inside a captured
// function's kernel: with IEEE 754's rounding to nearest, ties to even, on every device.
#include <kiln/kiln.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    ALL = 1 << 16,
    FINITE = 0x7c00,
    TOO_LARGE = 0x7c00,
    PLACES = 3,
    MORE = 10,
    NARROW = 2 * (PLACES * FINITE + MORE)
};

static kiln_device *dev;

static float value_of(unsigned h)
{
    int exponent = (int)(h >> 10 & 31);
    float fraction = (float)(h & 1023), v = exponent ? ldexpf(1024 + fraction, exponent - 25) : ldexpf(fraction, -24);
    if (exponent == 31) v = fraction > 0 ? NAN : INFINITY;
    return h & 0x8000 ? -v : v;
}

// With the -0 that changes no number, so that a kernel of several steps is made.
static kiln_status widen(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = kiln_add(kiln_cast(in[0], KILN_F32), in[1]);
    return kiln_error();
}

static kiln_status narrow(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = kiln_cast(kiln_add(in[0], in[1]), KILN_F16);
    return kiln_error();
}

static void run(kiln_fn fn, bool captured, kiln_tensor *x, void *to, size_t size_B)
{
    const float zero = -0.0f;
    kiln_tensor *in[2] = {x, kiln_from_data(dev, KILN_F32, KILN_SHAPE(1), &zero)}, *out = NULL;
    kiln_function *f = captured ? kiln_jit(fn, NULL, NULL) : NULL;
    assert_int_equal(captured ? kiln_call(f, in, 2, &out, 1) : fn(NULL, in, 2, &out, 1), KILN_OK);
    assert_int_equal(kiln_read(out, to, size_B), KILN_OK);
    kiln_function_free(&f);
}

static void expect_widened(const char *how, const float *got)
{
    for (unsigned h = 0; h < ALL; h++) {
        float want = value_of(h);
        bool same = isnan(want) ? isnan(got[h]) : got[h] == want && !signbit(got[h]) == !signbit(want);
        if (!same) fail_msg("f16 of bits 0x%04x becomes %a %s, not %a", h, (double)got[h], how, (double)want);
    }
}

static void every_half_becomes_its_number(void **state)
{
    (void)state;
    kiln_scope *scope = kiln_scope_begin();
    uint16_t *halves = malloc(ALL * sizeof *halves);
    float *got = malloc(ALL * sizeof *got);
    assert_true(halves && got);
    for (unsigned h = 0; h < ALL; h++) halves[h] = (uint16_t)h;
    kiln_tensor *x = kiln_from_data(dev, KILN_F16, KILN_SHAPE(ALL), halves);
    assert_int_equal(kiln_read(kiln_cast(x, KILN_F32), got, ALL * sizeof *got), KILN_OK);
    expect_widened("by a cast", got);
    run(widen, false, x, got, ALL * sizeof *got);
    expect_widened("before a sum", got);
    run(widen, true, x, got, ALL * sizeof *got);
    expect_widened("in a captured function", got);
    free(halves), free(got);
    kiln_scope_end(&scope);
}

// Between a number and the next larger one: the middle, which goes to the even one, and what lies beside it. What is
// beyond the largest number counts as one more.
static int list_numbers(float *x, uint16_t *want)
{
    static const float more[MORE] = {0x1p16f, 0x1p17f, 1e30f, 3.4e38f, INFINITY, 0x1p-26f, 0x1p-149f, 0x1p-126f, 0, 1};
    static const uint16_t more_want[MORE] = {TOO_LARGE, TOO_LARGE, TOO_LARGE, TOO_LARGE, TOO_LARGE, 0, 0, 0, 0, 0x3c00};
    int n = 0;
    for (unsigned h = 0; h < FINITE; h++) {
        float next = h + 1 == FINITE ? 65536 : value_of(h + 1), middle = (value_of(h) + next) / 2;
        x[n] = middle, want[n++] = (uint16_t)(h + (h & 1));
        x[n] = nextafterf(middle, 0), want[n++] = (uint16_t)h;
        x[n] = nextafterf(middle, INFINITY), want[n++] = (uint16_t)(h + 1);
    }
    for (int i = 0; i < MORE; i++, n++) x[n] = more[i], want[n] = more_want[i];
    for (int i = 0; i < NARROW / 2; i++, n++) x[n] = -x[i], want[n] = want[i] | 0x8000;
    return n;
}

static void expect_narrowed(const char *how, const float *x, const uint16_t *got, const uint16_t *want)
{
    for (int i = 0; i < NARROW; i++)
        if (got[i] != want[i])
            fail_msg("%a becomes the f16 of bits 0x%04x %s, not 0x%04x", (double)x[i], got[i], how, want[i]);
}

static void what_lies_between_is_rounded(void **state)
{
    (void)state;
    kiln_scope *scope = kiln_scope_begin();
    float *x = malloc(NARROW * sizeof *x);
    uint16_t *want = malloc(2 * NARROW * sizeof *want), *got = want + NARROW;
    assert_true(x && want);
    assert_int_equal(list_numbers(x, want), NARROW);
    kiln_tensor *t = kiln_from_data(dev, KILN_F32, KILN_SHAPE(NARROW), x);
    assert_int_equal(kiln_read(kiln_cast(t, KILN_F16), got, NARROW * sizeof *got), KILN_OK);
    expect_narrowed("by a cast", x, got, want);
    run(narrow, false, t, got, NARROW * sizeof *got);
    expect_narrowed("behind a sum", x, got, want);
    run(narrow, true, t, got, NARROW * sizeof *got);
    expect_narrowed("in a captured function", x, got, want);
    free(x), free(want);
    kiln_scope_end(&scope);
}

static void what_is_none_stays_none(void **state)
{
    (void)state;
    kiln_scope *scope = kiln_scope_begin();
    const uint32_t bits[4] = {0x7fc00000, 0xffc00000, 0x7f800001, 0x7fffffff};
    float x[4];
    uint16_t got[4];
    memcpy(x, bits, sizeof x);
    kiln_tensor *t = kiln_from_data(dev, KILN_F32, KILN_SHAPE(4), x);
    for (int captured = 0; captured < 2; captured++) {
        run(narrow, captured, t, got, sizeof got);
        for (int i = 0; i < 4; i++)
            if (!isnan(value_of(got[i]))) fail_msg("NaN 0x%08x becomes the f16 of bits 0x%04x", bits[i], got[i]);
    }
    kiln_scope_end(&scope);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_half_becomes_its_number),
                                       cmocka_unit_test(what_lies_between_is_rounded),
                                       cmocka_unit_test(what_is_none_stays_none)};
    dev = kiln_device_open(argc > 1 ? argv[1] : "cpu");
    if (!dev) return 77; // no driver, or a level that the machine lacks
    kiln_set_device(dev);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    kiln_device_close(&dev);
    return failed;
}
