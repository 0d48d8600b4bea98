// Shortest decimal digits.
//
// A decimal gives back a value when it lies in the interval of reals that round to it. The interval is symmetric
// about the value, except at a power of two, where the lower half is half as wide. Hence: when any decimal of n
// digits lies in the interval, the one nearest to the value does, except at a power of two, where the nearest may
// fall off the narrow side below while its upper neighbour is still inside. So for n = 1, 2, ... take the nearest
// decimal of n digits (the C library's conversion is exact, ties to even), and at powers of two also the next one up;
// the first that gives back the value has the fewest digits. The loop ends, for 17 digits always suffice for a
// double. This is what Steele and White's algorithm yields, which NumPy runs.
#include "tensor/decimal.h"

#include "scalar/number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double decimal_round_to(double x, kiln_dtype dtype)
{
    bool wide = dtype_class((unsigned)dtype) == CLASS_F64;
    union scalar_value v = {.bits = 0};
    if (wide)
        v.f64 = x;
    else
        v.f32 = (float)x;
    return number_as_double(wide ? CLASS_F64 : CLASS_F32, number_stored((unsigned)dtype, v));
}

// Parses the digits in the dtype. Written without a point, for that depends on the locale.
static double parse(const struct decimal *d, kiln_dtype dtype)
{
    char text[DECIMAL_MAX + 16];
    snprintf(text, sizeof text, "%se%d", d->text, d->exponent - d->count + 1);
    if (dtype == KILN_F64) return strtod(text, NULL);
    return decimal_round_to((double)strtof(text, NULL), dtype);
}

static void nearest(double magnitude, int count, struct decimal *out)
{
    char text[DECIMAL_MAX + 32];
    snprintf(text, sizeof text, "%.*e", count - 1, magnitude);
    const char *at = text;
    out->count = 0;
    for (; *at && *at != 'e'; at++) {
        if (*at >= '0' && *at <= '9') out->text[out->count++] = *at;
    }
    out->text[out->count] = '\0';
    out->exponent = *at ? (int)strtol(at + 1, NULL, 10) : 0;
}

// Adds one unit of the last place.
static void next_up(struct decimal *d)
{
    int i = d->count - 1;
    for (; i >= 0 && d->text[i] == '9'; i--) d->text[i] = '0';
    if (i >= 0) {
        d->text[i]++;
    } else {
        d->text[0] = '1';
        d->exponent++;
    }
}

static bool is_power_of_two(double magnitude)
{
    int exponent;
    return frexp(magnitude, &exponent) == 0.5;
}

void decimal_fixed(double magnitude, kiln_dtype dtype, int count, struct decimal *out)
{
    if (count > DECIMAL_MAX) count = DECIMAL_MAX;
    nearest(magnitude, count, out);
    out->exact = parse(out, dtype) == magnitude;
    if (out->exact || !is_power_of_two(magnitude)) return;
    struct decimal up = *out;
    next_up(&up);
    up.exact = parse(&up, dtype) == magnitude;
    if (up.exact) *out = up;
}

void decimal_shortest(double magnitude, kiln_dtype dtype, struct decimal *out)
{
    for (int count = 1; count <= 17; count++) {
        decimal_fixed(magnitude, dtype, count, out);
        if (out->exact) break;
    }
    // Digits that end in zero arise only where fewer digits would have done.
}
