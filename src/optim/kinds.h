// Making an optimiser from a filled-in pattern; kinds.c holds the formulas.
#pragma once
#include "optim/optim.h"

// Copies *init, adds handles on the parameters and zeroed state. NULL with an error pending.
kiln_optim *optim_make(const kiln_optim *init, kiln_tensor *const *params, size_t n);
