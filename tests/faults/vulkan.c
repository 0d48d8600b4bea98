// Vulkan's functions that return a result, and a count of the objects that are made and destroyed. Found as the library
// finds them: by name.
#include "faults.h"

#include <stdatomic.h>
#include <string.h>

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

static atomic_long live;
static atomic_bool lost;

// Modules that are unpacked stay so.
const uint32_t *__real_vk_module_words(int kernel);
const uint32_t *__wrap_vk_module_words(int kernel);
const uint32_t *__wrap_vk_module_words(int kernel)
{
    blocks_hide(true);
    const uint32_t *words = __real_vk_module_words(kernel);
    blocks_hide(false);
    return words;
}

long vulkan_live(void)
{
    return atomic_load(&live);
}

static VkResult failure(void)
{
    if (fault_is_due(FAULT_VULKAN)) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    if (fault_is_due(FAULT_HOST)) return VK_ERROR_OUT_OF_HOST_MEMORY;
    return VK_SUCCESS;
}

static PFN_vkGetInstanceProcAddr real_instance;
static PFN_vkGetDeviceProcAddr real_device;
static VkDevice device;
static PFN_vkDeviceWaitIdle real_vkDeviceWaitIdle;

// Of a call that may find the device to be lost. What runs on it ends, as on one that is: its memory may go.
static VkResult loss(void)
{
    if (fault_is_due(FAULT_LOST)) {
        atomic_store(&lost, true);
        real_vkDeviceWaitIdle(device);
    }
    return atomic_load(&lost) ? VK_ERROR_DEVICE_LOST : failure();
}

#define CALL(name, fails, parameters, arguments)     \
    static PFN_##name real_##name;                   \
    static VkResult VKAPI_PTR hook_##name parameters \
    {                                                \
        VkResult r = fails();                        \
        return r < 0 ? r : real_##name arguments;    \
    }
CALL(vkEnumerateInstanceVersion, failure, (uint32_t * v), (v))
CALL(vkEnumerateInstanceLayerProperties, failure, (uint32_t * n, VkLayerProperties *v), (n, v))
CALL(vkEnumerateInstanceExtensionProperties, failure, (const char *l, uint32_t *n, VkExtensionProperties *v), (l, n, v))
CALL(vkEnumeratePhysicalDevices, failure, (VkInstance i, uint32_t *n, VkPhysicalDevice *v), (i, n, v))
CALL(vkEnumerateDeviceExtensionProperties, failure,
     (VkPhysicalDevice p, const char *l, uint32_t *n, VkExtensionProperties *v), (p, l, n, v))
CALL(vkBindBufferMemory, failure, (VkDevice d, VkBuffer b, VkDeviceMemory m, VkDeviceSize at), (d, b, m, at))
CALL(vkMapMemory, failure,
     (VkDevice d, VkDeviceMemory m, VkDeviceSize at, VkDeviceSize n, VkMemoryMapFlags f, void **p), (d, m, at, n, f, p))
CALL(vkResetCommandPool, failure, (VkDevice d, VkCommandPool p, VkCommandPoolResetFlags f), (d, p, f))
CALL(vkAllocateCommandBuffers, failure, (VkDevice d, const VkCommandBufferAllocateInfo *i, VkCommandBuffer *v),
     (d, i, v))
CALL(vkBeginCommandBuffer, failure, (VkCommandBuffer b, const VkCommandBufferBeginInfo *i), (b, i))
CALL(vkEndCommandBuffer, failure, (VkCommandBuffer b), (b))
CALL(vkGetPipelineCacheData, failure, (VkDevice d, VkPipelineCache c, size_t *n, void *v), (d, c, n, v))
CALL(vkQueueSubmit2, loss, (VkQueue q, uint32_t n, const VkSubmitInfo2 *v, VkFence f), (q, n, v, f))
CALL(vkWaitSemaphores, loss, (VkDevice d, const VkSemaphoreWaitInfo *i, uint64_t limit), (d, i, limit))
CALL(vkGetSemaphoreCounterValue, loss, (VkDevice d, VkSemaphore s, uint64_t *v), (d, s, v))
CALL(vkGetQueryPoolResults, loss,
     (VkDevice d, VkQueryPool p, uint32_t a, uint32_t n, size_t B, void *v, VkDeviceSize s, VkQueryResultFlags f),
     (d, p, a, n, B, v, s, f))

