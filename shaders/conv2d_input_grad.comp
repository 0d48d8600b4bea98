#version 460
// dx[n, c, iy, ix] = sum over o, ky, kx of w[o, c, ky, kx] * dy[n, o, oy, ox] where that tap of (oy, ox) meets (iy,
// ix): a matrix product for each image and group, with channels as rows, pixels of x as columns, and k over (o, ky,
// kx). Each pixel gathers: no atomics.
#define N_OPERANDS 3
#include "conv.glsl"

VALUE operand_a(uint m, uint k)
{
    uint taps = KERNEL_H * KERNEL_W, o = k / taps, tap = k % taps;
    return LOAD(1, offset4(1, group * (OUTPUTS / GROUPS) + o, m, int(tap / KERNEL_W), int(tap % KERNEL_W)));
}

VALUE operand_b(uint k, uint n)
{
    uint taps = KERNEL_H * KERNEL_W, o = k / taps, tap = k % taps;
    int y = int(n) / WIDTH + PADDING_H - int(tap / KERNEL_W) * DILATION_H, x = int(n) % WIDTH + PADDING_W - int(tap % KERNEL_W) * DILATION_W;
    int oy = y / STRIDE_H, ox = x / STRIDE_W;
    bool meets = y >= 0 && x >= 0 && oy * STRIDE_H == y && ox * STRIDE_W == x && oy < OUT_HEIGHT && ox < OUT_WIDTH;
    if (!meets) return VALUE(0);
    return LOAD(0, offset4(0, image, group * (OUTPUTS / GROUPS) + o, oy, ox));
}

void result(uint m, uint n, VALUE v)
{
    STORE(2, offset4(2, image, group * (CHANNELS / GROUPS) + m, int(n) / WIDTH, int(n) % WIDTH), v);
}

#include "product.glsl"

void main()
{
    for (uint z = gl_WorkGroupID.z; z < BATCH * GROUPS; z += gl_NumWorkGroups.z) {
        image = z / GROUPS;
        group = z % GROUPS;
        product(gl_WorkGroupID.y * TILE, gl_WorkGroupID.x * TILE, CHANNELS / GROUPS, uint(HEIGHT * WIDTH),
                OUTPUTS / GROUPS * KERNEL_H * KERNEL_W);
    }
}
