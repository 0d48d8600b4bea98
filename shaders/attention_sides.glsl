// What the kernels of attention share: sizes, and operands as matrices of their last two dimensions. See
// src/ops/attention_tiles.c for the launch.
//
// The including text defines N_OPERANDS.
#define N_SCALARS 6
#define USES_F32
#include "args.glsl"
layout(local_size_x_id = 0) in;

// Sizes of arrays, which a module has to have before it is specialised.
const uint WIDTH = VARIANT_0 == 0 ? 64 : VARIANT_0, N_LOCAL = VARIANT_2 == 0 ? 256 : VARIANT_2;
#define ASKED(what) ((VARIANT_1 & (what)) != 0)
const uint BY_KEYS = 1, GIVES_A = 2, GIVES_B = 4, MASKED = 8, NEAR = 16;
#define FOURS(op) ((VARIANT_3 >> (op) & 1) != 0)

#define QUERIES arg_scalar_word(0)
#define KEYS arg_scalar_word(2)
#define DEPTH_QK arg_scalar_word(4)
#define DEPTH_V arg_scalar_word(6)
#define SCALE arg_scalar_f32(4)
#define AHEAD arg_scalar_i32(5)   // query m sees keys up to m + AHEAD
const float LOG2_E = 1.4426950408889634;

struct matrix { uint64_t address; int row, column; };

uint operand_of(const uint op)
{
    const uint operands[10] = {OPERAND_0, OPERAND_1, OPERAND_2, OPERAND_3, OPERAND_4,
                               OPERAND_5, OPERAND_6, OPERAND_7, OPERAND_8, OPERAND_9};
    return operands[op];
}

matrix matrix_of(const uint op, uint batch)
{
    int64_t at = 0l;
    [[unroll]] for (uint left = RANK - 2; left > 0; left--) {
        uint d = left - 1, size = arg_size(d), q = d > 0 ? batch / size : 0, r = batch - q * size;
        at += wide_product(int(r), arg_stride(op, d));
        batch = q;
    }
    uint64_t address = arg_address(op);
    if ((operand_of(op) & IMMEDIATE) == 0) address = element_address(operand_of(op) & 255, address, at);
    return matrix(address, arg_stride(op, RANK - 2), FOURS(op) ? 1 : arg_stride(op, RANK - 1));
}

uint64_t find(const uint op, const matrix s, const uint row, const uint column)
{
    uint size_B = dtype_size_B(operand_of(op) & 255);
    if (ASKED(NEAR)) return s.address + uint64_t((row * uint(s.row) + column * uint(s.column)) * size_B);
    int64_t at = wide_product(int(row), s.row) + wide_product(int(column), s.column);
    return s.address + uint64_t(at * int64_t(size_B));
}

#define element(op, s, row, column) load_as_f32(operand_of(op), find(op, s, row, column), 0l)
#define element4(op, s, row, column) load4_as_f32(operand_of(op), find(op, s, row, column), 0l)

// Four neighbours in a row, zeros outside.
vec4 four_of(const uint op, const matrix s, const uint row, const uint rows, const uint column, const uint columns)
{
    vec4 v = vec4(0);
    if (row >= rows) return v;
    if (FOURS(op) && column + 4 <= columns) return element4(op, s, row, column);
    const uint most = COMPACT ? min(4, columns) : 4;
    [[unroll]] for (uint j = 0; j < most; j++) if (column + j < columns) v[j] = element(op, s, row, column + j);
    return v;
}

void store_four(const uint op, const matrix s, const uint row, const uint column, const uint columns, const vec4 v)
{
    if (FOURS(op) && column + 4 <= columns) {
        store4_as_f32(operand_of(op), find(op, s, row, column), 0l, v);
        return;
    }
    const uint most = COMPACT ? min(4, columns) : 4;
    [[unroll]] for (uint j = 0; j < most; j++)
        if (column + j < columns) store_as_f32(operand_of(op), find(op, s, row, column + j), 0l, v[j]);
}

// The exponent, to base 2, of the weight of query m and key n, of their product.
float exponent(const matrix mask, const uint m, const uint n, const float product)
{
    float x = product * (SCALE * LOG2_E);
    if (int(n) > int(m) + AHEAD) return uintBitsToFloat(0xff800000u);
    if (!ASKED(MASKED)) return x;
    float of_mask = element(3, mask, m, n);
    if ((operand_of(3) & 255) == DTYPE_BOOL) return of_mask != 0 ? x : uintBitsToFloat(0xff800000u);
    return x + of_mask * LOG2_E;
}

// Which part of the work is this workgroup's: a batch, `tile` rows, WIDTH columns. False past the end.
bool locate(const uint tile, const uint rows, const uint columns, out uint batch, out uint row, out uint column)
{
    uint parts = (columns + WIDTH - 1) / WIDTH, tiles = (rows + tile - 1) / tile, batches = 1;
    [[unroll]] for (uint d = 0; d + 2 < RANK; d++) batches *= arg_size(d);
    uint at = group_index();
    column = at % parts * WIDTH;
    row = at / parts % tiles * tile;
    batch = at / parts / tiles;
    return batch < batches;
}
