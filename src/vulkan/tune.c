// Tiles are measured: for each class of work the start value and all others of its kind's list for which the device has
// room.
//
// The operands are small integers, so that sums are exact in whichever order: a tile takes part only where its results
// have the bits of the start value's, in work that tiles divide and in work with an edge. Times are medians of rounds
// in which all tiles take turns. A tile takes the start value's place only where it is clearly faster, for times are
// noisy. Launches say which tile they work in, so that others go on with those that the table has.
#include "base/clock.h"
#include "ir/grid.h"
#include "scalar/scalar.h"
#include "vulkan/vk.h"

#include <stdlib.h>
#include <string.h>

#define CLEARLY       0.95 // of the start value's time
#define ROUNDS        5
#define ROUND_NS      200000.0
#define MOST_LAUNCHES 32 // a round
#define APART         64 // elements between the beginnings of both sides of a product, which lie in one block

struct trial {
    kiln_device *dev;
    struct block in, out;
    uint64_t in_B, out_B;
    char *filled, *want, *got; // by the host: what `in` has, results of `out_B`
    uint64_t depth, most;      // steps of a product; elements of an operand
};

// --- one class of work

static const char *const measured[TILE_KINDS] = {
    [TILE_PRODUCT] = "matmul", [TILE_ROW] = "reduce_sum", [TILE_COLUMN] = "reduce_sum", [TILE_POINT] = "add"};

static bool find_kernel(const struct tile_work *w, kernel_id *out)
{
    for (int i = 0; i < kernel_count; i++) {
        const struct kernel_info *k = &kernel_catalogue[i];
        if (k->kind == KERNEL_NONE || k->cls != w->cls || strcmp(k->name, measured[w->kind])) continue;
        *out = (kernel_id)i;
        return true;
    }
    return false;
}

static unsigned dtype_for(uint8_t cls)
{
    return cls == CLASS_F32 ? KILN_F32 : cls == CLASS_F64 ? KILN_F64 : cls == CLASS_I32 ? KILN_I32 : KILN_I64;
}

static void operand(struct launch *l, const struct block *b, uint64_t at_B, unsigned dtype, bool write,
                    const int64_t *strides)
{
    struct launch_operand *o = &l->operands[l->n_operands++];
    *o = (struct launch_operand){.address = b->address + at_B,
                                 .range_hi_B = (int64_t)(b->size_B - at_B),
                                 .dtype = (uint8_t)dtype,
                                 .flags = write ? OPERAND_WRITE : 0};
    memcpy(o->strides, strides, l->rank * sizeof *strides);
}

// In all three, `cut` of each size is left away, so that tiles have edges.
static void lay_product(const struct trial *t, const struct tile_work *w, int64_t cut, unsigned dtype, struct launch *l)
{
    int64_t m = (int64_t)w->sizes[0], n = (int64_t)w->sizes[1], k = (int64_t)t->depth;
    l->rank = 4, l->n_reduce = 1;
    l->sizes[0] = (int64_t)w->sizes[2], l->sizes[1] = m - cut, l->sizes[2] = n - cut, l->sizes[3] = k - cut;
    l->extent[0] = l->sizes[2], l->extent[1] = l->sizes[1], l->extent[2] = l->sizes[0];
    operand(l, &t->in, 0, dtype, false, (int64_t[]){m * k, k, 0, 1});
    operand(l, &t->in, APART * dtype_size_B[dtype], dtype, false, (int64_t[]){n * k, 0, 1, n});
    operand(l, &t->out, 0, dtype, true, (int64_t[]){m * n, n, 1, 0});
}

static void lay_rows(const struct trial *t, const struct tile_work *w, int64_t cut, unsigned dtype, struct launch *l)
{
    int64_t n = (int64_t)w->sizes[0], length = (int64_t)w->sizes[1];
    bool columns = w->kind == TILE_COLUMN;
    l->rank = 2, l->n_reduce = 1;
    l->sizes[0] = n > cut ? n - cut : n, l->sizes[1] = length - cut;
    operand(l, &t->in, 0, dtype, false, columns ? (int64_t[]){1, n + 1} : (int64_t[]){length, 1});
    operand(l, &t->out, 0, dtype, true, (int64_t[]){1, 0});
}

static void lay_points(const struct trial *t, const struct tile_work *w, int64_t cut, unsigned dtype, struct launch *l)
{
    const int64_t step[] = {w->sizes[1] == 4 ? 1 : 2};
    l->rank = 1;
    l->sizes[0] = (int64_t)w->sizes[0] - cut;
    operand(l, &t->in, 0, dtype, false, step);
    operand(l, &t->in, APART * dtype_size_B[dtype], dtype, false, step);
    operand(l, &t->out, 0, dtype, true, step);
}

