// Convolutions of 3 x 3 taps by Winograd's F(2 x 2, 3 x 3) (Lavin and Gray 2016): 2 x 2 results come of 4 x 4 pixels d
// and 3 x 3 weights g by 16 products in the place of 36,
//
//     Y = A^T ((G g G^T) * (B^T d B)) A
//
//     B^T = 1  0 -1  0    G = 1    0    0     A^T = 1 1  1  0
//           0  1  1  0        1/2  1/2  1/2         0 1 -1 -1
//           0 -1  1  0        1/2 -1/2  1/2
//           0  1  0 -1        0    0    1
//
// each a product of matrices over channels. B and A add, G halves, so that errors are about those of the sums they take
// the place of; but they are of the size of all 16 pixels, and what overflows or is no number would show in results
// that it is not part of. Such images and weights are left to other ways.
#pragma once
#include "cpu/kernels/conv_grid.h"

enum { SIDE = 4, POINTS = 16, SPARE = 16 };

#if defined(__AVX512F__)
#include <immintrin.h>
enum { VECTOR_B = 64 };
#elif defined(__AVX2__)
#include "cpu/kernels/conv256.h"
enum { VECTOR_B = 32 };
#else
enum { VECTOR_B = 16 };
#endif
typedef float tile_vector __attribute__((vector_size(VECTOR_B)));
// In memory. (What memcpy would bring, gcc moves in halves, through memory too.)
typedef float stored_vector __attribute__((vector_size(VECTOR_B), aligned(4), may_alias));
enum { LANES = VECTOR_B / 4, WIDE = 2 * LANES };

// The tap at each of 3 x 3 places from the least one.
static inline bool square_of(const struct conv_grid *g, int64_t *which, struct conv_tap *first)
{
    if (g->n_taps != 9) return false;
    *first = g->taps[0];
    for (int i = 1; i < 9; i++) first->y = least(first->y, g->taps[i].y), first->x = least(first->x, g->taps[i].x);
    for (int i = 0; i < 9; i++) which[i] = -1;
    for (int i = 0; i < 9; i++) {
        int64_t y = g->taps[i].y - first->y, x = g->taps[i].x - first->x;
        if (y > 2 || x > 2 || which[y * 3 + x] >= 0) return false;
        which[y * 3 + x] = i;
    }
    return true;
}

static inline bool is_large(uint32_t most)
{
    enum { EXPONENT_2_100 = (127 + 100) << 23 };
    return most >= EXPONENT_2_100; // infinities and NaN too
}

static inline uint32_t largest(const float *x, int64_t n)
{
    uint32_t most = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        bits &= 0x7fffffff;
        most = bits > most ? bits : most;
    }
    return most;
}

// G g G^T of the weights of one output, 9 a channel, whose tap at (y, x) is from[which[3 y + x]]: `to` has rows of
// `channels` and up to LANES - 1 zeros more, `point` elements apart. False: some are too large.
bool CPU_FN(cpu_winograd_weights)(const float *from, int64_t channels, const int64_t *which, float *to, int64_t point);

// Two ways: a band of an image after the other, and, for few tiles and many channels, those of several images at once.
// What each costs, in products for each channel and output, infinite where it is none; and the work.
double CPU_FN(cpu_winograd_bands)(const struct conv_grid *g);
double CPU_FN(cpu_winograd_deep)(const struct conv_grid *g);
kiln_status CPU_FN(cpu_conv_winograd_bands)(const struct conv_grid *g, bool *done);
kiln_status CPU_FN(cpu_conv_winograd_deep)(const struct conv_grid *g, bool *done);

// Of one place: its products, and transforms of pixels, for all outputs, of sums, for all channels, and of weights,
// for all tiles that meet them.
static inline double winograd_cost(const struct conv_grid *g, double by_output, double by_channel, int64_t tiles)
{
    enum { BY_TILE = 24 };
    return POINTS * (1 + by_output / (double)g->outputs + by_channel / (double)g->channels + BY_TILE / (double)tiles);
}

static inline int64_t whole_lanes(int64_t n)
{
    return (n + LANES - 1) / LANES * LANES;
}

static inline __attribute__((always_inline)) void pixels_4(const tile_vector *d, int step, tile_vector *v)
{
    v[0] = d[0] - d[2 * step];
    v[step] = d[step] + d[2 * step];
    v[2 * step] = d[2 * step] - d[step];
    v[3 * step] = d[step] - d[3 * step];
}

static inline __attribute__((always_inline)) void results_2(const tile_vector *m, int step, tile_vector *y, int to)
{
    y[0] = m[0] + m[step] + m[2 * step];
    y[to] = m[step] - m[2 * step] - m[3 * step];
}

// Sums of places 0, 2, ... and 1, 3, ... of a row, and a bias.
static inline void add_turns(tile_vector even, tile_vector odd, float bias, float *to)
{
#if defined(__AVX2__) && !defined(__AVX512F__)
    __m256 turns[2], all = _mm256_set1_ps(bias);
    in_turns_256((__m256)even, (__m256)odd, turns);
    _mm256_storeu_ps(to, _mm256_add_ps(turns[0], all));
    _mm256_storeu_ps(to + LANES, _mm256_add_ps(turns[1], all));
#else
    float e[LANES], o[LANES];
    memcpy(e, &even, sizeof e);
    memcpy(o, &odd, sizeof o);
    for (int i = 0; i < LANES; i++) {
        to[2 * i] = e[i] + bias;
        to[2 * i + 1] = o[i] + bias;
    }
#endif
}

static inline void store_row(float *to, const float *from, int64_t n)
{
#if defined(__AVX512F__)
    for (int64_t i = 0; i < n; i += 16) {
        __mmask16 some = n - i >= 16 ? (__mmask16)0xffff : (__mmask16)((1u << (n - i)) - 1);
        _mm512_mask_storeu_ps(to + i, some, _mm512_loadu_ps(from + i));
    }
#elif defined(__AVX2__)
    for (int64_t i = 0; i < n; i += 8) store_256(to + i, _mm256_loadu_ps(from + i), n - i);
#else
    memcpy(to, from, (size_t)n * sizeof *to);
#endif
}
