#version 460
// The results of attention_grad_tiles.comp, of f16 by matrix units.
//
// A workgroup keeps ROWS rows of a side and WIDTH columns, and walks along STEP rows of the other side. The products of
// a square, x and t, are sums of matrices that go through shared memory to the invocations of their row, which make p
// and ds of them. Both go back as halves. Those of ds are times a power of 2, so that the largest of the square, or of
// one before, is between 2^14 and 2^15: gradients are small where weights are. Where it grows, results so far follow.
#include "matrix_units.glsl"
#define N_OPERANDS 9
#define SLICE 32
#define OTHERS (ROWS * PITCH)
#define TURNED 0   // when what scores are made of is done with
#define TILE_END (WIDTH * W_PITCH > OTHERS + STEP * PITCH ? WIDTH * W_PITCH : OTHERS + STEP * PITCH)
#include "attention_halves.glsl"

#define KEYED ASKED(BY_KEYS)
const uint Q_OP = 0, K_OP = 1, V_OP = 2, DY_OP = 6;
const uint FOURS_EACH = OWN / 4;            // of a square's row, fours of an invocation

shared uvec4 square[ROWS * S_PITCH];              // a product; then weights, as halves; last, results
shared float exponents[ROWS], deltas[ROWS]; // of queries: where p is 1, and delta
shared uint largest;                        // of ds in all squares so far, its bits
SUMS of_a[EACH], of_b[EACH];

struct side { matrix s; uint size; };   // rows

// Of a row of the square the invocation's own part: sum over k of a[r0 + r, k] * b[c0 + c, k].
void multiply(const uint a_op, const side a, const uint r0, const uint b_op, const side b, const uint c0,
              const uint depth, out vec4 x[FOURS_EACH])
{
    SUMS sums[EACH_SCORE];
    [[unroll]] for (uint i = 0; i < EACH_SCORE; i++) sums[i] = SUMS(0.0);
    for (uint k0 = 0; k0 < depth; k0 += SLICE) {
        barrier();
        fill_rows(a_op, a.s, r0, a.size, k0, depth);
        fill_others(b_op, b.s, c0, b.size, k0, depth);
        barrier();
        add_scores(sums);
    }
    [[unroll]] for (uint i = 0; i < EACH_SCORE; i++) {
        uint t = gl_SubgroupID * EACH_SCORE + i, m = t / (STEP / MATRIX) * MATRIX, n = t % (STEP / MATRIX) * MATRIX;
        coopMatStoreNV(sums[i], square, m * S_PITCH + n / 4, S_PITCH, false);
    }
    barrier();
    uint row = gl_LocalInvocationIndex / LANES, lane = gl_LocalInvocationIndex % LANES;
    [[unroll]] for (uint i = 0; i < OWN / 4; i++)
        x[i] = uintBitsToFloat(square[row * S_PITCH + lane * (OWN / 4) + i]);
}

// What is known of queries; of those past the end, weights are 0.
void fill_queries(const matrix stats, const matrix delta, const uint m0, const uint count)
{
    uint t = gl_LocalInvocationIndex, m = m0 + t;
    if (t >= count) return;
    float most = -LOWEST, of_delta = 0;
    if (m < QUERIES) {
        most = element(4, stats, m, 0);
        if (most == LOWEST) most = 0;
        most += log2(element(4, stats, m, 1));
        of_delta = element(5, delta, m, 0);
    }
    exponents[t] = most;
    deltas[t] = of_delta;
}

// x becomes p, t becomes ds.
void weigh(const matrix mask, const uint r0, const uint c0, inout vec4 x[FOURS_EACH], inout vec4 t[FOURS_EACH])
{
    uint row = gl_LocalInvocationIndex / LANES, first = gl_LocalInvocationIndex % LANES * OWN, r = r0 + row;
    float most = 0;
    [[unroll]] for (uint i = 0; i < OWN / 4; i++) {
        [[unroll]] for (uint j = 0; j < 4; j++) {
            uint column = first + i * 4 + j, c = c0 + column, m = KEYED ? c : r, n = KEYED ? r : c;
            uint query = KEYED ? column : row;
            float p = 0;
            if (m < QUERIES && n < KEYS) p = exp2(exponent(mask, m, n, x[i][j]) - exponents[query]);
            x[i][j] = p;
            t[i][j] = p * (t[i][j] - deltas[query]);
            float size = abs(t[i][j]);
            if (size <= 3e38) most = max(most, size);   // nor where it is no number
        }
    }
    if (ASKED(GIVES_A)) atomicMax(largest, floatBitsToUint(most));
}

// The power of 2 that ds is times.
float gain()
{
    return uintBitsToFloat(uint(clamp(254 + 14 - int(largest >> 23), 1, 127 + 60)) << 23);
}

