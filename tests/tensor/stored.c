// Storage dtypes: every code, rounding, movement, writes, text, and what refuses them.
#include <kiln/kiln.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static kiln_device *dev;
static const kiln_dtype reals[] = {KILN_BOOL, KILN_U8,  KILN_I8,  KILN_I16, KILN_I32, KILN_I64, KILN_F16,
                                   KILN_BF16, KILN_F32, KILN_F64, KILN_U16, KILN_U32, KILN_U64};
static const kiln_dtype stored[] = {KILN_F8_E4M3, KILN_F8_E5M2, KILN_I4, KILN_U4};
enum { N_REALS = sizeof reals / sizeof *reals, F32 = 8, F64 = 9 };

#define must(x)                                                 \
    do {                                                        \
        (void)(x);                                              \
        if (kiln_error()) fail_msg("%s", kiln_error_message()); \
    } while (0)

static int begin(void **state)
{
    *state = kiln_scope_begin();
    return 0;
}

static int end(void **state)
{
    kiln_scope *scope = *state;
    kiln_scope_end(&scope);
    return kiln_error() ? -1 : 0;
}

static void refused(const char *message)
{
    if (!strstr(kiln_error_message(), message)) fail_msg("\"%s\", expected \"%s\"", kiln_error_message(), message);
    kiln_error_clear();
}

static bool is_float(kiln_dtype d)
{
    return d == KILN_F16 || d == KILN_BF16 || d == KILN_F32 || d == KILN_F64;
}

// --- the numbers, by the definition of the formats

struct format {
    kiln_dtype dtype;
    int digits, bias;
    double largest;
    bool infinities;
};
static const struct format formats[] = {{KILN_F8_E4M3, 3, 7, 448, false}, {KILN_F8_E5M2, 2, 15, 57344, true}};

static double number_of(const struct format *f, int code)
{
    int parts = 1 << f->digits, exponent = (code & 127) / parts, fraction = code % parts;
    double sign = code >= 128 ? -1 : 1;
    if (f->infinities && exponent == 31) return fraction ? (double)NAN : sign * (double)INFINITY;
    if (!f->infinities && (code & 127) == 127) return (double)NAN;
    if (exponent == 0) return sign * fraction / parts * pow(2, 1 - f->bias);
    return sign * (1 + (double)fraction / parts) * pow(2, exponent - f->bias);
}

// The nearest of all numbers, of two the one with the even code; NaN is a code of NaN.
static bool is_nearest(const struct format *f, double v, int code)
{
    double got = number_of(f, code);
    if (v != v) return got != got;
    if (!!signbit(v) != (code >= 128) || got != got) return false;
    if (fabs(v) >= f->largest) return fabs(got) == f->largest;
    double error = fabs(got - v);
    for (int other = code & 128; other < (code & 128) + 128; other++) {
        double e = fabs(number_of(f, other) - v);
        if (other != code && e == e && (e < error || (e == error && code % 2))) return false;
    }
    return true;
}

static kiln_tensor *all_codes(kiln_dtype dtype)
{
    uint8_t codes[256];
    for (int i = 0; i < 256; i++) codes[i] = (uint8_t)i;
    return kiln_from_data(dev, dtype, KILN_SHAPE(16, dtype >= KILN_I4 ? 32 : 16), codes);
}

static void read_f64(kiln_tensor *t, int64_t n, double *out)
{
    must(t);
    assert_int_equal(kiln_numel(t), n);
    must(kiln_read(kiln_cast(t, KILN_F64), out, sizeof *out * (size_t)n));
}

