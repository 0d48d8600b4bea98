// result(m, n) = sum over k of a(m, k) * b(n, k), for one square tile of m and n: the body of the matrix product and of
// fused kernels around a sum of products.
//
// The including text defines QUAD (four values), TILE (128, 64 or 32), the structs a_side, b_side and c_side with
// whatever it needs to find an element, and
//     a_value(a, m, k), b_value(b, n, k)    an element, inside the sizes
//     store_result(c, m, n, v)              what becomes of a sum
//     RESULTS                               [[unroll]] where store_result is short, [[dont_unroll]] where it is long
//
// A workgroup computes a TILE x TILE square. It walks along K in steps of DEPTH: both operands' slices go through
// shared memory, where each element is read by many invocations, while the next slices are already on the way from
// memory to registers. An invocation keeps Q x Q blocks of 4 x 4 results in registers; blocks lie TILE / Q apart, so
// that neighbours read neighbouring words. Sums run along K in order: the same bits from run to run.
const uint Q = TILE == 128 ? 2 : 1;
const uint SIDE = TILE / (4 * Q);             // SIDE * SIDE invocations
const uint DEPTH = 16;
const uint UNITS = TILE / 4;                  // groups of four along M or N
const uint PITCH = UNITS + 1;                 // a row of shared memory; one more, so that columns spread over the banks
const uint FETCH = DEPTH * UNITS / (SIDE * SIDE);

shared QUAD a_tile[DEPTH * PITCH], b_tile[DEPTH * PITCH];

// How many m, n and k there are, and which way each operand is dense.
struct product { uint m_size, n_size, k_size; bool a_k_first, b_k_first; };

// Which group of four and which k the i-th fetch of this invocation is: neighbours follow the operand's short stride.
uvec2 place(const uint i, const bool k_first)
{
    uint t = gl_LocalInvocationIndex + i * SIDE * SIDE;
    return k_first ? uvec2(t / DEPTH, t % DEPTH) : uvec2(t % UNITS, t / UNITS);
}

QUAD fetch_a(const a_side s, const product p, uint m, uint k)
{
    QUAD v = QUAD(0);
    if (k >= p.k_size) return v;
    [[unroll]] for (uint j = 0; j < 4; j++) if (m + j < p.m_size) v[j] = a_value(s, m + j, k);
    return v;
}
QUAD fetch_b(const b_side s, const product p, uint n, uint k)
{
    QUAD v = QUAD(0);
    if (k >= p.k_size) return v;
    [[unroll]] for (uint j = 0; j < 4; j++) if (n + j < p.n_size) v[j] = b_value(s, n + j, k);
    return v;
}

void multiply(const a_side a, const b_side b, const c_side c, const product p, const uint m0, const uint n0)
{
    QUAD sums[4 * Q][Q], next_a[FETCH], next_b[FETCH];
    [[unroll]] for (uint i = 0; i < 4 * Q; i++) [[unroll]] for (uint j = 0; j < Q; j++) sums[i][j] = QUAD(0);
    uint tx = gl_LocalInvocationIndex % SIDE, ty = gl_LocalInvocationIndex / SIDE;

    for (uint k0 = 0; k0 < p.k_size + DEPTH; k0 += DEPTH) {
        // Registers hold the slices of the step before; they go to shared memory once all have read what is there.
        if (k0 > 0) {
            barrier();
            [[unroll]] for (uint i = 0; i < FETCH; i++) {
                uvec2 pa = place(i, p.a_k_first), pb = place(i, p.b_k_first);
                a_tile[pa.y * PITCH + pa.x] = next_a[i];
                b_tile[pb.y * PITCH + pb.x] = next_b[i];
            }
            barrier();
        }
        if (k0 < p.k_size) {
            [[unroll]] for (uint i = 0; i < FETCH; i++) {
                uvec2 pa = place(i, p.a_k_first), pb = place(i, p.b_k_first);
                next_a[i] = fetch_a(a, p, m0 + 4 * pa.x, k0 + pa.y);
                next_b[i] = fetch_b(b, p, n0 + 4 * pb.x, k0 + pb.y);
            }
        }
        if (k0 == 0) continue;
        for (uint k = 0; k < DEPTH; k++) {
            QUAD x[Q], y[Q];
            [[unroll]] for (uint q = 0; q < Q; q++) {
                x[q] = a_tile[k * PITCH + ty + q * SIDE];
                y[q] = b_tile[k * PITCH + tx + q * SIDE];
            }
            [[unroll]] for (uint i = 0; i < 4 * Q; i++) {
                [[unroll]] for (uint j = 0; j < Q; j++) sums[i][j] += x[i / 4][i % 4] * y[j];
            }
        }
    }

    RESULTS for (uint i = 0; i < 4 * Q; i++) {
        uint m = m0 + 4 * (ty + i / 4 * SIDE) + i % 4;
        if (m >= p.m_size) continue;
        // Chosen by constant numbers, so that sums stay in registers when the loop is none that is unrolled.
        QUAD row[Q];
        [[unroll]] for (uint s = 0; s < 4 * Q; s++)
            [[unroll]] for (uint j = 0; j < Q; j++) if (s == i) row[j] = sums[s][j];
        RESULTS for (uint t = 0; t < 4 * Q; t++) {
            uint n = n0 + 4 * (tx + t / 4 * SIDE) + t % 4;
            QUAD four = row[0];
            [[unroll]] for (uint j = 1; j < Q; j++) if (t / 4 == j) four = row[j];
            if (n < p.n_size) store_result(c, m, n, four[t % 4]);
        }
    }
}
