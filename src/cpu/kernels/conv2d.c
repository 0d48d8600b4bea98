// y[n, o, :, :] = bias[o] + weight[o, :] * columns(x[n]): one unit is a band of output rows of one image and group, or
// some of the outputs of one. What a unit computes does not depend on the number of threads.
#include "cpu/kernels/conv.h"

struct conv_job {
    struct conv v;
    struct conv_side x, w, bias, y;
    const char *weight;
    int64_t ld_w, band, bands;
    int64_t part, parts; // outputs of a unit, and how many units share a band
};

static void add_bias(const struct conv_job *j, int64_t o0, int64_t outputs, void *out, int64_t ld, int64_t n)
{
    bool immediate = j->bias.o->flags & OPERAND_IMMEDIATE;
    if (immediate && j->bias.o->address == 0) return;
    for (int64_t o = 0; o < outputs; o++) {
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

static void store_plane(const struct conv_job *j, int64_t n, int64_t o0, int64_t outputs, int64_t y0, int64_t rows,
                        const char *src)
{
    const struct conv *v = &j->v;
    cpu_store_fn *store = CPU_FN(cpu_stores)[j->y.o->dtype][v->cls];
    for (int64_t o = 0; o < outputs; o++)
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

// Where unit u lies.
struct conv_place {
    int64_t n, g, y0, rows, part, o0, outputs;
};

static struct conv_place place_of(const struct conv_job *j, int64_t u)
{
    const struct conv *v = &j->v;
    int64_t band = u / j->parts, image = band / j->bands;
    struct conv_place p = {image / v->groups, image % v->groups, band % j->bands * j->band, 0, u % j->parts, 0, 0};
    int64_t first = p.part * j->part;
    p.rows = v->oh - p.y0 < j->band ? v->oh - p.y0 : j->band;
    p.outputs = v->og - first < j->part ? v->og - first : j->part;
    p.o0 = p.g * v->og + first;
    return p;
}

static kiln_status run_units(void *user, int64_t begin, int64_t end)
{
    const struct conv_job *j = user;
    const struct conv *v = &j->v;
    bool by_taps = conv_is_direct(v, &j->x);
    int64_t wide = j->band * v->ow * v->size_B, ld_x = 0, ld_y;
    int64_t columns_B = by_taps ? conv_direct_B(v, j->band) : (v->taps * wide + 63) & ~(int64_t)63;
    char *scratch = cpu_scratch(CPU_SCRATCH_CUSTOM, (size_t)(columns_B + j->part * wide + 128));
    if (!scratch) return error_pending;
    const void *cols = NULL;
    for (int64_t u = begin; u < end; u++) {
        struct conv_place p = place_of(j, u);
        const char *weight = j->weight + p.o0 * j->ld_w * v->size_B;
        void *out = CPU_FN(cpu_conv_plane)(v, &j->y, p.n, p.o0, p.y0, &ld_y);
        bool direct = out != NULL;
        if (!direct) out = scratch + columns_B, ld_y = p.rows * v->ow;
        if (by_taps) {
            CPU_FN(cpu_conv_direct)(v, &j->x, p.n, p.g, weight, j->ld_w, p.y0, p.rows, scratch, out, ld_y);
        } else {
            if (u == begin || p.part == 0) cols = pixels(j, p.n, p.g, p.y0, p.rows, scratch, &ld_x);
            CPU_FN(cpu_conv_product)
            (v->cls, false, false, p.outputs, p.rows * v->ow, v->taps, weight, j->ld_w, cols, ld_x, false, out, ld_y);
        }
        add_bias(j, p.o0, p.outputs, out, ld_y, p.rows * v->ow);
        if (!direct) store_plane(j, p.n, p.o0, p.outputs, p.y0, p.rows, out);
    }
    return KILN_OK;
}

static int64_t pieces(int64_t n, int64_t size)
{
    return (int64_t)ceil_div((uint64_t)n, (uint64_t)size);
}

// A product packs the weight, which ENOUGH columns pay for. Where that leaves few units, outputs are divided, and then
// bands as long as they have LEAST columns.
static void divide(struct conv_job *j)
{
    enum { ENOUGH = 256, LEAST = 32, MOST_B = 8 << 20, OUTPUTS = 128, UNITS = 4 };
    const struct conv *v = &j->v;
    int64_t row_B = v->taps * v->ow * v->size_B, rows = conv_band(v), images = v->n * v->groups;
    j->part = v->og;
    j->parts = j->band = 1;
    j->bands = 0;
    if (images < 1 || v->oh < 1 || v->ow < 1 || v->og < 1) return;
    int64_t enough = pieces(ENOUGH, v->ow), least = pieces(LEAST, v->ow);
    if (rows < enough && enough * row_B <= MOST_B) rows = enough;
    j->bands = pieces(v->oh, rows);
    if (images * j->bands < UNITS && v->og > OUTPUTS) j->parts = pieces(v->og, OUTPUTS);
    if (images * j->bands * j->parts < UNITS) j->bands = pieces(UNITS, images * j->parts);
    j->band = pieces(v->oh, j->bands);
    if (j->band < least) j->band = least < v->oh ? least : v->oh;
    j->bands = pieces(v->oh, j->band);
    j->part = pieces(v->og, j->parts);
    j->parts = pieces(v->og, j->part);
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
    divide(&j);
    return cpu_parallel(v->n * v->groups * j.bands * j.parts, j.part * v->taps * j.band * v->ow / 16 + 64, run_units,
                        &j);
}
