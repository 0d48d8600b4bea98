// Kernel IR: what becomes GLSL or C. A kernel is an iteration space of P parallel and R reduced dimensions, typed
// inputs and one expression DAG whose nodes are element values (one a point of P x R) or row values (one a point of P).
#pragma once
#include "base/arena.h"
#include "base/str.h"
#include "fuse/kernel.h"
#include "ir/kernel_info.h"
#include "scalar/scalar.h"

#define KERNEL_MAX_IN 8

struct kernel {
    const char *name;      // symbol-safe: letters, digits, '_'
    enum kernel_kind kind; // KERNEL_POINTWISE or KERNEL_ROW
    enum scalar_class cls;
    int n_in;
    enum scalar_class in_cls[KERNEL_MAX_IN];
    unsigned row_in; // bit i: input i has one value a row, which GLSL reads once; C reads all inputs by element
    int n_scalars;   // DAG parameters n_in.. are run-time scalars
    enum scalar_class scalar_cls[8];
    enum scalar_class out_cls;
    struct scalar_dag dag; // expanded: no library calls; may hold SCALAR_REDUCE
    const char *glsl;      // POINTWISE: a user's GLSL expression of x, or a, b, c, in place of the DAG; or NULL
    // Analysis, filled by kernel_analyze:
    uint8_t *stage;  // per node: number of reductions on its longest path from the inputs
    uint8_t *is_row; // per node: a row value
    int n_stages;    // reductions deep; 0 for pointwise
    bool row_out;
    struct fused_kernel *loops; // what fuse/loops.h asks for: levels, stages, and the root as the one output
};

kiln_status kernel_analyze(struct arena *a, struct kernel *k);
// The same kernel where inputs with one value a row are row values, and their maxima are what they are.
kiln_status kernel_by_rows(struct arena *a, const struct kernel *k, struct kernel *out);

// GLSL of a whole compute shader (codegen/catalogue/glsl.c). Layout of specialisation constants and of the argument
// block: shaders/args.glsl.
kiln_status glsl_kernel(struct str *out, const struct kernel *k);
// C of the inner loops of one kernel, for the drivers of src/cpu/kernels (codegen/catalogue/c.c).
kiln_status c_kernel(struct str *out, const struct kernel *k);
