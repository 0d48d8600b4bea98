// y = a x for one class of floats, where the matrix is small. In: T, NAME. a is m x k, along whose rows elements follow
// each other; `by_columns`: along whose columns. x is dense, y has steps of ld_y.
static void NAME(const T *restrict a, int64_t ld_a, bool by_columns, const T *restrict x, T *restrict y, int64_t ld_y,
                 int64_t m, int64_t k)
{
    enum { BLOCK = 16 };
    int64_t r = 0;
    for (; !by_columns && r + 4 <= m; r += 4) {
        const T *a0 = a + r * ld_a, *a1 = a0 + ld_a, *a2 = a1 + ld_a, *a3 = a2 + ld_a;
        T s0 = 0, s1 = 0, s2 = 0, s3 = 0;
#pragma omp simd reduction(+ : s0, s1, s2, s3)
        for (int64_t c = 0; c < k; c++) {
            s0 += a0[c] * x[c];
            s1 += a1[c] * x[c];
            s2 += a2[c] * x[c];
            s3 += a3[c] * x[c];
        }
        y[r * ld_y] = s0, y[(r + 1) * ld_y] = s1, y[(r + 2) * ld_y] = s2, y[(r + 3) * ld_y] = s3;
    }
    for (; !by_columns && r < m; r++) {
        const T *a0 = a + r * ld_a;
        T s = 0;
#pragma omp simd reduction(+ : s)
        for (int64_t c = 0; c < k; c++) s += a0[c] * x[c];
        y[r * ld_y] = s;
    }
    for (; r + BLOCK <= m; r += BLOCK) {
        T s[BLOCK] = {0};
        for (int64_t c = 0; c < k; c++)
#pragma omp simd
            for (int i = 0; i < BLOCK; i++) s[i] += a[c * ld_a + r + i] * x[c];
        for (int i = 0; i < BLOCK; i++) y[(r + i) * ld_y] = s[i];
    }
    for (; r < m; r++) {
        T s = 0;
        for (int64_t c = 0; c < k; c++) s += a[c * ld_a + r] * x[c];
        y[r * ld_y] = s;
    }
}
#undef T
#undef NAME
