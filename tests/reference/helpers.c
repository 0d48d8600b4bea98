// Arithmetic that reference.def needs beyond libm.
#include "reference/reference.h"

struct reference_class reference_class;

// --- integers: 64-bit wrapping; the caller wraps into the result's dtype

int64_t wrap_add(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

int64_t wrap_sub(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

int64_t wrap_mul(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

// Truncating; by 0: 0; the least integer by -1: itself.
int64_t int_quotient(int64_t a, int64_t b)
{
    return b == 0 ? 0 : b == -1 ? wrap_sub(0, a) : a / b;
}

// From the highest bit of b down; the op goes up.
int64_t int_power(int64_t a, int64_t b)
{
    if (b < 0 && !reference_class.is_u64) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
    int64_t y = 1;
    for (int bit = 63; bit >= 0; bit--) {
        y = wrap_mul(y, y);
        if ((uint64_t)b >> bit & 1) y = wrap_mul(y, a);
    }
    return y;
}

int64_t int_remainder(int64_t a, int64_t b)
{
    if (reference_class.is_u64) return b == 0 ? 0 : (int64_t)((uint64_t)a % (uint64_t)b);
    return b == 0 || b == -1 ? 0 : a % b;
}

int64_t int_floor_remainder(int64_t a, int64_t b)
{
    if (reference_class.is_u64) return int_remainder(a, b);
    int64_t r = int_remainder(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

int64_t int_floor_divide(int64_t a, int64_t b)
{
    if (reference_class.is_u64) return b == 0 ? 0 : (int64_t)((uint64_t)a / (uint64_t)b);
    int64_t q = int_quotient(a, b), r = int_remainder(a, b);
    return r != 0 && (r < 0) != (b < 0) ? q - 1 : q;
}

static int width(void)
{
    return reference_class.is_i64 || reference_class.is_u64 ? 64 : 32;
}

int64_t int_left_shift(int64_t a, int64_t b)
{
    return b < 0 || b >= width() ? 0 : (int64_t)((uint64_t)a << b);
}

int64_t int_right_shift(int64_t a, int64_t b)
{
    if (reference_class.is_u64) return b < 0 || b >= 64 ? 0 : (int64_t)((uint64_t)a >> b);
    if (b < 0 || b >= width()) return a < 0 ? -1 : 0;
    return a < 0 ? ~(~a >> b) : a >> b;
}

// The difference wraps first, as every integer result does.
int64_t int_abs_difference(int64_t a, int64_t b)
{
    int64_t d = wrap_sub(a, b);
    if (reference_class.is_u64) return (uint64_t)a < (uint64_t)b ? wrap_sub(b, a) : d;
    if (!reference_class.is_i64) d = (int32_t)(uint32_t)d;
    return d < 0 ? wrap_sub(0, d) : d;
}

// --- floats

// A product rounded to the compute dtype. Two 24-bit fractions multiply exactly in double.
long double round_product(long double b, long double c)
{
    return reference_class.is_f64 ? (double)b * (double)c : (float)((double)b * (double)c);
}

long double next_value(long double a, long double b)
{
    return reference_class.is_f64 ? nextafter((double)a, (double)b) : nextafterf((float)a, (float)b);
}

// From the exact remainder, so that no rounded quotient is mistaken for an integer.
long double floor_quotient(long double a, long double b)
{
    if (b == 0 || isnan(a) || isnan(b) || isinf(a)) return a / b;
    if (a == 0) return a / b; // a zero of the quotient's sign; any other result of 0 is a positive one, rounded down
    if (isinf(b)) return (a < 0) == (b < 0) ? 0 : -1;
    long double r = fmodl(a, b);
    if (r != 0 && (r < 0) != (b < 0)) return rintl((a - r) / b) - 1;
    return rintl((a - r) / b) + 0.0L; // never -0
}

long double floor_remainder(long double a, long double b)
{
    long double r = fmodl(a, b);
    if (r == 0) return copysignl(0, b);
    return (r < 0) != (b < 0) ? r + b : r;
}

long double log_add_exp(long double a, long double b)
{
    if (isnan(a) || isnan(b)) return NAN;
    if (a == b) return a + logl(2);
    return fmaxl(a, b) + log1pl(expl(-fabsl(a - b)));
}

// Bisection between floats would do; Newton's method on the smaller of erf and erfc from a rough start is faster. The
// step uses the derivative 2/sqrt(pi) exp(-y^2); for x near 1 the equation is put as erfc(y) = 1 - x, which is exact
// there.
long double erf_inverse(long double x)
{
    if (isnan(x) || fabsl(x) > 1) return NAN;
    if (fabsl(x) == 1) return x * INFINITY;
    if (x == 0) return x;
    long double t = fabsl(x), l = log1pl(-t * t), k = 2 / (PI_L * 0.147L) + l / 2;
    long double y = sqrtl(sqrtl(k * k - l / 0.147L) - k);
    if (t < 1e-3L) y = t * sqrtl(PI_L) / 2;
    for (int i = 0; i < 8; i++) {
        long double f = t > 0.5L ? (1 - t) - erfcl(y) : erfl(y) - t;
        y -= f / (2 / sqrtl(PI_L) * expl(-y * y));
    }
    return copysignl(y, x);
}

// By a continued fraction where the factors would overflow or lose digits.
long double scaled_erfc(long double x)
{
    if (isnan(x)) return x;
    if (x < 6) return expl(x * x) * erfcl(x);
    if (isinf(x)) return 0;
    long double f = x;
    for (int k = 120; k >= 1; k--) f = x + k / 2.0L / f;
    return 1 / (sqrtl(PI_L) * f);
}

// The power series, whose terms all have one sign; from 50 on the asymptotic one.
long double scaled_bessel(int order, long double x)
{
    long double a = fabsl(x), sum = 0, term = 1;
    if (isnan(x)) return x;
    if (a < 50) {
        for (int k = 1; k <= order; k++) term *= a / 2 / k;
        for (int k = 1; term > sum * 1e-25L; k++) {
            sum += term;
            term *= a * a / 4 / k / (k + order);
        }
        sum *= expl(-a);
    } else {
        for (int k = 1; k < 30; k++) {
            sum += term;
            term *= -(4.0L * order * order - (2 * k - 1) * (2 * k - 1)) / (8 * k * a);
        }
        sum /= sqrtl(2 * PI_L * a);
    }
    return order % 2 ? copysignl(sum, x) : sum;
}

// Newton's method on the logarithm of the distribution function, which is concave: from the left it does not overshoot.
long double normal_inverse(long double p)
{
    if (isnan(p) || p < 0 || p > 1) return NAN;
    if (p == 0 || p == 1) return p == 0 ? -INFINITY : INFINITY;
    if (p == 0.5L) return 0;
    if (p > 0.5L) return -normal_inverse(1 - p);
    long double y = -sqrtl(-2 * logl(p));
    for (int i = 0; i < 100; i++) {
        long double below = erfcl(-y / sqrtl(2)) / 2;
        y += (logl(p) - logl(below)) * below / (expl(-y * y / 2) / sqrtl(2 * PI_L));
    }
    return y;
}

long double log_gamma(long double x)
{
    int sign;
    return lgammal_r(x, &sign);
}

// Above 20 the asymptotic series is exact to the last bit; below, digamma(x) = digamma(x + 1) - 1/x, and for negative x
// the reflection digamma(1 - x) - pi / tan(pi x).
long double digamma(long double x)
{
    if (isnan(x) || x == -INFINITY) return NAN;
    if (x == 0) return copysignl(INFINITY, -x);
    if (x < 0) {
        if (x == floorl(x)) return NAN;
        long double f = x - rintl(x);
        return digamma(1 - x) - PI_L / tanl(PI_L * f);
    }
    long double shift = 0;
    for (; x < 20; x++) shift -= 1 / x;
    static const long double b[] = {-1 / 12.0L,  1 / 120.0L,     -1 / 252.0L, 1 / 240.0L,
                                    -1 / 132.0L, 691 / 32760.0L, -1 / 12.0L};
    long double sum = 0, z = 1 / (x * x);
    for (int i = 6; i >= 0; i--) sum = (sum + b[i]) * z;
    return logl(x) - 1 / (2 * x) + sum + shift;
}

// The derivative of the above: the series term by term, trigamma(x) = trigamma(x + 1) + 1/x^2, and for negative x
// pi^2 / sin(pi x)^2 - trigamma(1 - x).
long double trigamma(long double x)
{
    if (isnan(x) || x == -INFINITY) return NAN;
    if (x <= 0) {
        if (x == floorl(x)) return INFINITY;
        long double s = sinl(PI_L * (x - rintl(x)));
        return PI_L * PI_L / (s * s) - trigamma(1 - x);
    }
    long double shift = 0;
    for (; x < 20; x++) shift += 1 / (x * x);
    static const long double b[] = {1 / 6.0L, -1 / 30.0L, 1 / 42.0L, -1 / 30.0L, 5 / 66.0L, -691 / 2730.0L, 7 / 6.0L};
    long double sum = 0, z = 1 / (x * x);
    for (int i = 6; i >= 0; i--) sum = (sum + b[i]) * z;
    return (1 + sum) / x + z / 2 + shift;
}

// The same once more; for negative x tetragamma(1 - x) - 2 pi^3 cos(pi x) / sin(pi x)^3, with its sign.
long double tetragamma(long double x)
{
    if (isnan(x) || x == -INFINITY) return NAN;
    if (x <= 0) {
        if (x == 0) return -copysignl(INFINITY, x);
        if (x == floorl(x)) return NAN;
        long double f = PI_L * (x - rintl(x)), s = sinl(f);
        return tetragamma(1 - x) - 2 * PI_L * PI_L * PI_L * cosl(f) / (s * s * s);
    }
    long double shift = 0;
    for (; x < 20; x++) shift += 2 / (x * x * x);
    static const long double b[] = {0.5L, -1 / 6.0L, 1 / 6.0L, -0.3L, 5 / 6.0L, -8983 / 2730.0L, 17.5L};
    long double sum = 0, z = 1 / (x * x);
    for (int i = 6; i >= 0; i--) sum = (sum + b[i]) * z;
    return -((1 + 1 / x + sum) * z + shift);
}
