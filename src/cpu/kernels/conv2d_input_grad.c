// dx, by phases of pixels (conv_phases.c), whose product adds 0 times a weight for each tap that lies outside. Where
// that is no number it must not show, and the gradients are scattered: dx[n] = scatter(weight^T * dy[n]). One unit of
// this is a block of channels of one image, so that no two units write one pixel. A band of output rows at a time
// becomes columns of gradients, which are added into the image in fixed order.
#include "cpu/kernels/conv_grid.h"

struct input_grad_job {
    struct conv v;
    struct conv_side dy, w, dx;
    const char *weight;
    int64_t ld_w, blocks, block, band;
};

static void store_image(const struct input_grad_job *j, int64_t n, int64_t c0, int64_t channels, const char *image)
{
    const struct conv *v = &j->v;
    for (int64_t c = 0; c < channels; c++)
        for (int64_t y = 0; y < v->h; y++, image += v->w * v->size_B) CPU_FN(cpu_store)
    (j->dx.o->dtype, v->cls, conv_at(&j->dx, n, c0 + c, y, 0), image, v->w, j->dx.o->strides[3]);
}

static bool image_is_dense(const struct input_grad_job *j)
{
    const int64_t *s = j->dx.o->strides;
    return j->dx.native && (j->v.w == 1 || s[3] == 1) && (j->v.h == 1 || s[2] == j->v.w) &&
           (j->v.c == 1 || s[1] == j->v.h * j->v.w);
}

static kiln_status run_units(void *user, int64_t begin, int64_t end)
{
    const struct input_grad_job *j = user;
    const struct conv *v = &j->v;
    int64_t wide = j->band * v->ow * v->size_B, columns_B = (j->block * v->kk * wide + 63) & ~(int64_t)63;
    int64_t image_B = (j->block * v->h * v->w * v->size_B + 63) & ~(int64_t)63;
    char *scratch = cpu_scratch(CPU_SCRATCH_CUSTOM, (size_t)(columns_B + image_B + v->og * wide));
    if (!scratch) return error_pending;
    bool dense = image_is_dense(j);
    for (int64_t u = begin; u < end; u++) {
        int64_t b = u % j->blocks, g = u / j->blocks % v->groups, n = u / j->blocks / v->groups;
        int64_t c0 = b * j->block, channels = v->cg - c0 < j->block ? v->cg - c0 : j->block;
        char *image = dense ? conv_at(&j->dx, n, g * v->cg + c0, 0, 0) : scratch + columns_B;
        memset(image, 0, (size_t)(channels * v->h * v->w * v->size_B));
        for (int64_t y0 = 0; y0 < v->oh; y0 += j->band) {
            int64_t rows = v->oh - y0 < j->band ? v->oh - y0 : j->band, ld_dy;
            const char *dy =
                CPU_FN(cpu_conv_outputs)(v, &j->dy, n, g * v->og, y0, rows, scratch + columns_B + image_B, &ld_dy);
            const char *w = j->weight + (g * v->og * j->ld_w + c0 * v->kk) * v->size_B;
            CPU_FN(cpu_conv_product)
            (v->cls, true, false, channels * v->kk, rows * v->ow, v->og, w, j->ld_w, dy, ld_dy, false, scratch,
             rows * v->ow);
            CPU_FN(cpu_conv_scatter)(v, channels, y0, y0 + rows, scratch, image);
        }
        if (!dense) store_image(j, n, g * v->cg + c0, channels, image);
    }
    return KILN_OK;
}

static bool all_finite(const struct conv *v, const char *weight, int64_t ld_w)
{
    const uint64_t infinity = v->cls == CLASS_F32 ? 0x7f800000 : (uint64_t)0x7ff << 52;
    uint64_t n = 0;
    for (int64_t o = 0; o < v->o; o++) {
        const uint32_t *f = (const uint32_t *)(const void *)weight + (v->cls == CLASS_F32 ? o * ld_w : 0);
        const uint64_t *d = (const uint64_t *)(const void *)weight + (v->cls == CLASS_F32 ? 0 : o * ld_w);
        if (v->cls == CLASS_F32)
            for (int64_t i = 0; i < v->taps; i++) n += (f[i] & infinity) == infinity;
        else
            for (int64_t i = 0; i < v->taps; i++) n += (d[i] & infinity) == infinity;
    }
    return n == 0;
}

static kiln_status scatter(struct input_grad_job *j)
{
    const struct conv *v = &j->v;
    // Few images: split their channels too.
    j->blocks = v->n * v->groups >= 2 * cpu_threads() ? 1 : (v->cg + 7) / 8;
    j->block = (v->cg + j->blocks - 1) / j->blocks;
    j->blocks = (v->cg + j->block - 1) / j->block;
    j->band = conv_band(v);
    return cpu_parallel(v->n * v->groups * j->blocks, v->og * j->block * v->kk * v->oh * v->ow / 12 + 64, run_units, j);
}

kiln_status CPU_FN(cpu_kernel_conv2d_input_grad)(const struct launch *l, int64_t begin, int64_t end)
{
    (void)begin, (void)end;
    struct input_grad_job j = {.v = conv_read(l)};
    const struct conv *v = &j.v;
    j.dy = conv_side(l, 0, v->cls), j.w = conv_side(l, 1, v->cls), j.dx = conv_side(l, 2, v->cls);
    void *packed = cpu_scratch(CPU_SCRATCH_KEEP, (size_t)(v->o * v->taps * v->size_B));
    if (!packed) return error_pending;
    j.weight = CPU_FN(cpu_conv_weight)(v, &j.w, packed, &j.ld_w);
    bool finite = all_finite(v, j.weight, j.ld_w);
    return finite ? CPU_FN(cpu_conv_phases)(l, v, j.weight, j.ld_w) : scatter(&j);
}
