#version 460
// The result of attention_tiles.comp, of f16 by matrix units.
//
// A workgroup keeps ROWS queries and WIDTH columns, and walks along STEP keys at a time. Scores are sums of matrices
// and go through shared memory to the invocations of their row, which make weights of them, relative to the largest
// exponent of the row so far: where that grows, results so far are divided by 2 to the difference. Weights are rounded
// to f16, as they are where memory has them, and totals are sums of what they were rounded to.
#include "matrix_units.glsl"
#define N_OPERANDS 6
#define SLICE (WIDTH > 64 ? 32 : 64)   // where one of 64 is all, that of queries stays
#define OTHERS (ROWS * PITCH)
#define TURNED (WIDTH > 64 ? 0 : OTHERS)
#define TILE_END (WIDTH > 64 ? WIDTH * W_PITCH : OTHERS + WIDTH * W_PITCH)
#include "attention_halves.glsl"

shared uvec2 weights[ROWS * W_PITCH];   // before and after them, numbers of rows, by lanes
shared uvec4 scores[ROWS * S_PITCH];    // bits of f32; then how much to divide by, rows of one matrix; then results
shared uint grown;                      // whether any row's largest exponent has
SUMS acc[EACH];

void make_scores(const matrix q, const matrix k, const uint m0, const uint n0)
{
    SUMS sums[EACH_SCORE];
    [[unroll]] for (uint i = 0; i < EACH_SCORE; i++) sums[i] = SUMS(0.0);
    for (uint k0 = 0; k0 < DEPTH_QK; k0 += SLICE) {
        barrier();
        if (n0 == 0 || WIDTH > 64 || DEPTH_QK > SLICE) fill_rows(0, q, m0, QUERIES, k0, DEPTH_QK);
        fill_others(1, k, n0, KEYS, k0, DEPTH_QK);
        barrier();
        add_scores(sums);
    }
    [[unroll]] for (uint i = 0; i < EACH_SCORE; i++) {
        uint t = gl_SubgroupID * EACH_SCORE + i, m = t / (STEP / MATRIX) * MATRIX, n = t % (STEP / MATRIX) * MATRIX;
        coopMatStoreNV(sums[i], scores, m * S_PITCH + n / 4, S_PITCH, false);
    }
    if (gl_LocalInvocationIndex == 0) grown = 0;
    barrier();
}

// From scores to weights, for the lane's own part of its row.
void weigh(const matrix mask, const uint m0, const uint n0, inout float peak, inout float total)
{
    uint row = gl_LocalInvocationIndex / LANES, lane = gl_LocalInvocationIndex % LANES, m = m0 + row;
    float next = peak;
    vec4 x[OWN / 4];
    [[unroll]] for (uint i = 0; i < OWN / 4; i++) {
        x[i] = uintBitsToFloat(scores[row * S_PITCH + lane * (OWN / 4) + i]);
        [[unroll]] for (uint c = 0; c < 4; c++) {
            uint n = n0 + lane * OWN + i * 4 + c;
            x[i][c] = m < QUERIES && n < KEYS ? exponent(mask, m, n, x[i][c]) : LOWEST;
            next = max(next, x[i][c]);
        }
    }
    weights[gl_LocalInvocationIndex].x = floatBitsToUint(next);
    barrier();
    [[unroll]] for (uint i = 0; i < LANES; i++) next = max(next, uintBitsToFloat(weights[row * LANES + i].x));
    float base = next == LOWEST ? 0 : next, rest = exp2(base - peak);
    barrier();
    total *= exp2(peak - base);
    [[unroll]] for (uint i = 0; i < OWN / 4; i++) {
        uvec4 bits;
        [[unroll]] for (uint c = 0; c < 4; c++) {
            bits[c] = f16_encode(exp2(x[i][c] - base));
            total += f16_decode(bits[c]);
        }
        weights[row * W_PITCH + lane * (OWN / 4) + i] = uvec2(bits.x | bits.y << 16, bits.z | bits.w << 16);
    }
    for (uint c = lane; c < MATRIX / 4; c += LANES) scores[row * (MATRIX / 4) + c] = uvec4(floatBitsToUint(rest));
    if (rest != 1) grown = 1;
    peak = next;
}

