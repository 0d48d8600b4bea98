// Opening and closing a Vulkan device, and its vtable.
#include "base/thread.h"
#include "vulkan/modules.h"
#include "base/options.h"
#include "vulkan/matrices.h"
#include "vulkan/vk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UPLOAD_RING_B   (32u << 20)
#define DOWNLOAD_RING_B (32u << 20)
#define ARGUMENT_RING_B (1u << 20)
#define LIST_MAX        16 // devices that are told of

// A family that computes; one without graphics where there is one, for it is not shared with a display.
static kiln_status find_queue_family(struct vk_device *vk)
{
    uint32_t n = 0;
    const struct vk_instance_functions *fn = &vk->instance->fn;
    fn->vkGetPhysicalDeviceQueueFamilyProperties(vk->physical.handle, &n, NULL);
    VkQueueFamilyProperties *list = calloc(n ? n : 1, sizeof *list);
    if (!list) return error_set(KILN_E_MEMORY, "vulkan: out of memory");
    fn->vkGetPhysicalDeviceQueueFamilyProperties(vk->physical.handle, &n, list);
    int best = -1;
    for (uint32_t i = 0; i < n; i++) {
        if (!(list[i].queueFlags & VK_QUEUE_COMPUTE_BIT)) continue;
        if (best < 0 ||
            ((list[best].queueFlags & VK_QUEUE_GRAPHICS_BIT) && !(list[i].queueFlags & VK_QUEUE_GRAPHICS_BIT))) {
            best = (int)i;
        }
    }
    if (best >= 0) vk->timestamp_bits = list[best].timestampValidBits;
    free(list);
    if (best < 0) return error_set(KILN_E_UNSUPPORTED, "%s has no queue that computes", vk->owner->name);
    vk->queue_family = (uint32_t)best;
    return KILN_OK;
}

static kiln_status load_functions(struct vk_device *vk, const char *device)
{
    PFN_vkGetDeviceProcAddr get = vk->instance->fn.vkGetDeviceProcAddr;
#define LOAD(name)                                                            \
    vk->fn.name = (PFN_##name)get(vk->device, #name);                         \
    if (!vk->fn.name) vk->fn.name = (PFN_##name)get(vk->device, #name "KHR"); \
    if (!vk->fn.name) return error_set(KILN_E_UNSUPPORTED, "%s lacks " #name, device);
    VK_DEVICE_FUNCTIONS(LOAD)
#undef LOAD
    return KILN_OK;
}

static kiln_status create_device(struct vk_device *vk)
{
    float priority = 1;
    bool matrix = vk->physical.matrix || vk->physical.matrix_bf16;
    VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                     .queueFamilyIndex = vk->queue_family,
                                     .queueCount = 1,
                                     .pQueuePriorities = &priority};
    VkPhysicalDeviceSynchronization2Features sync2 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SYNCHRONIZATION_2_FEATURES, .synchronization2 = VK_TRUE};
    VkPhysicalDeviceVulkan12Features v12 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
                                            .pNext = &sync2,
                                            .bufferDeviceAddress = VK_TRUE,
                                            .timelineSemaphore = VK_TRUE,
                                            .scalarBlockLayout = VK_TRUE,
                                            .storageBuffer8BitAccess = VK_TRUE,
                                            .shaderFloat16 = vk->physical.matrix > 0,
                                            .vulkanMemoryModel = matrix};
    VkPhysicalDeviceVulkan11Features v11 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
                                            .pNext = &v12,
                                            .storageBuffer16BitAccess = VK_TRUE};
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                          .pNext = &v11,
                                          .features = {.shaderInt64 = VK_TRUE, .shaderFloat64 = vk->physical.f64}};
    const char *extensions[3];
    uint32_t n_extensions = 0;
    struct vk_bf16_features bf16 = {
        .sType = VK_BF16_FEATURES_TYPE, .shaderBFloat16Type = VK_TRUE, .shaderBFloat16CooperativeMatrix = VK_TRUE};
    struct vk_matrix_features matrices = {.sType = VK_MATRIX_FEATURES_TYPE, .cooperativeMatrix = VK_TRUE};
    if (vk->physical.sync2_extension) extensions[n_extensions++] = VK_KHR_SYNCHRONIZATION_2_EXTENSION_NAME;
    if (matrix) {
        extensions[n_extensions++] = VK_MATRIX_EXTENSION;
        sync2.pNext = &matrices;
    }
    if (vk->physical.matrix_bf16) {
        extensions[n_extensions++] = VK_BF16_EXTENSION;
        matrices.pNext = &bf16;
    }
    VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                               .pNext = &features,
                               .queueCreateInfoCount = 1,
                               .pQueueCreateInfos = &queue,
                               .enabledExtensionCount = n_extensions,
                               .ppEnabledExtensionNames = extensions};
    VkResult r = vk->instance->fn.vkCreateDevice(vk->physical.handle, &info, NULL, &vk->device);
    if (r < 0) {
        vk->device = VK_NULL_HANDLE;
        return vk_failed(vk, r, "vkCreateDevice");
    }
    TRY(load_functions(vk, vk->owner->name));
    vk->fn.vkGetDeviceQueue(vk->device, vk->queue_family, 0, &vk->queue);
    return KILN_OK;
}

