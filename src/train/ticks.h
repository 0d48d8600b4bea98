// Round numbers along an axis.
#pragma once
#include <stdbool.h>
#include <stddef.h>

enum { TICKS_MAX = 32, TICK_B = 32 };

struct ticks {
    bool log;
    double low, high; // the ends of the axis
    int n;
    double at[TICKS_MAX]; // 1, 2 or 5 times a power of ten apart; of a logarithmic axis such numbers themselves
    int exponent;         // of ten: the place of the last digit that tells them apart
};

// At about `most` places or fewer. The ends are ticks where `wide`, else low and high. Of a logarithmic axis both are
// above 0.
struct ticks ticks_make(double low, double high, int most, bool log, bool wide);
const char *tick_label(char text[TICK_B], const struct ticks *t, double v);
