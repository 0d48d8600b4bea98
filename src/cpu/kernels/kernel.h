// What the kernels of one instruction set offer the CPU device. Everything in this folder, and the C that the build
// generates from the table of ops, is compiled once for each set with KILN_ISA defined as its name (v2, v3, v4 on
// x86-64); CPU_FN(name) adds that suffix, so that the copies live side by side in one library.
#pragma once
#include "ir/launch.h"
#include "scalar/scalar.h"

static inline int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t parts(int64_t n, int64_t of)
{
    return (n + of - 1) / of;
}

#ifdef KILN_ISA
#define CPU_CAT2(a, b) a##_##b
#define CPU_CAT(a, b)  CPU_CAT2(a, b)
#define CPU_FN(name)   CPU_CAT(name, KILN_ISA)
#endif

#define CPU_MAX_IN     8    // inputs of a generated kernel
#define CPU_MAX_REDUCE 8    // reductions of a row kernel
#define CPU_MAX_KEEP   4    // element values that a later pass of a row kernel reads again
#define CPU_MAX_ROWVAL 8    // row values that one pass of a column form reads
#define CPU_BLOCK      1024 // elements of a block: operands that need a conversion are converted a block at a time

enum cpu_form { CPU_NONE, CPU_POINTWISE, CPU_ROW, CPU_CUSTOM };

// n values: out[i] = f(in[0][i], in[1][i] ...). All pointers are contiguous arrays of the operand's class; out may be
// an input.
typedef void cpu_pointwise_fn(int64_t n, const void *const *in, void *out, const uint64_t *scalars);

// A reduction under way or done. Sums and products of f32 are held in v.f64; argmax and argmin keep the winner in v and
// its place in `index`, which is their result and -1 before the first element.
struct cpu_acc {
    union scalar_value v;
    int64_t index;
};

// One call of a row kernel: pass p < n_stages folds n elements into the accumulators of that pass; pass n_stages writes
// n elements, or the one row value, to out. Accumulators of earlier passes hold final values.
struct cpu_row_block {
    int64_t n;     // elements in this block
    int64_t first; // position of the first in the row
    int64_t count; // length of the row
    const void *in[CPU_MAX_IN];
    void *out;
    void *keep[CPU_MAX_KEEP]; // of this block's first element
    struct cpu_acc acc[CPU_MAX_REDUCE];
    const uint64_t *scalars;
};
typedef void cpu_row_fn(int pass, struct cpu_row_block *b);

// The same for n positions of m adjacent rows at once ("columns": the rows lie side by side). Call 2p prepares pass p:
// the row values it needs, into rowval. Call 2p+1 does it. Leading dimensions are elements from one position to the
// next.
struct cpu_col_block {
    int64_t n, m;
    int64_t first, count;
    const void *in[CPU_MAX_IN];
    int64_t in_ld[CPU_MAX_IN];
    void *out;
    int64_t out_ld;
    void *keep[CPU_MAX_KEEP];
    int64_t keep_ld;
    void *acc[CPU_MAX_REDUCE];      // m values of the argument's class; of an earlier pass: final values
    int64_t *index[CPU_MAX_REDUCE]; // argmax and argmin
    void *rowval[CPU_MAX_ROWVAL];   // m values each
    const uint64_t *scalars;
};
typedef void cpu_col_fn(int call, struct cpu_col_block *b);

struct cpu_reduce {
    uint8_t reduce; // enum scalar_reduce
    uint8_t cls;    // class of the argument
    uint8_t pass;
};

// A hand-written kernel. It does the work units [begin, end) of the launch, of which `units` says how many there are
// and what one costs (in elements of a cheap loop); ranges run on several threads at once. Without `units` it is called
// once, with (0, 1), on the calling thread, and may open a parallel region itself. Errors: error_set on whatever thread
// it runs.
struct cpu_work {
    int64_t units, unit_cost;
};
typedef kiln_status cpu_custom_fn(const struct launch *l, int64_t begin, int64_t end);
typedef struct cpu_work cpu_units_fn(const struct launch *l);

struct cpu_custom {
    const char *name; // of the kernel family in the catalogue
    cpu_custom_fn *run;
    cpu_units_fn *units;
};

// What one instruction set has of a generated kernel.
struct cpu_functions {
    union {
        cpu_pointwise_fn *pointwise;
        cpu_row_fn *row;
    };
    cpu_col_fn *col; // of a row kernel
};

// A generated kernel. All but its functions is the same for every instruction set.
struct cpu_kernel {
    kernel_id id;
    uint8_t form; // enum cpu_form
    uint8_t n_in, in_cls[CPU_MAX_IN], out_cls;
    uint8_t n_stages, n_reduce, n_keep, n_rowval;
    bool row_out;
    bool moves; // a pointwise kernel whose result is its one input
    uint8_t keep_cls[CPU_MAX_KEEP];
    uint16_t cost; // arithmetic steps an element
    struct cpu_reduce reduce[CPU_MAX_REDUCE];
    struct cpu_functions fn; // filled when the device opens, as the next
    const struct cpu_custom *custom;
};

// The rows that the build writes, in the order of their ids.
extern const struct cpu_kernel cpu_generated[];
extern const int cpu_n_generated;

// The kernel of the open device.
const struct cpu_kernel *cpu_kernel_of(kernel_id id);

struct cpu_isa {
    const char *name;
    const struct cpu_functions *functions; // of cpu_generated, row by row
    const struct cpu_custom *customs;      // ends with a NULL name
    kiln_status (*pointwise)(const struct cpu_kernel *k, const struct launch *l);
    kiln_status (*row)(const struct cpu_kernel *k, const struct launch *l);
    uint64_t (*keep_matmul)(const struct launch *l, void *to); // as device_ops.keep
};

#ifdef KILN_ISA
extern const struct cpu_isa CPU_FN(cpu_isa);
extern const struct cpu_functions CPU_FN(cpu_functions)[];
extern const struct cpu_custom CPU_FN(cpu_customs)[];
kiln_status CPU_FN(cpu_pointwise)(const struct cpu_kernel *k, const struct launch *l);
kiln_status CPU_FN(cpu_row)(const struct cpu_kernel *k, const struct launch *l);
uint64_t CPU_FN(cpu_keep_matmul)(const struct launch *l, void *to);

#define UNITS_DECLARE_0(name)
#define UNITS_DECLARE_1(name) cpu_units_fn CPU_FN(cpu_units_##name);
#define CUSTOM(name, units)                  \
    cpu_custom_fn CPU_FN(cpu_kernel_##name); \
    UNITS_DECLARE_##units(name)
#include "cpu/kernels/custom.def"
#endif
