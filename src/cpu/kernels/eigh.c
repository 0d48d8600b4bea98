// Eigenvalues and eigenvectors of symmetric matrices. Operands: x, values, vectors (may be left out).
#include "cpu/kernels/matrices.h"

struct cpu_work CPU_FN(cpu_units_eigh)(const struct launch *l)
{
    return matrices_units(l);
}

struct eigh {
    void *a, *w, *work;
    int *iwork, lwork, liwork;
};

static void call(struct matrices *b, struct eigh *e, int *info)
{
    b->lapack->syevd(matrices_has(b, 2) ? "V" : "N", "L", &b->n, e->a, &b->n, e->w, e->work, &e->lwork, e->iwork,
                     &e->liwork, info, 1, 1);
}

static kiln_status prepare(struct matrices *b, struct eigh *e)
{
    double wanted[2] = {0}, none[2] = {0};
    int iwanted[2] = {0}, info = 0;
    size_t n = (size_t)b->n;
    *e = (struct eigh){.a = none, .w = none, .work = wanted, .iwork = iwanted, .lwork = -1, .liwork = -1};
    call(b, e, &info);
    TRY(matrices_work(b, wanted, &e->lwork));
    e->liwork = iwanted[0];
    void *parts[4];
    TRY(matrices_scratch(
        4, (size_t[]){n * n * b->size_B, n * b->size_B, (size_t)e->lwork * b->size_B, (size_t)e->liwork * sizeof(int)},
        parts));
    e->a = parts[0], e->w = parts[1], e->work = parts[2], e->iwork = parts[3];
    return KILN_OK;
}

static kiln_status decompose(struct matrices *b, struct eigh *e)
{
    int info = 0;
    int64_t n = b->n;
    matrices_load(b, 0, e->a, n, n);
    for (int64_t j = 1; j < n; j++) // what is not read
        for (int64_t i = 0; i < j; i++) matrices_set(b, e->a, j * n + i, 0);
    bool finite = matrices_are_finite(b, e->a, n * n);
    if (finite) call(b, e, &info);
    if (!finite || info) {
        TRY(matrices_fail(b, "x",
                          finite ? "has eigenvalues that were not found" : "holds a number that is not finite"));
        matrices_fill(b, e->a, n * n, (double)NAN);
        matrices_fill(b, e->w, n, (double)NAN);
    }
    matrices_store(b, 1, e->w, n, n, 1);
    matrices_store(b, 2, e->a, n, n, n);
    return KILN_OK;
}

kiln_status CPU_FN(cpu_kernel_eigh)(const struct launch *l, int64_t begin, int64_t end)
{
    struct matrices b;
    struct eigh e;
    TRY(matrices_start(&b, l, begin));
    kiln_status status = prepare(&b, &e);
    for (; begin < end && !status; begin++, matrices_next(&b)) status = decompose(&b, &e);
    return matrices_finish(&b, status);
}
