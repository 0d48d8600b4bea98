// out[batch, m, n] = sum over k of a[batch, m, k] * b[batch, k, n].
//
// The space is batch dimensions, then M, N, K; operand 0 is a (stride 0 along N), 1 is b (stride 0 along M), 2 is out
// (stride 0 along K). Any strides: a transposed operand or a broadcast batch is only another stride. The grid is
// ceil(N / TILE), ceil(M / TILE), and batches, of which a workgroup takes each gl_NumWorkGroups.z-th. VARIANT_0 says
// how the operands lie, four bits each: see src/vulkan/operands.c; or that the product is SMALL. MATRICES: a and b are
// f16, or with MATRICES_BF16 bf16, and are multiplied by matrix units.
#ifdef MATRICES
#include "matrix_units.glsl"
#endif
#define N_OPERANDS 3
#define N_SCALARS 0
#if defined(KILN_CLASS_F32)
#define USES_F32
#define QUAD vec4
#define LOAD(op, address) load_as_f32(OPERAND_##op, address, 0l)
#define LOAD4(op, address) load4_as_f32(OPERAND_##op, address, 0l)
#define STORE(op, address, x) store_as_f32(OPERAND_##op, address, 0l, x)
#define STORE4(op, address, x) store4_as_f32(OPERAND_##op, address, 0l, x)
#elif defined(KILN_CLASS_F64)
#define USES_F64
#define QUAD dvec4
#define LOAD(op, address) load_as_f64(OPERAND_##op, address, 0l)
#define LOAD4(op, address) load4_as_f64(OPERAND_##op, address, 0l)
#define STORE(op, address, x) store_as_f64(OPERAND_##op, address, 0l, x)
#define STORE4(op, address, x) store4_as_f64(OPERAND_##op, address, 0l, x)
#elif defined(KILN_CLASS_I32)
#define USES_I32
#define QUAD ivec4
#define LOAD(op, address) load_as_i32(OPERAND_##op, address, 0l)
#define LOAD4(op, address) load4_as_i32(OPERAND_##op, address, 0l)
#define STORE(op, address, x) store_as_i32(OPERAND_##op, address, 0l, x)
#define STORE4(op, address, x) store4_as_i32(OPERAND_##op, address, 0l, x)
#else
#define USES_I64
#define QUAD i64vec4
#define LOAD(op, address) load_as_i64(OPERAND_##op, address, 0l)
#define LOAD4(op, address) load4_as_i64(OPERAND_##op, address, 0l)
#define STORE(op, address, x) store_as_i64(OPERAND_##op, address, 0l, x)
#define STORE4(op, address, x) store4_as_i64(OPERAND_##op, address, 0l, x)
#endif
#include "args.glsl"

layout(local_size_x_id = 0) in;
const uint TILE = VARIANT_2;   // 128, 64 or 32
#ifdef MATRICES
#define MATRIX VARIANT_1
const uint SUBGROUP = VARIANT_3 >> 1;
#else
const uint RUN = VARIANT_1;
#endif

// Of operand op: fours are neighbours along K, or N of out, and not along M, or N of b; they are dense; they are one
// aligned access; offsets are below 2 GiB and not negative.
#define LIES(op, what) ((VARIANT_0 >> (4 * op) & what) != 0)
const uint ALONG = 1, DENSE = 2, FOUR = 4, NEAR = 8;

struct slice { uint64_t address; int along, across; };   // across: strides over M or N; along: over K, or over N of out
#define a_side slice
#define b_side slice
#define c_side slice

// The address of element (m, k); strides of 1 are constants.
uint64_t find(const uint op, const uint operand, const slice s, const uint m, const uint k)
{
    if ((operand & IMMEDIATE) != 0) return s.address;
    int across = LIES(op, DENSE) && !LIES(op, ALONG) ? 1 : s.across;
    int along = LIES(op, DENSE) && LIES(op, ALONG) ? 1 : s.along;
    uint size_B = dtype_size_B(operand & 255);
    if (LIES(op, NEAR)) return s.address + uint64_t((m * uint(across) + k * uint(along)) * size_B);
    int64_t at = wide_product(int(m), across) + wide_product(int(k), along);
    return s.address + uint64_t(at * int64_t(size_B));
}
#define FIND(op, s, m, k) find(op, OPERAND_##op, s, m, k)

