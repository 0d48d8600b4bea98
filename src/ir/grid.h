// How work is laid out on a device of many lanes: what launches of the catalogue and fused kernels alike decide by the
// device's abilities.
#pragma once
#include "ir/caps.h"

// Kinds of devices, as far as start values differ.
enum grid_device { GRID_PROCESSOR, GRID_INTEGRATED, GRID_WAVE_32, GRID_WAVE_64 };
enum grid_device grid_device(const struct device_caps *caps);

// A device with the few threads of a processor and short vectors: barriers cost it more than uneven accesses do.
static inline bool grid_is_small(const struct device_caps *caps)
{
    return caps->parallelism < 4096;
}

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
