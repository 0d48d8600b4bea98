// Numbers for people.
#include "base/quantity.h"
#include <math.h>

// `whole`: without a prefix there are no fractions.
static void add_scaled(struct str *s, double v, const char *const *units, int n, bool whole)
{
    int i = 0;
    while (i + 1 < n && fabs(v) >= 999.5) {
        v /= 1000;
        i++;
    }
    int digits = fabs(v) >= 99.95 || (i == 0 && whole) ? 0 : fabs(v) >= 9.995 ? 1 : 2;
    str_addf(s, "%.*f %s", digits, v, units[i]);
}

void str_add_time(struct str *s, double ns)
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    add_scaled(s, ns, units, 4, false);
}

void str_add_bytes(struct str *s, double bytes)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    add_scaled(s, bytes, units, 5, true);
}

void str_add_flops(struct str *s, double flops)
{
    static const char *const units[] = {"flop", "kflop", "Mflop", "Gflop", "Tflop", "Pflop"};
    add_scaled(s, flops, units, 6, true);
}
