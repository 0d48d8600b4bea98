// What follows from factorisations of matrices: pseudo-inverses, ranks, norms, powers, the exponential.
#include "compose/complex.h"
#include "compose/composite.h"
#include <math.h>
#include <string.h>

static bool takes_matrices(const char *argument, const kiln_tensor *t, bool square)
{
    if (kiln_rank(t) >= 2 && !(square && kiln_dim(t, -1) != kiln_dim(t, -2))) return true;
    error_set(KILN_E_SHAPE, "%s must be %smatrices, it is %s", argument, square ? "square " : "", type_of(t).s);
    return false;
}

static bool is_float(kiln_dtype d)
{
    return d >= KILN_F16 && d <= KILN_F64;
}

static kiln_tensor *transposed(kiln_tensor *t)
{
    return kiln_transpose(t, -2, -1);
}

static kiln_tensor *number(double v)
{
    return kiln_scalar(v);
}

// --- eigenvalues

static bool takes_real(kiln_tensor *x)
{
    if (!takes_matrices("x", x, true)) return false;
    if (!is_complex(x)) return true;
    error_set(KILN_E_DTYPE, "takes real matrices, x is %s", type_of(x).s);
    return false;
}

// Of which there are complex numbers.
static kiln_tensor *wide(kiln_tensor *x)
{
    kiln_dtype d = kiln_tensor_dtype(x);
    return d == KILN_F64 || d == KILN_F32 ? x : kiln_cast(x, KILN_F32);
}

kiln_status compose_eig(kiln_tensor *x, kiln_tensor **values, kiln_tensor **vectors)
{
    kiln_tensor *w[2], *v[2];
    if (!takes_real(x)) return kiln_error();
    if (kiln_eig_parts(wide(x), &w[0], &w[1], &v[0], &v[1])) return kiln_error();
    *values = kiln_complex(w[0], w[1]);
    *vectors = kiln_complex(v[0], v[1]);
    return kiln_error();
}

kiln_tensor *compose_eigvals(kiln_tensor *x)
{
    kiln_tensor *w[2];
    if (!takes_real(x) || kiln_eigvals_parts(wide(x), &w[0], &w[1])) return NULL;
    return kiln_complex(w[0], w[1]);
}

// --- by singular values

static double precision(kiln_dtype d)
{
    return d == KILN_F64 ? 0x1p-52 : d == KILN_F16 ? 0x1p-10 : d == KILN_BF16 ? 0x1p-7 : 0x1p-23;
}

// Which singular values [..., K] count; the first is the largest.
static kiln_tensor *that_count(kiln_tensor *s, double rtol, const kiln_tensor *x)
{
    int64_t m = kiln_dim(x, -2), n = kiln_dim(x, -1);
    if (rtol == 0) rtol = precision(kiln_tensor_dtype(s)) * (double)(m > n ? m : n);
    return kiln_greater(s, kiln_mul(kiln_narrow(s, -1, 0, 1), number(rtol)));
}

static bool takes_tolerance(double rtol)
{
    if (rtol >= 0) return true;
    error_set(KILN_E_ARGUMENT, "rtol is %g, below 0 or no number", rtol);
    return false;
}

static kiln_tensor *pseudo_inverse(const char *argument, kiln_tensor *x, double rtol)
{
    kiln_tensor *u, *s, *vh;
    if (!takes_matrices(argument, x, false) || !takes_tolerance(rtol)) return NULL;
    if (kiln_svd(x, false, &u, &s, &vh)) return NULL;
    if (kiln_dim(s, -1) == 0) return kiln_matmul(transposed(vh), transposed(u));
    kiln_tensor *counts = that_count(s, rtol, x);
    kiln_tensor *inverse = kiln_where(counts, kiln_reciprocal(kiln_where(counts, s, number(1))), number(0));
    return kiln_matmul(kiln_mul(transposed(vh), kiln_unsqueeze(inverse, -2)), transposed(u));
}

