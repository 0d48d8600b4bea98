// Images into columns and columns back into images, weights as matrices, products: what convolution kernels share.
#include "base/process.h"
#include "cpu/kernels/conv.h"
#if defined(__AVX2__)
#include <immintrin.h>
#endif

// Asks memory for what is read soon, though not next: rows of a plane are too short, and planes too far from each
// other, for the processor to see where it goes on. (gcc takes a call of this for one without effect.)
static inline __attribute__((always_inline)) void fetch(const char *from, int64_t size_B)
{
    enum { CACHE_LINE_B = 64 };
    for (int64_t i = 0; i < size_B; i += CACHE_LINE_B) __builtin_prefetch(from + i);
}

// s + x * y, rounded once where the processor does that as fast.
#if defined(__AVX2__) && !defined(__AVX512F__)
#define MULADD_F32(x, y, s) ((vector_f32)_mm256_fmadd_ps((__m256)(x), (__m256)(y), (__m256)(s)))
#define MULADD_F64(x, y, s) ((vector_f64)_mm256_fmadd_pd((__m256d)(x), (__m256d)(y), (__m256d)(s)))
#define ALL_F32             _mm256_set1_ps
#define ALL_F64             _mm256_set1_pd
#else
#define MULADD_F32(x, y, s) ((s) + (x) * (y))
#define MULADD_F64          MULADD_F32
#define ALL_F32(x)          (x)
#define ALL_F64             ALL_F32
#endif

#define T       float
#define ROWS    rows_f32
#define SCATTER scatter_f32
#define LOOPS   loops_f32
#define VECTOR  vector_f32
#define FILL    fill_f32
#define SUM     sum_f32
#define SUMS    sums_f32
#define DOT     dot_f32
#define FINITE  finite_f32
#define MULADD  MULADD_F32
#define ALL     ALL_F32
#include "cpu/kernels/conv_tmpl.c"
#define T       double
#define ROWS    rows_f64
#define SCATTER scatter_f64
#define LOOPS   loops_f64
#define VECTOR  vector_f64
#define FILL    fill_f64
#define SUM     sum_f64
#define SUMS    sums_f64
#define DOT     dot_f64
#define FINITE  finite_f64
#define MULADD  MULADD_F64
#define ALL     ALL_F64
#include "cpu/kernels/conv_tmpl.c"

// One row of a column matrix: the pixels that tap (ky, kx) meets along output row y.
static void column_row(const struct conv *v, const struct conv_side *x, int64_t n, int64_t c, int64_t ky, int64_t kx,
                       int64_t y, char *dst)
{
    int64_t iy = y * v->sh - v->ph + ky * v->dh, lo = 0, hi = 0;
    if (iy >= 0 && iy < v->h) conv_inside(v, kx, &lo, &hi);
    if (lo > 0) memset(dst, 0, (size_t)(lo * v->size_B));
    if (hi > lo) {
        const char *src = conv_at(x, n, c, iy, lo * v->sw - v->pw + kx * v->dw);
        int64_t stride = x->o->strides[3] * v->sw;
        if (x->native && stride == 1)
            memcpy(dst + lo * v->size_B, src, (size_t)((hi - lo) * v->size_B));
        else
            CPU_FN(cpu_load)(x->o->dtype, v->cls, dst + lo * v->size_B, src, hi - lo, stride);
    }
    if (hi < v->ow) memset(dst + hi * v->size_B, 0, (size_t)((v->ow - hi) * v->size_B));
}

void CPU_FN(cpu_conv_columns)(const struct conv *v, const struct conv_side *x, int64_t n, int64_t c0, int64_t c1,
                              int64_t y0, int64_t y1, void *columns)
{
    char *dst = columns;
    bool side_by_side = x->native && x->o->strides[3] == 1;
    int64_t pitch = x->o->strides[2], tap_B = (y1 - y0) * v->ow * v->size_B;
    for (int64_t c = c0; c < c1; c++)
        for (int64_t ky = 0; ky < v->kh; ky++)
            for (int64_t kx = 0; kx < v->kw; kx++, dst += tap_B) {
                const void *plane = conv_at(x, n, c, 0, 0);
                if (side_by_side && v->cls == CLASS_F32)
                    rows_f32(v, plane, pitch, ky, kx, y0, y1, (void *)dst);
                else if (side_by_side)
                    rows_f64(v, plane, pitch, ky, kx, y0, y1, (void *)dst);
                else
                    for (int64_t y = y0; y < y1; y++)
                        column_row(v, x, n, c, ky, kx, y, dst + (y - y0) * v->ow * v->size_B);
            }
}

