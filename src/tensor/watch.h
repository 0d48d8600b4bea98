// KILN_DEBUG=nan: an op that gives what is no finite number for inputs that are numbers says so.
#pragma once
#include "tensor/tensor.h"

#include <stdatomic.h>

extern atomic_int watch_known; // -1: the environment has not been asked
bool watch_ask(void);
static inline bool values_watched(void)
{
    int known = atomic_load_explicit(&watch_known, memory_order_relaxed);
    return known < 0 ? watch_ask() : known;
}

struct watched;
// Before the op runs, for it may write its inputs. NULL: there is nothing to watch.
struct watched *watch_inputs(const struct op_call *c, kiln_tensor *const *in);
// After it; ends the watch. Waits for the device.
void watch_outputs(struct watched *w, const struct op_call *c, kiln_tensor *const *out, kiln_status status);
