// The product behind a convolution: see conv_grid.h.
//
// Places of all images' grids are cut into panels as wide as a tile of the registers. A unit is a number of panels and
// of outputs: some channels at a time, it packs a panel, whose columns then wait in the nearest caches while the rows
// of the weight pass. Sums lie in the result itself where a panel's places follow each other there, else in memory of
// the unit's own, from which they are stored at the end.
#include "cpu/kernels/conv_grid.h"
#include "cpu/kernels/gemm_kind.h"

struct grid_job {
    const struct conv_grid *g;
    const struct gemm_kind *kind;
    int64_t places, panels, blocks, parts; // panels of a group, in blocks; parts of its outputs
    int64_t step; // channels at a time: equal passes of about as many positions as fit into the nearest cache
    bool as_it_lies, in_place; // pixels are rows of the product; results are
};

struct grid_jobs {
    struct grid_job of[CONV_GRIDS]; // all in as many blocks and parts
    int64_t n;
};

struct grid_unit {
    int64_t group, o0, outputs, panel0, panels;
    char *piece, *sums;
};

static struct conv_panel panel_at(const struct grid_job *j, int64_t panel)
{
    int64_t wide = j->kind->tiles.columns, first = panel * wide;
    return (struct conv_panel){first, least(j->places - first, wide), wide, wide};
}

// Whether the places of a panel are those of one image.
static bool of_one_image(const struct conv_grid *g, const struct conv_panel *p)
{
    return p->first / (g->oh * g->ow) == (p->first + p->columns - 1) / (g->oh * g->ow);
}

static char *plane_at(const struct conv_grid *g, const struct conv_side *s, int64_t channel, int64_t place)
{
    return conv_at(s, place / (g->oh * g->ow), channel, 0, 0) + place % (g->oh * g->ow) * s->size_B;
}

static void results_of(const struct grid_job *j, const struct grid_unit *u, const struct conv_panel *p, char **out,
                       int64_t *ld)
{
    const struct conv_grid *g = j->g;
    bool there = j->in_place && of_one_image(g, p);
    *out = there ? plane_at(g, &g->y, u->group * g->outputs + u->o0, p->first)
                 : u->sums + (p->first - u->panel0 * p->wide) * u->outputs * cpu_class_size_B[g->cls];
    *ld = there ? g->y.o->strides[1] : p->wide;
}

// One panel against the outputs of a unit, `channels` channels from c0 on.
static void multiply_panel(const struct grid_job *j, const struct grid_unit *u, const struct conv_panel *p, int64_t c0,
                           int64_t channels)
{
    const struct conv_grid *g = j->g;
    const struct gemm_kind *kind = j->kind;
    int64_t size_B = kind->unit_B, first = u->group * g->outputs + u->o0;
    struct gemm_tile t = {.k = channels * g->n_taps,
                          .columns = p->columns,
                          .add = c0 > 0,
                          .row_B = g->ld_w * size_B,
                          .step_B = size_B,
                          .b_step_B = p->wide * size_B};
    char *out, *b = u->piece;
    results_of(j, u, p, &out, &t.ld_out);
    if (j->as_it_lies && of_one_image(g, p)) {
        b = plane_at(g, &g->x, u->group * g->channels + c0, p->first);
        t.b_step_B = g->x.o->strides[1] * size_B;
        t.partial = p->columns % kind->lanes != 0;
    } else {
        CPU_FN(cpu_conv_pack)(g, p, u->group * g->channels + c0, channels, b);
    }
    t.next = t.b = b;
    int64_t heights = parts(u->outputs, kind->tiles.rows), low = u->outputs / heights, high = u->outputs % heights;
    for (int64_t i = 0, r = 0; i < heights; i++) {
        int64_t rows = low + (i < high);
        t.a = g->weight + ((first + r) * g->ld_w + c0 * g->n_taps) * size_B;
        t.out = out + r * t.ld_out * size_B;
        kind->tile[rows - 1][p->columns > kind->lanes](&t);
        r += rows;
    }
}

static void add_bias(const struct grid_job *j, const struct grid_unit *u, const struct conv_panel *p)
{
    const struct conv_side *bias = j->g->bias;
    bool immediate = bias->o->flags & OPERAND_IMMEDIATE, f32 = j->g->cls == CLASS_F32;
    char *out;
    int64_t ld, first = u->group * j->g->outputs + u->o0;
    results_of(j, u, p, &out, &ld);
    for (int64_t o = 0; o < u->outputs; o++) {
        union {
            float f;
            double d;
            uint64_t bits;
        } b = {.bits = bias->o->address};
        if (!immediate) CPU_FN(cpu_load)
        (bias->o->dtype, j->g->cls, &b, bias->base + (first + o) * bias->o->strides[1] * bias->size_B, 1, 1);
        float *f = (float *)(void *)out + (f32 ? o * ld : 0);
        double *d = (double *)(void *)out + (f32 ? 0 : o * ld);
        for (int64_t i = 0; i < p->columns && f32; i++) f[i] += b.f;
        for (int64_t i = 0; i < p->columns && !f32; i++) d[i] += b.d;
    }
}

static void finish_panel(const struct grid_job *j, const struct grid_unit *u, const struct conv_panel *p)
{
    const struct conv_grid *g = j->g;
    char *out;
    int64_t ld, size_B = cpu_class_size_B[g->cls], run, first = u->group * g->outputs + u->o0;
    if (g->bias) add_bias(j, u, p);
    if (j->in_place && of_one_image(g, p)) return;
    results_of(j, u, p, &out, &ld);
    for (int64_t i = 0; i < p->columns; i += run) {
        int64_t place = p->first + i, x = place % g->ow, y = place / g->ow % g->oh;
        run = least(g->ow - x, p->columns - i);
        CPU_FN(cpu_store_tile)
        (conv_at(&g->y, place / g->ow / g->oh, first, y, x), g->y.o->dtype, g->y.o->strides[1], g->y.o->strides[3],
         out + i * size_B, ld, g->cls, u->outputs, run);
    }
}

