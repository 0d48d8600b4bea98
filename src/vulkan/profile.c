// Times of launches by the device's clock, while a profile is taken: two timestamps around each dispatch of a batch, in
// the batch's own part of one pool of queries, read once the batch is done.
//
// The device's clock has another zero than the host's. The first batch that is read sets the distance: its first
// launch is taken to begin when it was submitted. Lengths and distances are the device's own.
#include "device/profile.h"
#include "vulkan/vk.h"

#include <stdio.h>
#include <stdlib.h>

enum { SPANS = 128 }; // of a batch; a full one has about a hundred commands

struct vk_profile {
    VkQueryPool pool;
    uint32_t track;
    bool synchronised;
    uint64_t zero_ticks, zero_ns;
    struct {
        uint32_t n;
        uint64_t value, submitted_ns;
        profile_label labels[SPANS];
    } batches[MAX_BATCHES];
};

static kiln_status make(struct vk_device *vk)
{
    char name[160];
    VkQueryPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                                  .queryType = VK_QUERY_TYPE_TIMESTAMP,
                                  .queryCount = MAX_BATCHES * 2 * SPANS};
    struct vk_profile *p = calloc(1, sizeof *p);
    if (!p) return error_set(KILN_E_MEMORY, "%s: out of memory for a profile", vk->owner->name);
    VkResult r = vk->fn.vkCreateQueryPool(vk->device, &info, NULL, &p->pool);
    if (r < 0) {
        free(p);
        return vk_failed(vk, r, "vkCreateQueryPool");
    }
    snprintf(name, sizeof name, "device %s", vk->owner->name);
    p->track = profile_track(name);
    vk->profile = p;
    return KILN_OK;
}

static uint32_t first_query(const struct vk_device *vk)
{
    return (uint32_t)vk->batch * 2 * SPANS;
}

kiln_status vk_profile_before(struct vk_device *vk, const char *category, bool *timed)
{
    *timed = false;
    if (vk->timestamp_bits == 0) return KILN_OK;
    if (!vk->profile) TRY(make(vk));
    struct vk_profile *p = vk->profile;
    VkCommandBuffer commands = vk->batches[vk->batch].commands;
    uint32_t n = p->batches[vk->batch].n;
    if (n == SPANS) return KILN_OK;
    if (n == 0) vk->fn.vkCmdResetQueryPool(commands, p->pool, first_query(vk), 2 * SPANS);
    p->batches[vk->batch].value = UINT64_MAX; // not submitted
    p->batches[vk->batch].labels[n] = profile_label_of(category, vk->op ? vk->op : "launch", vk->owner, vk->facts);
    vk->fn.vkCmdWriteTimestamp2(commands, VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT, p->pool, first_query(vk) + 2 * n);
    *timed = true;
    return KILN_OK;
}

void vk_profile_after(struct vk_device *vk)
{
    struct vk_profile *p = vk->profile;
    uint32_t n = p->batches[vk->batch].n++;
    vk->fn.vkCmdWriteTimestamp2(vk->batches[vk->batch].commands, VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT, p->pool,
                                first_query(vk) + 2 * n + 1);
}

void vk_profile_submitted(struct vk_device *vk, int batch)
{
    vk->profile->batches[batch].value = vk->batches[batch].value;
    vk->profile->batches[batch].submitted_ns = clock_now_ns();
}

// Times since the first batch's beginning; the counter wraps at its valid bits.
static uint64_t host_time(const struct vk_device *vk, uint64_t ticks)
{
    const struct vk_profile *p = vk->profile;
    unsigned unused = 64 - vk->timestamp_bits;
    int64_t distance = (int64_t)((ticks - p->zero_ticks) << unused) >> unused;
    return p->zero_ns + (uint64_t)(int64_t)((double)distance * (double)vk->physical.properties.limits.timestampPeriod);
}

static void read_batch(struct vk_device *vk, int batch)
{
    struct vk_profile *p = vk->profile;
    uint64_t ticks[2 * SPANS];
    uint32_t n = p->batches[batch].n;
    p->batches[batch].n = 0;
    VkResult r = vk->fn.vkGetQueryPoolResults(vk->device, p->pool, (uint32_t)batch * 2 * SPANS, 2 * n, sizeof ticks,
                                              ticks, sizeof ticks[0], VK_QUERY_RESULT_64_BIT);
    if (r != VK_SUCCESS) return; // a profile with a gap is better than a computation that fails
    if (!p->synchronised) {
        p->synchronised = true;
        p->zero_ticks = ticks[0];
        p->zero_ns = p->batches[batch].submitted_ns;
    }
    for (uint32_t i = 0; i < n; i++)
        profile_add(p->track, p->batches[batch].labels[i], host_time(vk, ticks[2 * i]),
                    host_time(vk, ticks[2 * i + 1]));
}

void vk_profile_collect(struct vk_device *vk)
{
    for (int i = 0; i < MAX_BATCHES; i++)
        if (vk->profile->batches[i].n && vk->profile->batches[i].value <= vk->completed) read_batch(vk, i);
}

void vk_profile_finish(struct vk_device *vk)
{
    if (!vk->profile) return;
    if (!vk->lost) vk_profile_collect(vk);
    vk->fn.vkDestroyQueryPool(vk->device, vk->profile->pool, NULL);
    free(vk->profile);
    vk->profile = NULL;
}
