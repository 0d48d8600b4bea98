// Where the elements of an axis of another size come from: two elements of the axis, or four, with weights.
// R. Keys, Cubic convolution interpolation for digital image processing, 1981.
#pragma once
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

enum { RESAMPLE_MOST_TAPS = 4 };

struct resample {
    int64_t in, out;
    double step; // between elements of the result, in elements of the axis
    bool align;  // the first ones lie on each other; else the edges do
    bool cubic;
};

// Keys' kernel at a distance.
static inline double resample_cubic(double d, double a)
{
    d = fabs(d);
    if (d < 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
    return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

static inline int64_t resample_inside(double at, int64_t size)
{
    return at > 0 ? (at < (double)size ? (int64_t)at : size - 1) : 0;
}

// The taps of element i of the result, in order: places, the last ones of the axis beyond its ends, and weights.
// Returns how many. Of two taps the second weight is how far the element lies behind the first.
static inline int resample_taps(const struct resample *r, int64_t i, int64_t at[RESAMPLE_MOST_TAPS],
                                double weight[RESAMPLE_MOST_TAPS])
{
    double center = r->align ? (double)i * r->step : ((double)i + 0.5) * r->step - 0.5;
    if (!r->cubic && center < 0) center = 0;
    double first = floor(center), behind = center - first;
    int n = r->cubic ? 4 : 2, before = r->cubic ? 1 : 0;
    for (int k = 0; k < n; k++) {
        at[k] = resample_inside(first + k - before, r->in);
        weight[k] = r->cubic ? resample_cubic(behind - (k - before), -0.75) : k ? behind : 1 - behind;
    }
    return n;
}
