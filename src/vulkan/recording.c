// Launches that are recorded once: secondary command buffers, which batches execute.
//
// A recording may be in several batches that are in flight, and in one batch several times. Hazards inside of it are
// its own; it begins behind a barrier wherever the stream has touched memory, and ends with one. So the stream forgets
// its hazards. What its launches take from memory, arguments that are too long to be pushed and scratch memory, belongs
// to the recording, for the ring and the heap give theirs to others.
//
// All recordings of a device hold a bounded number of commands: those that were not run for the longest time lose
// theirs.
#include "vulkan/vk.h"

#include <stdlib.h>

static void free_commands(struct vk_device *vk, struct vk_recording *r)
{
    if (r->lane.commands) vk->fn.vkFreeCommandBuffers(vk->device, vk->recording_pool, 1, &r->lane.commands);
    r->lane.commands = VK_NULL_HANDLE;
    if (r->ended) vk->n_recorded_all -= r->n;
    r->ended = false;
}

// Frees what was dropped and is not in use any more.
static void sweep(struct vk_device *vk)
{
    struct vk_recording **at = &vk->recordings;
    vk_stream_look(vk);
    while (*at) {
        struct vk_recording *r = *at;
        if (!r->dropped || r->last_value > vk->completed) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        free_commands(vk, r);
        free(r);
    }
}

static struct vk_recording *oldest(const struct vk_device *vk)
{
    struct vk_recording *best = NULL;
    for (struct vk_recording *r = vk->recordings; r; r = r->next)
        if (r->ended && !r->dropped && r->last_value <= vk->completed && (!best || r->last_value <= best->last_value))
            best = r;
    return best;
}

static bool make_room(struct vk_device *vk)
{
    while (vk->n_recorded_all >= vk->most_recorded) {
        struct vk_recording *r = oldest(vk);
        if (!r) return false;
        free_commands(vk, r);
    }
    return true;
}

static kiln_status make_pool(struct vk_device *vk)
{
    VkCommandPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                    .queueFamilyIndex = vk->queue_family};
    if (vk->recording_pool) return KILN_OK;
    VK_CREATE(vk, vkCreateCommandPool, &info, &vk->recording_pool);
    return KILN_OK;
}

static kiln_status begin_commands(struct vk_device *vk, struct vk_recording *r)
{
    VkCommandBufferAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                            .commandPool = vk->recording_pool,
                                            .level = VK_COMMAND_BUFFER_LEVEL_SECONDARY,
                                            .commandBufferCount = 1};
    VkResult result = vk->fn.vkAllocateCommandBuffers(vk->device, &allocate, &r->lane.commands);
    if (result < 0) {
        r->lane.commands = VK_NULL_HANDLE;
        return vk_failed(vk, result, "vkAllocateCommandBuffers");
    }
    VkCommandBufferInheritanceInfo inherits = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_INHERITANCE_INFO};
    VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                     .flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT,
                                     .pInheritanceInfo = &inherits};
    VK_TRY(vk, vkBeginCommandBuffer, r->lane.commands, &info);
    return KILN_OK;
}

static kiln_status begin(kiln_device *dev, struct device_record **out)
{
    struct vk_device *vk = dev->impl;
    *out = NULL;
    if (vk->blocking) return KILN_OK;
    struct vk_recording *r = calloc(1, sizeof *r);
    if (!r) return error_set(KILN_E_MEMORY, "%s: out of memory for a recording", dev->name);
    r->most_work = vk->work_limit;
    pthread_mutex_lock(&vk->lock);
    sweep(vk);
    bool room = make_room(vk);
    kiln_status status = vk_alive(vk);
    if (!status && room) status = make_pool(vk);
    if (!status && room) status = begin_commands(vk, r);
    if (status || !room) {
        free_commands(vk, r);
        free(r);
    } else {
        r->next = vk->recordings;
        vk->recordings = r;
        *out = (struct device_record *)(void *)r;
    }
    pthread_mutex_unlock(&vk->lock);
    return status;
}

