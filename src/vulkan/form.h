// The form in which a kernel runs: what of a pipeline's specialisation is not an operand's dtype or a kernel's own
// variant.
#pragma once
#include "ir/type.h"

struct vk_form {
    uint32_t kernel;
    uint32_t rank, n_reduce;
    uint32_t indirect;    // the argument block lies in memory
    uint32_t wide;        // pointwise: neighbours in an access, 1, 4, 8 or 16; row: lanes are adjacent invocations
    uint32_t tail;        // pointwise: the number of points is no multiple of `wide`
    uint32_t local;       // invocations a workgroup; 0: as the shader says. This and the next two: 0 or a power of two
    uint32_t lanes, rows; // row: invocations a row, rows a workgroup
    uint32_t phase;       // row
    uint32_t narrow;      // no offset is negative, and in bytes all are below 2 GiB
    uint32_t each;        // pointwise: fours, or eights, an invocation; row: elements a lane takes at a time
};
_Static_assert(MAX_RANK < 32, "rank and n_reduce have 5 bits each");

static inline uint64_t vk_form_log2(uint32_t v)
{
    return v ? 32 - (uint64_t)__builtin_clz(v) : 0; // 1 more than the logarithm; 0 for 0
}

static inline uint64_t vk_form_pack(const struct vk_form *f)
{
    return f->kernel | (uint64_t)f->rank << 16 | (uint64_t)f->n_reduce << 21 | (uint64_t)f->indirect << 26 |
           vk_form_log2(f->wide) << 27 | (uint64_t)f->tail << 30 | (uint64_t)f->narrow << 31 |
           vk_form_log2(f->local) << 32 | vk_form_log2(f->lanes) << 36 | vk_form_log2(f->rows) << 40 |
           (uint64_t)f->phase << 44 | vk_form_log2(f->each) << 52;
}

static inline uint32_t vk_form_exp2(uint64_t v)
{
    return v ? 1u << (v - 1) : 0;
}

static inline struct vk_form vk_form_unpack(uint64_t bits)
{
    return (struct vk_form){
        .kernel = bits & 0xffff,
        .rank = bits >> 16 & 31,
        .n_reduce = bits >> 21 & 31,
        .indirect = bits >> 26 & 1,
        .wide = vk_form_exp2(bits >> 27 & 7),
        .tail = bits >> 30 & 1,
        .local = vk_form_exp2(bits >> 32 & 15),
        .lanes = vk_form_exp2(bits >> 36 & 15),
        .rows = vk_form_exp2(bits >> 40 & 15),
        .phase = bits >> 44 & 255,
        .narrow = bits >> 31 & 1,
        .each = vk_form_exp2(bits >> 52 & 15),
    };
}
