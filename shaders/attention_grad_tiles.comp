#version 460
// Gradients of attention, of whose weights p = exp2(exponent - stats) no more than a square is ever there. With
// t = dy v^T and ds = p * (t - delta):
//     by queries   dq[l, d] = scale * sum over s of ds[l, s] * k[s, d]
//     by keys      dk[s, d] = scale * sum over l of ds[l, s] * q[l, d],  dv[s, e] = sum over l of p[l, s] * dy[l, e]
//
// Both are one thing with the sides changed over: a workgroup of SIDE x SIDE keeps TILE rows of a result, and walks
// along the other side in steps of TILE. Of each square it makes the products, x = a1 b1^T and t = a2 b2^T, slice by
// slice through shared memory; then the weights, which go through shared memory too; and adds their products with rows
// of b1 and b2 to the results: an invocation has 4 x 4 of the square, and of the results the same rows and every
// SIDE-th group of four columns. Squares that causal attention does not see are left out. Sums run in order: the same
// bits from run to run.
#define N_OPERANDS 9
#include "attention_sides.glsl"

// Both results have twice the sums. A compiler that sees little shared memory spares registers too.
#define BOTH ((VARIANT_1 & (GIVES_A | GIVES_B)) == (GIVES_A | GIVES_B))
const uint TILE = N_LOCAL == 64 ? 32 : 64, DEPTH = 16, UNITS = TILE / 4, SIDE = UNITS, PITCH = UNITS + 1;
const uint V_UNITS = WIDTH / 4, V_PITCH = V_UNITS + 1, BLOCKS = V_UNITS / SIDE;
const uint V_DEPTH = N_LOCAL == 64 ? 16 : BOTH ? 8 : 16;
const uint FETCH = DEPTH * UNITS / N_LOCAL, RUN = N_LOCAL == 64 ? 1 : 8;   // RUN: steps without a loop
const uint V_RUN = RUN == 8 && WIDTH == 128 ? V_DEPTH : RUN;
const uint SLICES = 2 * DEPTH * PITCH, V_SLICES = TILE * PITCH, ROOM = V_SLICES + V_DEPTH * V_PITCH;

// Slices of both sides of a product; then weights, [column][row / 4], and behind them a slice of one.
shared vec4 room[SLICES > ROOM ? SLICES : ROOM];
shared vec4 exponents[UNITS], deltas[UNITS]; // of queries: where p is 1, and delta

// The sides: operands that rows and columns of squares come from.
#define KEYED ASKED(BY_KEYS)
const uint Q_OP = 0, K_OP = 1, V_OP = 2, DY_OP = 6;

struct side { matrix s; uint size; };   // rows

void fill(const uint first, const uint op, const side s, const uint r0, const uint k0, const uint k_size)
{
    [[unroll]] for (uint i = 0; i < FETCH; i++) {
        uint t = gl_LocalInvocationIndex + i * N_LOCAL, row = t / (DEPTH / 4), k = t % (DEPTH / 4) * 4;
        vec4 four = four_of(op, s.s, r0 + row, s.size, k0 + k, k_size);
        [[unroll]] for (uint j = 0; j < 4; j++) room[(first + k + j) * PITCH + row / 4][row % 4] = four[j];
    }
}

// x[r, c] = sum over k of a[r0 + r, k] * b[c0 + c, k]
void multiply(const uint a_op, const side a, const uint r0, const uint b_op, const side b, const uint c0,
              const uint k_size, const uint tx, const uint ty, out vec4 x[4])
{
    [[unroll]] for (uint i = 0; i < 4; i++) x[i] = vec4(0);
    for (uint k0 = 0; k0 < k_size; k0 += DEPTH) {
        barrier();
        fill(0, a_op, a, r0, k0, k_size);
        fill(DEPTH, b_op, b, c0, k0, k_size);
        barrier();
        for (uint s0 = 0; s0 < DEPTH; s0 += RUN) {
            uint left_at = s0 * PITCH + ty, right_at = (DEPTH + s0) * PITCH + tx;
            [[unroll]] for (uint s = 0; s < RUN; s++) {
                vec4 left = room[left_at + s * PITCH], right = room[right_at + s * PITCH];
                [[unroll]] for (uint i = 0; i < 4; i++) x[i] += left[i] * right;
            }
        }
    }
}

// sums[r, d] += sum over c of x[r, c] * b[c0 + c, first + d]
void add_product(const vec4 x[4], const uint op, const side b, const uint c0, const uint first,
                 const uint columns, const uint tx, const uint ty, inout vec4 sums[4][BLOCKS])
{
    barrier();
    [[unroll]] for (uint c = 0; c < 4; c++)
        room[(4 * tx + c) * PITCH + ty] = vec4(x[0][c], x[1][c], x[2][c], x[3][c]);
    for (uint c1 = 0; c1 < TILE && c0 + c1 < b.size; c1 += V_DEPTH) {
        barrier();
        for (uint t = gl_LocalInvocationIndex; t < V_DEPTH * V_UNITS; t += N_LOCAL)
            room[V_SLICES + t / V_UNITS * V_PITCH + t % V_UNITS] =
                four_of(op, b.s, c0 + c1 + t / V_UNITS, b.size, first + t % V_UNITS * 4, columns);
        barrier();
        for (uint s0 = 0; s0 < V_DEPTH; s0 += V_RUN) {
            uint w_at = (c1 + s0) * PITCH + ty, b_at = V_SLICES + s0 * V_PITCH + tx;
            [[unroll]] for (uint s = 0; s < V_RUN; s++) {
                vec4 w = room[w_at + s * PITCH];
                [[unroll]] for (uint j = 0; j < BLOCKS; j++) {
                    vec4 four = room[b_at + s * V_PITCH + j * SIDE];
                    [[unroll]] for (uint i = 0; i < 4; i++) sums[i][j] += w[i] * four;
                }
            }
        }
    }
}

