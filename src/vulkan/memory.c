// Buffers with their own memory: the slabs under the heap, the rings.
#include "vulkan/vk.h"

#include <stdlib.h>

// The memory type for a use among those in `allowed`, -1 when there is none. Listed from the best to the last resort.
static int memory_type(const struct vk_device *vk, uint32_t allowed, enum vk_memory_use use)
{
    const VkMemoryPropertyFlags local = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT,
                                visible = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT,
                                coherent = VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
                                cached = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
    const VkMemoryPropertyFlags wishes[][3] = {
        [VK_MEMORY_DEVICE] = {vk->shared_memory ? local | visible | coherent | cached : local, local, 0},
        [VK_MEMORY_UPLOAD] = {visible | coherent | local, visible | coherent, visible | coherent},
        [VK_MEMORY_GROUPS] = {local, 0, 0},
        [VK_MEMORY_DOWNLOAD] = {visible | coherent | cached, visible | coherent, visible | coherent},
    };
    for (int wish = 0; wish < 3; wish++) {
        VkMemoryPropertyFlags flags = wishes[use][wish];
        for (uint32_t t = 0; t < vk->memory.memoryTypeCount; t++) {
            if ((allowed >> t & 1) && (vk->memory.memoryTypes[t].propertyFlags & flags) == flags) return (int)t;
        }
    }
    return -1;
}

static kiln_status allocate(struct vk_device *vk, enum vk_memory_use use, struct vk_buffer *b)
{
    VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .size = b->size_B,
        .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                 VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT,
    };
    if (use == VK_MEMORY_GROUPS) info.usage |= VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT;
    VK_CREATE(vk, vkCreateBuffer, &info, &b->handle);
    VkMemoryRequirements need;
    vk->fn.vkGetBufferMemoryRequirements(vk->device, b->handle, &need);
    int type = memory_type(vk, need.memoryTypeBits, use);
    if (type < 0) return error_set(KILN_E_UNSUPPORTED, "%s: no memory type for a buffer", vk->owner->name);
    VkMemoryAllocateFlagsInfo flags = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                       .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
    VkMemoryAllocateInfo memory = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                   .pNext = &flags,
                                   .allocationSize = need.size,
                                   .memoryTypeIndex = (uint32_t)type};
    VK_CREATE(vk, vkAllocateMemory, &memory, &b->memory);
    VK_TRY(vk, vkBindBufferMemory, vk->device, b->handle, b->memory, 0);
    VkMemoryPropertyFlags got = vk->memory.memoryTypes[type].propertyFlags;
    const VkMemoryPropertyFlags mappable = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    bool mapped = use == VK_MEMORY_UPLOAD || use == VK_MEMORY_DOWNLOAD || vk->shared_memory;
    if (mapped && (got & mappable) == mappable) {
        void *host;
        VK_TRY(vk, vkMapMemory, vk->device, b->memory, 0, VK_WHOLE_SIZE, 0, &host);
        b->host = host;
    }
    VkBufferDeviceAddressInfo address = {.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO, .buffer = b->handle};
    b->address = vk->fn.vkGetBufferDeviceAddress(vk->device, &address);
    return KILN_OK;
}

kiln_status vk_buffer_create(struct vk_device *vk, uint64_t size_B, enum vk_memory_use use, struct vk_buffer *out)
{
    *out = (struct vk_buffer){.size_B = size_B};
    TRY(vk_alive(vk));
    kiln_status status = allocate(vk, use, out);
    if (status) vk_buffer_destroy(vk, out);
    return status;
}

void vk_buffer_destroy(struct vk_device *vk, struct vk_buffer *b)
{
    if (b->handle) vk->fn.vkDestroyBuffer(vk->device, b->handle, NULL);
    if (b->memory) vk->fn.vkFreeMemory(vk->device, b->memory, NULL); // unmaps
    *b = (struct vk_buffer){0};
}

