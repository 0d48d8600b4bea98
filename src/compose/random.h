// What distributions are made of.
#pragma once
#include "compose/composite.h"

#include <math.h>

kiln_dtype random_wide(kiln_dtype dtype); // in which what is to be of a dtype is computed
// In (0, 1), with neither end, so that logarithms are finite.
kiln_tensor *random_open(kiln_device *dev, kiln_dtype wide, size_t rank, const int64_t *dims);
kiln_tensor *random_exponential(kiln_device *dev, kiln_dtype wide, size_t rank, const int64_t *dims);
kiln_tensor *random_gumbel(kiln_device *dev, kiln_dtype wide, size_t rank, const int64_t *dims);
bool random_positive(const char *name, double v);
