// The driver's pipeline cache on disk: a file for each device and driver in an owner-only folder.
//
// A file is a header of ours (magic, size, hash, and what it was made on) and the driver's bytes. A file that is
// short, altered, or of another device or driver is ignored, and replaced at close. Writing goes to a new name first,
// so that a reader sees a whole file or none. Whatever fails here only costs time: the functions report nothing.
#include "base/cache.h"
#include "base/hash.h"
#include "vulkan/vk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FILE_B (256u << 20)

struct file_header {
    char magic[8];
    uint64_t size_B, hash; // of the driver's bytes
    uint32_t vendor, device, driver_version, reserved;
    uint8_t cache_uuid[VK_UUID_SIZE], driver_uuid[VK_UUID_SIZE];
};

static struct file_header header_of(const struct vk_device *vk, const void *data, uint64_t size_B)
{
    const VkPhysicalDeviceProperties *p = &vk->physical.properties;
    struct file_header h = {.magic = "kilnvk1",
                            .size_B = size_B,
                            .hash = hash_bytes(1, data, size_B),
                            .vendor = p->vendorID,
                            .device = p->deviceID,
                            .driver_version = p->driverVersion};
    memcpy(h.cache_uuid, p->pipelineCacheUUID, VK_UUID_SIZE);
    memcpy(h.driver_uuid, vk->physical.driver_uuid, VK_UUID_SIZE);
    return h;
}

bool vk_cache_check(const void *file, size_t size_B)
{
    struct file_header h;
    if (size_B <= sizeof h) return false;
    memcpy(&h, file, sizeof h);
    size_t data_B = size_B - sizeof h;
    return !memcmp(h.magic, "kilnvk1", sizeof h.magic) && h.size_B == data_B &&
           h.hash == hash_bytes(1, (const char *)file + sizeof h, data_B);
}

kiln_status vk_cache_path(const struct vk_device *vk, char *out, size_t cap)
{
    char folder[3072];
    if (!cache_folder(folder, sizeof folder)) return KILN_E_MISSING;
    const VkPhysicalDeviceProperties *p = &vk->physical.properties;
    uint64_t id = hash_bytes(hash_bytes(p->driverVersion, p->pipelineCacheUUID, VK_UUID_SIZE), vk->physical.driver_uuid,
                             VK_UUID_SIZE);
    int n = snprintf(out, cap, "%s/pipelines-%04x-%04x-%016llx.bin", folder, p->vendorID, p->deviceID,
                     (unsigned long long)id);
    return n > 0 && (size_t)n < cap ? KILN_OK : KILN_E_MISSING;
}

VkPipelineCache vk_cache_load(struct vk_device *vk)
{
    char path[4096];
    size_t size_B = 0;
    char *data = vk_cache_path(vk, path, sizeof path) ? NULL : cache_read(path, MAX_FILE_B, &size_B);
    VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    struct file_header found, expected;
    if (data && size_B > sizeof found) {
        memcpy(&found, data, sizeof found);
        expected = header_of(vk, data + sizeof found, size_B - sizeof found);
        if (!memcmp(&found, &expected, sizeof found)) {
            info.initialDataSize = size_B - sizeof found;
            info.pInitialData = data + sizeof found;
        }
    }
    VkPipelineCache cache = VK_NULL_HANDLE;
    if (vk->fn.vkCreatePipelineCache(vk->device, &info, NULL, &cache) < 0) cache = VK_NULL_HANDLE;
    free(data);
    return cache;
}

void vk_cache_save(struct vk_device *vk)
{
    char path[4096];
    if (vk->n_new_pipelines == 0 || vk->lost || vk_cache_path(vk, path, sizeof path)) return;
    size_t size_B = 0;
    if (vk->fn.vkGetPipelineCacheData(vk->device, vk->cache, &size_B, NULL) < 0 || size_B == 0) return;
    void *data = malloc(size_B);
    if (data && vk->fn.vkGetPipelineCacheData(vk->device, vk->cache, &size_B, data) == VK_SUCCESS) {
        struct file_header h = header_of(vk, data, size_B);
        cache_write(path, &h, sizeof h, data, size_B);
    }
    free(data);
}
