// Factorisations of matrices: what they multiply to, in long double, and what defines each factor. Nothing is compared
// with another factorisation, but determinants, which come from an elimination here.
#include "conformance/structured.h"
#include <kiln/ops.h>
#include <string.h>

// The element [i, j] of the matrix b of a batch, seen the other way round or not.
struct matrix {
    const struct host *h;
    int64_t b;
    bool turned;
};

static int64_t rows_of(const struct host *h)
{
    return h->dims[h->rank - 2];
}

static int64_t cols_of(const struct host *h)
{
    return h->dims[h->rank - 1];
}

static long double at(struct matrix m, int64_t i, int64_t j)
{
    int64_t rows = rows_of(m.h), cols = cols_of(m.h), one = m.h->n / (rows * cols);
    return m.h->v[((m.b % one) * rows + (m.turned ? j : i)) * cols + (m.turned ? i : j)];
}

static int64_t height(struct matrix m)
{
    return m.turned ? cols_of(m.h) : rows_of(m.h);
}

static int64_t width(struct matrix m)
{
    return m.turned ? rows_of(m.h) : cols_of(m.h);
}

static long double unit_of(int dtype)
{
    return scalbnl(1, 1 - fraction_bits(dtype));
}

// p diag(d) q = want, d NULL: of ones, want NULL: the identity; but for so many units of rounding of the largest sum of
// sizes.
static void check_product(struct matrix p, const struct host *d, struct matrix q, const struct matrix *want,
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

static void check_orthonormal(struct matrix q, const char *what)
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

static void make(struct given *g, enum made how)
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

static void give(struct given *g, const char *op, int dtype, int batch, int64_t m, int64_t n, int layout, enum made how)
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

static void for_each(const char *op, check_fn check)
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

static int result_dtype(int dtype)
{
    return is_float(dtype) ? dtype : KILN_F32;
}

// The result of a shape: its values, none on a device that computes nothing.
static struct host result(kiln_tensor *t, int dtype, const struct given *g, int n_tail, const int64_t *tail)
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

static void expect_square(kiln_tensor *(*call)(kiln_tensor *), const char *op)
{
    call(kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(2, 3)));
    expect_error(KILN_E_SHAPE, op, "a matrix that is not square");
    call(kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(3)));
    expect_error(KILN_E_SHAPE, op, "a vector");
}

// Of these matrices the second has no result: an error that names it.
static void expect_failure(kiln_tensor *(*call)(kiln_tensor *), const char *op, const float *x, const char *text)
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

// --- the ops

static void check_cholesky(const char *op, int dtype, int batch, int size, int layout)
{
    struct given g;
    int64_t n = sizes[size];
    give(&g, op, dtype, batch, n, n, layout, MADE_DEFINITE);
    for (int upper = 0; upper < 2; upper++) {
        struct host l = result(kiln_cholesky(g.t, upper), dtype, &g, 2, (int64_t[]){n, n});
        for (int64_t b = 0; l.v && b < g.count; b++) {
            struct matrix f = {&l, b, upper}, t = {&l, b, !upper}, x = {&g.x, b, false};
            for (int64_t i = 0; i < n; i++)
                for (int64_t j = i; j < n; j++)
                    if (j == i ? !(at(f, i, i) > 0) : at(f, i, j) != 0)
                        record_mistake("%s: element [%d, %d] is %Lg", g.text, (int)i, (int)j, at(f, i, j));
            check_product(f, NULL, t, &x, 4 + (double)n, g.text);
        }
        host_free(&l);
    }
    host_free(&g.x);
}

static kiln_tensor *call_cholesky(kiln_tensor *x)
{
    return kiln_cholesky(x, false);
}

void conform_cholesky(const char *op)
{
    for_each(op, check_cholesky);
    expect_square(call_cholesky, op);
    expect_failure(call_cholesky, op, second_is_singular, "matrix 1 of x f32[3,2,2] is not positive definite");
    expect_failure(call_cholesky, op, second_is_infinite, "matrix 1 of x f32[3,2,2]");
}

