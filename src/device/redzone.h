// Bytes of a pattern around each block of a device whose memory the host sees (KILN_DEBUG=redzones). Part of the heap;
// programs lay them between what lies in one block.
#pragma once
#include "device/device.h"

// What the heap takes for a block of so many bytes: a zone of REDZONE_B before it, one of at least as much behind it.
#define REDZONE_B 256u
static inline uint64_t redzone_room(uint64_t size_B)
{
    return size_B + 2 * REDZONE_B;
}

// Fills that much memory, which begins and ends with zones, with the pattern.
void redzone_fill(void *room, uint64_t room_B);
// Warns of each of the zones around size_B bytes at `at` that was written; `where` is for the message.
void redzone_check(const void *at, uint64_t size_B, uint64_t behind_B, const char *where);

// The block as the heap gave it becomes what lies between the zones, filled with the pattern too.
void redzone_lay(struct block *b);
// Warns of each zone that was written, and makes the block what the heap gave.
void redzone_lift(kiln_device *dev, struct block *b);