// Where the first place of a grid meets tap t in its phases.
static int64_t offset_of(const struct conv *v, const struct conv_phases *f, int64_t t)
{
    int64_t down = t / v->kw * v->dh, right = t % v->kw * v->dw;
    int64_t phase = down % v->sh * v->sw + right % v->sw;
    return (phase * f->rows + down / v->sh) * f->columns + right / v->sw;
}

// All outputs lie one behind the other, those of a row `columns` apart: then each tap meets them at one offset, and
// what lies between two rows is computed and left out.
void CPU_FN(cpu_conv_direct)(const struct conv *v, const struct conv_side *x, int64_t n, int64_t g, const char *weight,
                             int64_t ld_w, int64_t y0, int64_t rows, char *scratch, char *out, int64_t ld)
{
    struct conv_phases f = conv_phases(v, rows);
    int64_t *offsets = (int64_t *)(void *)scratch, used = (rows - 1) * f.columns + v->ow;
    char *image = scratch + ((v->kk * 8 + 63) & ~63), *sums = image + f.image_B;
    int64_t next_B = x->o->strides[1] * v->size_B; // the next channel
    for (int64_t t = 0; t < v->kk; t++) offsets[t] = offset_of(v, &f, t);
    for (int64_t c = 0; c < v->cg; c++) {
        const void *plane = conv_at(x, n, g * v->cg + c, 0, 0);
        if (v->cls == CLASS_F32)
            fill_f32(v, &f, plane, x->o->strides[2], y0, next_B, (void *)image);
        else
            fill_f64(v, &f, plane, x->o->strides[2], y0, next_B, (void *)image);
        for (int64_t o = 0; o < v->og; o++) {
            const void *w = weight + (o * ld_w + c * v->kk) * v->size_B;
            void *to = sums + o * f.sums_B;
            if (v->cls == CLASS_F32)
                sums_f32(w, offsets, v->kk, (void *)image, used, c > 0, to);
            else
                sums_f64(w, offsets, v->kk, (void *)image, used, c > 0, to);
        }
    }
    for (int64_t o = 0; o < v->og; o++)
        for (int64_t r = 0; r < rows; r++)
            memcpy(out + (o * ld + r * v->ow) * v->size_B, sums + o * f.sums_B + r * f.columns * v->size_B,
                   (size_t)(v->ow * v->size_B));
}

// Gradients lie as the outputs above, with 0 between two rows. Where pixels are no numbers, rows are taken alone, so
// that only what a tap meets shows.
void CPU_FN(cpu_conv_direct_grad)(const struct conv *v, const struct conv_side *x, const struct conv_side *dy,
                                  int64_t n, int64_t g, int64_t y0, int64_t rows, char *scratch, char *sums)
{
    struct conv_phases f = conv_phases(v, rows);
    int64_t used = (rows - 1) * f.columns + v->ow, size_B = v->size_B;
    int64_t next_B = x->o->strides[0] * size_B, next_dy_B = dy->o->strides[0] * dy->size_B; // the next image
    char *image = scratch, *gradients = image + f.image_B;
    for (int64_t o = 0; o < v->og; o++)
        for (int64_t r = 0; r < rows; r++) {
            char *to = gradients + o * f.sums_B + r * f.columns * size_B;
            const char *from = conv_at(dy, n, g * v->og + o, y0 + r, 0);
            if (dy->o->strides[3] == 1) fetch(from + next_dy_B, v->ow * dy->size_B);
            CPU_FN(cpu_load)(dy->o->dtype, v->cls, to, from, v->ow, dy->o->strides[3]);
            memset(to + v->ow * size_B, 0, (size_t)((f.columns - v->ow) * size_B));
        }
    for (int64_t c = 0; c < v->cg; c++) {
        const void *plane = conv_at(x, n, g * v->cg + c, 0, 0);
        if (v->cls == CLASS_F32)
            fill_f32(v, &f, plane, x->o->strides[2], y0, next_B, (void *)image);
        else
            fill_f64(v, &f, plane, x->o->strides[2], y0, next_B, (void *)image);
        int64_t image_n = v->sh * v->sw * f.rows * f.columns;
        bool finite = v->cls == CLASS_F32 ? finite_f32((void *)image, image_n) : finite_f64((void *)image, image_n);
        int64_t length = finite ? used : v->ow, step = f.columns * size_B;
        for (int64_t o = 0; o < v->og; o++)
            for (int64_t t = 0; t < v->kk; t++)
                for (int64_t r = 0; r < (finite ? 1 : rows); r++) CPU_FN(cpu_conv_dot)
        (v->cls, image + offset_of(v, &f, t) * size_B + r * step, gradients + o * f.sums_B + r * step, length, true,
         sums + (o * v->taps + c * v->kk + t) * size_B);
    }
}

