// Batches of matrices for LAPACK: the space is the batch, a work unit one matrix. Scalars: whether a matrix that has no
// result is an error, or the result NaN; the sizes m, n, k; a bit for each operand that is missing; of each
// operand the strides of rows and columns. Matrices are brought into scratch memory, in column order, and back.
#pragma once
#include "cpu/blas.h"
#include "cpu/kernels/convert.h"
#include "cpu/kernels/walk.h"
#include "cpu/parallel.h"
#include <math.h>
#include <stdio.h>

// Of matrices up to this size each is done by the calling thread alone.
enum { MATRIX_SMALL = 128 };

struct matrices {
    const struct launch *l;
    const struct cpu_lapack *lapack;
    enum scalar_class cls;
    size_t size_B;
    bool raises;
    int m, n, k;
    int64_t at; // the number of the matrix
    int threads;
    struct walk w;
};

static inline kiln_status matrices_start(struct matrices *b, const struct launch *l, int64_t begin)
{
    const struct cpu_blas *blas = cpu_blas();
    *b = (struct matrices){.l = l, .cls = (enum scalar_class)kernel_catalogue[l->kernel].cls, .at = begin};
    if (!blas->has_lapack)
        return error_set(KILN_E_UNSUPPORTED,
                         "%s: needs LAPACK of libopenblas (Debian: libopenblas0-openmp); there is %s", l->op,
                         blas->name);
    b->lapack = &blas->lapack[b->cls == CLASS_F64];
    b->size_B = cpu_class_size_B[b->cls];
    b->raises = l->scalars[0] != 0;
    b->m = (int)l->scalars[1];
    b->n = (int)l->scalars[2];
    b->k = (int)l->scalars[3];
    b->threads = b->m <= MATRIX_SMALL && b->n <= MATRIX_SMALL ? cpu_pool_leave() : 0;
    walk_start(&b->w, l, -1, begin);
    return KILN_OK;
}

static inline void matrices_next(struct matrices *b)
{
    b->at++;
    walk_next(&b->w, 1);
}

static inline kiln_status matrices_finish(struct matrices *b, kiln_status status)
{
    cpu_pool_return(b->threads);
    return status;
}

static inline bool matrices_has(const struct matrices *b, int o)
{
    return !(b->l->scalars[4] >> o & 1);
}

static inline char *matrices_operand(const struct matrices *b, int o)
{
    int d = walk_inner(&b->w);
    return d < 0 ? b->w.at[o] : b->w.at[o] + b->w.inner * walk_stride_B(b->l, o, d);
}

static inline int64_t matrices_stride(const struct matrices *b, int o, bool column)
{
    return (int64_t)b->l->scalars[5 + 2 * o + column];
}

static inline void matrices_load(const struct matrices *b, int o, void *to, int64_t rows, int64_t cols)
{
    if (!matrices_has(b, o) || rows * cols == 0) return;
    CPU_FN(cpu_load_tile)
    (to, rows, b->cls, matrices_operand(b, o), b->l->operands[o].dtype, cols, rows, matrices_stride(b, o, true),
     matrices_stride(b, o, false));
}

// The transposed matrix: how rows lie whose elements follow each other.
static inline void matrices_load_transposed(const struct matrices *b, int o, void *to, int64_t rows, int64_t cols)
{
    if (rows * cols == 0) return;
    CPU_FN(cpu_load_tile)
    (to, cols, b->cls, matrices_operand(b, o), b->l->operands[o].dtype, rows, cols, matrices_stride(b, o, false),
     matrices_stride(b, o, true));
}

static inline void matrices_store(const struct matrices *b, int o, const void *from, int64_t ld, int64_t rows,
                                  int64_t cols)
{
    if (!matrices_has(b, o) || rows * cols == 0) return;
    CPU_FN(cpu_store_tile)
    (matrices_operand(b, o), b->l->operands[o].dtype, matrices_stride(b, o, true), matrices_stride(b, o, false), from,
     ld, b->cls, cols, rows);
}