static void check_solve(const char *op, int dtype, int batch, int size, int layout)
{
    struct given g;
    int64_t n = sizes[size], k = 1 + size, dims[5];
    give(&g, op, dtype, batch, n, n, layout, MADE_DOMINANT);
    for (int d = 0; d < g.x.rank; d++) dims[d] = g.x.dims[d];
    dims[g.x.rank - 1] = k;
    int skip = (size + dtype) % 2 ? g.x.rank - 2 : 0; // one b for all of the batch
    struct host y;
    kiln_tensor *b = random_tensor(&y, dtype, g.x.rank - skip, dims + skip,
                                   (enum host_layout)((layout + 3) % LAYOUT_EXPANDED), -3, 3);
    struct host x = result(kiln_solve(g.t, b), dtype, &g, 2, (int64_t[]){n, k});
    for (int64_t i = 0; x.v && i < g.count; i++)
        check_product((struct matrix){&g.x, i, false}, NULL, (struct matrix){&x, i, false},
                      &(struct matrix){&y, i, false}, 4 + 4 * (double)n, g.text);
    host_free(&x);
    host_free(&y);
    kiln_tensor *v = random_tensor(&y, dtype, 1, &n, LAYOUT_STEP, -3, 3);
    x = result(kiln_unsqueeze(kiln_solve(g.t, v), -1), dtype, &g, 2, (int64_t[]){n, 1});
    struct host column = y;
    column.rank = 2, column.dims[0] = n, column.dims[1] = 1;
    for (int64_t i = 0; x.v && i < g.count; i++)
        check_product((struct matrix){&g.x, i, false}, NULL, (struct matrix){&x, i, false},
                      &(struct matrix){&column, i, false}, 4 + 4 * (double)n, g.text);
    host_free(&x);
    host_free(&y);
    host_free(&g.x);
}

// Matrices that are not turned on their way to LAPACK if their rows follow each other, and that need pivots.
static void check_large(const char *op, bool inverse)
{
    enum { LARGE = 131, COLUMNS = 5, THREE = 1 }; // a batch of three
    static const enum host_layout layouts[] = {LAYOUT_CONTIGUOUS, LAYOUT_TRANSPOSED, LAYOUT_OFFSET, LAYOUT_STEP};
    for (int i = 0; i < 2 * (int)(sizeof layouts / sizeof layouts[0]); i++) {
        int dtype = i % 2 ? KILN_F64 : KILN_F32;
        struct given g;
        struct host b;
        kiln_scope *scope = kiln_scope_begin();
        give(&g, op, dtype, THREE, LARGE, LARGE, layouts[i / 2], MADE_RANDOM);
        kiln_tensor *right = random_tensor(&b, dtype, 2, (int64_t[]){LARGE, COLUMNS}, LAYOUT_CONTIGUOUS, -3, 3);
        struct host x = result(inverse ? kiln_inv(g.t) : kiln_solve(g.t, right), dtype, &g, 2,
                               (int64_t[]){LARGE, inverse ? LARGE : COLUMNS});
        for (int64_t k = 0; x.v && k < g.count; k++)
            check_product((struct matrix){&g.x, k, false}, NULL, (struct matrix){&x, k, false},
                          inverse ? NULL : &(struct matrix){&b, k, false}, 4 + 4 * (double)LARGE, g.text);
        host_free(&x);
        host_free(&b);
        host_free(&g.x);
        kiln_scope_end(&scope);
    }
    kiln_tensor *ones = kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(LARGE, LARGE));
    inverse ? kiln_inv(ones) : kiln_solve(ones, ones);
    if (suite.is_null) {
        no_error(op);
    } else {
        if (!strstr(kiln_error_message(), "f32[131,131] is singular: pivot 2 of 131 is 0"))
            record_mistake("%s of a large matrix of ones: \"%s\"", op, kiln_error_message());
        expect_error(KILN_E_ARGUMENT, op, "a large matrix of ones");
    }
}

static kiln_tensor *call_solve(kiln_tensor *x)
{
    return kiln_solve(x, kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(2)));
}

void conform_solve(const char *op)
{
    for_each(op, check_solve);
    check_large(op, false);
    expect_square(call_solve, op);
    expect_failure(call_solve, op, second_is_singular, "matrix 1 of a f32[3,2,2] is singular");
    kiln_solve(kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(4, 2, 2)), kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(3, 1)));
    expect_error(KILN_E_SHAPE, op, "rows that differ");
    kiln_solve(kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(4, 2, 2)),
               kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(3, 2, 1)));
    expect_error(KILN_E_SHAPE, op, "batches that differ");
    kiln_tensor *empty = kiln_solve(kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(2, 0, 0)),
                                    kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(0, 3)));
    same_type(empty, KILN_F32, 3, (int64_t[]){2, 0, 3}, "solve of no rows");
}

