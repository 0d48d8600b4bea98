// Factorisations of matrices. Sources: M. B. Giles, "An extended collection of matrix derivative results for forward
// and reverse mode algorithmic differentiation" (2008); I. Murray, "Differentiation of the Cholesky decomposition"
// (2016); J. Townsend, "Differentiating the singular value decomposition" (2016); Roberts and Roberts, "QR and LQ
// decomposition matrix backpropagation algorithms for square, wide, and deep matrices" (2020). A bar is d: dx of x.
#include "base/base.h"
#include "grad/rules/rules.h"

static kiln_tensor *transposed(kiln_tensor *t)
{
    return kiln_transpose(t, -2, -1);
}

static kiln_tensor *product(kiln_tensor *a, kiln_tensor *b, kiln_tensor *c)
{
    return kiln_matmul(kiln_matmul(a, b), c);
}

static kiln_tensor *halved(kiln_tensor *t)
{
    return kiln_mul(t, kiln_scalar(0.5));
}

static kiln_tensor *symmetric(kiln_tensor *t)
{
    return halved(kiln_add(t, transposed(t)));
}

static kiln_tensor *identity_like(kiln_tensor *t)
{
    return kiln_eye(kiln_tensor_device(t), kiln_tensor_dtype(t), kiln_dim(t, -1), kiln_dim(t, -1));
}

// a diag(v) and diag(v) a.
static kiln_tensor *scaled_columns(kiln_tensor *a, kiln_tensor *v)
{
    return kiln_mul(a, kiln_unsqueeze(v, -2));
}

static kiln_tensor *scaled_rows(kiln_tensor *v, kiln_tensor *a)
{
    return kiln_mul(kiln_unsqueeze(v, -1), a);
}

// Of L: S = L^-T P L^-1, P the lower triangle of L^T dL with half of its diagonal; dx is the symmetric part of S.
RULE(cholesky)
{
    bool upper = kiln_rule_int("upper") != 0;
    kiln_tensor *l = upper ? transposed(out[0]) : out[0], *dl = upper ? transposed(dout[0]) : dout[0];
    kiln_tensor *p = kiln_matmul(transposed(l), dl);
    p = halved(kiln_add(kiln_tril(p, 0), kiln_tril(p, -1)));
    kiln_tensor *y = kiln_solve_triangular(l, p, false, true, false);
    kiln_tensor *s = kiln_solve_triangular(l, transposed(y), false, true, false);
    din[0] = symmetric(s);
    return kiln_error();
}

// The columns of a vector's result as matrices.
static kiln_tensor *as_columns(kiln_tensor *t)
{
    return kiln_rule_in_shape(1, NULL) == 1 ? kiln_unsqueeze(t, -1) : t;
}

static kiln_tensor *as_given(kiln_tensor *t)
{
    return kiln_rule_in_shape(1, NULL) == 1 ? kiln_squeeze(t, KILN_AXES(-1)) : t;
}

RULE(solve)
{
    kiln_tensor *db = kiln_solve(transposed(in[0]), as_columns(dout[0]));
    if (kiln_rule_wants(0)) din[0] = kiln_neg(kiln_matmul(db, transposed(as_columns(out[0]))));
    if (kiln_rule_wants(1)) din[1] = as_given(db);
    return kiln_error();
}

RULE(solve_triangular)
{
    bool upper = kiln_rule_int("upper") != 0, turned = kiln_rule_int("transposed") != 0;
    bool unit = kiln_rule_int("unit") != 0;
    kiln_tensor *db = kiln_solve_triangular(in[0], as_columns(dout[0]), upper, !turned, unit);
    kiln_tensor *y = as_columns(out[0]);
    if (kiln_rule_wants(0)) {
        kiln_tensor *da = kiln_neg(turned ? kiln_matmul(y, transposed(db)) : kiln_matmul(db, transposed(y)));
        din[0] = upper ? kiln_triu(da, unit) : kiln_tril(da, unit ? -1 : 0);
    }
    if (kiln_rule_wants(1)) din[1] = as_given(db);
    return kiln_error();
}

RULE(inv)
{
    kiln_tensor *t = transposed(out[0]);
    din[0] = kiln_neg(product(t, dout[0], t));
    return kiln_error();
}

