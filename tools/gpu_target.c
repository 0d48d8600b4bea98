// RADV makes a device for hardware that is not there, without memory and queues that work, when RADV_FORCE_FAMILY names
// it. That device compiles pipelines, and VK_KHR_pipeline_executable_properties tells what became of them.
#include "gpu_target.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vulkan/vulkan.h>

// clang-format off
#define FUNCTIONS(X) \
    X(vkCreateComputePipelines) \
    X(vkCreateDescriptorSetLayout) \
    X(vkCreateDevice) \
    X(vkCreatePipelineLayout) \
    X(vkCreateShaderModule) \
    X(vkDestroyDescriptorSetLayout) \
    X(vkDestroyDevice) \
    X(vkDestroyInstance) \
    X(vkDestroyPipeline) \
    X(vkDestroyPipelineLayout) \
    X(vkDestroyShaderModule) \
    X(vkEnumerateDeviceExtensionProperties) \
    X(vkEnumeratePhysicalDevices) \
    X(vkGetPhysicalDeviceFeatures2) \
    X(vkGetPhysicalDeviceProperties2) \
    X(vkGetPipelineExecutablePropertiesKHR) \
    X(vkGetPipelineExecutableStatisticsKHR) \
    X(vkGetPipelineExecutableInternalRepresentationsKHR)
// clang-format on

#define BINDINGS 16

struct gpu_target {
    void *loader;
    VkInstance instance;
    VkPhysicalDevice physical;
    VkDevice device;
    VkDescriptorSetLayout set; // what modules of other projects bind: storage buffers
    VkPipelineLayout layout;
    char driver[128];
#define DECLARE(name) PFN_##name name;
    FUNCTIONS(DECLARE)
#undef DECLARE
};

static const char needs[] = "needs Mesa's driver for AMD GPUs (RADV: Debian's mesa-vulkan-drivers, with its manifest "
                            "radeon_icd*.json, or VK_DRIVER_FILES that names one) and the Vulkan loader (libvulkan1)";

static bool complain(const char *family, const char *why)
{
    fprintf(stderr, "kiln-shader-dump: --target %s: %s; it %s\n", family, why, needs);
    return false;
}

// The driver and the GPU are chosen by the environment of this process. A driver that the user chose stays.
static bool choose_driver(const char *family)
{
    static const char *const places[] = {"/etc", "/usr/local/etc", "/usr/local/share", "/usr/share"};
    setenv("RADV_FORCE_FAMILY", family, 1);
    setenv("MESA_SHADER_CACHE_DISABLE", "true", 0);
    if (getenv("VK_DRIVER_FILES") || getenv("VK_ICD_FILENAMES")) return true;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        char pattern[128];
        glob_t found;
        snprintf(pattern, sizeof pattern, "%s/vulkan/icd.d/radeon_icd*.json", places[i]);
        bool any = !glob(pattern, 0, NULL, &found) && found.gl_pathc;
        if (any) {
            setenv("VK_DRIVER_FILES", found.gl_pathv[0], 1);
            setenv("VK_ICD_FILENAMES", found.gl_pathv[0], 1); // loaders before 1.3.207
        }
        globfree(&found);
        if (any) return true;
    }
    return complain(family, "there is no manifest of the driver");
}

static bool make_instance(struct gpu_target *t, const char *family)
{
    VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_3};
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &application};
    t->loader = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!t->loader) return complain(family, "there is no libvulkan.so.1");
    PFN_vkGetInstanceProcAddr get = (PFN_vkGetInstanceProcAddr)(uintptr_t)dlsym(t->loader, "vkGetInstanceProcAddr");
    PFN_vkCreateInstance create = get ? (PFN_vkCreateInstance)get(NULL, "vkCreateInstance") : NULL;
    if (!create || create(&info, NULL, &t->instance) < 0) return complain(family, "no driver makes an instance");
#define LOAD(name) t->name = (PFN_##name)get(t->instance, #name);
    FUNCTIONS(LOAD)
#undef LOAD
    return true;
}

static bool offers_properties(struct gpu_target *t)
{
    VkExtensionProperties list[512];
    uint32_t n = 512;
    bool found = false;
    if (t->vkEnumerateDeviceExtensionProperties(t->physical, NULL, &n, list) < 0) return false;
    for (uint32_t i = 0; i < n; i++)
        found |= !strcmp(list[i].extensionName, VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME);
    return found;
}

