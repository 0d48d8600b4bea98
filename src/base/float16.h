// f16 (IEEE binary16) and bf16 (the upper half of a binary32) to and from float: round to nearest even, NaN stays NaN,
// denormals are kept. Inline and free of branches on the way to wide, so that loops over them vectorise.
#pragma once
#include <stdint.h>
#include <string.h>

static inline uint32_t float16_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float float16_value(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline float bf16_to_float(uint16_t h)
{
    return float16_value((uint32_t)h << 16);
}

static inline uint16_t bf16_from_float(float x)
{
    uint32_t bits = float16_bits(x);
    uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    uint32_t quiet_nan = (bits >> 16) | 0x40u;
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? quiet_nan : rounded);
}

// Normal numbers: the exponent is moved from bias 15 to 127. Denormals: their 10 bits are placed below the exponent of
// 2^-14 and that 2^-14 is subtracted again, exactly. Inf and NaN: the exponent becomes all ones.
static inline float f16_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, rest = (uint32_t)(h & 0x7fffu) << 13;
    uint32_t normal = rest + ((127u - 15u) << 23);
    uint32_t special = rest | 0x7f800000u;
    uint32_t tiny = float16_bits(float16_value(rest + (113u << 23)) - float16_value(113u << 23));
    uint32_t magnitude = rest >= (31u << 23) ? special : rest < (1u << 23) ? tiny : normal;
    return float16_value(sign | magnitude);
}

// Normal results: add half a unit of the last kept place, minus one when that place is even, and drop 13 bits; a carry
// into the exponent is right, up to infinity. Denormal results: adding 0.5 makes the float adder do the rounding, for
// the unit in the last place of 0.5 is 2^-24, the smallest f16.
static inline uint16_t f16_from_float(float x)
{
    uint32_t bits = float16_bits(x), sign = (bits >> 16) & 0x8000u, abs_bits = bits & 0x7fffffffu;
    uint32_t normal = (abs_bits - ((127u - 15u) << 23) + 0xfffu + ((abs_bits >> 13) & 1u)) >> 13;
    uint32_t tiny = float16_bits(float16_value(abs_bits) + 0.5f) - (126u << 23);
    uint32_t quiet_nan = 0x7e00u | ((abs_bits >> 13) & 0x3ffu);
    uint32_t magnitude = abs_bits > 0x7f800000u    ? quiet_nan
                         : abs_bits >= 0x477ff000u ? 0x7c00u
                         : abs_bits < (113u << 23) ? tiny
                                                   : normal;
    return (uint16_t)(sign | magnitude);
}
