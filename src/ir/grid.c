// Kinds of devices, workgroups to a row, and numbers of workgroups folded into three dimensions.
#include "ir/grid.h"

enum grid_device grid_device(const struct device_caps *caps)
{
    if (grid_is_small(caps)) return GRID_PROCESSOR;
    if (caps->parallelism < 1 << 16) return GRID_INTEGRATED;
    return caps->subgroup_size > 32 ? GRID_WAVE_64 : GRID_WAVE_32;
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
