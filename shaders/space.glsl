// The space of a hand-written kernel: how many points it has, and where a point lies in each operand.
uint point_number() { return group_index() * gl_WorkGroupSize.x + gl_LocalInvocationIndex; }

uint space_size(uint first, uint end)
{
    uint n = 1;
    [[unroll]] for (uint d = first; d < end; d++) n *= arg_size(d);
    return n;
}

// Offsets, in elements, of point p counted over all dimensions but `skip` (RANK: none).
void locate(uint p, uint skip, out int64_t at[N_OPERANDS])
{
    [[unroll]] for (uint i = 0; i < N_OPERANDS; i++) at[i] = 0l;
    [[unroll]] for (uint left = RANK; left > 0; left--) {
        uint d = left - 1;
        if (d == skip) continue;
        uint size = arg_size(d), q = p / size, r = p - q * size;
        [[unroll]] for (uint i = 0; i < N_OPERANDS; i++) at[i] += wide_product(int(r), arg_stride(i, d));
        p = q;
    }
}
