// What a device tells of itself.
#include "device/device.h"
#include "base/options.h"
#include <assert.h>
#include <stddef.h>
#include <string.h>

kiln_status kiln_device_get_info(kiln_device *dev, kiln_device_info *out)
{
    if (error_pending) return error_pending;
    TRY(device_check("device_get_info", dev));
    TRY(sized_check("device_get_info", kiln_device_info, out));
    sized_fill(out, &dev->info, sizeof dev->info);
    return KILN_OK;
}

void kiln_device_get_stats(kiln_device *dev, kiln_device_stats *out)
{
    if (device_check("device_get_stats", dev)) return;
    if (sized_check("device_get_stats", kiln_device_stats, out)) return;
    // Word by word: other threads count meanwhile.
    static_assert(sizeof dev->stats % sizeof(uint64_t) == 0, "the figures are 64-bit words");
    uint64_t s[sizeof dev->stats / sizeof(uint64_t)];
    for (size_t i = 0; i < COUNT_OF(s); i++) s[i] = __atomic_load_n((uint64_t *)&dev->stats + i, __ATOMIC_RELAXED);
    sized_fill(out, s, sizeof s);
}

void kiln_device_reset_stats(kiln_device *dev)
{
    if (!dev || device_check("device_reset_stats", dev)) return;
    const size_t counters = offsetof(kiln_device_stats, heap_used_B) / sizeof(uint64_t);
    for (size_t i = 0; i < counters; i++) __atomic_store_n((uint64_t *)&dev->stats + i, 0, __ATOMIC_RELAXED);
    STAT_SET(dev, heap_peak_B, STAT_GET(dev, heap_used_B));
    STAT_SET(dev, pipeline_ns, 0);
    STAT_SET(dev, idle_waits, 0);
    STAT_SET(dev, wasted_launches, 0);
    STAT_SET(dev, recorded_launches, 0);
}

kiln_status kiln_device_set_memory_limit(kiln_device *dev, uint64_t limit_B)
{
    if (error_pending) return error_pending;
    TRY(device_check("device_set_memory_limit", dev));
    return heap_set_limit(dev, limit_B);
}

kiln_status kiln_device_trim(kiln_device *dev)
{
    if (error_pending) return error_pending;
    TRY(device_check("device_trim", dev));
    return heap_trim(dev);
}

kiln_status kiln_device_tune(kiln_device *dev)
{
    if (error_pending) return error_pending;
    TRY(device_check("device_tune", dev));
    if (dev->ops->tune) return dev->ops->tune(dev);
    return error_set(KILN_E_UNSUPPORTED, "device_tune: %s (%s) has nothing that is measured", dev->name,
                     dev->ops->kind);
}

kiln_status kiln_device_set_strict(kiln_device *dev, bool strict)
{
    if (error_pending) return error_pending;
    TRY(device_check("device_set_strict", dev));
    dev->strict = strict;
    return KILN_OK;
}

kiln_status kiln_device_synchronize(kiln_device *dev)
{
    if (error_pending) return error_pending;
    TRY(device_check("device_synchronize", dev));
    return dev->ops->synchronize(dev);
}
