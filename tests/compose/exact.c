// See exact.h. Series and continued fractions of Abramowitz and Stegun, Handbook of Mathematical Functions, 6.5
// and 26.5.
#include "compose/exact.h"

#include <math.h>

long double exact_normal(long double x)
{
    return erfcl(-x / sqrtl(2)) / 2;
}

long double exact_gamma(long double a, long double x)
{
    if (x <= 0) return 0;
    if (x >= a + 1) return 1 - exact_gamma_upper(a, x);
    long double term = 1 / a, sum = term;
    for (int k = 1; k < 4000 && term > sum * 1e-18L; k++) sum += term *= x / (a + k);
    return expl(a * logl(x) - x - lgammal(a)) * sum;
}

long double exact_gamma_upper(long double a, long double x)
{
    if (x < a + 1) return 1 - exact_gamma(a, x);
    long double f = x + 1999 - a; // from far out inwards
    for (int k = 1000; k >= 1; k--) f = x + 2 * k - 1 - a - k * (k - a) / f;
    return expl(a * logl(x) - x - lgammal(a)) / f;
}

long double exact_beta(long double a, long double b, long double x)
{
    if (x <= 0 || x >= 1) return x >= 1;
    if (x > (a + 1) / (a + b + 2)) return 1 - exact_beta(b, a, 1 - x);
    long double front = expl(a * logl(x) + b * log1pl(-x) + lgammal(a + b) - lgammal(a) - lgammal(b)) / a, f = 1;
    for (int m = 300; m >= 1; m--) {
        long double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        long double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        f = 1 + even / (1 + odd / f);
    }
    return front / (1 - (a + b) * x / (a + 1) / f);
}

long double exact_student(long double df, long double x)
{
    long double tail = exact_beta(df / 2, 0.5L, df / (df + x * x)) / 2;
    return x > 0 ? 1 - tail : tail;
}

long double exact_binomial(long double n, long double p, long double k)
{
    if (k > n) return 0;
    return expl(lgammal(n + 1) - lgammal(k + 1) - lgammal(n - k + 1) + k * logl(p) + (n - k) * log1pl(-p));
}

long double exact_sum(long double (*mass)(long double), long double x)
{
    static long double (*of)(long double), sum, last;
    if (of != mass || x < last) of = mass, sum = 0, last = -1;
    while (last < x) sum += mass(++last);
    return sum;
}
