// Functions of elements against libm and plain loops.
#include "compose/case.h"

static int wide_of(int dtype)
{
    return is_float(dtype) ? dtype : KILN_F32;
}

// One result, elementwise, of one or two inputs that broadcast to the first.
#define ELEMENTS(name, call_expr, out_dtype, formula)                                        \
    static void call_##name(kiln_tensor *const *in, kiln_tensor **out)                       \
    {                                                                                        \
        out[0] = call_expr;                                                                  \
    }                                                                                        \
    static void expect_##name(const struct host *in, struct host *out)                       \
    {                                                                                        \
        out[0] = host_new(out_dtype, in[0].rank, in[0].dims);                                \
        for (int64_t i = 0; i < in[0].n; i++) {                                              \
            long double x = in[0].v[i], b = 0, c = 0;                                        \
            if (in[1].v) b = in[1].v[host_at(&in[1], in[0].rank, in[0].dims, i)];            \
            if (in[1].v && in[2].v) c = in[2].v[host_at(&in[2], in[0].rank, in[0].dims, i)]; \
            (void)x, (void)b, (void)c;                                                       \
            out[0].v[i] = formula;                                                           \
        }                                                                                    \
    }

static long double special(long double x) // what cheap ops leave: numbers from -2 to 2 with infinities and NaN
{
    return x > 1.5L ? INFINITY : x < -1.5L ? -INFINITY : x > 0.5L && x < 0.8L ? NAN : x;
}

// The same of a tensor.
static kiln_tensor *specials(kiln_tensor *x)
{
    kiln_tensor *nan = kiln_logical_and(kiln_greater(x, kiln_scalar(0.5)), kiln_less(x, kiln_scalar(0.8)));
    x = kiln_where(nan, kiln_scalar(NAN), x);
    x = kiln_where(kiln_greater(x, kiln_scalar(1.5)), kiln_scalar(INFINITY), x);
    return kiln_where(kiln_less(x, kiln_scalar(-1.5)), kiln_scalar(-INFINITY), x);
}

static long double greatest(int dtype)
{
    return (2 - scalbnl(1, 1 - fraction_bits(dtype))) * scalbnl(1, greatest_exponent(dtype));
}

static int64_t divisor(int64_t a, int64_t b)
{
    return b == 0 ? (a < 0 ? -a : a) : divisor(b, a % b);
}

static int bits_of(int64_t v)
{
    int n = 0;
    for (uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v; u; u >>= 1) n += u & 1;
    return n;
}

ELEMENTS(addcdiv, kiln_addcdiv(in[0], in[1], kiln_add(kiln_square(in[2]), kiln_scalar(1))), in[0].dtype,
         x + b / (c * c + 1))
ELEMENTS(heaviside, kiln_heaviside(kiln_round(in[0]), in[1]), promoted(in[0].dtype, in[1].dtype),
         rintl(x) == 0 ? b : rintl(x) > 0)
ELEMENTS(heaviside_nan, kiln_heaviside(specials(in[0]), in[1]), in[0].dtype, isnan(special(x)) ? NAN : special(x) > 0)
ELEMENTS(nan_to_num, kiln_nan_to_num(specials(in[0]), 0, INFINITY, -INFINITY), in[0].dtype,
         isnan(special(x)) ? 0 : fmaxl(fminl(special(x), greatest(in[0].dtype)), -greatest(in[0].dtype)))
ELEMENTS(nan_to_given, kiln_nan_to_num(specials(in[0]), 3, 7, 0), in[0].dtype,
         isnan(special(x))   ? 3
         : isinf(special(x)) ? (special(x) > 0 ? 7 : 0)
                             : x)
ELEMENTS(nan_to_integers, kiln_nan_to_num(in[0], 0, INFINITY, -INFINITY), in[0].dtype, x)
ELEMENTS(fmax, kiln_fmax(specials(in[0]), specials(in[1])), in[0].dtype, fmaxl(special(x), special(b)))
ELEMENTS(fmin, kiln_fmin(specials(in[0]), specials(in[1])), in[0].dtype, fminl(special(x), special(b)))
ELEMENTS(fmax_integers, kiln_fmax(in[0], in[1]), in[0].dtype, fmaxl(x, b))
ELEMENTS(isposinf, kiln_isposinf(specials(in[0])), KILN_BOOL, special(x) == INFINITY)
ELEMENTS(isneginf, kiln_isneginf(specials(in[0])), KILN_BOOL, special(x) == -INFINITY)
ELEMENTS(isposinf_integers, kiln_isposinf(in[0]), KILN_BOOL, 0)
ELEMENTS(trunc_divide, kiln_trunc_divide(in[0], kiln_add(kiln_square(in[1]), kiln_scalar(0.5))), in[0].dtype,
         truncl(x / (b * b + 0.5L)))
