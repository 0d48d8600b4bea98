// QR by Householder reflections. Operands: x, q, r. Variant 0: all columns of q.
#include "cpu/kernels/matrices.h"

struct cpu_work CPU_FN(cpu_units_qr)(const struct launch *l)
{
    return matrices_units(l);
}

struct qr {
    int cols, lwork; // of q
    void *a, *r, *tau, *work;
};

static kiln_status prepare(struct matrices *b, struct qr *q)
{
    double wanted[2] = {0}, none[2] = {0};
    int info = 0, query = -1, most = 1, ld = b->m ? b->m : 1;
    *q = (struct qr){.cols = b->l->variant[0] ? b->m : b->k};
    b->lapack->geqrf(&b->m, &b->n, none, &ld, none, wanted, &query, &info);
    TRY(matrices_work(b, wanted, &most));
    b->lapack->orgqr(&b->m, &q->cols, &b->k, none, &ld, none, wanted, &query, &info);
    TRY(matrices_work(b, wanted, &q->lwork));
    if (most > q->lwork) q->lwork = most;
    size_t m = (size_t)b->m, n = (size_t)b->n, cols = (size_t)q->cols, size_B = b->size_B;
    void *parts[4];
    TRY(matrices_scratch(4,
                         (size_t[]){m * (n > cols ? n : cols) * size_B, cols * n * size_B, (size_t)b->k * size_B,
                                    (size_t)q->lwork * size_B},
                         parts));
    q->a = parts[0], q->r = parts[1], q->tau = parts[2], q->work = parts[3];
    return KILN_OK;
}

static void decompose(struct matrices *b, struct qr *q)
{
    int info = 0, ld = b->m ? b->m : 1;
    int64_t m = b->m, n = b->n, cols = q->cols;
    matrices_load(b, 0, q->a, m, n);
    if (b->k) b->lapack->geqrf(&b->m, &b->n, q->a, &ld, q->tau, q->work, &q->lwork, &info);
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < cols; i++)
            matrices_set(b, q->r, j * cols + i, i <= j ? matrices_get(b, q->a, j * m + i) : 0);
    matrices_store(b, 2, q->r, cols, cols, n);
    if (b->k)
        b->lapack->orgqr(&b->m, &q->cols, &b->k, q->a, &ld, q->tau, q->work, &q->lwork, &info);
    else
        matrices_identity(b, q->a, cols);
    matrices_store(b, 1, q->a, m, m, cols);
}

kiln_status CPU_FN(cpu_kernel_qr)(const struct launch *l, int64_t begin, int64_t end)
{
    struct matrices b;
    struct qr q;
    TRY(matrices_start(&b, l, begin));
    b.k = b.m < b.n ? b.m : b.n;
    kiln_status status = prepare(&b, &q);
    for (; begin < end && !status; begin++, matrices_next(&b)) decompose(&b, &q);
    return matrices_finish(&b, status);
}
