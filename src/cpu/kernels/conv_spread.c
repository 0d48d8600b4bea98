// The product behind a convolution of several taps, see conv_grid.h, without columns: where packing them for each tap
// would cost more than it brings. A tile of the registers reads each position, a channel and tap, at an offset from a
// list, in a copy of the image (conv_spread.h).
#include "cpu/kernels/conv_spread.h"
#if defined(__AVX512F__)
#include <immintrin.h>
#elif defined(__AVX2__)
#include "cpu/kernels/conv256.h"
#endif

enum {
    COPY_B = 640 << 10, // of a band, which stays in the second-level cache
    LEAST_ROWS = 4,     // of a band
};

// How far the taps of all grids reach.
static void reach(const struct conv_grid *g, int64_t n, struct spread_job *j)
{
    int64_t most_y = INT64_MIN, most_x = INT64_MIN;
    j->least_y = j->least_x = INT64_MAX;
    for (int64_t i = 0; i < n; i++)
        for (int64_t t = 0; t < g[i].n_taps; t++) {
            const struct conv_tap *tap = &g[i].taps[t];
            j->least_y = least(j->least_y, tap->y), j->least_x = least(j->least_x, tap->x);
            if (tap->y > most_y) most_y = tap->y;
            if (tap->x > most_x) most_x = tap->x;
        }
    j->more_rows = (most_y - j->least_y) / g->sh;
    j->pitch = g->ow + (most_x - j->least_x) / g->sw;
}

int64_t CPU_FN(cpu_spread_panels)(const struct spread_job *j, int64_t rows)
{
    return parts((rows - 1) * j->pitch + j->g->ow, j->kind->tiles.columns);
}

// With room for what the last panel reads behind its places; no two channels lie a power of two apart.
static int64_t plane_of(const struct spread_job *j, int64_t rows)
{
    const struct conv_grid *g = j->g;
    int64_t n = g->sh * g->sw * (rows + j->more_rows) * j->pitch + 2 * j->kind->tiles.columns;
    return parts(n, 32) * 32 + 16;
}

static int64_t rows_that_fit(const struct spread_job *j)
{
    const struct conv_grid *g = j->g;
    int64_t row_B = (g->sh * g->sw * j->pitch * g->channels + 1) * 4;
    return COPY_B / row_B - j->more_rows;
}

bool CPU_FN(cpu_spread_start)(struct spread_job *j, const struct conv_grid *g, int64_t n, int64_t threads)
{
    *j = (struct spread_job){.g = g, .n = n, .kind = &CPU_FN(cpu_gemm_f32)};
    reach(g, n, j);
    int64_t rows = least(rows_that_fit(j), g->oh), images = g->images * g->groups, taps = 0;
    int64_t units = 2 * threads, fewest = least(LEAST_ROWS, g->oh);
    if (rows < fewest) return false;
    j->bands = parts(g->oh, rows);
    if (threads > 1 && images * j->bands < units) j->bands = parts(units, images);
    j->band = parts(g->oh, j->bands);
    if (j->band < fewest) j->band = fewest;
    j->bands = parts(g->oh, j->band);
    j->plane = plane_of(j, j->band);
    for (int64_t i = 0; i < n; i++)
        if (g[i].n_taps > taps) taps = g[i].n_taps;
    int64_t k = j->kind->tiles.k, passes = (g->channels * taps + k / 2) / k;
    passes = least(passes > 1 ? passes : 1, g->channels);
    j->step = parts(g->channels, passes);
    return true;
}

// In products of a vector by one number for each place, channel and tap: what columns cost, and what this does.
bool CPU_FN(cpu_conv_is_spread)(const struct conv_grid *g, int64_t n)
{
    enum { PACK = 20, WEIGHT_B = 4 << 20 };
    struct spread_job j;
    int64_t taps = 0;
    for (int64_t i = 0; i < n; i++) taps += g[i].n_taps;
    if (g->cls != CLASS_F32 || taps <= n || g->channels == 0) return false;
    if (g->outputs * g->channels * taps * 4 > WEIGHT_B) return false;
    for (int64_t i = 0; i < n; i++)
        if (g[i].n_taps == 0) return false;
    if (!CPU_FN(cpu_spread_start)(&j, g, n, 1)) return false;
    double rows = (double)(j.band * g->ow), outputs = (double)g->outputs, pack = PACK;
    double places = (double)(CPU_FN(cpu_spread_panels)(&j, j.band) * j.kind->tiles.columns) / rows;
    double copied = (double)(g->sh * g->sw * (j.band + j.more_rows) * j.pitch) / rows;
    return (places - 1) * outputs + pack * copied / (double)taps + 1 < pack;
}

