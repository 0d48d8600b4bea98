// Cholesky factors. Operands: x, out. Variant 0: the upper one.
#include "cpu/kernels/matrices.h"

struct cpu_work CPU_FN(cpu_units_cholesky)(const struct launch *l)
{
    return matrices_units(l);
}

// The order of the first leading minor that is not above 0; a NaN passes through LAPACK's own check.
static int order_of_failure(const struct matrices *b, const void *a, int info)
{
    for (int i = 0; i < b->n && !info; i++)
        if (!(matrices_get(b, a, (int64_t)i * b->n + i) > 0)) info = i + 1;
    return info;
}

static kiln_status factor(struct matrices *b, void *a, bool upper)
{
    int info = 0;
    int64_t n = b->n;
    matrices_load(b, 0, a, n, n);
    b->lapack->potrf(upper ? "U" : "L", &b->n, a, &b->n, &info, 1);
    info = order_of_failure(b, a, info);
    if (info) {
        char what[100];
        snprintf(what, sizeof what, "is not positive definite: its leading minor of order %d is not above 0", info);
        TRY(matrices_fail(b, "x", what));
        matrices_fill(b, a, n * n, (double)NAN);
    }
    for (int64_t j = 0; j < n && !info; j++)
        for (int64_t i = upper ? j + 1 : 0; i < (upper ? n : j); i++) matrices_set(b, a, j * n + i, 0);
    matrices_store(b, 1, a, n, n, n);
    return KILN_OK;
}

kiln_status CPU_FN(cpu_kernel_cholesky)(const struct launch *l, int64_t begin, int64_t end)
{
    struct matrices b;
    TRY(matrices_start(&b, l, begin));
    void *a;
    kiln_status status = matrices_scratch(1, (size_t[]){(size_t)b.n * (size_t)b.n * b.size_B}, &a);
    for (; begin < end && !status; begin++, matrices_next(&b)) status = factor(&b, a, l->variant[0] != 0);
    return matrices_finish(&b, status);
}