// The triangle that is read, with ones on the diagonal or not.
static struct host triangle_of(const struct host *x, bool upper, bool unit)
{
    struct host t = host_copy(x);
    int64_t n = cols_of(x);
    for (int64_t i = 0; i < t.n; i++) {
        int64_t row = i / n % n, col = i % n;
        if (upper ? col < row : col > row) t.v[i] = 0;
        if (unit && row == col) t.v[i] = 1;
    }
    return t;
}

static void check_triangular(const char *op, int dtype, int batch, int size, int layout)
{
    struct given g;
    int64_t n = sizes[size], k = 1 + size;
    give(&g, op, dtype, batch, n, n, layout, MADE_DOMINANT);
    for (int way = 0; way < 8; way++) {
        bool upper = way & 1, turned = way & 2, unit = way & 4;
        if (unit && n > 8) continue; // solutions grow with each row
        struct host y, t = triangle_of(&g.x, upper, unit);
        kiln_tensor *b = random_tensor(&y, dtype, 2, (int64_t[]){n, k}, LAYOUT_TRANSPOSED, -3, 3);
        struct host x = result(kiln_solve_triangular(g.t, b, upper, turned, unit), dtype, &g, 2, (int64_t[]){n, k});
        for (int64_t i = 0; x.v && i < g.count; i++)
            check_product((struct matrix){&t, i, turned}, NULL, (struct matrix){&x, i, false},
                          &(struct matrix){&y, i, false}, 4 + 2 * (double)n, g.text);
        host_free(&x);
        host_free(&y);
        host_free(&t);
    }
    host_free(&g.x);
}

static kiln_tensor *call_triangular(kiln_tensor *x)
{
    return kiln_solve_triangular(x, kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(2)), true, false, false);
}

void conform_solve_triangular(const char *op)
{
    static const float zero_on_diagonal[] = {2, 0, 0, 2, 1, 2, 2, 0, 3, 1, 1, 3};
    for_each(op, check_triangular);
    expect_square(call_triangular, op);
    expect_failure(call_triangular, op, zero_on_diagonal, "matrix 1 of a f32[3,2,2] is singular: element 1");
}

static void check_inv(const char *op, int dtype, int batch, int size, int layout)
{
    struct given g;
    int64_t n = sizes[size];
    give(&g, op, dtype, batch, n, n, layout, MADE_DOMINANT);
    struct host y = result(kiln_inv(g.t), dtype, &g, 2, (int64_t[]){n, n});
    for (int64_t b = 0; y.v && b < g.count; b++) {
        struct matrix x = {&g.x, b, false}, inverse = {&y, b, false};
        check_product(inverse, NULL, x, NULL, 8 + 8 * (double)n, g.text);
    }
    host_free(&y);
    host_free(&g.x);
}

void conform_inv(const char *op)
{
    for_each(op, check_inv);
    check_large(op, true);
    expect_square(kiln_inv, op);
    expect_failure(kiln_inv, op, second_is_singular, "matrix 1 of x f32[3,2,2] is singular");
}

// By elimination, the largest element of a column first.
static long double determinant(const struct host *x, int64_t b)
{
    int64_t n = cols_of(x);
    struct host a = host_copy(x);
    long double *v = a.v + b * n * n, product = 1;
    for (int64_t k = 0; k < n; k++) {
        int64_t best = k;
        for (int64_t i = k + 1; i < n; i++)
            if (fabsl(v[i * n + k]) > fabsl(v[best * n + k])) best = i;
        if (best != k) product = -product;
        for (int64_t j = 0; j < n; j++) {
            long double t = v[k * n + j];
            v[k * n + j] = v[best * n + j];
            v[best * n + j] = t;
        }
        product *= v[k * n + k];
        for (int64_t i = k + 1; i < n && v[k * n + k] != 0; i++) {
            long double f = v[i * n + k] / v[k * n + k];
            for (int64_t j = k; j < n; j++) v[i * n + j] -= f * v[k * n + j];
        }
    }
    host_free(&a);
    return product;
}

static void near(long double got, long double want, long double bound, const char *what)
{
    record.values++;
    if (got == want || fabsl(got - want) <= bound) return;
    record_mistake("%s: %.10Lg, expected %.10Lg", what, got, want);
}

