// Products in units of f32: elements of f16 and bf16 become such as they are packed.
#include "cpu/kernels/gemm_pack.h"

#define NAME f32
#define SPREAD
#define UNIT float
#define SUM  float
#define TARGET
#if defined(__AVX512F__)
#include "cpu/kernels/gemm_pack512.h"
enum { GEMM_K = 512, GEMM_M = 144 };
#define GEMM_ROWS             12
#define VECTOR                __m512
#define LANES                 16
#define ZERO                  _mm512_setzero_ps
#define ALL(at)               _mm512_set1_ps(*(const float *)(const void *)(at))
#define LOAD(at)              _mm512_loadu_ps(at)
#define HOLD(v)               __asm__("" : "+v"(v))
#define MULADD(x, y, s)       _mm512_fmadd_ps(x, y, s)
#define MASK                  __mmask16
#define FIRST(n)              first_16(n)
#define LOAD_FIRST(m, at)     _mm512_maskz_loadu_ps(m, at)
#define SUM_FIRST(m, at, s)   _mm512_add_ps(_mm512_maskz_loadu_ps(m, at), s)
#define SUM_ALL(at, s)        _mm512_add_ps(_mm512_loadu_ps(at), s)
#define STORE_ALL(at, s)      _mm512_storeu_ps(at, s)
#define STORE_FIRST(m, at, s) _mm512_mask_storeu_ps(at, m, s)
#elif defined(__AVX2__)
#include "cpu/kernels/gemm_pack256.h"
enum { GEMM_K = 256, GEMM_M = 96 };
#define GEMM_ROWS             6
#define VECTOR                __m256
#define LANES                 8
#define ZERO                  _mm256_setzero_ps
#define ALL(at)               _mm256_broadcast_ss((const float *)(const void *)(at))
#define LOAD(at)              _mm256_loadu_ps((const float *)(const void *)(at))
#define HOLD(v)               __asm__("" : "+v"(v))
#define MULADD(x, y, s)       _mm256_fmadd_ps(x, y, s)
#define MASK                  __m256i
#define FIRST(n)              first_8(n)
#define LOAD_FIRST(m, at)     _mm256_maskload_ps((const float *)(const void *)(at), m)
#define SUM_FIRST(m, at, s)   _mm256_add_ps(_mm256_maskload_ps(at, m), s)
#define SUM_ALL(at, s)        _mm256_add_ps(_mm256_loadu_ps(at), s)
#define STORE_ALL(at, s)      _mm256_storeu_ps(at, s)
#define STORE_FIRST(m, at, s) _mm256_maskstore_ps(at, m, s)
#else
enum { GEMM_K = 256, GEMM_M = 64 };
#define GEMM_ROWS 4
#include "cpu/kernels/gemm_plain.h"
#endif
#include "cpu/kernels/gemm_kernel_tmpl.c"

#if defined(__AVX2__)
enum { ROWS_AHEAD = 12 };

// Runs of n elements that follow each other in memory, one for each of k positions `step` elements apart: dense rows of
// `ld` units, of which whole vectors are written, or n units alone.
PACK void pack_runs(const char *at, int64_t step, int64_t k, int64_t n, float *to, int64_t ld, bool whole,
                    int64_t ahead_B, const unsigned dtype, const int size_B)
{
    const float *end = to + (k - 1) * ld + n;
    for (int64_t q = 0; q < k; q++, at += step * size_B, to += ld) {
        if (whole && ahead_B) {
            __builtin_prefetch(at + ahead_B);
        } else if (whole) {
            __builtin_prefetch(at + ROWS_AHEAD * step * size_B);
            __builtin_prefetch(at + ROWS_AHEAD * step * size_B + 64);
        }
        for (int64_t c = 0; c < (whole ? ld : n); c += LANES) {
            pack_vector v = load_f32(at + c * size_B, n - c, dtype);
            if (whole)
                STORE_ALL(to + c, v);
            else
                store_first(to + c, n - c, end - to - c, v);
        }
    }
}

// Columns whose k positions follow each other in memory.
PACK void pack_columns(const struct gemm_matrix *b, int64_t k, int64_t n, float *panel, const unsigned dtype,
                       const int size_B)
{
    for (int64_t half = 0; half < 2 * LANES && half < n; half += LANES) // a tile reads as many vectors as it has
        for (int64_t q = 0; q < k; q += LANES) {
            pack_vector r[LANES];
            for (int64_t c = 0; c < LANES; c++)
                r[c] = half + c < n ? load_f32(b->at + ((half + c) * b->col + q) * size_B, k - q, dtype) : ZERO();
            transpose(r);
            for (int64_t i = 0; i < LANES && q + i < k; i++) STORE_ALL(panel + (q + i) * 2 * LANES + half, r[i]);
        }
}

