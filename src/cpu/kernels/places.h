// The column form of argmax and argmin of f32: the best of several positions is found in registers before it meets what
// there was, whose places are i64.
#pragma once
#include "cpu/kernels/kernel.h"

#ifdef __AVX2__
#include <immintrin.h>

#define PLACES static inline __attribute__((always_inline))

enum { PLACES_ROWS = 8, PLACES_COLUMNS = 512 };

// u, at `at`, in place of w where it is better, or the first NaN.
#ifdef __AVX512F__
enum { PLACES_LANES = 16 };
PLACES void cpu_take(__m512 *w, __m512i *place, __m512 u, int at, const bool least)
{
    __mmask16 is_number = _mm512_cmp_ps_mask(*w, *w, _CMP_ORD_Q);
    __mmask16 takes = least ? _mm512_mask_cmp_ps_mask(is_number, u, *w, _CMP_NGE_UQ)
                            : _mm512_mask_cmp_ps_mask(is_number, u, *w, _CMP_NLE_UQ);
    *w = _mm512_mask_mov_ps(*w, takes, u);
    *place = _mm512_mask_mov_epi32(*place, takes, _mm512_set1_epi32(at));
}
#else
enum { PLACES_LANES = 8 };
PLACES void cpu_take(__m256 *w, __m256i *place, __m256 u, int at, const bool least)
{
    __m256 takes = least ? _mm256_cmp_ps(u, *w, _CMP_NGE_UQ) : _mm256_cmp_ps(u, *w, _CMP_NLE_UQ);
    takes = _mm256_and_ps(takes, _mm256_cmp_ps(*w, *w, _CMP_ORD_Q));
    *w = _mm256_blendv_ps(*w, u, takes);
    *place = _mm256_blendv_epi8(*place, _mm256_set1_epi32(at), _mm256_castps_si256(takes));
}
#endif

// Of PLACES_ROWS positions `ld` apart the best value and its place, for PLACES_LANES columns.
PLACES void cpu_best_of_rows(const float *x, int64_t ld, const bool least, float *best, int32_t *place)
{
#ifdef __AVX512F__
    __m512 w = _mm512_loadu_ps(x);
    __m512i p = _mm512_setzero_si512();
#pragma GCC unroll 8
    for (int k = 1; k < PLACES_ROWS; k++) cpu_take(&w, &p, _mm512_loadu_ps(x + k * ld), k, least);
    _mm512_storeu_ps(best, w);
    _mm512_storeu_si512(place, p);
#else
    __m256 w = _mm256_loadu_ps(x);
    __m256i p = _mm256_setzero_si256();
#pragma GCC unroll 8
    for (int k = 1; k < PLACES_ROWS; k++) cpu_take(&w, &p, _mm256_loadu_ps(x + k * ld), k, least);
    _mm256_storeu_ps(best, w);
    _mm256_storeu_si256((__m256i *)(void *)place, p);
#endif
}

PLACES bool cpu_beats(float u, float w, const bool least)
{
    return (least ? u < w : u > w) | ((u != u) & (w == w));
}

PLACES void cpu_best_of_column(const float *x, int64_t ld, const bool least, float *best, int32_t *place)
{
    *best = *x, *place = 0;
    for (int k = 1; k < PLACES_ROWS; k++)
        if (cpu_beats(x[k * ld], *best, least)) *best = x[k * ld], *place = k;
}

// n columns from `column` on, positions j and those behind it.
PLACES void cpu_join_places(const struct cpu_col_block *b, int64_t column, int64_t j, int64_t n, const bool least)
{
    float best[PLACES_COLUMNS], *a = (float *)b->acc[0] + column;
    int32_t place[PLACES_COLUMNS];
    int64_t *index = b->index[0] + column, ld = b->in_ld[0], first = b->first + j, i = 0;
    const float *x = (const float *)b->in[0] + j * ld + column;
    for (; i + PLACES_LANES <= n; i += PLACES_LANES) cpu_best_of_rows(x + i, ld, least, best + i, place + i);
    for (; i < n; i++) cpu_best_of_column(x + i, ld, least, best + i, place + i);
#pragma omp simd
    for (int64_t c = 0; c < n; c++) {
        const bool takes =
            (least ? best[c] < a[c] : best[c] > a[c]) | ((best[c] != best[c]) & (a[c] == a[c])) | (index[c] < 0);
        a[c] = takes ? best[c] : a[c];
        index[c] = takes ? first + place[c] : index[c];
    }
}
#endif

// Returns how many of the block's positions it did: the rest are left to do, one by one.
static inline int64_t cpu_places_f32(const struct cpu_col_block *b, const bool least)
{
    int64_t j = 0;
#ifdef __AVX2__
    for (; j + PLACES_ROWS <= b->n; j += PLACES_ROWS)
        for (int64_t i = 0; i < b->m; i += PLACES_COLUMNS)
            cpu_join_places(b, i, j, b->m - i < PLACES_COLUMNS ? b->m - i : PLACES_COLUMNS, least);
#else
    (void)b, (void)least;
#endif
    return j;
}
