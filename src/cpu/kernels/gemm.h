// Products of matrices in registers: operands of any strides, packed in blocks on the way, blocked for the caches.
#pragma once
#include "cpu/kernels/after.h"
#include "cpu/kernels/convert.h"

struct gemm_matrix { // element (i, j) lies (i * row + j * col) elements from `at`
    char *at;
    int64_t row, col;
    unsigned dtype;
};

struct gemm {
    int64_t m, n, k;
    struct gemm_matrix a, b, out;     // m x k, k x n, m x n
    enum scalar_class cls;            // of the sums: f32 or f64
    const struct launch_after *after; // what goes on with rows of `out`, or NULL
    struct gemm_ahead {
        const char *at;
        int64_t size_B;
    } ahead[2];       // what the next product reads, if anything: asked of memory in the course of this one
    const char *kept; // b, as cpu_gemm_keep packed it for a product of these sizes, or NULL
};

// Each element is summed over k in an order that follows from sizes, strides and dtypes, never from threads.
kiln_status CPU_FN(cpu_gemm)(const struct gemm *g);

// How many bytes b takes as it is packed for the product; 0: it is read as it lies, or packed in pieces that are not
// kept. Packs it unless `to`, 64-byte aligned, is NULL.
uint64_t CPU_FN(cpu_gemm_keep)(const struct gemm *g, void *to);

// Many small products that differ in their places alone: whether these are such, and n of them, from `g` on in steps of
// a, b and out. On the calling thread.
bool CPU_FN(cpu_gemm_is_small)(const struct gemm *g);
kiln_status CPU_FN(cpu_gemm_series)(const struct gemm *g, int64_t n, const int64_t *steps_B);