// What is made by one function and destroyed by another, as children of a device. A handle is undefined after a
// failure.
#define OBJECT(type, make, info, destroy)                                                                       \
    static PFN_##make real_##make;                                                                              \
    static VkResult VKAPI_PTR hook_##make(VkDevice d, const info *i, const VkAllocationCallbacks *c, type *out) \
    {                                                                                                           \
        VkResult r = failure();                                                                                 \
        if (r >= 0) r = real_##make(d, i, c, out);                                                              \
        if (r >= 0)                                                                                             \
            atomic_fetch_add(&live, 1);                                                                         \
        else                                                                                                    \
            *out = (type)(uintptr_t)0xbad;                                                                      \
        return r;                                                                                               \
    }                                                                                                           \
    static PFN_##destroy real_##destroy;                                                                        \
    static void VKAPI_PTR hook_##destroy(VkDevice d, type object, const VkAllocationCallbacks *c)               \
    {                                                                                                           \
        if (object) atomic_fetch_sub(&live, 1);                                                                 \
        real_##destroy(d, object, c);                                                                           \
    }
OBJECT(VkDeviceMemory, vkAllocateMemory, VkMemoryAllocateInfo, vkFreeMemory)
OBJECT(VkBuffer, vkCreateBuffer, VkBufferCreateInfo, vkDestroyBuffer)
OBJECT(VkSemaphore, vkCreateSemaphore, VkSemaphoreCreateInfo, vkDestroySemaphore)
OBJECT(VkCommandPool, vkCreateCommandPool, VkCommandPoolCreateInfo, vkDestroyCommandPool)
OBJECT(VkQueryPool, vkCreateQueryPool, VkQueryPoolCreateInfo, vkDestroyQueryPool)
OBJECT(VkShaderModule, vkCreateShaderModule, VkShaderModuleCreateInfo, vkDestroyShaderModule)
OBJECT(VkPipelineLayout, vkCreatePipelineLayout, VkPipelineLayoutCreateInfo, vkDestroyPipelineLayout)
OBJECT(VkPipelineCache, vkCreatePipelineCache, VkPipelineCacheCreateInfo, vkDestroyPipelineCache)

static PFN_vkCreateComputePipelines real_vkCreateComputePipelines;
static VkResult VKAPI_PTR hook_vkCreateComputePipelines(VkDevice d, VkPipelineCache cache, uint32_t n,
                                                        const VkComputePipelineCreateInfo *infos,
                                                        const VkAllocationCallbacks *c, VkPipeline *out)
{
    VkResult r = failure();
    if (r >= 0) r = real_vkCreateComputePipelines(d, cache, n, infos, c, out);
    if (r >= 0) atomic_fetch_add(&live, n);
    for (uint32_t i = 0; i < n && r < 0; i++) out[i] = (VkPipeline)(uintptr_t)0xbad;
    return r;
}

static PFN_vkDestroyPipeline real_vkDestroyPipeline;
static void VKAPI_PTR hook_vkDestroyPipeline(VkDevice d, VkPipeline p, const VkAllocationCallbacks *c)
{
    if (p) atomic_fetch_sub(&live, 1);
    real_vkDestroyPipeline(d, p, c);
}

static PFN_vkCreateDevice real_vkCreateDevice;
static VkResult VKAPI_PTR hook_vkCreateDevice(VkPhysicalDevice p, const VkDeviceCreateInfo *i,
                                              const VkAllocationCallbacks *c, VkDevice *out)
{
    VkResult r = failure();
    if (r >= 0) r = real_vkCreateDevice(p, i, c, out);
    if (r < 0) {
        *out = (VkDevice)(uintptr_t)0xbad;
        return r;
    }
    atomic_fetch_add(&live, 1);
    device = *out;
    real_vkDeviceWaitIdle = (PFN_vkDeviceWaitIdle)real_device(device, "vkDeviceWaitIdle");
    return r;
}