// --- the copy

#if defined(__AVX512F__)
static inline __mmask16 lanes_of(int64_t from, int64_t past)
{
    uint32_t below = from <= 0 ? 0 : from >= 16 ? 0xffff : (1u << from) - 1;
    return (__mmask16)((past <= 0 ? 0 : past >= 16 ? 0xffff : (1u << past) - 1) & ~below);
}

// Of n elements, those in [from, past) are there. What lies ahead_B behind is asked of memory: the same row of the next
// channel, for a row is too short for the processor to see where it goes on.
static inline void copy_pixels(const float *first, int64_t from, int64_t past, int64_t n, int64_t ahead_B, float *to)
{
    for (int64_t i = 0; i < n; i += 16) {
        __m512 v = _mm512_maskz_loadu_ps(lanes_of(from - i, past - i), first + i);
        __builtin_prefetch((const char *)(first + i) + ahead_B);
        _mm512_mask_storeu_ps(to + i, lanes_of(0, n - i), v);
    }
}

// n pixels to each of two phases, from `first` on, of which [from, past) are there.
static inline void copy_pairs(const float *first, int64_t from, int64_t past, int64_t n, int64_t ahead_B,
                              float *const to[2])
{
    const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    for (int64_t i = 0; i < n; i += 16) {
        const float *at = first + 2 * i;
        __m512 low = _mm512_maskz_loadu_ps(lanes_of(from - 2 * i, past - 2 * i), at);
        __m512 high = _mm512_maskz_loadu_ps(lanes_of(from - 2 * i - 16, past - 2 * i - 16), at + 16);
        __mmask16 some = lanes_of(0, n - i);
        __builtin_prefetch((const char *)at + ahead_B);
        __builtin_prefetch((const char *)(at + 16) + ahead_B);
        _mm512_mask_storeu_ps(to[0] + i, some, _mm512_permutex2var_ps(low, even, high));
        _mm512_mask_storeu_ps(to[1] + i, some, _mm512_permutex2var_ps(low, odd, high));
    }
}
#elif defined(__AVX2__)
static inline void copy_pixels(const float *first, int64_t from, int64_t past, int64_t n, int64_t ahead_B, float *to)
{
    for (int64_t i = 0; i < n; i += 8) {
        __m256 v = _mm256_maskload_ps(first + i, lanes_256(from - i, past - i));
        __builtin_prefetch((const char *)(first + i) + ahead_B);
        store_256(to + i, v, n - i);
    }
}

static inline void copy_pairs(const float *first, int64_t from, int64_t past, int64_t n, int64_t ahead_B,
                              float *const to[2])
{
    for (int64_t i = 0; i < n; i += 8) {
        const float *at = first + 2 * i;
        __m256 low = _mm256_maskload_ps(at, lanes_256(from - 2 * i, past - 2 * i));
        __m256 high = _mm256_maskload_ps(at + 8, lanes_256(from - 2 * i - 8, past - 2 * i - 8));
        __builtin_prefetch((const char *)at + ahead_B);
        store_256(to[0] + i, evens_256(low, high), n - i);
        store_256(to[1] + i, odds_256(low, high), n - i);
    }
}
#endif

// A row of a phase: n elements, of which [from, past) are there; the first would lie at `row`.
struct spread_row {
    int64_t from, past, n;
};

static struct spread_row row_of(const struct spread_job *j, int64_t x)
{
    const struct conv_grid *g = j->g;
    struct spread_row r = {x >= 0 ? 0 : parts(-x, g->sw), g->w > x ? parts(g->w - x, g->sw) : 0, j->pitch};
    r.past = least(r.past, r.n);
    if (r.from > r.past) r.from = r.past = 0;
    return r;
}

