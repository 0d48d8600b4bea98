// Determinants, by LU. Operands: x, out; or x, the sign, the logarithm of the size.
#include "cpu/kernels/matrices.h"

struct cpu_work CPU_FN(cpu_units_determinant)(const struct launch *l)
{
    return matrices_units(l);
}

// A product of pivots overflows nowhere on the way: its exponent is apart.
static void determinant(struct matrices *b, void *a, int *pivots)
{
    int info = 0, n = b->n;
    double product = 1, log_size = 0, sign = 1;
    int64_t exponent = 0;
    matrices_load(b, 0, a, n, n);
    b->lapack->getrf(&n, &n, a, &n, pivots, &info);
    for (int i = 0; i < n; i++) {
        double pivot = matrices_get(b, a, (int64_t)i * n + i) * (pivots[i] == i + 1 ? 1 : -1);
        int part = 0;
        sign = isnan(pivot) ? pivot : sign * (pivot < 0 ? -1 : pivot > 0 ? 1 : 0);
        log_size += log(fabs(pivot));
        product = frexp(product * pivot, &part);
        exponent += isfinite(product) ? part : 0;
    }
    if (exponent > 5000) exponent = 5000;
    if (exponent < -5000) exponent = -5000;
    bool logs = matrices_has(b, 2);
    matrices_set(b, a, 0, logs ? sign : ldexp(product, (int)exponent));
    matrices_store(b, 1, a, 1, 1, 1);
    matrices_set(b, a, 0, sign == 0 ? (double)-INFINITY : log_size);
    matrices_store(b, 2, a, 1, 1, 1);
}

kiln_status CPU_FN(cpu_kernel_determinant)(const struct launch *l, int64_t begin, int64_t end)
{
    struct matrices b;
    TRY(matrices_start(&b, l, begin));
    void *parts[2];
    size_t n = (size_t)b.n;
    kiln_status status = matrices_scratch(2, (size_t[]){n * n * b.size_B, n * sizeof(int)}, parts);
    for (; begin < end && !status; begin++, matrices_next(&b)) determinant(&b, parts[0], parts[1]);
    return matrices_finish(&b, status);
}
