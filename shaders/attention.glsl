// out[m, d] = sum over n of softmax over n (x(m, n)) * v(n, d), for one tile of rows m: the body of attention.
//
// The including text defines WIDTH (d, rounded up to a multiple of 64), the structs q_side ... c_side with whatever it
// needs to find an element, and
//     q_value(q, m, k), k_value(k, n, k), v_value(v, n, d)    an element, inside the sizes
//     x_value(x, m, n, score)                                 what the softmax is taken of
//     e_value(x, peak)                                        exp(x - peak)
//     store_result(c, m, d, v)                                what becomes of a result
//
// A workgroup of 16 x 16 invocations keeps TILE rows and all of d; it walks along n in steps of TILE. Invocation
// (tx, ty) has 4 x 4 scores, of rows 4 ty to 4 ty + 3, and of the result the same rows and one column in sixteen groups
// of four. Sums are relative to the largest x of the row so far: when that grows, sums and results so far are scaled.
// Invariant after each step: acc = sum of exp(x - peak) * v and total = sum of exp(x - peak) over all n so far. A row
// that has only seen -infinity is relative to 0, so that nothing becomes NaN; its total stays 0, and 0 / 0 is what a
// softmax of nothing else gives.
const uint TILE = 64, DEPTH = 16, UNITS = TILE / 4, PITCH = UNITS + 1;
const uint BLOCKS = WIDTH / 64, V_UNITS = WIDTH / 4, V_PITCH = V_UNITS + 1, V_DEPTH = WIDTH > 128 ? 8 : 16;
const uint SLICES = max(2 * DEPTH * PITCH, V_DEPTH * V_PITCH), FETCH = (V_DEPTH * V_UNITS + 255) / 256;
#define LOWEST uintBitsToFloat(0xff800000u)

shared vec4 slices[SLICES];      // of q and k, then of v
shared vec4 weights[TILE * PITCH]; // [n][m / 4]: x, then exp(x - peak)
shared float partial[4 * TILE];  // of rows, by quarters of n

struct attention { uint m_size, n_size, k_size, d_size; bool q_k_first, k_k_first; };

uvec2 place(const bool k_first)
{
    uint t = gl_LocalInvocationIndex;
    return k_first ? uvec2(t / DEPTH, t % DEPTH) : uvec2(t % UNITS, t / UNITS);
}

void fill_q(const q_side s, const attention a, const uint m0, const uint k0)
{
    uvec2 p = place(a.q_k_first);
    vec4 v = vec4(0);
    [[unroll]] for (uint j = 0; j < 4; j++)
        if (k0 + p.y < a.k_size && m0 + 4 * p.x + j < a.m_size) v[j] = q_value(s, m0 + 4 * p.x + j, k0 + p.y);
    slices[p.y * PITCH + p.x] = v;
}

void fill_k(const k_side s, const attention a, const uint n0, const uint k0)
{
    uvec2 p = place(a.k_k_first);
    vec4 v = vec4(0);
    [[unroll]] for (uint j = 0; j < 4; j++)
        if (k0 + p.y < a.k_size && n0 + 4 * p.x + j < a.n_size) v[j] = k_value(s, n0 + 4 * p.x + j, k0 + p.y);
    slices[(DEPTH + p.y) * PITCH + p.x] = v;
}

void fill_v(const v_side s, const attention a, const uint n0)
{
    [[unroll]] for (uint i = 0; i < FETCH; i++) {
        uint t = gl_LocalInvocationIndex + i * 256, d = t % V_UNITS * 4, n = t / V_UNITS;
        vec4 v = vec4(0);
        [[unroll]] for (uint j = 0; j < 4; j++)
            if (n < V_DEPTH && n0 + n < a.n_size && d + j < a.d_size) v[j] = v_value(s, n0 + n, d + j);
        if (n < V_DEPTH) slices[n * V_PITCH + d / 4] = v;
    }
}

void put_weights(const vec4 x[4], const uint tx, const uint ty)
{
    [[unroll]] for (uint c = 0; c < 4; c++)
        weights[(4 * tx + c) * PITCH + ty] = vec4(x[0][c], x[1][c], x[2][c], x[3][c]);
    barrier();
}