static void copy_row(const struct conv_grid *g, const struct spread_row *r, const char *row, float *to)
{
    int64_t stride = g->x.o->strides[3] * g->sw;
    const char *at = row + r->from * stride * g->x.size_B;
    const float *pixels = (const float *)(const void *)at;
#if defined(__AVX2__)
    if (g->x.native && stride == 1) {
        copy_pixels(pixels - r->from, r->from, r->past, r->n, g->x.o->strides[1] * 4, to);
        return;
    }
#endif
    for (int64_t i = 0; i < r->from; i++) to[i] = 0;
    if (!g->x.native)
        CPU_FN(cpu_load)(g->x.o->dtype, CLASS_F32, to + r->from, at, r->past - r->from, stride);
    else if (stride == 1)
        memcpy(to + r->from, pixels, (size_t)(r->past - r->from) * sizeof *to);
    else if (stride == 2)
        for (int64_t i = r->from; i < r->past; i++) to[i] = pixels[(i - r->from) * 2];
    else
        for (int64_t i = r->from; i < r->past; i++) to[i] = pixels[(i - r->from) * stride];
    for (int64_t i = r->past; i < r->n; i++) to[i] = 0;
}

// Rows of the phases of one channel that begin `down` pixels below a place; returns what is behind them.
static float *copy_phases(const struct spread_job *j, const struct spread_unit *u, int64_t channel, int64_t down,
                          float *to)
{
    const struct conv_grid *g = j->g;
    int64_t rows = u->rows + j->more_rows, y0 = u->y0 * g->sh + j->least_y + down, step = g->sw;
    const char *plane = conv_at(&g->x, u->image, channel, 0, 0);
    for (int64_t right = 0; right < g->sw; right += step) {
        int64_t x = j->least_x + right, row_B = g->x.o->strides[2] * g->x.size_B;
        const char *from = plane + x * g->x.o->strides[3] * g->x.size_B;
        struct spread_row part = row_of(j, x);
        step = 1;
#if defined(__AVX2__)
        bool pairs = g->sw == 2 && g->x.native && g->x.o->strides[3] == 1;
        int64_t past = least(g->w - x, 2 * j->pitch);
        if (pairs) step = 2;
#endif
        for (int64_t r = 0, y = y0; r < rows; r++, y += g->sh, to += j->pitch) {
#if defined(__AVX2__)
            if (pairs && y >= 0 && y < g->h) {
                const float *first = (const float *)(const void *)(from + y * row_B);
                copy_pairs(first, -x, past, j->pitch, g->x.o->strides[1] * 4,
                           (float *const[]){to, to + rows * j->pitch});
                continue;
            }
            if (pairs) memset(to + rows * j->pitch, 0, (size_t)j->pitch * sizeof *to);
#endif
            if (y >= 0 && y < g->h)
                copy_row(g, &part, from + y * row_B, to);
            else
                memset(to, 0, (size_t)j->pitch * sizeof *to);
        }
        to += (step - 1) * rows * j->pitch;
    }
    return to;
}

static void copy_band(const struct spread_job *j, const struct spread_unit *u)
{
    const struct conv_grid *g = j->g;
    for (int64_t c = 0; c < g->channels; c++) {
        float *to = (float *)(void *)u->copy + c * j->plane, *end = to + j->plane;
        for (int64_t down = 0; down < g->sh; down++) to = copy_phases(j, u, u->group * g->channels + c, down, to);
        memset(to, 0, (size_t)(end - to) * sizeof *to);
    }
}

void CPU_FN(cpu_spread_positions)(const struct spread_job *j, const struct conv_grid *g, int64_t rows, int32_t *at_B)
{
    for (int64_t c = 0; c < j->step; c++)
        for (int64_t t = 0; t < g->n_taps; t++) {
            int64_t y = g->taps[t].y - j->least_y, x = g->taps[t].x - j->least_x;
            int64_t phase = y % g->sh * g->sw + x % g->sw;
            int64_t row = phase * (rows + j->more_rows) + y / g->sh;
            *at_B++ = (int32_t)((c * j->plane + row * j->pitch + x / g->sw) * 4);
        }
}

