#version 460
// Blocks of quantised elements as f32: one invocation an element. Space: rows, elements of one. Operands: bytes, out;
// scalar: bytes from one row to the next; VARIANT_0: the format.
#define N_OPERANDS 2
#define N_SCALARS 1
#define USES_F32
#include "args.glsl"
layout(local_size_x = 256) in;
#include "space.glsl"
#include "blocks.glsl"

void main()
{
    uint p = point_number(), k = arg_size(1);
    if (p >= arg_size(0) * k) return;
    uint64_t row = arg_address(0) + uint64_t(int64_t(p / k) * arg_scalar_i64(0));
    store_f32(1, int64_t(p), element_of(row, p % k));
}