static kiln_tensor *scalars_by(kiln_tensor *v, kiln_tensor *matrices)
{
    return kiln_mul(kiln_unsqueeze(kiln_unsqueeze(v, -1), -1), matrices);
}

RULE(det)
{
    din[0] = scalars_by(kiln_mul(dout[0], out[0]), transposed(kiln_inv(in[0])));
    return kiln_error();
}

RULE(slogdet)
{
    din[0] = scalars_by(dout[1], transposed(kiln_inv(in[0])));
    return kiln_error();
}

// 1 / (v[j] - v[i]) at i, j, and 0 on the diagonal.
static kiln_tensor *gaps(kiln_tensor *v)
{
    kiln_tensor *difference = kiln_sub(kiln_unsqueeze(v, -2), kiln_unsqueeze(v, -1)), *one = identity_like(difference);
    return kiln_sub(kiln_reciprocal(kiln_add(difference, one)), one);
}

// V (diag(dw) + F * (V^T dV)) V^T.
RULE(eigh)
{
    kiln_tensor *v = out[1], *vt = transposed(v);
    kiln_tensor *turn = kiln_mul(gaps(out[0]), kiln_matmul(vt, dout[1]));
    din[0] = symmetric(product(v, kiln_add(turn, scaled_rows(dout[0], identity_like(v))), vt));
    return kiln_error();
}

RULE(eigvalsh)
{
    kiln_tensor *w, *v;
    if (kiln_eigh(in[0], &w, &v)) return kiln_error();
    din[0] = kiln_matmul(scaled_columns(v, dout[0]), transposed(v));
    return kiln_error();
}

// What of t is not spanned by the orthonormal columns of q.
static kiln_tensor *beside(kiln_tensor *q, kiln_tensor *t)
{
    return kiln_sub(t, kiln_matmul(q, kiln_matmul(transposed(q), t)));
}

// U ((F * (U^T dU - dU^T U)) S + diag(ds) + S (F * (V^T dV - dV^T V))) V^T, F of the squares of s, and the parts of dU
// and dV beside U and V over s.
RULE(svd)
{
    const int64_t *u_dims;
    size_t rank = kiln_rule_out_shape(0, &u_dims);
    int64_t m = u_dims[rank - 2];
    kiln_tensor *u = out[0], *s = out[1], *vh = out[2], *v = transposed(vh), *dv = transposed(dout[2]);
    int64_t n = kiln_dim(vh, -1), k = kiln_dim(s, -1);
    if (kiln_rule_int("full_matrices") && m != n)
        return error_set(KILN_E_GRADIENT, "svd: no gradient of full_matrices of %lld x %lld", (long long)m,
                         (long long)n);
    kiln_tensor *f = gaps(kiln_square(s)), *j = kiln_matmul(transposed(u), dout[0]), *l = kiln_matmul(vh, dv);
    kiln_tensor *inner = scaled_columns(kiln_mul(f, kiln_sub(j, transposed(j))), s);
    inner = kiln_add(inner, scaled_rows(s, kiln_mul(f, kiln_sub(l, transposed(l)))));
    inner = kiln_add(inner, scaled_rows(dout[1], identity_like(inner)));
    kiln_tensor *dx = product(u, inner, vh), *inverse = kiln_reciprocal(s);
    if (m > k) dx = kiln_add(dx, kiln_matmul(scaled_columns(beside(u, dout[0]), inverse), vh));
    if (n > k) dx = kiln_add(dx, kiln_matmul(scaled_columns(u, inverse), transposed(beside(v, dv))));
    din[0] = dx;
    return kiln_error();
}

RULE(svdvals)
{
    kiln_tensor *u, *s, *vh;
    if (kiln_svd(in[0], false, &u, &s, &vh)) return kiln_error();
    din[0] = kiln_matmul(scaled_columns(u, dout[0]), vh);
    return kiln_error();
}

// Of q r with r square: (dQ + Q copyltu(R dR^T - dQ^T Q)) R^-T, copyltu: the lower triangle in place of the upper, too.
static kiln_tensor *square_qr(kiln_tensor *q, kiln_tensor *r, kiln_tensor *dq, kiln_tensor *dr)
{
    kiln_tensor *m = kiln_sub(kiln_matmul(r, transposed(dr)), kiln_matmul(transposed(dq), q));
    m = kiln_add(kiln_tril(m, 0), transposed(kiln_tril(m, -1)));
    kiln_tensor *t = kiln_add(dq, kiln_matmul(q, m));
    return transposed(kiln_solve_triangular(r, transposed(t), true, false, false));
}