static void check_det(const char *op, int dtype, int batch, int size, int layout)
{
    struct given g;
    int64_t n = sizes[size];
    if (fraction_bits(result_dtype(dtype)) < 24 && n > 3) return; // beyond the largest f16
    if (result_dtype(dtype) == KILN_F32 && n > 20) return;
    give(&g, op, dtype, batch, n, n, layout, MADE_DOMINANT);
    struct host y = result(kiln_det(g.t), dtype, &g, 0, NULL);
    for (int64_t b = 0; y.v && b < g.count; b++) {
        long double want = determinant(&g.x, b);
        near(y.v[b], want, (1 + 4 * (double)n) * unit_of(y.dtype) * fabsl(want), g.text);
    }
    host_free(&y);
    host_free(&g.x);
}

static void expect_numbers(kiln_tensor *t, int64_t n, const double *want, const char *what)
{
    record.cases++;
    if (!no_error(what) || suite.is_null) return;
    struct host h = host_read(t);
    for (int64_t i = 0; i < n && h.v; i++) near(h.v[i], want[i], 0, what);
    host_free(&h);
}

void conform_det(const char *op)
{
    static const float x[] = {2, 0, 0, 2, 1, 2, 2, 4, 0, 1, 1, 0};
    static const double large[] = {1e200, 0, 0, 0, 1e200, 0, 0, 0, 1e-300};
    for_each(op, check_det);
    expect_square(kiln_det, op);
    expect_numbers(kiln_det(kiln_from_data(suite.dev, KILN_F32, KILN_SHAPE(3, 2, 2), x)), 3, (double[]){4, 0, -1},
                   "det of known matrices");
    expect_numbers(kiln_det(kiln_zeros(suite.dev, KILN_F64, KILN_SHAPE(2, 0, 0))), 2, (double[]){1, 1},
                   "det without rows");
    kiln_tensor *t = kiln_log(kiln_det(kiln_from_data(suite.dev, KILN_F64, KILN_SHAPE(3, 3), large)));
    if (no_error("det of large pivots") && !suite.is_null) {
        struct host h = host_read(t);
        near(h.v[0], 100 * logl(10), 1e-12L, "det of large pivots");
        host_free(&h);
    }
}

static void check_slogdet(const char *op, int dtype, int batch, int size, int layout)
{
    struct given g;
    int64_t n = sizes[size];
    kiln_tensor *sign, *logs;
    give(&g, op, dtype, batch, n, n, layout, MADE_DOMINANT);
    if (kiln_slogdet(kiln_mul(g.t, kiln_scalar(-1)), &sign, &logs)) sign = logs = NULL;
    struct host s = result(sign, dtype, &g, 0, NULL), l = result(logs, dtype, &g, 0, NULL);
    for (int64_t b = 0; s.v && l.v && b < g.count; b++) {
        long double want = determinant(&g.x, b) * (n % 2 ? -1 : 1);
        near(s.v[b], want < 0 ? -1 : 1, 0, g.text);
        near(l.v[b], logl(fabsl(want)), (4 + 4 * (double)n) * unit_of(l.dtype) * (1 + fabsl(logl(fabsl(want)))),
             g.text);
    }
    host_free(&s);
    host_free(&l);
    host_free(&g.x);
}

static kiln_tensor *sign_of(kiln_tensor *x)
{
    kiln_tensor *sign, *logs;
    return kiln_slogdet(x, &sign, &logs) ? NULL : sign;
}

static kiln_tensor *logs_of(kiln_tensor *x)
{
    kiln_tensor *sign, *logs;
    return kiln_slogdet(x, &sign, &logs) ? NULL : logs;
}

void conform_slogdet(const char *op)
{
    kiln_tensor *x = kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(2, 2)),
                *none = kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(0, 0));
    for_each(op, check_slogdet);
    expect_square(sign_of, op);
    expect_numbers(sign_of(x), 1, (double[]){0}, "sign of a singular matrix");
    expect_numbers(logs_of(x), 1, (double[]){-INFINITY}, "logarithm of a singular matrix");
    expect_numbers(sign_of(none), 1, (double[]){1}, "sign of no matrix");
    expect_numbers(logs_of(none), 1, (double[]){0}, "logarithm of no matrix");
}

static void check_order(const struct host *v, int direction, const char *what)
{
    int64_t n = cols_of(v);
    for (int64_t i = 0; i + 1 < v->n; i++)
        if ((i + 1) % n && !((v->v[i + 1] - v->v[i]) * direction >= 0))
            record_mistake("%s: values are not in order", what);
}

