// Shared by the files of this folder.
#pragma once
#include "base/base.h"
#include <kiln/timing.h>

enum { CEILING_KINDS = KILN_CEILING_FMA + 1 };

bool timing_has_clock(kiln_device *dev); // a GPU whose clock answers

// Of the CPU: bytes or operations a second; NaN with an error when memory is out.
double ceiling_of_cpu(kiln_ceiling kind, double bytes);
