#version 460
// Blocks of Philox4x32-10. Operand: the words, four a block; scalars: seed and offset. Block i is the function of
// counter offset + i.
#define N_OPERANDS 1
#define N_SCALARS 2
#define USES_I32
#include "args.glsl"
layout(local_size_x = 256) in;
#include "space.glsl"

void main()
{
    uint i = point_number();
    if (i >= arg_size(0)) return;
    uvec2 key = uvec2(arg_scalar_word(0), arg_scalar_word(1));
    uvec2 counter = unpackUint2x32(packUint2x32(uvec2(arg_scalar_word(2), arg_scalar_word(3))) + uint64_t(i));
    uvec4 c = uvec4(counter, 0, 0);
    for (uint round = 0; round < 10; round++) {
        uint high0, low0, high1, low1;
        umulExtended(c.x, 0xD2511F53u, high0, low0);
        umulExtended(c.z, 0xCD9E8D57u, high1, low1);
        c = uvec4(high1 ^ c.y ^ key.x, low1, high0 ^ c.w ^ key.y, low0);
        key += uvec2(0x9E3779B9u, 0xBB67AE85u);
    }
    Memory128(arg_address(0) + uint64_t(i) * 16ul).v = c;
}
