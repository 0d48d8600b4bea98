// Products of f32 in registers, where the instruction set has enough of them.
#pragma once
#include "cpu/kernels/kernel.h"

struct cpu_factor { // element (i, j) lies at at[i * rows + j * cols]; one of the strides is 1
    const float *at;
    int64_t rows, cols;
};

// Whether cpu_product is there in this instruction set.
bool CPU_FN(cpu_has_product)(void);
// out[m, n] = a[m, k] b[k, n], rows of out ld_out apart. `panel` has room for cpu_product_panel(k) floats, aligned to
// 64 bytes.
void CPU_FN(cpu_product)(struct cpu_factor a, struct cpu_factor b, float *out, int64_t ld_out, int64_t m, int64_t n,
                         int64_t k, float *panel);

// Of a panel, and of what meets it at once: pieces of a product had best be multiples.
enum { CPU_PRODUCT_COLUMNS = 32, CPU_PRODUCT_ROWS = 12 };

static inline size_t cpu_product_panel(int64_t k)
{
    return (size_t)k * CPU_PRODUCT_COLUMNS;
}
