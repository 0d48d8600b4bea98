// LU with pivots: x = p l u. Operands: x, p, l, u.
#include "cpu/kernels/matrices.h"

struct cpu_work CPU_FN(cpu_units_lu)(const struct launch *l)
{
    return matrices_units(l);
}

struct lu {
    void *a, *p, *l, *u;
    int *pivots, *rows;
};

static kiln_status prepare(struct matrices *b, struct lu *f)
{
    size_t m = (size_t)b->m, n = (size_t)b->n, k = (size_t)b->k, size_B = b->size_B;
    void *parts[6];
    TRY(matrices_scratch(
        6, (size_t[]){m * n * size_B, m * m * size_B, m * k * size_B, k * n * size_B, k * sizeof(int), m * sizeof(int)},
        parts));
    *f = (struct lu){parts[0], parts[1], parts[2], parts[3], parts[4], parts[5]};
    return KILN_OK;
}

// Row i of l u is row rows[i] of x.
static void permutation(const struct matrices *b, const struct lu *f)
{
    int64_t m = b->m;
    for (int i = 0; i < b->m; i++) f->rows[i] = i;
    for (int i = 0; i < b->k; i++) {
        int other = f->pivots[i] - 1, row = f->rows[i];
        f->rows[i] = f->rows[other];
        f->rows[other] = row;
    }
    matrices_fill(b, f->p, m * m, 0);
    for (int64_t i = 0; i < m; i++) matrices_set(b, f->p, i * m + f->rows[i], 1);
}

static void decompose(struct matrices *b, struct lu *f)
{
    int info = 0;
    int64_t m = b->m, n = b->n, k = b->k;
    matrices_load(b, 0, f->a, m, n);
    if (k) b->lapack->getrf(&b->m, &b->n, f->a, &b->m, f->pivots, &info);
    permutation(b, f);
    for (int64_t j = 0; j < k; j++)
        for (int64_t i = 0; i < m; i++)
            matrices_set(b, f->l, j * m + i, i == j ? 1 : i > j ? matrices_get(b, f->a, j * m + i) : 0);
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < k; i++) matrices_set(b, f->u, j * k + i, i <= j ? matrices_get(b, f->a, j * m + i) : 0);
    matrices_store(b, 1, f->p, m, m, m);
    matrices_store(b, 2, f->l, m, m, k);
    matrices_store(b, 3, f->u, k, k, n);
}

kiln_status CPU_FN(cpu_kernel_lu)(const struct launch *l, int64_t begin, int64_t end)
{
    struct matrices b;
    struct lu f;
    TRY(matrices_start(&b, l, begin));
    b.k = b.m < b.n ? b.m : b.n;
    kiln_status status = prepare(&b, &f);
    for (; begin < end && !status; begin++, matrices_next(&b)) decompose(&b, &f);
    return matrices_finish(&b, status);
}
