// What the convolution kernels share: the launch read into names, images as columns, and the small products behind
// them.
//
// An image becomes a matrix of columns, [channel, kh, kw] x [oh, ow], a few output rows at a time so that it stays in
// the cache; the convolution is then the product of the weight [o, channel*kh*kw] with it. Layouts and dtypes are
// resolved while columns are filled.
#pragma once
#include "cpu/blas.h"
#include "cpu/kernels/convert.h"
#include "cpu/parallel.h"
#include <string.h>

struct conv {
    int64_t n, c, h, w, o, oh, ow, kh, kw, sh, sw, ph, pw, dh, dw, groups; // scalars of the launch, in their order
    int64_t cg, og, kk, taps; // channels and outputs of a group, kh*kw, cg*kh*kw
    enum scalar_class cls;
    int64_t size_B; // of an element of the class
};

static inline struct conv conv_read(const struct launch *l)
{
    struct conv v;
    int64_t *fields = &v.n;
    for (int i = 0; i < 16; i++) fields[i] = (int64_t)l->scalars[i];
    v.cg = v.c / v.groups;
    v.og = v.o / v.groups;
    v.kk = v.kh * v.kw;
    v.taps = v.cg * v.kk;
    v.cls = (enum scalar_class)kernel_catalogue[l->kernel].cls;
    v.size_B = cpu_class_size_B[v.cls];
    return v;
}

// Four-dimensional operand: element (a, b, c, d).
struct conv_side {
    const struct launch_operand *o;
    char *base;
    int64_t size_B;
    bool native;
};

static inline struct conv_side conv_side(const struct launch *l, int operand, enum scalar_class cls)
{
    const struct launch_operand *o = &l->operands[operand];
    return (struct conv_side){o, (char *)(uintptr_t)o->address, cpu_dtype_size_B[o->dtype],
                              o->dtype == cpu_class_dtype[cls]};
}

static inline char *conv_at(const struct conv_side *s, int64_t a, int64_t b, int64_t c, int64_t d)
{
    const int64_t *t = s->o->strides;
    return s->base + (a * t[0] + b * t[1] + c * t[2] + d * t[3]) * s->size_B;
}

// The output columns whose tap kx falls inside the image: [*lo, *hi).
static inline void conv_inside(const struct conv *v, int64_t kx, int64_t *lo, int64_t *hi)
{
    int64_t at = kx * v->dw - v->pw; // the input column of ow = 0
    *lo = at >= 0 ? 0 : (-at + v->sw - 1) / v->sw;
    *hi = at >= v->w ? 0 : (v->w - at + v->sw - 1) / v->sw;
    if (*hi > v->ow) *hi = v->ow;
    if (*lo > *hi) *lo = *hi;
}

// How many output rows are done at once.
static inline int64_t conv_band(const struct conv *v)
{
    int64_t row_B = v->taps * v->ow * v->size_B, rows = row_B > 0 ? (384 << 10) / row_B : v->oh;
    return rows < 1 ? 1 : rows > v->oh ? v->oh : rows;
}

// Columns of channels [c0, c1) of image n for output rows [y0, y1), in the class; rows of the matrix are (y1 - y0) * ow
// long.
void CPU_FN(cpu_conv_columns)(const struct conv *v, const struct conv_side *x, int64_t n, int64_t c0, int64_t c1,
                              int64_t y0, int64_t y1, void *columns);

// Whether outputs of a group are too few for columns to be worth making: cpu_conv_direct does without them.
static inline bool conv_is_direct(const struct conv *v, const struct conv_side *x)
{
    enum { FEW_OUTPUTS = 2, SHORT_STRIDE = 4 };
    bool near = v->sh <= SHORT_STRIDE && v->sw <= SHORT_STRIDE; // else most of a phase is met by no tap
    return v->og <= FEW_OUTPUTS && v->kk > 1 && near && x->native && x->o->strides[3] == 1;
}