static kiln_status flag_kernels(struct vk_device *vk)
{
    vk->kernel_flags = calloc((size_t)kernel_count + USER_KERNELS_MAX, 1);
    if (!vk->kernel_flags) return error_set(KILN_E_MEMORY, "vulkan: out of memory");
    for (int i = 0; i < kernel_count; i++) {
        const struct spirv_module *m = &spirv_modules[i];
        if (!m->packed || kernel_catalogue[i].cpu_only) continue;
        if (!m->f64 || vk->physical.f64) vk->kernel_flags[i] = (uint8_t)(VK_KERNEL_HERE | (m->f64 ? VK_KERNEL_F64 : 0));
    }
    return KILN_OK;
}

static kiln_status add_kernel(kiln_device *dev, kernel_id kernel, const uint32_t *words, size_t n_words, bool f64)
{
    struct vk_device *vk = dev->impl;
    TRY(vk_module_add(kernel, words, n_words));
    if (!f64 || vk->physical.f64) vk->kernel_flags[kernel] = (uint8_t)(VK_KERNEL_HERE | (f64 ? VK_KERNEL_F64 : 0));
    return KILN_OK;
}

static bool has_kernel(kiln_device *dev, kernel_id kernel)
{
    const struct vk_device *vk = dev->impl;
    return vk->kernel_flags[kernel] != 0;
}

static const char *shader_text(void *user, const char *name)
{
    (void)user;
    for (int i = 0; i < shader_text_count; i++)
        if (!strcmp(shader_texts[i].name, name)) return shader_texts[i].text;
    return NULL;
}

void vk_caps_of(const struct vk_physical *p, struct device_caps *out)
{
    *out = (struct device_caps){
        .code = CODE_GLSL,
        .checks_values = true, // by the CPU, which computes the ops that look at them, and is waited for
        .f64 = p->f64,
        .i64 = true,
        .f16_storage = true,
        .i8_storage = true,
        .subgroup_size = p->subgroup_size,
        .max_shared_B = p->properties.limits.maxComputeSharedMemorySize,
        .max_push_B = PUSH_WORDS * 4,
        .max_local = p->properties.limits.maxComputeWorkGroupInvocations,
        .shuffle = p->shuffle,
        .halves = p->halves,
        .matrix = p->matrix,
        .matrix_bf16 = p->matrix_bf16,
        .max_turns = p->software ? 1 << 15 : 0, // llvmpipe counts to 65535, turns of outer loops twice
        // Vulkan does not tell how many processors there are. A software driver has a few threads of short vectors;
        // the rest is sized for large GPUs, which costs a small one little.
        .parallelism = p->software     ? 1024
                       : p->integrated ? 1u << 13
                                       : 1u << 17,
    };
}