static void every_code_is_its_number(void **state)
{
    double got[256], want[256];
    float plain[256];
    for (int k = 0; k < 2; k++) {
        kiln_tensor *all = all_codes(formats[k].dtype);
        for (int i = 0; i < 256; i++) plain[i] = (float)number_of(&formats[k], i);
        kiln_tensor *numbers = kiln_from_data(dev, KILN_F32, KILN_SHAPE(16, 16), plain);
        for (int d = 0; d < N_REALS; d++) {
            kiln_tensor *y = kiln_cast(all, reals[d]);
            assert_int_equal(kiln_tensor_dtype(y), reals[d]);
            read_f64(y, 256, got);
            read_f64(is_float(reals[d]) ? numbers : kiln_cast(numbers, reals[d]), 256, want);
            for (int i = 0; i < 256; i++) {
                bool same = got[i] == want[i] && signbit(got[i]) == signbit(want[i]);
                if (!same && !(got[i] != got[i] && want[i] != want[i]))
                    fail_msg("%s: code %d is %g of %s, expected %g", kiln_dtype_name(formats[k].dtype), i, got[i],
                             kiln_dtype_name(reals[d]), want[i]);
            }
        }
        // And back, each but NaN to its code.
        uint8_t bytes[256];
        must(kiln_read(kiln_cast(numbers, formats[k].dtype), bytes, 256));
        for (int i = 0; i < 256; i++)
            if (plain[i] == plain[i] && isfinite(plain[i])) assert_int_equal(bytes[i], i);
    }
}

static void check_nearest(const struct format *f, kiln_tensor *numbers, int n)
{
    uint8_t codes[2048];
    double v[2048];
    must(numbers);
    read_f64(numbers, n, v);
    kiln_tensor *y = kiln_cast(numbers, f->dtype);
    must(y);
    assert_int_equal(kiln_tensor_dtype(y), f->dtype);
    must(kiln_read(y, codes, (size_t)n));
    for (int i = 0; i < n; i++)
        if (!is_nearest(f, v[i], codes[i]))
            fail_msg("%.17g, %s, becomes code %d of %s", v[i], kiln_dtype_name(kiln_tensor_dtype(numbers)), codes[i],
                     kiln_dtype_name(f->dtype));
}

static void numbers_round_to_the_nearest(void **state)
{
    static const double edges[] = {0,    -0.0, NAN,   INFINITY, -INFINITY, 1e300, -1e300, 1e-300, 448,
                                   -448, 464,  464.1, 480,      57344,     61440, 65504,  -65536, 5e-8};
    double v[2048];
    for (int k = 0; k < 2; k++) {
        const struct format *f = &formats[k];
        int n = 0;
        for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) v[n++] = edges[i];
        for (int c = 0; c < 123; c++) { // between two numbers, and beside that, in steps that every float has or not
            double a = number_of(f, c), b = number_of(f, c + 1), middle = (a + b) / 2;
            double of[] = {a, middle, middle * (1 + 0x1p-8), middle * (1 - 0x1p-8), middle * (1 + 0x1p-40), -middle};
            for (int i = 0; i < 6; i++) v[n++] = of[i];
        }
        kiln_tensor *wide = kiln_from_data(dev, KILN_F64, KILN_SHAPE(n), v);
        for (int d = 0; d < N_REALS; d++)
            if (is_float(reals[d])) check_nearest(f, kiln_cast(wide, reals[d]), n);
        for (int i = 0; i < 2000; i++) v[i] = (i - 1000) * (i % 3 ? 1 : 71);
        wide = kiln_from_data(dev, KILN_F64, KILN_SHAPE(2000), v);
        for (int d = 0; d < N_REALS; d++)
            if (!is_float(reals[d])) check_nearest(f, kiln_cast(wide, reals[d]), 2000);
        static const uint64_t huge[] = {UINT64_MAX, (uint64_t)1 << 63, 16777217, 449};
        check_nearest(f, kiln_from_data(dev, KILN_U64, KILN_SHAPE(4), huge), 4);
        check_nearest(f, kiln_from_data(dev, KILN_I64, KILN_SHAPE(4), huge), 4);
    }
    kiln_tensor *scalar = kiln_cast(kiln_scalar(0.3), KILN_F8_E4M3);
    assert_true(kiln_item(scalar) == 0.3125);
    assert_int_equal(kiln_item_int(kiln_cast(kiln_scalar_int(17), KILN_F8_E5M2)), 16);
}

// --- integers of 4 bits

static int in_four_bits(int v, bool is_signed)
{
    v &= 15;
    return is_signed && v > 7 ? v - 16 : v;
}

