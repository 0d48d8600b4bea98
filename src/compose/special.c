// Special functions that are few steps of others.
#include "compose/composite.h"
#include "base/dtype.h"

#include <math.h>

#define LN_2      0.69314718055994530942
#define LN_PI     1.14472988584940017414
#define SQRT_HALF 0.70710678118654752440

static kiln_tensor *number(double v)
{
    return kiln_scalar(v);
}

// a times a logarithm, which is 0 where a is, and so is the gradient there where the logarithm is infinite.
kiln_tensor *compose_xlog1py(kiln_tensor *a, kiln_tensor *b)
{
    kiln_tensor *nothing = kiln_logical_and(kiln_equal(a, number(0)), kiln_less_equal(b, number(-1)));
    return kiln_mul(a, kiln_log1p(kiln_where(nothing, number(0), b)));
}

kiln_tensor *compose_entr(kiln_tensor *x)
{
    kiln_tensor *below = kiln_less(x, number(0)), *sound = kiln_where(below, number(1), x);
    return kiln_where(below, number(-INFINITY), kiln_neg(kiln_xlogy(sound, sound)));
}

kiln_tensor *compose_logaddexp2(kiln_tensor *a, kiln_tensor *b)
{
    kiln_tensor *ln2 = number(LN_2);
    return kiln_div(kiln_logaddexp(kiln_mul(a, ln2), kiln_mul(b, ln2)), ln2);
}

kiln_tensor *compose_exp10(kiln_tensor *x)
{
    return kiln_pow(number(10), dtype_is_float(kiln_tensor_dtype(x)) ? x : kiln_cast(x, KILN_F32));
}

kiln_tensor *compose_ndtr(kiln_tensor *x)
{
    return kiln_mul(kiln_erfc(kiln_mul(x, number(-SQRT_HALF))), number(0.5));
}

// Below -1 by erfcx, whose logarithm stays where erfc is 0; above by what is missing to 1.
kiln_tensor *compose_log_ndtr(kiln_tensor *x)
{
    kiln_tensor *low = kiln_less(x, number(-1)), *edge = number(-1);
    kiln_tensor *a = kiln_where(low, x, edge), *b = kiln_where(low, edge, x);
    kiln_tensor *tail = kiln_log(kiln_mul(kiln_erfcx(kiln_mul(a, number(-SQRT_HALF))), number(0.5)));
    tail = kiln_sub(tail, kiln_mul(kiln_square(a), number(0.5)));
    kiln_tensor *missing = kiln_mul(kiln_erfc(kiln_mul(b, number(SQRT_HALF))), number(-0.5));
    return kiln_where(low, tail, kiln_log1p(missing));
}

// exp(|x|) in two factors, which do not overflow before the product does.
static kiln_tensor *grown(kiln_tensor *scaled, kiln_tensor *x)
{
    kiln_tensor *half = kiln_exp(kiln_mul(kiln_abs(x), number(0.5)));
    return kiln_mul(kiln_mul(scaled, half), half);
}

kiln_tensor *compose_i0(kiln_tensor *x)
{
    return grown(kiln_i0e(x), x);
}

kiln_tensor *compose_i1(kiln_tensor *x)
{
    return grown(kiln_i1e(x), x);
}

// Sums by Euler and Maclaurin: TERMS terms, then what an integral and derivatives at q + TERMS say of the rest (F.
// Johansson, Rigorous high-precision computation of the Hurwitz zeta function, 2013, section 2).
enum { TERMS = 12 };

kiln_tensor *compose_zeta(kiln_tensor *x, kiln_tensor *q)
{
    // Bernoulli numbers B_2j over (2 j)!
    static const double bernoulli[] = {1 / 12.0,          -1 / 720.0,
                                       1 / 30240.0,       -1 / 1209600.0,
                                       1 / 47900160.0,    -691 / 1307674368000.0,
                                       1 / 74724249600.0, -3617 / 10670622842880000.0};
    kiln_tensor *one = number(1), *sum = NULL;
    kiln_tensor *power = kiln_neg(x);
    for (int k = 0; k < TERMS && !error_pending; k++) {
        kiln_tensor *term = kiln_pow(kiln_add(q, number(k)), power);
        sum = sum ? kiln_add(sum, term) : term;
    }
    kiln_tensor *w = kiln_add(q, number(TERMS)), *last = kiln_pow(w, power), *minus = kiln_sub(x, one);
    sum = kiln_add(sum, kiln_add(kiln_div(kiln_mul(last, w), minus), kiln_mul(last, number(0.5))));
    kiln_tensor *rising = kiln_div(kiln_mul(x, last), w), *inverse = kiln_reciprocal(kiln_square(w));
    for (int j = 0; j < 8 && !error_pending; j++) {
        sum = kiln_add(sum, kiln_mul(rising, number(bernoulli[j])));
        kiln_tensor *next = kiln_mul(kiln_add(x, number(2 * j + 1)), kiln_add(x, number(2 * j + 2)));
        rising = kiln_mul(kiln_mul(rising, next), inverse);
    }
    kiln_tensor *outside = kiln_logical_or(kiln_less(x, one), kiln_less(q, number(0)));
    sum = kiln_where(outside, number(NAN), sum);
    return kiln_where(kiln_logical_and(kiln_equal(x, one), kiln_greater_equal(q, number(0))), number(INFINITY), sum);
}

// (-1)^(n + 1) n! zeta(n + 1, x)
kiln_tensor *compose_polygamma(int64_t n, kiln_tensor *x)
{
    if (n < 0 || n > 100) error_set(KILN_E_ARGUMENT, "order %lld is outside [0, 100]", (long long)n);
    if (error_pending || n == 0) return kiln_digamma(x);
    kiln_tensor *sum = kiln_zeta(number((double)n + 1), x);
    return kiln_mul(sum, number((n % 2 ? 1 : -1) * tgamma((double)n + 1)));
}

kiln_tensor *compose_mvlgamma(kiln_tensor *x, int64_t p)
{
    if (p < 1 || p > 1000) error_set(KILN_E_ARGUMENT, "p is %lld, it must be from 1 to 1000", (long long)p);
    kiln_tensor *sum = NULL;
    for (int64_t i = 0; i < p && !error_pending; i++) {
        kiln_tensor *term = kiln_lgamma(kiln_sub(x, number(0.5 * (double)i)));
        sum = sum ? kiln_add(sum, term) : term;
    }
    return kiln_add(sum, number(0.25 * LN_PI * (double)(p * (p - 1))));
}

// a over b, 0 where a is, and so is the gradient there where b is 0.
kiln_tensor *compose_xdivy(kiln_tensor *a, kiln_tensor *b)
{
    kiln_tensor *nothing = kiln_logical_and(kiln_equal(a, number(0)), kiln_equal(b, number(0)));
    return kiln_div(a, kiln_where(nothing, number(1), b));
}
