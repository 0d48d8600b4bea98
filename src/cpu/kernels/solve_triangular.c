// Solutions of a x = b, a triangular. Operands: a, b, out. Variants: the upper triangle; a transposed; ones on the
// diagonal.
#include "cpu/kernels/matrices.h"

struct cpu_work CPU_FN(cpu_units_solve_triangular)(const struct launch *l)
{
    return matrices_units(l);
}

static kiln_status solve(struct matrices *b, void *a, void *x)
{
    int info = 0, n = b->n, k = b->k;
    const uint32_t *variant = b->l->variant;
    matrices_load(b, 0, a, n, n);
    matrices_load(b, 1, x, n, k);
    b->lapack->trtrs(variant[0] ? "U" : "L", variant[1] ? "T" : "N", variant[2] ? "U" : "N", &n, &k, a, &n, x, &n,
                     &info, 1, 1, 1);
    if (info > 0) {
        char what[80];
        snprintf(what, sizeof what, "is singular: element %d of its diagonal is 0", info - 1);
        TRY(matrices_fail(b, "a", what));
        matrices_fill(b, x, (int64_t)n * k, (double)NAN);
    }
    matrices_store(b, 2, x, n, n, k);
    return KILN_OK;
}

kiln_status CPU_FN(cpu_kernel_solve_triangular)(const struct launch *l, int64_t begin, int64_t end)
{
    struct matrices b;
    TRY(matrices_start(&b, l, begin));
    void *parts[2];
    size_t n = (size_t)b.n;
    kiln_status status = matrices_scratch(2, (size_t[]){n * n * b.size_B, n * (size_t)b.k * b.size_B}, parts);
    for (; begin < end && !status; begin++, matrices_next(&b)) status = solve(&b, parts[0], parts[1]);
    return matrices_finish(&b, status);
}
