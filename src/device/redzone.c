// Redzones: what writes beyond a block changes the pattern around it, and is told of when the block is given back. As a
// float of any width the pattern is large: what reads beyond a block, or memory that nothing wrote, is seen in results.
#include "device/redzone.h"
#include <string.h>

#define PATTERN 0xfb

static uint64_t tail_B(const struct block *b)
{
    return REDZONE_B + (REDZONE_B - b->size_B % REDZONE_B) % REDZONE_B;
}

static void move(struct block *b, int64_t by_B)
{
    b->address += (uint64_t)by_B;
    b->host = (char *)b->host + by_B;
}

void redzone_fill(void *room, uint64_t room_B)
{
    memset(room, PATTERN, room_B);
}

void redzone_lay(struct block *b)
{
    redzone_fill(b->host, REDZONE_B + b->size_B + tail_B(b));
    move(b, REDZONE_B);
}

static void check(const unsigned char *zone, uint64_t n, bool before, uint64_t size_B, const char *where)
{
    uint64_t written = 0, first = 0;
    for (uint64_t i = n; i-- > 0;) {
        if (zone[i] == PATTERN) continue;
        first = i;
        written++;
    }
    if (!written) return;
    log_warn("redzones: %llu bytes %s a block of %llu on %s were written, the first %llu bytes %s it (at %#llx)",
             (unsigned long long)written, before ? "before" : "behind", (unsigned long long)size_B, where,
             (unsigned long long)(before ? n - first : first), before ? "before" : "behind",
             (unsigned long long)(uintptr_t)(zone + first));
}

void redzone_check(const void *at, uint64_t size_B, uint64_t behind_B, const char *where)
{
    const unsigned char *block = at;
    check(block - REDZONE_B, REDZONE_B, true, size_B, where);
    check(block + size_B, behind_B, false, size_B, where);
}

void redzone_lift(kiln_device *dev, struct block *b)
{
    redzone_check(b->host, b->size_B, tail_B(b), dev->name);
    move(b, -(int64_t)REDZONE_B);
}
