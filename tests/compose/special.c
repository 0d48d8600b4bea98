// Special functions against long double.
#include "compose/case.h"
#include "compose/exact.h"

// 16-bit floats are rounded at each step.
#define HALVES (1 << 18)

#define ELEMENTS(name, call_expr, formula)                                      \
    static void call_##name(kiln_tensor *const *in, kiln_tensor **out)          \
    {                                                                           \
        out[0] = call_expr;                                                     \
    }                                                                           \
    static void expect_##name(const struct host *in, struct host *out)          \
    {                                                                           \
        out[0] = host_new(in[0].dtype, in[0].rank, in[0].dims);                 \
        for (int64_t i = 0; i < in[0].n; i++) {                                 \
            long double x = in[0].v[i], b = in[1].v ? in[1].v[i % in[1].n] : 0; \
            (void)b;                                                            \
            out[0].v[i] = formula;                                              \
        }                                                                       \
    }

static long double hurwitz(long double x, long double q)
{
    long double sum = 0, term;
    for (; q < 40; q++) sum += powl(q, -x);
    static const long double b[] = {1 / 6.0L, -1 / 30.0L, 1 / 42.0L, -1 / 30.0L, 5 / 66.0L, -691 / 2730.0L};
    sum += powl(q, 1 - x) / (x - 1) + powl(q, -x) / 2;
    term = x * powl(q, -x - 1);
    long double factorial = 2;
    for (int j = 0; j < 6; j++) {
        sum += b[j] / factorial * term;
        term *= (x + 2 * j + 1) * (x + 2 * j + 2) / (q * q);
        factorial *= (2 * j + 3) * (2 * j + 4);
    }
    return sum;
}

static long double bessel(int order, long double x)
{
    long double sum = 0, term = order ? x / 2 : 1;
    for (int k = 1; k < 200; k++) {
        sum += term;
        term *= x * x / 4 / k / (k + order);
    }
    return sum;
}

ELEMENTS(xlog1py, kiln_xlog1py(in[0], in[1]), x *log1pl(b))
ELEMENTS(xlog1py_zero, kiln_xlog1py(kiln_zeros_like(in[0]), kiln_sub(kiln_zeros_like(in[0]), kiln_scalar(1))), 0 * x)
ELEMENTS(entr, kiln_entr(in[0]), x == 0 ? 0 : x < 0 ? -INFINITY : -x * logl(x))
ELEMENTS(logaddexp2, kiln_logaddexp2(in[0], in[1]), log2l(exp2l(x) + exp2l(b)))
ELEMENTS(exp10, kiln_exp10(in[0]), powl(10, x))
ELEMENTS(ndtr, kiln_ndtr(in[0]), erfcl(-x / sqrtl(2)) / 2)
ELEMENTS(log_ndtr, kiln_log_ndtr(in[0]), logl(erfcl(-x / sqrtl(2)) / 2))
ELEMENTS(i0, kiln_i0(in[0]), bessel(0, x))
ELEMENTS(i1, kiln_i1(in[0]), bessel(1, x))
ELEMENTS(zeta, kiln_zeta(in[0], in[1]), hurwitz(x, b))
ELEMENTS(polygamma0, kiln_polygamma(0, in[0]), digamma(x))
ELEMENTS(polygamma2, kiln_polygamma(2, in[0]), -2 * hurwitz(3, x))
ELEMENTS(polygamma5, kiln_polygamma(5, in[0]), 120 * hurwitz(6, x))
ELEMENTS(mvlgamma, kiln_mvlgamma(in[0], 3), 1.5L * logl(PI_L) + log_gamma(x) + log_gamma(x - 0.5L) + log_gamma(x - 1))

ELEMENTS(xdivy, kiln_xdivy(in[0], in[1]), x / b)
ELEMENTS(xdivy_zero, kiln_xdivy(kiln_zeros_like(in[0]), kiln_zeros_like(in[0])), 0 * x)

ELEMENTS(igamma, kiln_igamma(in[0], in[1]), exact_gamma(x, b))
ELEMENTS(igammac, kiln_igammac(in[0], in[1]), exact_gamma_upper(x, b))

ELEMENTS(igamma_far, kiln_igamma(kiln_mul(in[0], kiln_scalar(128)), in[1]), exact_gamma(128 * x, b))
ELEMENTS(igammac_far, kiln_igammac(in[0], kiln_mul(in[1], kiln_scalar(64))), exact_gamma_upper(x, 64 * b))
ELEMENTS(ndtri, kiln_ndtri(kiln_exp(in[0])), normal_inverse(expl(x)))

// At the ends of the range and outside of it.
static void call_ends(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *a = kiln_exp(in[0]), *zero = kiln_scalar(0), *most = kiln_scalar(INFINITY);
    out[0] = kiln_igamma(a, kiln_zeros_like(a));
    out[1] = kiln_igammac(a, kiln_add(kiln_zeros_like(a), most));
    out[2] = kiln_igamma(kiln_sub(zero, a), a);
    out[3] = kiln_igammac(a, kiln_neg(a));
}

static void expect_ends(const struct host *in, struct host *out)
{
    for (int k = 0; k < 4; k++) {
        out[k] = host_new(in[0].dtype, in[0].rank, in[0].dims);
        for (int64_t i = 0; i < in[0].n; i++) out[k].v[i] = k < 2 ? 0 : NAN;
    }
}

static void call_outside(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *one = kiln_scalar(1);
    out[0] = kiln_zeta(kiln_add(kiln_mul(in[0], kiln_scalar(0)), one), kiln_exp(in[0])); // x = 1
    out[1] = kiln_zeta(kiln_sub(one, kiln_exp(in[0])), one);                             // x < 1
    out[2] = kiln_zeta(kiln_add(one, kiln_exp(in[0])), kiln_neg(kiln_exp(in[0])));       // q < 0
}

