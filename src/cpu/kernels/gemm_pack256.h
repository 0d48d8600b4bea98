// Packing with AVX2: 8 units of 32 bits, or 4 of 64, at once, from elements that are neighbours in one direction or the
// other.
#pragma once
#include "cpu/kernels/gemm_kind.h"
#include <immintrin.h>
#include <string.h>

#define PACK static inline __attribute__((always_inline))

enum { PACK_LANES = 8, PACK_LANES_F64 = 4 };
typedef __m256 pack_vector;
typedef __m256d pack_vector_f64;

PACK __m256i first_8(int64_t n)
{
    int all = n < PACK_LANES ? (int)n : PACK_LANES;
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(all), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

PACK __m256i first_4(int64_t n)
{
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
}

// The first n of 8 elements of 16 bits; 0 behind them. From four on in two pieces that overlap, as a copy of n bytes
// would be a call.
PACK __m128i first_halves(const char *at, int64_t n)
{
    uint64_t low = 0, high = 0;
    if (n >= PACK_LANES) return _mm_loadu_si128((const __m128i *)(const void *)at);
    if (n >= 4) {
        memcpy(&low, at, sizeof low);
        memcpy(&high, at + 2 * (n - 4), sizeof high);
        high = n > 4 ? high >> 16 * (PACK_LANES - n) : 0;
    } else {
        for (int64_t i = n - 1; i >= 0; i--) {
            uint16_t element;
            memcpy(&element, at + 2 * i, sizeof element);
            low = low << 16 | element;
        }
    }
    return _mm_set_epi64x((int64_t)high, (int64_t)low);
}

// The first n of 8 elements of a dtype as f32; 0 behind them.
PACK pack_vector load_f32(const char *at, int64_t n, const unsigned dtype)
{
    if (dtype == KILN_F32 && n >= PACK_LANES) return _mm256_loadu_ps((const float *)(const void *)at);
    if (dtype == KILN_F32) return _mm256_maskload_ps((const float *)(const void *)at, first_8(n));
    __m128i half = first_halves(at, n);
    if (dtype == KILN_F16) return _mm256_cvtph_ps(half);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}

// n of them to memory, of which `room` may be written. Writing through a mask takes some forty steps of a Zen.
PACK void store_first(float *to, int64_t n, int64_t room, pack_vector v)
{
    if (room >= PACK_LANES)
        _mm256_storeu_ps(to, v);
    else
        _mm256_maskstore_ps(to, first_8(n), v);
}

PACK pack_vector_f64 load_f64(const double *at, int64_t n)
{
    return n >= PACK_LANES_F64 ? _mm256_loadu_pd(at) : _mm256_maskload_pd(at, first_4(n));
}

PACK void store_first_f64(double *to, int64_t n, int64_t room, pack_vector_f64 v)
{
    if (room >= PACK_LANES_F64)
        _mm256_storeu_pd(to, v);
    else
        _mm256_maskstore_pd(to, first_4(n), v);
}

// 8 x 8 units: pairs, then fours, then halves of registers change places.
PACK void transpose(pack_vector r[PACK_LANES])
{
    __m256 t[PACK_LANES];
    for (int i = 0; i < 4; i++) {
        t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
    for (int i = 0; i < 2; i++) {
        __m256d a = _mm256_castps_pd(t[4 * i]), b = _mm256_castps_pd(t[4 * i + 1]);
        __m256d c = _mm256_castps_pd(t[4 * i + 2]), d = _mm256_castps_pd(t[4 * i + 3]);
        r[4 * i] = _mm256_castpd_ps(_mm256_unpacklo_pd(a, c));
        r[4 * i + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(a, c));
        r[4 * i + 2] = _mm256_castpd_ps(_mm256_unpacklo_pd(b, d));
        r[4 * i + 3] = _mm256_castpd_ps(_mm256_unpackhi_pd(b, d));
    }
    for (int i = 0; i < 4; i++) {
        __m256 low = r[i], high = r[i + 4];
        r[i] = _mm256_permute2f128_ps(low, high, 0x20);
        r[i + 4] = _mm256_permute2f128_ps(low, high, 0x31);
    }
}

PACK void transpose_f64(pack_vector_f64 r[PACK_LANES_F64])
{
    __m256d a = _mm256_unpacklo_pd(r[0], r[1]), b = _mm256_unpackhi_pd(r[0], r[1]);
    __m256d c = _mm256_unpacklo_pd(r[2], r[3]), d = _mm256_unpackhi_pd(r[2], r[3]);
    r[0] = _mm256_permute2f128_pd(a, c, 0x20);
    r[1] = _mm256_permute2f128_pd(b, d, 0x20);
    r[2] = _mm256_permute2f128_pd(a, c, 0x31);
    r[3] = _mm256_permute2f128_pd(b, d, 0x31);
}