ELEMENTS(trunc_divide_integers, kiln_trunc_divide(in[0], in[1]), in[0].dtype, b == 0 ? 0 : truncl(x / b))
ELEMENTS(float_power, kiln_float_power(in[0], in[1]), KILN_F64, powl(x, b))
ELEMENTS(ldexp, kiln_ldexp(in[0], in[1]), wide_of(in[0].dtype), ldexpl(x, (int)b))
ELEMENTS(count, kiln_bitwise_count(in[0]), KILN_U8, bits_of((int64_t)x))
ELEMENTS(count_wide, kiln_bitwise_count(kiln_mul(in[0], kiln_scalar_int(0x0123456789abcdef))), KILN_U8,
         bits_of((int64_t)(uint64_t)((int64_t)x * 0x0123456789abcdef)))
ELEMENTS(gcd, kiln_gcd(kiln_mul(in[0], kiln_scalar_int(6)), in[1]), promoted(in[0].dtype, in[1].dtype),
         divisor((int64_t)x * 6, (int64_t)b))
ELEMENTS(lcm, kiln_lcm(in[0], in[1]), promoted(in[0].dtype, in[1].dtype),
         x == 0 || b == 0 ? 0 : fabsl(x / divisor((int64_t)x, (int64_t)b) * b))

static void call_divmod(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_divmod(in[0], in[1], &out[0], &out[1]);
}

static void expect_divmod(const struct host *in, struct host *out)
{
    for (int k = 0; k < 2; k++) out[k] = host_new(in[0].dtype, in[0].rank, in[0].dims);
    for (int64_t i = 0; i < in[0].n; i++) {
        long double a = in[0].v[i], b = in[1].v[i], q = b == 0 ? 0 : floorl(a / b);
        out[0].v[i] = q;
        out[1].v[i] = b == 0 ? 0 : a - q * b;
    }
}

static void call_modf(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_modf(specials(kiln_mul(in[0], kiln_scalar(3))), &out[0], &out[1]);
}

static void expect_modf(const struct host *in, struct host *out)
{
    for (int k = 0; k < 2; k++) out[k] = host_new(in[0].dtype, in[0].rank, in[0].dims);
    for (int64_t i = 0; i < in[0].n; i++) {
        long double x = quantized(in[0].dtype, in[0].v[i] * 3);
        x = special(x);
        out[0].v[i] = modfl(x, &out[1].v[i]);
    }
}

// Numbers of all sizes: x 2^n.
static void call_frexp(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_frexp(kiln_ldexp(in[0], in[1]), &out[0], &out[1]);
}

static void expect_frexp(const struct host *in, struct host *out)
{
    out[0] = host_new(in[0].dtype, in[0].rank, in[0].dims);
    out[1] = host_new(KILN_I32, in[0].rank, in[0].dims);
    for (int64_t i = 0; i < in[0].n; i++) {
        int e;
        out[0].v[i] = frexpl(quantized(in[0].dtype, ldexpl(in[0].v[i], (int)in[1].v[i])), &e);
        out[1].v[i] = e;
    }
}

static void call_mask(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_sequence_mask(in[0], 5);
}

static void expect_mask(const struct host *in, struct host *out)
{
    out[0] = host_new(KILN_BOOL, 2, (int64_t[]){in[0].n, 5});
    for (int64_t i = 0; i < out[0].n; i++) out[0].v[i] = i % 5 < in[0].v[i / 5];
}

static void call_spaces(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_device *dev = kiln_tensor_device(in[0]);
    kiln_dtype dtype = kiln_tensor_dtype(in[0]);
    out[0] = kiln_logspace(dev, dtype, -1, 2, 7, 10);
    out[1] = kiln_geomspace(dev, dtype, -2, -128, 7);
    out[2] = kiln_geomspace(dev, dtype, 3, 3, 1);
}

