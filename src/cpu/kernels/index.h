// Indices of gather and scatter: a block of them as 64-bit integers, wrapped and checked.
#pragma once
#include "base/base.h"
#include "cpu/kernels/convert.h"

enum { INDEX_BLOCK = 512 };

static inline kiln_status index_out_of_range(const struct launch *l, const int64_t *index, int64_t n, int64_t size)
{
    int64_t i = 0;
    while (i + 1 < n && index[i] >= 0 && index[i] < size) i++;
    int64_t given = index[i] < 0 ? index[i] - size : index[i];
    if (given < INT64_MIN / 4) { // see flat_index in ops/kernels.def: part of a tuple
        int64_t part = given - INT64_MIN / 2;
        bool beyond = part >= -(INT64_MIN / 8) || part <= INT64_MIN / 8;
        return error_set(KILN_E_ARGUMENT, "%s: index %lld %sis out of range for its axis", l->op, (long long)part,
                         beyond ? "or beyond " : "");
    }
    return error_set(KILN_E_ARGUMENT, "%s: index %lld is out of range for an axis of %lld elements", l->op,
                     (long long)given, (long long)size);
}

// n <= INDEX_BLOCK indices from `at`, `stride` elements apart.
static inline kiln_status index_load(const struct launch *l, int operand, int64_t *index, const char *at, int64_t n,
                                     int64_t stride, int64_t size)
{
    CPU_FN(cpu_load)(l->operands[operand].dtype, CLASS_I64, index, at, n, stride);
    uint64_t bad = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t v = index[i];
        v += v < 0 ? size : 0;
        bad |= (uint64_t)(v < 0) | (uint64_t)(v >= size);
        index[i] = v;
    }
    return bad ? index_out_of_range(l, index, n, size) : KILN_OK;
}

// Whether they can be used as they lie.
static inline bool all_inside(const int64_t *index, int64_t n, int64_t size)
{
    uint64_t out = 0;
    for (int64_t i = 0; i < n; i++) out |= (uint64_t)index[i] >= (uint64_t)size;
    return !out;
}