kiln_tensor *compose_pinv(kiln_tensor *x, double rtol)
{
    return pseudo_inverse("x", x, rtol);
}

kiln_tensor *compose_lstsq(kiln_tensor *a, kiln_tensor *b, double rtol)
{
    if (takes_matrices("a", a, false) &&
        (kiln_rank(b) == 0 || kiln_dim(b, kiln_rank(b) == 1 ? 0 : -2) != kiln_dim(a, -2))) {
        error_set(KILN_E_SHAPE, "b must have the rows of a: a is %s, b is %s", type_of(a).s, type_of(b).s);
        return NULL;
    }
    kiln_tensor *inverse = pseudo_inverse("a", a, rtol);
    return kiln_matmul(inverse, b);
}

kiln_tensor *compose_matrix_rank(kiln_tensor *x, double rtol)
{
    if (!takes_matrices("x", x, false) || !takes_tolerance(rtol)) return NULL;
    kiln_tensor *s = kiln_svdvals(x);
    const kiln_reduce_opts *last = KILN_REDUCE(.axes = KILN_AXES(-1));
    if (kiln_dim(s, -1) == 0) return kiln_cast(kiln_sum(s, last), KILN_I64);
    return kiln_sum(that_count(s, rtol, x), last);
}

// --- norms

// Of sums of sizes along `axis` of matrices the largest or the smallest.
static kiln_tensor *extreme_sum(kiln_tensor *x, int axis, bool least)
{
    kiln_tensor *sums = kiln_norm(x, KILN_NORM(.axes = KILN_AXES(axis), .ord = 1));
    const kiln_reduce_opts *last = KILN_REDUCE(.axes = KILN_AXES(-1));
    return least ? kiln_min(sums, last) : kiln_max(sums, last);
}

static kiln_tensor *norm(kiln_tensor *x, const char *ord)
{
    bool least = ord[0] == '-';
    const char *kind = ord + least;
    if (!takes_matrices("x", x, false)) return NULL;
    if (!strcmp(ord, "fro")) return kiln_norm(x, KILN_NORM(.axes = KILN_AXES(-2, -1)));
    if (!strcmp(ord, "nuc")) return kiln_sum(kiln_svdvals(x), KILN_REDUCE(.axes = KILN_AXES(-1)));
    if (!strcmp(kind, "1")) return extreme_sum(x, -2, least);
    if (!strcmp(kind, "inf")) return extreme_sum(x, -1, least);
    if (!strcmp(kind, "2") && kiln_dim(x, -1) && kiln_dim(x, -2))
        return kiln_select(kiln_svdvals(x), -1, least ? -1 : 0);
    if (!strcmp(kind, "2"))
        error_set(KILN_E_SHAPE, "has no value of no singular values: x is %s", type_of(x).s);
    else
        error_set(KILN_E_ARGUMENT, "ord \"%.40s\" is none of fro, nuc, 1, -1, 2, -2, inf, -inf", ord);
    return NULL;
}

kiln_tensor *compose_matrix_norm(kiln_tensor *x, const char *ord)
{
    return norm(x, ord);
}

kiln_tensor *compose_matrix_cond(kiln_tensor *x, const char *ord)
{
    bool least = !strcmp(ord, "-2");
    if (least || !strcmp(ord, "2")) {
        if (!norm(x, ord)) return NULL;
        kiln_tensor *s = kiln_svdvals(x);
        return kiln_div(kiln_select(s, -1, least ? -1 : 0), kiln_select(s, -1, least ? 0 : -1));
    }
    if (!takes_matrices("x", x, true)) return NULL;
    kiln_tensor *size = norm(x, ord);
    return kiln_mul(size, norm(kiln_inv(x), ord));
}

// --- powers

static kiln_tensor *identity(const kiln_tensor *x)
{
    kiln_tensor *one = kiln_eye(kiln_tensor_device(x), kiln_tensor_dtype(x), kiln_dim(x, -1), kiln_dim(x, -1));
    return kiln_expand(one, kiln_rank(x), kiln_dims(x));
}

