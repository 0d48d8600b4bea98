// Singular values and vectors, by divide and conquer. Operands: x, s, u, vh; the last two may be left out. Variant 0:
// all rows and columns of u and vh.
#include "cpu/kernels/matrices.h"

struct cpu_work CPU_FN(cpu_units_svd)(const struct launch *l)
{
    return matrices_units(l);
}

struct svd {
    const char *job;
    int u_cols, vh_rows, lwork, *iwork;
    void *a, *s, *u, *vh, *work;
};

static void call(struct matrices *b, struct svd *d, int *info)
{
    b->lapack->gesdd(d->job, &b->m, &b->n, d->a, &b->m, d->s, d->u, &b->m, d->vh, &d->vh_rows, d->work, &d->lwork,
                     d->iwork, info, 1);
}

static kiln_status prepare(struct matrices *b, struct svd *d)
{
    double wanted[2] = {0}, none[2] = {0};
    int info = 0, inone[2];
    bool full = b->l->variant[0] != 0, vectors = matrices_has(b, 2) || matrices_has(b, 3);
    *d = (struct svd){.job = !vectors ? "N" : full ? "A" : "S", .lwork = -1, .iwork = inone};
    d->u_cols = full ? b->m : b->k;
    d->vh_rows = full ? b->n : b->k;
    d->a = d->s = d->u = d->vh = none;
    d->work = wanted;
    if (b->k) call(b, d, &info);
    TRY(matrices_work(b, wanted, &d->lwork));
    size_t m = (size_t)b->m, n = (size_t)b->n, k = (size_t)b->k, size_B = b->size_B;
    void *parts[6];
    TRY(matrices_scratch(6,
                         (size_t[]){m * n * size_B, k * size_B, vectors ? m * (size_t)d->u_cols * size_B : size_B,
                                    vectors ? (size_t)d->vh_rows * n * size_B : size_B, (size_t)d->lwork * size_B,
                                    8 * k * sizeof(int)},
                         parts));
    d->a = parts[0], d->s = parts[1], d->u = parts[2], d->vh = parts[3], d->work = parts[4], d->iwork = parts[5];
    return KILN_OK;
}

static kiln_status decompose(struct matrices *b, struct svd *d)
{
    int64_t m = b->m, n = b->n, k = b->k;
    int info = 0;
    matrices_load(b, 0, d->a, m, n);
    bool finite = k == 0 || matrices_are_finite(b, d->a, m * n);
    if (k == 0) { // no columns or no rows: what is left are identities
        if (matrices_has(b, 2)) matrices_identity(b, d->u, m);
        if (matrices_has(b, 3)) matrices_identity(b, d->vh, n);
    } else if (finite)
        call(b, d, &info);
    if (!finite || info) {
        TRY(matrices_fail(b, "x",
                          finite ? "has singular values that were not found" : "holds a number that is not finite"));
        matrices_fill(b, d->s, k, (double)NAN);
        if (matrices_has(b, 2)) matrices_fill(b, d->u, m * d->u_cols, (double)NAN);
        if (matrices_has(b, 3)) matrices_fill(b, d->vh, d->vh_rows * n, (double)NAN);
    }
    matrices_store(b, 1, d->s, k, k, 1);
    matrices_store(b, 2, d->u, m, m, d->u_cols);
    matrices_store(b, 3, d->vh, d->vh_rows, d->vh_rows, n);
    return KILN_OK;
}

kiln_status CPU_FN(cpu_kernel_svd)(const struct launch *l, int64_t begin, int64_t end)
{
    struct matrices b;
    struct svd d;
    TRY(matrices_start(&b, l, begin));
    b.k = b.m < b.n ? b.m : b.n;
    kiln_status status = prepare(&b, &d);
    for (; begin < end && !status; begin++, matrices_next(&b)) status = decompose(&b, &d);
    return matrices_finish(&b, status);
}
