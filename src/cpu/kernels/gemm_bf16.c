// Products of bf16 by the instruction that multiplies pairs of them and adds both products to a sum of f32. A unit is a
// pair of neighbours along k; behind an odd end lies a zero. Products of two bf16 are exact in f32. The instruction
// rounds to nearest and takes numbers below the smallest normal one, 1.2e-38, for zero, as operands and as results.
#include "cpu/tiles.h"
#include "cpu/kernels/gemm_pack.h"

#if defined(__AVX512F__)
#define NAME   bf16
#define UNIT   uint32_t
#define SUM    float
#define TARGET __attribute__((target("avx512bf16")))
#include "cpu/kernels/gemm_pack512.h"
#define GEMM_ROWS             12
#define VECTOR                __m512
#define LANES                 16
#define ZERO                  _mm512_setzero_ps
#define ALL(at)               _mm512_castsi512_ps(_mm512_set1_epi32(*(const unaligned *)(const void *)(at)))
#define LOAD(at)              _mm512_loadu_ps(at)
#define HOLD(v)               __asm__("" : "+v"(v))
#define MULADD(x, y, s)       _mm512_dpbf16_ps(s, (__m512bh)(x), (__m512bh)(y))
#define MASK                  __mmask16
#define FIRST(n)              first_16(n)
#define LOAD_FIRST(m, at)     _mm512_maskz_loadu_ps(m, at)
#define SUM_FIRST(m, at, s)   _mm512_add_ps(_mm512_maskz_loadu_ps(m, at), s)
#define SUM_ALL(at, s)        _mm512_add_ps(_mm512_loadu_ps(at), s)
#define STORE_ALL(at, s)      _mm512_storeu_ps(at, s)
#define STORE_FIRST(m, at, s) _mm512_mask_storeu_ps(at, m, s)
typedef int unaligned __attribute__((aligned(2), may_alias));
#include "cpu/kernels/gemm_kernel_tmpl.c"

bool CPU_FN(cpu_gemm_has_bf16)(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512bf16");
}

static __m256i run_of(const char *at, int64_t n)
{
    return _mm256_maskz_loadu_epi16(first_16(n), at);
}

// Runs of 32 elements, one for each of k positions, two at once. Gives how many positions it took: an odd one is left.
PACK int64_t pack_whole_pairs(const char *at, int64_t step, int64_t k, uint32_t *to, int64_t ahead_B)
{
    const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6, 37,
                                         5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
    const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(LANES));
    int64_t q = 0;
    for (; q + 2 <= k; q += 2, to += 2 * LANES, at += 4 * step) {
        if (ahead_B) {
            __builtin_prefetch(at + ahead_B);
            __builtin_prefetch(at + 2 * step + ahead_B);
        }
        __m512i upper = _mm512_loadu_si512(at), lower = _mm512_loadu_si512(at + 2 * step);
        _mm512_storeu_si512(to, _mm512_permutex2var_epi16(upper, low, lower));
        _mm512_storeu_si512(to + LANES, _mm512_permutex2var_epi16(upper, high, lower));
    }
    return q;
}

// Runs of n elements that follow each other in memory, one for each of k positions.
PACK void pack_runs(const char *at, int64_t step, int64_t k, int64_t n, uint32_t *to, int64_t ld, bool whole,
                    int64_t ahead_B)
{
    int64_t done = whole && n == 2 * LANES ? pack_whole_pairs(at, step, k, to, ahead_B) : 0;
    to += done / 2 * ld;
    for (int64_t q = done; q < k; q += 2, to += ld) {
        if (whole && ahead_B) {
            __builtin_prefetch(at + q * step * 2 + ahead_B);
            __builtin_prefetch(at + (q + 1) * step * 2 + ahead_B);
        }
        for (int64_t c = 0; c < (whole ? ld : n); c += LANES) {
            const char *upper = at + (q * step + c) * 2;
            __m256i low = q + 1 < k ? run_of(upper + step * 2, n - c) : _mm256_setzero_si256();
            __m512 v = pair_up(run_of(upper, n - c), low);
            if (whole)
                _mm512_storeu_ps(to + c, v);
            else
                _mm512_mask_storeu_ps(to + c, first_16(n - c), v);
        }
    }
}

static void pack_columns(const struct gemm_matrix *b, int64_t k, int64_t n, uint32_t *panel)
{
    int64_t units = (k + 1) / 2;
    for (int64_t half = 0; half < 2 * LANES && half < n; half += LANES)
        for (int64_t u = 0; u < units; u += LANES) {
            pack_vector r[LANES];
            for (int64_t c = 0; c < LANES; c++)
                r[c] = half + c < n ? _mm512_castsi512_ps(_mm512_maskz_loadu_epi16(
                                          first_32(k - 2 * u), b->at + ((half + c) * b->col + 2 * u) * 2))
                                    : _mm512_setzero_ps();
            transpose(r);
            for (int64_t i = 0; i < LANES && u + i < units; i++)
                _mm512_store_ps(panel + (u + i) * 2 * LANES + half, r[i]);
        }
}

