// Elements that go elsewhere as they are.
#pragma once
#include "cpu/kernels/convert.h"
#include <string.h>

// dst[i] = src[i * step] for n elements of size_B bytes: 1, 2, 4 or 8.
void CPU_FN(cpu_pick)(void *dst, const void *src, int64_t n, int64_t step, int size_B);

// dst[i * dst_step] = src[i * src_step].
void CPU_FN(cpu_place)(void *dst, int64_t dst_step, const void *src, int64_t src_step, int64_t n, int size_B);

// A launch of a kernel that copies its one input. False: it is not one that only moves elements, and nothing was done.
bool CPU_FN(cpu_move)(const struct launch *l, kiln_status *status);

typedef uint8_t bytes_16 __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint8_t bytes_32 __attribute__((vector_size(32), aligned(1), may_alias));
typedef uint8_t bytes_64 __attribute__((vector_size(64), aligned(1), may_alias));

// By registers: a vector that has none goes through the stack.
static inline void copy_64(char *to, const char *from)
{
#if defined(__AVX512F__)
    *(bytes_64 *)to = *(const bytes_64 *)from;
#elif defined(__AVX2__)
    for (int i = 0; i < 64; i += 32) *(bytes_32 *)(to + i) = *(const bytes_32 *)(from + i);
#else
    for (int i = 0; i < 64; i += 16) *(bytes_16 *)(to + i) = *(const bytes_16 *)(from + i);
#endif
}

// A run that is no shorter than a vector ends with one that overlaps.
static inline void move_run(char *to, const char *from, int64_t run_B)
{
    if (run_B >= 64 && run_B <= 1024) {
        for (int64_t i = 0; i + 64 <= run_B; i += 64) copy_64(to + i, from + i);
        if (run_B % 64) copy_64(to + run_B - 64, from + run_B - 64);
    } else if (run_B >= 16 && run_B < 64) {
        for (int64_t i = 0; i + 16 <= run_B; i += 16) *(bytes_16 *)(to + i) = *(const bytes_16 *)(from + i);
        if (run_B % 16) *(bytes_16 *)(to + run_B - 16) = *(const bytes_16 *)(from + run_B - 16);
    } else
        memcpy(to, from, (size_t)run_B);
}