// --- the product

static void multiply(const struct spread_job *j, const struct conv_grid *g, const struct spread_unit *u,
                     const int32_t *at_B, int64_t panel, float *sums)
{
    const struct gemm_kind *kind = j->kind;
    int64_t wide = kind->tiles.columns, heights = parts(g->outputs, kind->tiles.rows);
    for (int64_t c = 0; c < g->channels; c += j->step) {
        struct gemm_tile t = {.k = least(g->channels - c, j->step) * g->n_taps,
                              .b = u->copy + (c * j->plane + panel * wide) * 4,
                              .at_B = at_B,
                              .row_B = g->ld_w * 4,
                              .step_B = 4,
                              .ld_out = wide,
                              .columns = wide,
                              .add = c > 0};
        for (int64_t i = 0, r = 0; i < heights; i++) {
            int64_t rows = g->outputs / heights + (i < g->outputs % heights);
            t.a = g->weight + ((u->group * g->outputs + r) * g->ld_w + c * g->n_taps) * 4;
            t.out = sums + r * wide;
            kind->spread[rows - 1](&t);
            r += rows;
        }
    }
}

int64_t CPU_FN(cpu_spread_runs)(const struct spread_job *j, int64_t rows, int64_t panel, struct spread_run *runs)
{
    int64_t wide = j->kind->tiles.columns, n = 0, length;
    for (int64_t i = 0; i < wide; i += length) {
        int64_t y = (panel * wide + i) / j->pitch, x = (panel * wide + i) % j->pitch;
        if (y >= rows) break;
        length = least(j->pitch - x, wide - i);
        int64_t inside = least(j->g->ow - x, length);
        if (inside > 0) runs[n++] = (struct spread_run){i, inside, y, x};
    }
    return n;
}

static char *result_at(const struct conv_grid *g, const struct spread_unit *u, const struct spread_run *r)
{
    return conv_at(&g->y, u->image, u->group * g->outputs, u->y0 + r->y, r->x);
}

#if defined(__AVX512F__)
// 16 places, or those of them that `some` says, to every element or every second.
static inline void store_16(char *to, __mmask16 some, __m512 v, bool apart)
{
    const __m512i low = _mm512_set_epi32(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0);
    const uint32_t twice = _pdep_u32(some, 0x55555555);
    if (!apart) {
        if (some) _mm512_mask_storeu_ps(to, some, v);
        return;
    }
    __m512 upper = _mm512_permutexvar_ps(_mm512_add_epi32(low, _mm512_set1_epi32(8)), v);
    if (some & 0xff) _mm512_mask_storeu_ps(to, (__mmask16)twice, _mm512_permutexvar_ps(low, v));
    if (some & 0xff00) _mm512_mask_storeu_ps(to + 64, (__mmask16)(twice >> 16), upper);
}

static void store_f32(const struct spread_job *j, const struct conv_grid *g, const struct spread_unit *u,
                      const struct spread_run *runs, int64_t n)
{
    const float *bias = j->bias ? j->bias + u->group * g->outputs : NULL;
    int64_t next_B = g->y.o->strides[1] * 4, step = g->y.o->strides[3];
    for (int64_t i = 0; i < n; i++) {
        uint32_t all = (uint32_t)((((uint64_t)1 << runs[i].n) - 1) << runs[i].from);
        char *to = result_at(g, u, &runs[i]) - runs[i].from * step * 4;
        for (int64_t o = 0; o < g->outputs; o++, to += next_B) {
            __m512 less = bias ? _mm512_set1_ps(bias[o]) : _mm512_setzero_ps();
            const float *sums = u->sums + o * 32;
            store_16(to, (__mmask16)all, _mm512_add_ps(_mm512_loadu_ps(sums), less), step == 2);
            store_16(to + 64 * step, (__mmask16)(all >> 16), _mm512_add_ps(_mm512_loadu_ps(sums + 16), less),
                     step == 2);
        }
    }
}
#else
static void store_f32(const struct spread_job *j, const struct conv_grid *g, const struct spread_unit *u,
                      const struct spread_run *runs, int64_t n)
{
    const float *bias = j->bias ? j->bias + u->group * g->outputs : NULL;
    for (int64_t i = 0; i < n; i++) {
        float *to = (float *)(void *)result_at(g, u, &runs[i]);
        int64_t step = g->y.o->strides[3];
        for (int64_t o = 0; o < g->outputs; o++, to += g->y.o->strides[1]) {
            const float *sums = u->sums + o * j->kind->tiles.columns + runs[i].from;
            float more = bias ? bias[o] : 0;
#if defined(__AVX2__)
            for (int64_t x = 0; x < runs[i].n && step == 1; x += 8)
                store_256(to + x, _mm256_add_ps(_mm256_loadu_ps(sums + x), _mm256_set1_ps(more)), runs[i].n - x);
            if (step == 1) continue;
#endif
            for (int64_t x = 0; x < runs[i].n; x++) to[x * step] = sums[x] + more;
        }
    }
}
#endif

