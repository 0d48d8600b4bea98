// The regularised incomplete gamma functions, by quadrature in f64 for all parameters.
//
// With front = x^a exp(-x) / gamma(a), P is front times the integral over t > 0 of exp(-a t + x (1 - exp(-t))), Q of
// exp((a - 1) log1p(t) - x t). Of x at most a the first is taken, else the second: then the integrand falls from 1 all
// the way, over a length of about 1 / (|a - x| + sqrt(a)). t = length exp(y - exp(-y)) makes it fall at both ends
// faster than any exponential, where the trapezoidal rule converges exponentially (H. Takahasi and M. Mori, Double
// exponential formulas for numerical integration, 1974). Below 1, a + 1 is taken and the term between is added. All
// steps are differentiable in both arguments; the length is not one of them, for the integral does not depend on it.
#include "compose/composite.h"
#include "base/dtype.h"

#include <kiln/grad.h>
#include <math.h>

enum { NODES = 56 };
#define FROM (-3.7)
#define TO   4.1

static kiln_tensor *number(double v)
{
    return kiln_scalar(v);
}

// The nodes of the integral along a new first axis, and their weights.
static void nodes(kiln_tensor *like, kiln_tensor **t, kiln_tensor **weights)
{
    int64_t dims[KILN_MAX_RANK];
    size_t rank = kiln_rank(like);
    if (rank >= KILN_MAX_RANK) error_set(KILN_E_SHAPE, "takes tensors of rank %d at most", KILN_MAX_RANK - 1);
    if (error_pending) return;
    for (size_t i = 0; i <= rank; i++) dims[i] = i ? 1 : NODES;
    kiln_tensor *y = kiln_linspace(kiln_tensor_device(like), KILN_F64, FROM, TO, NODES);
    kiln_tensor *fall = kiln_exp(kiln_neg(y)), *at = kiln_exp(kiln_sub(y, fall));
    kiln_tensor *w = kiln_mul(kiln_mul(at, kiln_add(fall, number(1))), number((TO - FROM) / (NODES - 1)));
    *t = kiln_reshape(at, rank + 1, dims);
    *weights = kiln_reshape(w, rank + 1, dims);
}

static kiln_tensor *integral(kiln_tensor *a, kiln_tensor *x, kiln_tensor *low)
{
    kiln_tensor *t, *w;
    nodes(low, &t, &w);
    if (error_pending) return NULL;
    kiln_tensor *length = kiln_reciprocal(kiln_add(kiln_abs(kiln_sub(a, x)), kiln_sqrt(a)));
    length = kiln_stop_gradient(length);
    t = kiln_mul(t, length);
    kiln_tensor *lower = kiln_sub(kiln_mul(kiln_neg(a), t), kiln_mul(x, kiln_expm1(kiln_neg(t))));
    kiln_tensor *upper = kiln_sub(kiln_mul(kiln_sub(a, number(1)), kiln_log1p(t)), kiln_mul(x, t));
    kiln_tensor *values = kiln_mul(kiln_exp(kiln_where(low, lower, upper)), w);
    return kiln_mul(kiln_sum(values, KILN_REDUCE(.axes = KILN_AXES(0))), length);
}

// x^a exp(-x) / gamma(a + extra)
static kiln_tensor *plain_front(kiln_tensor *a, kiln_tensor *x, double extra)
{
    kiln_tensor *power = kiln_sub(kiln_mul(a, kiln_log(x)), x);
    return kiln_exp(kiln_sub(power, kiln_lgamma(extra == 0 ? a : kiln_add(a, number(extra)))));
}

// The same of a from 10 on, with Stirling's series, so that large numbers do not cancel: exp(-a (d - log1p(d)) - s)
// sqrt(a / 2 pi), d = (x - a) / a, whose logarithm is that of x / a where d is far from 0.
static kiln_tensor *large_front(kiln_tensor *a, kiln_tensor *x)
{
    static const double series[] = {-691 / 360360.0, 1 / 1188.0, -1 / 1680.0, 1 / 1260.0, -1 / 360.0, 1 / 12.0};
    kiln_tensor *d = kiln_div(kiln_sub(x, a), a), *z = kiln_reciprocal(kiln_square(a)), *s = number(series[0]);
    for (int i = 1; i < 6 && !error_pending; i++) s = kiln_add(kiln_mul(s, z), number(series[i]));
    kiln_tensor *near = kiln_less(kiln_abs(d), number(0.5)), *zero = number(0), *one = number(1);
    kiln_tensor *l =
        kiln_where(near, kiln_log1p(kiln_where(near, d, zero)), kiln_log(kiln_where(near, one, kiln_div(x, a))));
    kiln_tensor *e = kiln_add(kiln_mul(a, kiln_sub(d, l)), kiln_div(s, a));
    return kiln_mul(kiln_exp(kiln_neg(e)), kiln_sqrt(kiln_mul(a, number(0.15915494309189533577))));
}

static kiln_tensor *incomplete(kiln_tensor *a0, kiln_tensor *x0, bool upper)
{
    kiln_tensor *both = kiln_add(a0, x0), *one = number(1), *zero = number(0), *ten = number(10);
    kiln_dtype dtype = kiln_tensor_dtype(both);
    kiln_tensor *a = kiln_cast(a0, KILN_F64), *x = kiln_cast(x0, KILN_F64);
    kiln_tensor *sound = kiln_logical_and(kiln_greater(a, zero), kiln_greater_equal(x, zero));
    kiln_tensor *none = kiln_equal(x, zero), *all = kiln_equal(x, number(INFINITY));
    // Where the answer is known, the numbers are harmless ones.
    kiln_tensor *inside = kiln_logical_and(sound, kiln_logical_not(kiln_logical_or(none, all)));
    a = kiln_where(inside, a, one), x = kiln_where(inside, x, one);
    kiln_tensor *small = kiln_less(a, one), *b = kiln_where(small, kiln_add(a, one), a);
    kiln_tensor *large = kiln_greater_equal(b, ten), *low = kiln_less_equal(x, b);
    kiln_tensor *front = kiln_where(large, large_front(kiln_where(large, b, ten), kiln_where(large, x, ten)),
                                    plain_front(kiln_where(large, one, b), x, 0));
    kiln_tensor *part = kiln_mul(front, integral(b, x, low)), *rest = kiln_sub(one, part);
    kiln_tensor *between = kiln_where(small, plain_front(kiln_where(small, a, one), x, 1), zero);
    kiln_tensor *y =
        upper ? kiln_sub(kiln_where(low, rest, part), between) : kiln_add(kiln_where(low, part, rest), between);
    y = kiln_where(none, number(upper), kiln_where(all, number(!upper), y));
    y = kiln_where(sound, y, number(NAN));
    return kiln_cast(y, dtype_is_float(dtype) ? dtype : KILN_F32);
}

kiln_tensor *compose_igamma(kiln_tensor *a, kiln_tensor *x)
{
    return incomplete(a, x, false);
}

kiln_tensor *compose_igammac(kiln_tensor *a, kiln_tensor *x)
{
    return incomplete(a, x, true);
}
