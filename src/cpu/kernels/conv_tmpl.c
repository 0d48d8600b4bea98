// The loops of convolution in one class: columns added back into an image, and the product where there is no BLAS. In:
// T, SCATTER, LOOPS.
static void SCATTER(const struct conv *v, int64_t kx, int64_t iy, const T *src, T *plane)
{
    int64_t lo, hi;
    conv_inside(v, kx, &lo, &hi);
    T *dst = plane + iy * v->w + kx * v->dw - v->pw;
    if (v->sw == 1)
        for (int64_t x = lo; x < hi; x++) dst[x] += src[x];
    else
        for (int64_t x = lo; x < hi; x++) dst[x * v->sw] += src[x];
}

static void LOOPS(bool ta, bool tb, int64_t m, int64_t n, int64_t k, const T *a, int64_t lda, const T *b, int64_t ldb,
                  bool add, T *c, int64_t ldc)
{
    for (int64_t i = 0; i < m; i++) {
        if (!add) memset(c + i * ldc, 0, (size_t)n * sizeof(T));
        for (int64_t p = 0; p < k; p++) {
            T s = ta ? a[p * lda + i] : a[i * lda + p];
            for (int64_t j = 0; j < n; j++) c[i * ldc + j] += s * (tb ? b[j * ldb + p] : b[p * ldb + j]);
        }
    }
}
#undef T
#undef SCATTER
#undef LOOPS
