// What the tests of factorisations share: matrices to factor, products and orthogonality to check, failures to expect.
#pragma once
#include "conformance/structured.h"
#include <kiln/ops.h>
#include <string.h>

// The element [i, j] of the matrix b of a batch, seen the other way round or not.
struct matrix {
    const struct host *h;
    int64_t b;
    bool turned;
};

static inline int64_t rows_of(const struct host *h)
{
    return h->dims[h->rank - 2];
}

static inline int64_t cols_of(const struct host *h)
{
    return h->dims[h->rank - 1];
}

static inline long double at(struct matrix m, int64_t i, int64_t j)
{
    int64_t rows = rows_of(m.h), cols = cols_of(m.h), one = m.h->n / (rows * cols);
    return m.h->v[((m.b % one) * rows + (m.turned ? j : i)) * cols + (m.turned ? i : j)];
}

static inline int64_t height(struct matrix m)
{
    return m.turned ? cols_of(m.h) : rows_of(m.h);
}

static inline int64_t width(struct matrix m)
{
    return m.turned ? rows_of(m.h) : cols_of(m.h);
}

static inline long double unit_of(int dtype)
{
    return scalbnl(1, 1 - fraction_bits(dtype));
}

// p diag(d) q = want, d NULL: of ones, want NULL: the identity; but for so many units of rounding of the largest sum of
// sizes.
static inline void check_product(struct matrix p, const struct host *d, struct matrix q, const struct matrix *want,
                                 double units, const char *what)
{
    int64_t m = height(p), n = width(q), k = width(p), narrow = k < height(q) ? k : height(q);
    long double size = 1e-30L;
    record.values++;
    for (int pass = 0; pass < 2; pass++) // the numbers, then the comparison
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) {
                long double sum = 0, total = 0, w = want ? at(*want, i, j) : i == j;
                for (int64_t l = 0; l < narrow; l++) {
                    long double term = at(p, i, l) * (d ? d->v[p.b * cols_of(d) + l] : 1) * at(q, l, j);
                    sum += term;
                    total += fabsl(term);
                }
                size = fmaxl(size, total + fabsl(w));
                if (pass && !(fabsl(sum - w) <= units * unit_of(p.h->dtype) * size))
                    record_mistake("%s: element [%d, %d] of matrix %d of the product is %.10Lg, expected %.10Lg", what,
                                   (int)i, (int)j, (int)p.b, sum, w);
            }
}

static inline void check_orthonormal(struct matrix q, const char *what)
{
    struct matrix t = {q.h, q.b, !q.turned};
    check_product(t, NULL, q, NULL, 8 + 4 * (double)height(q), what);
}

// --- what is factored

enum { SIZES = 6 };
static const int64_t sizes[SIZES] = {1, 2, 3, 8, 17, 40};
static const struct {
    int rank;
    int64_t dims[3];
} batches[] = {{0, {0}}, {1, {3}}, {2, {2, 3}}, {1, {0}}};
enum { BATCHES = sizeof batches / sizeof batches[0] };

struct given {
    struct host x;
    kiln_tensor *t;
    int64_t m, n, k, count; // of matrices
    char text[128];
};

enum made { MADE_RANDOM, MADE_SYMMETRIC, MADE_DEFINITE, MADE_DOMINANT };

static inline void make(struct given *g, enum made how)
{
    for (int64_t b = 0; b < g->count; b++) {
        long double *v = g->x.v + b * g->m * g->n;
        for (int64_t i = 0; i < g->k && how != MADE_RANDOM; i++) {
            for (int64_t j = 0; j < i && how != MADE_DOMINANT; j++) v[j * g->n + i] = v[i * g->n + j];
            if (how != MADE_SYMMETRIC)
                v[i * g->n + i] =
                    quantized(g->x.dtype, fabsl(v[i * g->n + i]) + (is_float(g->x.dtype) ? 1 : 5) * (long double)g->n);
        }
    }
}

