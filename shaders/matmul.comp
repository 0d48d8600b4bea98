#version 460
// out[batch, m, n] = sum over k of a[batch, m, k] * b[batch, k, n].
//
// The space is batch dimensions, then M, N, K; operand 0 is a (stride 0 along N), 1 is b (stride 0 along M), 2 is out
// (stride 0 along K). Any strides: a transposed operand or a broadcast batch is only another stride. The grid is
// ceil(N / TILE), ceil(M / TILE), and batches, of which a workgroup takes each gl_NumWorkGroups.z-th.
//
// A workgroup computes a TILE x TILE square. It walks along K in steps of DEPTH: both operands' slices go through
// shared memory, where each element is read by many invocations, while the next slices are already on the way from
// memory to registers. An invocation keeps Q x Q blocks of 4 x 4 results in registers; blocks lie TILE / Q apart, so
// that neighbours read neighbouring words. Sums run along K in order: the same bits from run to run.
#define N_OPERANDS 3
#define N_SCALARS 0
#if defined(KILN_CLASS_F32)
#define USES_F32
#define QUAD vec4
#define LOAD(op, at) load_f32(op, at)
#define STORE(op, at, x) store_f32(op, at, x)
#elif defined(KILN_CLASS_F64)
#define USES_F64
#define QUAD dvec4
#define LOAD(op, at) load_f64(op, at)
#define STORE(op, at, x) store_f64(op, at, x)
#elif defined(KILN_CLASS_I32)
#define USES_I32
#define QUAD ivec4
#define LOAD(op, at) load_i32(op, at)
#define STORE(op, at, x) store_i32(op, at, x)
#else
#define USES_I64
#define QUAD i64vec4
#define LOAD(op, at) load_i64(op, at)
#define STORE(op, at, x) store_i64(op, at, x)
#endif
#include "args.glsl"

layout(local_size_x_id = 0) in;
const uint TILE = VARIANT_2;                  // 128, 64 or 32
const uint Q = TILE == 128 ? 2 : 1;
const uint SIDE = TILE / (4 * Q);             // SIDE * SIDE invocations
const uint DEPTH = 16;
const uint UNITS = TILE / 4;                  // groups of four along M or N
const uint PITCH = UNITS + 1;                 // a row of shared memory; one more, so that columns spread over the banks
const uint FETCH = DEPTH * UNITS / (SIDE * SIDE);

shared QUAD a_tile[DEPTH * PITCH], b_tile[DEPTH * PITCH];

struct slice { int64_t base; int along, across; uint width, depth; };   // across: strides over M or N; along: over K

// Which group of four and which k the i-th fetch of this invocation is: neighbours follow the operand's short stride.
uvec2 place(const uint i, const bool k_first)
{
    uint t = gl_LocalInvocationIndex + i * SIDE * SIDE;
    return k_first ? uvec2(t / DEPTH, t % DEPTH) : uvec2(t % UNITS, t / UNITS);
}

int64_t element(const slice s, const uint m, const uint k)
{
    return s.base + int64_t(int(m)) * int64_t(s.across) + int64_t(int(k)) * int64_t(s.along);
}

QUAD fetch_a(slice s, uint m, uint k)
{
    QUAD v = QUAD(0);
    if (k >= s.depth) return v;
    [[unroll]] for (uint j = 0; j < 4; j++) if (m + j < s.width) v[j] = LOAD(0, element(s, m + j, k));
    return v;
}
QUAD fetch_b(slice s, uint n, uint k)
{
    QUAD v = QUAD(0);
    if (k >= s.depth) return v;
    [[unroll]] for (uint j = 0; j < 4; j++) if (n + j < s.width) v[j] = LOAD(1, element(s, n + j, k));
    return v;
}

// Offsets of one batch in the three operands.
void locate_batch(uint batch, out int64_t at[3])
{
    [[unroll]] for (uint i = 0; i < 3; i++) at[i] = 0l;
    [[unroll]] for (uint left = RANK - 3; left > 0; left--) {
        uint d = left - 1, size = arg_size(d), q = d > 0 ? batch / size : 0, r = batch - q * size;
        [[unroll]] for (uint i = 0; i < 3; i++) at[i] += int64_t(int(r)) * int64_t(arg_stride(i, d));
        batch = q;
    }
}

void multiply(const slice a, const slice b, const int64_t out_base, const uint m0, const uint n0)
{
    QUAD sums[4 * Q][Q], next_a[FETCH], next_b[FETCH];
    [[unroll]] for (uint i = 0; i < 4 * Q; i++) [[unroll]] for (uint j = 0; j < Q; j++) sums[i][j] = QUAD(0);
    bool a_k_first = abs(a.along) <= abs(a.across), b_k_first = abs(b.along) <= abs(b.across);
    uint tx = gl_LocalInvocationIndex % SIDE, ty = gl_LocalInvocationIndex / SIDE;

    for (uint k0 = 0; k0 < a.depth + DEPTH; k0 += DEPTH) {
        // Registers hold the slices of the step before; they go to shared memory once all have read what is there.
        if (k0 > 0) {
            barrier();
            [[unroll]] for (uint i = 0; i < FETCH; i++) {
                uvec2 pa = place(i, a_k_first), pb = place(i, b_k_first);
                a_tile[pa.y * PITCH + pa.x] = next_a[i];
                b_tile[pb.y * PITCH + pb.x] = next_b[i];
            }
            barrier();
        }
        if (k0 < a.depth) {
            [[unroll]] for (uint i = 0; i < FETCH; i++) {
                uvec2 pa = place(i, a_k_first), pb = place(i, b_k_first);
                next_a[i] = fetch_a(a, m0 + 4 * pa.x, k0 + pa.y);
                next_b[i] = fetch_b(b, n0 + 4 * pb.x, k0 + pb.y);
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

    int out_m = arg_stride(2, RANK - 3), out_n = arg_stride(2, RANK - 2);
    [[unroll]] for (uint i = 0; i < 4 * Q; i++) {
        uint m = m0 + 4 * (ty + i / 4 * SIDE) + i % 4;
        if (m >= a.width) continue;
        [[unroll]] for (uint j = 0; j < Q; j++) {
            [[unroll]] for (uint c = 0; c < 4; c++) {
                uint n = n0 + 4 * (tx + j * SIDE) + c;
                int64_t at = out_base + int64_t(int(m)) * int64_t(out_m) + int64_t(int(n)) * int64_t(out_n);
                if (n < b.width) STORE(2, at, sums[i][j][c]);
            }
        }
    }
}

void main()
{
    uint m_size = arg_size(RANK - 3), n_size = arg_size(RANK - 2), k_size = arg_size(RANK - 1), batches = 1;
    [[unroll]] for (uint d = 0; d + 3 < RANK; d++) batches *= arg_size(d);
    for (uint batch = gl_WorkGroupID.z; batch < batches; batch += gl_NumWorkGroups.z) {
        int64_t at[3];
        locate_batch(batch, at);
        slice a = slice(at[0], arg_stride(0, RANK - 1), arg_stride(0, RANK - 3), m_size, k_size);
        slice b = slice(at[1], arg_stride(1, RANK - 1), arg_stride(1, RANK - 2), n_size, k_size);
        multiply(a, b, at[2], gl_WorkGroupID.y * TILE, gl_WorkGroupID.x * TILE);
    }
}
