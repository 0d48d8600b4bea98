// Elements that go elsewhere as they are.
#pragma once
#include "cpu/kernels/convert.h"

// dst[i] = src[i * step] for n elements of size_B bytes: 1, 2, 4 or 8.
void CPU_FN(cpu_pick)(void *dst, const void *src, int64_t n, int64_t step, int size_B);

// dst[i * dst_step] = src[i * src_step].
void CPU_FN(cpu_place)(void *dst, int64_t dst_step, const void *src, int64_t src_step, int64_t n, int size_B);

// A launch of a kernel that copies its one input. False: it is not one that only moves elements, and nothing was done.
bool CPU_FN(cpu_move)(const struct launch *l, kiln_status *status);