static void check_eigh(const char *op, int dtype, int batch, int size, int layout)
{
    struct given g;
    int64_t n = sizes[size];
    kiln_tensor *values, *vectors;
    give(&g, op, dtype, batch, n, n, layout, MADE_SYMMETRIC);
    if (kiln_eigh(g.t, &values, &vectors)) values = vectors = NULL;
    struct host w = result(values, dtype, &g, 1, &n), v = result(vectors, dtype, &g, 2, (int64_t[]){n, n});
    struct host alone = result(kiln_eigvalsh(g.t), dtype, &g, 1, &n);
    if (w.v) check_order(&w, 1, g.text);
    for (int64_t b = 0; w.v && v.v && b < g.count; b++) {
        struct matrix q = {&v, b, false}, t = {&v, b, true}, x = {&g.x, b, false};
        check_product(q, &w, t, &x, 8 + 4 * (double)n, g.text);
        check_orthonormal(q, g.text);
        long double largest = fmaxl(fabsl(w.v[b * n]), fabsl(w.v[b * n + n - 1]));
        for (int64_t i = 0; alone.v && i < n; i++)
            near(alone.v[b * n + i], w.v[b * n + i], (4 + 2 * (double)n) * unit_of(w.dtype) * largest, g.text);
    }
    host_free(&w);
    host_free(&v);
    host_free(&alone);
    host_free(&g.x);
}

static kiln_tensor *vectors_of(kiln_tensor *x)
{
    kiln_tensor *values, *vectors;
    return kiln_eigh(x, &values, &vectors) ? NULL : vectors;
}

void conform_eigh(const char *op)
{
    for_each(op, check_eigh);
    expect_square(vectors_of, op);
    expect_failure(vectors_of, op, second_is_infinite, "matrix 1 of x f32[3,2,2] holds a number that is not finite");
}

void conform_eigvalsh(const char *op)
{
    static const float x[] = {2, 9, 1, 2}; // the lower triangle is read
    expect_square(kiln_eigvalsh, op);
    expect_failure(kiln_eigvalsh, op, second_is_infinite, "matrix 1 of x f32[3,2,2]");
    kiln_tensor *w = kiln_eigvalsh(kiln_from_data(suite.dev, KILN_F32, KILN_SHAPE(2, 2), x));
    record.cases++;
    if (!no_error(op) || suite.is_null) return;
    struct host h = host_read(w);
    near(h.v[0], 1, 1e-6L, op);
    near(h.v[1], 3, 1e-6L, op);
    host_free(&h);
}

static void check_svd_shape(const char *op, int dtype, int batch, int64_t m, int64_t n, int layout, bool full)
{
    struct given g;
    kiln_tensor *tu, *ts, *tvh;
    give(&g, op, dtype, batch, m, n, layout, MADE_RANDOM);
    if (kiln_svd(g.t, full, &tu, &ts, &tvh)) tu = ts = tvh = NULL;
    int64_t k = g.k;
    struct host u = result(tu, dtype, &g, 2, (int64_t[]){m, full ? m : k}), s = result(ts, dtype, &g, 1, &k);
    struct host vh = result(tvh, dtype, &g, 2, (int64_t[]){full ? n : k, n});
    struct host alone = result(kiln_svdvals(g.t), dtype, &g, 1, &k);
    if (s.v && k) check_order(&s, -1, g.text);
    for (int64_t b = 0; u.v && s.v && vh.v && b < g.count; b++) {
        struct matrix p = {&u, b, false}, q = {&vh, b, false}, x = {&g.x, b, false};
        if (m) check_orthonormal(p, g.text);
        if (n) check_orthonormal((struct matrix){&vh, b, true}, g.text);
        if (!k) continue;
        check_product(p, &s, q, &x, 8 + 4 * (double)(m + n), g.text);
        for (int64_t i = 0; alone.v && i < k; i++)
            near(alone.v[b * k + i], s.v[b * k + i], (4 + (double)(m + n)) * unit_of(s.dtype) * s.v[b * k], g.text);
    }
    host_free(&u);
    host_free(&s);
    host_free(&vh);
    host_free(&alone);
    host_free(&g.x);
}

static void check_svd(const char *op, int dtype, int batch, int size, int layout)
{
    int64_t n = sizes[size];
    check_svd_shape(op, dtype, batch, n, n, layout, false);
    check_svd_shape(op, dtype, batch, n + 3, n, layout, false);
    check_svd_shape(op, dtype, batch, n, n + 2, layout, false);
    check_svd_shape(op, dtype, batch, n, n, layout, true);
}

