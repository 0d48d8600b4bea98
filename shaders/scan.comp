#version 460
// Running sums (VARIANT_0: 0) and products (1) along the last dimension; see src/ops/scan.c. Operands: x, out, carry;
// scalars: elements of a chunk, and chunks of a row.
//
//   ROWS     a workgroup a row
//   TOTALS   a workgroup a chunk: out[row][chunk] = its total
//   CHUNKS   a workgroup a chunk, from carry[row][chunk - 1] on
//   LANES    an invocation a row
//
// A workgroup goes along its elements in tiles of one element an invocation, each of which is scanned in shared memory.
#define N_OPERANDS 3
#define N_SCALARS 2
#if defined(KILN_CLASS_F32)
#define USES_F32
#define ELEMENT float
#define LOAD(op, at) load_f32(op, at)
#define STORE(at, v) store_f32(1, at, v)
#elif defined(KILN_CLASS_F64)
#define USES_F64
#define ELEMENT double
#define LOAD(op, at) load_f64(op, at)
#define STORE(at, v) store_f64(1, at, v)
#else
#define USES_I64
#define ELEMENT int64_t
#define LOAD(op, at) load_i64(op, at)
#define STORE(at, v) store_i64(1, at, v)
#endif
#include "args.glsl"
layout(local_size_x = 256) in;
#include "space.glsl"

const uint SIZE = 256;
const uint ROWS = 0, TOTALS = 1, CHUNKS = 2, LANES = 3;
const bool PRODUCT = VARIANT_0 == 1;
const uint PHASE = VARIANT_1;

shared ELEMENT tile[2 * SIZE];

ELEMENT join(ELEMENT a, ELEMENT b)
{
    precise ELEMENT r = PRODUCT ? a * b : a + b;
    return r;
}

// Elements [first, end) of a row at offsets at[], from `carry` on; returns the total.
ELEMENT scan_elements(int64_t at[N_OPERANDS], uint first, uint end, ELEMENT carry)
{
    uint t = gl_LocalInvocationIndex;
    ELEMENT none = PRODUCT ? ELEMENT(1) : ELEMENT(0);
    int64_t x_step = int64_t(arg_stride(0, RANK - 1)), out_step = int64_t(arg_stride(1, RANK - 1));
    for (uint base = first; base < end; base += SIZE) {
        uint k = base + t, from = 0;
        tile[t] = k < end ? LOAD(0, at[0] + int64_t(k) * x_step) : none;
        barrier();
        for (uint reach = 1; reach < SIZE; reach *= 2) {
            ELEMENT v = tile[from + t];
            if (t >= reach) v = join(tile[from + t - reach], v);
            from = SIZE - from;
            tile[from + t] = v;
            barrier();
        }
        if (PHASE != TOTALS && k < end) STORE(at[1] + int64_t(k) * out_step, join(carry, tile[from + t]));
        carry = join(carry, tile[from + SIZE - 1]);
        barrier();
    }
    return carry;
}

void scan_lane(int64_t at[N_OPERANDS])
{
    ELEMENT sum = PRODUCT ? ELEMENT(1) : ELEMENT(0);
    for (uint k = 0; k < arg_size(RANK - 1); k++) {
        sum = join(sum, LOAD(0, at[0]));
        STORE(at[1], sum);
        at[0] += int64_t(arg_stride(0, RANK - 1));
        at[1] += int64_t(arg_stride(1, RANK - 1));
    }
}

void main()
{
    uint rows = space_size(0, RANK - 1), length = arg_size(RANK - 1), chunks = uint(arg_scalar_i64(1));
    int64_t at[N_OPERANDS];
    ELEMENT none = PRODUCT ? ELEMENT(1) : ELEMENT(0);
    if (PHASE == LANES) {
        uint row = point_number();
        if (row >= rows) return;
        locate(row, RANK - 1, at);
        scan_lane(at);
        return;
    }
    uint row = group_index();
    if (PHASE == ROWS) {
        if (row >= rows) return;
        locate(row, RANK - 1, at);
        scan_elements(at, 0, length, none);
        return;
    }
    uint piece = uint(arg_scalar_i64(0)), chunk = row % chunks;
    row /= chunks;
    if (row >= rows) return;
    locate(row, RANK - 1, at);
    uint first = chunk * piece, end = min(first + piece, length);
    int64_t total = int64_t(row) * int64_t(chunks) + int64_t(chunk);
    if (PHASE == TOTALS) {
        ELEMENT sum = scan_elements(at, first, end, none);
        if (gl_LocalInvocationIndex == 0) STORE(total, sum);
    } else {
        scan_elements(at, first, end, chunk > 0 ? LOAD(2, total - 1l) : none);
    }
}
