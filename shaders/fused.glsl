// The frame of a fused kernel, whose text the library writes while the program runs: arguments, memory, divisions.
// Every section is behind a macro, for the compiler's time counts.
//
// The including text defines N_LOCAL, the invocations of a workgroup; INDIRECT, when the argument block lies in memory
// and the push constant holds its address; TABLE, for a table of blocks there; WIDE, when indices take 64 bits;
// MEMORY_<dtype> for each storage dtype; TRIPS, when the kernel makes the trips of a loop, and TOGETHER, when all
// points make each of them together; HALVES, where instructions convert f16; and WORKSPACE, when workgroups leave
// partial values to each other, with AT_WORKSPACE, the word of its address. It gets arg(i), a word of the block;
// load_<dtype>, store_<dtype>, and load4_ and store4_ for four neighbours that are aligned. Values are of the dtype's
// own class.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require
#ifdef SHUFFLES
#extension GL_KHR_shader_subgroup_shuffle : require
#endif

#define COMPACT false   // for each device: RESULTS are never unrolled
layout(local_size_x = N_LOCAL) in;
layout(push_constant, scalar) uniform Push { uint words[32]; } push;
#ifdef TABLE
// One launch for several kernels. The push constant holds the address of: how many they are, the words of a block, the
// number of the first workgroup of each, and their blocks.
layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer Block { uint words[]; };
uint entry_group;
Block entry_block;
#define table_at(i) (packUint2x32(uvec2(push.words[0], push.words[1])) + uint64_t(4u * (i)))
#define table_word(i) Block(table_at(i)).words[0]
#define arg(i) entry_block.words[i]
void find_entry()
{
    uint group = gl_WorkGroupID.x + gl_WorkGroupID.y * gl_NumWorkGroups.x, n = table_word(0), entry = 0, end = n;
    while (end - entry > 1) {
        uint middle = (entry + end) / 2;
        if (table_word(2 + middle) <= group) entry = middle;
        else end = middle;
    }
    entry_group = table_word(2 + entry);
    entry_block = Block(table_at(2 + n + entry * table_word(1)));
}
#elif defined INDIRECT
layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer Block { uint words[]; };
#define arg(i) Block(packUint2x32(uvec2(push.words[0], push.words[1]))).words[i]
#else
#define arg(i) push.words[i]
#endif
#define arg64(i) packUint2x32(uvec2(arg(i), arg(i + 1)))

// INDEX counts points, OFFSET is an element's place. Narrow places reach at most 2^31 bytes to either side, and are
// words without a sign, which drivers add to an address in the instruction that loads; where an access goes back, its
// text gives them their sign.
#ifdef WIDE
#define INDEX uint64_t
#define OFFSET int64_t
#define arg_index(i) arg64(i)
#define arg_offset(i) int64_t(arg64(i))
#define divided(n, d, size) ((n) / (size))
#else
#define INDEX uint
#define OFFSET uint
#define arg_index(i) arg(i)
#define arg_offset(i) arg(i)
// n / size by a multiplication: the constants at word d belong to size, and n is below 2^31.
uint divide_by(const uint n, const uint factor, const uint shift)
{
    uint high, low;
    umulExtended(n, factor, high, low);
    return (high + n) >> shift;
}
#define divided(n, d, size) divide_by(n, arg(d), arg(d + 1))
#endif

// A number of a workgroup in a grid that is folded over x and y.
#ifdef TABLE
uint group_index() { return gl_WorkGroupID.x + gl_WorkGroupID.y * gl_NumWorkGroups.x - entry_group; }
#else
uint group_index() { return gl_WorkGroupID.x + gl_WorkGroupID.y * gl_NumWorkGroups.x; }
#endif

// What other invocations read behind a barrier.
#ifdef TOGETHER
#define BUFFER coherent buffer
#else
#define BUFFER buffer
#endif

