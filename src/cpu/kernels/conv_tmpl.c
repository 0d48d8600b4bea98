// The loops of convolution in one class: rows of columns where pixels lie side by side, columns added back into an
// image, the product where there is no BLAS, and outputs without columns. In: T, VECTOR, ROWS, SCATTER, LOOPS, FILL,
// SUM, SUMS, DOT, FINITE, MULADD, and ALL: a number as MULADD takes it for all lanes.

// What one tap meets along output rows [y0, y1) of a channel; `plane` is its pixel (0, 0), its rows are `pitch` apart.
// A short row is copied as one or two full vectors where the plane has that many pixels left: what it writes past its
// end the next row overwrites, and the last one falls into the scratch behind the columns.
static void ROWS(const struct conv *v, const T *plane, int64_t pitch, int64_t ky, int64_t kx, int64_t y0, int64_t y1,
                 T *dst)
{
    enum { LANES = 64 / sizeof(T) };
    int64_t lo, hi, ow = v->ow, step = v->sw, end = v->h * pitch;
    conv_inside(v, kx, &lo, &hi);
    for (int64_t y = y0; y < y1; y++, dst += ow) {
        int64_t iy = y * v->sh - v->ph + ky * v->dh;
        bool meets = iy >= 0 && iy < v->h;
        int64_t at = iy * pitch + kx * v->dw - v->pw, from = meets ? lo : ow, to = meets ? hi : ow, n = to - from;
        const T *src = plane + at;
        if (step == 1 && n <= LANES && n > 0 && at + from + LANES <= end)
            memcpy(dst + from, src + from, 64);
        else if (step == 1 && n <= 2 * LANES && n > 0 && at + from + 2 * LANES <= end)
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

// The rows that outputs [y0, ...) of a channel meet, by phases: what is `sh` rows or `sw` columns apart lies side by
// side. Meanwhile what lies ahead_B behind, which is filled in next, is asked of memory.
static void FILL(const struct conv *v, const struct conv_phases *f, const T *plane, int64_t pitch, int64_t y0,
                 int64_t ahead_B, T *to)
{
    for (int64_t phase = 0; phase < v->sh * v->sw; phase++) {
        int64_t down = y0 * v->sh - v->ph + phase / v->sw, right = phase % v->sw - v->pw, first, past;
        first = right >= 0 ? 0 : (-right + v->sw - 1) / v->sw;
        past = right >= v->w ? 0 : (v->w - right + v->sw - 1) / v->sw;
        if (past > f->columns) past = f->columns;
        for (int64_t r = 0; r < f->rows; r++, to += f->columns) {
            int64_t iy = down + r * v->sh;
            bool meets = iy >= 0 && iy < v->h && first < past;
            int64_t at = iy * pitch + right, from = meets ? first : f->columns, end = meets ? past : f->columns;
            fetch((const char *)(plane + at + from * v->sw) + ahead_B, (end - from) * v->sw * (int64_t)sizeof(T));
            for (int64_t x = 0; x < from; x++) to[x] = 0;
            if (v->sw == 1)
                for (int64_t x = from; x < end; x++) to[x] = plane[at + x];
            else
                for (int64_t x = from; x < end; x++) to[x] = plane[at + x * v->sw];
            for (int64_t x = end; x < f->columns; x++) to[x] = 0;
        }
    }
}

typedef T VECTOR __attribute__((vector_size(CONV_VECTOR_B), aligned(sizeof(T)), may_alias));

// y[i] = (add ? y[i] : 0) + the sum of weight[t] * x[offsets[t] + i] for `n` vectors of i, a constant where this is
// inlined: their sums stay in registers.
static inline __attribute__((always_inline)) void SUM(const T *weight, const int64_t *offsets, int64_t taps, const T *x,
                                                      bool add, T *y, const int n)
{
    VECTOR s[CONV_AT_ONCE], *to = (VECTOR *)y;
    for (int i = 0; i < n; i++) s[i] = add ? to[i] : (VECTOR){0};
    for (int64_t t = 0; t < taps; t++) {
        const VECTOR *from = (const VECTOR *)(x + offsets[t]);
#pragma GCC unroll 8
        for (int i = 0; i < n; i++) s[i] = MULADD(ALL(weight[t]), from[i], s[i]);
    }
    for (int i = 0; i < n; i++) to[i] = s[i];
}

// The same for n elements, and some behind them.
static void SUMS(const T *weight, const int64_t *offsets, int64_t taps, const T *x, int64_t n, bool add, T *y)
{
    enum { LANES = CONV_VECTOR_B / sizeof(T), MOST = CONV_AT_ONCE * LANES, HALF = MOST / 2 };
    int64_t i = 0;
    for (; i + MOST <= n; i += MOST) SUM(weight, offsets, taps, x + i, add, y + i, CONV_AT_ONCE);
    for (; i + HALF <= n; i += HALF) SUM(weight, offsets, taps, x + i, add, y + i, CONV_AT_ONCE / 2);
    for (; i < n; i += LANES) SUM(weight, offsets, taps, x + i, add, y + i, 1);
}

// The sum of x[i] * y[i], in an order that n alone decides.
static T DOT(const T *x, const T *y, int64_t n)
{
    enum { LANES = CONV_VECTOR_B / sizeof(T) };
    VECTOR s[4] = {0};
    int64_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES)
        for (int k = 0; k < 4; k++) s[k] = MULADD(((const VECTOR *)(x + i))[k], ((const VECTOR *)(y + i))[k], s[k]);
    T sum = 0;
    for (; i < n; i++) sum += x[i] * y[i];
    VECTOR all = (s[0] + s[1]) + (s[2] + s[3]);
    for (int k = 0; k < LANES; k++) sum += all[k];
    return sum;
}

static bool FINITE(const T *x, int64_t n)
{
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += x[i] - x[i];
    return sum == 0;
}
#undef DOT
#undef MULADD
#undef ALL
#undef FINITE
#undef T
#undef ROWS
#undef SCATTER
#undef LOOPS
#undef VECTOR
#undef FILL
#undef SUM
#undef SUMS
