// The physical devices: what each offers, and which one a name means.
#include "vulkan/matrices.h"
#include "vulkan/vk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool vk_has_extension(struct vk_instance *i, VkPhysicalDevice handle, const char *name)
{
    uint32_t n = 0;
    if (i->fn.vkEnumerateDeviceExtensionProperties(handle, NULL, &n, NULL) < 0 || n == 0) return false;
    VkExtensionProperties *list = calloc(n, sizeof *list);
    if (!list) return false;
    bool found = false;
    if (i->fn.vkEnumerateDeviceExtensionProperties(handle, NULL, &n, list) >= 0) {
        for (uint32_t k = 0; k < n; k++) found |= !strcmp(list[k].extensionName, name);
    }
    free(list);
    return found;
}

static void probe_features(struct vk_instance *i, struct vk_physical *p)
{
    VkPhysicalDeviceSynchronization2Features sync2 = {.sType =
                                                          VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SYNCHRONIZATION_2_FEATURES};
    bool core_1_3 = p->properties.apiVersion >= VK_API_VERSION_1_3;
    bool offers_sync2 = core_1_3 || vk_has_extension(i, p->handle, VK_KHR_SYNCHRONIZATION_2_EXTENSION_NAME);
    p->sync2_extension = !core_1_3;
    VkPhysicalDeviceVulkan12Features v12 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
                                            .pNext = offers_sync2 ? &sync2 : NULL};
    VkPhysicalDeviceVulkan11Features v11 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
                                            .pNext = &v12};
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &v11};
    i->fn.vkGetPhysicalDeviceFeatures2(p->handle, &features);
    p->f64 = features.features.shaderFloat64;
    if (p->properties.limits.maxComputeSharedMemorySize >= 32768) vk_matrix_probe(i, p);

    const struct {
        bool present;
        const char *name;
    } required[] = {
        {v12.bufferDeviceAddress, "bufferDeviceAddress"},
        {v12.timelineSemaphore, "timelineSemaphore"},
        {sync2.synchronization2, "synchronization2"},
        {v12.scalarBlockLayout, "scalarBlockLayout"},
        {features.features.shaderInt64, "shaderInt64"},
        {v12.storageBuffer8BitAccess, "storageBuffer8BitAccess"},
        {v11.storageBuffer16BitAccess, "storageBuffer16BitAccess"},
    };
    size_t len = 0;
    for (size_t k = 0; k < COUNT_OF(required); k++) {
        if (required[k].present) continue;
        len += (size_t)snprintf(p->missing + len, sizeof p->missing - len, "%s%s", len ? ", " : "", required[k].name);
    }
}

// Widths other than 32 may have to have one mode.
static struct spirv_modes modes_of(const VkPhysicalDeviceFloatControlsProperties *p)
{
    VkShaderFloatControlsIndependence all = VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_ALL,
                                      none = VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_NONE;
    bool alone = p->denormBehaviorIndependence == all && p->roundingModeIndependence == all;
    bool together = p->denormBehaviorIndependence != none && p->roundingModeIndependence != none &&
                    p->shaderDenormPreserveFloat64 && p->shaderRoundingModeRTEFloat64;
    bool halves = p->shaderDenormPreserveFloat16 && p->shaderRoundingModeRTEFloat16;
    return (struct spirv_modes){.numbers_f16 = p->shaderSignedZeroInfNanPreserveFloat16,
                                .numbers_f32 = p->shaderSignedZeroInfNanPreserveFloat32,
                                .numbers_f64 = p->shaderSignedZeroInfNanPreserveFloat64,
                                .halves = halves && (alone || together),
                                .halves_with_f64 = !alone};
}

static void probe(struct vk_instance *i, VkPhysicalDevice handle, struct vk_physical *p)
{
    *p = (struct vk_physical){.handle = handle};
    i->fn.vkGetPhysicalDeviceProperties(handle, &p->properties);
    p->software = p->properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
    p->integrated = p->properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
    VkPhysicalDeviceMemoryProperties memory;
    i->fn.vkGetPhysicalDeviceMemoryProperties(handle, &memory);
    for (uint32_t k = 0; k < memory.memoryHeapCount; k++) {
        if (memory.memoryHeaps[k].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) p->memory_B += memory.memoryHeaps[k].size;
    }
    if (p->properties.apiVersion < VK_API_VERSION_1_2) {
        snprintf(p->missing, sizeof p->missing, "Vulkan 1.2");
        snprintf(p->driver, sizeof p->driver, "Vulkan %u.%u", VK_API_VERSION_MAJOR(p->properties.apiVersion),
                 VK_API_VERSION_MINOR(p->properties.apiVersion));
        return;
    }
    VkPhysicalDeviceIDProperties id = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES};
    VkPhysicalDeviceSubgroupProperties subgroup = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES,
                                                   .pNext = &id};
    VkPhysicalDeviceDriverProperties driver = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES,
                                               .pNext = &subgroup};
    VkPhysicalDeviceFloatControlsProperties floats = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES, .pNext = &driver};
    VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                              .pNext = &floats};
    i->fn.vkGetPhysicalDeviceProperties2(handle, &properties);
    p->subgroup_size = subgroup.subgroupSize;
    p->shuffle = (subgroup.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) &&
                 (subgroup.supportedOperations & VK_SUBGROUP_FEATURE_SHUFFLE_BIT);
    p->modes = modes_of(&floats);
    p->halves = p->modes.halves;
    memcpy(p->driver_uuid, id.driverUUID, sizeof p->driver_uuid);
    memcpy(p->device_uuid, id.deviceUUID, sizeof p->device_uuid);
    snprintf(p->driver, sizeof p->driver, "%.60s %.100s", driver.driverName, driver.driverInfo);
    probe_features(i, p);
}