static PFN_vkDestroyDevice real_vkDestroyDevice;
static void VKAPI_PTR hook_vkDestroyDevice(VkDevice d, const VkAllocationCallbacks *c)
{
    if (d) atomic_fetch_sub(&live, 1);
    atomic_store(&lost, false);
    real_vkDestroyDevice(d, c);
}

static PFN_vkCreateInstance real_vkCreateInstance;
static VkResult VKAPI_PTR hook_vkCreateInstance(const VkInstanceCreateInfo *i, const VkAllocationCallbacks *c,
                                                VkInstance *out)
{
    VkResult r = failure();
    if (r < 0) *out = (VkInstance)(uintptr_t)0xbad;
    return r < 0 ? r : real_vkCreateInstance(i, c, out);
}

static PFN_vkVoidFunction VKAPI_PTR hook_device(VkDevice d, const char *name);

// The hook of that name, which calls `real`; `real` where there is none.
static PFN_vkVoidFunction hook(const char *name, PFN_vkVoidFunction real)
{
    if (!real) return NULL;
    if (!strcmp(name, "vkGetDeviceProcAddr")) {
        real_device = (PFN_vkGetDeviceProcAddr)real;
        return (PFN_vkVoidFunction)hook_device;
    }
#define HOOK(f)                                         \
    if (!strcmp(name, #f) || !strcmp(name, #f "KHR")) { \
        real_##f = (PFN_##f)real;                       \
        return (PFN_vkVoidFunction)hook_##f;            \
    }
    HOOK(vkCreateInstance)
    HOOK(vkCreateDevice)
    HOOK(vkDestroyDevice)
    HOOK(vkAllocateMemory)
    HOOK(vkFreeMemory)
    HOOK(vkCreateComputePipelines)
    HOOK(vkDestroyPipeline)
    HOOK(vkEnumerateInstanceVersion)
    HOOK(vkEnumerateInstanceLayerProperties)
    HOOK(vkEnumerateInstanceExtensionProperties)
    HOOK(vkEnumeratePhysicalDevices)
    HOOK(vkEnumerateDeviceExtensionProperties)
    HOOK(vkBindBufferMemory)
    HOOK(vkMapMemory)
    HOOK(vkResetCommandPool)
    HOOK(vkAllocateCommandBuffers)
    HOOK(vkBeginCommandBuffer)
    HOOK(vkEndCommandBuffer)
    HOOK(vkGetPipelineCacheData)
    HOOK(vkQueueSubmit2)
    HOOK(vkWaitSemaphores)
    HOOK(vkGetSemaphoreCounterValue)
    HOOK(vkGetQueryPoolResults)
    HOOK(vkCreateBuffer)
    HOOK(vkDestroyBuffer)
    HOOK(vkCreateSemaphore)
    HOOK(vkDestroySemaphore)
    HOOK(vkCreateCommandPool)
    HOOK(vkDestroyCommandPool)
    HOOK(vkCreateQueryPool)
    HOOK(vkDestroyQueryPool)
    HOOK(vkCreateShaderModule)
    HOOK(vkDestroyShaderModule)
    HOOK(vkCreatePipelineLayout)
    HOOK(vkDestroyPipelineLayout)
    HOOK(vkCreatePipelineCache)
    HOOK(vkDestroyPipelineCache)
    return real;
}

static PFN_vkVoidFunction VKAPI_PTR hook_device(VkDevice d, const char *name)
{
    return hook(name, real_device(d, name));
}

static PFN_vkVoidFunction VKAPI_PTR hook_instance(VkInstance i, const char *name)
{
    return hook(name, real_instance(i, name));
}

any_fn vulkan_hook(any_fn get)
{
    real_instance = (PFN_vkGetInstanceProcAddr)get;
    return (any_fn)hook_instance;
}
