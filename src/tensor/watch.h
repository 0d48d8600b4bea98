// KILN_DEBUG=nan: an op that gives what is no finite number for inputs that are numbers says so. KILN_DEBUG=indices:
// indices out of range are errors on each device. KILN_DEBUG=promote: an op that makes f64 of smaller floats says so.
#pragma once
#include "tensor/tensor.h"

#include <stdatomic.h>

enum { WATCH_NAN = 1, WATCH_INDICES = 2, WATCH_PROMOTE = 4 };
extern atomic_int watch_known; // -1: the environment has not been asked
int watch_ask(void);
static inline int watched_kinds(void)
{
    int known = atomic_load_explicit(&watch_known, memory_order_relaxed);
    return known < 0 ? watch_ask() : known;
}
static inline bool values_watched(void)
{
    return watched_kinds() & WATCH_NAN;
}

struct watched;
// Before the op runs, for it may write its inputs. NULL: there is nothing to watch.
struct watched *watch_inputs(const struct op_call *c, kiln_tensor *const *in);
// After it; ends the watch. Waits for the device.
void watch_outputs(struct watched *w, const struct op_call *c, kiln_tensor *const *out, kiln_status status);

// Before the op runs. KILN_E_ARGUMENT for an index out of range, with its value and place. Waits for the device.
kiln_status watch_indices(const struct op_call *c, kiln_tensor *const *in);
// When its types are known.
void watch_promotion(const struct op_call *c);
