#version 460
// y[n, o, oy, ox] = bias[o] + sum over c, ky, kx of w[o, c, ky, kx] * x[n, c, pixel(ky, kx, oy, ox)], as a matrix
// product for each image and group: rows are outputs, columns are pixels of y, k runs over (c, ky, kx).
#define N_OPERANDS 4
#include "conv.glsl"

VALUE operand_a(uint m, uint k)
{
    uint taps = KERNEL_H * KERNEL_W, c = k / taps, tap = k % taps;
    return LOAD(1, offset4(1, group * (OUTPUTS / GROUPS) + m, c, int(tap / KERNEL_W), int(tap % KERNEL_W)));
}

VALUE operand_b(uint k, uint n)
{
    uint taps = KERNEL_H * KERNEL_W, c = k / taps, tap = k % taps;
    int iy, ix;
    if (!pixel(tap / KERNEL_W, tap % KERNEL_W, int(n) / OUT_WIDTH, int(n) % OUT_WIDTH, iy, ix)) return VALUE(0);
    return LOAD(0, offset4(0, image, group * (CHANNELS / GROUPS) + c, iy, ix));
}

void result(uint m, uint n, VALUE v)
{
    uint o = group * (OUTPUTS / GROUPS) + m;
    VALUE bias = LOAD(2, int64_t(int(o)) * int64_t(arg_stride(2, 1)));
    STORE(3, offset4(3, image, o, int(n) / OUT_WIDTH, int(n) % OUT_WIDTH), v + bias);
}

#include "product.glsl"

void main()
{
    for (uint z = gl_WorkGroupID.z; z < BATCH * GROUPS; z += gl_NumWorkGroups.z) {
        image = z / GROUPS;
        group = z % GROUPS;
        product(gl_WorkGroupID.y * TILE, gl_WorkGroupID.x * TILE, OUTPUTS / GROUPS, uint(OUT_HEIGHT * OUT_WIDTH),
                CHANNELS / GROUPS * KERNEL_H * KERNEL_W);
    }
}
