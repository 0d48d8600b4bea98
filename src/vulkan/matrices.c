// Which matrices the subgroups of a device multiply.
#include "vulkan/matrices.h"

#include <stdlib.h>

enum { COMPONENT_F16 = 0, COMPONENT_F32 = 1, COMPONENT_BF16 = 1000141000, SCOPE_SUBGROUP = 3 };
typedef VkResult (*list_fn)(VkPhysicalDevice, uint32_t *, struct vk_matrix_properties *);

// The smallest workgroup of product.glsl, 64 invocations for 32 x 32 results, has a matrix for each subgroup, and the
// matrices that all subgroups of the largest, 256, store at a time are within 8 KiB.
static bool fits(const struct vk_matrix_properties *p, const struct vk_physical *on, int32_t component)
{
    return p->m == p->n && p->m == p->k && (p->m == 8 || p->m == 16) && p->a == component && p->b == component &&
           p->c == COMPONENT_F32 && p->result == COMPONENT_F32 && !p->saturating && p->scope == SCOPE_SUBGROUP &&
           on->subgroup_size <= 64 && on->subgroup_size >= p->m * p->m / 8;
}

static void find_largest(list_fn list, struct vk_physical *on)
{
    uint32_t n = 0;
    if (list(on->handle, &n, NULL) < 0 || !n) return;
    struct vk_matrix_properties *p = calloc(n, sizeof *p);
    if (!p) return; // products go another way
    for (uint32_t i = 0; i < n; i++) p[i].sType = VK_MATRIX_PROPERTIES_TYPE;
    if (list(on->handle, &n, p) < 0) n = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (fits(&p[i], on, COMPONENT_F16) && p[i].m > on->matrix) on->matrix = p[i].m;
        if (fits(&p[i], on, COMPONENT_BF16) && p[i].m > on->matrix_bf16) on->matrix_bf16 = p[i].m;
    }
    free(p);
}

void vk_matrix_probe(struct vk_instance *i, struct vk_physical *p)
{
    if (!vk_has_extension(i, p->handle, VK_MATRIX_EXTENSION)) return;
    struct vk_bf16_features bf16 = {.sType = VK_BF16_FEATURES_TYPE};
    struct vk_matrix_features matrices = {.sType = VK_MATRIX_FEATURES_TYPE};
    VkPhysicalDeviceVulkan12Features v12 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
                                            .pNext = &matrices};
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &v12};
    if (vk_has_extension(i, p->handle, VK_BF16_EXTENSION)) matrices.pNext = &bf16;
    i->fn.vkGetPhysicalDeviceFeatures2(p->handle, &features);
    list_fn list = (list_fn)i->fn.vkGetInstanceProcAddr(i->handle, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
    if (!matrices.cooperativeMatrix || !v12.vulkanMemoryModel || !list) return;
    find_largest(list, p);
    if (!v12.shaderFloat16) p->matrix = 0;
    if (!bf16.shaderBFloat16Type || !bf16.shaderBFloat16CooperativeMatrix) p->matrix_bf16 = 0;
}
