// out = a b for one class, in plain loops: integers always, floats where there is no BLAS. In: T, NAME. The operands
// are dense: a is rows x k, b is k x n, out is rows x n.
//
// Four rows of `a` are taken through a band of `b` that stays in the cache, so that each element of b that is loaded
// serves four products, and the innermost loop runs along contiguous rows of b and of out.
static void NAME(const T *a, int64_t ld_a, const T *b, int64_t ld_b, T *out, int64_t ld_out, int64_t rows, int64_t n,
                 int64_t k)
{
    enum { BAND_K = 128, BAND_N = 512 };
    for (int64_t r = 0; r < rows; r++) memset(out + r * ld_out, 0, (size_t)n * sizeof(T));
    for (int64_t n0 = 0; n0 < n; n0 += BAND_N)
        for (int64_t k0 = 0; k0 < k; k0 += BAND_K) {
            int64_t n1 = n0 + BAND_N < n ? n0 + BAND_N : n, k1 = k0 + BAND_K < k ? k0 + BAND_K : k, r = 0;
            for (; r + 4 <= rows; r += 4) {
                T *y0 = out + r * ld_out, *y1 = y0 + ld_out, *y2 = y1 + ld_out, *y3 = y2 + ld_out;
                const T *x = a + r * ld_a;
                for (int64_t i = k0; i < k1; i++) {
                    const T *z = b + i * ld_b, x0 = x[i], x1 = x[i + ld_a], x2 = x[i + 2 * ld_a], x3 = x[i + 3 * ld_a];
#pragma omp simd
                    for (int64_t c = n0; c < n1; c++) {
                        y0[c] += x0 * z[c];
                        y1[c] += x1 * z[c];
                        y2[c] += x2 * z[c];
                        y3[c] += x3 * z[c];
                    }
                }
            }
            for (; r < rows; r++)
                for (int64_t i = k0; i < k1; i++) {
                    const T *z = b + i * ld_b, x0 = a[r * ld_a + i];
                    T *y = out + r * ld_out;
#pragma omp simd
                    for (int64_t c = n0; c < n1; c++) y[c] += x0 * z[c];
                }
        }
}
#undef T
#undef NAME
