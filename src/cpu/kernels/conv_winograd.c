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
//
// The 16 pixels of all tiles of a panel lie at 16 offsets in a copy of the image (conv_spread.h), in phases of 2 x 2.
#include "cpu/kernels/conv_spread.h"

enum { SIDE = 4, POINTS = 16, SPARE = 16, OUTPUTS = 96 };

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

struct winograd_job {
    const struct conv_grid *g;
    struct conv_grid tiles; // as a grid of 4 x 4 taps
    struct conv_tap taps[POINTS];
    struct spread_job s;
    const float *weight; // [point][group, output] x ld
    int64_t ld;
    bool failed; // a band whose pixels are too large
};

// The tap at each of 3 x 3 places from the least one.
static bool square_of(const struct conv_grid *g, int64_t *which, struct conv_tap *first)
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

static void tiles_of(struct winograd_job *j, const struct conv_grid *g, const struct conv_tap *first)
{
    for (int t = 0; t < POINTS; t++) j->taps[t] = (struct conv_tap){first->y + t / SIDE, first->x + t % SIDE};
    j->g = g;
    j->tiles = *g;
    j->tiles.oh = (g->oh + 1) / 2, j->tiles.ow = (g->ow + 1) / 2;
    j->tiles.sh = j->tiles.sw = 2;
    j->tiles.taps = j->taps, j->tiles.n_taps = POINTS;
}

// In products for each channel and output: transforms cost some of both.
bool CPU_FN(cpu_conv_is_winograd)(const struct conv_grid *g)
{
    enum { LEAST = 16, BY_OUTPUT = 10, BY_CHANNEL = 10, WEIGHT_B = 8 << 20, TILES = 256 };
    struct winograd_job j;
    struct conv_tap first;
    int64_t which[9];
    if (g->cls != CLASS_F32 || g->sh != 1 || g->sw != 1 || !square_of(g, which, &first)) return false;
    if (g->channels < LEAST || g->outputs < LEAST || g->outputs * g->channels * POINTS * 4 > WEIGHT_B) return false;
    tiles_of(&j, g, &first);
    if (g->images * j.tiles.oh * j.tiles.ow < TILES || !CPU_FN(cpu_spread_start)(&j.s, &j.tiles, 1, 1)) return false;
    double places = (double)(CPU_FN(cpu_spread_panels)(&j.s, j.s.band) * WIDE * j.s.bands);
    double around = 1 + (double)BY_OUTPUT / (double)g->outputs + (double)BY_CHANNEL / (double)g->channels;
    return places * POINTS * around < 0.9 * 9 * (double)(g->oh * g->ow);
}

// --- weights

struct weight_job {
    const struct conv_grid *g;
    const int64_t *which;
    float *to;
    int64_t ld;
    bool failed;
};

static bool is_large(uint32_t most)
{
    enum { EXPONENT_2_100 = (127 + 100) << 23 };
    return most >= EXPONENT_2_100; // infinities and NaN too
}

static uint32_t largest(const float *x, int64_t n)
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

static void transform_3(const float *g, float *u)
{
    float sum = g[0] + g[2];
    u[0] = g[0];
    u[1] = 0.5F * (sum + g[1]);
    u[2] = 0.5F * (sum - g[1]);
    u[3] = g[2];
}

static kiln_status transform_weights(void *user, int64_t begin, int64_t end)
{
    struct weight_job *w = user;
    const struct conv_grid *g = w->g;
    int64_t point = g->groups * g->outputs * w->ld;
    for (int64_t o = begin; o < end; o++) {
        const float *from = (const float *)(const void *)g->weight + o * g->ld_w;
        if (is_large(largest(from, g->channels * 9))) __atomic_store_n(&w->failed, true, __ATOMIC_RELAXED);
        for (int64_t c = 0; c < g->channels; c++, from += 9) {
            float down[3][SIDE], u[SIDE], column[3];
            for (int x = 0; x < 3; x++) {
                for (int y = 0; y < 3; y++) column[y] = from[w->which[y * 3 + x]];
                transform_3(column, down[x]);
            }
            for (int y = 0; y < SIDE; y++) {
                for (int x = 0; x < 3; x++) column[x] = down[x][y];
                transform_3(column, u);
                for (int x = 0; x < SIDE; x++) w->to[(y * SIDE + x) * point + o * w->ld + c] = u[x];
            }
        }
    }
    return KILN_OK;
}

