// dw = sum over images of dy[n] * columns(x[n])^T. Images are cut into a number of parts that depends on the shape
// alone; each part sums its images in order into a matrix of its own, and the parts are added in order: the same bits
// with any number of threads.
#include "cpu/kernels/conv.h"

enum { MAX_PARTS = 16, PARTS_B = 64 << 20 };

struct weight_grad_job {
    struct conv v;
    struct conv_side x, dy, dw;
    char *parts;
    int64_t n_parts, band;
};

static void add_band(const struct weight_grad_job *j, int64_t n, int64_t g, int64_t y0, bool add, char *part,
                     char *scratch)
{
    const struct conv *v = &j->v;
    int64_t rows = v->oh - y0 < j->band ? v->oh - y0 : j->band, wide = rows * v->ow, ld_dy;
    int64_t columns_B = (v->taps * j->band * v->ow * v->size_B + 63) & ~(int64_t)63;
    CPU_FN(cpu_conv_columns)(v, &j->x, n, g * v->cg, (g + 1) * v->cg, y0, y0 + rows, scratch);
    const char *dy = CPU_FN(cpu_conv_outputs)(v, &j->dy, n, g * v->og, y0, rows, scratch + columns_B, &ld_dy);
    CPU_FN(cpu_conv_product)
    (v->cls, false, true, v->og, v->taps, wide, dy, ld_dy, scratch, wide, add, part + g * v->og * v->taps * v->size_B,
     v->taps);
}

static kiln_status run_parts(void *user, int64_t begin, int64_t end)
{
    const struct weight_grad_job *j = user;
    const struct conv *v = &j->v;
    int64_t wide = j->band * v->ow * v->size_B, columns_B = (v->taps * wide + 63) & ~(int64_t)63;
    char *scratch = cpu_scratch(CPU_SCRATCH_CUSTOM, (size_t)(columns_B + v->og * wide + 128));
    if (!scratch) return error_pending;
    for (int64_t p = begin; p < end; p++) {
        int64_t first = p * v->n / j->n_parts, last = (p + 1) * v->n / j->n_parts;
        char *part = j->parts + p * v->o * v->taps * v->size_B;
        for (int64_t g = 0; g < v->groups; g++)
            for (int64_t n = first; n < last; n++)
                for (int64_t y0 = 0; y0 < v->oh; y0 += j->band)
                    add_band(j, n, g, y0, n > first || y0 > 0, part, scratch);
    }
    return KILN_OK;
}

static void add_parts(const struct weight_grad_job *j)
{
    int64_t n = j->v.o * j->v.taps;
    for (int64_t p = 1; p < j->n_parts; p++) {
        if (j->v.cls == CLASS_F32) {
            float *a = (float *)(void *)j->parts, *b = a + p * n;
            for (int64_t i = 0; i < n; i++) a[i] += b[i];
        } else {
            double *a = (double *)(void *)j->parts, *b = a + p * n;
            for (int64_t i = 0; i < n; i++) a[i] += b[i];
        }
    }
}

kiln_status CPU_FN(cpu_kernel_conv2d_weight_grad)(const struct launch *l, int64_t begin, int64_t end)
{
    (void)begin, (void)end;
    struct weight_grad_job j = {.v = conv_read(l)};
    const struct conv *v = &j.v;
    j.x = conv_side(l, 0, v->cls), j.dy = conv_side(l, 1, v->cls), j.dw = conv_side(l, 2, v->cls);
    int64_t matrix_B = v->o * v->taps * v->size_B;
    j.n_parts = v->n < MAX_PARTS ? v->n : MAX_PARTS;
    while (j.n_parts > 2 && j.n_parts * matrix_B > PARTS_B) j.n_parts /= 2;
    j.band = conv_band(v);
    j.parts = cpu_scratch(CPU_SCRATCH_KEEP, (size_t)(j.n_parts * matrix_B));
    if (!j.parts) return error_pending;
    TRY(cpu_parallel(j.n_parts, v->o * v->taps * v->oh * v->ow * (v->n / j.n_parts + 1) / 12 + 64, run_parts, &j));
    add_parts(&j);
    const char *src = j.parts;
    for (int64_t o = 0; o < v->o; o++)
        for (int64_t c = 0; c < v->cg; c++)
            for (int64_t ky = 0; ky < v->kh; ky++, src += v->kw * v->size_B)
                CPU_FN(cpu_stores)[j.dw.o->dtype][v->cls](conv_at(&j.dw, o, c, ky, 0), src, v->kw, j.dw.o->strides[3]);
    return KILN_OK;
}