static void fill_info(struct vk_device *vk)
{
    kiln_device *dev = vk->owner;
    const struct vk_physical *p = &vk->physical;
    dev->info.software = p->software;
    dev->info.memory_B = p->memory_B;
    dev->info.subgroup_size = p->subgroup_size;
    dev->info.threads = 0;
    vk_caps_of(p, &dev->caps);
}

static kiln_status open_parts(struct vk_device *vk, const char *spec)
{
    kiln_device *dev = vk->owner;
    TRY(vk_instance_get(&vk->instance));
    TRY(vk_physical_choose(vk->instance, spec, &vk->physical));
    if (debug_flag("halves")) vk->physical.halves = true;
    if (debug_flag("no-halves")) vk->physical.halves = false;
    if (debug_flag("no-matrices")) vk->physical.matrix = vk->physical.matrix_bf16 = 0;
    snprintf(dev->name, sizeof dev->name, "%.127s", vk->physical.properties.deviceName);
    snprintf(dev->driver, sizeof dev->driver, "%s", vk->physical.driver);
    vk->instance->fn.vkGetPhysicalDeviceMemoryProperties(vk->physical.handle, &vk->memory);
    vk->shared_memory = vk->physical.software || vk->physical.integrated;
    vk->driver_specialises = debug_flag("spec");
    vk->max_points = UINT64_C(1) << 31;
    vk->most_recorded = 1u << 16;
    const char *blocking = getenv("KILN_LAUNCH_BLOCKING");
    vk->blocking = blocking && !strcmp(blocking, "1");
    fill_info(vk);
    TRY(find_queue_family(vk));
    TRY(create_device(vk));
    TRY(flag_kernels(vk));
    TRY(vk_stream_init(vk));
    TRY(vk_ring_init(vk, &vk->upload, UPLOAD_RING_B, VK_MEMORY_UPLOAD));
    TRY(vk_ring_init(vk, &vk->download, vk->shared_memory ? 1u << 16 : DOWNLOAD_RING_B, VK_MEMORY_DOWNLOAD));
    TRY(vk_ring_init(vk, &vk->arguments, ARGUMENT_RING_B, VK_MEMORY_UPLOAD));
    vk->owner->nothing = vk->arguments.buffer.address;
    TRY(vk_pipelines_init(vk));
    vk_tiles_load(vk);
    return KILN_OK;
}

static void destroy_parts(struct vk_device *vk)
{
    vk_profile_finish(vk);
    vk_recordings_finish(vk);
    vk_compiled_finish(vk);
    vk_gates_finish(vk);
    vk_pipelines_finish(vk);
    vk_slabs_finish(vk);
    vk_ring_finish(vk, &vk->upload);
    vk_ring_finish(vk, &vk->download);
    vk_ring_finish(vk, &vk->arguments);
    vk_stream_finish(vk);
    if (vk->timestamps) vk->fn.vkDestroyQueryPool(vk->device, vk->timestamps, NULL);
    vk->fn.vkDestroyDevice(vk->device, NULL);
}

// The queue still works, perhaps for ever: all that it may touch stays until the process ends.
static void abandon(struct vk_device *vk)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct vk_device *abandoned;
    log_warn("%s: closed while its queue still works; what that uses is not given back", vk->owner->name);
    vk->owner = NULL;
    pthread_mutex_lock(&lock);
    vk->next_abandoned = abandoned;
    abandoned = vk;
    pthread_mutex_unlock(&lock);
}

static void vk_close(kiln_device *dev)
{
    struct vk_device *vk = dev->impl;
    if (!vk) return;
    dev->impl = NULL;
    if (vk->fn.vkDestroyDevice && !vk_stream_quiet(vk)) {
        abandon(vk);
        return;
    }
    if (vk->fn.vkDestroyDevice) destroy_parts(vk);
    free(vk->kernel_flags);
    pthread_mutex_destroy(&vk->lock);
    free(vk);
}

