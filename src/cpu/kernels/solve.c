// Solutions of a x = b, by LU. Operands: a, b, out; without b: the inverse of a.
#include "cpu/kernels/matrices.h"

struct cpu_work CPU_FN(cpu_units_solve)(const struct launch *l)
{
    return matrices_units(l);
}

static kiln_status solve(struct matrices *b, void *a, void *x, int *pivots)
{
    int info = 0, n = b->n, k = b->k;
    matrices_load(b, 0, a, n, n);
    if (matrices_has(b, 1))
        matrices_load(b, 1, x, n, k);
    else
        matrices_identity(b, x, n);
    b->lapack->getrf(&n, &n, a, &n, pivots, &info);
    if (info > 0) {
        char what[80];
        snprintf(what, sizeof what, "is singular: pivot %d of %d is 0", info, n);
        TRY(matrices_fail(b, matrices_has(b, 1) ? "a" : "x", what));
        matrices_fill(b, x, (int64_t)n * k, (double)NAN);
    } else
        b->lapack->getrs("N", &n, &k, a, &n, pivots, x, &n, &info, 1);
    matrices_store(b, 2, x, n, n, k);
    return KILN_OK;
}

kiln_status CPU_FN(cpu_kernel_solve)(const struct launch *l, int64_t begin, int64_t end)
{
    struct matrices b;
    TRY(matrices_start(&b, l, begin));
    void *parts[3];
    size_t n = (size_t)b.n;
    kiln_status status =
        matrices_scratch(3, (size_t[]){n * n * b.size_B, n * (size_t)b.k * b.size_B, n * sizeof(int)}, parts);
    for (; begin < end && !status; begin++, matrices_next(&b)) status = solve(&b, parts[0], parts[1], parts[2]);
    return matrices_finish(&b, status);
}
