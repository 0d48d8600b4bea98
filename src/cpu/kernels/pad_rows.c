// out[p] = x[p - before] inside of x, elsewhere one element: row by row of the result. Operands and scalars: see
// src/ops/pad.c.
#include "cpu/kernels/move.h"

struct pad_walk {
    const struct launch *l;
    int rows, size_B; // the dimension of rows, the last but one
    int64_t index[MAX_RANK];
    int64_t outside; // dimensions before that in which the place lies beside x
    const char *from;
    char *to; // of row 0; `from` where it lies inside
};

static int64_t before(const struct launch *l, int d)
{
    return (int64_t)l->scalars[2 * d];
}

static int64_t behind(const struct launch *l, int d)
{
    return (int64_t)(l->scalars[2 * d] + l->scalars[2 * d + 1]);
}

static bool is_inside(const struct launch *l, int d, int64_t i)
{
    return i >= before(l, d) && i < behind(l, d);
}

static void start(struct pad_walk *w, const struct launch *l, int64_t row)
{
    *w = (struct pad_walk){.l = l, .rows = l->rank - 2, .size_B = cpu_dtype_size_B[l->operands[0].dtype]};
    int64_t from = 0, to = 0;
    for (int d = w->rows; d >= 0; row /= l->sizes[d--]) {
        w->index[d] = row % l->sizes[d];
        if (d == w->rows) continue;
        w->outside += !is_inside(l, d, w->index[d]);
        from += (w->index[d] - before(l, d)) * l->operands[0].strides[d];
        to += w->index[d] * l->operands[2].strides[d];
    }
    w->from = (const char *)(uintptr_t)l->operands[0].address + from * w->size_B;
    w->to = (char *)(uintptr_t)l->operands[2].address + to * w->size_B;
}

// To the next place of the dimensions before that of rows.
static void next(struct pad_walk *w)
{
    const struct launch *l = w->l;
    w->index[w->rows] = 0;
    for (int d = w->rows - 1; d >= 0; d--) {
        int64_t i = w->index[d] + 1, by = i < l->sizes[d] ? 1 : 1 - i;
        w->outside += is_inside(l, d, w->index[d]);
        w->index[d] += by;
        w->outside -= is_inside(l, d, w->index[d]);
        w->from += by * l->operands[0].strides[d] * w->size_B;
        w->to += by * l->operands[2].strides[d] * w->size_B;
        if (by == 1) return;
    }
}

static __attribute__((noinline)) void fill_many(char *to, uint64_t bits, int64_t n, int size_B)
{
    switch (size_B) {
    case 1: memset(to, (int)bits, (size_t)n); break;
    case 2:
        for (int64_t i = 0; i < n; i++) memcpy(to + 2 * i, &bits, 2);
        break;
    case 4:
        for (int64_t i = 0; i < n; i++) memcpy(to + 4 * i, &bits, 4);
        break;
    default:
        for (int64_t i = 0; i < n; i++) memcpy(to + 8 * i, &bits, 8);
    }
}

// n elements with the bits of one.
static inline char *fill(char *to, uint64_t bits, int64_t n, const int size_B)
{
    if (n == 1)
        memcpy(to, &bits, (size_t)size_B);
    else if (n > 1)
        fill_many(to, bits, n, size_B);
    return to + n * size_B;
}

// Rows [i, end) of a place, all inside of x or all beside it.
static inline __attribute__((always_inline)) void pad_run(const struct pad_walk *w, int64_t i, int64_t end,
                                                          uint64_t bits, const int size_B)
{
    const struct launch *l = w->l;
    int last = w->rows + 1;
    int64_t wide = l->sizes[last], first = before(l, last), n = behind(l, last) - first;
    int64_t from_B = l->operands[0].strides[w->rows] * size_B, to_B = l->operands[2].strides[w->rows] * size_B;
    const char *from = w->from + (i - before(l, w->rows)) * from_B;
    char *to = w->to + i * to_B;
    bool inside = w->outside == 0 && is_inside(l, w->rows, i);
    for (; i < end; i++, from += from_B, to += to_B) {
        if (!inside) {
            fill(to, bits, wide, size_B);
            continue;
        }
        char *at = fill(to, bits, first, size_B);
        move_run(at, from, n * size_B);
        fill(at + n * size_B, bits, wide - first - n, size_B);
    }
}

static inline __attribute__((always_inline)) void pad_rows(struct pad_walk *w, int64_t rows, uint64_t bits,
                                                           const int size_B)
{
    const struct launch *l = w->l;
    while (rows > 0) {
        int64_t i = w->index[w->rows], size = l->sizes[w->rows];
        int64_t end = i < before(l, w->rows) ? before(l, w->rows) : i < behind(l, w->rows) ? behind(l, w->rows) : size;
        if (end - i > rows) end = i + rows;
        pad_run(w, i, end, bits, size_B);
        rows -= end - i;
        w->index[w->rows] = end;
        if (end == size) next(w);
    }
}

struct cpu_work CPU_FN(cpu_units_pad_rows)(const struct launch *l)
{
    struct cpu_work w = {1, l->sizes[l->rank - 1] / 2 + 8};
    for (int d = 0; d + 1 < l->rank; d++) w.units *= l->sizes[d];
    return w;
}

kiln_status CPU_FN(cpu_kernel_pad_rows)(const struct launch *l, int64_t begin, int64_t end)
{
    struct pad_walk w;
    uint64_t bits = 0;
    start(&w, l, begin);
    memcpy(&bits, (const void *)(uintptr_t)l->operands[1].address, (size_t)w.size_B);
    switch (w.size_B) {
    case 1: pad_rows(&w, end - begin, bits, 1); break;
    case 2: pad_rows(&w, end - begin, bits, 2); break;
    case 4: pad_rows(&w, end - begin, bits, 4); break;
    default: pad_rows(&w, end - begin, bits, 8);
    }
    return KILN_OK;
}
