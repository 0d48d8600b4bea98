// The one stream of a device: commands are recorded into a batch, batches go to the queue, a timeline semaphore counts
// them.
//
// A batch is a command buffer from a ring of MAX_BATCHES; its timeline value is one more than that of the batch before.
// After an idle time the first batch is small, so that the device starts early; the next ones hold about a hundred
// commands, so that a submission's cost is spread thin. A batch also ends when the work in it is estimated to be long:
// no submission may hold the queue for seconds. Whoever needs a result submits what is open and waits for its value.
//
// Invariants: values on the queue rise; everything with a value <= `completed` is done; a batch's command buffer is
// recorded anew only when its last value is completed.
#include "vulkan/vk.h"

#include <stdlib.h>

#define FIRST_BATCH  16
#define FULL_BATCH   100
#define WAIT_LIMIT_S 120

kiln_status vk_stream_init(struct vk_device *vk)
{
    const char *limit = getenv("KILN_WAIT_S");
    long limit_s = limit ? strtol(limit, NULL, 10) : 0;
    vk->wait_limit_ns = (uint64_t)(limit_s > 0 ? limit_s : WAIT_LIMIT_S) * 1000000000u;
    vk->work_limit = vk->physical.software ? UINT64_C(1) << 29 : UINT64_C(1) << 38;

    VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                      .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    VkSemaphoreCreateInfo semaphore = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
    VK_TRY(vk, vkCreateSemaphore, vk->device, &semaphore, NULL, &vk->timeline);
    for (int i = 0; i < MAX_BATCHES; i++) {
        struct vk_batch *b = &vk->batches[i];
        VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                        .flags = VK_COMMAND_POOL_CREATE_TRANSIENT_BIT,
                                        .queueFamilyIndex = vk->queue_family};
        VK_TRY(vk, vkCreateCommandPool, vk->device, &pool, NULL, &b->pool);
        VkCommandBufferAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                            .commandPool = b->pool,
                                            .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                            .commandBufferCount = 1};
        VK_TRY(vk, vkAllocateCommandBuffers, vk->device, &info, &b->commands);
    }
    return KILN_OK;
}

void vk_stream_finish(struct vk_device *vk)
{
    for (int i = 0; i < MAX_BATCHES; i++) {
        if (vk->batches[i].pool) vk->fn.vkDestroyCommandPool(vk->device, vk->batches[i].pool, NULL);
    }
    if (vk->timeline) vk->fn.vkDestroySemaphore(vk->device, vk->timeline, NULL);
}

kiln_status vk_stream_poll(struct vk_device *vk)
{
    if (vk->completed != vk->submitted)
        VK_TRY(vk, vkGetSemaphoreCounterValue, vk->device, vk->timeline, &vk->completed);
    if (KILN_UNLIKELY(vk->profile != NULL)) vk_profile_collect(vk);
    return KILN_OK;
}

bool vk_stream_idle(struct vk_device *vk)
{
    return !(vk->open && vk->n_recorded) && !vk_stream_poll(vk) && vk->completed == vk->submitted;
}

kiln_status vk_stream_wait(struct vk_device *vk, uint64_t value)
{
    TRY(vk_alive(vk));
    if (value <= vk->completed) return KILN_OK;
    STAT_ADD(vk->owner, waits, 1);
    VkSemaphoreWaitInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                .semaphoreCount = 1,
                                .pSemaphores = &vk->timeline,
                                .pValues = &value};
    VkResult r = vk->fn.vkWaitSemaphores(vk->device, &info, vk->wait_limit_ns);
    if (r < 0) return vk_failed(vk, r, "vkWaitSemaphores");
    if (r == VK_TIMEOUT) {
        return error_set(KILN_E_TIMEOUT, "%s: no answer within %llu s (KILN_WAIT_S sets the limit)%s%s",
                         vk->owner->name, (unsigned long long)(vk->wait_limit_ns / 1000000000u), vk->op ? "; op " : "",
                         vk->op ? vk->op : "");
    }
    vk->completed = value;
    return vk_stream_poll(vk);
}

