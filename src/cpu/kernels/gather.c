// out[p] = x[base(p) + index(p) * stride]. Operands: x (over the space, without its indexed axis), index, out; scalars:
// the axis's size and x's stride along it. Where the index stands still along the innermost dimension, runs of x are
// copied whole.
#include "cpu/kernels/index.h"
#include "cpu/kernels/move.h"
#include "cpu/kernels/walk.h"
#include <string.h>

struct gather_run {
    char *out;
    const char *x;
    const int64_t *index;
    int64_t n, out_step, x_step, axis_stride;
}; // in elements

enum { AHEAD = 64, FAR_BLOCK = 4096, FAR_B = 1 << 20 };

#define T    uint8_t
#define NAME gather_8
#include "cpu/kernels/gather_tmpl.c"
#define T    uint16_t
#define NAME gather_16
#include "cpu/kernels/gather_tmpl.c"
#define T    uint32_t
#define NAME gather_32
#include "cpu/kernels/gather_tmpl.c"
#define T    uint64_t
#define NAME gather_64
#include "cpu/kernels/gather_tmpl.c"

static void gather_run(const struct gather_run *r, int size_B)
{
    switch (size_B) {
    case 1: gather_8(r); break;
    case 2: gather_16(r); break;
    case 4: gather_32(r); break;
    default: gather_64(r); break;
    }
}

// Whether n points were picked by indices as they lie; false: they need more.
static bool gather_far(const struct launch *l, const int64_t steps[3], char *out, const char *x, const char *at,
                       int64_t n)
{
    int64_t size = (int64_t)l->scalars[0], stride = (int64_t)l->scalars[1];
    int size_B = cpu_dtype_size_B[l->operands[0].dtype];
    const int64_t *index = (const int64_t *)(const void *)at;
    bool lies = l->operands[1].dtype == KILN_I64 && steps[0] == 0 && steps[1] == 1 && steps[2] == 1;
    if (!lies || n < 2 * AHEAD || size * stride * size_B < FAR_B || !all_inside(index, n, size)) return false;
    switch (size_B) {
    case 1: gather_8_far(out, x, index, n, stride); break;
    case 2: gather_16_far(out, x, index, n, stride); break;
    case 4: gather_32_far(out, x, index, n, stride); break;
    default: gather_64_far(out, x, index, n, stride); break;
    }
    return true;
}

struct cpu_work CPU_FN(cpu_units_gather)(const struct launch *l)
{
    struct cpu_work w = {1, 4};
    for (int d = 0; d < l->rank; d++) w.units *= l->sizes[d];
    return w;
}

// A short line of x of which the next run picks that much that all of it had better be on its way: read by index, each
// cache line would be waited for on its own. (gcc takes a call of what does nothing but fetch for one without effect.)
static inline __attribute__((always_inline)) void fetch_next(const struct walk *w, int64_t n, int64_t line_B)
{
    enum { MOST_B = 1 << 14, CACHE_LINE_B = 64 };
    struct walk next = *w;
    if (line_B > MOST_B || line_B > 2 * n * CACHE_LINE_B) return;
    walk_next(&next, n);
    for (int64_t i = 0; i < line_B; i += CACHE_LINE_B) __builtin_prefetch(next.at[0] + i);
}

// The same of a row that is picked whole, NEXT runs on.
static inline __attribute__((always_inline)) void fetch_row(const struct walk *w, int64_t n, int64_t size,
                                                            int64_t axis_stride)
{
    enum { NEXT = 2, MOST_B = 1 << 12, CACHE_LINE_B = 64 };
    const struct launch *l = w->l;
    int size_B = cpu_dtype_size_B[l->operands[0].dtype], up = w->n_dims - 2;
    int64_t index;
    if (up < 0 || w->inner > 0 || w->index[up] + NEXT >= l->sizes[w->dims[up]]) return;
    const char *at = w->at[1] + NEXT * walk_stride_B(l, 1, w->dims[up]);
    CPU_FN(cpu_load)(l->operands[1].dtype, CLASS_I64, &index, at, 1, 1);
    // Not checked yet, so that it may be anything.
    uint64_t row = (uint64_t)(uintptr_t)w->at[0] + (uint64_t)(NEXT * walk_stride_B(l, 0, w->dims[up]));
    row += ((uint64_t)index + (uint64_t)(index < 0 ? size : 0)) * (uint64_t)(axis_stride * size_B);
    for (int64_t i = 0; i < least(n * size_B, MOST_B); i += CACHE_LINE_B)
        __builtin_prefetch((const char *)(uintptr_t)(row + (uint64_t)i));
}

