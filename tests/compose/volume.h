// Depth, height and width of images in one to three dimensions [N,C,...]; those that an image lacks are 1.
#pragma once
#include "compose/case.h"

static inline void volume(const struct host *t, int64_t *d)
{
    for (int i = 0; i < 3; i++) d[2 - i] = t->rank > 2 + i ? t->dims[t->rank - 1 - i] : 1;
}

// The next place, in the order of memory.
static inline void next(int64_t *at, const int64_t *sizes)
{
    for (int i = 2; i >= 0; i--) {
        if (++at[i] < sizes[i]) return;
        at[i] = 0;
    }
}