// results[r, d] += sum over c of w[r, c] * b[c0 + c, first + d]
void add_product(const bool is_a, const vec4 w[FOURS_EACH], const uint op, const side b, const uint c0,
                 const uint first, const uint columns, inout float gained)
{
    uint row = gl_LocalInvocationIndex / LANES, lane = gl_LocalInvocationIndex % LANES;
    barrier();
    float by = 1, more = 1;
    if (is_a) {
        by = gain();
        more = by / gained;
        gained = by;
    }
    [[unroll]] for (uint i = 0; i < OWN / 8; i++) {
        uvec2 low = f16_pairs(w[2 * i] * by), high = f16_pairs(w[2 * i + 1] * by);
        square[row * (W_PITCH / 2) + lane * (OWN / 8) + i] = uvec4(low, high);
    }
    fill_turned(op, b.s, c0, b.size, first, columns);
    barrier();
    if (more != 1)
        [[unroll]] for (uint i = 0; i < EACH; i++) of_a[i] = of_a[i] * more;
    [[dont_unroll]] for (uint n = 0; n < STEP; n += MATRIX) {
        [[unroll]] for (uint i = 0; i < EACH; i++) {
            uint t = gl_SubgroupID * EACH + i, m = t / (WIDTH / MATRIX) * MATRIX, d = t % (WIDTH / MATRIX) * MATRIX;
            A_MATRIX left;
            B_MATRIX right;
            coopMatLoadNV(left, square, m * (W_PITCH / 2) + n / 8, W_PITCH / 2, false);
            coopMatLoadNV(right, tile, TURNED + d * W_PITCH + n / 4, W_PITCH, true);
            if (is_a) of_a[i] = coopMatMulAddNV(left, right, of_a[i]);
            else of_b[i] = coopMatMulAddNV(left, right, of_b[i]);
        }
    }
}

// A result, a matrix of each subgroup at a time.
void store(const bool is_a, const uint op, const matrix s, const uint r0, const uint rows, const uint first,
           const uint columns, const float scale)
{
    const uint at = gl_SubgroupID * MATRIX * MATRIX / 4;
    barrier();
    [[unroll]] for (uint i = 0; i < EACH; i++) {
        uint t = gl_SubgroupID * EACH + i, m = t / (WIDTH / MATRIX) * MATRIX, d = t % (WIDTH / MATRIX) * MATRIX;
        if (is_a) coopMatStoreNV(of_a[i], square, at, MATRIX / 4, false);
        else coopMatStoreNV(of_b[i], square, at, MATRIX / 4, false);
        subgroupBarrier();
        for (uint j = gl_SubgroupInvocationID; j < MATRIX * MATRIX / 4; j += SUBGROUP) {
            uint r = r0 + m + j / (MATRIX / 4);
            if (r >= rows) continue;
            store_four(op, s, r, first + d + j % (MATRIX / 4) * 4, columns, uintBitsToFloat(square[at + j]) * scale);
        }
        subgroupBarrier();
    }
}

void main()
{
    uint batch, r0, first;
    uint wide = !ASKED(GIVES_A) ? DEPTH_V : !ASKED(GIVES_B) ? DEPTH_QK : max(DEPTH_QK, DEPTH_V);
    if (!locate(ROWS, KEYED ? KEYS : QUERIES, wide, batch, r0, first)) return;
    side q = side(matrix_of(Q_OP, batch), QUERIES), k = side(matrix_of(K_OP, batch), KEYS);
    side v = side(matrix_of(V_OP, batch), KEYS), dy = side(matrix_of(DY_OP, batch), QUERIES);
    matrix mask = matrix_of(3, batch), stats = matrix_of(4, batch), delta = matrix_of(5, batch);
    [[unroll]] for (uint i = 0; i < EACH; i++) of_a[i] = of_b[i] = SUMS(0.0);
    if (gl_LocalInvocationIndex == 0) largest = 0;
    if (!KEYED) fill_queries(stats, delta, r0, ROWS);
    uint begin = 0, end = KEYED ? QUERIES : min(KEYS, r0 + ROWS + uint(AHEAD));
    if (KEYED) begin = uint(max(int(r0) - AHEAD, 0)) / STEP * STEP;
    float gained = 1, none = 1;
    for (uint c0 = begin; c0 < end; c0 += STEP) {
        vec4 x[FOURS_EACH], t[FOURS_EACH];
        if (KEYED) {
            fill_queries(stats, delta, c0, STEP);
            multiply(K_OP, k, r0, Q_OP, q, c0, DEPTH_QK, x);
            if (ASKED(GIVES_A)) multiply(V_OP, v, r0, DY_OP, dy, c0, DEPTH_V, t);
        } else {
            multiply(DY_OP, dy, r0, V_OP, v, c0, DEPTH_V, t);
            multiply(Q_OP, q, r0, K_OP, k, c0, DEPTH_QK, x);
        }
        weigh(mask, r0, c0, x, t);
        if (KEYED && ASKED(GIVES_B)) add_product(false, x, DY_OP, dy, c0, first, DEPTH_V, none);
        if (KEYED && ASKED(GIVES_A)) add_product(true, t, Q_OP, q, c0, first, DEPTH_QK, gained);
        if (!KEYED) add_product(true, t, K_OP, k, c0, first, DEPTH_QK, gained);
    }
    uint rows = KEYED ? KEYS : QUERIES;
    if (ASKED(GIVES_A)) store(true, 7, matrix_of(7, batch), r0, rows, first, DEPTH_QK, SCALE / gained);
    if (ASKED(GIVES_B)) store(false, 8, matrix_of(8, batch), r0, rows, first, DEPTH_V, 1);
}
