// Ticks of a linear axis are multiples of a step of 1, 2 or 5 times a power of ten, computed as integers, so that 0.3
// is 0.3. Of a logarithmic axis they are 1, 2 and 5 times powers of ten where there are few of these, else powers
// alone.
#include "train/ticks.h"
#include "base/c_locale.h"

#include <math.h>
#include <stdint.h>

static double scaled(double v, int exponent)
{
    return exponent < 0 ? v / pow(10, -exponent) : v * pow(10, exponent);
}

static void add(struct ticks *t, double v)
{
    double slack = t->log ? 1e-9 * v : 1e-9 * (t->high - t->low);
    if (t->n < TICKS_MAX && v >= t->low - slack && v <= t->high + slack) t->at[t->n++] = v;
}

static void linear(struct ticks *t, int most, bool wide)
{
    static const int round[] = {1, 2, 5, 10};
    double rough = (t->high - t->low) / most;
    int e = (int)floor(log10(rough)), k = 0;
    while (k < 3 && scaled(round[k], e) < rough * (1 - 1e-9)) k++;
    double step = scaled(round[k], e);
    int64_t from = (int64_t)floor(t->low / step + 1e-9), to = (int64_t)ceil(t->high / step - 1e-9);
    if (wide) {
        t->low = scaled((double)(from * round[k]), e);
        t->high = scaled((double)(to * round[k]), e);
    }
    t->exponent = k == 3 ? e + 1 : e;
    for (int64_t i = from; i <= to; i++) add(t, scaled((double)(i * round[k]), e));
}

static void logarithmic(struct ticks *t, int most, bool wide)
{
    static const int round[] = {1, 2, 5, 10};
    int from = (int)floor(log10(t->low) + 1e-9), to = (int)ceil(log10(t->high) - 1e-9);
    int few = to - from <= most / 3, apart = few || to - from <= most ? 1 : (to - from + most - 1) / most;
    if (wide) {
        int a = 0, b = few ? 0 : 3;
        while (few && a < 2 && scaled(round[a + 1], from) <= t->low * (1 + 1e-9)) a++;
        while (few && b < 3 && scaled(round[b], to - 1) < t->high * (1 - 1e-9)) b++;
        t->low = scaled(round[a], from);
        t->high = scaled(round[b], to - 1);
    }
    for (int e = from; e <= to; e += apart)
        for (int k = 0; k < (few ? 3 : 1); k++) add(t, scaled(round[k], e));
}

struct ticks ticks_make(double low, double high, int most, bool log, bool wide)
{
    struct ticks t = {.log = log, .low = low, .high = high};
    if (!(high > low)) { // one value, in the middle
        double around = log ? 2 : low == 0 ? 1 : fabs(low) / 2;
        t.low = log ? low / around : low - around;
        t.high = log ? low * around : low + around;
    }
    if (most < 1) most = 1;
    if (log)
        logarithmic(&t, most, wide);
    else
        linear(&t, most, wide);
    return t;
}

const char *tick_label(char text[TICK_B], const struct ticks *t, double v)
{
    double most = fmax(fabs(t->low), fabs(t->high));
    int thousands = t->log ? 0 : most >= 1e10 ? 3 : most >= 1e7 ? 2 : most >= 1e4 ? 1 : 0;
    int digits = 3 * thousands - t->exponent;
    if (t->log && v > 0 && (v < 0.9e-3 || v > 1.1e4)) {
        int e = (int)floor(log10(v) + 1e-9);
        c_snprintf(text, TICK_B, "%.0fe%d", scaled(v, -e), e);
    } else if (t->log || digits > 6 || thousands == 3) {
        c_snprintf(text, TICK_B, "%.6g", v);
    } else {
        double shown = scaled(v, -3 * thousands);
        c_snprintf(text, TICK_B, "%.*f%s", digits > 0 ? digits : 0, shown == 0 ? 0 : shown,
                   shown == 0 || !thousands ? ""
                   : thousands == 1         ? "k"
                                            : "M");
    }
    return text;
}