static void four_bits_hold_integers(void **state)
{
    double got[512];
    for (int k = 2; k < 4; k++) {
        bool is_signed = stored[k] == KILN_I4;
        kiln_tensor *all = all_codes(stored[k]);
        assert_int_equal(kiln_rank(all), 2);
        assert_int_equal(kiln_dims(all)[1], 32);
        assert_int_equal(kiln_dim(all, -1), 32);
        for (int d = 0; d < N_REALS; d++) {
            kiln_tensor *y = kiln_cast(all, reals[d]);
            assert_int_equal(kiln_tensor_dtype(y), reals[d]);
            read_f64(y, 512, got);
            for (int i = 0; i < 512; i++) {
                int v = in_four_bits(i / 2 >> (i % 2 ? 4 : 0), is_signed);
                double want = reals[d] == KILN_BOOL           ? v != 0
                              : v < 0 && reals[d] == KILN_U8  ? v + 256
                              : v < 0 && reals[d] == KILN_U16 ? v + 65536
                              : v < 0 && reals[d] == KILN_U32 ? v + 0x1p32
                              : v < 0 && reals[d] == KILN_U64 ? 0x1p64
                                                              : v;
                if (got[i] != want) fail_msg("number %d is %g of %s", i, got[i], kiln_dtype_name(reals[d]));
            }
        }
        int16_t wide[256];
        for (int i = 0; i < 256; i++) wide[i] = (int16_t)(i - 128);
        kiln_tensor *numbers = kiln_from_data(dev, KILN_I16, KILN_SHAPE(256), wide);
        for (int d = 0; d < N_REALS; d++) { // integers wrap, floats saturate
            bool floats = is_float(reals[d]), unsigned_ints = reals[d] == KILN_U64;
            kiln_tensor *from = kiln_cast(numbers, reals[d]), *y = kiln_cast(from, stored[k]);
            (void)unsigned_ints;
            assert_int_equal(kiln_tensor_dtype(y), stored[k]);
            read_f64(y, 256, got);
            for (int i = 0; i < 256; i++) {
                int v = i - 128, low = is_signed ? -8 : 0, high = is_signed ? 7 : 15;
                int want = floats                  ? (v < low    ? low
                                                      : v > high ? high
                                                                 : v)
                           : reals[d] == KILN_BOOL ? v != 0
                                                   : in_four_bits(v, is_signed);
                if (got[i] != want)
                    fail_msg("%d of %s becomes %g of %s", v, kiln_dtype_name(reals[d]), got[i],
                             kiln_dtype_name(stored[k]));
            }
        }
    }
    static const double odd[] = {NAN, INFINITY, -INFINITY, -0.9, 6.9, -7.5};
    static const double want[2][6] = {{0, 7, -8, 0, 6, -7}, {0, 15, 0, 0, 6, 0}};
    for (int k = 2; k < 4; k++) {
        read_f64(kiln_cast(kiln_from_data(dev, KILN_F64, KILN_SHAPE(6), odd), stored[k]), 6, got);
        for (int i = 0; i < 6; i++) assert_true(got[i] == want[k - 2][i]);
    }
}

static void one_becomes_another(void **state)
{
    static const float v[] = {-9, -1.6f, 0, 0.6f, 3, 20};
    static const double want[4][6] = {
        {-9, -1.625, 0, 0.625, 3, 20}, {-8, -1.5, 0, 0.625, 3, 20}, {-8, -1, 0, 0, 3, 7}, {0, 0, 0, 0, 3, 15}};
    double got[6];
    kiln_tensor *x = kiln_from_data(dev, KILN_F32, KILN_SHAPE(6), v), *of[4];
    for (int k = 0; k < 4; k++) {
        read_f64(of[k] = kiln_cast(x, stored[k]), 6, got);
        for (int i = 0; i < 6; i++)
            if (got[i] != want[k][i]) fail_msg("%g is %g of %s", (double)v[i], got[i], kiln_dtype_name(stored[k]));
    }
    for (int from = 0; from < 4; from++)
        for (int to = 0; to < 4; to++) { // as by way of what holds all: floats saturate, integers wrap
            double by[6];
            kiln_dtype between = from < 2 ? KILN_F32 : KILN_I32;
            kiln_tensor *y = kiln_cast(of[from], stored[to]);
            assert_int_equal(kiln_tensor_dtype(y), stored[to]);
            read_f64(y, 6, got);
            read_f64(kiln_cast(kiln_cast(of[from], between), stored[to]), 6, by);
            assert_memory_equal(got, by, sizeof got);
        }
}