kiln_status vk_stream_open(struct vk_device *vk)
{
    if (KILN_LIKELY(vk->open)) return KILN_OK;
    TRY(vk_alive(vk));
    struct vk_batch *b = &vk->batches[vk->batch];
    if (b->value > vk->completed) {
        TRY(vk_stream_poll(vk));
        if (b->value > vk->completed) TRY(vk_stream_wait(vk, b->value));
    }
    if (KILN_UNLIKELY(vk->profile != NULL)) vk_profile_collect(vk);
    VK_TRY(vk, vkResetCommandPool, vk->device, b->pool, 0);
    VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                     .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    VK_TRY(vk, vkBeginCommandBuffer, b->commands, &info);
    if (vk->completed != vk->submitted) TRY(vk_stream_poll(vk));
    vk->ramped = vk->completed != vk->submitted;
    vk->open = true;
    vk->n_recorded = 0;
    vk->work = 0;
    vk->bound = VK_NULL_HANDLE;
    return KILN_OK;
}

static void barrier(struct vk_device *vk, VkPipelineStageFlags2 dst_stage, VkAccessFlags2 dst_access)
{
    const VkPipelineStageFlags2 stages = VK_PIPELINE_STAGE_2_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_2_ALL_TRANSFER_BIT;
    VkMemoryBarrier2 memory = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER_2,
        .srcStageMask = stages,
        .srcAccessMask = VK_ACCESS_2_SHADER_STORAGE_WRITE_BIT | VK_ACCESS_2_TRANSFER_WRITE_BIT,
        .dstStageMask = dst_stage ? dst_stage : stages,
        .dstAccessMask = dst_access,
    };
    VkDependencyInfo info = {
        .sType = VK_STRUCTURE_TYPE_DEPENDENCY_INFO, .memoryBarrierCount = 1, .pMemoryBarriers = &memory};
    vk->fn.vkCmdPipelineBarrier2(vk->batches[vk->batch].commands, &info);
}

void vk_stream_barrier(struct vk_device *vk)
{
    barrier(vk, 0,
            VK_ACCESS_2_SHADER_STORAGE_READ_BIT | VK_ACCESS_2_SHADER_STORAGE_WRITE_BIT | VK_ACCESS_2_TRANSFER_READ_BIT |
                VK_ACCESS_2_TRANSFER_WRITE_BIT);
    vk->hazards.n_writes = vk->hazards.n_reads = 0;
    STAT_ADD(vk->owner, barriers, 1);
}

kiln_status vk_stream_submit(struct vk_device *vk)
{
    if (!vk->open || vk->n_recorded == 0) return KILN_OK;
    TRY(vk_alive(vk));
    struct vk_batch *b = &vk->batches[vk->batch];
    // What the batch wrote becomes visible to the host, which may read mapped memory once the value is reached.
    barrier(vk, VK_PIPELINE_STAGE_2_HOST_BIT, VK_ACCESS_2_HOST_READ_BIT);
    vk->open = false; // whatever fails below, this recording is over
    VK_TRY(vk, vkEndCommandBuffer, b->commands);
    VkCommandBufferSubmitInfo commands = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_SUBMIT_INFO,
                                          .commandBuffer = b->commands};
    VkSemaphoreSubmitInfo signal = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO,
                                    .semaphore = vk->timeline,
                                    .value = vk->submitted + 1,
                                    .stageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT};
    VkSubmitInfo2 info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO_2,
                          .commandBufferInfoCount = 1,
                          .pCommandBufferInfos = &commands,
                          .signalSemaphoreInfoCount = 1,
                          .pSignalSemaphoreInfos = &signal};
    VK_TRY(vk, vkQueueSubmit2, vk->queue, 1, &info, VK_NULL_HANDLE);
    STAT_ADD(vk->owner, submits, 1);
    b->value = ++vk->submitted;
    if (KILN_UNLIKELY(vk->profile != NULL)) vk_profile_submitted(vk, vk->batch);
    vk_ring_mark(&vk->upload, b->value);
    vk_ring_mark(&vk->download, b->value);
    vk_ring_mark(&vk->arguments, b->value);
    vk->batch = (vk->batch + 1) % MAX_BATCHES;
    return KILN_OK;
}

kiln_status vk_stream_recorded(struct vk_device *vk, uint64_t work)
{
    vk->n_recorded++;
    vk->work += work;
    if (KILN_UNLIKELY(vk->blocking)) return vk_stream_drain(vk);
    if (vk->n_recorded < (vk->ramped ? FULL_BATCH : FIRST_BATCH) && vk->work < vk->work_limit) return KILN_OK;
    return vk_stream_submit(vk);
}

kiln_status vk_stream_drain(struct vk_device *vk)
{
    TRY(vk_alive(vk));
    TRY(vk_stream_submit(vk));
    TRY(vk_stream_wait(vk, vk->submitted));
    return KILN_UNLIKELY(vk->profile != NULL) ? vk_stream_poll(vk) : KILN_OK;
}
