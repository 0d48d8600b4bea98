// The device's clock. A mark is a query written when all work before it is done; what follows it may start at once. The
// batch with the mark is handed over right away, so that the device does not sit on it while the host records more.
#include "vulkan/vk.h"

static kiln_status make_pool(struct vk_device *vk)
{
    if (vk->timestamp_bits == 0) {
        return error_set(KILN_E_UNSUPPORTED, "device_mark: the queue of %s has no clock", vk->owner->name);
    }
    VkQueryPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                                  .queryType = VK_QUERY_TYPE_TIMESTAMP,
                                  .queryCount = KILN_MARKS};
    VK_CREATE(vk, vkCreateQueryPool, &info, &vk->timestamps);
    return KILN_OK;
}

static kiln_status record(struct vk_device *vk, unsigned mark)
{
    if (!vk->timestamps) TRY(make_pool(vk));
    TRY(vk_stream_open(vk));
    VkCommandBuffer commands = vk->batches[vk->batch].commands;
    vk->fn.vkCmdResetQueryPool(commands, vk->timestamps, mark, 1);
    vk->fn.vkCmdWriteTimestamp2(commands, VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT, vk->timestamps, mark);
    vk->marks_set |= 1u << mark;
    vk->n_recorded++;
    return vk_stream_submit(vk);
}

kiln_status vk_mark(kiln_device *dev, unsigned mark)
{
    struct vk_device *vk = dev->impl;
    pthread_mutex_lock(&vk->lock);
    kiln_status status = record(vk, mark);
    pthread_mutex_unlock(&vk->lock);
    return status;
}

static kiln_status read_marks(struct vk_device *vk, unsigned from, unsigned to, double *time_ns)
{
    const unsigned marks[2] = {from, to};
    uint64_t ticks[2];
    TRY(vk_stream_drain(vk));
    for (int i = 0; i < 2; i++) {
        if (!(vk->marks_set >> marks[i] & 1)) {
            return error_set(KILN_E_STATE, "device_elapsed: mark %u was never set", marks[i]);
        }
        VK_TRY(vk, vkGetQueryPoolResults, vk->device, vk->timestamps, marks[i], 1, sizeof ticks[i], &ticks[i],
               sizeof ticks[i], VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT);
    }
    // The counter wraps at its valid bits.
    uint64_t mask = vk->timestamp_bits < 64 ? (UINT64_C(1) << vk->timestamp_bits) - 1 : UINT64_MAX;
    *time_ns = (double)((ticks[1] - ticks[0]) & mask) * (double)vk->physical.properties.limits.timestampPeriod;
    return KILN_OK;
}

kiln_status vk_elapsed(kiln_device *dev, unsigned from, unsigned to, double *time_ns)
{
    struct vk_device *vk = dev->impl;
    pthread_mutex_lock(&vk->lock);
    kiln_status status = read_marks(vk, from, to, time_ns);
    pthread_mutex_unlock(&vk->lock);
    return status;
}