static void bits_are_read(void **state)
{
    uint8_t bytes[256], again[256];
    for (int i = 0; i < 256; i++) bytes[i] = (uint8_t)i;
    for (int k = 0; k < 4; k++) {
        kiln_tensor *all = all_codes(stored[k]), *u = kiln_bitcast(all, KILN_U8);
        assert_int_equal(kiln_dims(u)[1], 16);
        must(kiln_read(u, again, 256));
        assert_memory_equal(again, bytes, 256);
        kiln_tensor *back = kiln_bitcast(u, stored[k]);
        assert_int_equal(kiln_tensor_dtype(back), stored[k]);
        assert_int_equal(kiln_dims(back)[1], k < 2 ? 16 : 32);
        must(kiln_read(back, again, 256));
        assert_memory_equal(again, bytes, 256);
        kiln_tensor *wide = kiln_bitcast(all, KILN_F32);
        assert_int_equal(kiln_dims(wide)[1], 4);
        must(kiln_read(kiln_bitcast(wide, stored[k]), again, 256));
        assert_memory_equal(again, bytes, 256);
    }
    kiln_bitcast(kiln_zeros(dev, KILN_U8, KILN_SHAPE0), KILN_I4);
    refused("bitcast: to i4 takes rank 1 or more");
    kiln_bitcast(kiln_zeros(dev, KILN_F8_E4M3, KILN_SHAPE(3)), KILN_F32);
    refused("bitcast: the last axis of u8[3]");
}

// --- movement: as the same op moves the numbers

static kiln_tensor *places(void)
{
    return kiln_from_data(dev, KILN_I64, KILN_SHAPE(3), (int64_t[]){2, 0, 2});
}

static kiln_tensor *two(kiln_tensor *(*op)(kiln_tensor *const *, size_t, int64_t), kiln_tensor *x, int64_t axis)
{
    kiln_tensor *in[] = {x, kiln_flip(x, KILN_AXES(0))};
    return op(in, 2, axis);
}

static kiln_tensor *moved(int i, kiln_tensor *x) // x [4, 3, 8]
{
    kiln_tensor *part = kiln_narrow(x, 0, 1, 2);
    switch (i) {
    case 0: return kiln_contiguous(kiln_transpose(x, 0, 1));
    case 1: return kiln_reshape(x, KILN_SHAPE(6, 16));
    case 2: return kiln_reshape(x, KILN_SHAPE(-1, 2));
    case 3: return kiln_reshape(x, KILN_SHAPE(3, 2, -1));
    case 4: return kiln_flatten(x, 0, -1);
    case 5: return kiln_expand(kiln_unsqueeze(x, 1), KILN_SHAPE(4, 2, 3, 8));
    case 6: return kiln_permute(x, KILN_AXES(1, 0, 2));
    case 7: return kiln_slice(x, KILN_SLICE(.start = KILN_ARGS(1, 0), .stop = KILN_ARGS(4, 2)));
    case 8:
        return kiln_slice(
            x, KILN_SLICE(.start = KILN_ARGS(3, 0, 0), .stop = KILN_ARGS(-5, 3, 8), .step = KILN_ARGS(-1, 2, 1)));
    case 9: return kiln_select(x, 1, 2);
    case 10: return kiln_squeeze(kiln_narrow(x, 0, 3, 1), KILN_AXES0);
    case 11: return kiln_squeeze(kiln_narrow(x, 1, 1, 1), KILN_AXES(1));
    case 12: return kiln_flip(x, KILN_AXES(0, -2));
    case 13: return two(kiln_concat, x, 1);
    case 14: return two(kiln_stack, x, 0);
    case 15: return kiln_tile(x, KILN_SHAPE(2, 1, 1));
    case 16: return kiln_roll(x, KILN_ARGS(1), KILN_AXES(1));
    case 17: return kiln_repeat_interleave(x, 2, 0);
    case 18: return kiln_take(x, 1, places());
    case 19: return kiln_index_select(x, 0, places());
    case 20: return kiln_embedding(kiln_select(x, 1, 0), places());
    case 21: return kiln_slice_at(x, 0, kiln_scalar_int(1), 2);
    case 22: return kiln_update_at(x, 0, kiln_scalar_int(2), part);
    case 23: return kiln_alias(part);
    case 24: return kiln_moveaxis(x, KILN_AXES(0), KILN_AXES(1));
    case 25: return kiln_zeros_like(x);
    // Those that take the last axis apart.
    case 26: return kiln_transpose(x, -1, 0);
    case 27: return kiln_select(x, -1, 3);
    case 28: return kiln_flip(x, KILN_AXES0);
    case 29: return kiln_slice(x, KILN_SLICE(.step = KILN_ARGS(1, 1, 2)));
    case 30: return kiln_reshape(x, KILN_SHAPE(32, 3));
    case 31: return two(kiln_concat, x, 2);
    case 32: return two(kiln_stack, x, -1);
    case 33: return kiln_unsqueeze(x, 3);
    case 34: return kiln_permute(x, KILN_AXES(2, 0, 1));
    case 35: return kiln_tile(x, KILN_SHAPE(1, 1, 2));
    case 36: return kiln_diagonal(x, 0, 0, 1);
    case 37: return kiln_gather(x, 0, kiln_zeros(dev, KILN_I64, KILN_SHAPE(4, 3, 8)));
    case 38: return kiln_gather_nd(x, kiln_reshape(places(), KILN_SHAPE(1, 3)));
    case 39: return kiln_where(kiln_zeros(dev, KILN_BOOL, KILN_SHAPE(8)), x, kiln_flip(x, KILN_AXES(2)));
    case 40: return kiln_tril(x, 0);
    case 41: return kiln_scatter(x, 0, kiln_zeros(dev, KILN_I64, KILN_SHAPE(1, 3, 8)), kiln_narrow(x, 0, 2, 1));
    case 42: return kiln_as_strided(x, KILN_SHAPE(3, 5), KILN_SHAPE(8, 1), 2);
    case 43: return kiln_roll(x, KILN_ARGS(1), KILN_AXES(2));
    default: return NULL;
    }
}
enum { MOVES_ANY = 26, MOVES = 44 };

