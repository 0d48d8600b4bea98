// What losses share.
#pragma once
#include "compose/composite.h"
#include "base/dtype.h"

#include <kiln/nn.h>
#include <math.h>

bool loss_reduction_is(int64_t reduction, const kiln_tensor *x);
// Sound arguments: a target that broadcasts to x, not the other way round, which is a usual slip.
bool loss_fits(const char *name, kiln_tensor *target, kiln_tensor *x, int64_t reduction);
bool loss_positive(const char *name, double v, bool or_zero);
bool loss_labels(kiln_tensor *x, kiln_tensor *labels, int64_t reduction); // x [N, C, ...] and integers [N, ...]
kiln_tensor *loss_reduce(kiln_tensor *t, int64_t reduction);
kiln_tensor *loss_above(kiln_tensor *t); // max(t, 0)
