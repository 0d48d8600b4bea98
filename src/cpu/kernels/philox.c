// Blocks of Philox4x32-10. Operand: the words, four a block; scalars: seed and offset. Block i is the function of
// counter offset + i.
#include "cpu/kernels/kernel.h"

struct cpu_work CPU_FN(cpu_units_philox)(const struct launch *l)
{
    return (struct cpu_work){l->sizes[0], 16};
}

kiln_status CPU_FN(cpu_kernel_philox)(const struct launch *l, int64_t begin, int64_t end)
{
    uint32_t *words = (uint32_t *)(uintptr_t)l->operands[0].address;
    uint32_t key0 = (uint32_t)l->scalars[0], key1 = (uint32_t)(l->scalars[0] >> 32);
    uint64_t offset = l->scalars[1];
#pragma omp simd
    for (int64_t i = begin; i < end; i++) {
        uint64_t counter = offset + (uint64_t)i;
        uint32_t a = (uint32_t)counter, b = (uint32_t)(counter >> 32), c = 0, d = 0;
#pragma GCC unroll 10
        for (uint32_t round = 0; round < 10; round++) {
            uint64_t p = (uint64_t)a * 0xD2511F53u, q = (uint64_t)c * 0xCD9E8D57u;
            a = (uint32_t)(q >> 32) ^ b ^ (key0 + round * 0x9E3779B9u);
            b = (uint32_t)q;
            c = (uint32_t)(p >> 32) ^ d ^ (key1 + round * 0xBB67AE85u);
            d = (uint32_t)p;
        }
        words[4 * i] = a;
        words[4 * i + 1] = b;
        words[4 * i + 2] = c;
        words[4 * i + 3] = d;
    }
    return KILN_OK;
}