#if defined(__AVX2__) && !defined(__AVX512F__)
// Whether results of the second grid lie between those of the first: then both are stored together.
static bool take_turns(const struct spread_job *j, const struct conv_grid *g)
{
    const int64_t *s = g[0].y.o->strides, *t = g[1].y.o->strides;
    bool same = s[0] == t[0] && s[1] == t[1] && s[2] == t[2] && s[3] == 2 && t[3] == 2;
    return same && !j->bias && g[0].y.native && g[1].y.base == g[0].y.base + sizeof(float);
}

// Of both grids, from sums one behind the other.
static void store_turns(const struct spread_job *j, const struct conv_grid *g, const struct spread_unit *u,
                        const struct spread_run *runs, int64_t n)
{
    int64_t wide = j->kind->tiles.columns;
    for (int64_t i = 0; i < n; i++) {
        float *to = (float *)(void *)result_at(g, u, &runs[i]);
        const float *even = u->sums + runs[i].from, *odd = even + g->outputs * wide;
        for (int64_t o = 0; o < g->outputs; o++, to += g->y.o->strides[1], even += wide, odd += wide)
            for (int64_t x = 0; x < runs[i].n; x += 8) {
                __m256 both[2];
                in_turns_256(_mm256_loadu_ps(even + x), _mm256_loadu_ps(odd + x), both);
                store_256(to + 2 * x, both[0], 2 * (runs[i].n - x));
                if (runs[i].n - x > 4) store_256(to + 2 * x + 8, both[1], 2 * (runs[i].n - x) - 8);
            }
    }
}
#else
static bool take_turns(const struct spread_job *j, const struct conv_grid *g)
{
    (void)j, (void)g;
    return false;
}

static void store_turns(const struct spread_job *j, const struct conv_grid *g, const struct spread_unit *u,
                        const struct spread_run *runs, int64_t n)
{
    (void)j, (void)g, (void)u, (void)runs, (void)n;
}
#endif

static void store_any(const struct spread_job *j, const struct conv_grid *g, const struct spread_unit *u,
                      const struct spread_run *runs, int64_t n)
{
    int64_t wide = j->kind->tiles.columns;
    for (int64_t o = 0; o < g->outputs && j->bias; o++)
        for (int64_t x = 0; x < wide; x++) u->sums[o * wide + x] += j->bias[u->group * g->outputs + o];
    for (int64_t i = 0; i < n; i++) CPU_FN(cpu_store_tile)
    (result_at(g, u, &runs[i]), g->y.o->dtype, g->y.o->strides[1], g->y.o->strides[3], u->sums + runs[i].from, wide,
     CLASS_F32, g->outputs, runs[i].n);
}

// Of `grids` grids, one or two.
static void store(const struct spread_job *j, const struct conv_grid *g, int64_t grids, const struct spread_unit *u,
                  const struct spread_run *runs, int64_t n)
{
    if (grids == 2)
        store_turns(j, g, u, runs, n);
    else if (g->y.native && (g->y.o->strides[3] == 1 || g->y.o->strides[3] == 2))
        store_f32(j, g, u, runs, n);
    else
        store_any(j, g, u, runs, n);
}

