// Windows along one axis: where each begins, and which elements it has.
#pragma once
#include "base/base.h"
#include "compose/composite.h"

struct sliding {
    int64_t kernel, stride, padding, dilation;
    bool ceil_mode; // a last window may hang over the end, if it begins inside, or in the padding before
    int64_t count;  // of windows
};

// Fills .count for an axis of `size` elements of `argument`; false with an error where no window fits. The options must
// be sound: kernel, stride and dilation from 1, padding from 0, all at most INT32_MAX.
bool sliding_count(struct sliding *s, int64_t size, const char *argument, int axis);
// i64 [count, kernel]: the places of the elements of windows without padding.
kiln_tensor *sliding_places(const struct sliding *s, kiln_device *dev);
// What windows [..., count, kernel, ...], the first of these axes being `axis`, add up to along one of `length`.
kiln_tensor *sliding_added(kiln_tensor *windows, int axis, const struct sliding *s, int64_t length);
