// Kernels that are compiled while the program runs.
#pragma once
#include "device/device.h"

// A user's kernel for a device: GLSL from its expression, SPIR-V by glslang, handed to the device. Where the build has
// no glslang, or the device lacks the class, nothing is done and the launch goes to the CPU.
kiln_status jit_compile_user(kiln_device *dev, kernel_id id);
