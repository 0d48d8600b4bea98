// The one stream of a device: commands are recorded into a batch, batches go to the queue, a timeline semaphore counts
// them.
//
// A batch is a command buffer from a ring of MAX_BATCHES; its timeline value is one more than that of the batch before.
// After an idle time the first batch is small, so that the device starts early; the next ones hold about a hundred
// commands, so that a submission's cost is spread thin. A program is known whole when it is recorded: its launches are
// not parted, which costs an idle device the time of recording and saves it every submission but one. A batch also ends
// when the work in it is estimated to be long: no submission may hold the queue for seconds. Whoever needs a result
// submits what is open and waits for its value.
//
// A submission that the driver refuses for want of memory changed nothing: the batch stays sealed and is handed over
// again, before anything else is recorded. So an op fails only when nothing of it was recorded, and results that were
// given out come to be. What cannot be repeated, a recording that could not be ended or any other refusal, is a loss of
// the device.
//
// Invariants: values on the queue rise; everything with a value <= `completed` is done; a batch's command buffer is
// recorded anew only when its last value is completed; nothing is open while a batch is sealed.
#include "vulkan/vk.h"

#include <stdlib.h>

#define FIRST_BATCH  16
#define FULL_BATCH   100
#define WAIT_LIMIT_S 120
#define WAIT_BATCHES (MAX_BATCHES / 4)

kiln_status vk_stream_init(struct vk_device *vk)
{
    const char *limit = getenv("KILN_WAIT_S");
    long limit_s = limit ? strtol(limit, NULL, 10) : 0;
    vk->wait_limit_ns = (uint64_t)(limit_s > 0 ? limit_s : WAIT_LIMIT_S) * 1000000000u;
    vk->owner->wait_limit_ns = vk->wait_limit_ns;
    vk->work_limit = vk->physical.software ? UINT64_C(1) << 29 : UINT64_C(1) << 38;

    VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                      .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    VkSemaphoreCreateInfo semaphore = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
    VK_CREATE(vk, vkCreateSemaphore, &semaphore, &vk->timeline);
    for (int i = 0; i < MAX_BATCHES; i++) {
        struct vk_batch *b = &vk->batches[i];
        VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                        .flags = VK_COMMAND_POOL_CREATE_TRANSIENT_BIT,
                                        .queueFamilyIndex = vk->queue_family};
        VK_CREATE(vk, vkCreateCommandPool, &pool, &b->pool);
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
    if (KILN_UNLIKELY(vk->gates != NULL)) vk_gates_tally(vk);
    return KILN_OK;
}

void vk_stream_look(struct vk_device *vk)
{
    uint64_t completed;
    if (vk->completed == vk->submitted) return;
    VkResult r = vk->fn.vkGetSemaphoreCounterValue(vk->device, vk->timeline, &completed);
    if (r == VK_SUCCESS) vk->completed = completed;
}

static bool has_unsubmitted(const struct vk_device *vk)
{
    return vk->sealed || (vk->open && vk->n_recorded);
}

bool vk_stream_idle(struct vk_device *vk)
{
    return !has_unsubmitted(vk) && !vk_stream_poll(vk) && vk->completed == vk->submitted;
}

uint64_t vk_stream_last(const struct vk_device *vk)
{
    return vk->submitted + (vk->open || vk->sealed);
}

static VkResult wait_until(struct vk_device *vk, uint64_t value, uint64_t limit_ns)
{
    VkSemaphoreWaitInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                .semaphoreCount = 1,
                                .pSemaphores = &vk->timeline,
                                .pValues = &value};
    VkResult r = vk->fn.vkWaitSemaphores(vk->device, &info, limit_ns);
    if (r == VK_SUCCESS && value > vk->completed) vk->completed = value;
    return r;
}

static kiln_status wait_for(struct vk_device *vk, uint64_t value)
{
    VkResult r = wait_until(vk, value, vk->wait_limit_ns);
    if (r < 0) return vk_failed(vk, r, "vkWaitSemaphores");
    if (r == VK_TIMEOUT) {
        return error_set(KILN_E_TIMEOUT, "%s: no answer within %llu s (KILN_WAIT_S sets the limit)%s%s",
                         vk->owner->name, (unsigned long long)(vk->wait_limit_ns / 1000000000u), vk->op ? "; op " : "",
                         vk->op ? vk->op : "");
    }
    return vk_stream_poll(vk);
}

static void count_wait(struct vk_device *vk, uint64_t value)
{
    STAT_ADD(vk->owner, waits, 1);
    if (value == vk->submitted) STAT_ADD(vk->owner, idle_waits, 1);
}

