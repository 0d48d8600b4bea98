#version 460
// dx[n, c, iy, ix] = sum over o, ky, kx of w[o, c, ky, kx] * dy[n, o, oy, ox] where that tap of (oy, ox) meets
// (iy, ix): rows are channels, pixels those of x. Each pixel gathers: no atomics.
#define N_OPERANDS 3
#include "conv.glsl"
layout(local_size_x = 64) in;

int in_y, in_x;   // of the pixel at hand

VALUE weight(const uint m, const uint o, const uint ky, const uint kx)
{
    return LOAD(1, offset4(1, group * (OUTPUTS / GROUPS) + o, m, int(ky), int(kx)));
}

void locate_pixel(const uint p)
{
    in_y = int(p) / WIDTH;
    in_x = int(p) % WIDTH;
}

VALUE neighbour(const uint o, const uint ky, const uint kx)
{
    int oy = in_y + PADDING_H - int(ky) * DILATION_H, ox = in_x + PADDING_W - int(kx) * DILATION_W;
    if (oy < 0 || ox < 0) return VALUE(0);
    if (STRIDE_H != 1) {
        if (oy % STRIDE_H != 0) return VALUE(0);
        oy /= STRIDE_H;
    }
    if (STRIDE_W != 1) {
        if (ox % STRIDE_W != 0) return VALUE(0);
        ox /= STRIDE_W;
    }
    if (oy >= OUT_HEIGHT || ox >= OUT_WIDTH) return VALUE(0);
    return LOAD(0, offset4(0, image, group * (OUTPUTS / GROUPS) + o, oy, ox));
}

void result(const uint m, const VALUE v)
{
    STORE(2, offset4(2, image, group * (CHANNELS / GROUPS) + m, in_y, in_x), v);
}

#include "direct.glsl"

void main()
{
    for (uint z = gl_WorkGroupID.z; z < BATCH * GROUPS; z += gl_NumWorkGroups.z) {
        image = z / GROUPS;
        group = z % GROUPS;
        convolve(CHANNELS / GROUPS, uint(HEIGHT * WIDTH), OUTPUTS / GROUPS);
    }
}
