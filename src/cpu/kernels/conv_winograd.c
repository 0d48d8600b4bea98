// Convolutions of 3 x 3 taps by Winograd's algorithm (conv_winograd.h), a band of an image after the other.
//
// The 16 pixels of all tiles of a panel lie at 16 offsets in a copy of the image (conv_spread.h), in phases of 2 x 2.
#include "cpu/kernels/conv_spread.h"
#include "cpu/kernels/conv_winograd.h"
#include <math.h>

enum { OUTPUTS = 96 };

struct winograd_job {
    const struct conv_grid *g;
    struct conv_grid tiles; // as a grid of 4 x 4 taps
    struct conv_tap taps[POINTS];
    struct spread_job s;
    const float *weight; // [point][group, output] x ld
    int64_t ld;
    bool failed; // a band whose pixels are too large
};

static void tiles_of(struct winograd_job *j, const struct conv_grid *g, const struct conv_tap *first)
{
    for (int t = 0; t < POINTS; t++) j->taps[t] = (struct conv_tap){first->y + t / SIDE, first->x + t % SIDE};
    j->g = g;
    j->tiles = *g;
    j->tiles.oh = (g->oh + 1) / 2, j->tiles.ow = (g->ow + 1) / 2;
    j->tiles.sh = j->tiles.sw = 2;
    j->tiles.taps = j->taps, j->tiles.n_taps = POINTS;
}

__attribute__((cold)) double CPU_FN(cpu_winograd_bands)(const struct conv_grid *g)
{
    enum { LEAST = 16, BY_OUTPUT = 10, BY_CHANNEL = 10, WEIGHT_B = 8 << 20, TILES = 256 };
    struct winograd_job j;
    struct conv_tap first;
    int64_t which[9];
    if (g->cls != CLASS_F32 || g->sh != 1 || g->sw != 1 || !square_of(g, which, &first)) return INFINITY;
    if (g->channels < LEAST || g->outputs < LEAST || g->outputs * g->channels * POINTS * 4 > WEIGHT_B) return INFINITY;
    tiles_of(&j, g, &first);
    int64_t tiles = g->images * j.tiles.oh * j.tiles.ow;
    if (tiles < TILES || !CPU_FN(cpu_spread_start)(&j.s, &j.tiles, 1, 1)) return INFINITY;
    double places = (double)(g->images * CPU_FN(cpu_spread_panels)(&j.s, j.s.band) * WIDE * j.s.bands);
    return places * winograd_cost(g, BY_OUTPUT, BY_CHANNEL, tiles);
}

// --- weights

struct weight_job {
    const struct conv_grid *g;
    const int64_t *which;
    float *to;
    int64_t ld;
    bool failed;
};

static inline __attribute__((always_inline)) void weights_4(const tile_vector *g, int step, tile_vector *u, int to)
{
    tile_vector sum = g[0] + g[2 * step];
    u[0] = g[0];
    u[to] = 0.5F * (sum + g[step]);
    u[2 * to] = 0.5F * (sum - g[step]);
    u[3 * to] = g[2 * step];
}

// Taps of LANES channels from c on, 0 where there are fewer.
static inline void load_taps(const float *from, int64_t c, int64_t channels, const int64_t *which, tile_vector g[9])
{
    float taps[9][LANES] = {{0}};
    for (int64_t i = 0; i < least(LANES, channels - c); i++)
        for (int t = 0; t < 9; t++) taps[t][i] = from[(c + i) * 9 + which[t]];
    for (int t = 0; t < 9; t++) memcpy(&g[t], taps[t], sizeof g[t]);
}

#if defined(__AVX512F__)
// Tap t of 16 channels is every ninth of 144 numbers, and no two of them lie in the same lane, for 9 and 16 have no
// factor in common: nine loads fill one vector, which then is put in order.
static inline void load_whole_taps(const float *from, const int64_t *which, tile_vector g[9])
{
    const __m512i ninth = _mm512_set_epi32(135, 126, 117, 108, 99, 90, 81, 72, 63, 54, 45, 36, 27, 18, 9, 0);
    tile_vector v[9];
#pragma GCC unroll 9
    for (int t = 0; t < 9; t++) {
        __m512 all = _mm512_setzero_ps();
#pragma GCC unroll 9
        for (int i = 0; i < 9; i++) // element 16 i + lane is of tap (7 i + lane) % 9
            all = _mm512_mask_loadu_ps(all, (__mmask16)(0x201u << (t + 2 * i) % 9), from + 16 * i);
        v[t] = (tile_vector)_mm512_permutexvar_ps(_mm512_add_epi32(ninth, _mm512_set1_epi32(t)), all);
    }
    for (int t = 0; t < 9; t++) g[t] = v[which[t]];
}
#endif

bool CPU_FN(cpu_winograd_weights)(const float *from, int64_t channels, const int64_t *which, float *to, int64_t point)
{
    if (is_large(largest(from, channels * 9))) return false;
    for (int64_t c = 0; c < channels; c += LANES) {
        tile_vector g[9], down[3 * SIDE], u[SIDE];
#if defined(__AVX512F__)
        if (c + LANES <= channels)
            load_whole_taps(from + c * 9, which, g);
        else
#endif
            load_taps(from, c, channels, which, g);
        for (int x = 0; x < 3; x++) weights_4(g + x, 3, down + x, 3);
        for (int y = 0; y < SIDE; y++) {
            weights_4(down + 3 * y, 1, u, 1);
            for (int x = 0; x < SIDE; x++) *(stored_vector *)(to + (y * SIDE + x) * point + c) = u[x];
        }
    }
    return true;
}

static kiln_status transform_weights(void *user, int64_t begin, int64_t end)
{
    struct weight_job *w = user;
    const struct conv_grid *g = w->g;
    int64_t point = g->groups * g->outputs * w->ld;
    for (int64_t o = begin; o < end; o++) {
        const float *from = (const float *)(const void *)g->weight + o * g->ld_w;
        bool fits = CPU_FN(cpu_winograd_weights)(from, g->channels, w->which, w->to + o * w->ld, point);
        if (!fits) __atomic_store_n(&w->failed, true, __ATOMIC_RELAXED);
    }
    return KILN_OK;
}

// --- pixels and results of a panel

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

kiln_status CPU_FN(cpu_conv_winograd_bands)(const struct conv_grid *g, bool *done)
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

kiln_status CPU_FN(cpu_conv_winograd)(const struct conv_grid *g, bool *done)
{
    double bands = CPU_FN(cpu_winograd_bands)(g), deep = CPU_FN(cpu_winograd_deep)(g);
    *done = false;
    if (fmin(bands, deep) >= 0.9 * 9 * (double)(g->images * g->oh * g->ow)) return KILN_OK;
    return deep < bands ? CPU_FN(cpu_conv_winograd_deep)(g, done) : CPU_FN(cpu_conv_winograd_bands)(g, done);
}
