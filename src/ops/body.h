// The body of a kernel of the catalogue, while the program runs: what fusion puts together.
#pragma once
#include "base/arena.h"
#include "ir/launch.h"
#include "scalar/scalar.h"

// The expanded expression of a POINTWISE or ROW kernel over its inputs, then its run-time scalars (SCALAR_INPUT).
// Parsed at the first use and kept for the life of the process; NULL with an error for other kernels. Safe from any
// thread.
const struct scalar_dag *kernel_body(kernel_id k);
