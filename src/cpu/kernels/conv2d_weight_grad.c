// The gradient of the weight is a product over places of results, of all images: rows are what a tap of a channel meets
// at each place, columns the outputs' gradients.
//
// A unit is some channels and outputs. It takes a number of places at a time: gradients are packed as panels of
// outputs, what taps meet as rows, a few channels at a time. Where the weight is small, places are cut into parts,
// whose sums are added at the end: their number, and so each bit of the sums, depends on the shape alone. A group of a
// few outputs would leave most of a tile empty, and gets products of two rows instead.
#include "cpu/kernels/conv_grid.h"
#include "cpu/kernels/gemm_kind.h"

enum { BEHIND = 16, ROWS = 147, FEW_OUTPUTS = 4, STORED = 16 };

struct weight_grad_job {
    struct conv_grid g; // its x alone
    const struct gemm_kind *kind;
    struct conv_side dy, dw;
    int64_t places, step, rows_of, ld; // places at a time, channels at a time; from row to row of the sums
    int64_t parts, splits_c, splits_o, kh, kw;
    bool few;
    char *sums; // [part][group][channel, tap] x ld
};

struct weight_grad_unit {
    int64_t part, group, c0, c1, o0, outputs;
    char *panels, *rows, *sums;
};

static int64_t rows_ld(const struct weight_grad_job *j)
{
    return j->step + BEHIND;
}

static char *sums_of(const struct weight_grad_job *j, int64_t part, int64_t group, int64_t channel)
{
    const struct conv_grid *g = &j->g;
    int64_t row = ((part * g->groups + group) * g->channels + channel) * g->n_taps;
    return j->sums + row * j->ld * cpu_class_size_B[g->cls];
}

// How many of `count` places from `place` on follow each other in the gradients, by steps of *step.
static int64_t run_at(const struct weight_grad_job *j, int64_t place, int64_t count, int64_t *step)
{
    const struct conv_grid *g = &j->g;
    const int64_t *s = j->dy.o->strides;
    *step = g->ow > 1 ? s[3] : s[2];
    bool whole = g->ow == 1 || g->oh == 1 || s[2] == g->ow * s[3];
    int64_t left = whole ? g->oh * g->ow - place % (g->oh * g->ow) : g->ow - place % g->ow;
    return least(left, count);
}

static char *gradient_at(const struct weight_grad_job *j, int64_t output, int64_t place)
{
    const struct conv_grid *g = &j->g;
    return conv_at(&j->dy, place / g->ow / g->oh, output, place / g->ow % g->oh, place % g->ow);
}

static void pack_gradients(const struct weight_grad_job *j, const struct weight_grad_unit *u, int64_t first,
                           int64_t count)
{
    int64_t run, wide = j->kind->tiles.columns, size_B = j->kind->unit_B, at = u->group * j->g.outputs + u->o0;
    for (int64_t i = 0; i < count; i += run) {
        struct gemm_matrix b = {.col = j->dy.o->strides[1], .dtype = j->dy.o->dtype};
        run = run_at(j, first + i, count - i, &b.row);
        if (j->few) {
            for (int64_t o = 0; o < u->outputs; o++) CPU_FN(cpu_load)
            (b.dtype, j->g.cls, u->panels + (o * j->step + i) * size_B, gradient_at(j, at + o, first + i), run, b.row);
            continue;
        }
        for (int64_t o = 0; o < u->outputs; o += wide) {
            b.at = gradient_at(j, at + o, first + i);
            j->kind->pack_b(&b, run, least(u->outputs - o, wide), u->panels + (o * j->step + i * wide) * size_B, 0);
        }
    }
}

static void multiply_few(const struct weight_grad_job *j, const struct weight_grad_unit *u, int64_t rows, char *sums,
                         int64_t count, bool add)
{
    int64_t size_B = j->kind->unit_B;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t o = 0; o < u->outputs; o++) {
            const char *x = u->rows + r * rows_ld(j) * size_B, *dy = u->panels + o * j->step * size_B;
            CPU_FN(cpu_conv_dot)(j->g.cls, x, dy, count, add, sums + (r * j->ld + o) * size_B);
        }
}