// A channel as cpu_conv_direct reads it: a plane [rows, columns] for each of sh * sw phases; and the sums of an output,
// as far apart. Both end in room for what vectors reach behind them.
struct conv_phases {
    int64_t rows, columns, image_B, sums_B;
};
// As wide as registers, for parts of a wider vector the compiler keeps in memory; and as many sums at once as hide the
// latency of one.
#if defined(__AVX512F__)
enum { CONV_VECTOR_B = 64, CONV_AT_ONCE = 4, CONV_LINE_B = 64 };
#elif defined(__AVX2__)
enum { CONV_VECTOR_B = 32, CONV_AT_ONCE = 8, CONV_LINE_B = 64 };
#else
enum { CONV_VECTOR_B = 16, CONV_AT_ONCE = 8, CONV_LINE_B = 64 };
#endif

static inline struct conv_phases conv_phases(const struct conv *v, int64_t rows)
{
    struct conv_phases f = {rows + (v->kh - 1) * v->dh / v->sh, v->ow + (v->kw - 1) * v->dw / v->sw, 0, 0};
    f.image_B = (v->sh * v->sw * f.rows * f.columns * v->size_B + 2 * CONV_LINE_B) & -(int64_t)CONV_LINE_B;
    f.sums_B = (rows * f.columns * v->size_B + 2 * CONV_LINE_B) & -(int64_t)CONV_LINE_B;
    return f;
}

static inline int64_t conv_direct_B(const struct conv *v, int64_t rows)
{
    struct conv_phases f = conv_phases(v, rows);
    return ((v->kk * 8 + 63) & ~(int64_t)63) + f.image_B + v->og * f.sums_B;
}

// All outputs of one image and group, `rows` rows from y0 on: out[og, rows * ow], rows of this matrix `ld` apart, all
// of the class. `scratch` has conv_direct_B bytes.
void CPU_FN(cpu_conv_direct)(const struct conv *v, const struct conv_side *x, int64_t n, int64_t g, const char *weight,
                             int64_t ld_w, int64_t y0, int64_t rows, char *scratch, char *out, int64_t ld);

// y, without a bias, from a weight of the class, rows ld_w apart: where conv_is_direct.
kiln_status CPU_FN(cpu_conv_by_taps)(const struct conv *v, const struct conv_side *x, const struct conv_side *y,
                                     const char *weight, int64_t ld_w);

// The same groups' gradient of the weight from one image: sums[og, ld] of `taps` each, added to what lies there.
// `scratch` has conv_direct_grad_B bytes.
static inline int64_t conv_direct_grad_B(const struct conv *v, int64_t rows)
{
    struct conv_phases f = conv_phases(v, rows);
    return f.image_B + v->og * f.sums_B;
}

void CPU_FN(cpu_conv_direct_grad)(const struct conv *v, const struct conv_side *x, const struct conv_side *dy,
                                  int64_t n, int64_t g, int64_t y0, int64_t rows, char *scratch, char *sums);

// Adds columns back into a dense image [c1 - c0, h, w] of the class.
void CPU_FN(cpu_conv_scatter)(const struct conv *v, int64_t channels, int64_t y0, int64_t y1, const void *columns,
                              void *image);
// c[m, n] = (beta ? c : 0) + a b, row-major, with leading dimensions; a or b transposed when told.
void CPU_FN(cpu_conv_product)(enum scalar_class cls, bool ta, bool tb, int64_t m, int64_t n, int64_t k, const void *a,
                              int64_t lda, const void *b, int64_t ldb, bool add, void *c, int64_t ldc);
// The weight as [o, cg*kh*kw] in the class: where it lies, or packed into `scratch`. *ld is its leading dimension.
const void *CPU_FN(cpu_conv_weight)(const struct conv *v, const struct conv_side *w, void *scratch, int64_t *ld);
// dy or y of one image and group, rows [y0, y1): as it lies when that is a matrix of the class, else NULL. *ld: between
// outputs.
void *CPU_FN(cpu_conv_plane)(const struct conv *v, const struct conv_side *y, int64_t n, int64_t o, int64_t y0,
                             int64_t *ld);
// dy of one group and band as [og, rows * ow] in the class: where it lies, or packed into `scratch`.
const char *CPU_FN(cpu_conv_outputs)(const struct conv *v, const struct conv_side *dy, int64_t n, int64_t o0,
                                     int64_t y0, int64_t rows, char *scratch, int64_t *ld);
// *sum = (add ? *sum : 0) + the sum of x[i] * y[i], all of the class.
void CPU_FN(cpu_conv_dot)(enum scalar_class cls, const void *x, const void *y, int64_t n, bool add, void *sum);
