// The frame of a pointwise kernel: out[p] = point(in[p]...) for each point p of the space.
//
// An invocation computes VEC neighbouring points. With VEC = 4 the host has made sure that along the innermost
// dimension each operand is dense and aligned to four elements, or constant (SPLAT), and that either the space has
// one dimension or its innermost size is a multiple of 4: then four neighbours are one wide access. TAIL: the last
// invocation has fewer points.
layout(local_size_x_id = 0) in;
layout(constant_id = 4) const uint VEC = 1;
layout(constant_id = 5) const bool TAIL = false;

uint point_count()
{
    uint n = 1;
    [[unroll]] for (uint d = 0; d < RANK; d++) n *= arg_size(d);
    return n;
}

uint first_point() { return (group_index() * gl_WorkGroupSize.x + gl_LocalInvocationIndex) * VEC; }

// Offsets of point number p in each operand, in elements.
void locate(uint p, out int64_t at[N_OPERANDS])
{
    [[unroll]] for (uint i = 0; i < N_OPERANDS; i++) at[i] = 0l;
    [[unroll]] for (uint left = RANK; left > 0; left--) {
        uint d = left - 1, size = arg_size(d), q = d > 0 ? p / size : 0, r = p - q * size;
        [[unroll]] for (uint i = 0; i < N_OPERANDS; i++) at[i] += int64_t(int(r)) * int64_t(arg_stride(i, d));
        p = q;
    }
}