static bool full(const struct device_record *record)
{
    const struct vk_recording *r = (const struct vk_recording *)(const void *)record;
    return r->work >= r->most_work;
}

static kiln_status end(kiln_device *dev, struct device_record *record)
{
    struct vk_device *vk = dev->impl;
    struct vk_recording *r = vk_recording_of(record);
    pthread_mutex_lock(&vk->lock);
    vk_order(vk, r);
    VkResult result = vk->fn.vkEndCommandBuffer(r->lane.commands);
    kiln_status status = result < 0 ? vk_failed(vk, result, "vkEndCommandBuffer") : KILN_OK;
    r->ended = !status;
    if (r->ended) vk->n_recorded_all += r->n;
    pthread_mutex_unlock(&vk->lock);
    return status;
}

static kiln_status execute(struct vk_device *vk, struct vk_recording *r)
{
    struct vk_lane *lane = &vk->lane;
    TRY(vk_stream_open(vk));
    if (lane->hazards.n_reads || lane->hazards.n_writes) vk_stream_barrier(vk);
    vk->fn.vkCmdExecuteCommands(lane->commands, 1, &r->lane.commands);
    lane->bound = VK_NULL_HANDLE; // nothing outlives it
    r->last_value = vk_stream_last(vk);
    STAT_ADD(vk->owner, barriers, r->n_barriers);
    return vk_stream_recorded(vk, r->n, r->work);
}

static kiln_status run(kiln_device *dev, struct device_record *record, bool *ran)
{
    struct vk_device *vk = dev->impl;
    struct vk_recording *r = vk_recording_of(record);
    pthread_mutex_lock(&vk->lock);
    *ran = r->ended;
    kiln_status status = *ran ? execute(vk, r) : KILN_OK;
    pthread_mutex_unlock(&vk->lock);
    return status;
}

// Its memory may go at once, for reuse is in stream order.
static void drop(kiln_device *dev, struct device_record *record)
{
    struct vk_device *vk = dev->impl;
    struct vk_recording *r = vk_recording_of(record);
    if (!r) return;
    for (uint32_t i = 0; i < r->n_blocks; i++) device_release(dev, &r->blocks[i]);
    free(r->blocks);
    r->blocks = NULL;
    pthread_mutex_lock(&vk->lock);
    r->dropped = true;
    sweep(vk);
    pthread_mutex_unlock(&vk->lock);
}

kiln_status vk_recording_take(struct vk_device *vk, struct vk_recording *r, uint64_t size_B, struct block **out)
{
    if (r->n_blocks == r->cap) {
        uint32_t cap = r->cap ? 2 * r->cap : 4;
        struct block *more = realloc(r->blocks, cap * sizeof *more);
        if (!more) return error_set(KILN_E_MEMORY, "%s: out of memory for a recording", vk->owner->name);
        r->blocks = more;
        r->cap = cap;
    }
    TRY(device_alloc(vk->owner, size_B, &r->blocks[r->n_blocks]));
    *out = &r->blocks[r->n_blocks++];
    return KILN_OK;
}

kiln_status vk_recording_reserve(struct vk_device *vk, struct device_record *r, bool indirect, uint32_t n_words)
{
    if (KILN_LIKELY(!r || !indirect)) return KILN_OK;
    return vk_recording_take(vk, vk_recording_of(r), n_words * UINT64_C(4), &vk_recording_of(r)->arguments);
}

void vk_recordings_finish(struct vk_device *vk)
{
    while (vk->recordings) {
        struct vk_recording *r = vk->recordings;
        vk->recordings = r->next;
        free(r->blocks); // of a program that outlives the device
        free(r);
    }
    if (vk->recording_pool) vk->fn.vkDestroyCommandPool(vk->device, vk->recording_pool, NULL);
}

const struct record_ops vk_record_ops = {.begin = begin, .full = full, .end = end, .run = run, .drop = drop};
