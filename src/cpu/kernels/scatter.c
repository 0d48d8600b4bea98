// out[column, index(column, k)] = src[column, k], or the two joined, for each k in order. The space is src's; variant 1
// is the dimension of k, the others make the columns. Operands: index, (unused), src, out (without its indexed axis);
// scalars: that axis's size and out's stride along it. Threads share out the columns, so an element of out belongs to
// one thread and sees its k in order.
//
// A run of columns along the innermost dimension is done together. One index for all of it: whole runs are added, where
// they lie closer together than what is indexed. Else the loop follows the index's shorter stride.
#include "cpu/kernels/index.h"
#include "cpu/kernels/walk.h"
#include "cpu/parallel.h"
#include <string.h>

enum { MODE_SET, MODE_JOIN }; // as in ops/scatter.c, with what joins in variant 2

struct scatter_run {
    char *out;
    const char *src;
    const int64_t *index;
    int64_t n, out_step, src_step, axis_stride;
}; // in elements

#define JOIN(a, b) (b)
#define T          uint8_t
#define NAME       set_8
#include "cpu/kernels/scatter_tmpl.c"
#define T    uint16_t
#define NAME set_16
#include "cpu/kernels/scatter_tmpl.c"
#define T    uint32_t
#define NAME set_32
#include "cpu/kernels/scatter_tmpl.c"
#define T    uint64_t
#define NAME set_64
#include "cpu/kernels/scatter_tmpl.c"
#undef JOIN
#define JOIN(a, b) ((a) + (b))
#define T          float
#define NAME       add_f32
#include "cpu/kernels/scatter_tmpl.c"
#define T    double
#define NAME add_f64
#include "cpu/kernels/scatter_tmpl.c"
#define T    uint32_t
#define NAME add_i32
#include "cpu/kernels/scatter_tmpl.c"
#define T    uint64_t
#define NAME add_i64
#include "cpu/kernels/scatter_tmpl.c"
#undef JOIN
#define JOIN(a, b) ((a) * (b))
#define T          float
#define NAME       mul_f32
#include "cpu/kernels/scatter_tmpl.c"
#define T    double
#define NAME mul_f64
#include "cpu/kernels/scatter_tmpl.c"
#define T    uint32_t
#define NAME mul_i32
#include "cpu/kernels/scatter_tmpl.c"
#define T    uint64_t
#define NAME mul_i64
#include "cpu/kernels/scatter_tmpl.c"
#undef JOIN
#define JOIN(a, b) ((a) >= (b) || (a) != (a) ? (a) : (b)) // NaN wins
#define T          float
#define NAME       max_f32
#include "cpu/kernels/scatter_tmpl.c"
#define T    double
#define NAME max_f64
#include "cpu/kernels/scatter_tmpl.c"
#define T    int32_t
#define NAME max_i32
#include "cpu/kernels/scatter_tmpl.c"
#define T    int64_t
#define NAME max_i64
#include "cpu/kernels/scatter_tmpl.c"
#undef JOIN
#define JOIN(a, b) ((a) <= (b) || (a) != (a) ? (a) : (b)) // NaN wins
#define T          float
#define NAME       min_f32
#include "cpu/kernels/scatter_tmpl.c"
#define T    double
#define NAME min_f64
#include "cpu/kernels/scatter_tmpl.c"
#define T    int32_t
#define NAME min_i32
#include "cpu/kernels/scatter_tmpl.c"
#define T    int64_t
#define NAME min_i64
#include "cpu/kernels/scatter_tmpl.c"

typedef void run_fn(const struct scatter_run *r);

static run_fn *find_run(const struct launch *l)
{
    static run_fn *const joins[4][4] = {
        {add_f32, add_f64, add_i32, add_i64},
        {mul_f32, mul_f64, mul_i32, mul_i64},
        {max_f32, max_f64, max_i32, max_i64},
        {min_f32, min_f64, min_i32, min_i64},
    };
    unsigned dtype = l->operands[3].dtype;
    if (l->variant[0] == MODE_JOIN)
        return joins[l->variant[2]][dtype == KILN_F32 ? 0 : dtype == KILN_F64 ? 1 : dtype == KILN_I32 ? 2 : 3];
    int size_B = cpu_dtype_size_B[dtype];
    return size_B == 1 ? set_8 : size_B == 2 ? set_16 : size_B == 4 ? set_32 : set_64;
}

