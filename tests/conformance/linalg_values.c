// Orthogonal factors, singular values and eigenvalues, pivoted factors: what they multiply to, in long double, and what
// defines each factor. Nothing is compared with another factorisation.
#include "linalg.h"

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
