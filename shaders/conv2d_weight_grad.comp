#version 460
// dw[o, c, ky, kx] = sum over n, oy, ox of dy[n, o, oy, ox] * x[n, c, pixel(ky, kx, oy, ox)]: a matrix product for
// each group, with outputs as rows, (c, ky, kx) as columns, and k over (n, oy, ox).
#define N_OPERANDS 3
#include "conv.glsl"

VALUE operand_a(uint m, uint k)
{
    uint pixels = uint(OUT_HEIGHT * OUT_WIDTH), at = k % pixels;
    return LOAD(1, offset4(1, k / pixels, group * (OUTPUTS / GROUPS) + m, int(at) / OUT_WIDTH, int(at) % OUT_WIDTH));
}

VALUE operand_b(uint k, uint n)
{
    uint pixels = uint(OUT_HEIGHT * OUT_WIDTH), at = k % pixels, taps = KERNEL_H * KERNEL_W, tap = n % taps;
    int iy, ix;
    if (!pixel(tap / KERNEL_W, tap % KERNEL_W, int(at) / OUT_WIDTH, int(at) % OUT_WIDTH, iy, ix)) return VALUE(0);
    return LOAD(0, offset4(0, k / pixels, group * (CHANNELS / GROUPS) + n / taps, iy, ix));
}

void result(uint m, uint n, VALUE v)
{
    uint taps = KERNEL_H * KERNEL_W, tap = n % taps;
    STORE(2, offset4(2, group * (OUTPUTS / GROUPS) + m, n / taps, int(tap / KERNEL_W), int(tap % KERNEL_W)), v);
}

#include "product.glsl"

void main()
{
    for (uint z = gl_WorkGroupID.z; z < GROUPS; z += gl_NumWorkGroups.z) {
        group = z;
        product(gl_WorkGroupID.y * TILE, gl_WorkGroupID.x * TILE, OUTPUTS / GROUPS, CHANNELS / GROUPS * KERNEL_H * KERNEL_W,
                BATCH * uint(OUT_HEIGHT * OUT_WIDTH));
    }
}