static kiln_tensor *left_of(kiln_tensor *x)
{
    kiln_tensor *u, *s, *vh;
    return kiln_svd(x, false, &u, &s, &vh) ? NULL : u;
}

void conform_svd(const char *op)
{
    for_each(op, check_svd);
    kiln_tensor *u, *s, *vh;
    kiln_scope *scope = kiln_scope_begin();
    for (int64_t m = 0; m < 6; m += 5) { // full: the other vectors are orthonormal, too
        struct given g;
        give(&g, op, KILN_F64, 1, m, 3, LAYOUT_CONTIGUOUS, MADE_RANDOM);
        if (kiln_svd(g.t, true, &u, &s, &vh)) u = vh = NULL;
        struct host hu = result(u, KILN_F64, &g, 2, (int64_t[]){m, m}),
                    hv = result(vh, KILN_F64, &g, 2, (int64_t[]){3, 3});
        for (int64_t b = 0; hu.v && hv.v && b < g.count; b++) {
            if (m) check_orthonormal((struct matrix){&hu, b, false}, g.text);
            check_orthonormal((struct matrix){&hv, b, false}, g.text);
        }
        host_free(&hu);
        host_free(&hv);
        host_free(&g.x);
    }
    kiln_scope_end(&scope);
    left_of(kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(3)));
    expect_error(KILN_E_SHAPE, op, "a vector");
    expect_failure(left_of, op, second_is_infinite, "matrix 1 of x f32[3,2,2] holds a number that is not finite");
}

void conform_svdvals(const char *op)
{
    static const float x[] = {0, 3, 0, -4, 0, 0};
    kiln_tensor *s = kiln_svdvals(kiln_from_data(suite.dev, KILN_F32, KILN_SHAPE(2, 3), x));
    record.cases++;
    if (no_error(op) && !suite.is_null) {
        struct host h = host_read(s);
        near(h.v[0], 4, 1e-6L, op);
        near(h.v[1], 3, 1e-6L, op);
        host_free(&h);
    }
    expect_failure(kiln_svdvals, op, second_is_infinite, "matrix 1 of x f32[3,2,2]");
}

static void check_qr_shape(const char *op, int dtype, int batch, int64_t m, int64_t n, int layout, bool complete)
{
    struct given g;
    kiln_tensor *tq, *tr;
    give(&g, op, dtype, batch, m, n, layout, MADE_RANDOM);
    if (kiln_qr(g.t, complete, &tq, &tr)) tq = tr = NULL;
    int64_t k = complete ? m : g.k;
    struct host q = result(tq, dtype, &g, 2, (int64_t[]){m, k}), r = result(tr, dtype, &g, 2, (int64_t[]){k, n});
    for (int64_t b = 0; q.v && r.v && b < g.count; b++) {
        struct matrix p = {&q, b, false}, t = {&r, b, false}, x = {&g.x, b, false};
        if (m && k) check_orthonormal(p, g.text);
        if (g.k) check_product(p, NULL, t, &x, 8 + 4 * (double)(m + n), g.text);
        for (int64_t i = 0; i < k; i++)
            for (int64_t j = 0; j < i && j < n; j++)
                if (at(t, i, j) != 0) record_mistake("%s: r is not triangular", g.text);
    }
    host_free(&q);
    host_free(&r);
    host_free(&g.x);
}

static void check_qr(const char *op, int dtype, int batch, int size, int layout)
{
    int64_t n = sizes[size];
    check_qr_shape(op, dtype, batch, n, n, layout, false);
    check_qr_shape(op, dtype, batch, n + 3, n, layout, false);
    check_qr_shape(op, dtype, batch, n, n + 2, layout, false);
    check_qr_shape(op, dtype, batch, n + 2, n, layout, true);
    check_qr_shape(op, dtype, batch, n, n + 2, layout, true);
}

static kiln_tensor *first_factor(kiln_tensor *x)
{
    kiln_tensor *q, *r;
    return kiln_qr(x, false, &q, &r) ? NULL : q;
}

void conform_qr(const char *op)
{
    for_each(op, check_qr);
    check_qr_shape(op, KILN_F32, 1, 3, 0, LAYOUT_CONTIGUOUS, true);
    check_qr_shape(op, KILN_F32, 1, 3, 0, LAYOUT_CONTIGUOUS, false);
    check_qr_shape(op, KILN_F32, 1, 0, 3, LAYOUT_CONTIGUOUS, true);
    first_factor(kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(3)));
    expect_error(KILN_E_SHAPE, op, "a vector");
}

