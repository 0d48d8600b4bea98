// The loops of convolution in one class: rows of columns where pixels lie side by side, columns added back into an
// image, and the product where there is no BLAS. In: T, ROWS, SCATTER, LOOPS.

// What one tap meets along output rows [y0, y1) of a channel; `plane` is its pixel (0, 0), its rows are `pitch` apart.
// A short row is copied as one or two full vectors where the plane has that many pixels left: what it writes past its
// end the next row overwrites, and the last one falls into the scratch behind the columns.
static void ROWS(const struct conv *v, const T *plane, int64_t pitch, int64_t ky, int64_t kx, int64_t y0, int64_t y1,
                 T *dst)
{
    enum { VECTOR = 64 / sizeof(T) };
    int64_t lo, hi, ow = v->ow, step = v->sw, end = v->h * pitch;
    conv_inside(v, kx, &lo, &hi);
    for (int64_t y = y0; y < y1; y++, dst += ow) {
        int64_t iy = y * v->sh - v->ph + ky * v->dh;
        bool meets = iy >= 0 && iy < v->h;
        int64_t at = iy * pitch + kx * v->dw - v->pw, from = meets ? lo : ow, to = meets ? hi : ow, n = to - from;
        const T *src = plane + at;
        if (step == 1 && n <= VECTOR && n > 0 && at + from + VECTOR <= end)
            memcpy(dst + from, src + from, 64);
        else if (step == 1 && n <= 2 * VECTOR && n > 0 && at + from + 2 * VECTOR <= end)
            memcpy(dst + from, src + from, 128);
        else if (step == 1)
            for (int64_t x = from; x < to; x++) dst[x] = src[x];
        else
            for (int64_t x = from; x < to; x++) dst[x] = src[x * step];
        for (int64_t x = 0; x < from; x++) dst[x] = 0;
        for (int64_t x = to; x < ow; x++) dst[x] = 0;
    }
}

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
#undef ROWS
#undef SCATTER
#undef LOOPS
