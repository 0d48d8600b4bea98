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

void redzone_lay(struct block *b)
{
    memset(b->host, PATTERN, REDZONE_B + b->size_B + tail_B(b));
    move(b, REDZONE_B);
}

static void check(const kiln_device *dev, const struct block *b, const unsigned char *zone, uint64_t n, bool before)
{
    uint64_t written = 0, first = 0;
    for (uint64_t i = n; i-- > 0;) {
        if (zone[i] == PATTERN) continue;
        first = i;
        written++;
    }
    if (!written) return;
    log_warn("redzones: %llu bytes %s a block of %llu on %s were written, the first %llu bytes %s it (at %#llx)",
             (unsigned long long)written, before ? "before" : "behind", (unsigned long long)b->size_B, dev->name,
             (unsigned long long)(before ? n - first : first), before ? "before" : "behind",
             (unsigned long long)(uintptr_t)(zone + first));
}

void redzone_lift(kiln_device *dev, struct block *b)
{
    const unsigned char *host = b->host;
    check(dev, b, host - REDZONE_B, REDZONE_B, true);
    check(dev, b, host + b->size_B, tail_B(b), false);
    move(b, -(int64_t)REDZONE_B);
}
