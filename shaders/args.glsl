// The argument block and the operands, as every kernel sees them.
//
// The block is a run of 32-bit words; the host packs it in src/vulkan/launch.c:
//
//     address[N_OPERANDS]             two words each: a device address, or the bits of an immediate value
//     size[RANK]                      of the iteration space, outermost first
//     stride[N_OPERANDS][RANK]        in elements of the operand's storage dtype, signed
//     scalar[N_SCALARS]               two words each
//     scratch                         row kernels in phases: an address (two words) and the number of splits
//
// A block of at most 32 words is the push constant. A larger one lies in memory, and the push constant holds its
// address (INDIRECT). Sizes and strides are 32 bits wide, offsets 64: the host cuts a launch whose sizes need more.
//
// The including file defines N_OPERANDS, N_SCALARS and, for each class in which it computes, loads or stores, USES_F32,
// USES_F64, USES_I32, USES_I64, USES_BOOL. It gets, for a class c: `load_c(operand, offset)`, `store_c(operand,
// offset, value)` and the same for four neighbours, load4_c and store4_c. Operands are literal numbers. The storage
// dtype is a specialisation constant, so the conversions fold away when the pipeline is made. Only a class f64 needs
// shaderFloat64.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

// 0 is the local size of generated kernels: see pointwise.glsl and row.glsl. A hand-written kernel declares its own.
layout(constant_id = 1) const uint RANK = 1;
layout(constant_id = 2) const uint N_REDUCE = 0;
layout(constant_id = 3) const bool INDIRECT = false;
// Storage dtype (8 bits), IMMEDIATE, SPLAT.
layout(constant_id = 8) const uint OPERAND_0 = 0;
layout(constant_id = 9) const uint OPERAND_1 = 0;
layout(constant_id = 10) const uint OPERAND_2 = 0;
layout(constant_id = 11) const uint OPERAND_3 = 0;
layout(constant_id = 12) const uint OPERAND_4 = 0;
layout(constant_id = 13) const uint OPERAND_5 = 0;
layout(constant_id = 14) const uint OPERAND_6 = 0;
layout(constant_id = 15) const uint OPERAND_7 = 0;
layout(constant_id = 16) const uint OPERAND_8 = 0;
layout(constant_id = 17) const uint OPERAND_9 = 0;
// No offset is negative, and in bytes all are below 2 GiB.
layout(constant_id = 18) const bool NARROW = false;
layout(constant_id = 20) const bool HALVES = false;   // instructions convert f16, to nearest and with denormals
// A processor runs it and compiles each pipeline when it is first used: what is done once stays a loop. The number of
// its turns is one that no compiler knows, lest it be unrolled.
layout(constant_id = 21) const bool COMPACT = false;
layout(constant_id = 32) const uint VARIANT_0 = 0;
#ifdef MATRICES
layout(constant_id = 33) const uint VARIANT_1 = 16;   // a size of a type: not 0
#else
layout(constant_id = 33) const uint VARIANT_1 = 0;
#endif
layout(constant_id = 34) const uint VARIANT_2 = 0;
layout(constant_id = 35) const uint VARIANT_3 = 0;

#include "dtype.glsl"
const uint IMMEDIATE = 256;  // the address holds the value
const uint SPLAT = 512;      // four neighbours are one element (stride 0)

layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer ArgBlock { uint words[]; };
layout(push_constant, scalar) uniform Push { uint words[32]; } push;

uint arg_word(const uint i)
{
    if (INDIRECT) return ArgBlock(packUint2x32(uvec2(push.words[0], push.words[1]))).words[i];
    return push.words[i];
}

uint64_t arg_address(const uint op) { return packUint2x32(uvec2(arg_word(2 * op), arg_word(2 * op + 1))); }
uint arg_size(const uint d) { return arg_word(2 * N_OPERANDS + d); }
int arg_stride(const uint op, const uint d) { return int(arg_word(2 * N_OPERANDS + RANK + op * RANK + d)); }
uint arg_scalar_word(const uint i) { return arg_word(2 * N_OPERANDS + RANK + N_OPERANDS * RANK + i); }

float arg_scalar_f32(const uint i) { return uintBitsToFloat(arg_scalar_word(2 * i)); }
int arg_scalar_i32(const uint i) { return int(arg_scalar_word(2 * i)); }
uint64_t arg_scalar_bits(const uint i)
{
    return packUint2x32(uvec2(arg_scalar_word(2 * i), arg_scalar_word(2 * i + 1)));
}
int64_t arg_scalar_i64(const uint i) { return int64_t(arg_scalar_bits(i)); }
bool arg_scalar_bool(const uint i) { return (arg_scalar_word(2 * i) & 255u) != 0; }
#ifdef USES_F64
double arg_scalar_f64(const uint i) { return uint64BitsToDouble(arg_scalar_bits(i)); }
#endif

// Along the innermost dimension, where four neighbours are one access.
int fast_stride(const uint i)
{
    const uint operands[10] = {OPERAND_0, OPERAND_1, OPERAND_2, OPERAND_3, OPERAND_4,
                               OPERAND_5, OPERAND_6, OPERAND_7, OPERAND_8, OPERAND_9};
    return (operands[i] & SPLAT) != 0 ? 0 : 1;
}

