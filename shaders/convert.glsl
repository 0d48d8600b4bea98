// Bits of a storage dtype to values of a class and back. Included by args.glsl twice, for one value and for four:
// FLOAT is float or vec4, UINT uint or uvec4, and so on; LT(a, b) and its like compare element by element. For each
// class c:
//
//     c_of_bits(dtype, bits)       from a storage of at most 32 bits, zero-extended
//     c_of_wide(dtype, bits)       from i64 or f64
//     bits_of_c(dtype, value), wide_of_c(dtype, value)
//
// Integers wrap where they are narrowed. Float to integer truncates, saturates at the storage's range, and NaN gives
// 0. Float to a narrower float rounds to nearest, ties to even, with denormals. Anything to bool is `!= 0`. 16-bit
// floats are handled as integers: no capability is asked for them, and no driver's rounding is trusted; operand.glsl
// leaves f16 to the device where that promises all this. f64 in memory is known only to modules that use class f64; the
// host keeps f64 operands from the others. Choices by dtype are constants of the pipeline; choices by value are mix().

BOOL is_nan(const FLOAT x) { return GT(floatBitsToUint(x) & 0x7fffffffu, UINT(0x7f800000u)); }

// Of at most 32 bits; u32 wraps, and where more than its bits count it has branches of its own.
INT sign_extend(const uint dtype, const UINT bits)
{
    if (is_signed(dtype) && is_byte(dtype)) return bitfieldExtract(INT(bits), 0, 8);
    if (is_signed(dtype) && is_half(dtype)) return bitfieldExtract(INT(bits), 0, 16);
    return INT(bits);
}

// f16 to f32: normal numbers move the exponent from bias 15 to 127, what is none from 31 to 255; a denormal's bits are
// placed below the exponent of 2^-14, and that is subtracted again, exactly.
FLOAT f16_decode(const UINT h)
{
    UINT rest = (h & 0x7fffu) << 13;
    precise FLOAT tiny = uintBitsToFloat(rest + (113u << 23)) - uintBitsToFloat(UINT(113u << 23));
    UINT magnitude = rest + mix(UINT(112u << 23), UINT(224u << 23), GE(rest, UINT(31u << 23)));
    magnitude = mix(magnitude, floatBitsToUint(tiny), LT(rest, UINT(1u << 23)));
    return uintBitsToFloat((h & 0x8000u) << 16 | magnitude);
}

// f32 to f16: half a unit of the last kept place is added, less one when that place is even. For denormal results the
// float adder rounds: the last place of 0.5 is 2^-24, the smallest f16.
UINT f16_encode(const FLOAT x)
{
    UINT bits = floatBitsToUint(x), magnitude = bits & 0x7fffffffu;
    precise FLOAT shifted = uintBitsToFloat(magnitude) + 0.5;
    UINT result = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    result = mix(result, floatBitsToUint(shifted) - (126u << 23), LT(magnitude, UINT(113u << 23)));
    result = min(result, 0x7c00u);
    result = mix(result, 0x7e00u | ((magnitude >> 13) & 0x3ffu), GT(magnitude, UINT(0x7f800000u)));
    return (bits >> 16) & 0x8000u | result;
}

