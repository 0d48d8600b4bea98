// The tile of a matrix product whose operands are computed, not stored: c[m, n] = sum over k of a(m, k) * b(k, n).
//
// A workgroup of 16 x 16 invocations computes a square of 64 x 64. It walks along k in steps of 16: each step's
// slices of both operands go through shared memory, where each element is read by 16 invocations; an invocation keeps
// 4 x 4 sums in registers. Sums run along k in order: the same bits from run to run.
//
// The including file defines VALUE, and functions VALUE operand_a(uint m, uint k), VALUE operand_b(uint k, uint n)
// (zero outside), and void result(uint m, uint n, VALUE v), called inside the matrix only.
const uint TILE = 64, DEPTH = 16, SIDE = 16, SHARE = 4, PITCH = TILE + 1;
shared VALUE a_tile[DEPTH * PITCH], b_tile[DEPTH * PITCH];

void fill(const uint m0, const uint n0, const uint k0, const uint m_size, const uint n_size, const uint k_size)
{
    [[unroll]] for (uint i = 0; i < SHARE; i++) {
        uint t = gl_LocalInvocationIndex + i * SIDE * SIDE, row = t % TILE, k = t / TILE;
        bool deep = k0 + k < k_size;
        a_tile[k * PITCH + row] = deep && m0 + row < m_size ? operand_a(m0 + row, k0 + k) : VALUE(0);
        b_tile[k * PITCH + row] = deep && n0 + row < n_size ? operand_b(k0 + k, n0 + row) : VALUE(0);
    }
}

void product(const uint m0, const uint n0, const uint m_size, const uint n_size, const uint k_size)
{
    VALUE sums[SHARE][SHARE];
    uint tx = gl_LocalInvocationIndex % SIDE, ty = gl_LocalInvocationIndex / SIDE;
    [[unroll]] for (uint i = 0; i < SHARE; i++) [[unroll]] for (uint j = 0; j < SHARE; j++) sums[i][j] = VALUE(0);
    for (uint k0 = 0; k0 < k_size; k0 += DEPTH) {
        barrier();
        fill(m0, n0, k0, m_size, n_size, k_size);
        barrier();
        for (uint k = 0; k < DEPTH; k++) {
            VALUE x[SHARE], y[SHARE];
            [[unroll]] for (uint i = 0; i < SHARE; i++) {
                x[i] = a_tile[k * PITCH + ty + i * SIDE];
                y[i] = b_tile[k * PITCH + tx + i * SIDE];
            }
            [[unroll]] for (uint i = 0; i < SHARE; i++) {
                [[unroll]] for (uint j = 0; j < SHARE; j++) sums[i][j] += x[i] * y[j];
            }
        }
    }
    [[unroll]] for (uint i = 0; i < SHARE; i++) {
        [[unroll]] for (uint j = 0; j < SHARE; j++) {
            uint m = m0 + ty + i * SIDE, n = n0 + tx + j * SIDE;
            if (m < m_size && n < n_size) result(m, n, sums[i][j]);
        }
    }
}
