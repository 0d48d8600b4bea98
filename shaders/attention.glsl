// out[m, d] = sum over n of softmax over n (x(m, n)) * v(n, d), for one tile of rows m: the body of attention.
//
// The including text defines WIDTH (d, rounded up to a multiple of 64), the structs q_side ... c_side with whatever it
// needs to find an element, and
//     q_value(q, m, k), k_value(k, n, k), v_value(v, n, d)    an element, inside the sizes
//     x_value(x, m, n, score)                                 what the softmax is taken of
//     e_value(x, peak)                                        exp(x - peak)
//     store_result(c, m, d, v)                                what becomes of a result
//     N_END(a, m0)                where n ends for the tile; the size of n where it is not said
//     STORE_STATS(c, m, peak, total), STORE_FOUR(c, m, d, d_size, four)    instead of store_result, four at a time
//     Q_ALONG, K_ALONG            whether neighbours along k are nearer in memory than those along m or n
//     TILE                        32, of 64 invocations, or 64; where it is not said, 64
// and, where four neighbours along that way, of v along d, are one access,
//     Q_FOUR(q, m, k), K_FOUR(k, n, k), V_FOUR(v, n, d)       four elements, inside the sizes
//     Q_FOURS, K_FOURS, V_FOURS                               whether they may be had so
//
// A workgroup of SIDE x SIDE invocations keeps TILE rows and all of d; it walks along n in steps of TILE. An invocation
// has Q x Q blocks of 4 x 4 scores, and of the result the same rows and every SIDE-th group of four columns. Sums are
// relative to the largest x of the row so far: when that grows, sums and results so far are scaled. Invariant after
// each step: acc = sum of exp(x - peak) * v and total = sum of exp(x - peak) over all n so far. A row that has only
// seen -infinity is relative to 0, so that nothing becomes NaN; its total stays 0, and 0 / 0 is what a softmax of
// nothing else gives.
#ifndef TILE
#define TILE 64
#endif
const uint SIDE = N_LOCAL == 64 ? 8 : 16, UNITS = TILE / 4, PITCH = UNITS + 1, PARTS = N_LOCAL / TILE;
const uint Q = UNITS / SIDE, ROWS = 4 * Q, DEPTH = 16;
const uint V_UNITS = WIDTH / 4, V_PITCH = V_UNITS + 1, V_DEPTH = WIDTH > 128 ? 8 : 16, BLOCKS = V_UNITS / SIDE;
const uint FETCH = DEPTH * UNITS / N_LOCAL, RUN = N_LOCAL == 64 ? 1 : 8;   // RUN: steps of n without a loop
const uint V_RUN = RUN == 8 && WIDTH == 128 ? V_DEPTH : RUN;
const uint SLICES = 2 * DEPTH * PITCH > V_DEPTH * V_PITCH ? 2 * DEPTH * PITCH : V_DEPTH * V_PITCH;
#define LOWEST uintBitsToFloat(0xff800000u)

shared vec4 slices[SLICES];        // of q and k, then of v
shared vec4 weights[TILE * PITCH]; // [n][m / 4]: x, then exp(x - peak)
shared float partial[N_LOCAL];     // of rows, by parts of n

#ifndef N_END
#define N_END(a, m0) a.n_size
#endif
#ifndef V_INSIDE
#define V_INSIDE(a, d) (WIDTH <= (a).d_size)
#endif

struct attention { uint m_size, n_size, k_size, d_size; };

// Where four that an invocation fetches begin, relative to the tile: (m or n, k). Fours that are one access lie along
// the short stride; else neighbouring invocations follow it.
uvec2 place(const uint t, const bool along, const bool four)
{
    if (along && four) return uvec2(t / (DEPTH / 4), t % (DEPTH / 4) * 4);
    return along ? uvec2(t / DEPTH * 4, t % DEPTH) : uvec2(t % UNITS * 4, t / UNITS);
}

// A four goes into rows `first` of shared memory, one a k: as it is, or an element to each.
void share(const uint first, const uvec2 at, const bool along, const vec4 four)
{
    if (along) {
        [[unroll]] for (uint j = 0; j < 4; j++) slices[(first + at.y + j) * PITCH + at.x / 4][at.x % 4] = four[j];
    } else {
        slices[(first + at.y) * PITCH + at.x / 4] = four;
    }
}

