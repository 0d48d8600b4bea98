// Sizes of tiles for products, workgroups to a row, and numbers of workgroups folded into three dimensions.
#include "ir/grid.h"

static unsigned log2_up(uint64_t n)
{
    return n > 1 ? 64 - (unsigned)__builtin_clzll(n - 1) : 0;
}

static unsigned size_class(uint64_t n)
{
    unsigned log2 = log2_up(n);
    if (log2 <= GRID_SIZE_LEAST) return 0;
    return log2 - GRID_SIZE_LEAST < GRID_SIZES ? log2 - GRID_SIZE_LEAST : GRID_SIZES - 1;
}

uint8_t *grid_tuned(struct grid_tiles *t, uint64_t m, uint64_t n, uint64_t batches)
{
    unsigned batch_class = log2_up(batches) / 3;
    return &t->log2[size_class(m)][size_class(n)][batch_class < GRID_BATCHES ? batch_class : GRID_BATCHES - 1];
}

uint32_t grid_tile(const struct device_caps *caps, uint64_t m, uint64_t n, uint64_t batches, bool wide)
{
    if (caps->tiles && !wide) {
        uint8_t log2 = *grid_tuned((struct grid_tiles *)(uintptr_t)caps->tiles, m, n, batches);
        if (log2) return 1u << log2;
    }
    uint64_t enough = caps->parallelism / 512 + 1;
    uint32_t tile = wide ? GRID_TILE_MOST / 2 : GRID_TILE_MOST;
    while (tile > GRID_TILE_LEAST && ceil_div(m, tile) * ceil_div(n, tile) * batches < enough) tile /= 2;
    while (tile > GRID_TILE_LEAST && (m <= tile / 2 || n <= tile / 2)) tile /= 2;
    return tile;
}

uint32_t grid_tile_local(uint32_t tile)
{
    return tile == GRID_TILE_MOST ? 256 : tile == GRID_TILE_LEAST ? 64 : 128;
}

// So long that the reads of shared memory and the loop itself cost less than a seventh of the multiply-adds. Processors
// gain nothing, and run out of registers.
uint32_t grid_tile_run(const struct device_caps *caps, uint32_t tile, bool simple)
{
    if (grid_is_small(caps) || !simple) return 1;
    return 8;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint32_t grid_splits(const struct device_caps *caps, const struct grid_rows *r)
{
    uint64_t room = caps->parallelism, busy = r->groups * r->local, splits = 1, least = 1;
    if (caps->max_turns) least = ceil_div(r->length, (uint64_t)r->lanes * caps->max_turns);
    if (busy && busy * 2 <= room && r->length >= GRID_SPLIT_FROM) {
        splits = smaller(2 * room / busy, r->length / (r->lanes * UINT64_C(16)));
        splits = smaller(splits, r->lanes * (r->columns ? UINT64_C(8) : 4));
    }
    if (splits < least) splits = least;
    return splits < 2 ? 1 : (uint32_t)splits;
}

void grid_fold(uint64_t n_groups, uint32_t groups[3])
{
    groups[0] = (uint32_t)(n_groups < GRID_X_MAX ? n_groups : GRID_X_MAX);
    groups[1] = n_groups ? (uint32_t)ceil_div(n_groups, groups[0]) : 1;
    groups[2] = 1;
}
