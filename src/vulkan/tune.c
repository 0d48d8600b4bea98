// Tiles of products, measured: a table for each device and driver, a text beside the driver's pipelines.
//
// What the table does not say goes by estimates (ir/grid.c), which stand on what compilers for GPUs say of the tiles. A
// measured tile takes an estimate's place only where it is clearly faster: times are noisy, estimates are not. A table
// that is broken in any line is ignored whole, with a message.
#include "base/cache.h"
#include "base/clock.h"
#include "base/str.h"
#include "ir/grid.h"
#include "scalar/scalar.h"
#include "vulkan/vk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FILE_B   (1u << 20)
#define CLEARLY      0.95 // of the estimate's time
#define ROUNDS       3
#define LAUNCHES     4 // a round
#define LARGEST      2048
#define LARGEST_SOFT 512 // on processors
#define LARGEST_MANY 256 // of many products at once
#define MANY         16

static const char head[] = "kiln tiles 1\n";

// --- the text: a line a class of sizes, m n batches tile, each the smallest and largest that it holds told by one size

static bool read_line(const char *line, struct grid_tiles *t)
{
    unsigned m, n, batches, tile;
    int end = 0;
    if (sscanf(line, "%u %u %u %u%n", &m, &n, &batches, &tile, &end) != 4 || line[end]) return false;
    if (!m || !n || !batches || tile < GRID_TILE_LEAST || tile > GRID_TILE_MOST || (tile & (tile - 1))) return false;
    *grid_tuned(t, m, n, batches) = (uint8_t)__builtin_ctz(tile);
    return true;
}

int vk_tiles_parse(char *text, struct grid_tiles *out)
{
    *out = (struct grid_tiles){0};
    if (strncmp(text, head, strlen(head))) return 1;
    int number = 2;
    char *rest = NULL;
    for (char *line = strtok_r(text + strlen(head), "\n", &rest); line; line = strtok_r(NULL, "\n", &rest), number++) {
        if (read_line(line, out)) continue;
        *out = (struct grid_tiles){0};
        return number;
    }
    return 0;
}

kiln_status vk_tiles_path(const struct vk_device *vk, char *out, size_t cap)
{
    TRY(vk_cache_path(vk, out, cap));
    char *name = strrchr(out, '/') + 1; // pipelines-VENDOR-DEVICE-DRIVER.bin
    size_t length = strlen(name), word = strlen("pipelines");
    memmove(name + strlen("tiles"), name + word, length - word + 1);
    memcpy(name, "tiles", strlen("tiles"));
    memcpy(name + strlen(name) - 3, "txt", 3);
    return KILN_OK;
}

void vk_tiles_load(struct vk_device *vk)
{
    char path[4096];
    size_t size_B = 0;
    char *data = vk_tiles_path(vk, path, sizeof path) ? NULL : cache_read(path, MAX_FILE_B, &size_B);
    char *text = data ? strndup(data, size_B) : NULL;
    struct grid_tiles *t = text ? calloc(1, sizeof *t) : NULL;
    free(data);
    int wrong = t ? vk_tiles_parse(text, t) : 0;
    if (wrong) {
        log_warn("%s: line %d is none of a table of tiles: it is ignored, products go by estimates", path, wrong);
        free(t);
        t = NULL;
    }
    free(text);
    vk->owner->caps.tiles = vk->tiles = t;
}

static void save(const struct vk_device *vk, struct grid_tiles *t)
{
    char path[4096], line[64];
    struct str text;
    if (vk_tiles_path(vk, path, sizeof path)) return;
    str_init(&text);
    for (unsigned m = 0; m < GRID_SIZES; m++)
        for (unsigned n = 0; n < GRID_SIZES; n++)
            for (unsigned b = 0; b < GRID_BATCHES; b++) {
                unsigned log2 = t->log2[m][n][b];
                if (!log2) continue;
                snprintf(line, sizeof line, "%u %u %u %u\n", 1u << (m + GRID_SIZE_LEAST), 1u << (n + GRID_SIZE_LEAST),
                         1u << (3 * b), 1u << log2);
                str_add(&text, line);
            }
    if (!text.failed) cache_write(path, head, strlen(head), str_text(&text), text.len);
    str_free(&text);
}

// --- measuring

struct product {
    int64_t m, n, k, batches;
    struct block a, b, out;
};

static void operand(struct launch *l, const struct block *b, const int64_t strides[4], bool write)
{
    struct launch_operand *o = &l->operands[l->n_operands++];
    *o = (struct launch_operand){
        .address = b->address, .range_hi_B = (int64_t)b->size_B, .dtype = KILN_F32, .flags = write ? OPERAND_WRITE : 0};
    memcpy(o->strides, strides, 4 * sizeof *strides);
}