// Of wide matrices [X, Y] = Q [U, V]: X = Q U, and Y = Q V adds Y dV^T to dQ.
RULE(qr)
{
    const int64_t *dims;
    size_t rank = kiln_rule_in_shape(0, &dims);
    int64_t m = dims[rank - 2], n = dims[rank - 1];
    kiln_tensor *q = out[0], *r = out[1], *dr = dout[1];
    if (kiln_rule_int("complete") && m > n)
        return error_set(KILN_E_GRADIENT, "qr: no gradient of complete factors of %lld x %lld", (long long)m,
                         (long long)n);
    if (m >= n) {
        din[0] = square_qr(q, r, dout[0], dr);
        return kiln_error();
    }
    kiln_tensor *dv = kiln_narrow(dr, -1, m, n - m), *y = kiln_narrow(in[0], -1, m, n - m);
    kiln_tensor *dq = kiln_add(dout[0], kiln_matmul(y, transposed(dv)));
    kiln_tensor *dx = square_qr(q, kiln_narrow(r, -1, 0, m), dq, kiln_narrow(dr, -1, 0, m));
    din[0] = kiln_concat((kiln_tensor *[]){dx, kiln_matmul(q, dv)}, 2, -1);
    return kiln_error();
}

// l^-T t, l lower triangular with ones on its diagonal; and t u^-T.
static kiln_tensor *under_l(kiln_tensor *l, kiln_tensor *t)
{
    return kiln_solve_triangular(l, t, false, true, true);
}

static kiln_tensor *under_u(kiln_tensor *t, kiln_tensor *u)
{
    return transposed(kiln_solve_triangular(u, transposed(t), true, false, false));
}

// Of square parts: L^-T (tril(L^T dL, -1) + triu(dU U^T)) U^-T. The rows of L below them are A2 U^-1, the columns of U
// beside them L^-1 A2: what comes to these goes on to dA2, and to the square parts.
RULE(lu)
{
    kiln_tensor *p = out[0], *l = out[1], *u = out[2], *dl = dout[1], *du = dout[2];
    int64_t m = kiln_dim(l, -2), k = kiln_dim(l, -1), n = kiln_dim(u, -1);
    kiln_tensor *l1 = kiln_narrow(l, -2, 0, k), *u1 = kiln_narrow(u, -1, 0, k);
    kiln_tensor *lower = kiln_matmul(transposed(l1), kiln_narrow(dl, -2, 0, k));
    kiln_tensor *upper = kiln_matmul(kiln_narrow(du, -1, 0, k), transposed(u1)), *parts[2] = {NULL, NULL};
    if (m > k) {
        kiln_tensor *dl2 = kiln_narrow(dl, -2, k, m - k);
        upper = kiln_sub(upper, kiln_matmul(transposed(kiln_narrow(l, -2, k, m - k)), dl2));
        parts[1] = under_u(dl2, u1);
    } else if (n > k) {
        kiln_tensor *du2 = kiln_narrow(du, -1, k, n - k);
        lower = kiln_sub(lower, kiln_matmul(du2, transposed(kiln_narrow(u, -1, k, n - k))));
        parts[1] = under_l(l1, du2);
    }
    parts[0] = under_u(under_l(l1, kiln_add(kiln_tril(lower, -1), kiln_triu(upper, 0))), u1);
    din[0] = kiln_matmul(p, parts[1] ? kiln_concat(parts, 2, m > k ? -2 : -1) : parts[0]);
    return kiln_error();
}

// --- complex matrices as parts

struct parts {
    kiln_tensor *re, *im;
};

static struct parts conjugate_transposed(struct parts a)
{
    return (struct parts){transposed(a.re), kiln_neg(transposed(a.im))};
}

static struct parts parts_product(struct parts a, struct parts b)
{
    return (struct parts){kiln_sub(kiln_matmul(a.re, b.re), kiln_matmul(a.im, b.im)),
                          kiln_add(kiln_matmul(a.re, b.im), kiln_matmul(a.im, b.re))};
}

