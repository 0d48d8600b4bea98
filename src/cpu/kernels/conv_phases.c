// dx by a product as the forward one: a pixel's gradient is the sum over the outputs that met it of their gradients
// times the weight of the tap. With strides, pixels fall into sh * sw phases, each a grid that its own taps meet, one
// result's gradient from place to place.
#include "cpu/kernels/conv_grid.h"

struct phase {
    int64_t down, right; // its first pixel
    int64_t n_taps;
    struct conv_tap *taps;
    int64_t *which; // tap of the kernel
};

// The result that pixel `first` of a phase meets at tap k, if any.
static bool meets_at(int64_t first, int64_t padding, int64_t k, int64_t dilation, int64_t stride, int64_t *at)
{
    int64_t from = first + padding - k * dilation;
    if (from % stride) return false;
    *at = from / stride;
    return true;
}

static void list_taps(const struct conv *v, struct phase *p)
{
    p->n_taps = 0;
    for (int64_t ky = 0; ky < v->kh; ky++)
        for (int64_t kx = 0; kx < v->kw; kx++) {
            struct conv_tap t;
            if (!meets_at(p->down, v->ph, ky, v->dh, v->sh, &t.y)) continue;
            if (!meets_at(p->right, v->pw, kx, v->dw, v->sw, &t.x)) continue;
            p->taps[p->n_taps] = t;
            p->which[p->n_taps++] = ky * v->kw + kx;
        }
}

struct turn_job {
    const struct conv *v;
    const struct phase *p;
    const char *weight;
    int64_t ld_w;
    char *to;
};

static inline void turn_taps(const struct turn_job *j, int64_t o, int64_t c, int64_t group)
{
    const struct conv *v = j->v;
    int64_t n = j->p->n_taps, from = (group * v->og + o) * j->ld_w + c * v->kk,
            to = ((group * v->cg + c) * v->og + o) * n;
    if (v->size_B == 4)
        for (int64_t t = 0; t < n; t++)
            ((uint32_t *)(void *)j->to)[to + t] = ((const uint32_t *)(const void *)j->weight)[from + j->p->which[t]];
    else
        for (int64_t t = 0; t < n; t++)
            ((uint64_t *)(void *)j->to)[to + t] = ((const uint64_t *)(const void *)j->weight)[from + j->p->which[t]];
}

// The weight as a phase meets it, [groups * cg, og * taps]; a unit is some channels of a group.
enum { TURNED = 16 };
static kiln_status turn_units(void *user, int64_t begin, int64_t end)
{
    const struct turn_job *j = user;
    const struct conv *v = j->v;
    int64_t blocks = (v->cg + TURNED - 1) / TURNED;
    for (int64_t u = begin; u < end; u++) {
        int64_t c0 = u % blocks * TURNED, c1 = c0 + TURNED < v->cg ? c0 + TURNED : v->cg;
        for (int64_t o = 0; o < v->og; o++)
            for (int64_t c = c0; c < c1; c++) turn_taps(j, o, c, u / blocks);
    }
    return KILN_OK;
}

struct grids { // that wait to be done together
    struct conv_grid of[CONV_GRIDS];
    struct launch_operand at[CONV_GRIDS];
    int64_t n;
};

static kiln_status do_grids(struct grids *g)
{
    for (int64_t i = 0; i < g->n; i++) g->of[i].y.o = &g->at[i];
    kiln_status status = g->n > 0 ? CPU_FN(cpu_conv_grids)(g->of, g->n) : KILN_OK;
    g->n = 0;
    return status;
}

