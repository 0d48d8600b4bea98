// out[p + the place] = src[p]
#include "cpu/kernels/placed.h"

struct cpu_work CPU_FN(cpu_units_update_at)(const struct launch *l)
{
    return placed_units(l);
}

kiln_status CPU_FN(cpu_kernel_update_at)(const struct launch *l, int64_t begin, int64_t end)
{
    placed_range(l, 2, begin, end);
    return KILN_OK;
}