static void expect_outside(const struct host *in, struct host *out)
{
    for (int k = 0; k < 3; k++) {
        out[k] = host_new(in[0].dtype, in[0].rank, in[0].dims);
        for (int64_t i = 0; i < in[0].n; i++) out[k].v[i] = k ? NAN : INFINITY;
    }
}

static const struct op_case special_cases[] = {
    {"xlog1py", "numbers", "3x4 4", IN_FLOATS, call_xlog1py, expect_xlog1py, .lo = 0.2, .hi = 3, .units = 8,
     .order = 2},
    {"xlog1py", "zero", "4", IN_FLOATS, call_xlog1py_zero, expect_xlog1py_zero, .units = 1},
    {"entr", "numbers", "30", IN_FLOATS, call_entr, expect_entr, .lo = 0.1, .hi = 3, .units = 8, .order = 2},
    {"entr", "below", "30", IN_FLOATS, call_entr, expect_entr, .units = 8},
    {"logaddexp2", "numbers", "3x4 4", IN_WIDE, call_logaddexp2, expect_logaddexp2, .units = 16, .order = 2},
    {"logaddexp2", "halves", "3x4 4", IN_HALF, call_logaddexp2, expect_logaddexp2, .units = HALVES},
    {"exp10", "numbers", "3x4", IN_FLOATS, call_exp10, expect_exp10, .units = 8, .order = 2},
    {"ndtr", "numbers", "30", IN_FLOATS, call_ndtr, expect_ndtr, .lo = -6, .hi = 6, .units = 8, .order = 2},
    {"log_ndtr", "numbers", "40", IN_FLOATS, call_log_ndtr, expect_log_ndtr, .lo = -30, .hi = 6, .units = 16,
     .order = 2},
    {"i0", "numbers", "40", IN_WIDE, call_i0, expect_i0, .lo = -20, .hi = 20, .units = 16},
    {"i0", "gradients", "40", IN_WIDE, call_i0, expect_i0, .lo = -3, .hi = 3, .units = 16, .order = 2},
    {"i1", "numbers", "40", IN_WIDE, call_i1, expect_i1, .lo = -20, .hi = 20, .units = 16},
    {"i1", "gradients", "40", IN_WIDE, call_i1, expect_i1, .lo = -3, .hi = 3, .units = 16, .order = 2},
    {"zeta", "numbers", "3x4 4", IN_WIDE, call_zeta, expect_zeta, .lo = 2.5, .hi = 8, .units = 64, .order = 2},
    {"zeta", "outside", "9", IN_WIDE, call_outside, expect_outside, .n_out = 3},
    {"polygamma", "digamma", "9", IN_WIDE, call_polygamma0, expect_polygamma0, .lo = 0.5, .hi = 6, .units = 32,
     .order = 2},
    {"polygamma", "second", "9", IN_WIDE, call_polygamma2, expect_polygamma2, .lo = 0.5, .hi = 6, .units = 64,
     .order = 2},
    {"polygamma", "fifth", "9", IN_WIDE, call_polygamma5, expect_polygamma5, .lo = 0.5, .hi = 6, .units = 64,
     .order = 1},
    {"mvlgamma", "numbers", "9", IN_WIDE, call_mvlgamma, expect_mvlgamma, .lo = 2.2, .hi = 6, .units = 64, .order = 2},
    {"xdivy", "numbers", "3x4 4", IN_FLOATS, call_xdivy, expect_xdivy, .lo = 0.2, .hi = 3, .units = 8, .order = 2},
    {"xdivy", "zero", "4", IN_FLOATS, call_xdivy_zero, expect_xdivy_zero, .units = 1},
    {"igamma", "small", "40 40", IN_WIDE, call_igamma, expect_igamma, .lo = 0.02, .hi = 3, .units = 32},
    {"igamma", "medium", "40 40", IN_WIDE, call_igamma, expect_igamma, .lo = 2, .hi = 60, .units = 64},
    {"igamma", "large", "40 40", IN_F64, call_igamma, expect_igamma, .lo = 300, .hi = 420, .units = 4096},
    {"igamma", "far below", "40 40", IN_F64, call_igamma_far, expect_igamma_far, .lo = 0.25, .hi = 1.5, .units = 4096},
    {"igamma", "gradients", "9 9", IN_F64, call_igamma, expect_igamma, .lo = 0.4, .hi = 4, .units = 64, .order = 2},
    {"igamma", "ends", "5", IN_WIDE, call_ends, expect_ends, .n_out = 4},
    {"igammac", "small", "40 40", IN_WIDE, call_igammac, expect_igammac, .lo = 0.02, .hi = 3, .units = 32},
    {"igammac", "medium", "40 40", IN_WIDE, call_igammac, expect_igammac, .lo = 2, .hi = 60, .units = 64},
    {"igammac", "far above", "40 40", IN_F64, call_igammac_far, expect_igammac_far, .lo = 1, .hi = 4, .units = 1024},
    {"igammac", "gradients", "9 9", IN_F64, call_igammac, expect_igammac, .lo = 0.4, .hi = 4, .units = 64, .order = 2},
    {"ndtri", "the tail", "40", IN_F64, call_ndtri, expect_ndtri, .lo = -600, .hi = -3, .units = 16},
    {"ndtri", "its beginning", "40", IN_WIDE, call_ndtri, expect_ndtri, .lo = -20, .hi = -1, .units = 32},
};
FAMILY_OF(special);
