// Blocks of quantised elements as f32. Space: rows, elements of one. Operands: bytes, out; scalar: bytes from one row
// to the next; variant 0: the format.
#include "base/blocks.h"
#include "cpu/kernels/kernel.h"

struct cpu_work CPU_FN(cpu_units_unpack_blocks)(const struct launch *l)
{
    return (struct cpu_work){l->sizes[0], l->sizes[1]};
}

kiln_status CPU_FN(cpu_kernel_unpack_blocks)(const struct launch *l, int64_t begin, int64_t end)
{
    const struct block_format *f = block_format_of(l->variant[0]);
    const unsigned char *w = (const unsigned char *)(uintptr_t)l->operands[0].address;
    float *out = (float *)(uintptr_t)l->operands[1].address;
    int64_t k = l->sizes[1];
    for (int64_t row = begin; row < end; row++) {
        const unsigned char *p = w + row * (int64_t)l->scalars[0];
        float *to = out + row * k;
        for (int64_t at = 0; at < k; at += f->elements, p += f->size_B) unpack_block(f, p, to + at);
    }
    return KILN_OK;
}