kiln_status vk_stream_wait(struct vk_device *vk, uint64_t value)
{
    TRY(vk_alive(vk));
    if (value <= vk->completed) return KILN_OK;
    count_wait(vk, value);
    return wait_for(vk, value);
}

kiln_status vk_stream_follow(struct vk_device *vk, uint64_t value)
{
    TRY(vk_alive(vk));
    TRY(vk_stream_poll(vk));
    if (value > vk->completed) count_wait(vk, value);
    while (vk->completed < value) TRY(wait_for(vk, vk->completed + 1));
    return KILN_OK;
}

kiln_status vk_stream_open(struct vk_device *vk)
{
    if (KILN_LIKELY(vk->open)) return KILN_OK;
    TRY(vk_alive(vk));
    if (KILN_UNLIKELY(vk->sealed)) TRY(vk_stream_submit(vk));
    struct vk_batch *b = &vk->batches[vk->batch];
    if (b->value > vk->completed) {
        TRY(vk_stream_poll(vk));
        // All batches are in flight: with some of them done, the next ones need not wait as well.
        if (b->value > vk->completed) TRY(vk_stream_wait(vk, b->value + WAIT_BATCHES));
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
    vk->lane.commands = b->commands;
    vk->lane.bound = VK_NULL_HANDLE;
    return KILN_OK;
}

static void barrier(struct vk_device *vk, VkCommandBuffer commands, VkPipelineStageFlags2 more,
                    VkPipelineStageFlags2 dst_stage, VkAccessFlags2 dst_access)
{
    const VkPipelineStageFlags2 stages =
        VK_PIPELINE_STAGE_2_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_2_ALL_TRANSFER_BIT | more;
    VkMemoryBarrier2 memory = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER_2,
        .srcStageMask = stages,
        .srcAccessMask = VK_ACCESS_2_SHADER_STORAGE_WRITE_BIT | VK_ACCESS_2_TRANSFER_WRITE_BIT,
        .dstStageMask = dst_stage ? dst_stage : stages,
        .dstAccessMask = dst_access,
    };
    VkDependencyInfo info = {
        .sType = VK_STRUCTURE_TYPE_DEPENDENCY_INFO, .memoryBarrierCount = 1, .pMemoryBarriers = &memory};
    vk->fn.vkCmdPipelineBarrier2(commands, &info);
}

static const VkAccessFlags2 all_accesses = VK_ACCESS_2_SHADER_STORAGE_READ_BIT | VK_ACCESS_2_SHADER_STORAGE_WRITE_BIT |
                                           VK_ACCESS_2_TRANSFER_READ_BIT | VK_ACCESS_2_TRANSFER_WRITE_BIT;

static void forget_hazards(struct vk_hazards *h)
{
    h->n_writes = h->n_reads = 0;
}

void vk_lane_barrier(struct vk_device *vk, struct vk_lane *lane)
{
    barrier(vk, lane->commands, 0, 0, all_accesses);
    forget_hazards(&lane->hazards);
}

void vk_stream_barrier(struct vk_device *vk)
{
    vk_lane_barrier(vk, &vk->lane);
    STAT_ADD(vk->owner, barriers, 1);
}

void vk_stream_groups_barrier(struct vk_device *vk)
{
    barrier(vk, vk->lane.commands, VK_PIPELINE_STAGE_2_DRAW_INDIRECT_BIT, 0,
            all_accesses | VK_ACCESS_2_INDIRECT_COMMAND_READ_BIT);
    forget_hazards(&vk->lane.hazards);
    STAT_ADD(vk->owner, barriers, 1);
}

static VkResult seal(struct vk_device *vk)
{
    // What the batch wrote becomes visible to the host, which may read mapped memory once the value is reached.
    barrier(vk, vk->lane.commands, 0, VK_PIPELINE_STAGE_2_HOST_BIT, VK_ACCESS_2_HOST_READ_BIT);
    VkResult r = vk->fn.vkEndCommandBuffer(vk->lane.commands);
    vk->open = false;
    vk->sealed = r == VK_SUCCESS;
    return r;
}

