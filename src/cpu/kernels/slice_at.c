// out[p] = x[p + the place]
#include "cpu/kernels/placed.h"

struct cpu_work CPU_FN(cpu_units_slice_at)(const struct launch *l)
{
    return placed_units(l);
}

kiln_status CPU_FN(cpu_kernel_slice_at)(const struct launch *l, int64_t begin, int64_t end)
{
    placed_range(l, 0, begin, end);
    return KILN_OK;
}