// --- pixels and results of a panel

static inline __attribute__((always_inline)) void pixels_4(const tile_vector *d, int step, tile_vector *v)
{
    v[0] = d[0] - d[2 * step];
    v[step] = d[step] + d[2 * step];
    v[2 * step] = d[2 * step] - d[step];
    v[3 * step] = d[step] - d[3 * step];
}

// From a point to the next, in pixels or sums of n channels or outputs: no power of two, at which all 16 would meet in
// one set of the nearest cache.
static inline int64_t point_of(int64_t n)
{
    return (n + 1) * WIDE;
}

// [point][channel] x WIDE from the copy.
static void transform_pixels(const struct winograd_job *j, const struct spread_unit *u, int64_t panel, float *to)
{
    int64_t channels = j->g->channels, point = point_of(channels);
    for (int64_t c = 0; c < channels; c++, to += WIDE) {
        const char *at = u->copy + (c * j->s.plane + panel * WIDE) * 4;
        for (int half = 0; half < 2; half++) {
            tile_vector d[POINTS], v[POINTS];
            for (int t = 0; t < POINTS; t++) d[t] = *(const stored_vector *)(at + u->at_B[t] + half * VECTOR_B);
            for (int x = 0; x < SIDE; x++) pixels_4(d + x, SIDE, v + x);
            for (int y = 0; y < SIDE; y++) pixels_4(v + y * SIDE, 1, d + y * SIDE);
            for (int t = 0; t < POINTS; t++) *(stored_vector *)(to + t * point + half * LANES) = d[t];
        }
    }
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

// Two rows of 2 WIDE results of one output, from sums [point] `point` elements apart.
static void transform_sums(const float *sums, int64_t point, float bias, float (*rows)[2 * WIDE + LANES])
{
    for (int half = 0; half < 2; half++) {
        tile_vector m[POINTS], down[2 * SIDE], y[4];
        for (int t = 0; t < POINTS; t++) m[t] = *(const stored_vector *)(sums + t * point + half * LANES);
        for (int x = 0; x < SIDE; x++) results_2(m + x, SIDE, down + x, SIDE);
        for (int r = 0; r < 2; r++) {
            results_2(down + r * SIDE, 1, y + 2 * r, 1);
            add_turns(y[2 * r], y[2 * r + 1], bias, rows[r] + half * WIDE);
        }
    }
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

static void store_panel(const struct winograd_job *j, const struct spread_unit *u, const struct spread_run *runs,
                        int64_t n, int64_t o0, int64_t outputs)
{
    const struct conv_grid *g = j->g;
    float rows[2][2 * WIDE + LANES]; // with room for what a whole vector reads behind
    const int64_t *s = g->y.o->strides;
    for (int64_t o = 0; o < outputs; o++) {
        int64_t output = u->group * g->outputs + o0 + o;
        transform_sums(u->sums + o * WIDE, point_of(outputs), j->s.bias ? j->s.bias[output] : 0, rows);
        for (int64_t i = 0; i < 2 * n; i++) {
            const struct spread_run *r = runs + i / 2;
            int64_t y = 2 * (u->y0 + r->y) + i % 2, x = 2 * r->x, count = least(2 * r->n, g->ow - x);
            if (y >= g->oh) continue;
            char *to = conv_at(&g->y, u->image, output, y, x);
            if (g->y.native && s[3] == 1)
                store_row((float *)(void *)to, rows[i % 2] + 2 * r->from, count);
            else
                CPU_FN(cpu_store)(g->y.o->dtype, CLASS_F32, to, rows[i % 2] + 2 * r->from, count, s[3]);
        }
    }
}

static void multiply(const struct winograd_job *j, const struct spread_unit *u, const float *pixels, int64_t o0,
                     int64_t outputs)
{
    const struct conv_grid *g = j->g;
    const struct gemm_kind *kind = j->s.kind;
    int64_t heights = (outputs + kind->tiles.rows - 1) / kind->tiles.rows, point = g->groups * g->outputs * j->ld;
    struct gemm_tile t = {
        .k = g->channels, .row_B = j->ld * 4, .step_B = 4, .b_step_B = WIDE * 4, .ld_out = WIDE, .columns = WIDE};
    for (int64_t p = 0; p < POINTS; p++)
        for (int64_t i = 0, r = 0; i < heights; i++) {
            int64_t rows = outputs / heights + (i < outputs % heights);
            t.next = t.b = (const char *)(pixels + p * point_of(g->channels));
            t.a = (const char *)(j->weight + p * point + (u->group * g->outputs + o0 + r) * j->ld);
            t.out = u->sums + p * point_of(outputs) + r * WIDE;
            kind->tile[rows - 1][1](&t);
            r += rows;
        }
}

static kiln_status run_units(void *user, int64_t begin, int64_t end)
{
    struct winograd_job *j = user;
    const struct conv_grid *g = j->g;
    int64_t copy = g->channels * j->s.plane, pixels = POINTS * point_of(g->channels);
    int64_t most = least(g->outputs, OUTPUTS), sums = POINTS * point_of(most);
    struct spread_job one = j->s;
    one.step = 1;
    int32_t at_B[POINTS];
    float *room = cpu_scratch(CPU_SCRATCH_CUSTOM, (size_t)(copy + pixels + sums) * sizeof *room);
    if (!room) return error_pending;
    struct spread_unit u = {.sums = room, .copy = (char *)(room + sums + pixels), .at_B = at_B};
    for (int64_t i = begin; i < end; i++) {
        if (!CPU_FN(cpu_spread_unit)(&j->s, i, &u)) continue;
        if (is_large(largest((const float *)(const void *)u.copy, copy))) {
            __atomic_store_n(&j->failed, true, __ATOMIC_RELAXED);
            return KILN_OK;
        }
        CPU_FN(cpu_spread_positions)(&one, &j->tiles, u.rows, at_B);
        for (int64_t p = 0; p < CPU_FN(cpu_spread_panels)(&j->s, u.rows); p++) {
            struct spread_run runs[SPREAD_RUNS];
            int64_t n = CPU_FN(cpu_spread_runs)(&j->s, u.rows, p, runs);
            transform_pixels(j, &u, p, room + sums);
            for (int64_t o = 0; o < g->outputs; o += most) {
                int64_t outputs = least(g->outputs - o, most);
                multiply(j, &u, room + sums, o, outputs);
                store_panel(j, &u, runs, n, o, outputs);
            }
        }
    }
    return KILN_OK;
}

kiln_status CPU_FN(cpu_conv_winograd)(const struct conv_grid *g, bool *done)
{
    struct winograd_job j = {0};
    struct conv_tap first;
    int64_t which[9], all = g->groups * g->outputs;
    square_of(g, which, &first);
    tiles_of(&j, g, &first);
    CPU_FN(cpu_spread_start)(&j.s, &j.tiles, 1, cpu_threads());
    TRY(CPU_FN(cpu_spread_bias)(&j.s));
    j.ld = g->channels + SPARE;
    float *to = cpu_scratch(CPU_SCRATCH_PIECES, (size_t)(POINTS * all * j.ld) * sizeof *to);
    if (!to) return error_pending;
    struct weight_job w = {g, which, to, j.ld, false};
    TRY(cpu_parallel(all, g->channels * 16, transform_weights, &w));
    j.weight = to;
    int64_t units = g->images * g->groups * j.s.bands, size = g->outputs * g->channels * 4 * j.s.band * g->ow;
    *done = !w.failed;
    if (w.failed) return KILN_OK;
    TRY(cpu_parallel(units, size / 16 + 64, run_units, &j));
    *done = !j.failed;
    return KILN_OK;
}