kiln_tensor *compose_matrix_power(kiln_tensor *x, int64_t n)
{
    kiln_tensor *result = NULL, *square = n < 0 ? NULL : x;
    if (!takes_matrices("x", x, true)) return NULL;
    if (n == 0) return kiln_contiguous(identity(x));
    if (n == 1) return kiln_alias(x);
    if (n < 0) square = kiln_inv(x);
    for (uint64_t left = n < 0 ? 0 - (uint64_t)n : (uint64_t)n; left && !error_pending; left /= 2) {
        if (left % 2) result = result ? kiln_matmul(result, square) : square;
        if (left > 1) square = kiln_matmul(square, square);
    }
    return result;
}

// The numerator of the approximant is V + U, its denominator V - U, U the odd powers: coefficients over the last.
static const double pade[14] = {64764752532480000,
                                32382376266240000,
                                7771770303897600,
                                1187353796428800,
                                129060195264000,
                                10559470521600,
                                670442572800,
                                33522128640,
                                1323241920,
                                40840800,
                                960960,
                                16380,
                                182,
                                1};

static kiln_tensor *term(kiln_tensor *t, int k)
{
    return kiln_mul(t, number(pade[k] / pade[0]));
}

static kiln_tensor *sum3(kiln_tensor *a, kiln_tensor *b, kiln_tensor *c)
{
    return kiln_add(kiln_add(a, b), c);
}

static kiln_tensor *approximant(kiln_tensor *x)
{
    kiln_tensor *one = identity(x), *x2 = kiln_matmul(x, x), *x4 = kiln_matmul(x2, x2), *x6 = kiln_matmul(x2, x4);
    kiln_tensor *u = kiln_matmul(x6, sum3(term(x6, 13), term(x4, 11), term(x2, 9)));
    u = kiln_add(u, kiln_add(sum3(term(x6, 7), term(x4, 5), term(x2, 3)), term(one, 1)));
    u = kiln_matmul(x, u);
    kiln_tensor *v = kiln_matmul(x6, sum3(term(x6, 12), term(x4, 10), term(x2, 8)));
    v = kiln_add(v, kiln_add(sum3(term(x6, 6), term(x4, 4), term(x2, 2)), one));
    return kiln_solve(kiln_sub(v, u), kiln_add(v, u));
}

enum { SQUARINGS = 16 };

// How many squarings each matrix takes: [..., 1, 1], so that a norm up to 5.37 is left.
static kiln_tensor *squarings_of(kiln_tensor *x)
{
    kiln_tensor *size = kiln_unsqueeze(kiln_unsqueeze(extreme_sum(x, -2, false), -1), -1);
    kiln_tensor *count = kiln_ceil(kiln_log2(kiln_maximum(kiln_mul(size, number(1 / 5.37)), number(1))));
    return kiln_stop_gradient(kiln_minimum(count, number(SQUARINGS)));
}

kiln_tensor *compose_matrix_exp(kiln_tensor *x)
{
    kiln_dtype given = kiln_tensor_dtype(x), dtype = given == KILN_F64 ? KILN_F64 : KILN_F32;
    if (!takes_matrices("x", x, true)) return NULL;
    if (kiln_numel(x) == 0) return is_float(given) ? kiln_contiguous(x) : kiln_cast(x, dtype);
    if (given != dtype) x = kiln_cast(x, dtype);
    kiln_tensor *count = squarings_of(x);
    kiln_tensor *power = approximant(kiln_mul(x, kiln_exp2(kiln_neg(count))));
    for (int i = 0; i < SQUARINGS && !error_pending; i++)
        power = kiln_where(kiln_greater(count, number(i)), kiln_matmul(power, power), power);
    return is_float(given) && given != dtype ? kiln_cast(power, given) : power;
}