static void elements_move(void **state)
{
    float v[96];
    double got[400], want[400];
    for (int i = 0; i < 96; i++) v[i] = (float)(i * 7 % 16);
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < (k < 2 ? MOVES : MOVES_ANY); i++) {
            kiln_tensor *x = kiln_from_data(dev, KILN_F32, KILN_SHAPE(4, 3, 8), v), *s = kiln_cast(x, stored[k]);
            kiln_tensor *y = moved(i, s), *plain = moved(i, kiln_cast(s, KILN_F32));
            if (kiln_error()) fail_msg("move %d of %s: %s", i, kiln_dtype_name(stored[k]), kiln_error_message());
            assert_int_equal(kiln_tensor_dtype(y), stored[k]);
            assert_int_equal(kiln_rank(y), kiln_rank(plain));
            for (size_t d = 0; d < kiln_rank(y); d++)
                if (kiln_dims(y)[d] != kiln_dims(plain)[d])
                    fail_msg("move %d of %s: axis %d has %d elements", i, kiln_dtype_name(stored[k]), (int)d,
                             (int)kiln_dims(y)[d]);
            int64_t n = kiln_numel(plain);
            read_f64(y, n, got);
            read_f64(plain, n, want);
            if (memcmp(got, want, sizeof *got * (size_t)n)) fail_msg("move %d of %s", i, kiln_dtype_name(stored[k]));
        }
}

static void a_byte_is_not_taken_apart(void **state)
{
    kiln_tensor *x = kiln_zeros(dev, KILN_I4, KILN_SHAPE(4, 3, 8));
    for (int i = MOVES_ANY; i < MOVES; i++) {
        if (moved(i, x)) fail_msg("move %d is possible", i);
        bool whole = strstr(kiln_error_message(), "two i4 lie in a byte along the last axis");
        refused(whole ? "x is i4[4,3,8]: convert it by kiln_cast"
                      : ": takes no i4, of which two lie in a byte, x is i4[");
    }
    kiln_expand(kiln_zeros(dev, KILN_I4, KILN_SHAPE(2)), KILN_SHAPE(4));
    refused("expand: two i4 lie in a byte along the last axis, which keeps its size");
    kiln_tensor *one = kiln_squeeze(kiln_zeros(dev, KILN_U4, KILN_SHAPE(2)), KILN_AXES0);
    must(one);
    assert_int_equal(kiln_rank(one), 1);
    kiln_select(x, 3, 0);
    refused("select: axis 3 is out of range for i4[4,3,8]");
}