static kiln_status vk_open(kiln_device *dev, const char *spec)
{
    struct vk_device *vk = calloc(1, sizeof *vk);
    if (!vk) return error_set(KILN_E_MEMORY, "vulkan: out of memory");
    vk->owner = dev;
    pthread_mutex_init(&vk->lock, NULL);
    dev->impl = vk;
    kiln_status status = open_parts(vk, spec);
    if (status) vk_close(dev);
    return status;
}

static kiln_status vk_synchronize(kiln_device *dev)
{
    struct vk_device *vk = dev->impl;
    pthread_mutex_lock(&vk->lock);
    kiln_status status = vk_stream_drain(vk);
    if (!status) status = vk_gates_judge(vk, true);
    pthread_mutex_unlock(&vk->lock);
    return status;
}

static kiln_status batch(kiln_device *dev, bool begin)
{
    struct vk_device *vk = dev->impl;
    pthread_mutex_lock(&vk->lock);
    kiln_status status = vk_stream_hold(vk, begin);
    pthread_mutex_unlock(&vk->lock);
    return status;
}

struct vk_device *vk_of(kiln_device *dev)
{
    return dev->impl;
}

// The strings of the infos live in the calling thread.
static THREAD_LOCAL struct list_text {
    char name[128], driver[192];
} * texts;

static void drop_texts(void)
{
    free(texts);
    texts = NULL;
}

static bool make_texts(void)
{
    if (!texts) texts = calloc(LIST_MAX, sizeof *texts);
    if (!texts) error_set(KILN_E_MEMORY, "device_list: out of memory");
    if (texts) thread_at_end(THREAD_TEXTS, drop_texts);
    return texts != NULL;
}

static size_t vk_list(kiln_device_info *out, size_t max)
{
    struct vk_instance *instance;
    struct vk_physical *list = NULL;
    uint32_t n = 0;
    size_t stride_B = max ? out->size : 0; // of the caller's array
    if (error_pending || !make_texts()) return 0;
    if (vk_instance_get(&instance) || vk_physical_list(instance, &list, &n)) kiln_error_clear(); // none is an answer
    for (uint32_t i = 0; i < n && i < max && i < LIST_MAX; i++) {
        snprintf(texts[i].name, sizeof texts[i].name, "%.127s", list[i].properties.deviceName);
        snprintf(texts[i].driver, sizeof texts[i].driver, "%s", list[i].driver);
        kiln_device_info *to = (kiln_device_info *)((char *)out + i * stride_B),
                         info = {.kind = "vulkan",
                                 .name = texts[i].name,
                                 .driver = texts[i].driver,
                                 .software = list[i].software,
                                 .memory_B = list[i].memory_B,
                                 .subgroup_size = list[i].subgroup_size};
        to->size = stride_B;
        sized_fill(to, &info, sizeof info);
    }
    free(list);
    return n;
}

const struct device_ops vulkan_device_ops = {
    .kind = "vulkan",
    .role = ROLE_GPU,
    .list = vk_list,
    .open = vk_open,
    .close = vk_close,
    .slab_alloc = vk_slab_alloc,
    .slab_free = vk_slab_free,
    .supports = vk_supports,
    .launch = vk_launch,
    .copy = vk_copy,
    .upload = vk_upload,
    .download = vk_download,
    .tune = vk_tune,
    .leave = vk_leave,
    .synchronize = vk_synchronize,
    .mark = vk_mark,
    .elapsed = vk_elapsed,
    .add_kernel = add_kernel,
    .has_kernel = has_kernel,
    .shader_text = shader_text,
    .load_compiled = vk_load_compiled,
    .unload_compiled = vk_unload_compiled,
    .launch_compiled = vk_launch_compiled,
    .batch = batch,
    .gates = &vk_gate_ops,
    .records = &vk_record_ops,
};