kiln_status vk_physical_list(struct vk_instance *i, struct vk_physical **out, uint32_t *count)
{
    *out = NULL;
    *count = 0;
    uint32_t n = 0;
    VkResult r = i->fn.vkEnumeratePhysicalDevices(i->handle, &n, NULL);
    if (r < 0) return error_set(KILN_E_MISSING, "vulkan: vkEnumeratePhysicalDevices failed with %s", vk_result_name(r));
    if (n == 0) return KILN_OK;
    VkPhysicalDevice *handles = calloc(n, sizeof *handles);
    struct vk_physical *list = calloc(n, sizeof *list);
    if (!handles || !list || i->fn.vkEnumeratePhysicalDevices(i->handle, &n, handles) < 0) {
        free(handles);
        free(list);
        return error_set(KILN_E_MEMORY, "vulkan: the list of %u devices cannot be read", n);
    }
    for (uint32_t k = 0; k < n; k++) probe(i, handles[k], &list[k]);
    free(handles);
    *out = list;
    *count = n;
    return KILN_OK;
}

// "the loader lists vulkan:0 (llvmpipe, software)"
static const char *there(const struct vk_physical *list, uint32_t n, char *out, size_t size_B)
{
    size_t len = (size_t)snprintf(out, size_B, "the loader lists %s", n ? "" : "no device");
    for (uint32_t k = 0; k < n && len < size_B; k++)
        len += (size_t)snprintf(out + len, size_B - len, "%svulkan:%u (%s%s)", k ? ", " : "", k,
                                list[k].properties.deviceName, list[k].software ? ", software" : "");
    return out;
}

// Index of the device that `spec` means, or an error. "" is the first real device that fits, else the first software
// one; "gpu" the first real one; ":N" the Nth in the loader's order, which must fit.
static kiln_status choose(const struct vk_physical *list, uint32_t n, const char *spec, uint32_t *out)
{
    char text[512];
    if (spec[0] == ':') {
        char *end;
        unsigned long index = strtoul(spec + 1, &end, 10);
        if (end == spec + 1 || *end)
            return error_set(KILN_E_ARGUMENT, "vulkan%s: the part after ':' is not a number; %s", spec,
                             there(list, n, text, sizeof text));
        if (index >= n)
            return error_set(KILN_E_MISSING, "vulkan%s: there is no such device; %s", spec,
                             there(list, n, text, sizeof text));
        if (list[index].missing[0]) {
            return error_set(KILN_E_UNSUPPORTED, "vulkan%s: %s lacks %s", spec, list[index].properties.deviceName,
                             list[index].missing);
        }
        *out = (uint32_t)index;
        return KILN_OK;
    }
    bool any = !strcmp(spec, "");
    if (!any && strcmp(spec, "gpu")) return error_set(KILN_E_ARGUMENT, "vulkan%s: no such device name", spec);
    const struct vk_physical *unfit = NULL;
    for (int software = 0; software <= (any ? 1 : 0); software++) {
        for (uint32_t k = 0; k < n; k++) {
            if (list[k].software != software) continue;
            if (!list[k].missing[0]) {
                *out = k;
                return KILN_OK;
            }
            if (!unfit) unfit = &list[k];
        }
    }
    if (unfit) {
        return error_set(KILN_E_MISSING, "vulkan: no usable device: %s lacks %s", unfit->properties.deviceName,
                         unfit->missing);
    }
    if (any) return error_set(KILN_E_MISSING, "vulkan: no driver lists a device");
    return error_set(KILN_E_MISSING, "gpu: no driver lists a real GPU; %s", there(list, n, text, sizeof text));
}

kiln_status vk_physical_choose(struct vk_instance *i, const char *spec, struct vk_physical *out)
{
    struct vk_physical *list;
    uint32_t n, index = 0;
    TRY(vk_physical_list(i, &list, &n));
    kiln_status status = choose(list, n, spec ? spec : "", &index);
    if (!status) *out = list[index];
    free(list);
    return status;
}