// --- creation, writes, text

static void they_are_made(void **state)
{
    double got[6];
    for (int k = 0; k < 4; k++) {
        kiln_tensor *made[] = {
            kiln_zeros(dev, stored[k], KILN_SHAPE(2, 2)), kiln_ones(dev, stored[k], KILN_SHAPE(2, 2)),
            kiln_full(dev, stored[k], KILN_SHAPE(2, 2), 3), kiln_full_int(dev, stored[k], KILN_SHAPE(2, 2), 5), NULL};
        made[4] = kiln_full_like(made[0], 6);
        static const double want[] = {0, 1, 3, 5, 6};
        for (int i = 0; i < 5; i++) {
            must(made[i]);
            assert_int_equal(kiln_tensor_dtype(made[i]), stored[k]);
            assert_true(kiln_tensor_device(made[i]) == dev);
            read_f64(made[i], 4, got);
            for (int e = 0; e < 4; e++) assert_true(got[e] == want[i]);
        }
        read_f64(kiln_arange(dev, stored[k], 0, 6, 1), 6, got);
        for (int e = 0; e < 6; e++) assert_true(got[e] == e);
        kiln_tensor *none = kiln_zeros(dev, stored[k], KILN_SHAPE(0, 4));
        must(none);
        must(kiln_read(none, NULL, 0));
        assert_int_equal(kiln_dims(none)[1], 4);
        must(kiln_cast(kiln_cast(none, KILN_F32), stored[k]));
        kiln_tensor *copy = kiln_to_device(made[2], kiln_tensor_device(kiln_zeros(NULL, KILN_F32, KILN_SHAPE0)));
        read_f64(copy, 4, got);
        assert_int_equal(kiln_tensor_dtype(copy), stored[k]);
        assert_true(got[3] == 3);
    }
    assert_int_equal(kiln_dtype_size(KILN_F8_E4M3), 1);
    kiln_dtype_size(KILN_U4);
    refused("dtype_size: two u4 lie in a byte");
}

static void writes_reach_the_bytes(void **state)
{
    double got[4];
    for (int k = 0; k < 4; k++) {
        kiln_tensor *x = kiln_zeros(dev, stored[k], KILN_SHAPE(3, 4)),
                    *row = kiln_full(dev, stored[k], KILN_SHAPE(4), 3);
        must(kiln_assign(kiln_select(x, 0, 1), row));
        read_f64(kiln_select(x, 0, 1), 4, got);
        assert_true(got[0] == 3 && got[3] == 3);
        read_f64(kiln_select(x, 0, 2), 4, got);
        assert_true(got[0] == 0 && got[3] == 0);
        must(kiln_set_slice(x, KILN_SLICE(.start = KILN_ARGS(1)), row));
        read_f64(kiln_select(x, 0, 2), 4, got);
        assert_true(got[0] == 3 && got[3] == 3);
        const uint8_t bytes[12] = {0x21, 0x43, 0x65, 0x07};
        size_t n = k < 2 ? 12 : 6;
        must(kiln_write(x, bytes, n));
        uint8_t again[12];
        must(kiln_read(x, again, n));
        assert_memory_equal(again, bytes, n);
        must(kiln_write(kiln_select(x, 0, 2), bytes, n / 3));
        must(kiln_read(kiln_select(x, 0, 2), again, n / 3));
        assert_memory_equal(again, bytes, n / 3);
        kiln_write(x, bytes, 5);
        refused(k < 2 ? "bytes, size_B is 5" : "[3,4] takes 6 bytes, size_B is 5");
        kiln_assign(x, kiln_zeros(dev, KILN_F32, KILN_SHAPE(4)));
        refused("assign: src is f32[4], dst is");
        kiln_assign(kiln_zeros(dev, KILN_U8, KILN_SHAPE(3, 4)), x);
        refused("convert it by kiln_cast");
        if (k < 2) continue;
        kiln_assign(x, kiln_zeros(dev, stored[k], KILN_SHAPE(2)));
        refused("assign: the last axes of src");
    }
}