static struct launch launch_of(const struct trial *t, const struct tile_work *w, int64_t cut)
{
    struct launch l = {.op = "device_tune"};
    unsigned dtype = dtype_for(w->cls);
    find_kernel(w, &l.kernel);
    if (w->kind == TILE_PRODUCT)
        lay_product(t, w, cut, dtype, &l);
    else if (w->kind == TILE_POINT)
        lay_points(t, w, cut, dtype, &l);
    else
        lay_rows(t, w, cut, dtype, &l);
    return l;
}

static kiln_status launch_in(const struct trial *t, struct launch *l, struct tile tile)
{
    l->variant[2] = tile.size;
    l->variant[3] = tile.run;
    return t->dev->ops->launch(t->dev, l);
}

// All of the results, over other bits than there were.
static kiln_status results_of(const struct trial *t, const struct tile_work *w, struct tile tile, char *out)
{
    for (int cut = 0; cut < 2; cut++, out += t->out_B) {
        struct launch l = launch_of(t, w, cut);
        memset(out, 0xa5, t->out_B);
        TRY(device_upload(t->dev, t->out.address, out, t->out_B));
        TRY(launch_in(t, &l, tile));
        TRY(device_download(t->dev, out, t->out.address, t->out_B));
    }
    return KILN_OK;
}

