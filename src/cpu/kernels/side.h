// An operand as the drivers see it: address, strides by dimension, and how it becomes an array of its class.
#pragma once
#include "cpu/kernels/convert.h"
#include <string.h>

struct cpu_side {
    char *base;                // element 0 of the space; unused when immediate
    int64_t strides[MAX_RANK]; // bytes
    unsigned dtype;
    enum scalar_class cls;
    int size_B, class_B; // of an element in memory, and of one in a block
    bool native;         // memory holds the class itself
    bool constant;       // one value for the whole space: `bits`, in the class
    uint64_t bits;
};

// A 0-d read: the one value of a constant operand in its class.
static inline uint64_t cpu_side_value(const struct cpu_side *s)
{
    uint64_t bits = 0;
    CPU_FN(cpu_load)(s->dtype, s->cls, &bits, s->base, 1, 1);
    return bits;
}

static inline void cpu_side_init(struct cpu_side *s, const struct launch *l, int operand, enum scalar_class cls)
{
    const struct launch_operand *o = &l->operands[operand];
    bool immediate = o->flags & OPERAND_IMMEDIATE, write = o->flags & OPERAND_WRITE;
    s->base = immediate ? NULL : (char *)(uintptr_t)o->address;
    s->dtype = o->dtype;
    s->cls = cls;
    s->class_B = cpu_class_size_B[cls];
    s->size_B = cpu_dtype_size_B[o->dtype];
    // A stored bool may be any byte that is not zero when it came from outside; the load makes it 0 or 1.
    s->native = !immediate && o->dtype == cpu_class_dtype[cls];
    s->constant = true;
    for (int d = 0; d < l->rank; d++) {
        s->strides[d] = immediate ? 0 : o->strides[d] * s->size_B;
        if (s->strides[d] != 0 && l->sizes[d] > 1) s->constant = false;
    }
    s->constant = s->constant && !write;
    s->bits = immediate ? o->address : 0;
    if (s->constant && !immediate && s->base) s->bits = cpu_side_value(s);
}

// n elements from `at`, `stride_B` bytes apart, into a block; any element of the class.
static inline void cpu_side_gather(const struct cpu_side *s, void *block, const char *at, int64_t n, int64_t stride_B)
{
    CPU_FN(cpu_load)(s->dtype, s->cls, block, at, n, stride_B / s->size_B);
}

static inline void cpu_side_scatter(const struct cpu_side *s, const void *block, char *at, int64_t n, int64_t stride_B)
{
    CPU_FN(cpu_store)(s->dtype, s->cls, at, block, n, stride_B / s->size_B);
}
