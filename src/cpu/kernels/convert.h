// Between storage dtypes and compute classes: runs of elements, and tiles whose fast axis is the other one.
#pragma once
#include "cpu/kernels/kernel.h"
#include "ir/type.h"

// dst[i] = src[i * stride] as the class, for n elements; src is a tensor element, dst a block. Semantics as for casts:
// float to integer truncates and saturates, NaN gives 0, integers wrap, bool is "not zero".
void CPU_FN(cpu_load)(unsigned dtype, enum scalar_class cls, void *dst, const void *src, int64_t n, int64_t stride);
// dst[i * stride] = src[i]: floats round to nearest even, integers wrap, bool is stored as 0 or 1.
void CPU_FN(cpu_store)(unsigned dtype, enum scalar_class cls, void *dst, const void *src, int64_t n, int64_t stride);

static const uint8_t cpu_class_size_B[CLASS_COUNT] = {
    [CLASS_F32] = 4, [CLASS_F64] = 8, [CLASS_I32] = 4, [CLASS_I64] = 8, [CLASS_BOOL] = 1};
static const uint8_t cpu_class_dtype[CLASS_COUNT] = {[CLASS_F32] = KILN_F32,
                                                     [CLASS_F64] = KILN_F64,
                                                     [CLASS_I32] = KILN_I32,
                                                     [CLASS_I64] = KILN_I64,
                                                     [CLASS_BOOL] = KILN_BOOL};
static const uint8_t cpu_dtype_size_B[DTYPE_COUNT] = {
#define DTYPE(number, id, name, size_B, ...) [number] = size_B,
#include "base/dtype.def"
#undef DTYPE
};

// n copies of a value whose bits are in the low bytes of `bits`.
void CPU_FN(cpu_fill)(void *dst, int size_B, uint64_t bits, int64_t n);

// dst[r][c] = src[c][r] for elements of size_B bytes: rows of dst are ld_dst elements apart, columns of src ld_src.
void CPU_FN(cpu_transpose)(void *dst, int64_t ld_dst, const void *src, int64_t ld_src, int64_t rows, int64_t cols,
                           int size_B);

// A tile of rows x cols elements of any strides into a dense block of the class, rows ld_dst elements apart.
void CPU_FN(cpu_load_tile)(void *dst, int64_t ld_dst, enum scalar_class cls, const void *src, unsigned dtype,
                           int64_t rows, int64_t cols, int64_t row_stride, int64_t col_stride);
// And back.
void CPU_FN(cpu_store_tile)(void *dst, unsigned dtype, int64_t row_stride, int64_t col_stride, const void *src,
                            int64_t ld_src, enum scalar_class cls, int64_t rows, int64_t cols);
