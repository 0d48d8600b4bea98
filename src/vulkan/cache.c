// The driver's pipeline cache on disk: a file for each device and driver in an owner-only folder.
//
// A file is a header of ours (magic, size, hash, and what it was made on) and the driver's bytes. A file that is
// short, altered, or of another device or driver is ignored, and replaced at close. Writing goes to a new name first,
// so that a reader sees a whole file or none. Whatever fails here only costs time: the functions report nothing.
#include "base/hash.h"
#include "vulkan/vk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

static kiln_status folder_path(char *out, size_t cap)
{
    const char *chosen = getenv("KILN_CACHE_DIR"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = -1;
    if (chosen && *chosen)
        n = snprintf(out, cap, "%s", chosen);
    else if (xdg && *xdg)
        n = snprintf(out, cap, "%s/kiln", xdg);
    else if (home && *home)
        n = snprintf(out, cap, "%s/.cache/kiln", home);
    return n > 0 && (size_t)n < cap ? KILN_OK : KILN_E_MISSING;
}

kiln_status vk_cache_path(const struct vk_device *vk, char *out, size_t cap)
{
    char folder[3072];
    kiln_status status = folder_path(folder, sizeof folder);
    if (status) return status;
    const VkPhysicalDeviceProperties *p = &vk->physical.properties;
    uint64_t id = hash_bytes(hash_bytes(p->driverVersion, p->pipelineCacheUUID, VK_UUID_SIZE), vk->physical.driver_uuid,
                             VK_UUID_SIZE);
    int n = snprintf(out, cap, "%s/pipelines-%04x-%04x-%016llx.bin", folder, p->vendorID, p->deviceID,
                     (unsigned long long)id);
    return n > 0 && (size_t)n < cap ? KILN_OK : KILN_E_MISSING;
}

// Creates the folders on the way, ours for the owner only. True when the folder is there, ours, and closed to others'
// writing.
static bool make_folder(const char *path)
{
    char part[3072];
    size_t len = strlen(path);
    if (len >= sizeof part) return false;
    memcpy(part, path, len + 1);
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(part, 0700) && errno != EEXIST) return false;
        *slash = '/';
    }
    if (mkdir(part, 0700) && errno != EEXIST) return false;
    struct stat st;
    return !stat(part, &st) && S_ISDIR(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & (S_IWGRP | S_IWOTH));
}

// The whole file, or NULL.
static void *read_file(const char *path, size_t *size_B)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return NULL;
    struct stat st;
    char *data = NULL;
    if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid() && st.st_size > 0 &&
        st.st_size <= MAX_FILE_B) {
        *size_B = (size_t)st.st_size;
        data = malloc(*size_B);
    }
    for (size_t done = 0; data && done < *size_B;) {
        ssize_t n = read(fd, data + done, *size_B - done);
        if (n > 0) {
            done += (size_t)n;
        } else if (n == 0 || errno != EINTR) {
            free(data);
            data = NULL;
        }
    }
    close(fd);
    return data;
}

VkPipelineCache vk_cache_load(struct vk_device *vk)
{
    char path[4096];
    size_t size_B = 0;
    char *data = vk_cache_path(vk, path, sizeof path) ? NULL : read_file(path, &size_B);
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

static bool write_all(int fd, const void *data, size_t size_B)
{
    for (size_t done = 0; done < size_B;) {
        ssize_t n = write(fd, (const char *)data + done, size_B - done);
        if (n < 0 && errno != EINTR) return false;
        if (n > 0) done += (size_t)n;
    }
    return true;
}

static void write_file(const struct vk_device *vk, const char *path, const void *data, size_t size_B)
{
    char temporary[4200];
    snprintf(temporary, sizeof temporary, "%s.%ld", path, (long)getpid());
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return;
    struct file_header h = header_of(vk, data, size_B);
    bool written = write_all(fd, &h, sizeof h) && write_all(fd, data, size_B);
    written = !close(fd) && written;
    if (!written || rename(temporary, path)) unlink(temporary);
}

void vk_cache_save(struct vk_device *vk)
{
    char path[4096], folder[3072];
    if (vk->n_new_pipelines == 0 || vk->lost) return;
    if (folder_path(folder, sizeof folder) || vk_cache_path(vk, path, sizeof path) || !make_folder(folder)) return;
    size_t size_B = 0;
    if (vk->fn.vkGetPipelineCacheData(vk->device, vk->cache, &size_B, NULL) < 0 || size_B == 0) return;
    void *data = malloc(size_B);
    if (data && vk->fn.vkGetPipelineCacheData(vk->device, vk->cache, &size_B, data) == VK_SUCCESS) {
        write_file(vk, path, data, size_B);
    }
    free(data);
}
