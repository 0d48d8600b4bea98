// y[n, o, :, :] = bias[o] + weight[o, :] * columns(x[n]): one unit is a band of output rows of one image and group.
#include "cpu/kernels/conv.h"

struct conv_job {
    struct conv v;
    struct conv_side x, w, bias, y;
    const char *weight;
    int64_t ld_w, band, bands;
};

static void add_bias(const struct conv_job *j, int64_t o0, void *out, int64_t ld, int64_t n)
{
    bool immediate = j->bias.o->flags & OPERAND_IMMEDIATE;
    if (immediate && j->bias.o->address == 0) return;
    for (int64_t o = 0; o < j->v.og; o++) {
        union {
            float f;
            double d;
            uint64_t bits;
        } b = {.bits = j->bias.o->address};
        cpu_load_fn *load = CPU_FN(cpu_loads)[j->bias.o->dtype][j->v.cls];
        if (!immediate) load(&b, j->bias.base + (o0 + o) * j->bias.o->strides[1] * j->bias.size_B, 1, 1);
        if (j->v.cls == CLASS_F32)
            for (int64_t i = 0; i < n; i++) ((float *)out)[o * ld + i] += b.f;
        else
            for (int64_t i = 0; i < n; i++) ((double *)out)[o * ld + i] += b.d;
    }
}

static void store_plane(const struct conv_job *j, int64_t n, int64_t o0, int64_t y0, int64_t rows, const char *src)
{
    const struct conv *v = &j->v;
    cpu_store_fn *store = CPU_FN(cpu_stores)[j->y.o->dtype][v->cls];
    for (int64_t o = 0; o < v->og; o++)
        for (int64_t y = 0; y < rows; y++, src += v->ow * v->size_B)
            store(conv_at(&j->y, n, o0 + o, y0 + y, 0), src, v->ow, j->y.o->strides[3]);
}

// A kernel of one tap, stride 1 and no padding reads the image as it lies.
static const void *pixels(const struct conv_job *j, int64_t n, int64_t g, int64_t y0, int64_t rows, char *scratch,
                          int64_t *ld)
{
    const struct conv *v = &j->v;
    const int64_t *s = j->x.o->strides;
    bool direct = v->kk == 1 && v->sh == 1 && v->sw == 1 && v->ph == 0 && v->pw == 0 && j->x.native && s[3] == 1 &&
                  s[2] == v->w && s[1] >= v->h * v->w;
    *ld = direct ? s[1] : rows * v->ow;
    if (direct) return conv_at(&j->x, n, g * v->cg, y0, 0);
    CPU_FN(cpu_conv_columns)(v, &j->x, n, g * v->cg, (g + 1) * v->cg, y0, y0 + rows, scratch);
    return scratch;
}

static kiln_status run_units(void *user, int64_t begin, int64_t end)
{
    const struct conv_job *j = user;
    const struct conv *v = &j->v;
    bool by_taps = conv_is_direct(v, &j->x);
    int64_t wide = j->band * v->ow * v->size_B,
            columns_B = by_taps ? conv_direct_B(v, j->band) : (v->taps * wide + 63) & ~(int64_t)63;
    char *scratch = cpu_scratch(CPU_SCRATCH_CUSTOM, (size_t)(columns_B + v->og * wide + 128));
    if (!scratch) return error_pending;
    for (int64_t u = begin; u < end; u++) {
        int64_t band = u % j->bands, g = u / j->bands % v->groups, n = u / j->bands / v->groups, o0 = g * v->og;
        int64_t y0 = band * j->band, rows = v->oh - y0 < j->band ? v->oh - y0 : j->band, ld_x, ld_y;
        const char *weight = j->weight + o0 * j->ld_w * v->size_B;
        void *out = CPU_FN(cpu_conv_plane)(v, &j->y, n, o0, y0, &ld_y);
        bool direct = out != NULL;
        if (!direct) out = scratch + columns_B, ld_y = rows * v->ow;
        if (by_taps) {
            CPU_FN(cpu_conv_direct)(v, &j->x, n, g, weight, j->ld_w, y0, rows, scratch, out, ld_y);
        } else {
            const void *cols = pixels(j, n, g, y0, rows, scratch, &ld_x);
            CPU_FN(cpu_conv_product)
            (v->cls, false, false, v->og, rows * v->ow, v->taps, weight, j->ld_w, cols, ld_x, false, out, ld_y);
        }
        add_bias(j, o0, out, ld_y, rows * v->ow);
        if (!direct) store_plane(j, n, o0, y0, rows, out);
    }
    return KILN_OK;
}

kiln_status CPU_FN(cpu_kernel_conv2d)(const struct launch *l, int64_t begin, int64_t end)
{
    (void)begin, (void)end;
    struct conv_job j = {.v = conv_read(l)};
    const struct conv *v = &j.v;
    j.x = conv_side(l, 0, v->cls), j.w = conv_side(l, 1, v->cls), j.bias = conv_side(l, 2, v->cls),
    j.y = conv_side(l, 3, v->cls);
    void *packed = cpu_scratch(CPU_SCRATCH_KEEP, (size_t)(v->o * v->taps * v->size_B));
    if (!packed) return error_pending;
    j.weight = CPU_FN(cpu_conv_weight)(v, &j.w, packed, &j.ld_w);
    j.band = conv_band(v);
    j.bands = (v->oh + j.band - 1) / j.band;
    return cpu_parallel(v->n * v->groups * j.bands, v->og * v->taps * j.band * v->ow / 16 + 64, run_units, &j);
}
