// Products of f32 in registers of AVX-512.
//
// Twelve rows of a times a panel of 32 columns of b are computed at once: their sums fill 24 registers, and stay there
// for all k positions. A panel is packed, so that its 32 elements at a position are two loads; with them and twelve
// elements of a, 24 multiply-adds are done, so the two units that do those set the pace, not memory. The panel stays in
// the second-level cache while all rows of a are multiplied with it. Each element is summed over k in order, however
// the product is divided into pieces.
#include "cpu/kernels/product.h"

#if defined(__AVX512F__)
#include <immintrin.h>

enum { LANES = 16, ROWS = CPU_PRODUCT_ROWS, COLUMNS = CPU_PRODUCT_COLUMNS };

bool CPU_FN(cpu_has_product)(void)
{
    return true;
}

// 16 x 16 elements: pairs, then fours, then quarters of registers change places.
static inline void transpose(__m512 r[LANES])
{
    __m512 t[LANES];
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

static __mmask16 first_lanes(int64_t n)
{
    return n >= LANES ? (__mmask16)0xffff : n <= 0 ? (__mmask16)0 : (__mmask16)((1u << n) - 1);
}

// Columns that are adjacent in memory: rows of the panel are copied. Columns beyond n are 0.
static void pack_rows(struct cpu_factor b, int64_t n, int64_t k, float *panel)
{
    __mmask16 low = first_lanes(n), high = first_lanes(n - LANES);
    for (int64_t q = 0; q < k; q++) {
        const float *from = b.at + q * b.rows;
        _mm512_store_ps(panel + q * COLUMNS, _mm512_maskz_loadu_ps(low, from));
        _mm512_store_ps(panel + q * COLUMNS + LANES, _mm512_maskz_loadu_ps(high, from + LANES));
    }
}

// Rows that are adjacent in memory: 16 columns of 16 positions are transposed.
static void pack_columns(struct cpu_factor b, int64_t n, int64_t k, float *panel)
{
    for (int64_t half = 0; half < COLUMNS; half += LANES)
        for (int64_t q = 0; q < k; q += LANES) {
            __mmask16 there = first_lanes(k - q);
            __m512 r[LANES];
            for (int64_t c = 0; c < LANES; c++)
                r[c] =
                    half + c < n ? _mm512_maskz_loadu_ps(there, b.at + (half + c) * b.cols + q) : _mm512_setzero_ps();
            transpose(r);
            for (int64_t i = 0; i < LANES && q + i < k; i++) _mm512_store_ps(panel + (q + i) * COLUMNS + half, r[i]);
        }
}

// The sums of `rows` rows, a constant where this is inlined.
static inline __attribute__((always_inline)) void meet(const float *a, int64_t row, int64_t step, const float *panel,
                                                       int64_t k, float *out, int64_t ld_out, const int rows,
                                                       __mmask16 low, __mmask16 high)
{
    __m512 s[ROWS][2];
    for (int i = 0; i < rows; i++) s[i][0] = s[i][1] = _mm512_setzero_ps();
    for (int64_t q = 0; q < k; q++) {
        __m512 b0 = _mm512_load_ps(panel + q * COLUMNS), b1 = _mm512_load_ps(panel + q * COLUMNS + LANES);
        for (int i = 0; i < rows; i++) {
            __m512 x = _mm512_set1_ps(a[i * row + q * step]);
            s[i][0] = _mm512_fmadd_ps(x, b0, s[i][0]);
            s[i][1] = _mm512_fmadd_ps(x, b1, s[i][1]);
        }
    }
    for (int i = 0; i < rows; i++) {
        _mm512_mask_storeu_ps(out + i * ld_out, low, s[i][0]);
        _mm512_mask_storeu_ps(out + i * ld_out + LANES, high, s[i][1]);
    }
}

static void meet_all(struct cpu_factor a, const float *panel, float *out, int64_t ld_out, int64_t m, int64_t n,
                     int64_t k)
{
    __mmask16 low = first_lanes(n), high = first_lanes(n - LANES);
    const float *x = a.at;
    for (; m >= ROWS; m -= ROWS, x += ROWS * a.rows, out += ROWS * ld_out)
        meet(x, a.rows, a.cols, panel, k, out, ld_out, ROWS, low, high);
    for (; m >= 4; m -= 4, x += 4 * a.rows, out += 4 * ld_out)
        meet(x, a.rows, a.cols, panel, k, out, ld_out, 4, low, high);
    for (; m > 0; m--, x += a.rows, out += ld_out) meet(x, a.rows, a.cols, panel, k, out, ld_out, 1, low, high);
}

void CPU_FN(cpu_product)(struct cpu_factor a, struct cpu_factor b, float *out, int64_t ld_out, int64_t m, int64_t n,
                         int64_t k, float *panel)
{
    for (int64_t j = 0; j < n; j += COLUMNS) {
        int64_t columns = n - j < COLUMNS ? n - j : COLUMNS;
        struct cpu_factor piece = {b.at + j * b.cols, b.rows, b.cols};
        if (b.cols == 1)
            pack_rows(piece, columns, k, panel);
        else
            pack_columns(piece, columns, k, panel);
        meet_all(a, panel, out + j, ld_out, m, columns, k);
    }
}
#else
bool CPU_FN(cpu_has_product)(void)
{
    return false;
}

void CPU_FN(cpu_product)(struct cpu_factor a, struct cpu_factor b, float *out, int64_t ld_out, int64_t m, int64_t n,
                         int64_t k, float *panel)
{
    (void)a, (void)b, (void)out, (void)ld_out, (void)m, (void)n, (void)k, (void)panel;
}
#endif
