// What the kernels of attention by matrix units share: squares of ROWS and STEP scores, whose operands go through
// shared memory as halves. VARIANT_1 tells from bit 8 on the side of matrices, from bit 16 on the
// invocations of a subgroup.
#include "attention_sides.glsl"

const uint TOLD_SIDE = VARIANT_1 >> 8 & 255, TOLD_SUBGROUP = VARIANT_1 >> 16;
const uint MATRIX = TOLD_SIDE == 0 ? 16 : TOLD_SIDE, SUBGROUP = TOLD_SUBGROUP == 0 ? 32 : TOLD_SUBGROUP;
const uint ROWS = 64, STEP = 32, LANES = N_LOCAL / ROWS, OWN = STEP / LANES;
// The including text defines SLICE too, how far along scores are summed in one go.
const uint PITCH = SLICE / 4 + 2, W_PITCH = STEP / 4 + 2, S_PITCH = STEP / 4 + 1;   // in fours
const uint SUBGROUPS = N_LOCAL / SUBGROUP, EACH_SCORE = ROWS * STEP / (MATRIX * MATRIX * SUBGROUPS);
const uint EACH = ROWS * WIDTH / (MATRIX * MATRIX * SUBGROUPS), MATRIX_B = MATRIX + 0u;
#define A_MATRIX fcoopmatNV<16, gl_ScopeSubgroup, MATRIX, MATRIX>
#define B_MATRIX fcoopmatNV<16, gl_ScopeSubgroup, MATRIX, MATRIX_B>
#define SUMS fcoopmatNV<32, gl_ScopeSubgroup, MATRIX, MATRIX>
#define LOWEST uintBitsToFloat(0xff800000u)

// Slices of ROWS rows and of STEP others; or all others by columns, so that matrices lie along them. The including text
// says from where on in `tile` those of others are, by OTHERS and TURNED, and where it ends.
shared uvec2 tile[TILE_END];

layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer Halves { uvec2 v; };

uvec2 halves_of(const uint op, const matrix s, const uint row, const uint rows, const uint column, const uint columns)
{
    if (row >= rows) return uvec2(0);
    if (FOURS(op) && column + 4 <= columns) return Halves(find(op, s, row, column)).v;
    vec4 v = vec4(0);
    [[unroll]] for (uint j = 0; j < 4; j++) if (column + j < columns) v[j] = element(op, s, row, column + j);
    return f16_pairs(v);
}

void fill_rows(const uint op, const matrix s, const uint r0, const uint rows, const uint k0, const uint depth)
{
    for (uint t = gl_LocalInvocationIndex; t < ROWS * SLICE / 4; t += N_LOCAL) {
        uint row = t / (SLICE / 4), k = t % (SLICE / 4);
        tile[row * PITCH + k] = halves_of(op, s, r0 + row, rows, k0 + k * 4, depth);
    }
}

void fill_others(const uint op, const matrix s, const uint c0, const uint rows, const uint k0, const uint depth)
{
    for (uint t = gl_LocalInvocationIndex; t < STEP * SLICE / 4; t += N_LOCAL) {
        uint row = t / (SLICE / 4), k = t % (SLICE / 4);
        tile[OTHERS + row * PITCH + k] = halves_of(op, s, c0 + row, rows, k0 + k * 4, depth);
    }
}

// By columns; 4 x 4 a turn.
void fill_turned(const uint op, const matrix s, const uint c0, const uint rows, const uint first, const uint columns)
{
    for (uint t = gl_LocalInvocationIndex; t < STEP / 4 * WIDTH / 4; t += N_LOCAL) {
        uint row = t % (STEP / 4), d = t / (STEP / 4) * 4;
        uvec2 four[4];
        bool whole = FOURS(op) && c0 + row * 4 + 4 <= rows && first + d + 4 <= columns;
        if (whole) {
            [[unroll]] for (uint i = 0; i < 4; i++) four[i] = Halves(find(op, s, c0 + row * 4 + i, first + d)).v;
        } else {
            four[0] = four[1] = four[2] = four[3] = uvec2(0);
            [[dont_unroll]] for (uint i = 0; i < 4; i++) {
                uvec2 one = halves_of(op, s, c0 + row * 4 + i, rows, first + d, columns);
                [[unroll]] for (uint j = 0; j < 4; j++) if (i == j) four[j] = one;
            }
        }
        [[unroll]] for (uint w = 0; w < 2; w++) {
            tile[TURNED + (d + 2 * w) * W_PITCH + row] =
                uvec2(four[0][w] & 0xffffu | four[1][w] << 16, four[2][w] & 0xffffu | four[3][w] << 16);
            tile[TURNED + (d + 2 * w + 1) * W_PITCH + row] =
                uvec2(four[0][w] >> 16 | four[1][w] & 0xffff0000u, four[2][w] >> 16 | four[3][w] & 0xffff0000u);
        }
    }
}

// Of the square's scores, those of a subgroup: sum over k of rows' and others' slices.
void add_scores(inout SUMS sums[EACH_SCORE])
{
    [[dont_unroll]] for (uint d = 0; d < SLICE; d += MATRIX) {
        [[unroll]] for (uint i = 0; i < EACH_SCORE; i++) {
            uint t = gl_SubgroupID * EACH_SCORE + i, m = t / (STEP / MATRIX) * MATRIX, n = t % (STEP / MATRIX) * MATRIX;
            A_MATRIX x;
            B_MATRIX y;
            coopMatLoadNV(x, tile, m * PITCH + d / 4, PITCH, false);
            coopMatLoadNV(y, tile, OTHERS + n * PITCH + d / 4, PITCH, true);
            sums[i] = coopMatMulAddNV(x, y, sums[i]);
        }
    }
}
