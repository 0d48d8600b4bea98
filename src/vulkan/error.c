// Results of driver calls as statuses.
#include "vulkan/vk.h"

#define RESULT(name) \
    case name: return #name;
const char *vk_result_name(VkResult r)
{
    switch (r) {
        RESULT(VK_SUCCESS)
        RESULT(VK_NOT_READY)
        RESULT(VK_TIMEOUT)
        RESULT(VK_INCOMPLETE)
        RESULT(VK_ERROR_OUT_OF_HOST_MEMORY)
        RESULT(VK_ERROR_OUT_OF_DEVICE_MEMORY)
        RESULT(VK_ERROR_INITIALIZATION_FAILED)
        RESULT(VK_ERROR_DEVICE_LOST)
        RESULT(VK_ERROR_MEMORY_MAP_FAILED)
        RESULT(VK_ERROR_LAYER_NOT_PRESENT)
        RESULT(VK_ERROR_EXTENSION_NOT_PRESENT)
        RESULT(VK_ERROR_FEATURE_NOT_PRESENT)
        RESULT(VK_ERROR_INCOMPATIBLE_DRIVER)
        RESULT(VK_ERROR_TOO_MANY_OBJECTS)
        RESULT(VK_ERROR_INVALID_SHADER_NV)
        RESULT(VK_ERROR_UNKNOWN)
    default: return "an unknown VkResult";
    }
}

kiln_status vk_result_status(VkResult r)
{
    switch (r) {
    case VK_ERROR_OUT_OF_HOST_MEMORY: return KILN_E_MEMORY;
    case VK_ERROR_OUT_OF_DEVICE_MEMORY: return KILN_E_DEVICE_MEMORY;
    case VK_ERROR_DEVICE_LOST: return KILN_E_DEVICE_LOST;
    case VK_ERROR_EXTENSION_NOT_PRESENT:
    case VK_ERROR_FEATURE_NOT_PRESENT: return KILN_E_UNSUPPORTED;
    default: return KILN_E_DEVICE;
    }
}

// Where in the stream of ops the failure came to light. Batches hold many ops: only a blocking launch names the
// culprit.
kiln_status vk_failed(struct vk_device *vk, VkResult r, const char *call)
{
    if (r == VK_ERROR_DEVICE_LOST) return vk_lose(vk, r, call);
    const char *name = vk->owner->name;
    if (vk->op && vk->blocking) {
        return error_set(vk_result_status(r), "%s: %s: %s failed with %s", vk->op, name, call, vk_result_name(r));
    }
    return error_set(vk_result_status(r), "%s: %s failed with %s", name, call, vk_result_name(r));
}

kiln_status vk_lose(struct vk_device *vk, VkResult r, const char *call)
{
    vk->lost = true;
    vk->open = vk->sealed = false;
    const char *name = vk->owner->name;
    if (vk->op && vk->blocking) {
        return error_set(KILN_E_DEVICE_LOST, "%s: %s: the device is lost: %s failed with %s", vk->op, name, call,
                         vk_result_name(r));
    }
    return error_set(KILN_E_DEVICE_LOST, "%s: the device is lost: %s failed with %s%s%s%s", name, call,
                     vk_result_name(r), vk->op ? " at or before op " : "", vk->op ? vk->op : "",
                     vk->op ? "; KILN_LAUNCH_BLOCKING=1 names the op" : "");
}

kiln_status vk_alive(struct vk_device *vk)
{
    if (KILN_LIKELY(!vk->lost)) return KILN_OK;
    return error_set(KILN_E_DEVICE_LOST, "%s: the device is lost; close it and open it anew", vk->owner->name);
}
