// Marks: points in a device's work whose distance in time can be asked for.
#include "base/clock.h"
#include "device/device.h"
#include <math.h>

static kiln_status check(const char *caller, kiln_device *dev, unsigned mark)
{
    if (error_pending) return error_pending;
    TRY(device_check(caller, dev));
    if (mark < KILN_MARKS) return KILN_OK;
    return error_set(KILN_E_ARGUMENT, "%s: mark %u; there are %d", caller, mark, KILN_MARKS);
}

kiln_status kiln_device_mark(kiln_device *dev, unsigned mark)
{
    TRY(check("device_mark", dev, mark));
    if (dev->ops->mark) return dev->ops->mark(dev, mark);
    TRY(dev->ops->synchronize(dev));
    dev->marks_ns[mark] = (double)clock_now_ns();
    return KILN_OK;
}

double kiln_device_elapsed(kiln_device *dev, unsigned from, unsigned to)
{
    double time_ns = NAN;
    if (check("device_elapsed", dev, from) || check("device_elapsed", dev, to)) return NAN;
    if (dev->ops->elapsed) return dev->ops->elapsed(dev, from, to, &time_ns) ? NAN : time_ns;
    if (dev->marks_ns[from] == 0 || dev->marks_ns[to] == 0) {
        error_set(KILN_E_STATE, "device_elapsed: mark %u was never set", dev->marks_ns[from] == 0 ? from : to);
        return NAN;
    }
    return dev->marks_ns[to] - dev->marks_ns[from];
}