static void multiply_rows(const struct weight_grad_job *j, const struct weight_grad_unit *u, int64_t rows, char *sums,
                          int64_t count, bool add)
{
    const struct gemm_kind *kind = j->kind;
    int64_t wide = kind->tiles.columns, size_B = kind->unit_B, heights = parts(rows, kind->tiles.rows);
    struct gemm_tile t = {.row_B = rows_ld(j) * size_B,
                          .step_B = size_B,
                          .b_step_B = wide * size_B,
                          .k = count,
                          .ld_out = j->ld,
                          .add = add};
    for (int64_t o = 0; o < u->outputs; o += wide) {
        t.next = t.b = u->panels + o * j->step * size_B;
        t.columns = least(u->outputs - o, wide);
        for (int64_t i = 0, r = 0; i < heights; i++) {
            int64_t high = rows / heights + (i < rows % heights);
            t.a = u->rows + r * t.row_B;
            t.out = sums + (r * j->ld + o) * size_B;
            kind->tile[high - 1][t.columns > kind->lanes](&t);
            r += high;
        }
    }
}

static void add_places(const struct weight_grad_job *j, const struct weight_grad_unit *u, int64_t first, int64_t count,
                       bool add)
{
    const struct conv_grid *g = &j->g;
    pack_gradients(j, u, first, count);
    struct conv_panel p = {first, count, count, rows_ld(j)};
    for (int64_t c = u->c0; c < u->c1; c += j->rows_of) {
        int64_t channels = least(u->c1 - c, j->rows_of);
        char *sums = sums_of(j, u->part, u->group, c) + u->o0 * j->kind->unit_B;
        CPU_FN(cpu_conv_pack)(g, &p, u->group * g->channels + c, channels, u->rows);
        (j->few ? multiply_few : multiply_rows)(j, u, channels * g->n_taps, sums, count, add);
    }
}

static kiln_status run_units(void *user, int64_t begin, int64_t end)
{
    const struct weight_grad_job *j = user;
    const struct conv_grid *g = &j->g;
    int64_t wide = j->kind->tiles.columns, size_B = j->kind->unit_B, panels = parts(g->outputs, wide);
    int64_t panels_B = panels * wide * j->step * size_B, rows_B = j->rows_of * g->n_taps * rows_ld(j) * size_B;
    struct weight_grad_unit u = {.panels = cpu_scratch(CPU_SCRATCH_CUSTOM, (size_t)(panels_B + rows_B))};
    if (!u.panels) return error_pending;
    u.rows = u.panels + panels_B;
    int64_t blocks = parts(j->places, j->step);
    for (int64_t i = begin; i < end; i++) {
        int64_t o = i % j->splits_o, c = i / j->splits_o % j->splits_c, rest = i / j->splits_o / j->splits_c;
        u.group = rest % g->groups, u.part = rest / g->groups;
        u.c0 = g->channels * c / j->splits_c, u.c1 = g->channels * (c + 1) / j->splits_c;
        u.o0 = panels * o / j->splits_o * wide;
        u.outputs = least(panels * (o + 1) / j->splits_o * wide, g->outputs) - u.o0;
        int64_t first = blocks * u.part / j->parts, last = blocks * (u.part + 1) / j->parts;
        for (int64_t k = first; k < last; k++)
            add_places(j, &u, k * j->step, least(j->places - k * j->step, j->step), k > first);
    }
    return KILN_OK;
}

static void add_all(enum scalar_class cls, void *sums, const void *more, int64_t n)
{
    float *f = sums;
    double *d = sums;
    for (int64_t i = 0; i < n && cls == CLASS_F32; i++) f[i] += ((const float *)more)[i];
    for (int64_t i = 0; i < n && cls != CLASS_F32; i++) d[i] += ((const double *)more)[i];
}

