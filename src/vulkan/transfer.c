// Bytes between host and device, and within the device.
//
// Where tensors lie in mapped memory an upload to an idle device is a memcpy, and so is every download once the device
// has finished. Otherwise bytes go through the staging rings, in the order of the stream, so that an upload never waits
// for kernels that still read the destination's old contents.
#include "device/profile.h"
#include "vulkan/vk.h"

#include <string.h>

static kiln_status find(struct vk_device *vk, uint64_t address, uint64_t size_B, const struct vk_buffer **out)
{
    *out = vk_slab_find(vk, address, size_B);
    if (*out) return KILN_OK;
    return error_set(KILN_E_INTERNAL, "%s: no memory of this device at %#llx (%llu bytes)", vk->owner->name,
                     (unsigned long long)address, (unsigned long long)size_B);
}

static kiln_status record_copy(struct vk_device *vk, VkBuffer dst, uint64_t dst_B, VkBuffer src, uint64_t src_B,
                               uint64_t size_B, uint64_t write_address, uint64_t read_address)
{
    TRY(vk_stream_open(vk));
    struct vk_hazards *h = &vk->lane.hazards;
    if ((write_address && vk_hazard_conflict(h, write_address, write_address + size_B, true)) ||
        (read_address && vk_hazard_conflict(h, read_address, read_address + size_B, false))) {
        vk_stream_barrier(vk);
    }
    if (write_address) vk_hazard_add(h, write_address, write_address + size_B, true);
    if (read_address) vk_hazard_add(h, read_address, read_address + size_B, false);
    VkBufferCopy region = {.srcOffset = src_B, .dstOffset = dst_B, .size = size_B};
    vk->fn.vkCmdCopyBuffer(vk->lane.commands, src, dst, 1, &region);
    return KILN_OK;
}

kiln_status vk_record_copy(struct vk_device *vk, VkBuffer dst, uint64_t dst_B, VkBuffer src, uint64_t src_B,
                           uint64_t size_B, uint64_t write_address, uint64_t read_address)
{
    TRY(record_copy(vk, dst, dst_B, src, src_B, size_B, write_address, read_address));
    return vk_stream_recorded(vk, 1, size_B / 4);
}

static kiln_status copy(struct vk_device *vk, uint64_t dst, uint64_t src, uint64_t size_B)
{
    bool timed = false;
    if (size_B == 0 || dst == src) return KILN_OK;
    const struct vk_buffer *to, *from;
    TRY(find(vk, dst, size_B, &to));
    TRY(find(vk, src, size_B, &from));
    vk->op = "copy";
    TRY(vk_stream_open(vk));
    if (profile_on()) TRY(vk_profile_before(vk, "copy", &timed));
    TRY(record_copy(vk, to->handle, dst - to->address, from->handle, src - from->address, size_B, dst, src));
    if (timed) vk_profile_after(vk);
    return vk_stream_recorded(vk, 1, size_B / 4);
}

kiln_status vk_upload_locked(struct vk_device *vk, uint64_t dst, const void *src, uint64_t size_B)
{
    if (size_B == 0) return KILN_OK;
    TRY(vk_alive(vk));
    const struct vk_buffer *to;
    TRY(find(vk, dst, size_B, &to));
    vk->op = "upload";
    uint64_t to_B = dst - to->address;
    if (to->host && vk_stream_idle(vk)) {
        memcpy(to->host + to_B, src, size_B);
        return KILN_OK;
    }
    uint64_t piece_max_B = vk->upload.buffer.size_B / 4;
    for (uint64_t done_B = 0; done_B < size_B;) {
        uint64_t piece_B = size_B - done_B < piece_max_B ? size_B - done_B : piece_max_B, at_B;
        TRY(vk_stream_open(vk));
        TRY(vk_ring_take(vk, &vk->upload, piece_B, &at_B));
        memcpy(vk->upload.buffer.host + at_B, (const char *)src + done_B, piece_B);
        TRY(vk_record_copy(vk, to->handle, to_B + done_B, vk->upload.buffer.handle, at_B, piece_B, dst + done_B, 0));
        done_B += piece_B;
    }
    return KILN_OK;
}

static kiln_status download(struct vk_device *vk, void *dst, uint64_t src, uint64_t size_B)
{
    if (size_B == 0) return KILN_OK;
    TRY(vk_alive(vk));
    const struct vk_buffer *from;
    TRY(find(vk, src, size_B, &from));
    vk->op = "download";
    uint64_t from_B = src - from->address;
    if (from->host) {
        TRY(vk_stream_drain(vk));
        TRY(vk_gates_judge(vk, false));
        memcpy(dst, from->host + from_B, size_B);
        return KILN_OK;
    }
    // Two pieces are on the way at a time: one is copied by the device while the host empties the other.
    uint64_t piece_max_B = vk->download.buffer.size_B / 4, pending_B = 0, pending_at = 0, pending_value = 0,
             copied_B = 0;
    for (uint64_t done_B = 0; done_B < size_B || pending_B;) {
        uint64_t piece_B = size_B - done_B < piece_max_B ? size_B - done_B : piece_max_B, at_B = 0;
        if (piece_B) {
            TRY(vk_stream_open(vk));
            TRY(vk_ring_take(vk, &vk->download, piece_B, &at_B));
            TRY(vk_record_copy(vk, vk->download.buffer.handle, at_B, from->handle, from_B + done_B, piece_B, 0,
                               src + done_B));
            TRY(vk_stream_submit(vk));
        }
        uint64_t value = vk->submitted;
        if (pending_B) {
            TRY(vk_stream_wait(vk, pending_value));
            memcpy((char *)dst + copied_B, vk->download.buffer.host + pending_at, pending_B);
            copied_B += pending_B;
        }
        pending_B = piece_B;
        pending_at = at_B;
        pending_value = value;
        done_B += piece_B;
    }
    return vk_gates_judge(vk, false);
}

kiln_status vk_copy(kiln_device *dev, uint64_t dst, uint64_t src, uint64_t size_B, const struct launch_facts *facts)
{
    struct vk_device *vk = dev->impl;
    pthread_mutex_lock(&vk->lock);
    vk->facts = facts;
    kiln_status status = copy(vk, dst, src, size_B);
    vk->facts = NULL;
    pthread_mutex_unlock(&vk->lock);
    return status;
}

kiln_status vk_upload(kiln_device *dev, uint64_t dst, const void *src, uint64_t size_B)
{
    struct vk_device *vk = dev->impl;
    pthread_mutex_lock(&vk->lock);
    kiln_status status = vk_upload_locked(vk, dst, src, size_B);
    pthread_mutex_unlock(&vk->lock);
    return status;
}

kiln_status vk_download(kiln_device *dev, void *dst, uint64_t src, uint64_t size_B)
{
    struct vk_device *vk = dev->impl;
    pthread_mutex_lock(&vk->lock);
    kiln_status status = download(vk, dst, src, size_B);
    pthread_mutex_unlock(&vk->lock);
    return status;
}
