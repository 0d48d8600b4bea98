// Triangular factors, solutions, inverses and determinants: what they multiply to, in long double. Determinants are
// compared with an elimination here.
#include "linalg.h"

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
