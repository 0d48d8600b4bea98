// VK_KHR_cooperative_matrix, which headers older than 1.3.255 do not have: what of it is used here.
#pragma once
#include "vulkan/vk.h"

#define VK_MATRIX_EXTENSION       "VK_KHR_cooperative_matrix"
#define VK_MATRIX_FEATURES_TYPE   ((VkStructureType)1000506000)
#define VK_MATRIX_PROPERTIES_TYPE ((VkStructureType)1000506001)
// VK_KHR_shader_bfloat16, of 1.4.311.
#define VK_BF16_EXTENSION     "VK_KHR_shader_bfloat16"
#define VK_BF16_FEATURES_TYPE ((VkStructureType)1000141000)

struct vk_matrix_features { // VkPhysicalDeviceCooperativeMatrixFeaturesKHR
    VkStructureType sType;
    void *pNext;
    VkBool32 cooperativeMatrix, cooperativeMatrixRobustBufferAccess;
};

struct vk_bf16_features { // VkPhysicalDeviceShaderBfloat16FeaturesKHR
    VkStructureType sType;
    void *pNext;
    VkBool32 shaderBFloat16Type, shaderBFloat16DotProduct, shaderBFloat16CooperativeMatrix;
};

struct vk_matrix_properties { // VkCooperativeMatrixPropertiesKHR
    VkStructureType sType;
    void *pNext;
    uint32_t m, n, k;
    int32_t a, b, c, result; // VkComponentTypeKHR
    VkBool32 saturating;
    int32_t scope; // VkScopeKHR
};

// Sets the sides of square matrices of f16 and of bf16 that a subgroup multiplies, with sums of f32: 16 or 8; 0: there
// are none.
void vk_matrix_probe(struct vk_instance *i, struct vk_physical *p);