static void text_shows_numbers(void **state)
{
    static const float v[] = {-448, 0.5f, NAN, 1, 0.017578125f, 30000};
    static const char *const want[] = {
        "[[-4.4800000e+02  5.0000000e-01            nan]\n [ 1.0000000e+00  1.7578125e-02  4.4800000e+02]]", NULL};
    char *text = kiln_to_string(kiln_cast(kiln_from_data(dev, KILN_F32, KILN_SHAPE(2, 3), v), KILN_F8_E4M3));
    must(text);
    assert_string_equal(text, want[0]);
    free(text);
    static const int8_t i[] = {-8, 7, 0, -1, 3, 4, 5, 6};
    text = kiln_to_string(kiln_cast(kiln_from_data(dev, KILN_I8, KILN_SHAPE(2, 4), i), KILN_I4));
    must(text);
    assert_string_equal(text, "[[-8  7  0 -1]\n [ 3  4  5  6]]");
    free(text);
    text = kiln_to_string(kiln_cast(kiln_from_data(dev, KILN_I8, KILN_SHAPE(4), i), KILN_U4));
    must(text);
    assert_string_equal(text, "[ 8  7  0 15]");
    free(text);
    text = kiln_to_string(kiln_cast(kiln_scalar(-0.3), KILN_F8_E5M2));
    must(text);
    assert_string_equal(text, "-0.3125");
    free(text);
    text = kiln_to_string(kiln_zeros(dev, KILN_I4, KILN_SHAPE(0, 2)));
    must(text);
    assert_string_equal(text, "[]");
    free(text);
}

// --- what refuses them

static void other_ops_refuse(void **state)
{
    kiln_tensor *x = kiln_zeros(dev, KILN_F8_E4M3, KILN_SHAPE(4)), *i = kiln_zeros(dev, KILN_I4, KILN_SHAPE(4)),
                *f = kiln_zeros(dev, KILN_F32, KILN_SHAPE(4)), *values, *indices;
    kiln_add(x, f);
    refused("add: takes no f8_e4m3fn, a is f8_e4m3fn[4]: convert it by kiln_cast");
    kiln_mul(f, i);
    refused("mul: takes no i4, b is i4[4]: convert it by kiln_cast");
    kiln_sum(x, NULL);
    refused("sum: takes no f8_e4m3fn, x is f8_e4m3fn[4]");
    kiln_sort(x, 0, false, &values, &indices);
    refused("sort: takes no f8_e4m3fn, x is");
    kiln_nonzero(x);
    refused("nonzero: takes no f8_e4m3fn");
    kiln_matmul(kiln_reshape(x, KILN_SHAPE(2, 2)), kiln_reshape(f, KILN_SHAPE(2, 2)));
    refused("matmul: takes no f8_e4m3fn, a is f8_e4m3fn[2,2]");
    kiln_softmax(x, 0);
    refused("softmax: takes no f8_e4m3fn");
    kiln_relu(i);
    refused("relu: takes no i4");
    kiln_add_(f, x);
    refused("takes no f8_e4m3fn");
    kiln_add_(x, f);
    refused("takes no f8_e4m3fn");
    kiln_uniform(dev, KILN_F8_E5M2, KILN_SHAPE(2), 0, 1);
    refused("uniform: makes no f8_e5m2: convert its result by kiln_cast");
    kiln_concat((kiln_tensor *[]){x, f}, 2, 0);
    refused("concat: tensors are of one storage dtype, tensors is f8_e4m3fn[4], tensors is f32[4]");
    kiln_where(kiln_zeros(dev, KILN_BOOL, KILN_SHAPE(4)), x, kiln_scalar(0));
    refused("where: tensors are of one storage dtype");
    kiln_take(f, 0, i);
    refused("take: ");
    kiln_cast(kiln_complex(f, f), KILN_I4);
    refused("cast: c64[4] does not become i4");
    kiln_cast(kiln_zeros(dev, KILN_F32, KILN_SHAPE(3)), KILN_I4);
    refused("cast: two i4 lie in a byte: the last axis must be of even size, x is f32[3]");
    kiln_cast(kiln_scalar(1), KILN_U4);
    refused("cast: two u4 lie in a byte");
    kiln_zeros(dev, KILN_I4, KILN_SHAPE(2, 3));
    refused("two i4 lie in a byte: the last axis must be of even size, x is f32[2,3]");
    kiln_from_data(dev, KILN_I4, KILN_SHAPE(2, 3), "abc");
    refused("from_data: two i4 lie in a byte: the last axis must be of even size, the shape is [2,3]");
    kiln_from_data(dev, KILN_U4, KILN_SHAPE0, "a");
    refused("from_data: two u4 lie in a byte");
    kiln_from_data(dev, KILN_F8_E4M3, KILN_SHAPE(-2), "abc");
    refused("from_data: dimension 0 is negative: -2");
    kiln_to_float8(x, NULL);
    refused("to_float8: takes floats, x is f8_e4m3fn[4]");
    kiln_item(i);
    refused("item: takes no i4");
    kiln_cast(x, (kiln_dtype)38);
    refused("cast: dtype 38 is not one of kiln_dtype");
}