static void run_unit(const struct grid_job *j, struct grid_unit *u)
{
    const struct conv_grid *g = j->g;
    for (int64_t c = 0; c == 0 || c < g->channels; c += j->step)
        for (int64_t k = 0; k < u->panels; k++) {
            struct conv_panel p = panel_at(j, u->panel0 + k);
            multiply_panel(j, u, &p, c, least(g->channels - c, j->step));
        }
    for (int64_t k = 0; k < u->panels; k++) {
        struct conv_panel p = panel_at(j, u->panel0 + k);
        finish_panel(j, u, &p);
    }
}

static kiln_status run_units(void *user, int64_t begin, int64_t end)
{
    const struct grid_jobs *jobs = user;
    const struct grid_job *j = jobs->of;
    const struct conv_grid *g = j->g;
    int64_t wide_B = j->kind->tiles.columns * j->kind->unit_B, piece_B = 0;
    for (int64_t k = 0; k < jobs->n; k++) {
        int64_t one_B = jobs->of[k].step * jobs->of[k].g->n_taps * wide_B;
        if (one_B > piece_B) piece_B = one_B;
    }
    int64_t most = parts(j->panels, j->blocks), outputs = parts(g->outputs, j->parts);
    char *scratch = cpu_scratch(CPU_SCRATCH_CUSTOM, (size_t)(piece_B + most * outputs * wide_B + 64));
    if (!scratch) return error_pending;
    for (int64_t i = begin; i < end; i++) {
        int64_t unit = i / jobs->n, block = unit % j->blocks, part = unit / j->blocks % j->parts;
        struct grid_unit u = {.group = unit / j->blocks / j->parts, .piece = scratch, .sums = scratch + piece_B};
        u.o0 = g->outputs * part / j->parts, u.outputs = g->outputs * (part + 1) / j->parts - u.o0;
        u.panel0 = j->panels * block / j->blocks, u.panels = j->panels * (block + 1) / j->blocks - u.panel0;
        run_unit(&jobs->of[i % jobs->n], &u);
    }
    return KILN_OK;
}

static bool is_dense(const struct conv_side *s, int64_t h, int64_t w)
{
    const int64_t *t = s->o->strides;
    return s->native && (w == 1 || t[3] == 1) && (h == 1 || t[2] == w) && t[1] >= h * w;
}

// Results of a unit, and what of the weight meets one panel, fit into the second-level cache together.
static void divide(struct grid_job *j)
{
    enum { RESULTS_B = 256 << 10, OUTPUTS = 256, FEW = 24 };
    const struct conv_grid *g = j->g;
    int64_t wide_B = j->kind->tiles.columns * j->kind->unit_B, units = 2 * (int64_t)cpu_threads();
    j->parts = parts(g->outputs, OUTPUTS);
    int64_t most = RESULTS_B / (parts(g->outputs, j->parts) * wide_B);
    j->blocks = parts(j->panels, most > 1 ? most : 1);
    if (cpu_threads() == 1) return;
    if (g->groups * j->parts * j->blocks < units) j->blocks = least(j->panels, parts(units, g->groups * j->parts));
    int64_t others = g->groups * j->blocks;
    if (others * j->parts < units && g->outputs > FEW) j->parts = least(parts(g->outputs, FEW), parts(units, others));
}

static struct grid_job job_of(const struct conv_grid *g)
{
    enum { FEW_OUTPUTS = 128 };
    struct grid_job j = {.g = g, .kind = g->cls == CLASS_F64 ? &CPU_FN(cpu_gemm_f64) : &CPU_FN(cpu_gemm_f32)};
    j.places = g->images * g->oh * g->ow;
    j.panels = parts(j.places, j.kind->tiles.columns);
    int64_t k = j.kind->tiles.k, passes = (g->channels * g->n_taps + k / 2) / k;
    passes = least(passes > 1 ? passes : 1, g->channels > 0 ? g->channels : 1);
    j.step = parts(g->channels, passes);
    if (j.step < 1) j.step = 1;
    j.in_place = is_dense(&g->y, g->oh, g->ow);
    bool one = g->n_taps == 1 && g->taps->y == 0 && g->taps->x == 0 && g->sh == 1 && g->sw == 1;
    j.as_it_lies = one && g->oh == g->h && g->ow == g->w && is_dense(&g->x, g->h, g->w) && g->outputs <= FEW_OUTPUTS;
    divide(&j);
    return j;
}

kiln_status CPU_FN(cpu_conv_grids)(const struct conv_grid *g, int64_t n)
{
    struct grid_jobs jobs = {.n = n};
    int64_t size = 0;
    if (g->images * g->oh * g->ow == 0 || g->groups == 0 || g->outputs == 0) return KILN_OK;
    bool done = false;
    if (n == 1) TRY(CPU_FN(cpu_conv_winograd)(g, &done));
    if (done) return KILN_OK;
    if (CPU_FN(cpu_conv_is_spread)(g, n)) return CPU_FN(cpu_conv_spread)(g, n);
    for (int64_t i = 0; i < n; i++) {
        jobs.of[i] = job_of(g + i);
        size += g->outputs * g->channels * g[i].n_taps;
    }
    const struct grid_job *j = jobs.of;
    int64_t units = g->groups * j->parts * j->blocks * n;
    return cpu_parallel(units, size * j->places * g->groups / units / 16 + 64, run_units, &jobs);
}
