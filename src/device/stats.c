// What a device tells of itself.
#include "device/device.h"
#include <assert.h>
#include <stddef.h>
#include <string.h>

kiln_status kiln_device_get_info(kiln_device *dev, kiln_device_info *out)
{
    if (error_pending) return error_pending;
    if (!dev || !out || !out->size)
        return error_set(KILN_E_ARGUMENT, "device_get_info: %s", !dev ? "dev is NULL" : "out or out->size is not set");
    size_t n = out->size < sizeof dev->info ? out->size : sizeof dev->info;
    memcpy((char *)out + sizeof out->size, (char *)&dev->info + sizeof out->size, n - sizeof out->size);
    return KILN_OK;
}

void kiln_device_get_stats(kiln_device *dev, kiln_device_stats *out)
{
    if (!dev || !out || !out->size) {
        error_set(KILN_E_ARGUMENT, "device_get_stats: %s", !dev ? "dev is NULL" : "out or out->size is not set");
        return;
    }
    // Word by word: other threads count meanwhile.
    static_assert(sizeof dev->stats % sizeof(uint64_t) == 0, "the figures are 64-bit words");
    uint64_t s[sizeof dev->stats / sizeof(uint64_t)];
    for (size_t i = 0; i < COUNT_OF(s); i++) s[i] = __atomic_load_n((uint64_t *)&dev->stats + i, __ATOMIC_RELAXED);
    size_t n = out->size < sizeof s ? out->size : sizeof s;
    memcpy((char *)out + sizeof out->size, (char *)s + sizeof out->size, n - sizeof out->size);
}

void kiln_device_reset_stats(kiln_device *dev)
{
    if (!dev) return;
    const size_t counters = offsetof(kiln_device_stats, heap_used_B) / sizeof(uint64_t);
    for (size_t i = 0; i < counters; i++) __atomic_store_n((uint64_t *)&dev->stats + i, 0, __ATOMIC_RELAXED);
    STAT_SET(dev, heap_peak_B, STAT_GET(dev, heap_used_B));
    STAT_SET(dev, pipeline_ns, 0);
}

kiln_status kiln_device_set_memory_limit(kiln_device *dev, uint64_t limit_B)
{
    if (error_pending) return error_pending;
    return dev ? heap_set_limit(dev, limit_B) : error_set(KILN_E_ARGUMENT, "device_set_memory_limit: dev is NULL");
}

kiln_status kiln_device_trim(kiln_device *dev)
{
    if (error_pending) return error_pending;
    return dev ? heap_trim(dev) : error_set(KILN_E_ARGUMENT, "device_trim: dev is NULL");
}

kiln_status kiln_device_set_strict(kiln_device *dev, bool strict)
{
    if (error_pending) return error_pending;
    if (!dev) return error_set(KILN_E_ARGUMENT, "device_set_strict: dev is NULL");
    dev->strict = strict;
    return KILN_OK;
}

kiln_status kiln_device_synchronize(kiln_device *dev)
{
    if (error_pending) return error_pending;
    if (!dev) return error_set(KILN_E_ARGUMENT, "device_synchronize: dev is NULL");
    return dev->ops->synchronize(dev);
}

#if !KILN_WITH_VULKAN
size_t kiln_device_list(kiln_device_info *out, size_t max)
{
    return 0;
}
#endif