static void add_parts(const struct weight_grad_job *j, int64_t group, int64_t channel, int64_t channels)
{
    const struct conv_grid *g = &j->g;
    for (int64_t p = 1; p < j->parts; p++)
        add_all(g->cls, sums_of(j, 0, group, channel), sums_of(j, p, group, channel), channels * g->n_taps * j->ld);
}

// A unit is STORED channels of a group, whose taps follow each other in a dense gradient.
static kiln_status store_units(void *user, int64_t begin, int64_t end)
{
    const struct weight_grad_job *j = user;
    const struct conv_grid *g = &j->g;
    const int64_t *s = j->dw.o->strides;
    int64_t blocks = parts(g->channels, STORED), kh = j->kh, kw = j->kw, row_B = j->ld * j->kind->unit_B;
    bool rows = s[3] == 1 || kw == 1, dense = rows && (kh == 1 || s[2] == kw) && s[1] == g->n_taps;
    if (kw == 1 && kh > 1 && s[2] != 1) dense = false;
    for (int64_t i = begin; i < end; i++) {
        int64_t group = i / blocks, c0 = i % blocks * STORED, channels = least(g->channels - c0, STORED);
        add_parts(j, group, c0, channels);
        const char *src = sums_of(j, 0, group, c0);
        int64_t o = group * g->outputs, n = dense ? channels * g->n_taps : kw;
        for (int64_t r = 0; r < channels * g->n_taps; r += n, src += n * row_B) CPU_FN(cpu_store_tile)
        (conv_at(&j->dw, o, c0 + r / g->n_taps, r % g->n_taps / kw, 0), j->dw.o->dtype, dense ? 1 : s[3], s[0], src,
         j->ld, g->cls, n, g->outputs);
    }
    return KILN_OK;
}

static void divide(struct weight_grad_job *j)
{
    enum { FEW_TAPS = 256, FEW_COLUMNS = 128, FEW_GROUPS = 8, MOST_PARTS = 16 };
    const struct conv_grid *g = &j->g;
    int64_t taps = g->channels * g->n_taps, threads = cpu_threads();
    j->splits_c = j->splits_o = j->parts = 1;
    if (taps < FEW_TAPS && g->outputs <= FEW_COLUMNS && g->groups < FEW_GROUPS)
        j->parts = least(parts(j->places, j->step), MOST_PARTS);
    else if (g->groups < 2 * threads && g->channels / j->rows_of >= 2 * threads)
        j->splits_c = threads;
    else if (g->groups < 2 * threads)
        j->splits_o = least(threads, parts(g->outputs, j->kind->tiles.columns));
    if (j->parts < 1) j->parts = 1;
}

static kiln_status multiply(struct weight_grad_job *j)
{
    const struct conv_grid *g = &j->g;
    int64_t lanes = j->kind->lanes, taps = g->channels * g->n_taps, size_B = j->kind->unit_B;
    j->few = g->outputs <= FEW_OUTPUTS;
    j->step = j->kind->tiles.k;
    j->rows_of = g->n_taps < ROWS ? ROWS / g->n_taps : 1;
    j->ld = parts(g->outputs, lanes) * lanes;
    divide(j);
    int64_t sums_B = j->parts * g->groups * taps * j->ld * size_B;
    j->sums = cpu_scratch(CPU_SCRATCH_KEEP, (size_t)sums_B);
    if (!j->sums) return error_pending;
    if (j->places == 0) memset(j->sums, 0, (size_t)sums_B);
    int64_t units = j->parts * g->groups * j->splits_c * j->splits_o;
    TRY(cpu_parallel(units, taps * g->outputs * j->places / 16 * g->groups / units + 64, run_units, j));
    return cpu_parallel(g->groups * parts(g->channels, STORED), STORED * g->n_taps * g->outputs * j->parts, store_units,
                        j);
}

struct direct_grad_job {
    struct conv v;
    struct conv_side x, dy, dw;
    int64_t parts, band;
    char *sums; // [part][group][output] x taps
};

