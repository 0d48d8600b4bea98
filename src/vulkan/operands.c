// How the operands of a launch lie, as far as kernels are specialised for it.
#include "ir/tile.h"
#include "vulkan/vk.h"

// --- matrix products: shaders/matmul.comp

enum { ALONG = 1, DENSE = 2, FOUR = 4, NEAR = 8, BITS = 4, SMALL = 1 << 3 * BITS };

static int64_t magnitude(int64_t v)
{
    return v < 0 ? -v : v;
}

// Whether all offsets along dimensions from `first` are at least 0, and in bytes below 2 GiB.
static bool is_narrow(const struct launch *l, const struct launch_operand *o, int first)
{
    int64_t most_B = dtype_size_B[o->dtype];
    for (int d = first; d < l->rank; d++) {
        if (o->strides[d] < 0 || o->strides[d] > INT32_MAX || l->sizes[d] > INT32_MAX) return false;
        if (l->sizes[d] > 1) most_B += (l->sizes[d] - 1) * o->strides[d] * dtype_size_B[o->dtype];
        if (most_B > INT32_MAX) return false;
    }
    return true;
}

bool vk_operands_are_narrow(const struct launch *l)
{
    for (int i = 0; i < l->n_operands; i++)
        if (!(l->operands[i].flags & OPERAND_IMMEDIATE) && !is_narrow(l, &l->operands[i], 0)) return false;
    return true;
}

bool vk_ranges_are_narrow(const struct launch *l)
{
    for (int i = 0; i < l->n_operands; i++) {
        const struct launch_operand *o = &l->operands[i];
        if (!(o->flags & OPERAND_IMMEDIATE) && (o->range_lo_B < 0 || o->range_hi_B > INT32_MAX)) return false;
    }
    return true;
}

// Whether n neighbours that begin at a multiple of n along dimension `fast` are one aligned access.
static bool takes(uint32_t n, const struct launch *l, const struct launch_operand *o, int fast)
{
    unsigned size_B = dtype_size_B[o->dtype] * n;
    if (o->address % (size_B < 16 ? size_B : 16)) return false;
    for (int d = 0; d < l->rank; d++)
        if (d != fast && o->strides[d] % (int64_t)n) return false;
    return true;
}

static bool product_is_small(const struct launch *l)
{
    if (kernel_info(l->kernel)->matrices) return false; // what is inside of a tile is another way there
    double work = 1;
    for (int d = 0; d < l->rank; d++) work *= (double)l->sizes[d];
    return work <= SMALL_PRODUCT;
}

uint32_t vk_product_operands(const struct launch *l)
{
    if (product_is_small(l)) return SMALL;
    // Of each operand: M, or N of b; K, or N of out.
    const int across[3] = {l->rank - 3, l->rank - 2, l->rank - 3}, along[3] = {l->rank - 1, l->rank - 1, l->rank - 2};
    uint32_t bits = 0;
    for (int i = 0; i < 3; i++) {
        const struct launch_operand *o = &l->operands[i];
        if (o->flags & OPERAND_IMMEDIATE) continue;
        bool goes_along = magnitude(o->strides[along[i]]) <= magnitude(o->strides[across[i]]);
        int fast = goes_along ? along[i] : across[i];
        bool dense = o->strides[fast] == 1;
        uint32_t of = (goes_along ? ALONG : 0u) | (dense ? DENSE : 0u) | (is_narrow(l, o, l->rank - 3) ? NEAR : 0u);
        if (dense && (i < 2 || goes_along) && takes(4, l, o, fast)) of |= FOUR;
        bits |= of << (BITS * i);
    }
    return bits;
}

bool vk_product_is_even(const struct launch *l, uint32_t tile, uint32_t depth)
{
    if (product_is_small(l)) return false;
    return l->sizes[l->rank - 3] % tile == 0 && l->sizes[l->rank - 2] % tile == 0 && l->sizes[l->rank - 1] % depth == 0;
}

// --- neighbours along the innermost dimension

uint32_t vk_operands_fours(const struct launch *l)
{
    uint32_t bits = 0;
    for (int i = 0; i < l->n_operands; i++) {
        const struct launch_operand *o = &l->operands[i];
        bool dense = !(o->flags & OPERAND_IMMEDIATE) && o->strides[l->rank - 1] == 1;
        if (dense && takes(4, l, o, l->rank - 1)) bits |= 1u << i;
    }
    return bits;
}

bool vk_operands_widen(const struct launch *l, uint32_t n, uint32_t *splat)
{
    int inner = l->rank - 1;
    *splat = 0;
    for (int i = 0; i < l->n_operands; i++) {
        const struct launch_operand *o = &l->operands[i];
        if (o->flags & OPERAND_IMMEDIATE) continue;
        // What is written once a row has no neighbours along it.
        if (o->strides[inner] == 0 && (!(o->flags & OPERAND_WRITE) || l->n_reduce)) {
            *splat |= 1u << i;
            continue;
        }
        if (o->strides[inner] != 1 || !takes(n, l, o, inner)) return false;
    }
    return true;
}