static kiln_status add_phase(const struct conv *v, const struct launch *l, const struct phase *p,
                             const struct turn_job *j, struct grids *to)
{
    struct conv_side dx = conv_side(l, 2, v->cls);
    struct conv_grid g = {.images = v->n,
                          .h = v->oh,
                          .w = v->ow,
                          .sh = 1,
                          .sw = 1,
                          .groups = v->groups,
                          .channels = v->og,
                          .outputs = v->cg,
                          .taps = p->taps,
                          .n_taps = p->n_taps,
                          .weight = j->to,
                          .ld_w = v->og * p->n_taps,
                          .cls = v->cls,
                          .x = conv_side(l, 0, v->cls),
                          .y = dx};
    int64_t blocks = (v->cg + TURNED - 1) / TURNED;
    TRY(cpu_parallel(v->groups * blocks, v->og * p->n_taps * TURNED, turn_units, (void *)(uintptr_t)j));
    g.oh = (v->h - p->down + v->sh - 1) / v->sh;
    g.ow = (v->w - p->right + v->sw - 1) / v->sw;
    g.y.base = conv_at(&dx, 0, 0, p->down, p->right);
    if (to->n == CONV_GRIDS || (to->n > 0 && (to->of->oh != g.oh || to->of->ow != g.ow))) TRY(do_grids(to));
    to->at[to->n] = *dx.o;
    to->at[to->n].strides[2] *= v->sh, to->at[to->n].strides[3] *= v->sw;
    to->of[to->n++] = g;
    return KILN_OK;
}

// The forward convolution that gives dx with stride 1: of gradients, with the weight turned over.
static struct conv turned_over(const struct conv *v)
{
    struct conv t = *v;
    t.c = v->o, t.o = v->c, t.cg = v->og, t.og = v->cg, t.taps = v->og * v->kk;
    t.h = v->oh, t.w = v->ow, t.oh = v->h, t.ow = v->w;
    t.ph = (v->kh - 1) * v->dh - v->ph, t.pw = (v->kw - 1) * v->dw - v->pw;
    return t;
}

static kiln_status run_turned(const struct launch *l, const struct conv *t, struct turn_job *j, struct phase *p)
{
    struct conv_side dy = conv_side(l, 0, t->cls), dx = conv_side(l, 2, t->cls);
    p->n_taps = t->kk;
    for (int64_t k = 0; k < t->kk; k++) p->which[k] = t->kk - 1 - k;
    int64_t blocks = (t->og + TURNED - 1) / TURNED;
    TRY(cpu_parallel(t->groups * blocks, t->taps * TURNED, turn_units, j));
    return CPU_FN(cpu_conv_by_taps)(t, &dy, &dx, j->to, t->taps);
}

kiln_status CPU_FN(cpu_conv_phases)(const struct launch *l, const struct conv *v, const char *weight, int64_t ld_w)
{
    struct phase p = {0};
    int64_t taps_B = (v->kk + 1) * (int64_t)sizeof *p.taps, which_B = (v->kk + 1) * (int64_t)sizeof *p.which;
    char *memory = cpu_scratch(CPU_SCRATCH_STATE, (size_t)(taps_B + which_B + v->o * v->taps * v->size_B));
    if (!memory) return error_pending;
    p.taps = (struct conv_tap *)(void *)memory;
    p.which = (int64_t *)(void *)(memory + taps_B);
    struct turn_job j = {.v = v, .p = &p, .weight = weight, .ld_w = ld_w, .to = memory + taps_B + which_B};
    struct conv turned = turned_over(v);
    struct conv_side dy = conv_side(l, 0, v->cls);
    if (v->sh == 1 && v->sw == 1 && v->n > 0 && conv_is_direct(&turned, &dy)) return run_turned(l, &turned, &j, &p);
    // Each tap is one phase's, so that the lists and weights of all take no more room than the kernel's.
    struct grids grids = {.n = 0};
    for (p.down = 0; p.down < v->sh && p.down < v->h; p.down++)
        for (p.right = 0; p.right < v->sw && p.right < v->w; p.right++) {
            list_taps(v, &p);
            TRY(add_phase(v, l, &p, &j, &grids));
            p.taps += p.n_taps, p.which += p.n_taps;
            j.to += p.n_taps * v->o * v->cg * v->size_B;
        }
    return do_grids(&grids);
}
