// Shared by the files of this folder.
#pragma once
#include "base/base.h"
#include <kiln/timing.h>

bool timing_has_clock(kiln_device *dev); // a GPU whose clock answers

// Products that are added in the CPU's registers, of the dtype that the kind names.
struct arithmetic {
    double (*run)(void);
    double operations; // of a run
};
struct arithmetic choose_arithmetic(kiln_ceiling kind);

// Of the CPU, all but launches: bytes or operations a second; NaN with an error when memory is out.
double ceiling_of_cpu(kiln_ceiling kind, double bytes);
