// Sums of products by matrix units: a part of product.glsl, which defines TILE, DEPTH, INVOCATIONS and the like.
//
// The including text defines MATRIX, the side of the device's matrices, a specialisation constant, and SUBGROUP, the
// invocations of a subgroup. Both operands' values are exact in f16, or with MATRICES_BF16 in bf16, sums are f32.
// Slices lie in shared memory as such halves, rows of M or N, four neighbours along K in two words; what was fetched
// along M or N is turned on the way there. A subgroup keeps EACH_M x EACH_N matrices of sums. Which invocation has which
// element of a matrix is the driver's affair: results go through shared memory, one matrix of each subgroup at a time.
const uint SUBGROUPS = INVOCATIONS / SUBGROUP, ACROSS = TILE / MATRIX;
const uint BY_N = SUBGROUPS > 16 ? 8 : SUBGROUPS > 4 ? 4 : SUBGROUPS > 1 ? 2 : 1, BY_M = SUBGROUPS / BY_N;
const uint EACH_M = ACROSS / BY_M, EACH_N = ACROSS / BY_N;
const uint PITCH = DEPTH / 4 + 2;   // a row of shared memory; two more, so that rows spread over the banks
// The same size by another name: matrices of the two sides are of two types.
const uint MATRIX_B = MATRIX + 0u;
#define A_MATRIX fcoopmatNV<16, gl_ScopeSubgroup, MATRIX, MATRIX>
#define B_MATRIX fcoopmatNV<16, gl_ScopeSubgroup, MATRIX_B, MATRIX_B>
#define SUMS fcoopmatNV<32, gl_ScopeSubgroup, MATRIX, MATRIX>

shared uvec2 a_tile[TILE * PITCH], b_tile[TILE * PITCH];
shared float staged[SUBGROUPS * MATRIX * MATRIX];
SUMS sums[EACH_M * EACH_N];

uvec2 own_place()
{
    return uvec2(gl_SubgroupID / BY_N * EACH_M, gl_SubgroupID % BY_N * EACH_N) * MATRIX;
}

void clear()
{
    [[unroll]] for (uint i = 0; i < EACH_M * EACH_N; i++) sums[i] = SUMS(0.0);
}

// Of four fours along K the j-th of each.
uvec2 turned(const uvec2 fours[FETCH], const uint j)
{
    uint w = j / 2;
    if (j % 2 == 0) return uvec2(fours[0][w] & 0xffffu | fours[1][w] << 16, fours[2][w] & 0xffffu | fours[3][w] << 16);
    return uvec2(fours[0][w] >> 16 | fours[1][w] & 0xffff0000u, fours[2][w] >> 16 | fours[3][w] & 0xffff0000u);
}

void share()
{
    barrier();
    [[unroll]] for (uint i = 0; i < FETCH; i++) {
        uvec2 at = place(A_ALONG ? i : 0, A_ALONG), bt = place(B_ALONG ? i : 0, B_ALONG);
        if (A_ALONG) a_tile[at.x * PITCH + at.y / 4] = next_a[i];
        else a_tile[(at.x + i) * PITCH + at.y / 4] = turned(next_a, i);
        if (B_ALONG) b_tile[bt.x * PITCH + bt.y / 4] = next_b[i];
        else b_tile[(bt.x + i) * PITCH + bt.y / 4] = turned(next_b, i);
    }
    barrier();
}

void add_slices(const uvec2 own)
{
    [[unroll]] for (uint k = 0; k < DEPTH; k += MATRIX) {
        B_MATRIX y[EACH_N];
        [[unroll]] for (uint j = 0; j < EACH_N; j++)
            coopMatLoadNV(y[j], b_tile, (own.y + j * MATRIX) * PITCH + k / 4, PITCH, true);
        [[unroll]] for (uint i = 0; i < EACH_M; i++) {
            A_MATRIX x;
            coopMatLoadNV(x, a_tile, (own.x + i * MATRIX) * PITCH + k / 4, PITCH, false);
            [[unroll]] for (uint j = 0; j < EACH_N; j++)
                sums[i * EACH_N + j] = coopMatMulAddNV(x, y[j], sums[i * EACH_N + j]);
        }
    }
}

// Four results that lie at `at` in shared memory.
void result(const c_side c, const product p, const uint m, const uint n, const uint at)
{
    if (!EVEN && m >= p.m_size) return;
#ifdef STORE_FOUR
    if (EVEN || n + 4 <= p.n_size) {
        STORE_FOUR(c, m, n, QUAD(staged[at], staged[at + 1], staged[at + 2], staged[at + 3]));
        return;
    }
#endif
    RESULTS for (uint t = 0; t < 4; t++) if (n + t < p.n_size) store_result(c, m, n + t, staged[at + t]);
}

void results(const c_side c, const product p, const uint m0, const uint n0, const uvec2 own)
{
    const uint at = gl_SubgroupID * MATRIX * MATRIX;
    RESULTS for (uint i = 0; i < EACH_M * EACH_N; i++) {
        // Chosen by constant numbers, so that sums stay in registers when the loop is none that is unrolled.
        [[unroll]] for (uint s = 0; s < EACH_M * EACH_N; s++)
            if (s == i) coopMatStoreNV(sums[s], staged, at, MATRIX, false);
        subgroupBarrier();
        uint m = m0 + own.x + i / EACH_N * MATRIX, n = n0 + own.y + i % EACH_N * MATRIX;
        for (uint t = gl_SubgroupInvocationID; t < MATRIX * MATRIX / 4; t += SUBGROUP)
            result(c, p, m + t / (MATRIX / 4), n + t % (MATRIX / 4) * 4, at + t * 4);
        subgroupBarrier();
    }
}