void fill_q(const q_side q, const attention a, const uint m0, const uint k0)
{
    [[unroll]] for (uint i = 0; i < FETCH; i++) {
        vec4 four = vec4(0);
#ifdef Q_FOUR
        if (Q_FOURS && m0 + TILE <= a.m_size && k0 + DEPTH <= a.k_size) {
            uvec2 at = place(gl_LocalInvocationIndex + i * N_LOCAL, Q_ALONG, true);
            share(0, at, Q_ALONG, Q_FOUR(q, m0 + at.x, k0 + at.y));
            continue;
        }
#endif
        uvec2 at = place(gl_LocalInvocationIndex + i * N_LOCAL, Q_ALONG, false);
        [[unroll]] for (uint j = 0; j < 4; j++)
            if (m0 + at.x + j < a.m_size && k0 + at.y < a.k_size) four[j] = q_value(q, m0 + at.x + j, k0 + at.y);
        share(0, at, false, four);
    }
}

void fill_k(const k_side s, const attention a, const uint n0, const uint k0)
{
    [[unroll]] for (uint i = 0; i < FETCH; i++) {
        vec4 four = vec4(0);
#ifdef K_FOUR
        if (K_FOURS && n0 + TILE <= a.n_size && k0 + DEPTH <= a.k_size) {
            uvec2 at = place(gl_LocalInvocationIndex + i * N_LOCAL, K_ALONG, true);
            share(DEPTH, at, K_ALONG, K_FOUR(s, n0 + at.x, k0 + at.y));
            continue;
        }
#endif
        uvec2 at = place(gl_LocalInvocationIndex + i * N_LOCAL, K_ALONG, false);
        [[unroll]] for (uint j = 0; j < 4; j++)
            if (n0 + at.x + j < a.n_size && k0 + at.y < a.k_size) four[j] = k_value(s, n0 + at.x + j, k0 + at.y);
        share(DEPTH, at, false, four);
    }
}

void fill_v(const v_side s, const attention a, const uint n0)
{
    for (uint t = gl_LocalInvocationIndex; t < V_DEPTH * V_UNITS; t += N_LOCAL) {
        uint d = t % V_UNITS * 4, n = t / V_UNITS;
        vec4 v = vec4(0);
#ifdef V_FOUR
        if (V_FOURS && n0 + V_DEPTH <= a.n_size && V_INSIDE(a, d)) {
            slices[n * V_PITCH + d / 4] = V_FOUR(s, n0 + n, d);
            continue;
        }
#endif
        [[unroll]] for (uint j = 0; j < 4; j++)
            if (n0 + n < a.n_size && d + j < a.d_size) v[j] = v_value(s, n0 + n, d + j);
        slices[n * V_PITCH + d / 4] = v;
    }
}

void put_weights(const vec4 x[ROWS][Q], const uint tx, const uint ty)
{
    [[unroll]] for (uint i = 0; i < Q; i++)
        [[unroll]] for (uint j = 0; j < Q; j++)
            [[unroll]] for (uint c = 0; c < 4; c++)
                weights[(4 * (tx + j * SIDE) + c) * PITCH + ty + i * SIDE] =
                    vec4(x[4 * i][j][c], x[4 * i + 1][j][c], x[4 * i + 2][j][c], x[4 * i + 3][j][c]);
    barrier();
}

// The largest weight of each row, or the sum of its weights, for fold_of.
void fold_weights(const bool sum)
{
    uint row = gl_LocalInvocationIndex % TILE, first = gl_LocalInvocationIndex / TILE * (TILE / PARTS);
    float v = sum ? 0 : LOWEST;
    for (uint n = first; n < first + TILE / PARTS; n++) {
        float w = weights[n * PITCH + row / 4][row % 4];
        v = sum ? v + w : max(v, w);
    }
    partial[gl_LocalInvocationIndex] = v;
    barrier();
}

float fold_of(const bool sum, const uint row)
{
    float v = partial[row];
    [[unroll]] for (uint p = 1; p < PARTS; p++) {
        float w = partial[p * TILE + row];
        v = sum ? v + w : max(v, w);
    }
    return v;
}

