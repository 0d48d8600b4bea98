// Runs a user's op on the CPU as a pointwise kernel whose body is the interpreter.
#include "cpu/user.h"
#include "cpu/parallel.h"
#include <string.h>

bool cpu_user_supports(const struct launch *l)
{
    const struct user_kernel *u = user_kernel(l->kernel);
    return u && u->dag;
}

// Where memory for the interpreter is out: element by element, with the same bits.
static void one_by_one(const struct scalar_dag *d, int n_in, const uint8_t *size_B, int64_t n, const void *const *in,
                       char *out, size_t out_B)
{
    for (int64_t i = 0; i < n; i++) {
        union scalar_value v[CPU_MAX_IN] = {{0}}, y;
        for (int k = 0; k < n_in; k++) memcpy(&v[k], (const char *)in[k] + i * size_B[k], size_B[k]);
        y = scalar_eval(d, v);
        memcpy(out + (size_t)i * out_B, &y, out_B);
    }
}

// What the driver of pointwise kernels calls: the first scalar is the kernel.
static void run_block(int64_t n, const void *const *in, void *out, const uint64_t *scalars)
{
    static const uint8_t class_B[CLASS_COUNT] = {4, 8, 4, 8, 1};
    const struct user_kernel *u = (const struct user_kernel *)(uintptr_t)scalars[0];
    const struct kernel_info *k = &u->info;
    void *scratch = cpu_scratch(CPU_SCRATCH_CUSTOM, scalar_block_scratch_B(u->dag));
    if (scratch) {
        scalar_eval_block(u->dag, in, out, n, scratch);
        return;
    }
    kiln_error_clear();
    uint8_t size_B[CPU_MAX_IN];
    for (int i = 0; i < k->n_operands - 1; i++) size_B[i] = class_B[k->in_cls[i]];
    one_by_one(u->dag, k->n_operands - 1, size_B, n, in, out, class_B[k->in_cls[k->n_operands - 1]]);
}

kiln_status cpu_user_launch(const struct cpu_isa *isa, const struct launch *l)
{
    const struct user_kernel *u = user_kernel(l->kernel);
    const struct kernel_info *info = &u->info;
    struct cpu_kernel k = {.form = CPU_POINTWISE, .n_in = (uint8_t)(info->n_operands - 1), .fn.pointwise = run_block};
    for (int i = 0; i < k.n_in; i++) k.in_cls[i] = info->in_cls[i];
    k.out_cls = info->in_cls[k.n_in];
    k.cost = (uint16_t)(u->dag->n_nodes < 1000 ? 4 * u->dag->n_nodes : 4000);
    struct launch with_kernel;
    launch_copy(&with_kernel, l);
    with_kernel.scalars[0] = (uint64_t)(uintptr_t)u;
    with_kernel.n_scalars = 1;
    return isa->pointwise(&k, &with_kernel);
}
