// Compiled fused kernels: one for each family, device and plan, shared by the programs that use it.
#pragma once
#include "codegen/target.h"
#include "device/device.h"

struct jit_kernel;

// Kernels that were compiled for programs of one owner, not found in the process or on disk. Programs that still
// compile may outlive the owner.
struct kernel_count;
struct kernel_count *kernel_count_new(void); // NULL and an error: out of memory
struct kernel_count *kernel_count_ref(struct kernel_count *c);
void kernel_count_unref(struct kernel_count **c);
uint64_t kernel_count_get(const struct kernel_count *c);

// Where shaders will have to be compiled soon, as the disk holds none: the compiler makes its tables meanwhile, on
// another thread.
void jit_warm(void);

// Finds or compiles the kernel. KILN_E_MISSING or KILN_E_UNSUPPORTED: this build or device cannot; the caller then runs
// single ops. Safe from several threads: of two that ask for the same kernel, one compiles and the other waits.
// Whoever compiles counts it in `count`, where there is one.
kiln_status jit_kernel_get(kiln_device *dev, const struct fused_kernel *k, struct kernel_count *count,
                           struct jit_kernel **out);
// The kernel where it is compiled already, in this process; else NULL without an error.
struct jit_kernel *jit_kernel_find(kiln_device *dev, const struct fused_kernel *k);
void jit_kernel_unref(struct jit_kernel **k);

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
    const struct launch_facts *facts; // NULL: not known
};
kiln_status jit_launch_init(struct arena *a, struct jit_launch *l, struct jit_kernel *kernel,
                            const struct fused_kernel *k, kiln_device *dev);
// What a run brings to one launch. On the host *failed becomes 1 + the number of a check that did not hold.
struct jit_arguments {
    const uint64_t *addresses;           // of point 0 of each access
    const struct compiled_range *ranges; // that they touch, inputs then outputs
    const uint64_t *scalars;             // the bits of l->scalars
    uint64_t workspace;
    uint32_t *failed;
    struct device_gate *gate;     // NULL: there is none
    struct device_record *record; // NULL: it runs
};
kiln_status jit_launch_run(const struct jit_launch *l, kiln_device *dev, const struct jit_arguments *a);
// The same launch with another first size: what of it is not the same. On the host.
kiln_status jit_launch_slice(const struct jit_launch *l, const struct fused_kernel *k, kiln_device *dev, int64_t size,
                             struct codegen_launch *out);
// For launches that are made again and again: its block at `words`, c.n_words of them, which stay the caller's. An
// address of an access is words[access].
bool jit_is_wide(const struct jit_launch *l); // blocks are those of the host: words of 64 bits
void jit_launch_lay(const struct jit_launch *l, const struct jit_arguments *a, uint64_t *words,
                    struct compiled_launch *out);
bool jit_takes_number(const struct jit_launch *l, int input);
const struct codegen_plan *jit_launch_plan(const struct jit_launch *l);
void jit_launch_fixed(const struct jit_launch *l, bool *fixed); // c.n_words: those that are the same in every run
void jit_set_number(const struct jit_launch *l, uint64_t *words, int input, int64_t number);
// n launches of kernels of one family, as one launch where the device has more to do for each. Their kernel was made
// for tables (fused_kernel.table). `a`: one each.
kiln_status jit_table_run(const struct jit_launch *l, int n, kiln_device *dev, const struct jit_arguments *a);