static VkResult hand_over(struct vk_device *vk)
{
    VkCommandBufferSubmitInfo commands = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_SUBMIT_INFO,
                                          .commandBuffer = vk->batches[vk->batch].commands};
    VkSemaphoreSubmitInfo signal = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO,
                                    .semaphore = vk->timeline,
                                    .value = vk->submitted + 1,
                                    .stageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT};
    VkSubmitInfo2 info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO_2,
                          .commandBufferInfoCount = 1,
                          .pCommandBufferInfos = &commands,
                          .signalSemaphoreInfoCount = 1,
                          .pSignalSemaphoreInfos = &signal};
    return vk->fn.vkQueueSubmit2(vk->queue, 1, &info, VK_NULL_HANDLE);
}

static void handed_over(struct vk_device *vk)
{
    struct vk_batch *b = &vk->batches[vk->batch];
    STAT_ADD(vk->owner, submits, 1);
    vk->sealed = false;
    b->value = ++vk->submitted;
    if (KILN_UNLIKELY(vk->profile != NULL)) vk_profile_submitted(vk, vk->batch);
    vk_ring_mark(&vk->upload, b->value);
    vk_ring_mark(&vk->download, b->value);
    vk_ring_mark(&vk->arguments, b->value);
    vk->batch = (vk->batch + 1) % MAX_BATCHES;
}

static bool is_shortage(VkResult r)
{
    return r == VK_ERROR_OUT_OF_HOST_MEMORY || r == VK_ERROR_OUT_OF_DEVICE_MEMORY;
}

// Without an error set. After a failure the batch is sealed where it can be handed over again; else the device is lost.
static VkResult submit(struct vk_device *vk, const char **call)
{
    VkResult r = VK_SUCCESS;
    *call = "vkEndCommandBuffer";
    if (!vk->sealed) r = seal(vk);
    if (KILN_UNLIKELY(r < 0)) return r;
    *call = "vkQueueSubmit2";
    r = hand_over(vk);
    if (KILN_UNLIKELY(is_shortage(r))) {
        // What is in flight may hold the memory that the driver lacks.
        (void)wait_until(vk, vk->submitted, vk->wait_limit_ns);
        r = hand_over(vk);
    }
    if (KILN_LIKELY(r >= 0))
        handed_over(vk);
    else
        vk->sealed = is_shortage(r);
    return r;
}

kiln_status vk_stream_submit(struct vk_device *vk)
{
    const char *call;
    if (!has_unsubmitted(vk)) return KILN_OK;
    TRY(vk_alive(vk));
    VkResult r = submit(vk, &call);
    if (KILN_LIKELY(r >= 0)) return KILN_OK;
    return vk->sealed ? vk_failed(vk, r, call) : vk_lose(vk, r, call);
}

// A shortage leaves the batch sealed: what it holds will run.
static kiln_status submit_full(struct vk_device *vk)
{
    const char *call;
    bool held = vk->holds && !vk->profile; // a profile has room for the spans of a full batch
    uint32_t most = held ? UINT32_MAX : vk->ramped ? FULL_BATCH : FIRST_BATCH;
    if (vk->n_recorded < most && vk->work < vk->work_limit) return KILN_OK;
    VkResult r = submit(vk, &call);
    return KILN_UNLIKELY(r < 0 && !vk->sealed) ? vk_lose(vk, r, call) : KILN_OK;
}

kiln_status vk_stream_recorded(struct vk_device *vk, uint32_t n, uint64_t work)
{
    vk->n_recorded += n;
    vk->work += work;
    if (KILN_UNLIKELY(vk->whole)) return KILN_OK;
    return KILN_UNLIKELY(vk->blocking) ? vk_stream_drain(vk) : submit_full(vk);
}

kiln_status vk_stream_hold(struct vk_device *vk, bool begin)
{
    vk->holds += begin ? 1 : -1;
    return vk->open ? submit_full(vk) : KILN_OK;
}

bool vk_stream_quiet(struct vk_device *vk)
{
    const char *call;
    if (!vk->lost && has_unsubmitted(vk) && submit(vk, &call) < 0) {
        if (vk->sealed) return false;
        vk->lost = true;
    }
    if (vk->completed >= vk->submitted) return true;
    VkResult r = wait_until(vk, vk->submitted, vk->wait_limit_ns);
    if (is_shortage(r)) r = wait_until(vk, vk->submitted, vk->wait_limit_ns);
    return r == VK_SUCCESS || r == VK_ERROR_DEVICE_LOST;
}

kiln_status vk_stream_drain(struct vk_device *vk)
{
    TRY(vk_alive(vk));
    TRY(vk_stream_submit(vk));
    TRY(vk_stream_wait(vk, vk->submitted));
    return KILN_UNLIKELY(vk->profile != NULL) ? vk_stream_poll(vk) : KILN_OK;
}
