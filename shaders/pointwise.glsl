// The frame of a pointwise kernel: out[p] = point(in[p]...) for each point p of the space.
//
// A workgroup has POINTS neighbouring points. With VEC = 4 the host has made sure that along the innermost dimension
// each operand is dense and aligned to four elements, or constant (SPLAT), and that either the space has one dimension
// or its innermost size is a multiple of 4: then four neighbours are one wide access. An invocation has CHUNKS such
// fours, all of which are under way before the first is computed; neighbouring invocations have neighbouring fours.
// TAIL: the last workgroup has fewer points, and takes them one by one. VEC = 8 is the same for elements of two bytes:
// eight neighbours are two fours side by side, which drivers make one access of 16 bytes. VEC = 16 is the same for
// bools, of which 16 are one access: each is a byte of 0 or 1, and a word of four is computed at once.
layout(local_size_x_id = 0) in;
layout(constant_id = 4) const uint VEC = 1;
layout(constant_id = 5) const bool TAIL = false;
layout(constant_id = 19) const uint CHUNKS = 1;
const uint POINTS = gl_WorkGroupSize.x * VEC * CHUNKS;
const uint FOURS = VEC == 8 ? 2 * CHUNKS : CHUNKS;   // of an invocation

uint point_count()
{
    uint n = 1;
    [[unroll]] for (uint d = 0; d < RANK; d++) n *= arg_size(d);
    return n;
}

// Offsets of point number p in each operand, in elements.
void locate(uint p, out int64_t at[N_OPERANDS])
{
    uint narrow[N_OPERANDS];
    [[unroll]] for (uint i = 0; i < N_OPERANDS; i++) {
        at[i] = 0l;
        narrow[i] = 0;
    }
    [[unroll]] for (uint left = RANK; left > 0; left--) {
        uint d = left - 1, size = arg_size(d), q = d > 0 ? p / size : 0, r = p - q * size;
        [[unroll]] for (uint i = 0; i < N_OPERANDS; i++) {
            bool fast = VEC != 1 && left == RANK;
            int stride = fast ? fast_stride(i) : arg_stride(i, d);
            if (NARROW) narrow[i] += r * uint(stride);
            else at[i] += fast ? int64_t(int(r) * stride) : wide_product(int(r), stride);
        }
        p = q;
    }
    if (NARROW) [[unroll]] for (uint i = 0; i < N_OPERANDS; i++) at[i] = int64_t(uint64_t(narrow[i]));
}

// Four number q of an invocation: its first point, and whether it is the first of an access.
uint point_of_four(const uint q)
{
    if (VEC == 8) return ((q >> 1) * gl_WorkGroupSize.x + gl_LocalInvocationIndex) * 8 + (q & 1) * 4;
    return (q * gl_WorkGroupSize.x + gl_LocalInvocationIndex) * 4;
}
bool begins_access(const uint q) { return VEC != 8 || (q & 1) == 0; }
#ifdef PACKED
const uint ONES = 0x01010101u;   // four that are true

uvec4 load_packed(const uint operand, const uint64_t base, const int64_t at)
{
    if ((operand & IMMEDIATE) != 0) return uvec4(bool_of_immediate(base) ? ONES : 0u);
    uint64_t address = element_address(DTYPE_BOOL, base, at);
    if ((operand & SPLAT) != 0) return uvec4(uint(Memory8(address).v) * ONES);
    return Memory128(address).v;
}
void store_packed(const uint64_t base, const int64_t at, const uvec4 x)
{
    Memory128(element_address(DTYPE_BOOL, base, at)).v = x;
}
#endif