static kiln_status total(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = kiln_sum(kiln_cast(in[0], KILN_F32), NULL);
    return kiln_error();
}

static void there_is_no_gradient(void **state)
{
    kiln_tensor *x = kiln_zeros(dev, KILN_F8_E4M3, KILN_SHAPE(4)), *p = NULL, *g;
    kiln_parameter(x, "p");
    refused("parameter: takes no f8_e4m3fn, init is f8_e4m3fn[4]: convert it by kiln_cast");
    must(p = kiln_parameter(kiln_ones(dev, KILN_F32, KILN_SHAPE(4)), "p"));
    for (int k = 0; k < 4; k++) {
        kiln_cast(p, stored[k]);
        refused("requires a gradient, which does not come through");
        must(kiln_cast(kiln_stop_gradient(p), stored[k]));
        kiln_no_grad_begin();
        must(kiln_cast(p, stored[k]));
        kiln_no_grad_end();
    }
    kiln_bitcast(kiln_mul(p, p), KILN_F8_E4M3);
    refused("requires a gradient, which does not come through f8_e4m3fn");
    kiln_set_gradient(p, x);
    refused("set_gradient: takes no f8_e4m3fn, grad is");
    kiln_grad(total, NULL, &x, 1, NULL, &g, 1);
    refused("grad: takes no f8_e4m3fn, an input to differentiate by is f8_e4m3fn[4]");
    kiln_set_requires_grad(x, true);
    refused("set_requires_grad: takes no f8_e4m3fn");
    // The gradient goes by what is rounded, as if it were not.
    kiln_tensor *rounded = kiln_cast(kiln_cast(kiln_stop_gradient(p), KILN_F8_E5M2), KILN_F32);
    kiln_tensor *y = kiln_add(p, kiln_stop_gradient(kiln_sub(rounded, p)));
    must(kiln_backward(kiln_sum(kiln_mul(y, kiln_scalar(3)), NULL), NULL));
    double got[4];
    read_f64(kiln_gradient(p), 4, got);
    for (int i = 0; i < 4; i++) assert_true(got[i] == 3);
}

int main(int argc, char **argv)
{
    dev = kiln_device_open(argc > 1 ? argv[1] : "cpu");
    if (!dev) {
        fprintf(stderr, "%s\n", kiln_error_message());
        return argc > 1 ? 77 : 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_code_is_its_number, begin, end),
        cmocka_unit_test_setup_teardown(numbers_round_to_the_nearest, begin, end),
        cmocka_unit_test_setup_teardown(four_bits_hold_integers, begin, end),
        cmocka_unit_test_setup_teardown(one_becomes_another, begin, end),
        cmocka_unit_test_setup_teardown(bits_are_read, begin, end),
        cmocka_unit_test_setup_teardown(elements_move, begin, end),
        cmocka_unit_test_setup_teardown(a_byte_is_not_taken_apart, begin, end),
        cmocka_unit_test_setup_teardown(they_are_made, begin, end),
        cmocka_unit_test_setup_teardown(writes_reach_the_bytes, begin, end),
        cmocka_unit_test_setup_teardown(text_shows_numbers, begin, end),
        cmocka_unit_test_setup_teardown(other_ops_refuse, begin, end),
        cmocka_unit_test_setup_teardown(there_is_no_gradient, begin, end),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    kiln_device_close(&dev);
    return failed;
}
