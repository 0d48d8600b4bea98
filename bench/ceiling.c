// What memory can do: the best time of a pass that reads, copies, or adds two arrays into a third (triad), with as many
// bytes as the row moves, so that a row that fits a cache has a cache's ceiling; or what arithmetic can do, for
// products of its dtype; or so many launches. The library measures it (kiln_device_ceiling); each figure is taken once
// a process.
#include "bench.h"

#include <math.h>

static struct {
    enum ceiling kind;
    double amount, time_ns;
} known[128];
static int n_known;

static const struct {
    const char *name;
    kiln_ceiling kind;
} kinds[] = {[CEILING_NONE] = {"none", 0},
             [CEILING_READ] = {"read", KILN_CEILING_READ},
             [CEILING_COPY] = {"copy", KILN_CEILING_COPY},
             [CEILING_TRIAD] = {"triad", KILN_CEILING_TRIAD},
             [CEILING_FMA] = {"fma", KILN_CEILING_FMA},
             [CEILING_FMA_F64] = {"fma f64", KILN_CEILING_FMA_F64},
             [CEILING_FMA_BF16] = {"fma bf16", KILN_CEILING_FMA_BF16},
             [CEILING_FMA_F16] = {"fma f16", KILN_CEILING_FMA_F16},
             [CEILING_LAUNCH] = {"launch", KILN_CEILING_LAUNCH}};

const char *ceiling_name(enum ceiling c)
{
    return kinds[c].name;
}

enum ceiling ceiling_of(const struct bench_case *c)
{
    if (c->ceiling != CEILING_FMA) return c->ceiling;
    switch ((int)c->dtype) {
    case KILN_F64: return CEILING_FMA_F64;
    case KILN_BF16: return CEILING_FMA_BF16;
    case KILN_F16: return CEILING_FMA_F16;
    default: return CEILING_FMA;
    }
}

void ceiling_forget(void)
{
    n_known = 0;
}

// Of what does not depend on an amount.
static double fixed_rate(kiln_device *dev, enum ceiling c)
{
    static double rates[CEILING_LAUNCH + 1];
    if (!(rates[c] > 0)) rates[c] = kiln_device_ceiling(dev, kinds[c].kind, 1);
    return rates[c];
}

double ceiling_ns(kiln_device *dev, enum ceiling c, double amount)
{
    if (c == CEILING_NONE || !(amount > 0)) return NAN;
    for (int i = 0; i < n_known; i++) {
        if (known[i].kind == c && known[i].amount == amount) return known[i].time_ns;
    }
    double rate = c >= CEILING_FMA ? fixed_rate(dev, c) : kiln_device_ceiling(dev, kinds[c].kind, amount);
    double time_ns = 1e9 * amount / rate;
    kiln_device_trim(dev);
    if (n_known < (int)(sizeof known / sizeof known[0])) {
        known[n_known].kind = c;
        known[n_known].amount = amount;
        known[n_known++].time_ns = time_ns;
    }
    return time_ns;
}