static struct launch launch_of(kernel_id kernel, const struct product *p)
{
    struct launch l = {.kernel = kernel,
                       .rank = 4,
                       .n_reduce = 1,
                       .sizes = {p->batches, p->m, p->n, p->k},
                       .extent = {p->n, p->m, p->batches},
                       .op = "device_tune"};
    operand(&l, &p->a, (int64_t[]){p->m * p->k, p->k, 0, 1}, false);
    operand(&l, &p->b, (int64_t[]){p->n * p->k, 0, 1, p->n}, false);
    operand(&l, &p->out, (int64_t[]){p->m * p->n, p->n, 1, 0}, true);
    return l;
}

// The first launch makes the pipeline.
static kiln_status time_product(kiln_device *dev, const struct launch *l, double *best_ns)
{
    TRY(dev->ops->launch(dev, l));
    for (int round = 0; round < ROUNDS; round++) {
        TRY(dev->ops->synchronize(dev));
        uint64_t from_ns = clock_now_ns();
        for (int i = 0; i < LAUNCHES; i++) TRY(dev->ops->launch(dev, l));
        TRY(dev->ops->synchronize(dev));
        double time_ns = (double)(clock_now_ns() - from_ns);
        if (round == 0 || time_ns < *best_ns) *best_ns = time_ns;
    }
    return KILN_OK;
}

static kiln_status tune_product(kiln_device *dev, const struct launch *l, const struct product *p, struct grid_tiles *t)
{
    uint8_t *place = grid_tuned(t, (uint64_t)p->m, (uint64_t)p->n, (uint64_t)p->batches);
    *place = 0;
    uint32_t estimate = grid_tile(&dev->caps, (uint64_t)p->m, (uint64_t)p->n, (uint64_t)p->batches, false);
    double best_ns, time_ns;
    uint32_t best = estimate;
    TRY(time_product(dev, l, &best_ns));
    best_ns *= CLEARLY;
    for (uint32_t tile = GRID_TILE_LEAST; tile <= GRID_TILE_MOST; tile *= 2) {
        if (tile == estimate) continue;
        *place = (uint8_t)__builtin_ctz(tile);
        TRY(time_product(dev, l, &time_ns));
        if (time_ns >= best_ns) continue;
        best_ns = time_ns;
        best = tile;
    }
    *place = (uint8_t)__builtin_ctz(best);
    return KILN_OK;
}

static kernel_id product_kernel(void)
{
    for (int i = 0; i < kernel_count; i++)
        if (kernel_catalogue[i].picks_tile && kernel_catalogue[i].cls == CLASS_F32) return (kernel_id)i;
    return 0;
}

static kiln_status tune_all(kiln_device *dev, struct product *p, struct grid_tiles *t)
{
    kernel_id kernel = product_kernel();
    for (p->batches = 1; p->batches <= MANY; p->batches *= MANY) {
        int64_t largest = p->batches > 1 ? LARGEST_MANY : grid_is_small(&dev->caps) ? LARGEST_SOFT : LARGEST;
        for (p->m = 32; p->m <= largest; p->m *= 2)
            for (p->n = 32; p->n <= largest; p->n *= 2) {
                struct launch l = launch_of(kernel, p);
                TRY(tune_product(dev, &l, p, t));
            }
    }
    return KILN_OK;
}

kiln_status vk_tune(kiln_device *dev)
{
    struct vk_device *vk = dev->impl;
    struct product p = {.k = grid_is_small(&dev->caps) ? 32 : 512};
    uint64_t side_B = LARGEST * (uint64_t)p.k * 4, out_B = UINT64_C(4) * LARGEST * LARGEST;
    if (side_B < MANY * LARGEST_MANY * (uint64_t)p.k * 4) side_B = MANY * LARGEST_MANY * (uint64_t)p.k * 4;
    if (!vk->tiles) vk->tiles = calloc(1, sizeof *vk->tiles);
    if (!vk->tiles) return error_set(KILN_E_MEMORY, "device_tune: out of memory");
    dev->caps.tiles = vk->tiles;
    kiln_status status = device_alloc(dev, side_B, &p.a);
    if (!status) status = device_alloc(dev, side_B, &p.b);
    if (!status) status = device_alloc(dev, out_B, &p.out);
    if (!status) status = tune_all(dev, &p, vk->tiles);
    if (!status) save(vk, vk->tiles);
    device_release(dev, &p.a);
    device_release(dev, &p.b);
    device_release(dev, &p.out);
    return status;
}