// p has one 1 in each row and column; the rows of x in the order of l u.
static struct host permuted_back(const struct host *p, const struct host *x, int64_t b, const char *what)
{
    int64_t m = rows_of(p), n = cols_of(x);
    struct host y = host_new(x->dtype, 2, (int64_t[]){m, n});
    for (int64_t i = 0; i < m; i++) {
        long double row = 0, col = 0;
        for (int64_t j = 0; j < m; j++) {
            long double v = at((struct matrix){p, b, false}, j, i);
            if (v != 0 && v != 1) record_mistake("%s: p holds %Lg", what, v);
            col += v;
            row += at((struct matrix){p, b, false}, i, j);
            for (int64_t k = 0; v == 1 && k < n; k++) y.v[i * n + k] = at((struct matrix){x, b, false}, j, k);
        }
        if (row != 1 || col != 1) record_mistake("%s: p is no permutation", what);
    }
    return y;
}

static void check_lu_shape(const char *op, int dtype, int batch, int64_t m, int64_t n, int layout)
{
    struct given g;
    kiln_tensor *tp, *tl, *tu;
    give(&g, op, dtype, batch, m, n, layout, MADE_RANDOM);
    if (kiln_lu(g.t, &tp, &tl, &tu)) tp = tl = tu = NULL;
    struct host p = result(tp, dtype, &g, 2, (int64_t[]){m, m}), l = result(tl, dtype, &g, 2, (int64_t[]){m, g.k});
    struct host u = result(tu, dtype, &g, 2, (int64_t[]){g.k, n});
    for (int64_t b = 0; p.v && l.v && u.v && b < g.count; b++) {
        struct matrix lower = {&l, b, false}, upper = {&u, b, false};
        struct host y = permuted_back(&p, &g.x, b, g.text);
        if (g.k) check_product(lower, NULL, upper, &(struct matrix){&y, 0, false}, 4 + 2 * (double)g.k, g.text);
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < g.k; j++)
                if (i > j ? !(fabsl(at(lower, i, j)) <= 1) : at(lower, i, j) != (i == j))
                    record_mistake("%s: element [%d, %d] of l is %Lg", g.text, (int)i, (int)j, at(lower, i, j));
        for (int64_t i = 0; i < g.k; i++)
            for (int64_t j = 0; j < i && j < n; j++)
                if (at(upper, i, j) != 0) record_mistake("%s: u is not triangular", g.text);
        host_free(&y);
    }
    host_free(&p);
    host_free(&l);
    host_free(&u);
    host_free(&g.x);
}

static void check_lu(const char *op, int dtype, int batch, int size, int layout)
{
    int64_t n = sizes[size];
    check_lu_shape(op, dtype, batch, n, n, layout);
    check_lu_shape(op, dtype, batch, n + 3, n, layout);
    check_lu_shape(op, dtype, batch, n, n + 2, layout);
}

void conform_lu(const char *op)
{
    kiln_tensor *p, *l, *u;
    for_each(op, check_lu);
    check_lu_shape(op, KILN_F32, 1, 3, 0, LAYOUT_CONTIGUOUS);
    check_lu_shape(op, KILN_F32, 1, 0, 3, LAYOUT_CONTIGUOUS);
    kiln_lu(kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(3)), &p, &l, &u);
    expect_error(KILN_E_SHAPE, op, "a vector");
    record.cases++;
    if (!kiln_lu(kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(2, 2)), &p, &l, &u) && !suite.is_null) {
        struct host h = host_read(u); // singular, and no error
        near(h.v[3], 0, 0, op);
        host_free(&h);
    }
    no_error(op);
}

// x v = w v, v of length 1, but for so many units of rounding of the sums of sizes.
static void check_eigenvector(struct matrix x, const struct host *w, const struct host *v, int64_t j, const char *what)
{
    int64_t n = width(x);
    struct matrix re = {&v[0], x.b, false}, im = {&v[1], x.b, false};
    long double wr = w[0].v[x.b * n + j], wi = w[1].v[x.b * n + j], length = 0, all = 0;
    for (int64_t i = 0; i < n * n; i++) all += fabsl(at(x, i / n, i % n));
    long double bound = (8 + 4 * (long double)n) * unit_of(w->dtype) * (all + 1e-30L);
    record.values++;
    for (int64_t i = 0; i < n; i++) {
        long double left_re = -(wr * at(re, i, j) - wi * at(im, i, j));
        long double left_im = -(wr * at(im, i, j) + wi * at(re, i, j));
        for (int64_t k = 0; k < n; k++) left_re += at(x, i, k) * at(re, k, j), left_im += at(x, i, k) * at(im, k, j);
        length += at(re, i, j) * at(re, i, j) + at(im, i, j) * at(im, i, j);
        if (!(fabsl(left_re) <= bound && fabsl(left_im) <= bound))
            record_mistake("%s: x v - w v is %Lg %+Lg i in row %d of vector %d", what, left_re, left_im, (int)i,
                           (int)j);
    }
    near(length, 1, (8 + 4 * (long double)n) * unit_of(w->dtype), what);
}