#define A_ALONG LIES(0, ALONG)
#define B_ALONG LIES(1, ALONG)
#define a_value(s, m, k) LOAD(0, FIND(0, s, m, k))
#define b_value(s, n, k) LOAD(1, FIND(1, s, n, k))
#define store_result(s, m, n, v) STORE(2, FIND(2, s, m, n), v)

QUAD four_of(const uint op, const slice s, const uint m, const uint k)
{
    uint dm = LIES(op, ALONG) ? 0 : 1, dk = 1 - dm;
    QUAD v;
    [[unroll]] for (uint j = 0; j < 4; j++)
        v[j] = op == 0 ? a_value(s, m + j * dm, k + j * dk) : b_value(s, m + j * dm, k + j * dk);
    return v;
}
QUAD a_four(const slice s, const uint m, const uint k)
{
    if (LIES(0, FOUR)) return LOAD4(0, FIND(0, s, m, k));
    return four_of(0, s, m, k);
}
QUAD b_four(const slice s, const uint n, const uint k)
{
    if (LIES(1, FOUR)) return LOAD4(1, FIND(1, s, n, k));
    return four_of(1, s, n, k);
}
void store_four(const slice s, const uint m, const uint n, const QUAD v)
{
    if (LIES(2, FOUR)) STORE4(2, FIND(2, s, m, n), v);
    else [[unroll]] for (uint t = 0; t < 4; t++) store_result(s, m, n + t, v[t]);
}
#define A_FOUR(s, m, k) a_four(s, m, k)
#define B_FOUR(s, n, k) b_four(s, n, k)
#define STORE_FOUR(s, m, n, v) store_four(s, m, n, v)
#ifdef MATRICES
layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer Halves { uvec2 v; };
#define A_FETCH(s, m, k) (LIES(0, FOUR) ? Halves(FIND(0, s, m, k)).v : fetched(a_four(s, m, k)))
#define B_FETCH(s, n, k) (LIES(1, FOUR) ? Halves(FIND(1, s, n, k)).v : fetched(b_four(s, n, k)))
#endif
#define EVEN ((VARIANT_3 & 1) != 0)
#define SMALL ((VARIANT_0 & 1 << 12) != 0)
#define RESULTS [[unroll]]
#include "product.glsl"

// Where one batch lies in the three operands.
void locate_batch(uint batch, out uint64_t at[3])
{
    int64_t elements[3];
    [[unroll]] for (uint i = 0; i < 3; i++) elements[i] = 0l;
    [[unroll]] for (uint left = RANK - 3; left > 0; left--) {
        uint d = left - 1, size = arg_size(d), q = d > 0 ? batch / size : 0, r = batch - q * size;
        [[unroll]] for (uint i = 0; i < 3; i++) elements[i] += wide_product(int(r), arg_stride(i, d));
        batch = q;
    }
    uint operands[3] = {OPERAND_0, OPERAND_1, OPERAND_2};
    [[unroll]] for (uint i = 0; i < 3; i++) {
        at[i] = arg_address(i);
        if ((operands[i] & IMMEDIATE) == 0) at[i] = element_address(operands[i] & 255, at[i], elements[i]);
    }
}

void main()
{
    product p = product(arg_size(RANK - 3), arg_size(RANK - 2), arg_size(RANK - 1));
    uint batches = 1;
    [[unroll]] for (uint d = 0; d + 3 < RANK; d++) batches *= arg_size(d);
    for (uint batch = gl_WorkGroupID.z; batch < batches; batch += gl_NumWorkGroups.z) {
        uint64_t at[3];
        locate_batch(batch, at);
        slice a = slice(at[0], arg_stride(0, RANK - 1), arg_stride(0, RANK - 3));
        slice b = slice(at[1], arg_stride(1, RANK - 1), arg_stride(1, RANK - 2));
        slice c = slice(at[2], arg_stride(2, RANK - 2), arg_stride(2, RANK - 3));
        multiply(a, b, c, p, gl_WorkGroupID.y * TILE, gl_WorkGroupID.x * TILE);
    }
}