static kiln_status run_direct(void *user, int64_t begin, int64_t end)
{
    const struct direct_grad_job *j = user;
    const struct conv *v = &j->v;
    char *scratch = cpu_scratch(CPU_SCRATCH_CUSTOM, (size_t)conv_direct_grad_B(v, j->band));
    if (!scratch) return error_pending;
    for (int64_t i = begin; i < end; i++) {
        int64_t part = i / v->groups, first = v->n * part / j->parts, last = v->n * (part + 1) / j->parts;
        char *sums = j->sums + i * v->og * v->taps * v->size_B;
        memset(sums, 0, (size_t)(v->og * v->taps * v->size_B));
        for (int64_t n = first; n < last; n++)
            for (int64_t y = 0; y < v->oh; y += j->band) CPU_FN(cpu_conv_direct_grad)
        (v, &j->x, &j->dy, n, i % v->groups, y, least(v->oh - y, j->band), scratch, sums);
    }
    return KILN_OK;
}

static kiln_status by_groups(struct direct_grad_job *j)
{
    enum { FEW_GROUPS = 8, MOST_PARTS = 16 };
    const struct conv *v = &j->v;
    int64_t all = v->o * v->taps;
    j->parts = v->groups < FEW_GROUPS ? least(MOST_PARTS, v->n > 0 ? v->n : 1) : 1;
    j->band = conv_band(v);
    j->sums = cpu_scratch(CPU_SCRATCH_KEEP, (size_t)(j->parts * all * v->size_B));
    if (!j->sums) return error_pending;
    int64_t cost = v->og * v->taps * v->oh * v->ow / 16 * (v->n / j->parts + 1) + 64;
    TRY(cpu_parallel(j->parts * v->groups, cost, run_direct, j));
    for (int64_t p = 1; p < j->parts; p++) add_all(v->cls, j->sums, j->sums + p * all * v->size_B, all);
    const char *src = j->sums;
    for (int64_t o = 0; o < v->o; o++)
        for (int64_t c = 0; c < v->cg; c++)
            for (int64_t ky = 0; ky < v->kh; ky++, src += v->kw * v->size_B) CPU_FN(cpu_store)
    (j->dw.o->dtype, v->cls, conv_at(&j->dw, o, c, ky, 0), src, v->kw, j->dw.o->strides[3]);
    return KILN_OK;
}

kiln_status CPU_FN(cpu_kernel_conv2d_weight_grad)(const struct launch *l, int64_t begin, int64_t end)
{
    (void)begin, (void)end;
    struct conv v = conv_read(l);
    struct conv_side x = conv_side(l, 0, v.cls);
    if (conv_is_direct(&v, &x) && v.o * v.taps * v.oh * v.ow > 0) {
        struct direct_grad_job d = {.v = v, .x = x, .dy = conv_side(l, 1, v.cls), .dw = conv_side(l, 2, v.cls)};
        return by_groups(&d);
    }
    struct conv_tap *taps = cpu_scratch(CPU_SCRATCH_STATE, (size_t)(v.kk + 1) * sizeof *taps);
    if (!taps) return error_pending;
    CPU_FN(cpu_conv_taps)(&v, taps);
    struct weight_grad_job j = {.dy = conv_side(l, 1, v.cls), .dw = conv_side(l, 2, v.cls), .kh = v.kh, .kw = v.kw};
    j.g = (struct conv_grid){.images = v.n,
                             .h = v.h,
                             .w = v.w,
                             .oh = v.oh,
                             .ow = v.ow,
                             .sh = v.sh,
                             .sw = v.sw,
                             .groups = v.groups,
                             .channels = v.cg,
                             .outputs = v.og,
                             .taps = taps,
                             .n_taps = v.kk,
                             .cls = v.cls,
                             .x = x};
    j.kind = v.cls == CLASS_F64 ? &CPU_FN(cpu_gemm_f64) : &CPU_FN(cpu_gemm_f32);
    j.places = v.n * v.oh * v.ow;
    return v.o * v.taps > 0 ? multiply(&j) : KILN_OK;
}
