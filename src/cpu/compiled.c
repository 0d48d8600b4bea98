// Runs a kernel that was compiled at run time over the work units of a launch, split among threads.
#include "cpu/compiled.h"
#include "cpu/parallel.h"

struct compiled {
    cpu_compiled_fn *fn;
    const uint64_t *args;
};

static kiln_status run_range(void *user, int64_t begin, int64_t end)
{
    const struct compiled *c = user;
    c->fn(c->args, begin, end);
    return KILN_OK;
}

kiln_status cpu_run_compiled(cpu_compiled_fn *fn, cpu_compiled_end_fn *end_fn, const uint64_t *args, int64_t units,
                             int64_t unit_cost)
{
    struct compiled c = {fn, args};
    if (units == 1)
        fn(args, 0, 1);
    else
        TRY(cpu_parallel(units, unit_cost, run_range, &c));
    if (end_fn) end_fn(args);
    return KILN_OK;
}