static void pack_b(const struct gemm_matrix *b, int64_t k, int64_t n, void *panel, int64_t ahead_B)
{
    (void)ahead_B;
    if (b->col == 1) {
        switch (b->dtype) {
        case KILN_F32: pack_runs(b->at, b->row, k, n, panel, 2 * LANES, true, ahead_B, KILN_F32, 4); return;
        case KILN_F16: pack_runs(b->at, b->row, k, n, panel, 2 * LANES, true, ahead_B, KILN_F16, 2); return;
        case KILN_BF16: pack_runs(b->at, b->row, k, n, panel, 2 * LANES, true, ahead_B, KILN_BF16, 2); return;
        }
    } else if (b->row == 1) {
        switch (b->dtype) {
        case KILN_F32: pack_columns(b, k, n, panel, KILN_F32, 4); return;
        case KILN_F16: pack_columns(b, k, n, panel, KILN_F16, 2); return;
        case KILN_BF16: pack_columns(b, k, n, panel, KILN_BF16, 2); return;
        }
    }
    pack_b_any(&CPU_FN(cpu_gemm_f32), CLASS_F32, b, k, n, panel);
}

static void pack_a(const struct gemm_matrix *a, int64_t rows, int64_t k, void *to, int64_t ld)
{
    if (a->col == 1) {
        switch (a->dtype) {
        case KILN_F32: pack_runs(a->at, a->row, rows, k, to, ld, false, 0, KILN_F32, 4); return;
        case KILN_F16: pack_runs(a->at, a->row, rows, k, to, ld, false, 0, KILN_F16, 2); return;
        case KILN_BF16: pack_runs(a->at, a->row, rows, k, to, ld, false, 0, KILN_BF16, 2); return;
        }
    }
    pack_a_any(CLASS_F32, a, rows, k, to, ld);
}

static void pack_a_across(const struct gemm_matrix *a, int64_t rows, int64_t k, void *to)
{
    switch (a->dtype) {
    case KILN_F32: pack_runs(a->at, a->col, k, rows, to, rows, false, 0, KILN_F32, 4); return;
    case KILN_F16: pack_runs(a->at, a->col, k, rows, to, rows, false, 0, KILN_F16, 2); return;
    case KILN_BF16: pack_runs(a->at, a->col, k, rows, to, rows, false, 0, KILN_BF16, 2); return;
    }
    pack_a_across_any(CLASS_F32, a, rows, k, to);
}
#else
static void pack_b(const struct gemm_matrix *b, int64_t k, int64_t n, void *panel, int64_t ahead_B)
{
    (void)ahead_B;
    pack_b_any(&CPU_FN(cpu_gemm_f32), CLASS_F32, b, k, n, panel);
}

static void pack_a(const struct gemm_matrix *a, int64_t rows, int64_t k, void *to, int64_t ld)
{
    pack_a_any(CLASS_F32, a, rows, k, to, ld);
}

static void pack_a_across(const struct gemm_matrix *a, int64_t rows, int64_t k, void *to)
{
    pack_a_across_any(CLASS_F32, a, rows, k, to);
}
#endif

#if defined(__AVX512F__)
#define STORE store
static bool store(const void *sums, int64_t ld, const struct gemm_matrix *out, int64_t rows, int64_t columns)
{
    if (out->dtype != KILN_F16) return false;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c += LANES) {
            __mmask16 there = first_16(columns - c);
            __m512 v = _mm512_maskz_loadu_ps(there, (const float *)sums + r * ld + c);
            __m256i half = _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
            _mm256_mask_storeu_epi16(out->at + (r * out->row + c) * 2, there, half);
        }
    return true;
}
#else
#define STORE NULL
#endif

const struct gemm_kind CPU_FN(cpu_gemm_f32) = {
    .store = STORE,
    .tiles = {GEMM_ROWS, 2 * LANES, GEMM_K, GEMM_M, 1024, 16 << 20},
    .unit_B = sizeof(UNIT),
    .depth = 1,
    .lanes = LANES,
    .dtype = KILN_F32,
    .tile = tile_f32_table,
    .spread = tile_f32_spread,
    .pack_b = pack_b,
    .pack_a = pack_a,
    .pack_a_across = pack_a_across,
};
