// Dtypes: sizes, ranges, rounding, promotion, conversion. Definitions in arithmetic, not in bit tricks.
#include "reference/reference.h"
#include <string.h>

static const struct {
    bool is_float;
    uint8_t size_B, bits, fraction;
    int16_t emin, emax;
} facts[DTYPES] = {
    [KILN_BOOL] = {false, 1, 1, 0, 0, 0},      [KILN_U8] = {false, 1, 8, 0, 0, 0},
    [KILN_I8] = {false, 1, 8, 0, 0, 0},        [KILN_I16] = {false, 2, 16, 0, 0, 0},
    [KILN_I32] = {false, 4, 32, 0, 0, 0},      [KILN_I64] = {false, 8, 64, 0, 0, 0},
    [KILN_F16] = {true, 2, 16, 11, -14, 15},   [KILN_BF16] = {true, 2, 16, 8, -126, 127},
    [KILN_F32] = {true, 4, 32, 24, -126, 127}, [KILN_F64] = {true, 8, 64, 53, -1022, 1023},
    [KILN_U16] = {false, 2, 16, 0, 0, 0},      [KILN_U32] = {false, 4, 32, 0, 0, 0},
    [KILN_U64] = {false, 8, 64, 0, 0, 0},
};

bool is_float(int dtype)
{
    return facts[dtype].is_float;
}

bool is_integer(int dtype)
{
    return !facts[dtype].is_float && dtype != KILN_BOOL;
}

size_t element_size_B(int dtype)
{
    return facts[dtype].size_B;
}

int fraction_bits(int dtype)
{
    return facts[dtype].fraction;
}

int least_exponent(int dtype)
{
    return facts[dtype].emin;
}

int greatest_exponent(int dtype)
{
    return facts[dtype].emax;
}

static bool is_unsigned(int dtype)
{
    return dtype == KILN_BOOL || dtype == KILN_U8 || dtype >= KILN_U16;
}

long double integer_min(int dtype)
{
    return is_unsigned(dtype) ? 0 : -scalbnl(1, facts[dtype].bits - 1);
}

long double integer_max(int dtype)
{
    return scalbnl(1, facts[dtype].bits - !is_unsigned(dtype)) - 1;
}

int64_t integer_bits(long double v)
{
    return v >= 0x1p63L ? (int64_t)(uint64_t)v : (int64_t)v;
}

long double wrapped(int dtype, int64_t v)
{
    switch (dtype) {
    case KILN_BOOL: return v != 0;
    case KILN_U8: return (uint8_t)v;
    case KILN_I8: return (int8_t)(uint8_t)v;
    case KILN_I16: return (int16_t)(uint16_t)v;
    case KILN_I32: return (int32_t)(uint32_t)v;
    case KILN_U16: return (uint16_t)v;
    case KILN_U32: return (uint32_t)v;
    case KILN_U64: return (uint64_t)v;
    default: return v;
    }
}

// The array API's tables, rows and columns in the order of the enumerators; N: none, u64 with what is signed.
int promoted(int a, int b)
{
    enum {
        N = -1,
        B = KILN_BOOL,
        U8 = KILN_U8,
        I8 = KILN_I8,
        I16 = KILN_I16,
        I32 = KILN_I32,
        I64 = KILN_I64,
        H = KILN_F16,
        BF = KILN_BF16,
        F32 = KILN_F32,
        F64 = KILN_F64,
        U16 = KILN_U16,
        U32 = KILN_U32,
        U64 = KILN_U64
    };
    static const int8_t table[DTYPES][DTYPES] = {
        {B, U8, I8, I16, I32, I64, H, BF, F32, F64, U16, U32, U64},
        {U8, U8, I16, I16, I32, I64, H, BF, F32, F64, U16, U32, U64},
        {I8, I16, I8, I16, I32, I64, H, BF, F32, F64, I32, I64, N},
        {I16, I16, I16, I16, I32, I64, H, BF, F32, F64, I32, I64, N},
        {I32, I32, I32, I32, I32, I64, H, BF, F32, F64, I32, I64, N},
        {I64, I64, I64, I64, I64, I64, H, BF, F32, F64, I64, I64, N},
        {H, H, H, H, H, H, H, F32, F32, F64, H, H, H},
        {BF, BF, BF, BF, BF, BF, F32, BF, F32, F64, BF, BF, BF},
        {F32, F32, F32, F32, F32, F32, F32, F32, F32, F64, F32, F32, F32},
        {F64, F64, F64, F64, F64, F64, F64, F64, F64, F64, F64, F64, F64},
        {U16, U16, I32, I32, I32, I64, H, BF, F32, F64, U16, U32, U64},
        {U32, U32, I64, I64, I64, I64, H, BF, F32, F64, U32, U32, U64},
        {U64, U64, N, N, N, N, H, BF, F32, F64, U64, U64, U64},
    };
    return table[a][b];
}

// Rounds a finite value to `bits` of fraction, ties to even, with the dtype's least exponent; past the greatest:
// infinity.
static long double rounded(int dtype, long double v)
{
    if (v == 0 || isnan(v) || isinf(v)) return v;
    int e = ilogbl(v);
    if (e < facts[dtype].emin) e = facts[dtype].emin;
    int shift = facts[dtype].fraction - 1 - e;
    long double r = scalbnl(rintl(scalbnl(v, shift)), -shift);
    return fabsl(r) >= scalbnl(1, facts[dtype].emax + 1) ? copysignl(INFINITY, v) : r;
}

