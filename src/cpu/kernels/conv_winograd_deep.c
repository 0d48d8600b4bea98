// Convolutions of 3 x 3 taps by Winograd's algorithm (conv_winograd.h), the tiles of several images side by side: where
// few of an image meet the weights of many channels. Pixels are transformed once, for all outputs; weights of a block
// of outputs at a time, so that those of no layer lie in memory whole.
#include "cpu/kernels/conv_spread.h"
#include "cpu/kernels/conv_winograd.h"
#include <math.h>

enum { BLOCK = 48, LEAST_BLOCK = 24 }; // outputs whose transformed weights lie in the nearer caches

struct deep_job {
    const struct conv_grid *g;
    const struct gemm_kind *kind;
    struct conv_tap first;
    int64_t which[9];
    int64_t image0, images;            // at once
    int64_t high, wide, tiles, panels; // of an image, of an image, of all of these
    int64_t rows, columns;             // of an image with 0 around it
    int64_t blocks, ld;                // of a group; of a row of weights
    float *pixels;                     // [group, panel, point][channel, and one] x WIDE
    const float *bias;
    bool failed; // pixels or weights too large
};

static int64_t panel_of(const struct deep_job *j) // elements
{
    return POINTS * (j->g->channels + 1) * WIDE;
}

static void take_images(struct deep_job *j, int64_t image0, int64_t images)
{
    j->image0 = image0, j->images = least(images, j->g->images - image0);
    j->tiles = j->images * j->high * j->wide;
    j->panels = parts(j->tiles, WIDE);
}

// As many images at once as have pixels that stay near.
static bool deep_of(struct deep_job *j, const struct conv_grid *g)
{
    enum { PIXELS_B = 8 << 20 };
    *j = (struct deep_job){.g = g, .kind = &CPU_FN(cpu_gemm_f32)};
    if (g->cls != CLASS_F32 || g->sh != 1 || g->sw != 1 || !square_of(g, j->which, &j->first)) return false;
    j->high = parts(g->oh, 2), j->wide = parts(g->ow, 2);
    j->rows = 2 * j->high + 2, j->columns = 2 * j->wide + 2;
    j->ld = whole_lanes(g->channels) + SPARE;
    int64_t image_B = g->groups * j->high * j->wide * POINTS * g->channels * 4;
    if (image_B == 0 || image_B > PIXELS_B) return false;
    take_images(j, 0, parts(g->images, parts(g->images, PIXELS_B / image_B)));
    return true;
}

__attribute__((cold)) double CPU_FN(cpu_winograd_deep)(const struct conv_grid *g)
{
    enum { LEAST = 32, BY_OUTPUT = 20, BY_CHANNEL = 20 };
    struct deep_job j;
    if (!deep_of(&j, g) || g->channels < LEAST || g->outputs < LEAST) return INFINITY;
    double times = (double)g->images / (double)j.images;
    return times * (double)(j.panels * WIDE) * winograd_cost(g, BY_OUTPUT, BY_CHANNEL, j.tiles);
}

// --- pixels

// The image of a channel, 0 around it.
static void copy_plane(const struct deep_job *j, int64_t image, int64_t channel, float *to)
{
    const struct conv_grid *g = j->g;
    int64_t from = -j->first.x > 0 ? least(-j->first.x, j->columns) : 0, past = least(g->w - j->first.x, j->columns);
    if (past < from) past = from;
    for (int64_t r = 0, y = j->first.y; r < j->rows; r++, y++, to += j->columns) {
        memset(to, 0, (size_t)j->columns * sizeof *to);
        if (y < 0 || y >= g->h || past == from) continue;
        const char *at = conv_at(&g->x, j->image0 + image, channel, y, j->first.x + from);
        if (g->x.native && g->x.o->strides[3] == 1)
            memcpy(to + from, at, (size_t)(past - from) * sizeof *to);
        else
            CPU_FN(cpu_load)(g->x.o->dtype, CLASS_F32, to + from, at, past - from, g->x.o->strides[3]);
    }
}

// Where the first pixel of each tile lies among the planes of all images; what is behind the last tile meets the first.
static void list_tiles(const struct deep_job *j, int32_t *at)
{
    int64_t i = 0;
    for (int64_t image = 0; image < j->images; image++)
        for (int64_t y = 0; y < j->high; y++)
            for (int64_t x = 0; x < j->wide; x++) at[i++] = (int32_t)((image * j->rows + 2 * y) * j->columns + 2 * x);
    while (i < j->panels * WIDE) at[i++] = 0;
}

