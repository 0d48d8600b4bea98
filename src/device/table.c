// The kinds of devices of this build: the one place that names them.
#include "base/options.h"
#include "device/device.h"

const struct device_ops *const device_kinds[] = {
    &cpu_device_ops,
#if KILN_WITH_VULKAN
    &vulkan_device_ops,
#endif
    &null_device_ops,
    NULL,
};

const struct device_ops *device_kind_for(enum device_role role)
{
    for (const struct device_ops *const *kind = device_kinds; *kind; kind++)
        if ((*kind)->role == role) return *kind;
    return NULL;
}

size_t kiln_device_list(kiln_device_info *out, size_t max)
{
    size_t n = 0;
    if (error_pending || (max && sized_check("device_list", kiln_device_info, out))) return 0;
    size_t stride_B = max ? out->size : 0; // of the caller's array
    for (const struct device_ops *const *kind = device_kinds; *kind; kind++) {
        size_t room = n < max ? max - n : 0;
        kiln_device_info *first = room ? (kiln_device_info *)((char *)out + n * stride_B) : NULL;
        if (room) first->size = stride_B;
        if ((*kind)->list) n += (*kind)->list(first, room);
    }
    return n;
}
