// What memory can do: the best time of a pass that reads, copies, or adds two arrays into a third (triad), with as many
// bytes as the row moves, so that a row that fits a cache has a cache's ceiling; or what arithmetic can do, for
// products. The library measures it (kiln_device_ceiling); each figure is taken once a process.
#include "bench.h"

#include <math.h>

static struct {
    enum ceiling kind;
    double amount, time_ns;
} known[128];
static int n_known;

const char *ceiling_name(enum ceiling c)
{
    static const char *const names[] = {"none", "read", "copy", "triad", "fma"};
    return names[c];
}

void ceiling_forget(void)
{
    n_known = 0;
}

static const kiln_ceiling kinds[] = {[CEILING_READ] = KILN_CEILING_READ,
                                     [CEILING_COPY] = KILN_CEILING_COPY,
                                     [CEILING_TRIAD] = KILN_CEILING_TRIAD,
                                     [CEILING_FMA] = KILN_CEILING_FMA};

static double fma_rate(kiln_device *dev)
{
    static double rate;
    if (!(rate > 0)) rate = kiln_device_ceiling(dev, KILN_CEILING_FMA, 1);
    return rate;
}

double ceiling_ns(kiln_device *dev, enum ceiling c, double amount)
{
    if (c == CEILING_NONE || !(amount > 0)) return NAN;
    for (int i = 0; i < n_known; i++) {
        if (known[i].kind == c && known[i].amount == amount) return known[i].time_ns;
    }
    double rate = c == CEILING_FMA ? fma_rate(dev) : kiln_device_ceiling(dev, kinds[c], amount);
    double time_ns = 1e9 * amount / rate;
    kiln_device_trim(dev);
    if (n_known < (int)(sizeof known / sizeof known[0])) {
        known[n_known].kind = c;
        known[n_known].amount = amount;
        known[n_known++].time_ns = time_ns;
    }
    return time_ns;
}
