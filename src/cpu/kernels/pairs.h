// What pointwise kernels that compute two vectors at once stand on.
#pragma once
#include "cpu/kernels/kernel.h"
#include <string.h>

// Bytes of a vector, or several vectors.
#if defined(__AVX512F__)
enum { CPU_VECTOR_B = 64 };
#elif defined(__AVX2__)
enum { CPU_VECTOR_B = 32 };
#else
enum { CPU_VECTOR_B = 16 };
#endif

// `memory` with n >= 1 elements from src, then the last one again up to `most`. Returns memory.
const void *CPU_FN(cpu_filled)(void *memory, const void *src, size_t size_B, int64_t n, int64_t most);
