// Packing with AVX-512: 16 units of 32 bits at once, from elements that are neighbours in one direction or the other.
#pragma once
#include "cpu/kernels/gemm_kind.h"
#include <immintrin.h>
#include <string.h>

#define PACK static inline __attribute__((always_inline))

enum { PACK_LANES = 16 };
typedef __m512 pack_vector;

PACK __mmask16 first_16(int64_t n)
{
    return n >= PACK_LANES ? (__mmask16)0xffff : n <= 0 ? (__mmask16)0 : (__mmask16)((1u << n) - 1);
}

PACK __mmask32 first_32(int64_t n)
{
    return n >= 32 ? (__mmask32)-1 : n <= 0 ? (__mmask32)0 : (((__mmask32)1 << n) - 1);
}

// The first n of 16 elements of a dtype as f32; 0 behind them.
PACK pack_vector load_f32(const char *at, int64_t n, const unsigned dtype)
{
    if (dtype == KILN_F32) return _mm512_maskz_loadu_ps(first_16(n), at);
    __m256i half = _mm256_maskz_loadu_epi16(first_16(n), at);
    if (dtype == KILN_F16) return _mm512_cvtph_ps(half);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

// n of them to memory, of which `room` may be written.
PACK void store_first(float *to, int64_t n, int64_t room, pack_vector v)
{
    (void)room;
    _mm512_mask_storeu_ps(to, first_16(n), v);
}

// 16 x 16 units: pairs, then fours, then quarters of registers change places.
PACK void transpose(pack_vector r[PACK_LANES])
{
    __m512 t[16];
    for (int i = 0; i < 8; i++) {
        t[2 * i] = _mm512_unpacklo_ps(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
    for (int i = 0; i < 4; i++) {
        __m512d a = _mm512_castps_pd(t[4 * i]), b = _mm512_castps_pd(t[4 * i + 1]);
        __m512d c = _mm512_castps_pd(t[4 * i + 2]), d = _mm512_castps_pd(t[4 * i + 3]);
        r[4 * i] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
        r[4 * i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
        r[4 * i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
        r[4 * i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
    }
    for (int i = 0; i < 4; i++) {
        t[i] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd);
        t[i + 8] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0xdd);
    }
    for (int i = 0; i < 8; i++) {
        r[i] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88);
        r[i + 8] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd);
    }
}

// Two rows of 16 elements of 16 bits become 16 pairs of one above the other.
PACK __m512 pair_up(__m256i upper, __m256i lower)
{
    __m512i low = _mm512_slli_epi32(_mm512_cvtepu16_epi32(lower), 16);
    return _mm512_castsi512_ps(_mm512_or_si512(_mm512_cvtepu16_epi32(upper), low));
}
