// result(m, n) = sum over k of a(m, k) * b(n, k), for one square tile of m and n: the body of the matrix product and of
// fused kernels around a sum of products.
//
// The including text defines QUAD (four values), TILE (128, 64 or 32), RUN (steps of K that are one run of
// instructions: 1, 2, 4, 8 or 16) or what matrices.glsl asks for, the structs a_side, b_side and c_side
// with whatever it needs to find an element, and
//     a_value(a, m, k), b_value(b, n, k)    an element, inside the sizes
//     store_result(c, m, n, v)              what becomes of a sum
//     RESULTS                               [[unroll]] where store_result is short, [[dont_unroll]] where it is long
//     A_ALONG, B_ALONG                  whether neighbours along K are nearer in memory than those along M or N
// and, if it can do better than four elements one by one,
//     A_FOUR(a, m, k), B_FOUR(b, n, k)      four neighbours along that way, all inside
//     A_FOURS, B_FOURS                      whether they may be had so; without these they always may
//     A_FETCH(a, m, k), B_FETCH(b, n, k)    four as a FETCHED, where that is not made of four values
//     STORE_FOUR(c, m, n, four)             four results along N, all inside
//     EVEN                                  M and N are multiples of TILE, K is one of DEPTH: there is no edge
//     SMALL                                 all is edge: what is for tiles inside of the sizes is left out
//
// A workgroup computes a TILE x TILE square. It walks along K in steps of DEPTH: both operands' slices go through
// shared memory, where each element is read by many invocations, while the next slices are already on the way from
// memory to registers, as far as they lie inside the sizes; what is left is fetched with a question for each element.
// What an invocation or a subgroup keeps of the sums, and how it multiplies, is in registers.glsl and matrices.glsl.
// Sums run along K in order: the same bits from run to run.
const uint Q_M = TILE > 32 ? 2 : 1, Q_N = TILE > 64 ? 2 : 1;
const uint SIDE_M = TILE / (4 * Q_M), SIDE_N = TILE / (4 * Q_N);   // SIDE_M * SIDE_N invocations
#ifdef MATRICES
const uint DEPTH = 32;
#define FETCHED uvec2
#ifdef MATRICES_BF16
#define fetched(v) bf16_pairs(v)
#else
#define fetched(v) f16_pairs(v)
#endif
#else
const uint DEPTH = 16;
#define FETCHED QUAD
#define fetched(v) v
#endif
const uint UNITS = TILE / 4;                  // groups of four along M or N
const uint INVOCATIONS = SIDE_M * SIDE_N;
#ifdef MATRICES
const uint FETCH = 4;                         // for each TILE
#else
const uint FETCH = DEPTH * UNITS / INVOCATIONS;
#endif

struct product { uint m_size, n_size, k_size; };

// Where the i-th four that this invocation fetches begin, relative to the tile: (m or n, k). They, and neighbouring
// invocations, follow the operand's short stride.
uvec2 place(const uint i, const bool along_k)
{
    uint t = gl_LocalInvocationIndex;
    if (along_k) return uvec2(t / (DEPTH / 4) + i * (INVOCATIONS / (DEPTH / 4)), t % (DEPTH / 4) * 4);
#ifdef MATRICES
    // All that an invocation fetches are neighbours along K; of 32 bytes each, for four invocations side by side.
    return uvec2((t / 32 * 4 + t % 4) * 4, t / 4 % 8 * FETCH + i);
#endif
    return uvec2(t % UNITS * 4, t / UNITS + i * (INVOCATIONS / UNITS));
}

#ifndef EVEN
#define EVEN false
#endif
#ifndef SMALL
#define SMALL false
#endif
// Elements one by one are all that there is, or are much of it where fours may be far apart, else what the edge needs.
#ifdef A_FOURS
#define A_EACH [[unroll]]
#else
#define A_EACH [[dont_unroll]]
#endif
#ifdef B_FOURS
#define B_EACH [[unroll]]
#else
#define B_EACH [[dont_unroll]]
#endif
#ifndef A_FOURS
#define A_FOURS true
#endif
#ifndef B_FOURS
#define B_FOURS true
#endif
#ifndef A_FOUR
QUAD a_four(const a_side s, const uint m, const uint k)
{
    if (A_ALONG) return QUAD(a_value(s, m, k), a_value(s, m, k + 1), a_value(s, m, k + 2), a_value(s, m, k + 3));
    return QUAD(a_value(s, m, k), a_value(s, m + 1, k), a_value(s, m + 2, k), a_value(s, m + 3, k));
}
#define A_FOUR(s, m, k) a_four(s, m, k)
#endif
#ifndef B_FOUR
QUAD b_four(const b_side s, const uint n, const uint k)
{
    if (B_ALONG) return QUAD(b_value(s, n, k), b_value(s, n, k + 1), b_value(s, n, k + 2), b_value(s, n, k + 3));
    return QUAD(b_value(s, n, k), b_value(s, n + 1, k), b_value(s, n + 2, k), b_value(s, n + 3, k));
}
#define B_FOUR(s, n, k) b_four(s, n, k)
#endif