// What is known of TILE queries; of those past the end, weights are 0.
void fill_queries(const matrix stats, const matrix delta, const uint m0)
{
    barrier();
    uint t = gl_LocalInvocationIndex, m = m0 + t;
    if (t >= TILE) return;
    float most = -uintBitsToFloat(0xff800000u), of_delta = 0;
    if (m < QUERIES) {
        most = element(4, stats, m, 0);
        if (most == uintBitsToFloat(0xff800000u)) most = 0;
        most += log2(element(4, stats, m, 1));
        of_delta = element(5, delta, m, 0);
    }
    exponents[t / 4][t % 4] = most;
    deltas[t / 4][t % 4] = of_delta;
}

// x becomes p, t becomes ds.
void weigh(const matrix mask, const uint r0, const uint c0, const uint tx, const uint ty, inout vec4 x[4],
           inout vec4 t[4])
{
    [[unroll]] for (uint i = 0; i < 4; i++) {
        [[unroll]] for (uint j = 0; j < 4; j++) {
            uint r = r0 + 4 * ty + i, c = c0 + 4 * tx + j, m = KEYED ? c : r, n = KEYED ? r : c;
            float most = KEYED ? exponents[tx][j] : exponents[ty][i], delta = KEYED ? deltas[tx][j] : deltas[ty][i];
            float p = 0;
            if (m < QUERIES && n < KEYS) p = exp2(exponent(mask, m, n, x[i][j]) - most);
            x[i][j] = p;
            t[i][j] = p * (t[i][j] - delta);
        }
    }
}

void store(const uint op, const matrix s, const uint r0, const uint rows, const uint first, const uint columns,
           const float scale, const uint tx, const uint ty, const vec4 sums[4][BLOCKS])
{
    [[unroll]] for (uint i = 0; i < 4; i++) {
        uint r = r0 + 4 * ty + i;
        if (r >= rows) continue;
        [[unroll]] for (uint j = 0; j < BLOCKS; j++)
            store_four(op, s, r, first + 4 * (tx + j * SIDE), columns, sums[i][j] * scale);
    }
}

void main()
{
    uint tx = gl_LocalInvocationIndex % SIDE, ty = gl_LocalInvocationIndex / SIDE, batch, r0, first;
    uint columns = !ASKED(GIVES_A) ? DEPTH_V : !ASKED(GIVES_B) ? DEPTH_QK : max(DEPTH_QK, DEPTH_V);
    if (!locate(TILE, KEYED ? KEYS : QUERIES, columns, batch, r0, first)) return;
    side q = side(matrix_of(Q_OP, batch), QUERIES), k = side(matrix_of(K_OP, batch), KEYS);
    side v = side(matrix_of(V_OP, batch), KEYS), dy = side(matrix_of(DY_OP, batch), QUERIES);
    matrix mask = matrix_of(3, batch), stats = matrix_of(4, batch), delta = matrix_of(5, batch);
    vec4 sums_a[4][BLOCKS], sums_b[4][BLOCKS];
    [[unroll]] for (uint i = 0; i < 4; i++)
        [[unroll]] for (uint j = 0; j < BLOCKS; j++) sums_a[i][j] = sums_b[i][j] = vec4(0);
    uint begin = 0, end = KEYED ? QUERIES : KEYS;
    if (KEYED) begin = uint(max(int(r0) - AHEAD, 0)) / TILE * TILE;
    else end = min(KEYS, r0 + TILE + uint(AHEAD));
    if (!KEYED) fill_queries(stats, delta, r0);
    for (uint c0 = begin; c0 < end; c0 += TILE) {
        vec4 x[4], t[4];
        if (KEYED) fill_queries(stats, delta, c0);
        if (KEYED) {
            multiply(K_OP, k, r0, Q_OP, q, c0, DEPTH_QK, tx, ty, x);
            if (ASKED(GIVES_A)) multiply(V_OP, v, r0, DY_OP, dy, c0, DEPTH_V, tx, ty, t);
        } else {
            multiply(Q_OP, q, r0, K_OP, k, c0, DEPTH_QK, tx, ty, x);
            multiply(DY_OP, dy, r0, V_OP, v, c0, DEPTH_V, tx, ty, t);
        }
        weigh(mask, r0, c0, tx, ty, x, t);
        if (KEYED && ASKED(GIVES_B)) add_product(x, DY_OP, dy, c0, first, DEPTH_V, tx, ty, sums_b);
        if (KEYED && ASKED(GIVES_A)) add_product(t, Q_OP, q, c0, first, DEPTH_QK, tx, ty, sums_a);
        if (!KEYED) add_product(t, K_OP, k, c0, first, DEPTH_QK, tx, ty, sums_a);
    }
    uint rows = KEYED ? KEYS : QUERIES;
    if (ASKED(GIVES_A)) store(7, matrix_of(7, batch), r0, rows, first, DEPTH_QK, SCALE, tx, ty, sums_a);
    if (ASKED(GIVES_B)) store(8, matrix_of(8, batch), r0, rows, first, DEPTH_V, 1, tx, ty, sums_b);
}
