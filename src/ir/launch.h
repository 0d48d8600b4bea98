// What a device runs: a kernel of the catalogue, a collapsed iteration space and its operands. Ops lower to launches; a
// sink resolves slots to addresses and hands the launch to a device. The argument block that Vulkan pushes is packed
// from this struct; CPU kernels read it directly.
#pragma once
#include "ir/type.h"

#define MAX_OPERANDS 10
#define MAX_SCALARS  20

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

enum operand_flags {
    OPERAND_IMMEDIATE = 1, // `address` holds the value's bits (class of the operand), no memory
    OPERAND_WRITE = 2,
};

// Slots name buffers while a launch has no addresses yet.
#define SLOT_OUT  0x4000
#define SLOT_TEMP 0x8000
// An immediate whose value is an input of the program, by its number; the bits are set at each run.
#define SLOT_SCALAR 0x2000

struct launch_operand {
    uint64_t address;   // device address of element 0 of the space (layout offset applied), or immediate bits
    int64_t range_lo_B; // bytes touched: [address + lo, address + hi)
    int64_t range_hi_B;
    uint16_t slot;
    uint8_t dtype;             // storage dtype
    uint8_t flags;             // enum operand_flags
    int64_t strides[MAX_RANK]; // elements, one a dimension of the space
};

struct launch {
    kernel_id kernel;
    uint8_t n_operands; // inputs first
    uint8_t rank;       // of the collapsed space; a pointwise space of one element has rank 0
    uint8_t n_reduce;   // KERNEL_ROW: how many trailing dimensions are the row
    uint8_t n_scalars;
    int64_t sizes[MAX_RANK];
    int64_t extent[3];             // KERNEL_CUSTOM: work items in the kernel's own units
    uint32_t variant[4];           // KERNEL_CUSTOM: specialisation constants with the ids 32 to 35
    uint64_t scalars[MAX_SCALARS]; // bits: f32 in the low word, else as written; see launch_set_*
    struct launch_operand operands[MAX_OPERANDS];
    const char *op; // name of the op, for messages and profiles
};

static inline uint64_t bits_f32(float v)
{
    union {
        float f;
        uint32_t u;
    } x = {.f = v};
    return x.u;
}
static inline uint64_t bits_f64(double v)
{
    union {
        double f;
        uint64_t u;
    } x = {.f = v};
    return x.u;
}
static inline float f32_bits(uint64_t v)
{
    union {
        uint32_t u;
        float f;
    } x = {.u = (uint32_t)v};
    return x.f;
}
static inline double f64_bits(uint64_t v)
{
    union {
        uint64_t u;
        double f;
    } x = {.u = v};
    return x.f;
}

// A typed, strided reference to a slot: what lowering works with.
struct view {
    uint16_t slot;
    uint8_t dtype;
    uint8_t rank;
    bool immediate;
    uint64_t bits; // immediate: the value, in the class the kernel loads (set by lowering)
    double number; // immediate: the value as the user gave it
    int64_t integer;
    int64_t offset;
    int64_t dims[MAX_RANK];
    int64_t strides[MAX_RANK];
};

// What a view is but for its shape.
static inline void view_copy_head(struct view *to, const struct view *from)
{
    to->slot = from->slot;
    to->dtype = from->dtype;
    to->rank = from->rank;
    to->immediate = from->immediate;
    to->bits = from->bits;
    to->number = from->number;
    to->integer = from->integer;
    to->offset = from->offset;
}

// Where lowering sends launches: the eager sink runs them, a program keeps them.
struct device_caps;
struct lowering {
    const struct device_caps *caps;
    kiln_status (*launch)(struct lowering *lo, struct launch *l);
    // A temporary of this type, contiguous; it lives until the op is lowered.
    kiln_status (*temp)(struct lowering *lo, const struct type *t, struct view *out);
    const char *op;
};

// What a device can do, as far as lowering and code generation ask.
enum code_target { CODE_GLSL, CODE_LLVM };
struct device_caps {
    uint8_t code;        // enum code_target: what fused kernels are made for
    bool host;           // memory is the host's, kernels are functions of the host
    bool checks_indices; // an index out of range is an error; elsewhere it reads 0
    bool own_products;   // its kernels for matrix products are faster than generated ones
    bool cheap_launches; // joining launches gains nothing
    bool f64, i64, f16_storage, i8_storage;
    uint32_t subgroup_size;
    uint32_t max_shared_B;
    uint32_t max_push_B;
    uint32_t parallelism; // rough count of work items that fill the device
    uint32_t max_local;   // invocations of a workgroup
    uint32_t max_turns;   // of all loops of an invocation together, what is beyond is left out; 0: as many as it takes
    bool shuffle;         // compute shaders may exchange values within a subgroup
};

// Code that was made while the program runs, as a device takes it: SPIR-V, or functions of the host.
struct compiled_code {
    const char *name; // for messages
    const void *code; // SPIR-V
    size_t code_B;
    bool indirect; // SPIR-V: the argument block lies in memory, the push constant holds its address
    void (*run)(const uint64_t *args, int64_t begin, int64_t end); // the host: work units
    void (*end)(const uint64_t *args);                             // after all units, or NULL
};

// Memory that a launch touches: [address + lo_B, address + hi_B).
struct compiled_range {
    uint64_t address;
    int64_t lo_B, hi_B;
    bool write;
};
#define COMPILED_MAX_RANGES 49

struct compiled_launch {
    void *compiled;    // what load_compiled gave
    const char *op;    // for messages and profiles
    const void *words; // the argument block: words of 32 bits for SPIR-V, of 64 bits for the host
    uint32_t n_words;
    uint32_t groups[3];       // SPIR-V
    int64_t units, unit_cost; // the host: ranges of [0, units) run on several threads
    bool run_end;             // the host: the second function runs then
    uint64_t work;            // points, to bound what one submission does
    uint32_t n_ranges;        // at most COMPILED_MAX_RANGES
    const struct compiled_range *ranges;
    uint64_t workspace, workspace_B; // scratch memory of this launch; 0 bytes: none
};