void attend(const q_side q, const k_side k, const x_side xs, const v_side v, const c_side c, const attention a,
            const uint m0)
{
    uint tx = gl_LocalInvocationIndex % SIDE, ty = gl_LocalInvocationIndex / SIDE;
    vec4 acc[ROWS][BLOCKS];
    float peak[4 * Q], total[4 * Q];
    [[unroll]] for (uint i = 0; i < 4 * Q; i++) {
        peak[i] = LOWEST;
        total[i] = 0;
        [[unroll]] for (uint j = 0; j < BLOCKS; j++) acc[i][j] = vec4(0);
    }

    for (uint n0 = 0; n0 < N_END(a, m0); n0 += TILE) {
        vec4 x[ROWS][Q];
        [[unroll]] for (uint i = 0; i < 4 * Q; i++) [[unroll]] for (uint j = 0; j < Q; j++) x[i][j] = vec4(0);
        for (uint k0 = 0; k0 < a.k_size; k0 += DEPTH) {
            barrier();
            fill_q(q, a, m0, k0);
            fill_k(k, a, n0, k0);
            barrier();
            for (uint s = 0; s < DEPTH; s++) {
                vec4 left[Q], right[Q];
                [[unroll]] for (uint i = 0; i < Q; i++) {
                    left[i] = slices[s * PITCH + ty + i * SIDE];
                    right[i] = slices[(DEPTH + s) * PITCH + tx + i * SIDE];
                }
                [[unroll]] for (uint i = 0; i < 4 * Q; i++)
                    [[unroll]] for (uint j = 0; j < Q; j++) x[i][j] += left[i / 4][i % 4] * right[j];
            }
        }
        [[unroll]] for (uint i = 0; i < 4 * Q; i++) {
            [[unroll]] for (uint j = 0; j < 4 * Q; j++) {
                uint m = m0 + 4 * (ty + i / 4 * SIDE) + i % 4, n = n0 + 4 * (tx + j / 4 * SIDE) + j % 4;
                if (m < a.m_size && n < a.n_size) x[i][j / 4][j % 4] = x_value(xs, m, n, x[i][j / 4][j % 4]);
                else x[i][j / 4][j % 4] = LOWEST;
            }
        }
        put_weights(x, tx, ty);
        fold_weights(false);
        [[unroll]] for (uint i = 0; i < 4 * Q; i++) {
            float next = max(peak[i], fold_of(false, 4 * (ty + i / 4 * SIDE) + i % 4));
            float base = next == LOWEST ? 0 : next, scale = e_value(peak[i], base);
            peak[i] = next;
            total[i] *= scale;
            [[unroll]] for (uint j = 0; j < BLOCKS; j++) acc[i][j] *= scale;
            [[unroll]] for (uint j = 0; j < 4 * Q; j++) x[i][j / 4][j % 4] = e_value(x[i][j / 4][j % 4], base);
        }
        put_weights(x, tx, ty);
        fold_weights(true);
        [[unroll]] for (uint i = 0; i < 4 * Q; i++) total[i] += fold_of(true, 4 * (ty + i / 4 * SIDE) + i % 4);
        for (uint n1 = 0; n1 < TILE && n0 + n1 < a.n_size; n1 += V_DEPTH) {
            barrier();
            fill_v(v, a, n0 + n1);
            barrier();
            for (uint s0 = 0; s0 < V_DEPTH; s0 += V_RUN) {
                uint w_at = (n1 + s0) * PITCH + ty, v_at = s0 * V_PITCH + tx;
                [[unroll]] for (uint s = 0; s < V_RUN; s++) {
                    vec4 w[Q];
                    [[unroll]] for (uint i = 0; i < Q; i++) w[i] = weights[w_at + s * PITCH + i * SIDE];
                    [[unroll]] for (uint j = 0; j < BLOCKS; j++) {
                        vec4 four = slices[v_at + s * V_PITCH + j * SIDE];
                        [[unroll]] for (uint i = 0; i < 4 * Q; i++) acc[i][j] += w[i / 4][i % 4] * four;
                    }
                }
            }
        }
    }

    [[dont_unroll]] for (uint i = 0; i < 4 * Q; i++) {
        uint m = m0 + 4 * (ty + i / 4 * SIDE) + i % 4;
        if (m >= a.m_size) continue;
        // Chosen by constant numbers, so that results stay in registers.
        vec4 row[BLOCKS];
        float all = total[0];
        [[unroll]] for (uint s = 0; s < 4 * Q; s++) {
            if (s != i) continue;
            all = total[s];
            [[unroll]] for (uint j = 0; j < BLOCKS; j++) row[j] = acc[s][j];
        }
#ifdef STORE_STATS
        float most = peak[0];
        [[unroll]] for (uint s = 1; s < 4 * Q; s++) if (s == i) most = peak[s];
        if (tx == 0) STORE_STATS(c, m, most, all);
#endif
#ifdef STORE_FOUR
        [[unroll]] for (uint j = 0; j < BLOCKS; j++) STORE_FOUR(c, m, 4 * (tx + j * SIDE), a.d_size, row[j] / all);
#else
        [[dont_unroll]] for (uint t = 0; t < 4 * BLOCKS; t++) {
            uint d = 4 * (tx + t / 4 * SIDE) + t % 4;
            vec4 four = row[0];
            [[unroll]] for (uint j = 1; j < BLOCKS; j++) if (t / 4 == j) four = row[j];
            if (d < a.d_size) store_result(c, m, d, four[t % 4] / all);
        }
#endif
    }
}
