// Eigenvalues and eigenvectors of real matrices, by QR of the Hessenberg form. Operands: x, the real and the imaginary
// parts of the values, those of the vectors (may be left out).
#include "cpu/kernels/matrices.h"

struct cpu_work CPU_FN(cpu_units_eig)(const struct launch *l)
{
    return matrices_units(l);
}

struct eig {
    void *a, *wr, *wi, *vr, *vi, *work;
    int lwork;
};

static void call(struct matrices *b, struct eig *e, int *info)
{
    int one = 1;
    bool vectors = matrices_has(b, 3) || matrices_has(b, 4);
    b->lapack->geev("N", vectors ? "V" : "N", &b->n, e->a, &b->n, e->wr, e->wi, NULL, &one, e->vr, &b->n, e->work,
                    &e->lwork, info, 1, 1);
}

static kiln_status prepare(struct matrices *b, struct eig *e)
{
    double wanted[2] = {0}, none[2] = {0};
    int info = 0;
    size_t n = (size_t)b->n, size_B = b->size_B;
    *e = (struct eig){.a = none, .wr = none, .wi = none, .vr = none, .vi = none, .work = wanted, .lwork = -1};
    call(b, e, &info);
    TRY(matrices_work(b, wanted, &e->lwork));
    void *parts[6];
    TRY(matrices_scratch(
        6,
        (size_t[]){n * n * size_B, n * size_B, n * size_B, n * n * size_B, n * n * size_B, (size_t)e->lwork * size_B},
        parts));
    e->a = parts[0], e->wr = parts[1], e->wi = parts[2], e->vr = parts[3], e->vi = parts[4], e->work = parts[5];
    return KILN_OK;
}

// Two columns stand for a pair: their sum with i, and its conjugate.
static void unfold(const struct matrices *b, const struct eig *e)
{
    int64_t n = b->n;
    matrices_fill(b, e->vi, n * n, 0);
    for (int64_t j = 0; j + 1 < n; j++) {
        if (matrices_get(b, e->wi, j) == 0) continue;
        for (int64_t i = 0; i < n; i++) {
            double im = matrices_get(b, e->vr, (j + 1) * n + i);
            matrices_set(b, e->vr, (j + 1) * n + i, matrices_get(b, e->vr, j * n + i));
            matrices_set(b, e->vi, j * n + i, im);
            matrices_set(b, e->vi, (j + 1) * n + i, -im);
        }
        j++;
    }
}

static kiln_status decompose(struct matrices *b, struct eig *e)
{
    int info = 0;
    int64_t n = b->n;
    matrices_load(b, 0, e->a, n, n);
    bool finite = matrices_are_finite(b, e->a, n * n);
    if (finite) call(b, e, &info);
    if (!finite || info) {
        TRY(matrices_fail(b, "x",
                          finite ? "has eigenvalues that were not found" : "holds a number that is not finite"));
        matrices_fill(b, e->wr, n, (double)NAN);
        matrices_fill(b, e->wi, n, (double)NAN);
        matrices_fill(b, e->vr, n * n, (double)NAN);
        matrices_fill(b, e->vi, n * n, (double)NAN);
    } else if (matrices_has(b, 3) || matrices_has(b, 4))
        unfold(b, e);
    matrices_store(b, 1, e->wr, n, n, 1);
    matrices_store(b, 2, e->wi, n, n, 1);
    matrices_store(b, 3, e->vr, n, n, n);
    matrices_store(b, 4, e->vi, n, n, n);
    return KILN_OK;
}

kiln_status CPU_FN(cpu_kernel_eig)(const struct launch *l, int64_t begin, int64_t end)
{
    struct matrices b;
    struct eig e;
    TRY(matrices_start(&b, l, begin));
    kiln_status status = prepare(&b, &e);
    for (; begin < end && !status; begin++, matrices_next(&b)) status = decompose(&b, &e);
    return matrices_finish(&b, status);
}
