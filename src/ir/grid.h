// How work is laid out on a device of many lanes: what launches of the catalogue and fused kernels alike decide by the
// device's abilities.
#pragma once
#include "ir/caps.h"

// A device with the few threads of a processor and short vectors: barriers cost it more than uneven accesses do.
static inline bool grid_is_small(const struct device_caps *caps)
{
    return caps->parallelism < 4096;
}

// Products go by squares of results, GRID_TILE_LEAST to GRID_TILE_MOST wide.
#define GRID_TILE_LEAST 32
#define GRID_TILE_MOST  128
// The largest square that still gives the device enough workgroups and is not mostly outside; `wide`: of 64-bit values.
uint32_t grid_tile(const struct device_caps *caps, uint64_t m, uint64_t n, uint64_t batches, bool wide);
// What was measured of the same products, of 32-bit values: the tile's logarithm; 0: nothing. Sizes go by their
// logarithms.
enum { GRID_SIZE_LEAST = 5, GRID_SIZES = 10, GRID_BATCHES = 4 };
struct grid_tiles {
    uint8_t log2[GRID_SIZES][GRID_SIZES][GRID_BATCHES]; // m, n, batches
};
// The place in the table of products of these sizes.
uint8_t *grid_tuned(struct grid_tiles *t, uint64_t m, uint64_t n, uint64_t batches);
uint32_t grid_tile_local(uint32_t tile); // invocations that compute it
// Steps along the sum that are one run of instructions; `simple`: of each a product and its sum are one.
uint32_t grid_tile_run(const struct device_caps *caps, uint32_t tile, bool simple);

// Rows, each of which `lanes` invocations share; a workgroup has `local` of them.
struct grid_rows {
    uint64_t groups, length; // workgroups that the rows make; elements of a row
    uint32_t lanes, local;
    bool columns; // neighbouring invocations belong to neighbouring rows
};
// How many workgroups share a row: more than one only where the rows alone leave most of the device idle, and then so
// many that it is filled twice over; or where a lane's loop would be longer than the device allows. Bounds: the work
// that is left to each lane, and what one lane combines at the end.
#define GRID_SPLIT_FROM 8192 // shorter rows are not worth a second round
uint32_t grid_splits(const struct device_caps *caps, const struct grid_rows *r);

// A grid of one dimension, folded where x is too short for it; shaders undo it with group_index().
#define GRID_X_MAX UINT64_C(65535) // what every Vulkan device has
void grid_fold(uint64_t n_groups, uint32_t groups[3]);
