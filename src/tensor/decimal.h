// Decimal digits of floating values: the fewest that give back a value in its dtype, or a given number of them.
#pragma once
#include "base/base.h"
#include <kiln/macros.h>

enum { DECIMAL_MAX = 40 };

// text[0].text[1]text[2]... * 10^exponent; text holds `count` digits and a terminator, without trailing zeros unless
// asked for. Zero is the one digit "0" with exponent 0.
struct decimal {
    int count, exponent;
    bool exact; // parsing the digits gives back the value in its dtype
    char text[DECIMAL_MAX + 1];
};

// `magnitude` is finite, not negative, and a value of `dtype` (one of the four float dtypes).
void decimal_shortest(double magnitude, kiln_dtype dtype, struct decimal *out);
// The value rounded to `count` significant digits, 1 to DECIMAL_MAX.
void decimal_fixed(double magnitude, kiln_dtype dtype, int count, struct decimal *out);

// The nearest value of `dtype`.
double decimal_round_to(double x, kiln_dtype dtype);