static inline tile_vector pick(const float *from, const int32_t *at)
{
#if defined(__AVX512F__)
    return (tile_vector)_mm512_i32gather_ps(_mm512_loadu_si512(at), from, 4);
#else
    tile_vector v;
    for (int i = 0; i < LANES; i++) v[i] = from[at[i]];
    return v;
#endif
}

static void transform_channel(const struct deep_job *j, const float *planes, const int32_t *at, float *to)
{
    int64_t point = (j->g->channels + 1) * WIDE;
    for (int64_t i = 0; i < j->panels * WIDE; i += LANES) {
        tile_vector d[POINTS], v[POINTS];
        float *first = to + i / WIDE * panel_of(j) + i % WIDE;
        for (int t = 0; t < POINTS; t++) d[t] = pick(planes + t / SIDE * j->columns + t % SIDE, at + i);
        for (int x = 0; x < SIDE; x++) pixels_4(d + x, SIDE, v + x);
        for (int y = 0; y < SIDE; y++) pixels_4(v + y * SIDE, 1, d + y * SIDE);
        for (int t = 0; t < POINTS; t++) *(stored_vector *)(first + t * point) = d[t];
    }
}

static kiln_status transform_pixels(void *user, int64_t begin, int64_t end)
{
    struct deep_job *j = user;
    int64_t plane = j->rows * j->columns, all = j->images * plane, n = j->panels * WIDE;
    float *planes = cpu_scratch(CPU_SCRATCH_CUSTOM, (size_t)all * sizeof *planes + (size_t)n * sizeof(int32_t));
    if (!planes) return error_pending;
    int32_t *at = (int32_t *)(void *)(planes + all);
    list_tiles(j, at);
    for (int64_t i = begin; i < end; i++) {
        int64_t group = i / j->g->channels, channel = i % j->g->channels;
        for (int64_t image = 0; image < j->images; image++) copy_plane(j, image, i, planes + image * plane);
        if (is_large(largest(planes, all))) {
            __atomic_store_n(&j->failed, true, __ATOMIC_RELAXED);
            return KILN_OK;
        }
        transform_channel(j, planes, at, j->pixels + group * j->panels * panel_of(j) + channel * WIDE);
    }
    return KILN_OK;
}

// --- a block of outputs

struct deep_block {
    int64_t group, o0, outputs;
    float *weight, *sums; // [point][output] x ld, [point][output] x sums_ld
    float *rows;          // [2], of results
};

// No power of two.
static int64_t sums_ld(const struct deep_job *j)
{
    return j->panels * WIDE + SPARE;
}

static bool transform_block(const struct deep_job *j, const struct deep_block *b)
{
    const struct conv_grid *g = j->g;
    for (int64_t o = 0; o < b->outputs; o++) {
        const float *from = (const float *)(const void *)g->weight + (b->group * g->outputs + b->o0 + o) * g->ld_w;
        if (!CPU_FN(cpu_winograd_weights)(from, g->channels, j->which, b->weight + o * j->ld, b->outputs * j->ld))
            return false;
    }
    return true;
}

// While a tile of rows meets a panel, the first two ask for the next one.
static void multiply(const struct deep_job *j, const struct deep_block *b)
{
    int64_t heights = parts(b->outputs, j->kind->tiles.rows), point = (j->g->channels + 1) * WIDE;
    struct gemm_tile t = {.k = j->g->channels,
                          .row_B = j->ld * 4,
                          .step_B = 4,
                          .b_step_B = WIDE * 4,
                          .ld_out = sums_ld(j),
                          .columns = WIDE};
    for (int64_t p = 0; p < POINTS; p++)
        for (int64_t panel = 0; panel < j->panels; panel++) {
            const float *from = j->pixels + (b->group * j->panels + panel) * panel_of(j) + p * point;
            int64_t next = panel + 1 < j->panels ? panel_of(j) : point - (j->panels - 1) * panel_of(j);
            t.b = (const char *)from;
            for (int64_t i = 0, r = 0; i < heights; i++) {
                int64_t rows = b->outputs / heights + (i < b->outputs % heights);
                t.next = i < 2 ? (const char *)(from + next) + i * 64 : t.b;
                t.next_B = i < 2 ? WIDE * 4 : 0;
                t.a = (const char *)(b->weight + (p * b->outputs + r) * j->ld);
                t.out = b->sums + (p * b->outputs + r) * t.ld_out + panel * WIDE;
                j->kind->tile[rows - 1][1](&t);
                r += rows;
            }
        }
}

