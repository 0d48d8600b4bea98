// A convolution as sums over the taps of each pixel: out[m, p] = sum over k of weight(m, k) * pixel value(p, k), where
// k runs over (outer, ky, kx) and `outer` is the channel that is summed over.
//
// Pixels of all images form one line. An invocation computes ROWS results m of EACH pixels p. The weights of a
// workgroup's rows go through shared memory, CHUNK taps at a time; every invocation reads the same ones. The place
// (outer, ky, kx) is counted, not divided. Sums run along k in order: the same bits from run to run.
//
// The including file defines VALUE weight(m, outer, ky, kx), void locate_pixel(i, p), PLACE place_of_tap(outer, ky,
// kx), a sum of multiples of the three, or of nothing, of type PLACE, VALUE neighbour(i, outer, ky, kx, place of the
// tap) of the ith located pixel (zero outside), void result(i, p, m, v), KERNEL_H, KERNEL_W, and RESULTS: [[unroll]]
// where result is short, [[dont_unroll]] where it is long, and ROWS, a multiple of 4. With SKIPS, what lies outside is
// no zero that is multiplied, but left out: neighbour says in bool meets[EACH] which of the pixels meet it. That tells
// for weights that are infinite or no number; chunks without such ones are added up as without SKIPS.
const uint EACH = 4, INVOCATIONS = 64, PIXELS = EACH * INVOCATIONS;   // PIXELS: the tile in kernels.def
const uint CHUNK = 128;
shared VALUE weights[CHUNK * ROWS];
#ifdef SKIPS
shared uint odd_chunk;   // one more than the chunk in which a weight was last seen that is not finite
#endif

struct tap {
    uint outer, ky, kx;
    PLACE at;
};
PLACE to_next, to_row, to_outer;   // what place_of_tap grows by: along kx, and from the end of kx and of ky

tap tap_of(const uint k)
{
    uint taps = KERNEL_H * KERNEL_W, at = k % taps;
    return tap(k / taps, at / KERNEL_W, at % KERNEL_W, PLACE(0));
}

void fill_weights(const uint m0, const uint m_size, const uint k0, const uint k_count)
{
    for (uint i = gl_LocalInvocationIndex; i < k_count * ROWS; i += INVOCATIONS) {
        uint m = m0 + i % ROWS;
        tap t = tap_of(k0 + i / ROWS);
        weights[i] = VALUE(0);
        if (m < m_size) weights[i] = weight(m, t.outer, t.ky, t.kx);
#ifdef SKIPS
        if (isinf(weights[i]) || isnan(weights[i])) odd_chunk = k0 / CHUNK + 1;
#endif
    }
}

void begin_taps(out tap t)
{
    t = tap(0, 0, 0, place_of_tap(0, 0, 0));
    to_next = place_of_tap(0, 0, 1) - t.at;
    to_row = place_of_tap(0, 1, 0) - place_of_tap(0, 0, KERNEL_W);
    to_outer = place_of_tap(1, 0, 0) - place_of_tap(0, KERNEL_H, 0);
}

void next_tap(inout tap t)
{
    t.kx++;
    t.at += to_next;
    if (t.kx == KERNEL_W) {
        t.kx = 0;
        t.ky++;
        t.at += to_row;
    }
    if (t.ky == KERNEL_H) {
        t.ky = 0;
        t.outer++;
        t.at += to_outer;
    }
}

#ifdef SKIPS
void add_what_meets(const uint k_count, inout tap t, inout VALUE sums[EACH][ROWS])
{
    for (uint k = 0; k < k_count; k++, next_tap(t))
        [[unroll]] for (uint i = 0; i < EACH; i++) {
            VALUE x = neighbour(i, t.outer, t.ky, t.kx, t.at);
            if (meets[i]) [[unroll]] for (uint j = 0; j < ROWS; j++) sums[i][j] += weights[k * ROWS + j] * x;
        }
}
#endif

// The tile that begins with row m0 and pixel first.
void convolve(const uint m0, const uint first, const uint m_size, const uint p_size, const uint outer_size)
{
    uint p0 = first + gl_LocalInvocationIndex;
    uint k_size = outer_size * KERNEL_H * KERNEL_W;
    VALUE sums[EACH][ROWS];
    [[unroll]] for (uint i = 0; i < EACH; i++) {
        // Past the end the last pixel is computed once more, and not stored.
        locate_pixel(i, min(p0 + i * INVOCATIONS, p_size - 1));
        [[unroll]] for (uint j = 0; j < ROWS; j++) sums[i][j] = VALUE(0);
    }
    tap t;
    begin_taps(t);
#ifdef SKIPS
    barrier();
    odd_chunk = 0;
#endif
    for (uint k0 = 0; k0 < k_size; k0 += CHUNK) {
        uint k_count = min(CHUNK, k_size - k0);
        barrier();
        fill_weights(m0, m_size, k0, k_count);
        barrier();
#ifdef SKIPS
        if (odd_chunk == k0 / CHUNK + 1) {
            add_what_meets(k_count, t, sums);
            continue;
        }
#endif
        for (uint k = 0; k < k_count; k++, next_tap(t)) {
            VALUE x[EACH];
            [[unroll]] for (uint i = 0; i < EACH; i++) x[i] = neighbour(i, t.outer, t.ky, t.kx, t.at);
            [[unroll]] for (uint j = 0; j < ROWS; j++) {
                VALUE w = weights[k * ROWS + j];
                [[unroll]] for (uint i = 0; i < EACH; i++) sums[i][j] += w * x[i];
            }
        }
    }
    const uint pixels = COMPACT ? min(EACH, p_size) : EACH, rows = COMPACT ? min(ROWS, m_size) : ROWS;
    RESULTS for (uint i = 0; i < pixels; i++) {
        uint p = p0 + i * INVOCATIONS;
        if (p >= p_size) continue;
        // Chosen by constant numbers, so that sums stay in registers when the loop is not unrolled.
        VALUE of_pixel[ROWS];
        [[unroll]] for (uint s = 0; s < EACH; s++)
            [[unroll]] for (uint j = 0; j < ROWS; j++) if (s == i) of_pixel[j] = sums[s][j];
        RESULTS for (uint j = 0; j < rows; j++) {
            VALUE v = of_pixel[0];
            [[unroll]] for (uint s = 1; s < ROWS; s++) if (s == j) v = of_pixel[s];
            if (m0 + j < m_size) result(i, p, m0 + j, v);
        }
    }
}
