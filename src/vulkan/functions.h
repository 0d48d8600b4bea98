// The Vulkan functions in use, one list per level at which the loader hands them out.
#pragma once

#define VK_GLOBAL_FUNCTIONS(X)                \
    X(vkEnumerateInstanceVersion)             \
    X(vkEnumerateInstanceLayerProperties)     \
    X(vkEnumerateInstanceExtensionProperties) \
    X(vkCreateInstance)

#define VK_INSTANCE_FUNCTIONS(X)                \
    X(vkDestroyInstance)                        \
    X(vkEnumeratePhysicalDevices)               \
    X(vkGetPhysicalDeviceProperties)            \
    X(vkGetPhysicalDeviceProperties2)           \
    X(vkGetPhysicalDeviceFeatures2)             \
    X(vkGetPhysicalDeviceMemoryProperties)      \
    X(vkGetPhysicalDeviceQueueFamilyProperties) \
    X(vkEnumerateDeviceExtensionProperties)     \
    X(vkCreateDevice)                           \
    X(vkGetDeviceProcAddr)                      \
    X(vkGetInstanceProcAddr)

// Of the extension VK_EXT_debug_utils: absent unless it was enabled.
#define VK_DEBUG_FUNCTIONS(X)         \
    X(vkCreateDebugUtilsMessengerEXT) \
    X(vkDestroyDebugUtilsMessengerEXT)

// A name that Vulkan 1.3 made core is looked up with the suffix KHR on older devices.
#define VK_DEVICE_FUNCTIONS(X)       \
    X(vkDestroyDevice)               \
    X(vkGetDeviceQueue)              \
    X(vkCreateBuffer)                \
    X(vkDestroyBuffer)               \
    X(vkGetBufferMemoryRequirements) \
    X(vkGetBufferDeviceAddress)      \
    X(vkAllocateMemory)              \
    X(vkFreeMemory)                  \
    X(vkBindBufferMemory)            \
    X(vkMapMemory)                   \
    X(vkCreateSemaphore)             \
    X(vkDestroySemaphore)            \
    X(vkWaitSemaphores)              \
    X(vkGetSemaphoreCounterValue)    \
    X(vkCreateCommandPool)           \
    X(vkDestroyCommandPool)          \
    X(vkResetCommandPool)            \
    X(vkAllocateCommandBuffers)      \
    X(vkFreeCommandBuffers)          \
    X(vkBeginCommandBuffer)          \
    X(vkEndCommandBuffer)            \
    X(vkQueueSubmit2)                \
    X(vkCmdPipelineBarrier2)         \
    X(vkCmdBindPipeline)             \
    X(vkCmdPushConstants)            \
    X(vkCmdDispatch)                 \
    X(vkCmdDispatchIndirect)         \
    X(vkCmdCopyBuffer)               \
    X(vkCmdExecuteCommands)          \
    X(vkCreateQueryPool)             \
    X(vkDestroyQueryPool)            \
    X(vkCmdResetQueryPool)           \
    X(vkCmdWriteTimestamp2)          \
    X(vkGetQueryPoolResults)         \
    X(vkCreateShaderModule)          \
    X(vkDestroyShaderModule)         \
    X(vkCreatePipelineLayout)        \
    X(vkDestroyPipelineLayout)       \
    X(vkCreatePipelineCache)         \
    X(vkDestroyPipelineCache)        \
    X(vkGetPipelineCacheData)        \
    X(vkCreateComputePipelines)      \
    X(vkDestroyPipeline)