static inline double matrices_get(const struct matrices *b, const void *from, int64_t i)
{
    return b->cls == CLASS_F64 ? ((const double *)from)[i] : (double)((const float *)from)[i];
}

static inline void matrices_set(const struct matrices *b, void *to, int64_t i, double v)
{
    if (b->cls == CLASS_F64)
        ((double *)to)[i] = v;
    else
        ((float *)to)[i] = (float)v;
}

static inline void matrices_fill(const struct matrices *b, void *to, int64_t n, double v)
{
    for (int64_t i = 0; i < n; i++) matrices_set(b, to, i, v);
}

static inline void matrices_identity(const struct matrices *b, void *to, int64_t n)
{
    matrices_fill(b, to, n * n, 0);
    for (int64_t i = 0; i < n; i++) matrices_set(b, to, i * n + i, 1);
}

static inline bool matrices_are_finite(const struct matrices *b, const void *a, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(matrices_get(b, a, i))) return false;
    return true;
}

// The present one has no result: "is singular". KILN_OK where that is no error.
static inline kiln_status matrices_fail(const struct matrices *b, const char *argument, const char *what)
{
    const struct launch *l = b->l;
    struct type t = {.dtype = l->operands[0].dtype, .rank = (uint8_t)(l->rank + 2)};
    char type[TYPE_TEXT_MAX], place[MAX_RANK * 24] = "";
    int64_t at[MAX_RANK], left = b->at;
    if (!b->raises) return KILN_OK;
    for (int d = l->rank - 1; d >= 0; d--) {
        t.dims[d] = l->sizes[d];
        at[d] = left % l->sizes[d];
        left /= l->sizes[d];
    }
    t.dims[l->rank] = b->m;
    t.dims[l->rank + 1] = b->n;
    type_text(&t, type, sizeof type);
    if (l->rank == 0) return error_set(KILN_E_ARGUMENT, "%s: %s %s %s", l->op, argument, type, what);
    for (int d = 0, n = 0; d < l->rank; d++)
        n += snprintf(place + n, sizeof place - (size_t)n, "%s%lld", d ? ", " : "", (long long)at[d]);
    return error_set(KILN_E_ARGUMENT, "%s: matrix %s%s%s of %s %s %s", l->op, l->rank > 1 ? "[" : "", place,
                     l->rank > 1 ? "]" : "", argument, type, what);
}

// Parts of one piece of scratch memory, for arrays of so many bytes.
static inline kiln_status matrices_scratch(int n, const size_t *size_B, void **parts)
{
    size_t total_B = 0;
    for (int i = 0; i < n; i++) total_B += (size_B[i] + 63) & ~(size_t)63;
    char *memory = cpu_scratch(CPU_SCRATCH_CUSTOM, total_B + 64);
    if (!memory) return error_pending;
    for (int i = 0; i < n; i++) {
        parts[i] = memory;
        memory += (size_B[i] + 63) & ~(size_t)63;
    }
    return KILN_OK;
}

// The number of elements of work that a query left in work[0], rounded by a float.
static inline kiln_status matrices_work(const struct matrices *b, const void *work, int *n)
{
    double wanted = ceil(matrices_get(b, work, 0) * 1.000001) + 1;
    if (wanted > (double)(INT32_MAX - 64))
        return error_set(KILN_E_UNSUPPORTED, "%s: matrices of %d x %d are more than LAPACK takes", b->l->op, b->m,
                         b->n);
    *n = (int)wanted;
    return KILN_OK;
}

static inline struct cpu_work matrices_units(const struct launch *l)
{
    struct cpu_work w = {1, 0};
    double m = (double)(int64_t)l->scalars[1], n = (double)(int64_t)l->scalars[2], k = (double)(int64_t)l->scalars[3];
    double cost = 2000 + m * n * ((m < n ? m : n) + k) / 8;
    for (int d = 0; d < l->rank; d++) w.units *= l->sizes[d];
    w.unit_cost = cost < 1e15 ? (int64_t)cost : (int64_t)1e15;
    return w;
}
