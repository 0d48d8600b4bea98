#version 460
// dw[o, c, ky, kx] = sum over n, oy, ox of dy[n, o, oy, ox] * x[n, c, pixel(ky, kx, oy, ox)], for each group.
//
// Few results, each a long sum: a workgroup computes a square of SIDE outputs by SIDE taps (c, ky, kx). Its invocations
// take the pixels (n, oy, ox) in turn and keep SIDE x SIDE sums, which then are summed over the invocations in a fixed
// order, in two levels: the same bits from run to run. The place of a pixel is counted, not divided.
#define N_OPERANDS 3
#include "conv.glsl"
layout(local_size_x = 256) in;

const uint SIDE = 4, LANES = 256, FAN_IN = 16;   // SIDE as the tile in src/ops/kernels.def; LANES = SIDE^2 * FAN_IN
shared VALUE partial[SIDE * SIDE * LANES];

struct place {
    uint n;
    int y, x;
};

void advance(inout place p, const place step)
{
    p.x += step.x;
    if (p.x >= OUT_WIDTH) {
        p.x -= OUT_WIDTH;
        p.y++;
    }
    p.y += step.y;
    if (p.y >= OUT_HEIGHT) {
        p.y -= OUT_HEIGHT;
        p.n++;
    }
    p.n += step.n;
}

place place_of(const uint at)
{
    uint pixels = uint(OUT_HEIGHT * OUT_WIDTH), rest = at % pixels;
    return place(at / pixels, int(rest) / OUT_WIDTH, int(rest) % OUT_WIDTH);
}

// Sums each of SIDE x SIDE values over the invocations: FAN_IN parts of each, by as many invocations, then the parts.
// Invocation i below SIDE x SIDE gets sum number i.
VALUE across(const VALUE mine[SIDE * SIDE])
{
    uint lane = gl_LocalInvocationIndex, value = lane / FAN_IN, part = lane % FAN_IN;
    barrier();
    [[unroll]] for (uint i = 0; i < SIDE * SIDE; i++) partial[i * LANES + lane] = mine[i];
    barrier();
    VALUE sum = partial[value * LANES + part];
    for (uint l = part + FAN_IN; l < LANES; l += FAN_IN) sum += partial[value * LANES + l];
    barrier();
    partial[lane] = sum;
    barrier();
    sum = VALUE(0);
    if (lane < SIDE * SIDE) {
        for (uint l = 0; l < FAN_IN; l++) sum += partial[lane * FAN_IN + l];
    }
    return sum;
}

void square(const uint m0, const uint m_size, const uint t0, const uint t_size)
{
    VALUE sums[SIDE * SIDE];
    uint c[SIDE], ky[SIDE], kx[SIDE], taps = KERNEL_H * KERNEL_W;
    [[unroll]] for (uint i = 0; i < SIDE * SIDE; i++) sums[i] = VALUE(0);
    [[unroll]] for (uint j = 0; j < SIDE; j++) {
        uint t = min(t0 + j, t_size - 1);
        c[j] = t / taps;
        ky[j] = t % taps / KERNEL_W;
        kx[j] = t % KERNEL_W;
    }
    PLACE of_dy[SIDE], of_x[SIDE];
    int tap_y[SIDE], tap_x[SIDE], padding_h = PADDING_H, padding_w = PADDING_W;
    [[unroll]] for (uint i = 0; i < SIDE; i++) {
        of_dy[i] = PLACE4(1, 0, group * (OUTPUTS / GROUPS) + min(m0 + i, m_size - 1), 0, 0);
        tap_y[i] = int(ky[i]) * DILATION_H;
        tap_x[i] = int(kx[i]) * DILATION_W;
        of_x[i] = PLACE4(0, 0, group * (CHANNELS / GROUPS) + c[i], tap_y[i], tap_x[i]);
    }
    place p = place_of(gl_LocalInvocationIndex), step = place_of(LANES);
    while (p.n < BATCH) {
        VALUE dy[SIDE];
        int y = p.y * STRIDE_H - padding_h, x = p.x * STRIDE_W - padding_w;   // what the first tap meets
        PLACE at_dy = arg_address(1) + PLACE4(1, p.n, 0, p.y, p.x), at_x = arg_address(0) + PLACE4(0, p.n, 0, y, x);
        [[unroll]] for (uint i = 0; i < SIDE; i++) dy[i] = LOAD_AT(1, at_dy + of_dy[i]);
        [[unroll]] for (uint j = 0; j < SIDE; j++) {
            int iy = y + tap_y[j], ix = x + tap_x[j];
            bool inside = is_within(iy, ix, of.height, of.width);
            VALUE v = LOAD_INSIDE(0, inside, at_x + of_x[j]);
            [[unroll]] for (uint i = 0; i < SIDE; i++) sums[i * SIDE + j] += dy[i] * v;
        }
        advance(p, step);
    }
    VALUE sum = across(sums);
    uint m = m0 + gl_LocalInvocationIndex / SIDE, t = t0 + gl_LocalInvocationIndex % SIDE;
    if (gl_LocalInvocationIndex < SIDE * SIDE && m < m_size && t < t_size) {
        uint o = group * (OUTPUTS / GROUPS) + m;
        STORE(2, offset4(2, o, t / taps, int(t % taps / KERNEL_W), int(t % KERNEL_W)), sum);
    }
}

void main()
{
    read_sizes(HEIGHT, WIDTH);
    for (uint z = gl_WorkGroupID.z; z < GROUPS; z += gl_NumWorkGroups.z) {
        group = z;
        uint m_size = OUTPUTS / GROUPS, t_size = CHANNELS / GROUPS * KERNEL_H * KERNEL_W;
        square(gl_WorkGroupID.y * SIDE, m_size, gl_WorkGroupID.x * SIDE, t_size);
    }
}