// The sums of the values and of their squares are the traces of x and of its square.
static void check_traces(struct matrix x, const struct host *w, const char *what)
{
    int64_t n = width(x);
    long double trace = 0, of_square = 0, all = 0, sum = 0, im = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) {
        long double wr = w[0].v[x.b * n + i], wi = w[1].v[x.b * n + i];
        trace += at(x, i, i);
        sum += wr;
        im += wi;
        squares += wr * wr - wi * wi;
        for (int64_t j = 0; j < n; j++) of_square += at(x, i, j) * at(x, j, i), all += fabsl(at(x, i, j));
    }
    long double bound = (8 + 4 * (long double)n) * unit_of(w->dtype) * (all + 1e-30L);
    near(sum, trace, bound, what);
    near(im, 0, bound, what);
    near(squares, of_square, bound * all * 2, what);
}

static void check_eig(const char *op, int dtype, int batch, int size, int layout)
{
    struct given g;
    int64_t n = sizes[size];
    kiln_tensor *t[4] = {NULL}, *alone[2] = {NULL};
    struct host w[2], v[2], values[2];
    give(&g, op, dtype, batch, n, n, layout, MADE_RANDOM);
    kiln_eig_parts(g.t, &t[0], &t[1], &t[2], &t[3]);
    for (int i = 0; i < 2; i++) {
        w[i] = result(t[i], dtype, &g, 1, &n);
        v[i] = result(t[2 + i], dtype, &g, 2, (int64_t[]){n, n});
    }
    kiln_eigvals_parts(g.t, &alone[0], &alone[1]);
    for (int i = 0; i < 2; i++) values[i] = result(alone[i], dtype, &g, 1, &n);
    for (int64_t b = 0; w[0].v && w[1].v && v[0].v && v[1].v && values[0].v && values[1].v && b < g.count; b++) {
        struct matrix x = {&g.x, b, false};
        check_traces(x, w, g.text);
        check_traces(x, values, g.text);
        for (int64_t j = 0; j < n; j++) check_eigenvector(x, w, v, j, g.text);
    }
    for (int i = 0; i < 2; i++) {
        host_free(&w[i]);
        host_free(&v[i]);
        host_free(&values[i]);
    }
    host_free(&g.x);
}

static kiln_tensor *real_vectors_of(kiln_tensor *x)
{
    kiln_tensor *t[4];
    return kiln_eig_parts(x, &t[0], &t[1], &t[2], &t[3]) ? NULL : t[2];
}

void conform_eig_parts(const char *op)
{
    for_each(op, check_eig);
    expect_square(real_vectors_of, op);
    expect_failure(real_vectors_of, op, second_is_infinite,
                   "matrix 1 of x f32[3,2,2] holds a number that is not finite");
}

static kiln_tensor *real_values_of(kiln_tensor *x)
{
    kiln_tensor *re, *im;
    return kiln_eigvals_parts(x, &re, &im) ? NULL : re;
}

void conform_eigvals_parts(const char *op)
{
    static const float x[] = {1, -2, 2, 1}; // 1 + 2 i and 1 - 2 i
    kiln_tensor *re = NULL, *im = NULL;
    expect_square(real_values_of, op);
    expect_failure(real_values_of, op, second_is_infinite, "matrix 1 of x f32[3,2,2]");
    kiln_eigvals_parts(kiln_from_data(suite.dev, KILN_F32, KILN_SHAPE(2, 2), x), &re, &im);
    record.cases++;
    if (!no_error(op) || suite.is_null) return;
    struct host h = host_read(re), k = host_read(im);
    for (int i = 0; i < 2; i++) {
        near(h.v[i], 1, 1e-6L, op);
        near(k.v[i], i ? -2 : 2, 1e-6L, op);
    }
    host_free(&h);
    host_free(&k);
}