void add_values()
{
    [[unroll]] for (uint i = 0; i < EACH; i++) {
        uint t = gl_SubgroupID * EACH + i, m = t / (WIDTH / MATRIX) * MATRIX, d = t % (WIDTH / MATRIX) * MATRIX;
        if (grown != 0) {
            SUMS rest;
            coopMatLoadNV(rest, scores, m * (MATRIX / 4), MATRIX / 4, false);
            acc[i] = acc[i] / rest;
        }
        [[unroll]] for (uint n = 0; n < STEP; n += MATRIX) {
            A_MATRIX w;
            B_MATRIX v;
            coopMatLoadNV(w, weights, m * W_PITCH + n / 4, W_PITCH, false);
            coopMatLoadNV(v, tile, TURNED + d * W_PITCH + n / 4, W_PITCH, true);
            acc[i] = coopMatMulAddNV(w, v, acc[i]);
        }
    }
}

float total_of(const uint row)
{
    float all = 0;
    [[unroll]] for (uint i = 0; i < LANES; i++) all += uintBitsToFloat(weights[row * LANES + i].x);
    return all;
}

// The results, a matrix of each subgroup at a time.
void store_results(const matrix y, const uint m0, const uint column)
{
    const uint at = gl_SubgroupID * MATRIX * MATRIX / 4;
    [[unroll]] for (uint i = 0; i < EACH; i++) {
        uint t = gl_SubgroupID * EACH + i, m = t / (WIDTH / MATRIX) * MATRIX, d = t % (WIDTH / MATRIX) * MATRIX;
        coopMatStoreNV(acc[i], scores, at, MATRIX / 4, false);
        subgroupBarrier();
        for (uint s = gl_SubgroupInvocationID; s < MATRIX * MATRIX / 4; s += SUBGROUP) {
            uint row = m + s / (MATRIX / 4);
            if (m0 + row >= QUERIES) continue;
            vec4 four = uintBitsToFloat(scores[at + s]) / total_of(row);
            store_four(4, y, m0 + row, column + d + s % (MATRIX / 4) * 4, DEPTH_V, four);
        }
        subgroupBarrier();
    }
}

void main()
{
    uint batch, m0, column;
    if (!locate(ROWS, QUERIES, DEPTH_V, batch, m0, column)) return;
    matrix q = matrix_of(0, batch), k = matrix_of(1, batch), v = matrix_of(2, batch), mask = matrix_of(3, batch);
    float peak = LOWEST, total = 0;
    [[unroll]] for (uint i = 0; i < EACH; i++) acc[i] = SUMS(0.0);
    uint end = min(KEYS, m0 + ROWS + uint(AHEAD));   // the last key that any query of the tile sees, and one more
    for (uint n0 = 0; n0 < end; n0 += STEP) {
        barrier();
        make_scores(q, k, m0, n0);
        weigh(mask, m0, n0, peak, total);
        fill_turned(2, v, n0, KEYS, column, DEPTH_V);
        barrier();
        add_values();
    }
    barrier();
    weights[gl_LocalInvocationIndex].x = floatBitsToUint(total);
    barrier();
    store_results(matrix_of(4, batch), m0, column);
    uint row = gl_LocalInvocationIndex / LANES;
    if (column == 0 && gl_LocalInvocationIndex % LANES == 0 && m0 + row < QUERIES) {
        matrix stats = matrix_of(5, batch);
        store_as_f32(OPERAND_5, find(5, stats, m0 + row, 0), 0l, peak);
        store_as_f32(OPERAND_5, find(5, stats, m0 + row, 1), 0l, total_of(row));
    }
}
