#version 460
// y[n, o, oy, ox] = bias[o] + sum over c, ky, kx of w[o, c, ky, kx] * x[n, c, pixel(ky, kx, oy, ox)]: rows are outputs,
// pixels those of y. A workgroup takes the groups z, z + gl_NumWorkGroups.z and so on.
#define N_OPERANDS 4
#include "conv.glsl"
layout(local_size_x = 64) in;

// Of the pixels at hand.
uint image[4];
int out_y[4], out_x[4];
int first_y[4], first_x[4];   // the pixel that the first tap meets
PLACE places[4];              // where it is in channel 0

VALUE weight(const uint m, const uint c, const uint ky, const uint kx)
{
    return LOAD(1, offset4(1, group * (OUTPUTS / GROUPS) + m, c, int(ky), int(kx)));
}

void locate_pixel(const uint i, const uint p)
{
    int at = int(p) % (OUT_HEIGHT * OUT_WIDTH);
    image[i] = p / uint(OUT_HEIGHT * OUT_WIDTH);
    out_y[i] = at / OUT_WIDTH;
    out_x[i] = at % OUT_WIDTH;
    first_y[i] = out_y[i] * STRIDE_H - PADDING_H;
    first_x[i] = out_x[i] * STRIDE_W - PADDING_W;
    places[i] = PLACE4(0, image[i], 0, first_y[i], first_x[i]);
}

PLACE place_of_tap(const uint c, const uint ky, const uint kx)
{
    return PLACE4(0, 0, group * (CHANNELS / GROUPS) + c, int(ky) * DILATION_H, int(kx) * DILATION_W);
}

VALUE neighbour(const uint i, const uint outer, const uint ky, const uint kx, const PLACE tap)
{
    int iy = first_y[i] + int(ky) * of.dilation_h, ix = first_x[i] + int(kx) * of.dilation_w;
    bool inside = is_within(iy, ix, of.height, of.width);
    return LOAD_INSIDE(0, inside, places[i] + tap);
}

void result(const uint i, const uint p, const uint m, const VALUE v)
{
    uint o = group * (OUTPUTS / GROUPS) + m;
    VALUE bias = LOAD(2, wide_product(int(o), arg_stride(2, 1)));
    STORE(3, offset4(3, image[i], o, out_y[i], out_x[i]), v + bias);
}

const uint ROWS = VARIANT_2 == 0 ? 8 : VARIANT_2;   // src/ops/conv.c
#define RESULTS [[unroll]]
#include "direct.glsl"

void main()
{
    read_sizes(HEIGHT, WIDTH);
    for (uint z = gl_WorkGroupID.z; z < GROUPS; z += gl_NumWorkGroups.z) {
        group = z;
        convolve(gl_WorkGroupID.y * ROWS, gl_WorkGroupID.x * PIXELS, OUTPUTS / GROUPS,
                 BATCH * uint(OUT_HEIGHT * OUT_WIDTH), CHANNELS / GROUPS);
    }
}