#if defined MEMORY_bool || defined MEMORY_u8 || defined MEMORY_i8
layout(buffer_reference, scalar, buffer_reference_align = 1) BUFFER Memory8 { uint8_t v; };
layout(buffer_reference, scalar, buffer_reference_align = 4) BUFFER Memory8x4 { uint v; };
uvec4 bytes_at(const uint64_t at) { return (uvec4(Memory8x4(at).v) >> uvec4(0, 8, 16, 24)) & 255u; }
void store_byte(const uint64_t at, const uint x) { Memory8(at).v = uint8_t(x); }
void store_bytes(const uint64_t at, const uvec4 x)
{
    uvec4 b = (x & 255u) << uvec4(0, 8, 16, 24);
    Memory8x4(at).v = b.x | b.y | b.z | b.w;
}
#endif
#ifdef MEMORY_bool
#define load_bool(at) (uint(Memory8(at).v) != 0u)
#define load4_bool(at) notEqual(bytes_at(at), uvec4(0))
#define store_bool(at, x) store_byte(at, uint(x))
#define store4_bool(at, x) store_bytes(at, uvec4(x))
#endif
#ifdef MEMORY_u8
#define load_u8(at) int(uint(Memory8(at).v))
#define load4_u8(at) ivec4(bytes_at(at))
#define store_u8(at, x) store_byte(at, uint(x))
#define store4_u8(at, x) store_bytes(at, uvec4(x))
#endif
#ifdef MEMORY_i8
#define load_i8(at) bitfieldExtract(int(uint(Memory8(at).v)), 0, 8)
#define load4_i8(at) bitfieldExtract(ivec4(bytes_at(at)), 0, 8)
#define store_i8(at, x) store_byte(at, uint(x))
#define store4_i8(at, x) store_bytes(at, uvec4(x))
#endif

#if defined MEMORY_i16 || defined MEMORY_u16 || defined MEMORY_f16 || defined MEMORY_bf16
layout(buffer_reference, scalar, buffer_reference_align = 2) BUFFER Memory16 { uint16_t v; };
layout(buffer_reference, scalar, buffer_reference_align = 8) BUFFER Memory16x4 { uvec2 v; };
uvec4 halves_at(const uint64_t at)
{
    uvec2 pairs = Memory16x4(at).v;
    return uvec4(pairs.x & 65535u, pairs.x >> 16, pairs.y & 65535u, pairs.y >> 16);
}
void store_half(const uint64_t at, const uint x) { Memory16(at).v = uint16_t(x); }
void store_halves(const uint64_t at, const uvec4 x)
{
    Memory16x4(at).v = uvec2((x.x & 65535u) | x.y << 16, (x.z & 65535u) | x.w << 16);
}
#endif
#ifdef MEMORY_i16
#define load_i16(at) bitfieldExtract(int(uint(Memory16(at).v)), 0, 16)
#define load4_i16(at) bitfieldExtract(ivec4(halves_at(at)), 0, 16)
#define store_i16(at, x) store_half(at, uint(x))
#define store4_i16(at, x) store_halves(at, uvec4(x))
#endif
#ifdef MEMORY_u16
#define load_u16(at) int(uint(Memory16(at).v))
#define load4_u16(at) ivec4(halves_at(at))
#define store_u16(at, x) store_half(at, uint(x))
#define store4_u16(at, x) store_halves(at, uvec4(x))
#endif
// The conversions are those of convert.glsl, where they are explained, but where the device is trusted: HALVES.
#ifdef MEMORY_f16
float f16_decode(const uint h)
{
    uint rest = (h & 0x7fffu) << 13;
    precise float tiny = uintBitsToFloat(rest + (113u << 23)) - uintBitsToFloat(113u << 23);
    uint magnitude = rest + (rest >= 31u << 23 ? 224u << 23 : 112u << 23);
    magnitude = rest < 1u << 23 ? floatBitsToUint(tiny) : magnitude;
    return uintBitsToFloat((h & 0x8000u) << 16 | magnitude);
}
uint f16_encode(const float x)
{
    uint bits = floatBitsToUint(x), magnitude = bits & 0x7fffffffu;
    precise float shifted = uintBitsToFloat(magnitude) + 0.5;
    uint result = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    result = magnitude < 113u << 23 ? floatBitsToUint(shifted) - (126u << 23) : result;
    result = min(result, 0x7c00u);
    result = magnitude > 0x7f800000u ? 0x7e00u | ((magnitude >> 13) & 0x3ffu) : result;
    return (bits >> 16) & 0x8000u | result;
}
uvec2 f16_pairs(const vec4 x)
{
#if defined HALVES && defined MATRICES
    return uvec2(packFloat2x16(f16vec2(x.xy)), packFloat2x16(f16vec2(x.zw)));
#else
    return uvec2(f16_encode(x.x) | f16_encode(x.y) << 16, f16_encode(x.z) | f16_encode(x.w) << 16);
#endif
}
#ifdef HALVES
layout(buffer_reference, scalar, buffer_reference_align = 2) BUFFER MemoryF16 { float16_t v; };
layout(buffer_reference, scalar, buffer_reference_align = 8) BUFFER MemoryF16x4 { f16vec4 v; };
#define load_f16(at) float(MemoryF16(at).v)
#define load4_f16(at) vec4(MemoryF16x4(at).v)
#define store_f16(at, x) MemoryF16(at).v = float16_t(x)
#define store4_f16(at, x) MemoryF16x4(at).v = f16vec4(x)
#else
#define load_f16(at) f16_decode(uint(Memory16(at).v))
vec4 load4_f16(const uint64_t at)
{
    uvec4 h = halves_at(at);
    return vec4(f16_decode(h.x), f16_decode(h.y), f16_decode(h.z), f16_decode(h.w));
}
#define store_f16(at, x) store_half(at, f16_encode(x))
#define store4_f16(at, x) Memory16x4(at).v = f16_pairs(x)
#endif
#endif
#ifdef MEMORY_bf16
uint bf16_encode(const float x)
{
    uint bits = floatBitsToUint(x);
    return (bits & 0x7fffffffu) > 0x7f800000u ? bits >> 16 | 0x40u : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}