// The workgroup's number in a grid that is folded over x and y, for x may be limited to 65,535.
uint group_index() { return gl_WorkGroupID.x + gl_WorkGroupID.y * gl_NumWorkGroups.x; }

// Memory, by access width.
layout(buffer_reference, scalar, buffer_reference_align = 1) buffer Memory8 { uint8_t v; };
layout(buffer_reference, scalar, buffer_reference_align = 2) buffer Memory16 { uint16_t v; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Memory32 { uint v; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Memory64 { uvec2 v; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Memory128 { uvec4 v; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Memory2x64 { u64vec2 v; };
#ifdef MATRICES_BF16   // where the type of halves means something else
bool is_converted(const uint dtype) { return false; }
#define IF_CONVERTED(dtype, x)
#else
layout(buffer_reference, scalar, buffer_reference_align = 2) buffer MemoryHalf { float16_t v; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer MemoryHalf4 { f16vec4 v; };
bool is_converted(const uint dtype) { return HALVES && dtype == DTYPE_F16; }
#define IF_CONVERTED(dtype, x) if (is_converted(dtype)) { x; }
#endif

uint dtype_size_B(const uint dtype) { return is_wide(dtype) ? 8 : is_byte(dtype) ? 1 : is_half(dtype) ? 2 : 4; }
// Two instructions, where one of 64-bit operands would take five.
int64_t wide_product(const int a, const int b)
{
    int high, low;
    imulExtended(a, b, high, low);
    return packInt2x32(ivec2(low, high));
}
uint64_t element_address(const uint dtype, const uint64_t base, const int64_t at)
{
    if (NARROW) return base + uint64_t(uint(at) * dtype_size_B(dtype));
    return base + uint64_t(at * int64_t(dtype_size_B(dtype)));
}

// The bits of an element of at most 32 bits, zero-extended; of a 64-bit element; of four neighbours. Those of f32 where
// access converts f16, see fetched_dtype().
uint fetched_dtype(const uint dtype) { return is_converted(dtype) ? DTYPE_F32 : dtype; }
uint fetch(const uint dtype, const uint64_t address)
{
    IF_CONVERTED(dtype, return floatBitsToUint(float(MemoryHalf(address).v)))
    if (is_byte(dtype)) return uint(Memory8(address).v);
    if (is_half(dtype)) return uint(Memory16(address).v);
    return Memory32(address).v;
}
uint64_t fetch_wide(const uint64_t address) { return packUint2x32(Memory64(address).v); }
uvec4 fetch4(const uint dtype, const uint64_t address)
{
    IF_CONVERTED(dtype, return floatBitsToUint(vec4(MemoryHalf4(address).v)))
    if (is_byte(dtype)) return (uvec4(Memory32(address).v) >> uvec4(0, 8, 16, 24)) & 255u;
    if (is_half(dtype)) {
        uvec2 pairs = Memory64(address).v;
        return uvec4(pairs.x & 65535u, pairs.x >> 16, pairs.y & 65535u, pairs.y >> 16);
    }
    return Memory128(address).v;
}
void put(const uint dtype, const uint64_t address, const uint bits)
{
    IF_CONVERTED(dtype, MemoryHalf(address).v = float16_t(uintBitsToFloat(bits)); return)
    if (is_byte(dtype)) Memory8(address).v = uint8_t(bits);
    else if (is_half(dtype)) Memory16(address).v = uint16_t(bits);
    else Memory32(address).v = bits;
}
void put_wide(const uint64_t address, const uint64_t bits) { Memory64(address).v = unpackUint2x32(bits); }
void put4(const uint dtype, const uint64_t address, uvec4 bits)
{
    IF_CONVERTED(dtype, MemoryHalf4(address).v = f16vec4(uintBitsToFloat(bits)); return)
    if (is_byte(dtype)) {
        bits &= 255u;
        Memory32(address).v = bits.x | bits.y << 8 | bits.z << 16 | bits.w << 24;
    } else if (is_half(dtype)) {
        bits &= 65535u;
        Memory64(address).v = uvec2(bits.x | bits.y << 16, bits.z | bits.w << 16);
    } else {
        Memory128(address).v = bits;
    }
}

u64vec4 fetch4_wide(const uint64_t address)
{
    return u64vec4(Memory2x64(address).v, Memory2x64(address + 16).v);
}
void put4_wide(const uint64_t address, const u64vec4 bits)
{
    Memory2x64(address).v = bits.xy;
    Memory2x64(address + 16).v = bits.zw;
}

// A conversion that only modules with class f64 have.
#ifdef USES_F64
#define IF_F64(dtype, x) if (dtype == DTYPE_F64) return x;
#else
#define IF_F64(dtype, x)
#endif

#define FLOAT float
#define DOUBLE double
#define INT int
#define UINT uint
#define LONG int64_t
#define ULONG uint64_t
#define BOOL bool
#define LT(a, b) ((a) < (b))
#define LE(a, b) ((a) <= (b))
#define GT(a, b) ((a) > (b))
#define GE(a, b) ((a) >= (b))
#define NE(a, b) ((a) != (b))
#define NOT(a) (!(a))
#include "convert.glsl"
#define FLOAT vec4
#define DOUBLE dvec4
#define INT ivec4
#define UINT uvec4
#define LONG i64vec4
#define ULONG u64vec4
#define BOOL bvec4
#define LT lessThan
#define LE lessThanEqual
#define GT greaterThan
#define GE greaterThanEqual
#define NE notEqual
#define NOT not
#include "convert.glsl"

// Four as they lie in memory.
uvec2 f16_pairs(const vec4 x)
{
#if defined MATRICES && !defined MATRICES_BF16
    if (HALVES) return uvec2(packFloat2x16(f16vec2(x.xy)), packFloat2x16(f16vec2(x.zw)));
#endif
    uvec4 h = f16_encode(x);
    return uvec2(h.x | h.y << 16, h.z | h.w << 16);
}
uvec2 bf16_pairs(const vec4 x)
{
    uvec4 h = bf16_encode(x);
    return uvec2(h.x | h.y << 16, h.z | h.w << 16);
}

// The bits of an immediate are a value of the class that loads it.
float f32_of_immediate(const uint64_t bits) { return uintBitsToFloat(uint(bits)); }
int i32_of_immediate(const uint64_t bits) { return int(uint(bits)); }
int64_t i64_of_immediate(const uint64_t bits) { return int64_t(bits); }
bool bool_of_immediate(const uint64_t bits) { return (bits & 255ul) != 0ul; }
#ifdef USES_F64
double f64_of_immediate(const uint64_t bits) { return uint64BitsToDouble(bits); }
#endif

#ifdef USES_F32
#define CLASS f32
#define VALUE float
#define VALUE4 vec4
#include "operand.glsl"
#endif
#ifdef USES_F64
#define CLASS f64
#define VALUE double
#define VALUE4 dvec4
#include "operand.glsl"
#endif
#ifdef USES_I32
#define CLASS i32
#define VALUE int
#define VALUE4 ivec4
#include "operand.glsl"
#endif
#ifdef USES_I64
#define CLASS i64
#define VALUE int64_t
#define VALUE4 i64vec4
#include "operand.glsl"
#endif
#ifdef USES_BOOL
#define CLASS bool
#define VALUE bool
#define VALUE4 bvec4
#include "operand.glsl"
#endif

// The operand is a literal number: its flags are a constant of the pipeline.
#define load_f32(op, at) load_as_f32(OPERAND_##op, arg_address(op), at)
#define load_f64(op, at) load_as_f64(OPERAND_##op, arg_address(op), at)
#define load_i32(op, at) load_as_i32(OPERAND_##op, arg_address(op), at)
#define load_i64(op, at) load_as_i64(OPERAND_##op, arg_address(op), at)
#define load_bool(op, at) load_as_bool(OPERAND_##op, arg_address(op), at)
#define load4_f32(op, at) load4_as_f32(OPERAND_##op, arg_address(op), at)
#define load4_f64(op, at) load4_as_f64(OPERAND_##op, arg_address(op), at)
#define load4_i32(op, at) load4_as_i32(OPERAND_##op, arg_address(op), at)
#define load4_i64(op, at) load4_as_i64(OPERAND_##op, arg_address(op), at)
#define load4_bool(op, at) load4_as_bool(OPERAND_##op, arg_address(op), at)
#define store_f32(op, at, x) store_as_f32(OPERAND_##op, arg_address(op), at, x)
#define store_f64(op, at, x) store_as_f64(OPERAND_##op, arg_address(op), at, x)
#define store_i32(op, at, x) store_as_i32(OPERAND_##op, arg_address(op), at, x)
#define store_i64(op, at, x) store_as_i64(OPERAND_##op, arg_address(op), at, x)
#define store_bool(op, at, x) store_as_bool(OPERAND_##op, arg_address(op), at, x)
#define store4_f32(op, at, x) store4_as_f32(OPERAND_##op, arg_address(op), at, x)
#define store4_f64(op, at, x) store4_as_f64(OPERAND_##op, arg_address(op), at, x)
#define store4_i32(op, at, x) store4_as_i32(OPERAND_##op, arg_address(op), at, x)
#define store4_i64(op, at, x) store4_as_i64(OPERAND_##op, arg_address(op), at, x)
#define store4_bool(op, at, x) store4_as_bool(OPERAND_##op, arg_address(op), at, x)

// A four of elements; `second`: the one behind, of eight elements of two bytes.
uint64_t four_base(const uint operand, const uint64_t base, const bool second)
{
    return second && (operand & (IMMEDIATE | SPLAT)) == 0 ? base + 8 : base;
}
#define FOUR_BASE(op, second) four_base(OPERAND_##op, arg_address(op), second)
#define LOAD_FOUR_OF(class, op, second, at) load4_as_##class(OPERAND_##op, FOUR_BASE(op, second), at)
#define STORE_FOUR_OF(class, op, second, at, x) store4_as_##class(OPERAND_##op, FOUR_BASE(op, second), at, x)
