#version 460
// out[batch, m, n] = sum over k of a[batch, m, k] * b[batch, k, n].
//
// The space is batch dimensions, then M, N, K; operand 0 is a (stride 0 along N), 1 is b (stride 0 along M), 2 is out
// (stride 0 along K). Any strides: a transposed operand or a broadcast batch is only another stride. The grid is
// ceil(N / TILE), ceil(M / TILE), and batches, of which a workgroup takes each gl_NumWorkGroups.z-th.
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

struct slice { int64_t base; int along, across; };   // across: strides over M or N; along: over K, or over N of out
#define a_side slice
#define b_side slice
#define c_side slice

int64_t element(const slice s, const uint m, const uint k)
{
    return s.base + int64_t(int(m)) * int64_t(s.across) + int64_t(int(k)) * int64_t(s.along);
}
#define a_value(s, m, k) LOAD(0, element(s, m, k))
#define b_value(s, n, k) LOAD(1, element(s, n, k))
#define store_result(s, m, n, v) STORE(2, element(s, m, n), v)
#define RESULTS [[unroll]]
#include "product.glsl"

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

void main()
{
    uint m_size = arg_size(RANK - 3), n_size = arg_size(RANK - 2), k_size = arg_size(RANK - 1), batches = 1;
    [[unroll]] for (uint d = 0; d + 3 < RANK; d++) batches *= arg_size(d);
    for (uint batch = gl_WorkGroupID.z; batch < batches; batch += gl_NumWorkGroups.z) {
        int64_t at[3];
        locate_batch(batch, at);
        slice a = slice(at[0], arg_stride(0, RANK - 1), arg_stride(0, RANK - 3));
        slice b = slice(at[1], arg_stride(1, RANK - 1), arg_stride(1, RANK - 2));
        slice c = slice(at[2], arg_stride(2, RANK - 2), arg_stride(2, RANK - 3));
        product p = product(m_size, n_size, k_size, abs(a.along) <= abs(a.across), abs(b.along) <= abs(b.across));
        multiply(a, b, c, p, gl_WorkGroupID.y * TILE, gl_WorkGroupID.x * TILE);
    }
}
