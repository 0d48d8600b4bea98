// Compiled fused kernels: one for each family, device and plan, shared by the programs that use it.
#pragma once
#include "codegen/target.h"
#include "device/device.h"

struct jit_kernel;

// Finds or compiles the kernel. KILN_E_MISSING or KILN_E_UNSUPPORTED: this build or device cannot; the caller then runs
// single ops. Safe from several threads: of two that ask for the same kernel, one compiles and the other waits.
kiln_status jit_kernel_get(kiln_device *dev, const struct fused_kernel *k, struct jit_kernel **out);
void jit_kernel_unref(struct jit_kernel **k);
bool jit_kernel_was_compiled(const struct jit_kernel *k); // by this process, not read from disk

// A scalar that each run brings.
struct jit_scalar {
    uint8_t index, cls; // of the kernel's scalars
    uint16_t input;     // of the program
};

// A launch of it, laid out once: sizes, strides and scalars stand, addresses change from run to run.
struct jit_launch {
    struct jit_kernel *kernel; // borrowed
    struct codegen_launch c;
    uint64_t *words;  // as the device takes them: u64 for object code; u32, two an address, for SPIR-V
    uint32_t *narrow; // SPIR-V
    int n_access, n_scalars;
    struct jit_scalar *scalars;
    const char *name;
};
kiln_status jit_launch_init(struct arena *a, struct jit_launch *l, struct jit_kernel *kernel,
                            const struct fused_kernel *k, kiln_device *dev);
// `addresses`: of point 0 of each access; `ranges`: what they touch, inputs then outputs; `scalars`: the bits of
// l->scalars. On the host *failed becomes 1 + the number of a check that did not hold.
kiln_status jit_launch_run(const struct jit_launch *l, kiln_device *dev, const uint64_t *addresses,
                           const struct compiled_range *ranges, int n_ranges, uint64_t workspace,
                           const uint64_t *scalars, uint32_t *failed);