// The real part of a^-1 b, of the system [re, -im; im, re].
static kiln_tensor *real_solution(struct parts a, struct parts b)
{
    kiln_tensor *rows[2] = {kiln_concat((kiln_tensor *[]){a.re, kiln_neg(a.im)}, 2, -1),
                            kiln_concat((kiln_tensor *[]){a.im, a.re}, 2, -1)};
    kiln_tensor *x = kiln_solve(kiln_concat(rows, 2, -2), kiln_concat((kiln_tensor *[]){b.re, b.im}, 2, -2));
    return kiln_narrow(x, -2, 0, kiln_dim(a.re, -1));
}

static struct parts on_diagonal(kiln_tensor *re, kiln_tensor *im)
{
    kiln_tensor *one = kiln_eye(kiln_tensor_device(re), kiln_tensor_dtype(re), kiln_dim(re, -1), kiln_dim(re, -1));
    return (struct parts){scaled_rows(re, one), scaled_rows(im, one)};
}

// Re(V^-H t V^H).
static kiln_tensor *turned_back(struct parts v, struct parts t)
{
    struct parts vh = conjugate_transposed(v);
    return real_solution(vh, parts_product(t, vh));
}

// V^-H (diag(dw) + (V^H dV - V^H V diag(Re(V^H dV))) / conj(E)) V^H, E the gaps w[j] - w[i], for vectors of length 1
// whose phase does not count: M. B. Giles, and C. Boeddeker et al., "On the computation of complex-valued gradients
// with application to statistically optimum beamforming" (2017).
RULE(eig_parts)
{
    struct parts v = {out[2], out[3]}, dv = {dout[2], dout[3]}, vh = conjugate_transposed(v);
    kiln_tensor *one = identity_like(v.re);
    struct parts m = parts_product(vh, dv), square = parts_product(vh, v), e;
    kiln_tensor *along = kiln_sum(kiln_mul(m.re, one), KILN_REDUCE(.axes = KILN_AXES(-2)));
    m.re = kiln_sub(m.re, scaled_columns(square.re, along));
    m.im = kiln_sub(m.im, scaled_columns(square.im, along));
    e.re = kiln_sub(kiln_unsqueeze(out[0], -2), kiln_unsqueeze(out[0], -1));
    e.im = kiln_sub(kiln_unsqueeze(out[1], -2), kiln_unsqueeze(out[1], -1));
    kiln_tensor *size = kiln_add(kiln_add(kiln_square(e.re), kiln_square(e.im)), one);
    struct parts t = on_diagonal(dout[0], dout[1]); // m / conj(e) = m e / |e|^2; e is 0 on the diagonal
    t.re = kiln_add(t.re, kiln_div(kiln_sub(kiln_mul(m.re, e.re), kiln_mul(m.im, e.im)), size));
    t.im = kiln_add(t.im, kiln_div(kiln_add(kiln_mul(m.re, e.im), kiln_mul(m.im, e.re)), size));
    din[0] = turned_back(v, t);
    return kiln_error();
}

RULE(eigvals_parts)
{
    kiln_tensor *re, *im;
    struct parts v;
    if (kiln_eig_parts(in[0], &re, &im, &v.re, &v.im)) return kiln_error();
    din[0] = turned_back(v, on_diagonal(dout[0], dout[1]));
    return kiln_error();
}

#define X     .needs_in = 1 << 0
#define Y     .needs_out = 1 << 0
#define ALL_Y .needs_out = 7
static const kiln_rule_spec rules[] = {
    {.op = "cholesky", .fn = cholesky, Y},
    {.op = "solve", .fn = solve, X, Y},
    {.op = "solve_triangular", .fn = solve_triangular, X, Y},
    {.op = "inv", .fn = inv, Y},
    {.op = "det", .fn = det, X, Y},
    {.op = "slogdet", .fn = slogdet, X},
    {.op = "eigh", .fn = eigh, .needs_out = 3},
    {.op = "eigvalsh", .fn = eigvalsh, X},
    {.op = "lu", .fn = lu, ALL_Y},
    {.op = "eig_parts", .fn = eig_parts, .needs_out = 15},
    {.op = "eigvals_parts", .fn = eigvals_parts, X},
    {.op = "svd", .fn = svd, ALL_Y},
    {.op = "svdvals", .fn = svdvals, X},
    {.op = "qr", .fn = qr, X, .needs_out = 3},
};
RULES(linalg, rules);
