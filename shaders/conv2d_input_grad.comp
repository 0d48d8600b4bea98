#version 460
// dx[n, c, iy, ix] = sum over o, ky, kx of w[o, c, ky, kx] * dy[n, o, oy, ox] where that tap of (oy, ox) meets
// (iy, ix): rows are channels, pixels those of x. Each pixel gathers: no atomics.
#define N_OPERANDS 3
#include "conv.glsl"
layout(local_size_x = 64) in;

// Of the pixels at hand.
uint image[4];
int in_y[4], in_x[4];   // with the padding
bool meets[4];
PLACE places[4];   // of the image, or, where the stride is 1, of the result that the first tap meets
#define DENSE (VARIANT_0 == 1 && VARIANT_1 == 1)

VALUE weight(const uint m, const uint o, const uint ky, const uint kx)
{
    return LOAD(1, offset4(1, group * (OUTPUTS / GROUPS) + o, m, int(ky), int(kx)));
}

void locate_pixel(const uint i, const uint p)
{
    int at = int(p) % (HEIGHT * WIDTH);
    image[i] = p / uint(HEIGHT * WIDTH);
    in_y[i] = at / WIDTH + PADDING_H;
    in_x[i] = at % WIDTH + PADDING_W;
    int y = DENSE ? in_y[i] : 0, x = DENSE ? in_x[i] : 0;
    places[i] = PLACE4(0, image[i], 0, y, x);
}

PLACE place_of_tap(const uint o, const uint ky, const uint kx)
{
    PLACE at = PLACE4(0, 0, group * (OUTPUTS / GROUPS) + o, 0, 0);
    return DENSE ? at + PLACE4(0, 0, 0, -int(ky) * DILATION_H, -int(kx) * DILATION_W) : at;
}

VALUE neighbour(const uint i, const uint outer, const uint ky, const uint kx, const PLACE tap)
{
    int oy = in_y[i] - int(ky) * of.dilation_h, ox = in_x[i] - int(kx) * of.dilation_w;
    meets[i] = false;
    if (DENSE) {
        meets[i] = is_within(oy, ox, of.height, of.width);
        return LOAD_INSIDE(0, meets[i], places[i] + tap);
    }
    if (oy < 0 || ox < 0 || oy % STRIDE_H != 0 || ox % STRIDE_W != 0) return VALUE(0);
    oy /= STRIDE_H;
    ox /= STRIDE_W;
    if (oy >= of.height || ox >= of.width) return VALUE(0);
    meets[i] = true;
    return LOAD_AT(0, arg_address(0), places[i] + tap + PLACE4(0, 0, 0, oy, ox));
}

void result(const uint i, const uint p, const uint m, const VALUE v)
{
    STORE(2, offset4(2, image[i], group * (CHANNELS / GROUPS) + m, in_y[i] - PADDING_H, in_x[i] - PADDING_W), v);
}

const uint ROWS = VARIANT_2 == 0 ? 8 : VARIANT_2;   // src/ops/conv.c
#define RESULTS [[unroll]]
#define SKIPS
#include "direct.glsl"

void main()
{
    read_sizes(OUT_HEIGHT, OUT_WIDTH);
    for (uint z = gl_WorkGroupID.z; z < GROUPS; z += gl_NumWorkGroups.z) {
        group = z;
        convolve(gl_WorkGroupID.y * ROWS, gl_WorkGroupID.x * PIXELS, CHANNELS / GROUPS,
                 BATCH * uint(HEIGHT * WIDTH), OUTPUTS / GROUPS);
    }
}