// The largest weight, or the sum of the weights, of this invocation's rows.
vec4 fold_weights(const bool sum, const uint ty)
{
    uint row = gl_LocalInvocationIndex % TILE, first = gl_LocalInvocationIndex / TILE * (TILE / 4);
    float v = sum ? 0 : LOWEST;
    for (uint n = first; n < first + TILE / 4; n++) {
        float w = weights[n * PITCH + row / 4][row % 4];
        v = sum ? v + w : max(v, w);
    }
    partial[gl_LocalInvocationIndex] = v;
    barrier();
    vec4 all;
    [[unroll]] for (uint i = 0; i < 4; i++) {
        uint r = 4 * ty + i;
        float a = partial[r], b = partial[TILE + r], c = partial[2 * TILE + r], d = partial[3 * TILE + r];
        all[i] = sum ? (a + b) + (c + d) : max(max(a, b), max(c, d));
    }
    return all;
}

void attend(const q_side q, const k_side k, const x_side xs, const v_side v, const c_side c, const attention a,
            const uint m0)
{
    uint tx = gl_LocalInvocationIndex % 16, ty = gl_LocalInvocationIndex / 16;
    vec4 acc[4][BLOCKS], peak = vec4(LOWEST), total = vec4(0);
    [[unroll]] for (uint i = 0; i < 4; i++) [[unroll]] for (uint j = 0; j < BLOCKS; j++) acc[i][j] = vec4(0);

    for (uint n0 = 0; n0 < a.n_size; n0 += TILE) {
        vec4 x[4];
        [[unroll]] for (uint i = 0; i < 4; i++) x[i] = vec4(0);
        for (uint k0 = 0; k0 < a.k_size; k0 += DEPTH) {
            barrier();
            fill_q(q, a, m0, k0);
            fill_k(k, a, n0, k0);
            barrier();
            for (uint s = 0; s < DEPTH; s++) {
                vec4 left = slices[s * PITCH + ty], right = slices[(DEPTH + s) * PITCH + tx];
                [[unroll]] for (uint i = 0; i < 4; i++) x[i] += left[i] * right;
            }
        }
        [[unroll]] for (uint i = 0; i < 4; i++) {
            [[unroll]] for (uint j = 0; j < 4; j++) {
                uint m = m0 + 4 * ty + i, n = n0 + 4 * tx + j;
                if (m < a.m_size && n < a.n_size) x[i][j] = x_value(xs, m, n, x[i][j]);
                else x[i][j] = LOWEST;
            }
        }
        put_weights(x, tx, ty);
        vec4 next = max(peak, fold_weights(false, ty)), base = mix(next, vec4(0), equal(next, vec4(LOWEST)));
        [[unroll]] for (uint i = 0; i < 4; i++) {
            float scale = e_value(peak[i], base[i]);
            total[i] *= scale;
            [[unroll]] for (uint j = 0; j < BLOCKS; j++) acc[i][j] *= scale;
            [[unroll]] for (uint j = 0; j < 4; j++) x[i][j] = e_value(x[i][j], base[i]);
        }
        peak = next;
        put_weights(x, tx, ty);
        total += fold_weights(true, ty);
        for (uint n1 = 0; n1 < TILE && n0 + n1 < a.n_size; n1 += V_DEPTH) {
            barrier();
            fill_v(v, a, n0 + n1);
            barrier();
            for (uint s = 0; s < V_DEPTH; s++) {
                vec4 w = weights[(n1 + s) * PITCH + ty];
                [[unroll]] for (uint j = 0; j < BLOCKS; j++) {
                    vec4 four = slices[s * V_PITCH + tx + 16 * j];
                    [[unroll]] for (uint i = 0; i < 4; i++) acc[i][j] += w[i] * four;
                }
            }
        }
    }

    [[dont_unroll]] for (uint i = 0; i < 4; i++) {
        uint m = m0 + 4 * ty + i;
        if (m >= a.m_size) continue;
        // Chosen by constant numbers, so that results stay in registers.
        vec4 row[BLOCKS];
        [[unroll]] for (uint s = 0; s < 4; s++)
            [[unroll]] for (uint j = 0; j < BLOCKS; j++) if (s == i) row[j] = acc[s][j];
        [[dont_unroll]] for (uint t = 0; t < 4 * BLOCKS; t++) {
            uint d = 4 * tx + t / 4 * 64 + t % 4;
            vec4 four = row[0];
            [[unroll]] for (uint j = 1; j < BLOCKS; j++) if (t / 4 == j) four = row[j];
            if (d < a.d_size) store_result(c, m, d, four[t % 4] / total[i]);
        }
    }
}
