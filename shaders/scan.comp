#version 460
// Running sums (VARIANT_0: 0), products (1), maxima (2), minima (3) along the last dimension; see src/ops/scan.c.
// Operands: x, out, carry; scalars: elements of a chunk, and chunks of a row.
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
#define LEAST uintBitsToFloat(0xff800000u)
#define MOST uintBitsToFloat(0x7f800000u)
#define IS_NAN(x) ((floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u)
#elif defined(KILN_CLASS_F64)
#define USES_F64
#define ELEMENT double
#define LOAD(op, at) load_f64(op, at)
#define STORE(at, v) store_f64(1, at, v)
#define LEAST uint64BitsToDouble(0xfff0000000000000ul)
#define MOST uint64BitsToDouble(0x7ff0000000000000ul)
#define IS_NAN(x) ((doubleBitsToUint64(x) & 0x7ffffffffffffffful) > 0x7ff0000000000000ul)
#else
#define USES_I64
#define ELEMENT int64_t
#define LOAD(op, at) load_i64(op, at)
#define STORE(at, v) store_i64(1, at, v)
#define LEAST int64_t(0x8000000000000000ul)
#define MOST 0x7fffffffffffffffl
#define IS_NAN(x) false
#endif
#include "args.glsl"
layout(local_size_x = 256) in;
#include "space.glsl"

const uint SIZE = 256;
const uint ROWS = 0, TOTALS = 1, CHUNKS = 2, LANES = 3;
const uint SUM = 0, PRODUCT = 1, MAXIMUM = 2;
const uint PHASE = VARIANT_1;

shared ELEMENT tile[2 * SIZE];

ELEMENT join(ELEMENT a, ELEMENT b)
{
    precise ELEMENT r;
    if (VARIANT_0 == SUM) r = a + b;
    else if (VARIANT_0 == PRODUCT) r = a * b;
    else r = IS_NAN(a) || (VARIANT_0 == MAXIMUM ? a >= b : a <= b) ? a : b;
    return r;
}

// The value that changes nothing.
ELEMENT none()
{
    if (VARIANT_0 == SUM) return ELEMENT(0);
    if (VARIANT_0 == PRODUCT) return ELEMENT(1);
    return VARIANT_0 == MAXIMUM ? LEAST : MOST;
}

// Elements [first, end) of a row at offsets at[], from `carry` on; returns the total.
ELEMENT scan_elements(int64_t at[N_OPERANDS], uint first, uint end, ELEMENT carry)
{
    uint t = gl_LocalInvocationIndex;
    int64_t x_step = int64_t(arg_stride(0, RANK - 1)), out_step = int64_t(arg_stride(1, RANK - 1));
    for (uint base = first; base < end; base += SIZE) {
        uint k = base + t, from = 0;
        tile[t] = k < end ? LOAD(0, at[0] + int64_t(k) * x_step) : none();
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
    ELEMENT sum = none();
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
        scan_elements(at, 0, length, none());
        return;
    }
    uint piece = uint(arg_scalar_i64(0)), chunk = row % chunks;
    row /= chunks;
    if (row >= rows) return;
    locate(row, RANK - 1, at);
    uint first = chunk * piece, end = min(first + piece, length);
    int64_t total = int64_t(row) * int64_t(chunks) + int64_t(chunk);
    if (PHASE == TOTALS) {
        ELEMENT sum = scan_elements(at, first, end, none());
        if (gl_LocalInvocationIndex == 0) STORE(total, sum);
    } else {
        scan_elements(at, first, end, chunk > 0 ? LOAD(2, total - 1l) : none());
    }
}