// A name that the driver does not know gives it no GPU.
static bool find_gpu(struct gpu_target *t, const char *family)
{
    char why[160];
    uint32_t n = 1;
    VkResult r = t->vkEnumeratePhysicalDevices(t->instance, &n, &t->physical);
    snprintf(why, sizeof why, "the driver makes no GPU \"%.100s\"", family);
    if (r < 0 || !n) return complain(family, why);
    VkPhysicalDeviceDriverProperties driver = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES};
    VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                              .pNext = &driver};
    t->vkGetPhysicalDeviceProperties2(t->physical, &properties);
    snprintf(t->driver, sizeof t->driver, "%.100s", driver.driverInfo);
    snprintf(why, sizeof why, "the driver %.60s is not RADV", driver.driverName);
    if (driver.driverID != VK_DRIVER_ID_MESA_RADV) return complain(family, why);
    return offers_properties(t) || complain(family, "the driver tells nothing of pipelines");
}

// Everything that the GPU has is on, but what takes work of the queue: that device has none.
static bool make_device(struct gpu_target *t, const char *family)
{
    static const float priority = 1;
    static const char *const extensions[] = {VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME};
    VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR told = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR};
    VkPhysicalDeviceVulkan13Features v13 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES,
                                            .pNext = &told};
    VkPhysicalDeviceVulkan12Features v12 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
                                            .pNext = &v13};
    VkPhysicalDeviceVulkan11Features v11 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
                                            .pNext = &v12};
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &v11};
    t->vkGetPhysicalDeviceFeatures2(t->physical, &features);
    VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1, .pQueuePriorities = &priority};
    VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                               .pNext = &features,
                               .queueCreateInfoCount = 1,
                               .pQueueCreateInfos = &queue,
                               .enabledExtensionCount = 1,
                               .ppEnabledExtensionNames = extensions};
    VkPushConstantRange range = {.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT, .size = 128};
    VkDescriptorSetLayoutBinding bindings[BINDINGS];
    for (uint32_t i = 0; i < BINDINGS; i++)
        bindings[i] = (VkDescriptorSetLayoutBinding){.binding = i,
                                                     .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                                     .descriptorCount = 1,
                                                     .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT};
    VkDescriptorSetLayoutCreateInfo set = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, .bindingCount = BINDINGS, .pBindings = bindings};
    VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                         .setLayoutCount = 1,
                                         .pSetLayouts = &t->set,
                                         .pushConstantRangeCount = 1,
                                         .pPushConstantRanges = &range};
    if (t->vkCreateDevice(t->physical, &info, NULL, &t->device) < 0 ||
        t->vkCreateDescriptorSetLayout(t->device, &set, NULL, &t->set) < 0 ||
        t->vkCreatePipelineLayout(t->device, &layout, NULL, &t->layout) < 0)
        return complain(family, "the driver opens no device");
    return true;
}

// The driver ends the process for a family that it does not know: a child asks first.
static bool ask_child(const char *family)
{
    char why[160];
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        struct gpu_target t = {0};
        const struct rlimit no_core = {0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        _exit(make_instance(&t, family) && find_gpu(&t, family) ? 0 : 1);
    }
    snprintf(why, sizeof why, "the driver knows no GPU \"%.100s\"", family);
    if (child < 0 || waitpid(child, &status, 0) != child) return complain(family, "no process can be started");
    if (WIFSIGNALED(status)) return complain(family, why);
    return WEXITSTATUS(status) == 0; // what is missing has been said
}

struct gpu_target *gpu_target_open(const char *family)
{
    struct gpu_target *t = calloc(1, sizeof *t);
    bool ok = t && choose_driver(family) && ask_child(family) && make_instance(t, family) && find_gpu(t, family) &&
              make_device(t, family);
    if (!ok) gpu_target_close(&t);
    return t;
}

void gpu_target_close(struct gpu_target **target)
{
    struct gpu_target *t = *target;
    *target = NULL;
    if (!t) return;
    if (t->layout) t->vkDestroyPipelineLayout(t->device, t->layout, NULL);
    if (t->set) t->vkDestroyDescriptorSetLayout(t->device, t->set, NULL);
    if (t->device) t->vkDestroyDevice(t->device, NULL);
    if (t->instance) t->vkDestroyInstance(t->instance, NULL);
    free(t); // the loader stays: not every driver survives that it goes
}

const char *gpu_target_driver(const struct gpu_target *target)
{
    return target->driver;
}

// --- a kernel