static void expect_spaces(const struct host *in, struct host *out)
{
    for (int k = 0; k < 3; k++) out[k] = host_new(in[0].dtype, 1, (int64_t[]){k == 2 ? 1 : 7});
    for (int i = 0; i < 7; i++) out[0].v[i] = powl(10, i * 0.5L - 1), out[1].v[i] = -2 * powl(2, i);
    out[2].v[0] = 3;
}

static const struct op_case numbers_cases[] = {
    {"addcdiv", "broadcast", "3x4 4 3x1", IN_FLOATS, call_addcdiv, expect_addcdiv, .units = 4, .order = 2},
    {"heaviside", "steps", "3x4 4", IN_FLOATS, call_heaviside, expect_heaviside, .units = 1},
    {"heaviside", "NaN", "30 30", IN_FLOATS, call_heaviside_nan, expect_heaviside_nan, .units = 1},
    {"nan_to_num", "the largest", "30", IN_WIDE, call_nan_to_num, expect_nan_to_num, .units = 1, .no_capture = true},
    {"nan_to_num", "given", "30", IN_FLOATS, call_nan_to_given, expect_nan_to_given, .units = 1, .order = 1},
    {"nan_to_num", "integers", "5", IN_INTEGERS, call_nan_to_integers, expect_nan_to_integers},
    {"fmax", "NaN", "40 40", IN_FLOATS, call_fmax, expect_fmax, .units = 1},
    {"fmax", "integers", "4x3 3", IN_INTEGERS, call_fmax_integers, expect_fmax_integers},
    {"fmin", "NaN", "40 40", IN_FLOATS, call_fmin, expect_fmin, .units = 1},
    {"isposinf", "floats", "30", IN_FLOATS, call_isposinf, expect_isposinf},
    {"isposinf", "integers", "5", IN_INTEGERS, call_isposinf_integers, expect_isposinf_integers},
    {"isneginf", "floats", "30", IN_FLOATS, call_isneginf, expect_isneginf},
    {"trunc_divide", "floats", "30 30", IN_F64, call_trunc_divide, expect_trunc_divide, .lo = -9, .hi = 9, .units = 1},
    {"trunc_divide", "integers", "60 60", IN_INTEGERS, call_trunc_divide_integers, expect_trunc_divide_integers},
    {"divmod", "integers", "60 60", IN_INTEGERS, call_divmod, expect_divmod, .n_out = 2},
    {"modf", "floats", "40", IN_FLOATS, call_modf, expect_modf, .n_out = 2, .units = 1},
    {"float_power", "floats", "3x4 4", IN_WIDE, call_float_power, expect_float_power, .lo = 0.5, .hi = 2, .units = 8,
     .order = 2},
    {"float_power", "integers", "3x4 4", IN_INTEGERS, call_float_power, expect_float_power, .lo = 1, .hi = 5,
     .units = 8},
    {"ldexp", "floats", "40 n40<60", IN_WIDE, call_ldexp, expect_ldexp, .units = 1},
    {"ldexp", "gradients", "9 n9<4", IN_WIDE, call_ldexp, expect_ldexp, .units = 1, .order = 1},
    {"ldexp", "halves", "40 n40<10", IN_HALF, call_ldexp, expect_ldexp, .units = 1},
    {"ldexp", "integers", "40 n40<20", IN_INTEGERS, call_ldexp, expect_ldexp, .units = 1},
    {"frexp", "floats", "200 n200<100", IN_WIDE, call_frexp, expect_frexp, .n_out = 2, .units = 1},
    {"bitwise_count", "small", "60", IN_INTEGERS | IN_BOOL, call_count, expect_count},
    {"bitwise_count", "wide", "i60<100", IN_F32, call_count_wide, expect_count_wide},
    {"gcd", "integers", "30 30", IN_INTEGERS, call_gcd, expect_gcd},
    {"gcd", "wide", "n4x5<100000 i5<100000", IN_F32, call_gcd, expect_gcd},
    {"lcm", "integers", "30 30", IN_INTEGERS, call_lcm, expect_lcm},
    {"lcm", "wide", "n4x5<10000 i5<10000", IN_F32, call_lcm, expect_lcm},
    {"sequence_mask", "lengths", "i6<8", IN_F32, call_mask, expect_mask},
    {"logspace", "decades", "1", IN_FLOATS, call_spaces, expect_spaces, .n_out = 3, .units = 4},
    {"geomspace", "octaves", "1", IN_FLOATS, call_spaces, expect_spaces, .n_out = 3, .units = 4},
};
FAMILY_OF(numbers);
