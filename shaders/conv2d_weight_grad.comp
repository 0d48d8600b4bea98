#version 460
// dw[o, c, ky, kx] = sum over n, oy, ox of dy[n, o, oy, ox] * x[n, c, pixel(ky, kx, oy, ox)], for each group.
//
// Few results, each a long sum: a workgroup computes ROWS outputs by COLUMNS taps (c, ky, kx). Its invocations take the
// pixels (n, oy, ox) in turn and keep ROWS x COLUMNS sums, which then are summed over the invocations in a fixed order,
// some at a time and in two levels: the same bits from run to run. The place of a pixel is counted, not divided.
#define N_OPERANDS 3
#include "conv.glsl"
layout(local_size_x = 256) in;

const uint ROWS = VARIANT_2 == 0 ? 8 : VARIANT_2, COLUMNS = VARIANT_3 == 0 ? 8 : VARIANT_3;   // src/ops/conv.c
const uint LANES = 256;
const uint SUMS = ROWS * COLUMNS, AT_ONCE = SUMS < 16 ? SUMS : 16, FAN_IN = LANES / AT_ONCE;
shared VALUE partial[AT_ONCE * LANES];

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

// Sums AT_ONCE values over the invocations: FAN_IN parts of each, by as many invocations, then the parts. Invocation i
// below AT_ONCE gets sum number first + i.
VALUE across(const VALUE mine[SUMS], const uint first)
{
    uint lane = gl_LocalInvocationIndex, value = lane / FAN_IN, part = lane % FAN_IN;
    barrier();
    [[unroll]] for (uint i = 0; i < AT_ONCE; i++) partial[i * LANES + lane] = mine[first + i];
    barrier();
    VALUE sum = partial[value * LANES + part];
    [[unroll]] for (uint l = 1; l < AT_ONCE; l++) sum += partial[value * LANES + l * FAN_IN + part];
    barrier();
    partial[lane] = sum;
    barrier();
    sum = VALUE(0);
    if (lane < AT_ONCE) {
        [[unroll]] for (uint l = 0; l < FAN_IN; l++) sum += partial[lane * FAN_IN + l];
    }
    return sum;
}

void tile(const uint m0, const uint m_size, const uint t0, const uint t_size)
{
    VALUE sums[SUMS];
    uint taps = KERNEL_H * KERNEL_W;
    [[unroll]] for (uint i = 0; i < SUMS; i++) sums[i] = VALUE(0);
    uint64_t rows[ROWS];   // addresses in dy
    PLACE of_x[COLUMNS];
    int tap_y[COLUMNS], tap_x[COLUMNS], padding_h = PADDING_H, padding_w = PADDING_W;
    [[unroll]] for (uint i = 0; i < ROWS; i++)
        rows[i] = arg_address(1) + PLACE4(1, 0, group * (OUTPUTS / GROUPS) + min(m0 + i, m_size - 1), 0, 0);
    [[unroll]] for (uint j = 0; j < COLUMNS; j++) {
        uint t = min(t0 + j, t_size - 1);
        tap_y[j] = int(t % taps / KERNEL_W) * DILATION_H;
        tap_x[j] = int(t % KERNEL_W) * DILATION_W;
        of_x[j] = PLACE4(0, 0, group * (CHANNELS / GROUPS) + t / taps, tap_y[j], tap_x[j]);
    }
    place p = place_of(gl_LocalInvocationIndex), step = place_of(LANES);
    while (p.n < BATCH) {
        VALUE dy[ROWS];
        int y = p.y * STRIDE_H - padding_h, x = p.x * STRIDE_W - padding_w;   // what the first tap meets
        PLACE at_dy = PLACE4(1, p.n, 0, p.y, p.x), at_x = PLACE4(0, p.n, 0, y, x);
        [[unroll]] for (uint i = 0; i < ROWS; i++) dy[i] = LOAD_AT(1, rows[i], at_dy);
        [[unroll]] for (uint j = 0; j < COLUMNS; j++) {
            int iy = y + tap_y[j], ix = x + tap_x[j];
            bool inside = is_within(iy, ix, of.height, of.width);
            VALUE v = LOAD_INSIDE(0, inside, at_x + of_x[j]);
            [[unroll]] for (uint i = 0; i < ROWS; i++) sums[i * COLUMNS + j] += dy[i] * v;
        }
        advance(p, step);
    }
    [[unroll]] for (uint first = 0; first < SUMS; first += AT_ONCE) {
        VALUE sum = across(sums, first);
        uint at = first + gl_LocalInvocationIndex, m = m0 + at / COLUMNS, t = t0 + at % COLUMNS;
        if (gl_LocalInvocationIndex < AT_ONCE && m < m_size && t < t_size) {
            uint o = group * (OUTPUTS / GROUPS) + m;
            STORE(2, offset4(2, o, t / taps, int(t % taps / KERNEL_W), int(t % KERNEL_W)), sum);
        }
    }
}

void main()
{
    read_sizes(HEIGHT, WIDTH);
    for (uint z = gl_WorkGroupID.z; z < GROUPS; z += gl_NumWorkGroups.z) {
        group = z;
        uint m_size = OUTPUTS / GROUPS, t_size = CHANNELS / GROUPS * KERNEL_H * KERNEL_W;
        tile(gl_WorkGroupID.y * ROWS, m_size, gl_WorkGroupID.x * COLUMNS, t_size);
    }
}