static VkResult make_pipeline(struct gpu_target *t, VkShaderModule module, const struct gpu_constant *constants,
                              size_t n_constants, VkPipeline *out)
{
    VkSpecializationMapEntry entries[64];
    for (size_t i = 0; i < n_constants; i++)
        entries[i] = (VkSpecializationMapEntry){
            .constantID = constants[i].id,
            .offset = (uint32_t)(i * sizeof *constants + offsetof(struct gpu_constant, value)),
            .size = 4};
    VkSpecializationInfo special = {.mapEntryCount = (uint32_t)n_constants,
                                    .pMapEntries = entries,
                                    .dataSize = n_constants * sizeof *constants,
                                    .pData = constants};
    VkComputePipelineCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
                                        .flags = VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR |
                                                 VK_PIPELINE_CREATE_CAPTURE_INTERNAL_REPRESENTATIONS_BIT_KHR,
                                        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                                                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                                                  .module = module,
                                                  .pName = "main",
                                                  .pSpecializationInfo = &special},
                                        .layout = t->layout};
    return t->vkCreateComputePipelines(t->device, VK_NULL_HANDLE, 1, &info, NULL, out);
}

static double value_of(const VkPipelineExecutableStatisticKHR *s)
{
    switch (s->format) {
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR: return s->value.b32;
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR: return (double)s->value.i64;
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR: return (double)s->value.u64;
    default: return s->value.f64;
    }
}

static bool read_statistics(struct gpu_target *t, const VkPipelineExecutableInfoKHR *of, struct gpu_code *code)
{
    VkPipelineExecutableStatisticKHR list[48];
    uint32_t n = sizeof list / sizeof list[0];
    for (uint32_t i = 0; i < n; i++)
        list[i] = (VkPipelineExecutableStatisticKHR){.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR};
    if (t->vkGetPipelineExecutableStatisticsKHR(t->device, of, &n, list) < 0) return false;
    code->n_statistics = n;
    for (uint32_t i = 0; i < n; i++) {
        snprintf(code->statistics[i].name, sizeof code->statistics[i].name, "%.63s", list[i].name);
        code->statistics[i].value = value_of(&list[i]);
    }
    return true;
}

#define TEXTS 8
static bool read_assembly(struct gpu_target *t, const VkPipelineExecutableInfoKHR *of, struct gpu_code *code)
{
    VkPipelineExecutableInternalRepresentationKHR list[TEXTS];
    uint32_t n = TEXTS;
    for (uint32_t i = 0; i < n; i++)
        list[i] = (VkPipelineExecutableInternalRepresentationKHR){
            .sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INTERNAL_REPRESENTATION_KHR};
    if (t->vkGetPipelineExecutableInternalRepresentationsKHR(t->device, of, &n, list) < 0) return false;
    bool ok = true;
    for (uint32_t i = 0; i < n; i++) {
        ok &= (list[i].pData = calloc(1, list[i].dataSize + 1)) != NULL;
        if (!list[i].pData) list[i].dataSize = 0;
    }
    ok = ok && t->vkGetPipelineExecutableInternalRepresentationsKHR(t->device, of, &n, list) >= 0;
    for (uint32_t i = 0; i < n; i++) {
        if (ok && !code->assembly && list[i].isText && !strcmp(list[i].name, "Assembly")) {
            code->assembly = list[i].pData;
            list[i].pData = NULL;
        }
        free(list[i].pData);
    }
    return ok;
}

static bool read_code(struct gpu_target *t, VkPipeline pipeline, struct gpu_code *code)
{
    VkPipelineInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR, .pipeline = pipeline};
    VkPipelineExecutablePropertiesKHR one = {.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_PROPERTIES_KHR};
    uint32_t n = 1;
    if (t->vkGetPipelineExecutablePropertiesKHR(t->device, &info, &n, &one) < 0 || n != 1) return false;
    VkPipelineExecutableInfoKHR of = {.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR, .pipeline = pipeline};
    return read_statistics(t, &of, code) && read_assembly(t, &of, code);
}

bool gpu_target_compile(struct gpu_target *target, const char *name, const uint32_t *words, size_t n_words,
                        const struct gpu_constant *constants, size_t n_constants, struct gpu_code *code)
{
    struct gpu_target *t = target;
    VkShaderModuleCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = n_words * 4, .pCode = words};
    VkShaderModule module = VK_NULL_HANDLE;
    VkPipeline pipeline = VK_NULL_HANDLE;
    *code = (struct gpu_code){0};
    bool ok = n_constants <= 64 && t->vkCreateShaderModule(t->device, &info, NULL, &module) >= 0 &&
              make_pipeline(t, module, constants, n_constants, &pipeline) >= 0 && read_code(t, pipeline, code);
    if (pipeline) t->vkDestroyPipeline(t->device, pipeline, NULL);
    if (module) t->vkDestroyShaderModule(t->device, module, NULL);
    if (!ok) fprintf(stderr, "kiln-shader-dump: %s: the driver did not compile it\n", name);
    return ok;
}
