// y[n, o, :, :] = bias[o] + weight[o, :] * columns(x[n]): a product by panels of columns, or for few outputs by
// direct loops, a unit of which is a band of output rows of one image and group. What a unit computes does not depend
// on the number of threads.
#include "cpu/kernels/conv_grid.h"

struct conv_job {
    struct conv v;
    struct conv_side x, bias, y; // no bias: its operand is NULL
    const char *weight;
    int64_t ld_w, band, bands;
};

static void add_bias(const struct conv_job *j, int64_t o0, int64_t outputs, void *out, int64_t ld, int64_t n)
{
    if (!j->bias.o) return;
    bool immediate = j->bias.o->flags & OPERAND_IMMEDIATE;
    if (immediate && j->bias.o->address == 0) return;
    for (int64_t o = 0; o < outputs; o++) {
        union {
            float f;
            double d;
            uint64_t bits;
        } b = {.bits = j->bias.o->address};
        if (!immediate) CPU_FN(cpu_load)
        (j->bias.o->dtype, j->v.cls, &b, j->bias.base + (o0 + o) * j->bias.o->strides[1] * j->bias.size_B, 1, 1);
        if (j->v.cls == CLASS_F32)
            for (int64_t i = 0; i < n; i++) ((float *)out)[o * ld + i] += b.f;
        else
            for (int64_t i = 0; i < n; i++) ((double *)out)[o * ld + i] += b.d;
    }
}

static void store_plane(const struct conv_job *j, int64_t n, int64_t o0, int64_t outputs, int64_t y0, int64_t rows,
                        const char *src)
{
    const struct conv *v = &j->v;
    for (int64_t o = 0; o < outputs; o++)
        for (int64_t y = 0; y < rows; y++, src += v->ow * v->size_B) CPU_FN(cpu_store)
    (j->y.o->dtype, v->cls, conv_at(&j->y, n, o0 + o, y0 + y, 0), src, v->ow, j->y.o->strides[3]);
}

static kiln_status run_units(void *user, int64_t begin, int64_t end)
{
    const struct conv_job *j = user;
    const struct conv *v = &j->v;
    int64_t direct_B = conv_direct_B(v, j->band), ld_y;
    char *scratch = cpu_scratch(CPU_SCRATCH_CUSTOM, (size_t)(direct_B + v->og * j->band * v->ow * v->size_B + 128));
    if (!scratch) return error_pending;
    for (int64_t u = begin; u < end; u++) {
        int64_t image = u / j->bands, n = image / v->groups, g = image % v->groups, y0 = u % j->bands * j->band;
        int64_t rows = v->oh - y0 < j->band ? v->oh - y0 : j->band, o0 = g * v->og;
        void *out = CPU_FN(cpu_conv_plane)(v, &j->y, n, o0, y0, &ld_y);
        bool dense = out != NULL;
        if (!dense) out = scratch + direct_B, ld_y = rows * v->ow;
        const char *weight = j->weight + o0 * j->ld_w * v->size_B;
        CPU_FN(cpu_conv_direct)(v, &j->x, n, g, weight, j->ld_w, y0, rows, scratch, out, ld_y);
        add_bias(j, o0, v->og, out, ld_y, rows * v->ow);
        if (!dense) store_plane(j, n, o0, v->og, y0, rows, out);
    }
    return KILN_OK;
}

// Where images are few they are divided, in bands as long as they have LEAST columns.
static kiln_status run_direct(struct conv_job *j)
{
    enum { LEAST = 32, UNITS = 4 };
    const struct conv *v = &j->v;
    int64_t images = v->n * v->groups;
    if (images < 1 || v->oh < 1 || v->ow < 1) return KILN_OK;
    int64_t least = (int64_t)ceil_div(LEAST, (uint64_t)v->ow),
            bands = (int64_t)ceil_div((uint64_t)v->oh, (uint64_t)conv_band(v));
    if (images * bands < UNITS) bands = (int64_t)ceil_div(UNITS, (uint64_t)images);
    j->band = (int64_t)ceil_div((uint64_t)v->oh, (uint64_t)bands);
    if (j->band < least) j->band = least < v->oh ? least : v->oh;
    j->bands = (int64_t)ceil_div((uint64_t)v->oh, (uint64_t)j->band);
    return cpu_parallel(images * j->bands, v->og * v->taps * j->band * v->ow / 16 + 64, run_units, j);
}

static kiln_status run_grid(const struct conv_job *j)
{
    const struct conv *v = &j->v;
    struct conv_tap *taps = cpu_scratch(CPU_SCRATCH_STATE, (size_t)(v->kk + 1) * sizeof *taps);
    if (!taps) return error_pending;
    CPU_FN(cpu_conv_taps)(v, taps);
    bool biased = !(j->bias.o->flags & OPERAND_IMMEDIATE) || j->bias.o->address != 0;
    struct conv_grid g = {v->n,  v->h, v->w,  v->oh,     v->ow,   v->sh,  v->sw, v->groups, v->cg,
                          v->og, taps, v->kk, j->weight, j->ld_w, v->cls, j->x,  j->y,      biased ? &j->bias : NULL};
    return CPU_FN(cpu_conv_grids)(&g, 1);
}

kiln_status CPU_FN(cpu_conv_by_taps)(const struct conv *v, const struct conv_side *x, const struct conv_side *y,
                                     const char *weight, int64_t ld_w)
{
    struct conv_job j = {.v = *v, .x = *x, .y = *y, .weight = weight, .ld_w = ld_w};
    return run_direct(&j);
}

kiln_status CPU_FN(cpu_kernel_conv2d)(const struct launch *l, int64_t begin, int64_t end)
{
    (void)begin, (void)end;
    struct conv_job j = {.v = conv_read(l)};
    const struct conv *v = &j.v;
    struct conv_side w = conv_side(l, 1, v->cls);
    j.x = conv_side(l, 0, v->cls), j.bias = conv_side(l, 2, v->cls), j.y = conv_side(l, 3, v->cls);
    void *packed = cpu_scratch(CPU_SCRATCH_KEEP, (size_t)(v->o * v->taps * v->size_B));
    if (!packed) return error_pending;
    j.weight = CPU_FN(cpu_conv_weight)(v, &w, packed, &j.ld_w);
    return conv_is_direct(v, &j.x) ? run_direct(&j) : run_grid(&j);
}