static kiln_status time_of(const struct trial *t, struct launch *l, struct tile tile, int launches, double *time_ns)
{
    TRY(t->dev->ops->synchronize(t->dev));
    uint64_t from_ns = clock_now_ns();
    for (int i = 0; i < launches; i++) TRY(launch_in(t, l, tile));
    TRY(t->dev->ops->synchronize(t->dev));
    *time_ns = (double)(clock_now_ns() - from_ns);
    return KILN_OK;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static kiln_status race(const struct trial *t, const struct tile_work *w, const struct tile *tiles, unsigned n,
                        struct tile *best)
{
    struct launch l = launch_of(t, w, 0);
    double times_ns[TILE_LISTED][ROUNDS], once_ns, least_ns = 0;
    TRY(time_of(t, &l, tiles[0], 1, &once_ns));
    int launches = once_ns * MOST_LAUNCHES < ROUND_NS ? MOST_LAUNCHES : 1 + (int)(ROUND_NS / once_ns);
    for (int round = 0; round < ROUNDS; round++)
        for (unsigned i = 0; i < n; i++) TRY(time_of(t, &l, tiles[i], launches, &times_ns[i][round]));
    for (unsigned i = 0; i < n; i++) {
        qsort(times_ns[i], ROUNDS, sizeof(double), by_size);
        double median_ns = times_ns[i][ROUNDS / 2];
        if (i > 0 && median_ns >= least_ns) continue;
        least_ns = i > 0 ? median_ns : CLEARLY * median_ns;
        *best = tiles[i];
    }
    return KILN_OK;
}

// The start value, and what has room and the same results.
static kiln_status candidates(const struct trial *t, const struct tile_work *w, struct tile *out, unsigned *n)
{
    const struct device_caps *caps = &t->dev->caps;
    out[0] = tile_start(caps, w);
    *n = 1;
    TRY(results_of(t, w, out[0], t->want));
    for (unsigned i = 1; tile_of(w->kind, i).size; i++) {
        struct tile tile = tile_of(w->kind, i);
        if (i == tile_number(w->kind, out[0]) || !tile_fits(caps, w->kind, w->cls, tile)) continue;
        if (!tile_is_worth_trying(caps, w->kind, tile)) continue;
        TRY(results_of(t, w, tile, t->got));
        if (!memcmp(t->got, t->want, 2 * t->out_B))
            out[(*n)++] = tile;
        else
            log_warn("device_tune: %s: %s:%u:%u has other results than %s:%u:%u, and is left out", t->dev->name,
                     tile_kind_names[w->kind], tile.size, tile.run, tile_kind_names[w->kind], out[0].size, out[0].run);
    }
    return KILN_OK;
}

static void *pattern(uint8_t cls, uint64_t n)
{
    void *p = malloc(n * 8);
    for (uint64_t i = 0; p && i < n; i++) {
        int v = (int)(i * 2654435761u >> 16 & 7) - 3;
        switch (cls) {
        case CLASS_F32: ((float *)p)[i] = (float)v; break;
        case CLASS_F64: ((double *)p)[i] = v; break;
        case CLASS_I32: ((int32_t *)p)[i] = v; break;
        default: ((int64_t *)p)[i] = v; break;
        }
    }
    return p;
}

// Less of the work, where all of it is more than is worth measuring.
static void bound(const struct trial *t, struct tile_work *w)
{
    uint64_t *s = w->sizes;
    if (w->kind == TILE_PRODUCT) {
        while (s[2] > 1 && s[2] * s[0] * s[1] > t->most) s[2] /= 2;
        while (s[0] * s[1] > t->most) s[s[0] < s[1]] /= 2;
    } else {
        while (s[0] > 1 && s[0] * (w->kind == TILE_POINT ? 2 : s[1]) > t->most) s[0] /= 2;
    }
}

// Elements of both operands together, and of the result.
static void count_elements(const struct trial *t, const struct tile_work *w, uint64_t *in, uint64_t *out)
{
    const uint64_t *s = w->sizes;
    *in = (s[0] + 1) * s[1];
    *out = s[0];
    if (w->kind == TILE_PRODUCT) {
        *in = s[2] * (s[0] > s[1] ? s[0] : s[1]) * t->depth + APART;
        *out = s[0] * s[1] * s[2];
    } else if (w->kind == TILE_POINT) {
        *in = 2 * s[0] + APART;
        *out = 2 * s[0];
    }
}

static kiln_status prepare(struct trial *t, const struct tile_work *w)
{
    uint64_t value_B = dtype_size_B[dtype_for(w->cls)], in, out;
    count_elements(t, w, &in, &out);
    t->in_B = in * value_B;
    t->out_B = out * value_B;
    t->filled = pattern(w->cls, in);
    t->want = malloc(2 * t->out_B);
    t->got = malloc(2 * t->out_B);
    if (!t->filled || !t->want || !t->got) return error_set(KILN_E_MEMORY, "device_tune: out of memory");
    TRY(device_alloc(t->dev, t->in_B, &t->in));
    TRY(device_alloc(t->dev, t->out_B, &t->out));
    return device_upload(t->dev, t->in.address, t->filled, t->in_B);
}

static bool can_measure(kiln_device *dev, const struct tile_work *w)
{
    struct launch l = {.op = "device_tune"};
    return w->cls != CLASS_BOOL && find_kernel(w, &l.kernel) && dev->ops->supports(dev, &l);
}

static kiln_status measure(kiln_device *dev, uint32_t place)
{
    bool small = grid_is_small(&dev->caps);
    struct trial t = {.dev = dev, .depth = small ? 32 : 512, .most = small ? 1 << 18 : 1 << 23};
    struct tile_work w = tile_largest_of(place);
    struct tile tiles[TILE_LISTED], best = {0, 0};
    unsigned n = 0;
    if (!can_measure(dev, &w)) return KILN_OK;
    bound(&t, &w);
    kiln_status status = prepare(&t, &w);
    if (!status) status = candidates(&t, &w, tiles, &n);
    if (!status) status = race(&t, &w, tiles, n, &best);
    if (!status && !dev->caps.tiles->forced) tile_set(dev->caps.tiles, place, tile_number(w.kind, best));
    device_release(dev, &t.in);
    device_release(dev, &t.out);
    free(t.filled), free(t.want), free(t.got);
    return status;
}

// --- which classes

// Of f32, which stands for f16 and bf16 too; the rest is measured as it is asked for.
static bool is_usual(const struct device_caps *caps, const struct tile_work *w)
{
    bool small = grid_is_small(caps);
    const uint64_t *s = w->sizes, longest = small ? 256 : 2048;
    if (w->cls != CLASS_F32) return false;
    if (w->kind == TILE_POINT) return s[0] <= (small ? 1 << 17 : 1 << 26);
    if (w->kind != TILE_PRODUCT) return s[0] <= longest && s[1] <= (small ? 512 : 32768);
    return s[0] <= longest && s[1] <= longest && (s[2] == 1 || (!small && s[0] * s[1] * s[2] <= 1 << 20));
}

kiln_status vk_tune(kiln_device *dev)
{
    for (uint32_t place = 0; place < TILE_PLACES; place++) {
        struct tile_work w = tile_largest_of(place);
        if (tile_place(&w) == place && is_usual(&dev->caps, &w)) TRY(measure(dev, place));
    }
    vk_tiles_save(vk_of(dev));
    return KILN_OK;
}

void vk_leave(kiln_device *dev)
{
    struct vk_device *vk = vk_of(dev);
    struct tile_table *t = &vk->tiles;
    bool any = false;
    kiln_status status = KILN_OK;
    if (!t->notes || vk->lost || error_pending) return;
    t->notes = false;
    for (uint32_t place = 0; place < TILE_PLACES && !status; place++) {
        if (!t->asked[place] || t->number[place]) continue;
        status = measure(dev, place);
        any = any || t->number[place];
    }
    if (status) {
        log_warn("KILN_TUNE: %s: %s", dev->name, kiln_error_message());
        kiln_error_clear();
    }
    if (any) vk_tiles_save(vk);
}
