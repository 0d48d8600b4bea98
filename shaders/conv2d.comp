#version 460
// y[n, o, oy, ox] = bias[o] + sum over c, ky, kx of w[o, c, ky, kx] * x[n, c, pixel(ky, kx, oy, ox)]: rows are outputs,
// pixels those of y. A workgroup takes the images and groups z, z + gl_NumWorkGroups.z and so on.
#define N_OPERANDS 4
#include "conv.glsl"
layout(local_size_x = 64) in;

int out_y, out_x;   // of the pixel at hand

VALUE weight(const uint m, const uint c, const uint ky, const uint kx)
{
    return LOAD(1, offset4(1, group * (OUTPUTS / GROUPS) + m, c, int(ky), int(kx)));
}

void locate_pixel(const uint p)
{
    out_y = int(p) / OUT_WIDTH;
    out_x = int(p) % OUT_WIDTH;
}

VALUE neighbour(const uint c, const uint ky, const uint kx)
{
    int iy, ix;
    if (!pixel(ky, kx, out_y, out_x, iy, ix)) return VALUE(0);
    return LOAD(0, offset4(0, image, group * (CHANNELS / GROUPS) + c, iy, ix));
}

void result(const uint m, const VALUE v)
{
    uint o = group * (OUTPUTS / GROUPS) + m;
    VALUE bias = LOAD(2, int64_t(int(o)) * int64_t(arg_stride(2, 1)));
    STORE(3, offset4(3, image, o, out_y, out_x), v + bias);
}

#include "direct.glsl"

void main()
{
    for (uint z = gl_WorkGroupID.z; z < BATCH * GROUPS; z += gl_NumWorkGroups.z) {
        image = z / GROUPS;
        group = z % GROUPS;
        convolve(OUTPUTS / GROUPS, uint(OUT_HEIGHT * OUT_WIDTH), CHANNELS / GROUPS);
    }
}