bool CPU_FN(cpu_spread_unit)(const struct spread_job *j, int64_t i, struct spread_unit *u)
{
    int64_t of_image = i / j->bands;
    u->group = of_image % j->g->groups, u->image = of_image / j->g->groups, u->y0 = i % j->bands * j->band;
    u->rows = least(j->g->oh - u->y0, j->band);
    if (u->rows < 1) return false;
    copy_band(j, u);
    return true;
}

// `grids` grids from the k-th on, whose positions are listed.
static void run_panels(const struct spread_job *j, int64_t k, int64_t grids, const struct spread_unit *u,
                       const int32_t *at_B)
{
    const struct conv_grid *g = j->g + k;
    for (int64_t p = 0; p < CPU_FN(cpu_spread_panels)(j, u->rows); p++) {
        struct spread_run runs[SPREAD_RUNS];
        int64_t n = CPU_FN(cpu_spread_runs)(j, u->rows, p, runs);
        multiply(j, g, u, at_B, p, u->sums);
        if (grids == 2)
            multiply(j, g + 1, u, at_B + j->step * g->n_taps, p, u->sums + g->outputs * j->kind->tiles.columns);
        store(j, g, grids, u, runs, n);
    }
}

static kiln_status run_units(void *user, int64_t begin, int64_t end)
{
    const struct spread_job *j = user;
    const struct conv_grid *g = j->g;
    int64_t taps = 0, copy_B = g->channels * j->plane * 4, sums_B = 2 * g->outputs * j->kind->tiles.columns * 4;
    for (int64_t i = 0; i < j->n; i++) taps += g[i].n_taps;
    char *room = cpu_scratch(CPU_SCRATCH_CUSTOM, (size_t)(copy_B + sums_B + j->step * taps * 4));
    if (!room) return error_pending;
    struct spread_unit u = {
        .sums = (float *)(void *)room, .copy = room + sums_B, .at_B = (int32_t *)(void *)(room + sums_B + copy_B)};
    int64_t listed = -1; // for bands of so many rows
    for (int64_t i = begin; i < end; i++) {
        if (!CPU_FN(cpu_spread_unit)(j, i, &u)) continue;
        int32_t *at_B = u.at_B;
        for (int64_t k = 0; k < j->n && listed != u.rows; at_B += j->step * g[k].n_taps, k++)
            CPU_FN(cpu_spread_positions)(j, g + k, u.rows, at_B);
        listed = u.rows;
        at_B = u.at_B;
        for (int64_t k = 0, grids; k < j->n; k += grids) {
            grids = k + 1 < j->n && take_turns(j, g + k) ? 2 : 1;
            run_panels(j, k, grids, &u, at_B);
            for (int64_t n = k; n < k + grids; n++) at_B += j->step * g[n].n_taps;
        }
    }
    return KILN_OK;
}

kiln_status CPU_FN(cpu_spread_bias)(struct spread_job *j)
{
    const struct conv_grid *g = j->g;
    const struct conv_side *bias = g->bias;
    if (!bias) return KILN_OK;
    int64_t n = g->groups * g->outputs;
    float *to = cpu_scratch(CPU_SCRATCH_SUMS, (size_t)n * sizeof *to);
    if (!to) return error_pending;
    j->bias = to;
    float one = f32_bits(bias->o->address);
    if (bias->o->flags & OPERAND_IMMEDIATE)
        for (int64_t i = 0; i < n; i++) to[i] = one;
    else
        CPU_FN(cpu_load)(bias->o->dtype, CLASS_F32, to, bias->base, n, bias->o->strides[1]);
    return KILN_OK;
}

kiln_status CPU_FN(cpu_conv_spread)(const struct conv_grid *g, int64_t n)
{
    struct spread_job j;
    int64_t taps = 0;
    CPU_FN(cpu_spread_start)(&j, g, n, cpu_threads());
    TRY(CPU_FN(cpu_spread_bias)(&j));
    for (int64_t i = 0; i < n; i++) taps += g[i].n_taps;
    int64_t size = g->outputs * g->channels * taps * j.band * g->ow;
    return cpu_parallel(g->images * g->groups * j.bands, size / 16 + 64, run_units, &j);
}