static uint16_t encode_16(int dtype, long double v)
{
    int fraction = facts[dtype].fraction - 1, bias = facts[dtype].emax, emin = facts[dtype].emin;
    uint16_t sign = signbit(v) ? 0x8000 : 0, exponents = (uint16_t)(((2 * bias + 1) << fraction) & 0x7fff);
    if (isnan(v)) return (uint16_t)(sign | exponents | 1u << (fraction - 1));
    v = fabsl(rounded(dtype, v));
    if (isinf(v)) return sign | exponents;
    if (v < scalbnl(1, emin)) return (uint16_t)(sign | (uint16_t)scalbnl(v, fraction - emin));
    int e = ilogbl(v);
    return (uint16_t)(sign | (uint16_t)((e + bias) << fraction) | (uint16_t)scalbnl(v - scalbnl(1, e), fraction - e));
}

static long double decode_16(int dtype, uint16_t h)
{
    int fraction = facts[dtype].fraction - 1, bias = facts[dtype].emax, e = (h & 0x7fff) >> fraction,
        f = h & ((1 << fraction) - 1);
    long double v = e == 2 * bias + 1 ? (f ? NAN : INFINITY)
                    : e == 0          ? scalbnl(f, facts[dtype].emin - fraction)
                                      : scalbnl(f + (1 << fraction), e - bias - fraction);
    return h & 0x8000 ? -v : v;
}

void encode(int dtype, long double v, void *to)
{
    double d = (double)v;
    float f = dtype == KILN_F32 ? (float)v : 0;
    int64_t i = is_float(dtype) ? 0 : integer_bits(wrapped(dtype, integer_bits(v)));
    uint16_t h = dtype == KILN_F16 || dtype == KILN_BF16 ? encode_16(dtype, v) : (uint16_t)i;
    uint32_t i32 = (uint32_t)i;
    uint8_t u8 = (uint8_t)i;
    const void *from = dtype == KILN_F64          ? (void *)&d
                       : dtype == KILN_F32        ? (void *)&f
                       : facts[dtype].size_B == 8 ? (void *)&i
                       : facts[dtype].size_B == 4 ? (void *)&i32
                       : facts[dtype].size_B == 2 ? (void *)&h
                                                  : (void *)&u8;
    memcpy(to, from, facts[dtype].size_B);
}

long double decode(int dtype, const void *from)
{
    double d;
    float f;
    int64_t i;
    int32_t i32;
    uint16_t h;
    switch (dtype) {
    case KILN_F64: return memcpy(&d, from, 8), d;
    case KILN_F32: return memcpy(&f, from, 4), f;
    case KILN_I64: return memcpy(&i, from, 8), i;
    case KILN_U64: return memcpy(&i, from, 8), (uint64_t)i;
    case KILN_U32: return memcpy(&i32, from, 4), (uint32_t)i32;
    case KILN_U16: return memcpy(&h, from, 2), h;
    case KILN_I32: return memcpy(&i32, from, 4), i32;
    case KILN_I16: return memcpy(&h, from, 2), (int16_t)h;
    case KILN_F16:
    case KILN_BF16: return memcpy(&h, from, 2), decode_16(dtype, h);
    case KILN_I8: return (int8_t) * (const uint8_t *)from;
    default: return *(const uint8_t *)from; // a bool that is neither 0 nor 1 shows
    }
}

long double quantized(int dtype, long double v)
{
    unsigned char bytes[8];
    encode(dtype, v, bytes);
    return decode(dtype, bytes);
}

long double converted(int from, int to, long double v)
{
    if (to == KILN_BOOL) return v != 0;
    if (is_float(to)) return quantized(to, v);
    if (!is_float(from)) return wrapped(to, integer_bits(v));
    if (isnan(v)) return 0;
    v = truncl(v);
    return v < integer_min(to) ? integer_min(to) : v > integer_max(to) ? integer_max(to) : v;
}

long double error_ulp(int dtype, long double got, long double exact)
{
    if (isnan(got) || isnan(exact)) return isnan(got) && isnan(exact) ? 0 : INFINITY;
    long double past = scalbnl(1, facts[dtype].emax + 1);
    if (isinf(exact) && isinf(got)) return (got < 0) == (exact < 0) ? 0 : INFINITY;
    // An exact infinity is none that rounding made.
    if (isinf(exact)) return INFINITY;
    if (fabsl(exact) > past) exact = copysignl(past, exact);
    if (isinf(got)) got = copysignl(past, got);
    int e = exact == 0 ? facts[dtype].emin : ilogbl(exact);
    if (e < facts[dtype].emin) e = facts[dtype].emin;
    if (e > facts[dtype].emax) e = facts[dtype].emax;
    return fabsl(got - exact) / scalbnl(1, e - facts[dtype].fraction + 1);
}

uint64_t random_bits(struct random *r)
{
    r->state = r->state ? r->state : 0x9e3779b97f4a7c15u;
    r->state ^= r->state >> 12;
    r->state ^= r->state << 25;
    r->state ^= r->state >> 27;
    return r->state * 0x2545f4914f6cdd1du;
}

double random_between(struct random *r, double low, double high)
{
    return low + (high - low) * ((double)(random_bits(r) >> 11) * 0x1p-53);
}

int64_t random_below(struct random *r, int64_t n)
{
    return (int64_t)((random_bits(r) >> 1) % (uint64_t)n);
}
