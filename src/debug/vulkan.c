// Vulkan: the loader, and what a driver offers. Nothing is opened but the instance.
#include "debug/facts.h"
#include "device/device.h"
#include "vulkan/vk.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fact_version(const struct facts *f, const char *name, uint32_t v)
{
    char text[48];
    snprintf(text, sizeof text, "%u.%u.%u", VK_API_VERSION_MAJOR(v), VK_API_VERSION_MINOR(v), VK_API_VERSION_PATCH(v));
    fact_text(f, name, text);
}

void facts_loader(struct facts *f)
{
    const struct vk_global_functions *loader;
    if (vk_loader_open(&loader)) {
        fact_bool(f, "vulkan loader", false, kiln_error_message());
        kiln_error_clear();
        return;
    }
    fact_bool(f, "vulkan loader", true, NULL);
    fact_text(f, "vulkan loader path", fact_library_path((const void *)(uintptr_t)loader->vkGetInstanceProcAddr));
    uint32_t version = 0;
    if (loader->vkEnumerateInstanceVersion(&version) >= 0) fact_version(f, "vulkan loader version", version);
}

static void facts_limits(struct facts *f, const VkPhysicalDeviceLimits *l)
{
    f->group = "limit";
    fact_number(f, "push constants", l->maxPushConstantsSize, "bytes");
    fact_number(f, "shared memory of a workgroup", l->maxComputeSharedMemorySize, "bytes");
    fact_number(f, "invocations of a workgroup", l->maxComputeWorkGroupInvocations, NULL);
    fact_number(f, "workgroups in x", l->maxComputeWorkGroupCount[0], NULL);
    fact_number(f, "storage buffer range", l->maxStorageBufferRange, "bytes");
    fact_number(f, "allocations", l->maxMemoryAllocationCount, NULL);
    fact_number(f, "timestamp period", (double)l->timestampPeriod, "ns");
    fact_number(f, "rank of a tensor", MAX_RANK, NULL);
}

// Extensions of which some are for later versions.
static void facts_extensions(struct facts *f, struct vk_instance *i, const struct vk_physical *p)
{
    static const char *const names[] = {"VK_KHR_cooperative_matrix", "VK_KHR_shader_bfloat16",
                                        "VK_NV_cooperative_matrix2", "VK_KHR_pipeline_executable_properties",
                                        "VK_EXT_subgroup_size_control"};
    uint32_t n = 0;
    i->fn.vkEnumerateDeviceExtensionProperties(p->handle, NULL, &n, NULL);
    VkExtensionProperties *list = calloc(n ? n : 1, sizeof *list);
    if (!list || i->fn.vkEnumerateDeviceExtensionProperties(p->handle, NULL, &n, list) < 0) n = 0;
    for (size_t k = 0; k < COUNT_OF(names); k++) {
        bool found = false;
        for (uint32_t e = 0; e < n; e++) found |= !strcmp(list[e].extensionName, names[k]);
        fact_bool(f, names[k], found, "the driver does not offer it");
    }
    free(list);
}

static void facts_tiles(struct facts *f, const struct vk_physical *p)
{
    char why[5000] = "";
    struct device_caps caps;
    struct tile_table *t = calloc(1, sizeof *t);
    vk_caps_of(p, &caps);
    bool measured = t && vk_tiles_read(p, &caps, t, why, sizeof why);
    int n = 0;
    for (uint32_t i = 0; measured && i < TILE_PLACES; i++) n += t->number[i] != 0;
    fact_bool(f, "measured tiles", measured, why[0] ? why : "none of this device and driver, see kiln-cache tune");
    if (measured) fact_number(f, "classes with measured tiles", n, NULL);
    free(t);
}

static void facts_fast_paths(struct facts *f, const struct vk_physical *p)
{
    f->group = "fast path";
    bool usable = !p->missing[0];
    const char *unusable = "the device is not usable";
    fact_bool(f, "zero copy", usable && (p->software || p->integrated),
              usable ? "device memory is not the host's: transfers go through a staging ring" : unusable);
    fact_bool(f, "modules specialised before the driver", usable && !debug_flag("spec"),
              usable ? "KILN_DEBUG=spec" : unusable);
    fact_bool(f, "f64 kernels", usable && p->f64,
              usable ? "the driver lacks shaderFloat64: the CPU runs them" : unusable);
    struct vk_device probe = {.physical = *p};
    char path[4096];
    fact_bool(f, "f16 converted by instructions", usable && p->halves,
              usable ? "the driver does not promise that they round to nearest and keep denormals" : unusable);
    fact_bool(f, "pipeline cache on disk", !vk_cache_path(&probe, path, sizeof path),
              "neither KILN_CACHE_DIR nor HOME is set");
    facts_tiles(f, p);
    bool off = debug_flag("no-matrices");
    fact_bool(f, "f16 products by matrices of subgroups", usable && p->matrix && !off,
              !usable      ? unusable
              : !p->matrix ? "the driver offers none of f16, 8 or 16 wide, with sums of f32"
                           : "KILN_DEBUG=no-matrices");
    fact_bool(f, "bf16 products by matrices of subgroups", usable && p->matrix_bf16 && !off,
              !usable           ? unusable
              : !p->matrix_bf16 ? "the driver offers none of bf16, 8 or 16 wide, with sums of f32"
                                : "KILN_DEBUG=no-matrices");
}

static void facts_device(struct facts *f, struct vk_instance *i, const struct vk_physical *p)
{
    static const char *const types[] = {"other", "integrated GPU", "discrete GPU", "virtual GPU", "CPU"};
    uint32_t type = (uint32_t)p->properties.deviceType;
    fact_text(f, "name", p->properties.deviceName);
    fact_text(f, "driver", p->driver);
    fact_text(f, "type", type < COUNT_OF(types) ? types[type] : types[0]);
    fact_bool(f, "software", p->software, NULL);
    fact_version(f, "api version", p->properties.apiVersion);
    fact_number(f, "memory", (double)p->memory_B, "bytes");
    fact_number(f, "subgroup size", p->subgroup_size, NULL);
    char lacks[224];
    snprintf(lacks, sizeof lacks, "the driver lacks %s", p->missing);
    fact_bool(f, "usable", !p->missing[0], lacks);
    facts_limits(f, &p->properties.limits);
    f->group = "feature";
    fact_bool(f, "shaderFloat64", p->f64, "the driver does not offer it");
    fact_bool(f, "synchronization2 in the core", !p->sync2_extension, "it comes from the extension");
    facts_extensions(f, i, p);
    facts_fast_paths(f, p);
}

kiln_status facts_vulkan(struct facts *f, uint32_t index)
{
    struct vk_instance *instance;
    struct vk_physical *list;
    uint32_t n;
    TRY(vk_instance_get(&instance));
    kiln_status status = vk_physical_list(instance, &list, &n);
    if (!status) {
        if (index < n)
            facts_device(f, instance, &list[index]);
        else
            status = error_set(KILN_E_MISSING, "device_facts: vulkan:%u: the loader lists %u devices", index, n);
        free(list);
    }
    return status;
}
