// Which matrices the subgroups of a device multiply.
#include "vulkan/matrices.h"

#include <stdlib.h>

enum { COMPONENT_F16 = 0, COMPONENT_F32 = 1, SCOPE_SUBGROUP = 3 };
typedef VkResult (*list_fn)(VkPhysicalDevice, uint32_t *, struct vk_matrix_properties *);

// The smallest workgroup of product.glsl, 64 invocations for 32 x 32 results, has a matrix for each subgroup, and the
// matrices that all subgroups of the largest, 256, store at a time are within 8 KiB.
static bool fits(const struct vk_matrix_properties *p, const struct vk_physical *on)
{
    return p->m == p->n && p->m == p->k && (p->m == 8 || p->m == 16) && p->a == COMPONENT_F16 &&
           p->b == COMPONENT_F16 && p->c == COMPONENT_F32 && p->result == COMPONENT_F32 && !p->saturating &&
           p->scope == SCOPE_SUBGROUP && on->subgroup_size <= 64 && on->subgroup_size >= p->m * p->m / 8;
}

static uint32_t largest(list_fn list, const struct vk_physical *on)
{
    uint32_t n = 0, side = 0;
    if (list(on->handle, &n, NULL) < 0 || !n) return 0;
    struct vk_matrix_properties *p = calloc(n, sizeof *p);
    if (!p) return 0; // products go another way
    for (uint32_t i = 0; i < n; i++) p[i].sType = VK_MATRIX_PROPERTIES_TYPE;
    if (list(on->handle, &n, p) >= 0)
        for (uint32_t i = 0; i < n; i++)
            if (fits(&p[i], on) && p[i].m > side) side = p[i].m;
    free(p);
    return side;
}

uint32_t vk_matrix_side(struct vk_instance *i, const struct vk_physical *p)
{
    if (!vk_has_extension(i, p->handle, VK_MATRIX_EXTENSION)) return 0;
    struct vk_matrix_features matrices = {.sType = VK_MATRIX_FEATURES_TYPE};
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &matrices};
    i->fn.vkGetPhysicalDeviceFeatures2(p->handle, &features);
    list_fn list = (list_fn)i->fn.vkGetInstanceProcAddr(i->handle, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
    return matrices.cooperativeMatrix && list ? largest(list, p) : 0;
}