// A run of columns, and how the three operands move: strides in elements along k and along the run.
struct columns {
    const struct launch *l;
    run_fn *fn;
    char *index, *src, *out;
    int64_t count, length; // columns; k
    int64_t size, axis_stride;
    int64_t index_k, index_j, src_k, src_j, out_j;
    int size_B, index_B;
};

// What place k adds and what it is added to had better be on their way: rows by index follow no order that the
// processor sees.
static inline __attribute__((always_inline)) void fetch_place(const struct columns *c, int64_t index, int64_t k)
{
    enum { MOST_B = 2048, CACHE_LINE_B = 64 };
    const char *to = c->out + index * c->axis_stride * c->size_B, *from = c->src + k * c->src_k * c->size_B;
    int64_t row_B = least(c->count * c->size_B, MOST_B);
    for (int64_t i = 0; i < row_B; i += CACHE_LINE_B) __builtin_prefetch(to + i, 1);
    for (int64_t i = 0; i < row_B; i += CACHE_LINE_B) __builtin_prefetch(from + i);
}

// One index for all columns of the run.
static kiln_status by_shared_index(const struct columns *c)
{
    enum { NEXT = 4 };
    bool in_rows = c->out_j == 1 && c->src_j == 1;
    int64_t index[INDEX_BLOCK];
    for (int64_t k = 0; k < c->length; k += INDEX_BLOCK) {
        int64_t n = c->length - k < INDEX_BLOCK ? c->length - k : INDEX_BLOCK;
        TRY(index_load(c->l, 0, index, c->index + k * c->index_k * c->index_B, n, c->index_k, c->size));
        for (int64_t i = 0; i < n; i++) {
            if (in_rows && i + NEXT < n) fetch_place(c, index[i + NEXT], k + i + NEXT);
            c->fn(&(struct scatter_run){c->out + index[i] * c->axis_stride * c->size_B,
                                        c->src + (k + i) * c->src_k * c->size_B, NULL, c->count, c->out_j, c->src_j,
                                        0});
        }
    }
    return KILN_OK;
}

static kiln_status by_column(const struct columns *c)
{
    int64_t index[INDEX_BLOCK];
    for (int64_t j = 0; j < c->count; j++)
        for (int64_t k = 0; k < c->length; k += INDEX_BLOCK) {
            int64_t n = c->length - k < INDEX_BLOCK ? c->length - k : INDEX_BLOCK;
            TRY(index_load(c->l, 0, index, c->index + (j * c->index_j + k * c->index_k) * c->index_B, n, c->index_k,
                           c->size));
            c->fn(&(struct scatter_run){c->out + j * c->out_j * c->size_B,
                                        c->src + (j * c->src_j + k * c->src_k) * c->size_B, index, n, 0, c->src_k,
                                        c->axis_stride});
        }
    return KILN_OK;
}

// Columns [j, j + n) of the run, n <= INDEX_BLOCK, into `out` with another distance along the axis.
static kiln_status add_strip(const struct columns *c, int64_t j, int64_t n, char *out, int64_t axis_stride)
{
    int64_t index[INDEX_BLOCK];
    bool lies = c->l->operands[0].dtype == KILN_I64 && c->index_j == 1;
    for (int64_t k = 0; k < c->length; k++) {
        const char *at = c->index + (j * c->index_j + k * c->index_k) * c->index_B;
        const int64_t *places = (const int64_t *)(const void *)at;
        if (!lies || !all_inside(places, n, c->size)) {
            TRY(index_load(c->l, 0, index, at, n, c->index_j, c->size));
            places = index;
        }
        c->fn(&(struct scatter_run){out, c->src + (j * c->src_j + k * c->src_k) * c->size_B, places, n, c->out_j,
                                    c->src_j, axis_stride});
    }
    return KILN_OK;
}

