// Sums of products in registers: a part of product.glsl, which defines TILE, DEPTH, INVOCATIONS and the like.
//
// An invocation keeps Q_M x Q_N blocks of 4 x 4 results in registers; blocks lie SIDE_M or SIDE_N
// apart, so that neighbours read neighbouring words. The more results an invocation has, the less it reads for each.
const uint PITCH = UNITS + 1;                 // a row of shared memory; one more, so that columns spread over the banks
shared QUAD a_tile[DEPTH * PITCH], b_tile[DEPTH * PITCH];

// From registers to shared memory, once all have read what is there.
void share()
{
    barrier();
    [[unroll]] for (uint i = 0; i < FETCH; i++) {
        uvec2 at = place(i, A_ALONG), bt = place(i, B_ALONG);
        if (A_ALONG) {
            [[unroll]] for (uint j = 0; j < 4; j++) a_tile[(at.y + j) * PITCH + at.x / 4][at.x % 4] = next_a[i][j];
        } else {
            a_tile[at.y * PITCH + at.x / 4] = next_a[i];
        }
        if (B_ALONG) {
            [[unroll]] for (uint j = 0; j < 4; j++) b_tile[(bt.y + j) * PITCH + bt.x / 4][bt.x % 4] = next_b[i][j];
        } else {
            b_tile[bt.y * PITCH + bt.x / 4] = next_b[i];
        }
    }
    barrier();
}

QUAD sums[4 * Q_M][Q_N];

uvec2 own_place()   // in fours
{
    return uvec2(gl_LocalInvocationIndex / SIDE_N, gl_LocalInvocationIndex % SIDE_N);
}

void clear()
{
    [[unroll]] for (uint i = 0; i < 4 * Q_M; i++) [[unroll]] for (uint j = 0; j < Q_N; j++) sums[i][j] = QUAD(0);
}

// The slices in shared memory are multiplied.
void add_slices(const uvec2 own)
{
    for (uint k1 = 0; k1 < DEPTH; k1 += RUN) {
        uint x_at = k1 * PITCH + own.x, y_at = k1 * PITCH + own.y;
        [[unroll]] for (uint k = 0; k < RUN; k++) {
            QUAD x[Q_M], y[Q_N];
            [[unroll]] for (uint q = 0; q < Q_M; q++) x[q] = a_tile[x_at + k * PITCH + q * SIDE_M];
            [[unroll]] for (uint q = 0; q < Q_N; q++) y[q] = b_tile[y_at + k * PITCH + q * SIDE_N];
            [[unroll]] for (uint i = 0; i < 4 * Q_M; i++) {
                [[unroll]] for (uint j = 0; j < Q_N; j++) sums[i][j] += x[i / 4][i % 4] * y[j];
            }
        }
    }
}

void results(const c_side c, const product p, const uint m0, const uint n0, const uvec2 own)
{
    const uint rows = COMPACT ? min(4 * Q_M, p.m_size) : 4 * Q_M;
    RESULTS for (uint i = 0; i < rows; i++) {
        uint m = m0 + 4 * (own.x + i / 4 * SIDE_M) + i % 4;
        if (!EVEN && m >= p.m_size) continue;
        // Chosen by constant numbers, so that sums stay in registers when the loop is none that is unrolled.
        QUAD row[Q_N];
        [[unroll]] for (uint s = 0; s < 4 * Q_M; s++)
            [[unroll]] for (uint j = 0; j < Q_N; j++) if (s == i) row[j] = sums[s][j];
#ifdef STORE_FOUR
        [[unroll]] for (uint j = 0; j < Q_N; j++) {
            uint n = n0 + 4 * (own.y + j * SIDE_N);
            if (EVEN || n + 4 <= p.n_size) {
                STORE_FOUR(c, m, n, row[j]);
            } else {
                const uint most = COMPACT ? min(3, p.n_size) : 3;
                [[unroll]] for (uint t = 0; t < most; t++) if (n + t < p.n_size) store_result(c, m, n + t, row[j][t]);
            }
        }
#else
        RESULTS for (uint t = 0; t < 4 * Q_N; t++) {
            uint n = n0 + 4 * (own.y + t / 4 * SIDE_N) + t % 4;
            QUAD four = row[0];
            [[unroll]] for (uint j = 1; j < Q_N; j++) if (t / 4 == j) four = row[j];
            if (n < p.n_size) store_result(c, m, n, four[t % 4]);
        }
#endif
    }
}