// The slabs are kept sorted by address: copies name addresses, the driver wants buffers.
static uint32_t first_above(const struct vk_device *vk, uint64_t address)
{
    uint32_t lo = 0, hi = vk->slabs.n;
    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;
        if (vk->slabs.v[mid].address > address)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

const struct vk_buffer *vk_slab_find(const struct vk_device *vk, uint64_t address, uint64_t size_B)
{
    uint32_t above = first_above(vk, address);
    if (above == 0) return NULL;
    const struct vk_buffer *b = &vk->slabs.v[above - 1];
    uint64_t offset_B = address - b->address;
    return offset_B <= b->size_B && size_B <= b->size_B - offset_B ? b : NULL;
}

static bool has_room(struct vk_buffers *list, uint32_t n)
{
    if (n <= list->cap) return true;
    uint32_t cap = list->cap ? list->cap * 2 : 16;
    if (cap < n) cap = n;
    struct vk_buffer *v = realloc(list->v, cap * sizeof *v);
    if (!v) return false;
    list->v = v;
    list->cap = cap;
    return true;
}

static void insert(struct vk_buffers *list, uint32_t at, const struct vk_buffer *b)
{
    for (uint32_t i = list->n++; i > at; i--) list->v[i] = list->v[i - 1];
    list->v[at] = *b;
}

static void destroy_all(struct vk_device *vk, struct vk_buffers *list)
{
    for (uint32_t i = 0; i < list->n; i++) vk_buffer_destroy(vk, &list->v[i]);
    free(list->v);
    *list = (struct vk_buffers){0};
}

// Destroys what is put aside and no longer in use.
static void sweep(struct vk_device *vk)
{
    struct vk_buffers *list = &vk->retired;
    uint32_t kept = 0;
    if (!list->n) return;
    vk_stream_look(vk);
    for (uint32_t i = 0; i < list->n; i++) {
        if (list->v[i].last_value > vk->completed)
            list->v[kept++] = list->v[i];
        else
            vk_buffer_destroy(vk, &list->v[i]);
    }
    list->n = kept;
}

static kiln_status add_slab(struct vk_device *vk, uint64_t size_B, struct vk_buffer *out)
{
    // Room for each slab among those put aside as well: giving back needs no memory.
    uint32_t n = vk->slabs.n + 1;
    if (!has_room(&vk->slabs, n) || !has_room(&vk->retired, vk->retired.n + n))
        return error_set(KILN_E_MEMORY, "%s: out of memory for the list of slabs", vk->owner->name);
    sweep(vk);
    TRY(vk_buffer_create(vk, size_B, VK_MEMORY_DEVICE, out));
    insert(&vk->slabs, first_above(vk, out->address), out);
    return KILN_OK;
}

kiln_status vk_slab_alloc(kiln_device *dev, uint64_t size_B, struct slab *out)
{
    struct vk_device *vk = dev->impl;
    struct vk_buffer b;
    pthread_mutex_lock(&vk->lock);
    kiln_status status = add_slab(vk, size_B, &b);
    pthread_mutex_unlock(&vk->lock);
    if (!status) *out = (struct slab){.address = b.address, .host = b.host, .size_B = size_B, .handle = b.handle};
    return status;
}

// What is recorded or in flight may use the slab: it is put aside until that is done. Nobody waits.
static void retire(struct vk_device *vk, struct vk_buffer *b)
{
    b->last_value = vk_stream_last(vk);
    insert(&vk->retired, vk->retired.n, b);
    sweep(vk);
}

void vk_slab_free(kiln_device *dev, struct slab *s)
{
    struct vk_device *vk = dev->impl;
    pthread_mutex_lock(&vk->lock);
    uint32_t above = first_above(vk, s->address);
    if (above > 0 && vk->slabs.v[above - 1].address == s->address) {
        struct vk_buffer b = vk->slabs.v[above - 1];
        for (uint32_t i = above; i < vk->slabs.n; i++) vk->slabs.v[i - 1] = vk->slabs.v[i];
        vk->slabs.n--;
        retire(vk, &b);
    }
    pthread_mutex_unlock(&vk->lock);
    *s = (struct slab){0};
}

void vk_slabs_finish(struct vk_device *vk)
{
    destroy_all(vk, &vk->retired);
    destroy_all(vk, &vk->slabs);
}