#ifndef A_FETCH
#define A_FETCH(s, m, k) fetched(A_FOUR(s, m, k))
#endif
#ifndef B_FETCH
#define B_FETCH(s, n, k) fetched(B_FOUR(s, n, k))
#endif

// At the edge of the sizes: zeros outside.
QUAD a_edge(const a_side s, const product p, const uint m, const uint k)
{
    QUAD v = QUAD(0);
    A_EACH for (uint j = 0; j < 4; j++) {
        uint mj = A_ALONG ? m : m + j, kj = A_ALONG ? k + j : k;
        if (mj < p.m_size && kj < p.k_size) v[j] = a_value(s, mj, kj);
    }
    return v;
}
QUAD b_edge(const b_side s, const product p, const uint n, const uint k)
{
    QUAD v = QUAD(0);
    B_EACH for (uint j = 0; j < 4; j++) {
        uint nj = B_ALONG ? n : n + j, kj = B_ALONG ? k + j : k;
        if (nj < p.n_size && kj < p.k_size) v[j] = b_value(s, nj, kj);
    }
    return v;
}

// The slices of one step, on the way from memory.
FETCHED next_a[FETCH], next_b[FETCH];

// Of a tile and a slice that lie inside the sizes.
void fetch_whole(const a_side a, const b_side b, const uint m0, const uint n0, const uint k0)
{
    [[unroll]] for (uint i = 0; i < FETCH; i++) {
        uvec2 at = place(i, A_ALONG);
        next_a[i] = A_FETCH(a, m0 + at.x, k0 + at.y);
    }
    [[unroll]] for (uint i = 0; i < FETCH; i++) {
        uvec2 at = place(i, B_ALONG);
        next_b[i] = B_FETCH(b, n0 + at.x, k0 + at.y);
    }
}

void fetch_edge(const a_side a, const b_side b, const product p, const uint m0, const uint n0, const uint k0)
{
    [[unroll]] for (uint i = 0; i < FETCH; i++) {
        uvec2 at = place(i, A_ALONG);
        next_a[i] = fetched(a_edge(a, p, m0 + at.x, k0 + at.y));
    }
    [[unroll]] for (uint i = 0; i < FETCH; i++) {
        uvec2 at = place(i, B_ALONG);
        next_b[i] = fetched(b_edge(b, p, n0 + at.x, k0 + at.y));
    }
}

// own_place(): where in the tile what an invocation or a subgroup keeps begins, along M and N. share(): from next_a
// and next_b to shared memory, once all have read what is there. add_slices(): what lies there is multiplied and
// added to the sums. results(): the sums are stored.
#ifdef MATRICES
#include "matrices.glsl"
#else
#include "registers.glsl"
#endif

void multiply(const a_side a, const b_side b, const c_side c, const product p, const uint m0, const uint n0)
{
    uvec2 own = own_place();
    uint k_whole = 0;
    clear();
    bool inside = !SMALL && m0 + TILE <= p.m_size && n0 + TILE <= p.n_size && A_FOURS && B_FOURS;
    if (EVEN || inside) k_whole = p.k_size / DEPTH * DEPTH;
    if (k_whole > 0) {
        fetch_whole(a, b, m0, n0, 0);
        for (uint k0 = 0; k0 < k_whole; k0 += DEPTH) {
            share();
            // The next slices, the last ones once more: behind a condition they would have to be waited for.
            fetch_whole(a, b, m0, n0, min(k0 + DEPTH, k_whole - DEPTH));
            add_slices(own);
        }
    }
    if (!EVEN) {
        for (uint k0 = k_whole; k0 < p.k_size; k0 += DEPTH) {
            fetch_edge(a, b, p, m0, n0, k0);
            share();
            add_slices(own);
        }
    }

    results(c, p, m0, n0, own);
}
