// The loader, opened at run time, and the one instance that all Vulkan devices of the process share. Both stay to the
// end of the process: destroying the last instance unloads the drivers, which not all of them survive.
#include "base/process.h"
#include "vulkan/vk.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
GUARD_LOCK(guard_instance, lock)
static struct vk_global_functions globals;
static struct vk_instance shared;
static unsigned shared_generation; // of the process that made it

static const char validation_layer[] = "VK_LAYER_KHRONOS_validation";

// Called with the lock held.
static kiln_status open_loader(void)
{
    if (globals.vkGetInstanceProcAddr) return KILN_OK;
    void *library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return error_set(KILN_E_MISSING, "vulkan: no Vulkan loader: %s; Debian's package is libvulkan1", dlerror());
    PFN_vkGetInstanceProcAddr get = (PFN_vkGetInstanceProcAddr)(uintptr_t)dlsym(library, "vkGetInstanceProcAddr");
    if (!get) return error_set(KILN_E_MISSING, "vulkan: libvulkan.so.1 has no vkGetInstanceProcAddr");
#define LOAD(name)                                         \
    globals.name = (PFN_##name)get(VK_NULL_HANDLE, #name); \
    if (!globals.name) return error_set(KILN_E_MISSING, "vulkan: the Vulkan loader lacks " #name);
    VK_GLOBAL_FUNCTIONS(LOAD)
#undef LOAD
    globals.vkGetInstanceProcAddr = get;
    return KILN_OK;
}

kiln_status vk_loader_open(const struct vk_global_functions **out)
{
    pthread_mutex_lock(&lock);
    kiln_status status = open_loader();
    pthread_mutex_unlock(&lock);
    *out = &globals;
    return status;
}

static bool have_layer(void)
{
    uint32_t n = 0;
    if (globals.vkEnumerateInstanceLayerProperties(&n, NULL) < 0 || n == 0) return false;
    VkLayerProperties *layers = calloc(n, sizeof *layers);
    if (!layers) return false;
    bool found = false;
    if (globals.vkEnumerateInstanceLayerProperties(&n, layers) >= 0) {
        for (uint32_t i = 0; i < n; i++) found |= !strcmp(layers[i].layerName, validation_layer);
    }
    free(layers);
    return found;
}

static kiln_status load_functions(struct vk_instance *i)
{
#define LOAD(name)                                                            \
    i->fn.name = (PFN_##name)globals.vkGetInstanceProcAddr(i->handle, #name); \
    if (!i->fn.name) return error_set(KILN_E_MISSING, "vulkan: the Vulkan loader lacks " #name);
    VK_INSTANCE_FUNCTIONS(LOAD)
#undef LOAD
#define LOAD(name) i->fn.name = (PFN_##name)globals.vkGetInstanceProcAddr(i->handle, #name);
    if (i->validation) {
        VK_DEBUG_FUNCTIONS(LOAD)
    }
#undef LOAD
    return KILN_OK;
}

static kiln_status create(struct vk_instance *i)
{
    *i = (struct vk_instance){0};
    TRY(open_loader());
    VkResult r = globals.vkEnumerateInstanceVersion(&i->api_version);
    if (r < 0)
        return error_set(vk_result_status(r), "vulkan: vkEnumerateInstanceVersion failed with %s", vk_result_name(r));
    if (i->api_version < VK_API_VERSION_1_2) {
        return error_set(KILN_E_UNSUPPORTED, "vulkan: the Vulkan loader offers less than version 1.2");
    }
    i->validation = debug_flag("validate") && have_layer();
    if (debug_flag("validate") && !i->validation)
        log_warn("KILN_DEBUG=validate: %s is not installed", validation_layer);

    VkApplicationInfo application = {
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
        .pEngineName = "kiln",
        .apiVersion = i->api_version < VK_API_VERSION_1_3 ? VK_API_VERSION_1_2 : VK_API_VERSION_1_3,
    };
    VkDebugUtilsMessengerCreateInfoEXT messenger = {
        .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
        .messageSeverity =
            VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
        .messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT,
        .pfnUserCallback = vk_validation_report,
    };
    const char *layers[] = {validation_layer}, *extensions[] = {VK_EXT_DEBUG_UTILS_EXTENSION_NAME};
    VkInstanceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
        .pNext = i->validation ? &messenger : NULL,
        .pApplicationInfo = &application,
        .enabledLayerCount = i->validation,
        .ppEnabledLayerNames = layers,
        .enabledExtensionCount = i->validation,
        .ppEnabledExtensionNames = extensions,
    };
    r = globals.vkCreateInstance(&info, NULL, &i->handle);
    if (r < 0) {
        i->handle = VK_NULL_HANDLE;
        bool short_of_memory = vk_result_status(r) == KILN_E_MEMORY || vk_result_status(r) == KILN_E_DEVICE_MEMORY;
        return error_set(short_of_memory ? vk_result_status(r) : KILN_E_MISSING,
                         "vulkan: no Vulkan driver: vkCreateInstance failed with %s", vk_result_name(r));
    }
    TRY(load_functions(i));
    if (i->validation) {
        r = i->fn.vkCreateDebugUtilsMessengerEXT(i->handle, &messenger, NULL, &i->messenger);
        if (r < 0) {
            i->messenger = VK_NULL_HANDLE;
            return error_set(KILN_E_DEVICE, "vulkan: the validation layer takes no messenger (%s)", vk_result_name(r));
        }
    }
    return KILN_OK;
}

static void destroy(struct vk_instance *i)
{
    if (i->messenger) i->fn.vkDestroyDebugUtilsMessengerEXT(i->handle, i->messenger, NULL);
    if (i->handle && i->fn.vkDestroyInstance) i->fn.vkDestroyInstance(i->handle, NULL);
    *i = (struct vk_instance){0};
}

// With the lock.
static kiln_status get_shared(void)
{
    if (shared.handle && shared_generation != process_generation())
        return error_set(KILN_E_STATE, "vulkan: drivers do not work on in a process that was forked from one that uses "
                                       "them; fork before a device is opened");
    if (shared.handle) return KILN_OK;
    shared_generation = process_generation();
    kiln_status status = create(&shared);
    if (status) destroy(&shared);
    return status;
}

kiln_status vk_instance_get(struct vk_instance **out)
{
    pthread_mutex_lock(&lock);
    kiln_status status = get_shared();
    pthread_mutex_unlock(&lock);
    *out = status ? NULL : &shared;
    return status;
}