// Points [w->inner, +n) of the run, all by one index.
static kiln_status gather_slice(const struct walk *w, int64_t n, int64_t size, int64_t axis_stride)
{
    const struct launch *l = w->l;
    int d = walk_inner(w), size_B = cpu_dtype_size_B[l->operands[0].dtype];
    int64_t index, x_step = d < 0 ? 0 : l->operands[0].strides[d], out_step = d < 0 ? 0 : l->operands[2].strides[d];
    TRY(index_load(l, 1, &index, w->at[1], 1, 1, size));
    const char *from = w->at[0] + (index * axis_stride + w->inner * x_step) * size_B;
    char *to = w->at[2] + w->inner * out_step * size_B;
    if ((x_step == 1 && out_step == 1) || n == 1)
        memcpy(to, from, (size_t)(n * size_B));
    else
        CPU_FN(cpu_place)(to, out_step, from, x_step, n, size_B);
    return KILN_OK;
}

kiln_status CPU_FN(cpu_kernel_gather)(const struct launch *l, int64_t begin, int64_t end)
{
    int64_t size = (int64_t)l->scalars[0], axis_stride = (int64_t)l->scalars[1], index[INDEX_BLOCK];
    int size_B = cpu_dtype_size_B[l->operands[0].dtype], index_B = cpu_dtype_size_B[l->operands[1].dtype];
    struct walk w;
    walk_start(&w, l, -1, begin);
    int d = walk_inner(&w);
    bool may_be_far = true; // until one is not
    while (begin < end) {
        int64_t n = walk_run(&w);
        if (n > end - begin) n = end - begin;
        if (d < 0 || l->operands[1].strides[d] == 0) {
            if (d >= 0 && l->operands[0].strides[d] == 1) fetch_row(&w, n, size, axis_stride);
            TRY(gather_slice(&w, n, size, axis_stride));
        } else {
            int64_t steps[3] = {l->operands[0].strides[d], l->operands[1].strides[d], l->operands[2].strides[d]};
            int64_t far = least(n, FAR_BLOCK);
            may_be_far = may_be_far &&
                         gather_far(l, steps, w.at[2] + w.inner * steps[2] * size_B,
                                    w.at[0] + w.inner * steps[0] * size_B, w.at[1] + w.inner * steps[1] * index_B, far);
            if (may_be_far) {
                begin += far;
                walk_next(&w, far);
                continue;
            }
            if (n > INDEX_BLOCK) n = INDEX_BLOCK;
            const int64_t *at = (const int64_t *)(const void *)(w.at[1] + w.inner * steps[1] * index_B);
            bool lies = l->operands[1].dtype == KILN_I64 && steps[1] == 1 && all_inside(at, n, size);
            if (!lies) TRY(index_load(l, 1, index, (const char *)at, n, steps[1], size));
            if (axis_stride == 1 && steps[0] == 0 && n < end - begin) fetch_next(&w, n, size * size_B);
            gather_run(&(struct gather_run){w.at[2] + w.inner * steps[2] * size_B,
                                            w.at[0] + w.inner * steps[0] * size_B, lies ? at : index, n, steps[2],
                                            steps[0], axis_stride},
                       size_B);
        }
        begin += n;
        walk_next(&w, n);
    }
    return KILN_OK;
}
