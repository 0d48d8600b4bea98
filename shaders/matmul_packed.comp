#version 460
// out[m, n] = sum over k of x[m, k] w[n, k], where w is packed in blocks. Space: m, n. Operands: x, bytes, out;
// scalars: K, and bytes from one row of w to the next; VARIANT_0: the format.
//
// A workgroup does a row of w with TILE rows of x: an element of w is made once for these. Invocations take every 64th
// element, and their sums are added in a fixed order.
#define N_OPERANDS 3
#define N_SCALARS 2
#define USES_F32
#ifdef KILN_CLASS_F64
#define USES_F64
#define SUM double
#define LOAD(at) load_f64(0, at)
#define STORE(at, v) store_f64(2, at, v)
#else
#define SUM float
#define LOAD(at) load_f32(0, at)
#define STORE(at, v) store_f32(2, at, v)
#endif
#include "args.glsl"
layout(local_size_x = 64) in;
#include "blocks.glsl"

const uint LANES = 64, TILE = 4;
shared SUM partial[TILE][LANES];

void main()
{
    uint m = arg_size(0), n = arg_size(1), k = uint(arg_scalar_i64(0));
    uint group = group_index(), column = group % n, first = group / n * TILE, t = gl_LocalInvocationIndex;
    if (first >= m) return;
    uint64_t row = arg_address(1) + uint64_t(int64_t(column) * arg_scalar_i64(1));
    SUM sums[TILE] = SUM[TILE](SUM(0), SUM(0), SUM(0), SUM(0));
    for (uint i = t; i < k; i += LANES) {
        SUM w = SUM(element_of(row, i));
        [[unroll]] for (uint r = 0; r < TILE; r++) {
            if (first + r < m) sums[r] += w * LOAD(int64_t(first + r) * int64_t(k) + int64_t(i));
        }
    }
    [[unroll]] for (uint r = 0; r < TILE; r++) partial[r][t] = sums[r];
    barrier();
    for (uint reach = LANES / 2; reach > 0; reach /= 2) {
        if (t < reach) {
            [[unroll]] for (uint r = 0; r < TILE; r++) partial[r][t] += partial[r][t + reach];
        }
        barrier();
    }
    if (t < TILE && first + t < m) STORE(int64_t(first + t) * int64_t(n) + int64_t(column), partial[t][0]);
}
