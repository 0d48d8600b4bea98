// What a text that multiplies by matrix units asks of the language. GLSL's form of NVIDIA's extension, which compilers
// of all ages know, becomes the one of Khronos in the module: see src/spirv/matrices.c. GLSL has no name for bf16:
// where a text defines MATRICES_BF16, the type of 16 bits is that in the module.
#pragma use_vulkan_memory_model
#extension GL_NV_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