static inline void give(struct given *g, const char *op, int dtype, int batch, int64_t m, int64_t n, int layout,
                        enum made how)
{
    int64_t dims[5];
    int rank = batches[batch].rank;
    g->count = 1;
    for (int d = 0; d < rank; d++) g->count *= dims[d] = batches[batch].dims[d];
    dims[rank++] = g->m = m;
    dims[rank++] = g->n = n;
    g->k = m < n ? m : n;
    g->x = host_new(dtype, rank, dims);
    host_fill(&g->x, &structured_random, is_float(dtype) ? -1 : dtype == KILN_U8 ? 0 : -4, is_float(dtype) ? 1 : 5);
    if (layout == LAYOUT_EXPANDED && rank == 2) layout = LAYOUT_STEP;
    make(g, how);
    if (layout == LAYOUT_EXPANDED) host_repeat_first(&g->x);
    g->t = host_tensor(suite.dev, &g->x, (enum host_layout)layout);
    snprintf(g->text, sizeof g->text, "%s", case_text(op, &g->x, (enum host_layout)layout, ""));
}

// Each dtype, and within it a batch, a size and a layout that change.
typedef void (*check_fn)(const char *op, int dtype, int batch, int size, int layout);

static inline void for_each(const char *op, check_fn check)
{
    for (int dtype = 0; dtype < DTYPES; dtype++)
        for (int size = 0; size < SIZES; size++)
            for (int batch = 0; batch < BATCHES; batch++) {
                if (dtype != KILN_F32 && dtype != KILN_F64 && (sizes[size] > 8 || (size + batch + dtype) % 3)) continue;
                if (dtype == KILN_BOOL || thinned(size + batch, 2)) continue;
                kiln_scope *scope = kiln_scope_begin();
                check(op, dtype, batch, size, (size + batch + dtype) % LAYOUT_COUNT);
                kiln_scope_end(&scope);
            }
}

static inline int result_dtype(int dtype)
{
    return is_float(dtype) ? dtype : KILN_F32;
}

// The result of a shape: its values, none on a device that computes nothing.
static inline struct host result(kiln_tensor *t, int dtype, const struct given *g, int n_tail, const int64_t *tail)
{
    int64_t dims[5];
    int rank = g->x.rank - 2;
    struct host none = {0};
    record.cases++;
    for (int d = 0; d < rank; d++) dims[d] = g->x.dims[d];
    for (int d = 0; d < n_tail; d++) dims[rank++] = tail[d];
    if (!no_error(g->text) || !same_type(t, result_dtype(dtype), rank, dims, g->text)) return none;
    struct host h = host_read(t);
    if (!suite.is_null) return h;
    host_free(&h);
    return none;
}

static inline void expect_square(kiln_tensor *(*call)(kiln_tensor *), const char *op)
{
    call(kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(2, 3)));
    expect_error(KILN_E_SHAPE, op, "a matrix that is not square");
    call(kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(3)));
    expect_error(KILN_E_SHAPE, op, "a vector");
}

// Of these matrices the second has no result: an error that names it.
static inline void expect_failure(kiln_tensor *(*call)(kiln_tensor *), const char *op, const float *x, const char *text)
{
    kiln_scope *scope = kiln_scope_begin();
    call(kiln_from_data(suite.dev, KILN_F32, KILN_SHAPE(3, 2, 2), x));
    record.cases++;
    if (suite.is_null)
        no_error(op);
    else {
        if (!kiln_error() || !strstr(kiln_error_message(), text))
            record_mistake("%s: \"%s\" has no \"%s\"", op, kiln_error_message(), text);
        expect_error(KILN_E_ARGUMENT, op, text);
    }
    kiln_scope_end(&scope);
}

static const float second_is_singular[] = {2, 0, 0, 2, 1, 2, 2, 4, 3, 1, 1, 3};
static const float second_is_infinite[] = {2, 0, 0, 2, 1, INFINITY, INFINITY, 4, 3, 1, 1, 3};

static inline void near(long double got, long double want, long double bound, const char *what)
{
    record.values++;
    if (got == want || fabsl(got - want) <= bound) return;
    record_mistake("%s: %.10Lg, expected %.10Lg", what, got, want);
}
