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
#define HOLD(v)               __asm__("" : "+v"(v))
#define MULADD(x, y, s)       _mm512_fmadd_pd(x, y, s)
#define MASK                  __mmask8
#define FIRST(n)              first_lanes(n)
#define LOAD_FIRST(m, at)     _mm512_maskz_loadu_pd(m, at)
#define SUM_FIRST(m, at, s)   _mm512_add_pd(_mm512_maskz_loadu_pd(m, at), s)
#define SUM_ALL(at, s)        _mm512_add_pd(_mm512_loadu_pd(at), s)
#define STORE_ALL(at, s)      _mm512_storeu_pd(at, s)
#define STORE_FIRST(m, at, s) _mm512_mask_storeu_pd(at, m, s)

static inline __mmask8 first_lanes(int64_t n)
{
    return n >= LANES ? (__mmask8)0xff : n <= 0 ? (__mmask8)0 : (__mmask8)((1u << n) - 1);
}
#elif defined(__AVX2__)
#include "cpu/kernels/gemm_pack256.h"
enum { GEMM_K = 256, GEMM_M = 48 };
#define GEMM_ROWS             6
#define VECTOR                __m256d
#define LANES                 4
#define ZERO                  _mm256_setzero_pd
#define ALL(at)               _mm256_broadcast_sd((const double *)(const void *)(at))
#define LOAD(at)              _mm256_loadu_pd((const double *)(const void *)(at))
#define HOLD(v)               __asm__("" : "+v"(v))
#define MULADD(x, y, s)       _mm256_fmadd_pd(x, y, s)
#define MASK                  __m256i
#define FIRST(n)              first_4(n)
#define LOAD_FIRST(m, at)     _mm256_maskload_pd((const double *)(const void *)(at), m)
#define SUM_FIRST(m, at, s)   _mm256_add_pd(_mm256_maskload_pd(at, m), s)
#define SUM_ALL(at, s)        _mm256_add_pd(_mm256_loadu_pd(at), s)
#define STORE_ALL(at, s)      _mm256_storeu_pd(at, s)
#define STORE_FIRST(m, at, s) _mm256_maskstore_pd(at, m, s)
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
#elif defined(__AVX2__)
// Runs of n elements that follow each other in memory, one for each of k positions `step` elements apart, into rows of
// `ld`.
PACK void pack_runs(const double *at, int64_t step, int64_t k, int64_t n, double *to, int64_t ld)
{
    const double *end = to + (k - 1) * ld + n;
    for (int64_t q = 0; q < k; q++, at += step, to += ld)
        for (int64_t c = 0; c < n; c += LANES) store_first_f64(to + c, n - c, end - to - c, load_f64(at + c, n - c));
}

static void pack_lines(const struct gemm_matrix *b, int64_t k, int64_t n, double *to)
{
    const double *at = (const double *)(const void *)b->at;
    for (int64_t q = 0; q < k; q++, at += b->row, to += 2 * LANES)
        for (int64_t c = 0; c < 2 * LANES; c += LANES) STORE_ALL(to + c, load_f64(at + c, n - c));
}

// Columns whose k positions follow each other in memory.
static void pack_columns(const struct gemm_matrix *b, int64_t k, int64_t n, double *panel)
{
    const double *at = (const double *)(const void *)b->at;
    for (int64_t half = 0; half < 2 * LANES && half < n; half += LANES)
        for (int64_t q = 0; q < k; q += LANES) {
            pack_vector_f64 r[LANES];
            for (int64_t c = 0; c < LANES; c++)
                r[c] = half + c < n ? load_f64(at + (half + c) * b->col + q, k - q) : ZERO();
            transpose_f64(r);
            for (int64_t i = 0; i < LANES && q + i < k; i++) STORE_ALL(panel + (q + i) * 2 * LANES + half, r[i]);
        }
}
#endif

static void pack_b(const struct gemm_matrix *b, int64_t k, int64_t n, void *panel, int64_t ahead_B)
{
    (void)ahead_B;
#if defined(__AVX2__)
    if (b->dtype == KILN_F64 && b->col == 1) {
        pack_lines(b, k, n, panel);
        return;
    }
#if !defined(__AVX512F__)
    if (b->dtype == KILN_F64 && b->row == 1) {
        pack_columns(b, k, n, panel);
        return;
    }
#endif
#endif
    pack_b_any(&CPU_FN(cpu_gemm_f64), CLASS_F64, b, k, n, panel);
}

static void pack_a(const struct gemm_matrix *a, int64_t rows, int64_t k, void *to, int64_t ld)
{
#if defined(__AVX2__) && !defined(__AVX512F__)
    if (a->dtype == KILN_F64 && a->col == 1) {
        pack_runs((const double *)(const void *)a->at, a->row, rows, k, to, ld);
        return;
    }
#endif
    pack_a_any(CLASS_F64, a, rows, k, to, ld);
}

static void pack_a_across(const struct gemm_matrix *a, int64_t rows, int64_t k, void *to)
{
#if defined(__AVX2__) && !defined(__AVX512F__)
    if (a->dtype == KILN_F64 && a->row == 1) {
        pack_runs((const double *)(const void *)a->at, a->col, k, rows, to, rows);
        return;
    }
#endif
    pack_a_across_any(CLASS_F64, a, rows, k, to);
}

const struct gemm_kind CPU_FN(cpu_gemm_f64) = {
    .tiles = {GEMM_ROWS, 2 * LANES, GEMM_K, GEMM_M, 1024, 16 << 20},
    .unit_B = sizeof(UNIT),
    .depth = 1,
    .lanes = LANES,
    .dtype = KILN_F64,
    .tile = tile_f64_table,
    .pack_b = pack_b,
    .pack_a = pack_a,
    .pack_a_across = pack_a_across,
};
