// A convolution as sums over the taps of each pixel: out[m, p] = sum over k of weight(m, k) * pixel value(p, k), where
// k runs over (outer, ky, kx) and `outer` is the channel that is summed over.
//
// An invocation computes ROWS results m of one pixel p. The weights of a workgroup's rows go through shared memory,
// CHUNK taps at a time; every invocation reads the same ones. (outer, ky, kx) is counted, not divided. Sums run along k
// in order: the same bits from run to run.
//
// The including file defines VALUE weight(m, outer, ky, kx), void locate_pixel(p), VALUE neighbour(outer, ky, kx) of
// the located pixel (zero outside), and void result(m, v).
const uint PIXELS = 64, ROWS = 8, CHUNK = 128;   // as the tile in src/ops/kernels.def
shared VALUE weights[CHUNK * ROWS];

struct tap {
    uint outer, ky, kx;
};

tap tap_of(const uint k)
{
    uint taps = KERNEL_H * KERNEL_W, at = k % taps;
    return tap(k / taps, at / KERNEL_W, at % KERNEL_W);
}

void fill_weights(const uint m0, const uint m_size, const uint k0, const uint k_count)
{
    for (uint i = gl_LocalInvocationIndex; i < k_count * ROWS; i += PIXELS) {
        uint m = m0 + i % ROWS;
        tap t = tap_of(k0 + i / ROWS);
        weights[i] = VALUE(0);
        if (m < m_size) weights[i] = weight(m, t.outer, t.ky, t.kx);
    }
}

void convolve(const uint m_size, const uint p_size, const uint outer_size)
{
    uint m0 = gl_WorkGroupID.y * ROWS, p = gl_WorkGroupID.x * PIXELS + gl_LocalInvocationIndex;
    uint k_size = outer_size * KERNEL_H * KERNEL_W;
    VALUE sums[ROWS];
    [[unroll]] for (uint j = 0; j < ROWS; j++) sums[j] = VALUE(0);
    if (p < p_size) locate_pixel(p);
    tap t = tap(0, 0, 0);
    for (uint k0 = 0; k0 < k_size; k0 += CHUNK) {
        uint k_count = min(CHUNK, k_size - k0);
        barrier();
        fill_weights(m0, m_size, k0, k_count);
        barrier();
        if (p >= p_size) continue;
        for (uint k = 0; k < k_count; k++) {
            VALUE x = neighbour(t.outer, t.ky, t.kx);
            [[unroll]] for (uint j = 0; j < ROWS; j++) sums[j] += weights[k * ROWS + j] * x;
            t.kx++;
            if (t.kx == KERNEL_W) {
                t.kx = 0;
                t.ky++;
            }
            if (t.ky == KERNEL_H) {
                t.ky = 0;
                t.outer++;
            }
        }
    }
    if (p >= p_size) return;
    [[unroll]] for (uint j = 0; j < ROWS; j++) {
        if (m0 + j < m_size) result(m0 + j, sums[j]);
    }
}