static inline uint32_t element(const struct gemm_matrix *x, int64_t i, int64_t j)
{
    uint16_t bits;
    memcpy(&bits, x->at + (i * x->row + j * x->col) * 2, sizeof bits);
    return bits;
}

static void pack_b(const struct gemm_matrix *b, int64_t k, int64_t n, void *panel, int64_t ahead_B)
{
    (void)ahead_B;
    if (b->col == 1) {
        pack_runs(b->at, b->row, k, n, panel, 2 * LANES, true, ahead_B);
    } else if (b->row == 1) {
        pack_columns(b, k, n, panel);
    } else {
        uint32_t *to = panel;
        memset(to, 0, (size_t)((k + 1) / 2) * 2 * LANES * sizeof *to);
        for (int64_t q = 0; q < k; q++)
            for (int64_t c = 0; c < n; c++) to[q / 2 * 2 * LANES + c] |= element(b, q, c) << q % 2 * 16;
    }
}

// Of rows that are neighbours in memory, 16 by 16 units at once.
static void pack_turned(const struct gemm_matrix *a, int64_t rows, int64_t k, uint32_t *to, int64_t ld)
{
    int64_t units = (k + 1) / 2;
    for (int64_t u = 0; u < units; u += LANES)
        for (int64_t r = 0; r < rows; r += LANES) {
            pack_vector v[LANES];
            for (int64_t i = 0; i < LANES; i++) {
                int64_t q = 2 * (u + i);
                const char *at = a->at + (q * a->col + r) * 2;
                __m256i none = _mm256_setzero_si256();
                v[i] =
                    pair_up(q < k ? run_of(at, rows - r) : none, q + 1 < k ? run_of(at + a->col * 2, rows - r) : none);
            }
            transpose(v);
            for (int64_t i = 0; i < LANES && r + i < rows; i++)
                _mm512_mask_storeu_ps(to + (r + i) * ld + u, first_16(units - u), v[i]);
        }
}

static void pack_a(const struct gemm_matrix *a, int64_t rows, int64_t k, void *to, int64_t ld)
{
    int64_t units = (k + 1) / 2;
    if (a->row == 1 && a->col != 1) {
        pack_turned(a, rows, k, to, ld);
        return;
    }
    for (int64_t r = 0; r < rows; r++) {
        uint32_t *row = (uint32_t *)to + r * ld;
        row[units - 1] = 0;
        if (a->col == 1)
            memcpy(row, a->at + r * a->row * 2, (size_t)k * 2);
        else
            for (int64_t q = 0; q < k; q++) row[q / 2] = q % 2 ? row[q / 2] | element(a, r, q) << 16 : element(a, r, q);
    }
}

static void pack_a_across(const struct gemm_matrix *a, int64_t rows, int64_t k, void *to)
{
    pack_runs(a->at, a->col, k, rows, to, rows, false, 0);
}

TARGET static bool store(const void *sums, int64_t ld, const struct gemm_matrix *out, int64_t rows, int64_t columns)
{
    if (out->dtype != KILN_BF16) return false;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c += LANES) {
            __mmask16 there = first_16(columns - c);
            __m256bh v = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(there, (const float *)sums + r * ld + c));
            _mm256_mask_storeu_epi16(out->at + (r * out->row + c) * 2, there, (__m256i)v);
        }
    return true;
}

const struct gemm_kind *CPU_FN(cpu_gemm_pairs)(void)
{
    if (!CPU_FN(cpu_gemm_has_bf16)()) return NULL;
    return cpu_amx_missing() ? &CPU_FN(cpu_gemm_bf16) : &CPU_FN(cpu_gemm_amx);
}

const struct gemm_kind CPU_FN(cpu_gemm_amx) = {
    .store = store,
    .tiles = {32, 2 * LANES, 1024, 128, 256, 16 << 20},
    .unit_B = sizeof(UNIT),
    .depth = 2,
    .lanes = LANES,
    .dtype = KILN_BF16,
    .tile = CPU_FN(gemm_amx_tiles),
    .pack_b = pack_b,
    .pack_a = pack_a,
    .asks_evenly = true,
    .end = CPU_FN(cpu_amx_end),
};

const struct gemm_kind CPU_FN(cpu_gemm_bf16) = {
    .store = store,
    .tiles = {GEMM_ROWS, 2 * LANES, 384, 144, 1024, 16 << 20},
    .unit_B = sizeof(UNIT),
    .depth = 2,
    .lanes = LANES,
    .dtype = KILN_BF16,
    .tile = tile_bf16_table,
    .pack_b = pack_b,
    .pack_a = pack_a,
    .pack_a_across = pack_a_across,
};
#else
bool CPU_FN(cpu_gemm_has_bf16)(void)
{
    return false;
}

const struct gemm_kind *CPU_FN(cpu_gemm_pairs)(void)
{
    return NULL;
}
#endif