static void transform_sums(const struct deep_job *j, const struct deep_block *b, int64_t output, float bias)
{
    int64_t n = j->panels * WIDE, point = b->outputs * sums_ld(j);
    const float *from = b->sums + output * sums_ld(j);
    for (int64_t i = 0; i < n; i += LANES) {
        tile_vector m[POINTS], down[2 * SIDE], y[2];
        for (int t = 0; t < POINTS; t++) m[t] = *(const stored_vector *)(from + t * point + i);
        for (int x = 0; x < SIDE; x++) results_2(m + x, SIDE, down + x, SIDE);
        for (int r = 0; r < 2; r++) {
            results_2(down + r * SIDE, 1, y, 1);
            add_turns(y[0], y[1], bias, b->rows + r * 2 * n + 2 * i);
        }
    }
}

static void store_output(const struct deep_job *j, const struct deep_block *b, int64_t output)
{
    const struct conv_grid *g = j->g;
    int64_t step = g->y.o->strides[3], n = 2 * j->panels * WIDE;
    for (int64_t image = 0; image < j->images; image++)
        for (int64_t y = 0; y < g->oh; y++) {
            const float *from = b->rows + y % 2 * n + 2 * (image * j->high + y / 2) * j->wide;
            char *to = conv_at(&g->y, j->image0 + image, output, y, 0);
            if (g->y.native && step == 1)
                store_row((float *)(void *)to, from, g->ow);
            else
                CPU_FN(cpu_store)(g->y.o->dtype, CLASS_F32, to, from, g->ow, step);
        }
}

static kiln_status run_blocks(void *user, int64_t begin, int64_t end)
{
    struct deep_job *j = user;
    const struct conv_grid *g = j->g;
    int64_t most = parts(g->outputs, j->blocks), weight = POINTS * most * j->ld, sums = POINTS * most * sums_ld(j);
    int64_t rows = 4 * j->panels * WIDE + LANES; // with room for what a whole vector reads behind
    float *room = cpu_scratch(CPU_SCRATCH_CUSTOM, (size_t)(weight + sums + rows) * sizeof *room);
    if (!room) return error_pending;
    struct deep_block b = {.weight = room, .sums = room + weight, .rows = room + weight + sums};
    for (int64_t i = begin; i < end; i++) {
        int64_t block = i % j->blocks;
        b.group = i / j->blocks, b.o0 = g->outputs * block / j->blocks;
        b.outputs = g->outputs * (block + 1) / j->blocks - b.o0;
        if (!transform_block(j, &b)) {
            __atomic_store_n(&j->failed, true, __ATOMIC_RELAXED);
            return KILN_OK;
        }
        multiply(j, &b);
        for (int64_t o = 0; o < b.outputs; o++) {
            int64_t output = b.group * g->outputs + b.o0 + o;
            transform_sums(j, &b, o, j->bias ? j->bias[output] : 0);
            store_output(j, &b, output);
        }
    }
    return KILN_OK;
}

static int64_t blocks_of(const struct conv_grid *g)
{
    int64_t blocks = parts(g->outputs, BLOCK), threads = cpu_threads(), uneven = g->groups * blocks % threads;
    if (uneven && g->outputs / (blocks + 1) >= LEAST_BLOCK) blocks += parts(threads - uneven, g->groups);
    return blocks;
}

kiln_status CPU_FN(cpu_conv_winograd_deep)(const struct conv_grid *g, bool *done)
{
    struct deep_job j;
    struct spread_job biased = {.g = g};
    deep_of(&j, g);
    TRY(CPU_FN(cpu_spread_bias)(&biased));
    j.bias = biased.bias;
    j.blocks = blocks_of(g);
    j.pixels = cpu_scratch(CPU_SCRATCH_PIECES, (size_t)(g->groups * j.panels * panel_of(&j)) * sizeof *j.pixels);
    if (!j.pixels) return error_pending;
    *done = false;
    for (int64_t image = 0, at_once = j.images; image < g->images && !j.failed; image += at_once) {
        take_images(&j, image, at_once);
        int64_t cost = g->channels * POINTS * j.tiles * parts(g->outputs, j.blocks);
        TRY(cpu_parallel(g->groups * g->channels, j.tiles * POINTS, transform_pixels, &j));
        if (!j.failed) TRY(cpu_parallel(g->groups * j.blocks, cost / 16 + 64, run_blocks, &j));
    }
    *done = !j.failed;
    return KILN_OK;
}