void CPU_FN(cpu_conv_scatter)(const struct conv *v, int64_t channels, int64_t y0, int64_t y1, const void *columns,
                              void *image)
{
    const char *src = columns;
    for (int64_t c = 0; c < channels; c++)
        for (int64_t ky = 0; ky < v->kh; ky++)
            for (int64_t kx = 0; kx < v->kw; kx++)
                for (int64_t y = y0; y < y1; y++, src += v->ow * v->size_B) {
                    int64_t iy = y * v->sh - v->ph + ky * v->dh;
                    if (iy < 0 || iy >= v->h) continue;
                    char *plane = (char *)image + c * v->h * v->w * v->size_B;
                    if (v->cls == CLASS_F32)
                        scatter_f32(v, kx, iy, (const float *)(const void *)src, (float *)(void *)plane);
                    else
                        scatter_f64(v, kx, iy, (const double *)(const void *)src, (double *)(void *)plane);
                }
}

void CPU_FN(cpu_conv_product)(enum scalar_class cls, bool ta, bool tb, int64_t m, int64_t n, int64_t k, const void *a,
                              int64_t lda, const void *b, int64_t ldb, bool add, void *c, int64_t ldc)
{
    const struct cpu_blas *blas = cpu_blas();
    int pa = ta ? CPU_BLAS_TRANSPOSED : CPU_BLAS_PLAIN, pb = tb ? CPU_BLAS_TRANSPOSED : CPU_BLAS_PLAIN;
    bool f32 = cls == CLASS_F32;
    if (!blas->found || !section_try()) {
        if (f32)
            loops_f32(ta, tb, m, n, k, a, lda, b, ldb, add, c, ldc);
        else
            loops_f64(ta, tb, m, n, k, a, lda, b, ldb, add, c, ldc);
        return;
    }
    if (f32)
        blas->sgemm(CPU_BLAS_ROW_MAJOR, pa, pb, (int)m, (int)n, (int)k, 1, a, (int)lda, b, (int)ldb, add ? 1 : 0, c,
                    (int)ldc);
    else
        blas->dgemm(CPU_BLAS_ROW_MAJOR, pa, pb, (int)m, (int)n, (int)k, 1, a, (int)lda, b, (int)ldb, add ? 1 : 0, c,
                    (int)ldc);
    section_leave();
}

const void *CPU_FN(cpu_conv_weight)(const struct conv *v, const struct conv_side *w, void *scratch, int64_t *ld)
{
    const int64_t *s = w->o->strides;
    bool dense = w->native && (v->kw == 1 || s[3] == 1) && (v->kh == 1 || s[2] == v->kw) &&
                 (v->cg == 1 || s[1] == v->kk) && s[0] >= v->taps;
    *ld = dense ? s[0] : v->taps;
    if (dense) return w->base;
    char *dst = scratch;
    for (int64_t o = 0; o < v->o; o++)
        for (int64_t c = 0; c < v->cg; c++)
            for (int64_t ky = 0; ky < v->kh; ky++, dst += v->kw * v->size_B)
                CPU_FN(cpu_load)(w->o->dtype, v->cls, dst, conv_at(w, o, c, ky, 0), v->kw, s[3]);
    return scratch;
}

void *CPU_FN(cpu_conv_plane)(const struct conv *v, const struct conv_side *y, int64_t n, int64_t o, int64_t y0,
                             int64_t *ld)
{
    const int64_t *s = y->o->strides;
    *ld = s[1];
    bool dense = y->native && (v->ow == 1 || s[3] == 1) && (v->oh == 1 || s[2] == v->ow) && s[1] >= v->oh * v->ow;
    return dense ? conv_at(y, n, o, y0, 0) : NULL;
}

const char *CPU_FN(cpu_conv_outputs)(const struct conv *v, const struct conv_side *dy, int64_t n, int64_t o0,
                                     int64_t y0, int64_t rows, char *scratch, int64_t *ld)
{
    const char *direct = CPU_FN(cpu_conv_plane)(v, dy, n, o0, y0, ld);
    if (direct) return direct;
    char *dst = scratch;
    *ld = rows * v->ow;
    for (int64_t o = 0; o < v->og; o++)
        for (int64_t y = 0; y < rows; y++, dst += v->ow * v->size_B)
            CPU_FN(cpu_load)(dy->o->dtype, v->cls, dst, conv_at(dy, n, o0 + o, y0 + y, 0), v->ow, dy->o->strides[3]);
    return scratch;
}

void CPU_FN(cpu_conv_dot)(enum scalar_class cls, const void *x, const void *y, int64_t n, bool add, void *sum)
{
    if (cls == CLASS_F32)
        *(float *)sum = (add ? *(float *)sum : 0) + dot_f32(x, y, n);
    else
        *(double *)sum = (add ? *(double *)sum : 0) + dot_f64(x, y, n);
}