#define load_bf16(at) uintBitsToFloat(uint(Memory16(at).v) << 16)
#define load4_bf16(at) uintBitsToFloat(halves_at(at) << 16)
#define store_bf16(at, x) store_half(at, bf16_encode(x))
uvec2 bf16_pairs(const vec4 x)
{
    return uvec2(bf16_encode(x.x) | bf16_encode(x.y) << 16, bf16_encode(x.z) | bf16_encode(x.w) << 16);
}
#define store4_bf16(at, x) Memory16x4(at).v = bf16_pairs(x)
#endif

#ifdef MEMORY_f32
layout(buffer_reference, scalar, buffer_reference_align = 4) BUFFER MemoryF32 { float v; };
layout(buffer_reference, scalar, buffer_reference_align = 16) BUFFER MemoryF32x4 { vec4 v; };
#define load_f32(at) MemoryF32(at).v
#define load4_f32(at) MemoryF32x4(at).v
#define store_f32(at, x) MemoryF32(at).v = x
#define store4_f32(at, x) MemoryF32x4(at).v = x
#endif
#ifdef MEMORY_i32
layout(buffer_reference, scalar, buffer_reference_align = 4) BUFFER MemoryI32 { int v; };
layout(buffer_reference, scalar, buffer_reference_align = 16) BUFFER MemoryI32x4 { ivec4 v; };
#define load_i32(at) MemoryI32(at).v
#define load4_i32(at) MemoryI32x4(at).v
#define store_i32(at, x) MemoryI32(at).v = x
#define store4_i32(at, x) MemoryI32x4(at).v = x
#endif
#ifdef MEMORY_u32
layout(buffer_reference, scalar, buffer_reference_align = 4) BUFFER MemoryU32 { uint v; };
layout(buffer_reference, scalar, buffer_reference_align = 16) BUFFER MemoryU32x4 { uvec4 v; };
#define load_u32(at) int64_t(uint64_t(MemoryU32(at).v))
#define load4_u32(at) i64vec4(u64vec4(MemoryU32x4(at).v))
#define store_u32(at, x) MemoryU32(at).v = uint(uint64_t(x))
#define store4_u32(at, x) MemoryU32x4(at).v = uvec4(u64vec4(x))
#endif
#if defined MEMORY_i64 || defined MEMORY_u64 || defined MEMORY_f64
layout(buffer_reference, scalar, buffer_reference_align = 8) BUFFER Memory64 { uvec2 v; };
layout(buffer_reference, scalar, buffer_reference_align = 16) BUFFER Memory64x2 { uvec4 v; };
#endif
#if defined MEMORY_i64 || defined MEMORY_u64
#define load_i64(at) int64_t(packUint2x32(Memory64(at).v))
#define store_i64(at, x) Memory64(at).v = unpackUint2x32(uint64_t(x))
i64vec4 load4_i64(const uint64_t at)
{
    uvec4 a = Memory64x2(at).v, b = Memory64x2(at + 16ul).v;
    return i64vec4(u64vec4(packUint2x32(a.xy), packUint2x32(a.zw), packUint2x32(b.xy), packUint2x32(b.zw)));
}
void store4_i64(const uint64_t at, const i64vec4 x)
{
    u64vec4 u = u64vec4(x);
    Memory64x2(at).v = uvec4(unpackUint2x32(u.x), unpackUint2x32(u.y));
    Memory64x2(at + 16ul).v = uvec4(unpackUint2x32(u.z), unpackUint2x32(u.w));
}
#endif
#define load_u64(at) load_i64(at)
#define load4_u64(at) load4_i64(at)
#define store_u64(at, x) store_i64(at, x)
#define store4_u64(at, x) store4_i64(at, x)
#ifdef MEMORY_f64
#define load_f64(at) packDouble2x32(Memory64(at).v)
#define store_f64(at, x) Memory64(at).v = unpackDouble2x32(x)
dvec4 load4_f64(const uint64_t at)
{
    uvec4 a = Memory64x2(at).v, b = Memory64x2(at + 16ul).v;
    return dvec4(packDouble2x32(a.xy), packDouble2x32(a.zw), packDouble2x32(b.xy), packDouble2x32(b.zw));
}
void store4_f64(const uint64_t at, const dvec4 x)
{
    Memory64x2(at).v = uvec4(unpackDouble2x32(x.x), unpackDouble2x32(x.y));
    Memory64x2(at + 16ul).v = uvec4(unpackDouble2x32(x.z), unpackDouble2x32(x.w));
}
#endif