UINT bf16_encode(const FLOAT x)
{
    UINT bits = floatBitsToUint(x);
    return mix((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16, bits >> 16 | 0x40u, is_nan(x));
}

FLOAT float_of_bits(const uint dtype, const UINT bits)
{
    if (dtype == DTYPE_F32) return uintBitsToFloat(bits);
    if (dtype == DTYPE_BF16) return uintBitsToFloat(bits << 16);
    return f16_decode(bits);
}
UINT bits_of_float(const uint dtype, const FLOAT x)
{
    if (dtype == DTYPE_F32) return floatBitsToUint(x);
    if (dtype == DTYPE_BF16) return bf16_encode(x);
    return f16_encode(x);
}

INT integer_of_float(const uint dtype, const FLOAT x)
{
    int low = integer_lowest(dtype), high = integer_highest(dtype);
    INT result = mix(INT(x), INT(low), LE(x, FLOAT(low)));
    result = mix(result, INT(high), GE(x, FLOAT(high)));   // float(2147483647) is 2^31
    return mix(result, INT(0), is_nan(x));
}
UINT unsigned_of_float(const FLOAT x)
{
    UINT result = mix(UINT(x), UINT(0xffffffffu), GE(x, FLOAT(4294967296.0)));
    return mix(result, UINT(0u), NOT(GT(x, FLOAT(0.0))));
}
LONG long_of_float(const FLOAT x)
{
    LONG result = mix(LONG(x), LONG(0x8000000000000000ul), LE(x, FLOAT(-9223372036854775808.0)));
    result = mix(result, LONG(0x7fffffffffffffffl), GE(x, FLOAT(9223372036854775808.0)));
    return mix(result, LONG(0l), is_nan(x));
}

// An integer of 64 bits above 2^63 is halved first; its last bit then stands for all that rounding sees no more.
FLOAT float_of_ulong(const ULONG x)
{
    LONG half_x = LONG(x >> 1 | (x & 1ul));
    return mix(FLOAT(LONG(x)), FLOAT(half_x) * 2.0, LT(LONG(x), LONG(0l)));
}
ULONG ulong_of_float(const FLOAT x)
{
    BOOL above = GE(x, FLOAT(9223372036854775808.0));
    ULONG high = ULONG(long_of_float(x - 9223372036854775808.0)) + 0x8000000000000000ul;
    ULONG result = mix(ULONG(long_of_float(max(x, FLOAT(0.0)))), high, above);
    result = mix(result, ULONG(0ul), is_nan(x));
    return mix(result, ULONG(0xfffffffffffffffful), GE(x, FLOAT(18446744073709551616.0)));
}

#ifdef USES_F64
BOOL is_nan(const DOUBLE x) { return GT(doubleBitsToUint64(x) << 1, ULONG(0xffe0000000000000ul)); }
LONG long_of_double(const DOUBLE x)
{
    LONG result = mix(LONG(x), LONG(0x8000000000000000ul), LE(x, DOUBLE(-9223372036854775808.0lf)));
    result = mix(result, LONG(0x7fffffffffffffffl), GE(x, DOUBLE(9223372036854775808.0lf)));
    return mix(result, LONG(0l), is_nan(x));
}
INT integer_of_double(const uint dtype, const DOUBLE x)
{
    return INT(clamp(long_of_double(x), int64_t(integer_lowest(dtype)), int64_t(integer_highest(dtype))));
}
DOUBLE double_of_ulong(const ULONG x)
{
    LONG half_x = LONG(x >> 1 | (x & 1ul));
    return mix(DOUBLE(LONG(x)), DOUBLE(half_x) * 2.0lf, LT(LONG(x), LONG(0l)));
}
ULONG ulong_of_double(const DOUBLE x)
{
    BOOL above = GE(x, DOUBLE(9223372036854775808.0lf));
    ULONG high = ULONG(long_of_double(x - 9223372036854775808.0lf)) + 0x8000000000000000ul;
    ULONG result = mix(ULONG(long_of_double(max(x, DOUBLE(0.0lf)))), high, above);
    result = mix(result, ULONG(0ul), is_nan(x));
    return mix(result, ULONG(0xfffffffffffffffful), GE(x, DOUBLE(18446744073709551616.0lf)));
}
DOUBLE f64_of_bits(const uint dtype, const UINT bits)
{
    if (is_float(dtype)) return DOUBLE(float_of_bits(dtype, bits));
    if (dtype == DTYPE_U32) return DOUBLE(bits);
    return DOUBLE(sign_extend(dtype, bits));
}
DOUBLE f64_of_wide(const uint dtype, const ULONG bits)
{
    if (dtype == DTYPE_F64) return uint64BitsToDouble(bits);
    if (dtype == DTYPE_U64) return double_of_ulong(bits);
    return DOUBLE(LONG(bits));
}
UINT bits_of_f64(const uint dtype, const DOUBLE x)
{
    if (is_float(dtype)) return bits_of_float(dtype, FLOAT(x));
    if (dtype == DTYPE_BOOL) return UINT(NE(x, DOUBLE(0.0lf)));
    if (dtype == DTYPE_U32) return UINT(ULONG(clamp(long_of_double(x), int64_t(0l), int64_t(4294967295l))));
    return UINT(integer_of_double(dtype, x));
}
ULONG wide_of_f64(const uint dtype, const DOUBLE x)
{
    if (dtype == DTYPE_F64) return doubleBitsToUint64(x);
    if (dtype == DTYPE_U64) return ulong_of_double(x);
    return ULONG(long_of_double(x));
}
#endif

#ifdef USES_F32
FLOAT f32_of_bits(const uint dtype, const UINT bits)
{
    if (is_float(dtype)) return float_of_bits(dtype, bits);
    if (dtype == DTYPE_U32) return FLOAT(bits);
    return FLOAT(sign_extend(dtype, bits));
}
FLOAT f32_of_wide(const uint dtype, const ULONG bits)
{
    IF_F64(dtype, FLOAT(uint64BitsToDouble(bits)))
    if (dtype == DTYPE_U64) return float_of_ulong(bits);
    return FLOAT(LONG(bits));
}
UINT bits_of_f32(const uint dtype, const FLOAT x)
{
    if (is_float(dtype)) return bits_of_float(dtype, x);
    if (dtype == DTYPE_BOOL) return UINT(NE(x, FLOAT(0.0)));
    if (dtype == DTYPE_U32) return unsigned_of_float(x);
    return UINT(integer_of_float(dtype, x));
}
ULONG wide_of_f32(const uint dtype, const FLOAT x)
{
    IF_F64(dtype, doubleBitsToUint64(DOUBLE(x)))
    if (dtype == DTYPE_U64) return ulong_of_float(x);
    return ULONG(long_of_float(x));
}
#endif

#ifdef USES_I32
INT i32_of_bits(const uint dtype, const UINT bits)
{
    if (is_float(dtype)) return integer_of_float(DTYPE_I32, float_of_bits(dtype, bits));
    return sign_extend(dtype, bits);
}
INT i32_of_wide(const uint dtype, const ULONG bits)
{
    IF_F64(dtype, integer_of_double(DTYPE_I32, uint64BitsToDouble(bits)))
    return INT(UINT(bits));
}
UINT bits_of_i32(const uint dtype, const INT x)
{
    if (is_float(dtype)) return bits_of_float(dtype, FLOAT(x));
    if (dtype == DTYPE_BOOL) return UINT(NE(x, INT(0)));
    return UINT(x);
}
ULONG wide_of_i32(const uint dtype, const INT x)
{
    IF_F64(dtype, doubleBitsToUint64(DOUBLE(x)))
    return ULONG(LONG(x));
}
#endif

#ifdef USES_I64
LONG i64_of_bits(const uint dtype, const UINT bits)
{
    if (is_float(dtype)) return long_of_float(float_of_bits(dtype, bits));
    if (dtype == DTYPE_U32) return LONG(ULONG(bits));
    INT x = sign_extend(dtype, bits);   // in two halves: Mesa 22 compares a widened int with a constant wrongly
    return LONG(UINT(x)) | LONG(UINT(x >> 31)) << 32;
}
LONG i64_of_wide(const uint dtype, const ULONG bits)
{
    IF_F64(dtype, long_of_double(uint64BitsToDouble(bits)))
    return LONG(bits);
}
UINT bits_of_i64(const uint dtype, const LONG x)
{
    if (is_float(dtype)) return bits_of_float(dtype, FLOAT(x));
    if (dtype == DTYPE_BOOL) return UINT(NE(x, LONG(0l)));
    return UINT(ULONG(x));
}
ULONG wide_of_i64(const uint dtype, const LONG x)
{
    IF_F64(dtype, doubleBitsToUint64(DOUBLE(x)))
    return ULONG(x);
}
#endif

#ifdef USES_BOOL
BOOL bool_of_bits(const uint dtype, const UINT bits)
{
    uint sign = dtype == DTYPE_F32 ? 0x80000000u : is_float(dtype) ? 0x8000u : 0u;
    return NE(bits & ~sign, UINT(0u));
}
BOOL bool_of_wide(const uint dtype, const ULONG bits)
{
    if (dtype == DTYPE_F64) return NE(bits << 1, ULONG(0ul));
    return NE(bits, ULONG(0ul));
}
UINT bits_of_bool(const uint dtype, const BOOL x)
{
    if (is_float(dtype)) return bits_of_float(dtype, FLOAT(x));
    return UINT(x);
}
ULONG wide_of_bool(const uint dtype, const BOOL x)
{
    IF_F64(dtype, doubleBitsToUint64(DOUBLE(x)))
    return ULONG(UINT(x));
}
#endif

#undef FLOAT
#undef DOUBLE
#undef INT
#undef UINT
#undef LONG
#undef ULONG
#undef BOOL
#undef LT
#undef LE
#undef GT
#undef GE
#undef NE
#undef NOT
