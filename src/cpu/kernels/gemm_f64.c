// Products of f64.
#include "cpu/kernels/gemm_pack.h"

#define NAME f64
#define UNIT double
#define SUM  double
#define TARGET
#if defined(__AVX512F__)
#include <immintrin.h>
enum { GEMM_K = 512, GEMM_M = 96 };
#define GEMM_ROWS             12
#define VECTOR                __m512d
#define LANES                 8
#define ZERO                  _mm512_setzero_pd
#define ALL(at)               _mm512_set1_pd(*(const double *)(const void *)(at))
#define LOAD(at)              _mm512_loadu_pd(at)
#define MULADD(x, y, s)       _mm512_fmadd_pd(x, y, s)
#define MASK                  __mmask8
#define FIRST(n)              first_lanes(n)
#define LOAD_FIRST(m, at)     _mm512_maskz_loadu_pd(m, at)
#define SUM_FIRST(m, at, s)   _mm512_add_pd(_mm512_maskz_loadu_pd(m, at), s)
#define STORE_FIRST(m, at, s) _mm512_mask_storeu_pd(at, m, s)

static inline __mmask8 first_lanes(int64_t n)
{
    return n >= LANES ? (__mmask8)0xff : n <= 0 ? (__mmask8)0 : (__mmask8)((1u << n) - 1);
}
#elif defined(__AVX2__)
#include <immintrin.h>
enum { GEMM_K = 256, GEMM_M = 48 };
#define GEMM_ROWS             6
#define VECTOR                __m256d
#define LANES                 4
#define ZERO                  _mm256_setzero_pd
#define ALL(at)               _mm256_broadcast_sd((const double *)(const void *)(at))
#define LOAD(at)              _mm256_loadu_pd((const double *)(const void *)(at))
#define MULADD(x, y, s)       _mm256_fmadd_pd(x, y, s)
#define MASK                  __m256i
#define FIRST(n)              first_lanes(n)
#define LOAD_FIRST(m, at)     _mm256_maskload_pd((const double *)(const void *)(at), m)
#define SUM_FIRST(m, at, s)   _mm256_add_pd(_mm256_maskload_pd(at, m), s)
#define STORE_FIRST(m, at, s) _mm256_maskstore_pd(at, m, s)

static inline __m256i first_lanes(int64_t n)
{
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
}
#else
enum { GEMM_K = 256, GEMM_M = 32 };
#define GEMM_ROWS 4
#include "cpu/kernels/gemm_plain.h"
#endif
#include "cpu/kernels/gemm_kernel_tmpl.c"

#if defined(__AVX512F__)
enum { ROWS_AHEAD = 12 };

// Rows of one panel, two lines each, which memory is asked for some rows before.
static void pack_lines(const struct gemm_matrix *b, int64_t k, int64_t n, double *to)
{
    const double *at = (const double *)(const void *)b->at;
    __mmask8 low = first_lanes(n), high = first_lanes(n - LANES);
    for (int64_t q = 0; q < k; q++, at += b->row, to += 2 * LANES) {
        __builtin_prefetch(at + ROWS_AHEAD * b->row);
        __builtin_prefetch(at + ROWS_AHEAD * b->row + LANES);
        _mm512_storeu_pd(to, _mm512_maskz_loadu_pd(low, at));
        _mm512_storeu_pd(to + LANES, _mm512_maskz_loadu_pd(high, at + LANES));
    }
}
#endif

static void pack_b(const struct gemm_matrix *b, int64_t k, int64_t n, void *panel, int64_t ahead_B)
{
    (void)ahead_B;
#if defined(__AVX512F__)
    if (b->dtype == KILN_F64 && b->col == 1) {
        pack_lines(b, k, n, panel);
        return;
    }
#endif
    pack_b_any(&CPU_FN(cpu_gemm_f64), CLASS_F64, b, k, n, panel);
}

static void pack_a(const struct gemm_matrix *a, int64_t rows, int64_t k, void *to, int64_t ld)
{
    pack_a_any(CLASS_F64, a, rows, k, to, ld);
}

static void pack_a_across(const struct gemm_matrix *a, int64_t rows, int64_t k, void *to)
{
    pack_a_across_any(CLASS_F64, a, rows, k, to);
}

const struct gemm_kind CPU_FN(cpu_gemm_f64) = {
    .tiles = {GEMM_ROWS, 2 * LANES, GEMM_K, GEMM_M, 16 << 20},
    .unit_B = sizeof(UNIT),
    .depth = 1,
    .lanes = LANES,
    .dtype = KILN_F64,
    .tile = tile_f64_table,
    .pack_b = pack_b,
    .pack_a = pack_a,
    .pack_a_across = pack_a_across,
};
