// Runs of f32 with AVX2. Stores through masks are slow on many of its processors (vmaskmov takes some 20 operations on
// AMD's), so that ends of runs are stored in halves; loads through masks are as fast as others.
#pragma once
#include <immintrin.h>
#include <stdint.h>

// Of 8 elements, those in [from, past).
static inline __m256i lanes_256(int64_t from, int64_t past)
{
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    int low = from < 0 ? 0 : from > 8 ? 8 : (int)from, high = past < 0 ? 0 : past > 8 ? 8 : (int)past;
    __m256i below = _mm256_cmpgt_epi32(_mm256_set1_epi32(low), lanes);
    return _mm256_andnot_si256(below, _mm256_cmpgt_epi32(_mm256_set1_epi32(high), lanes));
}

// The first n of 8 elements.
static inline void store_256(float *to, __m256 v, int64_t n)
{
    if (n >= 8) {
        _mm256_storeu_ps(to, v);
        return;
    }
    __m128 part = _mm256_castps256_ps128(v);
    if (n & 4) {
        _mm_storeu_ps(to, part);
        part = _mm256_extractf128_ps(v, 1);
        to += 4;
    }
    if (n & 2) {
        _mm_storel_pi((__m64 *)(void *)to, part);
        part = _mm_movehl_ps(part, part);
        to += 2;
    }
    if (n & 1) _mm_store_ss(to, part);
}

// 16 elements, every second of them.
static inline __m256 evens_256(__m256 low, __m256 high)
{
    __m256d halves = _mm256_castps_pd(_mm256_shuffle_ps(low, high, 0x88));
    return _mm256_castpd_ps(_mm256_permute4x64_pd(halves, 0xd8));
}

static inline __m256 odds_256(__m256 low, __m256 high)
{
    __m256d halves = _mm256_castps_pd(_mm256_shuffle_ps(low, high, 0xdd));
    return _mm256_castpd_ps(_mm256_permute4x64_pd(halves, 0xd8));
}

// The other way round: 8 and 8 elements in turns.
static inline void in_turns_256(__m256 even, __m256 odd, __m256 to[2])
{
    __m256 low = _mm256_unpacklo_ps(even, odd), high = _mm256_unpackhi_ps(even, odd);
    to[0] = _mm256_permute2f128_ps(low, high, 0x20);
    to[1] = _mm256_permute2f128_ps(low, high, 0x31);
}