#ifdef TRIPS
// What a store and a load in between leave of a value.
#define stored_bool(x) (x)
#define stored_u8(x) ((x) & 255)
#define stored_i8(x) bitfieldExtract(x, 0, 8)
#define stored_i16(x) bitfieldExtract(x, 0, 16)
#define stored_f16(x) f16_decode(f16_encode(x))
#define stored_bf16(x) uintBitsToFloat(bf16_encode(x) << 16)
#define stored_i32(x) (x)
#define stored_i64(x) (x)
#define stored_u16(x) ((x) & 65535)
#define stored_u32(x) ((x) & 4294967295l)
#define stored_u64(x) (x)
#define stored_f32(x) (x)
#define stored_f64(x) (x)
#endif

#ifdef WORKSPACE
// Partial values that workgroups leave to the one that finishes last; an integer counter tells it. All but the counter
// is written before, and read after, a barrier of memory, so that no workgroup ever waits for another.
layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer Counter { uint v; };
layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer Partial32 { uint v; };
layout(buffer_reference, scalar, buffer_reference_align = 8) coherent buffer Partial64 { uvec2 v; };
const uint64_t FIRST_PARTIAL = 4096ul, PARTIAL_SIZE = 16ul;   // behind the counters

uint64_t partial_at(const uint slot) { return arg64(AT_WORKSPACE) + FIRST_PARTIAL + uint64_t(slot) * PARTIAL_SIZE; }

shared bool finishes_last;
// Whether this workgroup is the last of n to come here. Leaves the counter at zero then, for the next launch.
bool comes_last(const uint counter, const uint n)
{
    memoryBarrierBuffer();
    barrier();
    if (gl_LocalInvocationIndex == 0) {
        Counter c = Counter(arg64(AT_WORKSPACE) + uint64_t(counter) * 4ul);
        finishes_last = atomicAdd(c.v, 1u) == n - 1u;
        if (finishes_last) c.v = 0u;
    }
    barrier();
    memoryBarrierBuffer();
    return finishes_last;
}
#endif
