// Products of matrices in registers: operands of any strides, packed in blocks on the way, blocked for the caches.
#pragma once
#include "cpu/kernels/convert.h"

struct gemm_matrix { // element (i, j) lies (i * row + j * col) elements from `at`
    char *at;
    int64_t row, col;
    unsigned dtype;
};

// What is done with a finished block of the result while it is in the cache: rows [r, r + rows) of columns [c, c +
// columns), at `block`, rows `ld` elements of the class apart. It may be called on any thread.
typedef kiln_status gemm_after_fn(void *user, const void *block, int64_t ld, int64_t r, int64_t rows, int64_t c,
                                  int64_t columns);

struct gemm {
    int64_t m, n, k;
    struct gemm_matrix a, b, out; // m x k, k x n, m x n
    enum scalar_class cls;        // of the sums: f32 or f64
    gemm_after_fn *after;         // or NULL: then blocks are stored to `out`, else that is left alone
    void *user;
};

// Each element is summed over k in an order that depends on k and the dtypes alone.
kiln_status CPU_FN(cpu_gemm)(const struct gemm *g);
