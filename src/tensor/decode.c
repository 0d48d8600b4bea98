// Numbers of storage dtypes on the host.
#include "tensor/decode.h"
#include "ir/type.h"

#include <math.h>

// Sign, exponent, significand; the largest exponent is e5m2's infinity and NaN, e4m3fn has one NaN.
static float of_float8(unsigned code, int digits, int bias)
{
    unsigned magnitude = code & 0x7f, significand = magnitude & ((1u << digits) - 1), exponent = magnitude >> digits;
    float v = exponent ? ldexpf((float)(significand + (1u << digits)), (int)exponent - bias - digits)
                       : ldexpf((float)significand, 1 - bias - digits);
    if (digits == 2 && magnitude >= 0x7c) v = magnitude == 0x7c ? INFINITY : NAN;
    if (digits == 3 && magnitude == 0x7f) v = NAN;
    return code & 0x80 ? -v : v;
}

void decode_floats(unsigned shown, const uint8_t *bytes, int64_t n, float *out)
{
    bool wide = shown == SHOWN_F8_E5M2;
    for (int64_t i = 0; i < n; i++) out[i] = of_float8(bytes[i], wide ? 2 : 3, wide ? 15 : 7);
}

void decode_pairs(unsigned shown, const uint8_t *bytes, int64_t n, uint8_t *out)
{
    uint8_t sign = shown == SHOWN_I4 ? 8 : 0;
    for (int64_t i = 0; i < 2 * n; i++) {
        unsigned v = bytes[i / 2] >> (i % 2 ? 4 : 0) & 15;
        out[i] = (uint8_t)((v ^ sign) - sign);
    }
}
