// Kernels by their numbers: those of the catalogue, and those of ops that users register.
#pragma once
#include "base/base.h"

#define MAX_OPERANDS 10

// Kernel ids are family * CLASS_COUNT + compute class (see scalar/scalar.h for classes).
typedef uint16_t kernel_id;

enum kernel_kind {
    KERNEL_NONE,      // no such class of this family
    KERNEL_POINTWISE, // one point of the space a value; operand n_operands-1 is the output
    KERNEL_ROW,       // the last n_reduce dimensions of the space are a row; the output is an element or a row value
    KERNEL_CUSTOM,    // hand-written: shaders/<name>.comp and src/cpu/kernels/<name>.c
};

struct kernel_info {
    const char *name;   // "add", "mul.grad0", "softmax", "matmul"
    uint8_t kind;       // enum kernel_kind
    uint8_t cls;        // compute class
    uint8_t n_operands; // inputs, then outputs
    uint8_t n_out;
    uint8_t n_scalars;
    uint8_t in_cls[MAX_OPERANDS]; // class into which operand i is loaded, or from which it is stored
    uint8_t scalar_cls[8];        // class of each run-time scalar
    bool row_out;                 // KERNEL_ROW: the output is a row value
    uint8_t n_stages;             // KERNEL_ROW: reductions on the longest path from the inputs
    uint8_t n_reductions;         // KERNEL_ROW: reductions in all
    bool cpu_only;                // no SPIR-V module: other devices fall back
    uint16_t tile[3];             // KERNEL_CUSTOM: workgroups = ceil(extent[i] / tile[i])
    bool picks_tile; // KERNEL_CUSTOM: a GPU takes a square tile of its choice instead of tile[0], tile[1]; see
                     // vulkan/launch.c
    bool matrices;   // KERNEL_CUSTOM: multiplies by matrices of subgroups, as wide as device_caps tells
    bool by_rows;    // KERNEL_CUSTOM: workgroups have VARIANT_2 invocations; a GPU says by VARIANT_3, a bit an operand,
                     // whether four neighbours in a row are one access
    bool narrow;     // KERNEL_CUSTOM: computes places in 32 bits where all of an operand is near its address
    bool hands_on;   // KERNEL_CUSTOM: the CPU's makes launch.after along; operands a, b, result, space .. M N K
};
extern const struct kernel_info kernel_catalogue[]; // written by the build
extern const int kernel_count;

// Kernels of ops that users register while the program runs: one element each, ids from kernel_count on. An entry is
// never changed after it was published, and stays.
#define USER_KERNELS_MAX 5120
struct scalar_dag;
struct user_kernel {
    struct kernel_info info;
    const struct scalar_dag *dag; // expanded; NULL: GLSL only
    const char *glsl;             // the user's own expression, or NULL: made from the DAG
};
extern _Atomic(const struct user_kernel *) user_kernels[USER_KERNELS_MAX];

// What is known of any kernel. An id without one answers an entry of kind KERNEL_NONE.
const struct kernel_info *kernel_info_of_user(kernel_id k);
static inline const struct kernel_info *kernel_info(kernel_id k)
{
    return KILN_LIKELY(k < kernel_count) ? &kernel_catalogue[k] : kernel_info_of_user(k);
}
static inline const struct user_kernel *user_kernel(kernel_id k)
{
    return k < kernel_count || k - kernel_count >= USER_KERNELS_MAX ? NULL : user_kernels[k - kernel_count];
}