// Some columns at a time. Where many places fall on few rows, those are copied close together meanwhile: rows that lie
// a power of two apart share a few sets of the cache.
static kiln_status by_place(const struct columns *c)
{
    enum { NEAR_B = 1 << 15, FEWEST = 64, APART = 16, TIMES = 4 };
    int64_t strip = c->size > 0 ? NEAR_B / (c->size * c->size_B) : 0;
    bool near = strip >= FEWEST && c->out_j == 1 && c->length >= TIMES * c->size;
    if (!near || strip > INDEX_BLOCK) strip = INDEX_BLOCK;
    int64_t pitch = strip + APART, row_B = pitch * c->size_B, far_B = c->axis_stride * c->size_B;
    char *rows = near ? cpu_scratch(CPU_SCRATCH_CUSTOM, (size_t)(c->size * row_B)) : NULL;
    if (near && !rows) return error_pending;
    for (int64_t j = 0; j < c->count; j += strip) {
        int64_t n = least(strip, c->count - j);
        char *out = c->out + j * c->out_j * c->size_B;
        size_t n_B = (size_t)(n * c->size_B);
        for (int64_t r = 0; near && r < c->size; r++) memcpy(rows + r * row_B, out + r * far_B, n_B);
        TRY(add_strip(c, j, n, near ? rows : out, near ? pitch : c->axis_stride));
        for (int64_t r = 0; near && r < c->size; r++) memcpy(out + r * far_B, rows + r * row_B, n_B);
    }
    return KILN_OK;
}

static int64_t columns_of(const struct launch *l)
{
    int64_t columns = 1;
    for (int d = 0; d < l->rank; d++)
        if (d != (int)l->variant[1]) columns *= l->sizes[d];
    return columns;
}

// Columns of a unit: one, or where they share an index a part of the row that is worth going to by it.
static int64_t columns_of_unit(const struct launch *l)
{
    enum { WORTH = 128 };
    int inner = l->rank - 1 - ((int)l->variant[1] == l->rank - 1);
    return inner >= 0 && l->operands[0].strides[inner] == 0 ? WORTH : 1;
}

struct cpu_work CPU_FN(cpu_units_scatter)(const struct launch *l)
{
    int64_t columns = columns_of(l), each = columns_of_unit(l);
    return (struct cpu_work){(columns + each - 1) / each, 4 * least(each, columns) * l->sizes[l->variant[1]]};
}

static int64_t magnitude(int64_t v)
{
    return v < 0 ? -v : v;
}

kiln_status CPU_FN(cpu_kernel_scatter)(const struct launch *l, int64_t begin, int64_t end)
{
    int k = (int)l->variant[1];
    const struct launch_operand *o = l->operands;
    struct walk w;
    int64_t each = columns_of_unit(l);
    begin *= each, end = least(end * each, columns_of(l));
    walk_start(&w, l, k, begin);
    int j = walk_inner(&w);
    struct columns c = {.l = l,
                        .fn = find_run(l),
                        .length = l->sizes[k],
                        .size = (int64_t)l->scalars[0],
                        .axis_stride = (int64_t)l->scalars[1],
                        .index_k = o[0].strides[k],
                        .src_k = o[2].strides[k],
                        .size_B = cpu_dtype_size_B[o[3].dtype],
                        .index_B = cpu_dtype_size_B[o[0].dtype]};
    if (j >= 0) c.index_j = o[0].strides[j], c.src_j = o[2].strides[j], c.out_j = o[3].strides[j];
    while (begin < end) {
        c.count = walk_run(&w);
        if (c.count > end - begin) c.count = end - begin;
        c.index = w.at[0] + w.inner * c.index_j * c.index_B;
        c.src = w.at[2] + w.inner * c.src_j * c.size_B;
        c.out = w.at[3] + w.inner * c.out_j * c.size_B;
        bool shared = c.index_j == 0, in_lines = magnitude(c.out_j) <= magnitude(c.axis_stride);
        if (c.count > 1 && shared && in_lines)
            TRY(by_shared_index(&c));
        else if (c.count == 1 || shared || magnitude(c.index_k) <= magnitude(c.index_j))
            TRY(by_column(&c));
        else
            TRY(by_place(&c));
        begin += c.count;
        walk_next(&w, c.count);
    }
    return KILN_OK;
}
