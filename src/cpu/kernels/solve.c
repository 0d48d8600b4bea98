// Solutions of a x = b, by LU. Operands: a, b, out; without b: the inverse of a.
#include "cpu/kernels/matrices.h"

struct cpu_work CPU_FN(cpu_units_solve)(const struct launch *l)
{
    return matrices_units(l);
}

static void load_right_side(const struct matrices *b, void *x)
{
    if (matrices_has(b, 1))
        matrices_load(b, 1, x, b->n, b->k);
    else
        matrices_identity(b, x, b->n);
}

// A matrix whose rows follow each other is in column order its own transpose: it is that which is decomposed, but of a
// small matrix, where the other way is as fast. false: it is singular, which the other way tells of, by the pivots of
// the matrix itself.
static bool solve_transposed(struct matrices *b, void *a, void *x, int *pivots)
{
    int info = 0, n = b->n, k = b->k;
    if (n <= MATRIX_SMALL || matrices_stride(b, 0, true) != 1) return false;
    matrices_load_transposed(b, 0, a, n, n);
    b->lapack->getrf(&n, &n, a, &n, pivots, &info);
    if (info > 0) return false;
    load_right_side(b, x);
    b->lapack->getrs("T", &n, &k, a, &n, pivots, x, &n, &info, 1);
    return true;
}

static kiln_status solve_as_it_lies(struct matrices *b, void *a, void *x, int *pivots)
{
    int info = 0, n = b->n, k = b->k;
    matrices_load(b, 0, a, n, n);
    load_right_side(b, x);
    b->lapack->getrf(&n, &n, a, &n, pivots, &info);
    if (info > 0) {
        char what[80];
        snprintf(what, sizeof what, "is singular: pivot %d of %d is 0", info, n);
        TRY(matrices_fail(b, matrices_has(b, 1) ? "a" : "x", what));
        matrices_fill(b, x, (int64_t)n * k, (double)NAN);
    } else
        b->lapack->getrs("N", &n, &k, a, &n, pivots, x, &n, &info, 1);
    return KILN_OK;
}

static kiln_status solve(struct matrices *b, void *a, void *x, int *pivots)
{
    if (!solve_transposed(b, a, x, pivots)) TRY(solve_as_it_lies(b, a, x, pivots));
    matrices_store(b, 2, x, b->n, b->n, b->k);
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
