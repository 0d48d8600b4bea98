// Distribution functions, in long double and plain.
#pragma once

long double exact_normal(long double x);
long double exact_gamma(long double a, long double x);               // regularised, lower
long double exact_gamma_upper(long double a, long double x);         // 1 less that
long double exact_beta(long double a, long double b, long double x); // regularised
long double exact_student(long double df, long double x);
long double exact_binomial(long double n, long double p, long double k); // the probability of k
// The sum of a mass at 0, 1, ... x. Kept from call to call, for calls that go up.
long double exact_sum(long double (*mass)(long double), long double x);
