// Vectors for gemm_few.c: n elements at most are loaded, and zeros behind them.
#pragma once
#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define FEW static inline __attribute__((always_inline))

#if defined(__AVX512F__)
#include "cpu/kernels/gemm_pack512.h"
enum { FEW_LANES = 16 };
typedef __m512 few_vector;
typedef __m512d few_vector_f64;

FEW few_vector few_zero(void)
{
    return _mm512_setzero_ps();
}

FEW few_vector few_muladd(few_vector x, few_vector y, few_vector s)
{
    return _mm512_fmadd_ps(x, y, s);
}

FEW float few_total(few_vector s)
{
    return _mm512_reduce_add_ps(s);
}

FEW few_vector few_load_f32(const float *at, int64_t n)
{
    return n >= FEW_LANES ? _mm512_loadu_ps(at) : _mm512_maskz_loadu_ps(first_16(n), at);
}

FEW few_vector few_load_f16(const uint16_t *at, int64_t n)
{
    return load_f32((const char *)at, n, KILN_F16);
}

FEW few_vector few_load_bf16(const uint16_t *at, int64_t n)
{
    return load_f32((const char *)at, n, KILN_BF16);
}

FEW few_vector few_load_pairs(const uint16_t *at, int64_t n)
{
    return n >= 2 * FEW_LANES ? _mm512_loadu_ps(at) : _mm512_castsi512_ps(_mm512_maskz_loadu_epi16(first_32(n), at));
}

__attribute__((target("avx512bf16"))) FEW few_vector few_muladd_pairs(few_vector x, few_vector y, few_vector s)
{
    return _mm512_dpbf16_ps(s, (__m512bh)x, (__m512bh)y);
}

FEW few_vector_f64 few_zero_f64(void)
{
    return _mm512_setzero_pd();
}

FEW few_vector_f64 few_muladd_f64(few_vector_f64 x, few_vector_f64 y, few_vector_f64 s)
{
    return _mm512_fmadd_pd(x, y, s);
}

FEW double few_total_f64(few_vector_f64 s)
{
    return _mm512_reduce_add_pd(s);
}

FEW __m256 few_half(few_vector s)
{
    return _mm256_add_ps(_mm512_castps512_ps256(s), _mm512_extractf32x8_ps(s, 1));
}

FEW __m256d few_half_f64(few_vector_f64 s)
{
    return _mm256_add_pd(_mm512_castpd512_pd256(s), _mm512_extractf64x4_pd(s, 1));
}

FEW few_vector_f64 few_load_f64(const double *at, int64_t n)
{
    return n >= 8 ? _mm512_loadu_pd(at) : _mm512_maskz_loadu_pd((__mmask8)((1u << n) - 1), at);
}
FEW few_vector few_spread(float x)
{
    return _mm512_set1_ps(x);
}

FEW void few_store(float *at, few_vector v, int64_t n)
{
    _mm512_mask_storeu_ps(at, first_16(n), v);
}

FEW few_vector_f64 few_spread_f64(double x)
{
    return _mm512_set1_pd(x);
}

FEW void few_store_f64(double *at, few_vector_f64 v, int64_t n)
{
    _mm512_mask_storeu_pd(at, (__mmask8)first_16(n), v);
}
#else
enum { FEW_LANES = 8 };
typedef __m256 few_vector;
typedef __m256d few_vector_f64;

FEW few_vector few_zero(void)
{
    return _mm256_setzero_ps();
}

FEW few_vector few_muladd(few_vector x, few_vector y, few_vector s)
{
    return _mm256_fmadd_ps(x, y, s);
}

FEW float few_total(few_vector s)
{
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

FEW few_vector few_load_f32(const float *at, int64_t n)
{
    if (n >= FEW_LANES) return _mm256_loadu_ps(at);
    __m256i there = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    return _mm256_maskload_ps(at, there);
}

FEW __m128i few_load_16(const uint16_t *at, int64_t n)
{
    __m128i v = _mm_setzero_si128();
    if (n >= FEW_LANES) return _mm_loadu_si128((const __m128i *)(const void *)at);
    memcpy(&v, at, (size_t)n * sizeof *at);
    return v;
}

FEW few_vector few_load_f16(const uint16_t *at, int64_t n)
{
    return _mm256_cvtph_ps(few_load_16(at, n));
}

FEW few_vector few_load_bf16(const uint16_t *at, int64_t n)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(few_load_16(at, n)), 16));
}

FEW few_vector_f64 few_zero_f64(void)
{
    return _mm256_setzero_pd();
}

FEW few_vector_f64 few_muladd_f64(few_vector_f64 x, few_vector_f64 y, few_vector_f64 s)
{
    return _mm256_fmadd_pd(x, y, s);
}

FEW double few_total_f64(few_vector_f64 s)
{
    __m128d two = _mm_add_pd(_mm256_castpd256_pd128(s), _mm256_extractf128_pd(s, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

FEW __m256 few_half(few_vector s)
{
    return s;
}

FEW __m256d few_half_f64(few_vector_f64 s)
{
    return s;
}

FEW few_vector_f64 few_load_f64(const double *at, int64_t n)
{
    if (n >= 4) return _mm256_loadu_pd(at);
    __m256i there = _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
    return _mm256_maskload_pd(at, there);
}

FEW few_vector few_spread(float x)
{
    return _mm256_set1_ps(x);
}

FEW void few_store(float *at, few_vector v, int64_t n)
{
    if (n >= FEW_LANES)
        _mm256_storeu_ps(at, v);
    else
        memcpy(at, &v, (size_t)n * sizeof *at);
}

FEW few_vector_f64 few_spread_f64(double x)
{
    return _mm256_set1_pd(x);
}

FEW void few_store_f64(double *at, few_vector_f64 v, int64_t n)
{
    if (n >= 4)
        _mm256_storeu_pd(at, v);
    else
        memcpy(at, &v, (size_t)n * sizeof *at);
}
#endif

// The totals of four vectors.
FEW void few_totals(few_vector a, few_vector b, few_vector c, few_vector d, float *to)
{
    __m256 two = _mm256_hadd_ps(few_half(a), few_half(b)), more = _mm256_hadd_ps(few_half(c), few_half(d));
    __m256 four = _mm256_hadd_ps(two, more);
    _mm_storeu_ps(to, _mm_add_ps(_mm256_castps256_ps128(four), _mm256_extractf128_ps(four, 1)));
}

FEW void few_totals_f64(few_vector_f64 a, few_vector_f64 b, few_vector_f64 c, few_vector_f64 d, double *to)
{
    __m256d two = _mm256_hadd_pd(few_half_f64(a), few_half_f64(b));
    __m256d more = _mm256_hadd_pd(few_half_f64(c), few_half_f64(d));
    _mm256_storeu_pd(to,
                     _mm256_add_pd(_mm256_permute2f128_pd(two, more, 0x20), _mm256_permute2f128_pd(two, more, 0x31)));
}
