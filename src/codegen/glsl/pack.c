// One launch of a fused kernel: its argument block, its grid and its workspace.
#include "codegen/glsl/form.h"
#include "codegen/turns.h"
#include "ir/grid.h"
#include "ir/type.h"

#include <string.h>

#define MAX_PARTIES 1024 // workgroups that leave partial totals

struct packer {
    const struct fused_kernel *k;
    const struct codegen_plan *plan;
    struct glsl_form form;
    struct glsl_layout layout;
    struct codegen_launch *out;
    bool plain[FUSED_MAX_IN]; // accesses that are not gathered through
};

static void put_long(struct packer *p, int at, uint64_t v)
{
    p->out->words[at] = (uint32_t)v;
    p->out->words[at + 1] = v >> 32;
}

static void put(struct packer *p, int at, uint64_t v)
{
    if (at < 0) return;
    if (p->plan->wide)
        put_long(p, at, v);
    else
        p->out->words[at] = (uint32_t)v;
}

// n / size == (high(n * factor) + n) >> shift for n below 2^31.
static void put_divisor(struct packer *p, int at, uint64_t size)
{
    if (at < 0) return;
    if (size == 0) size = 1; // nothing is divided by it
    uint32_t shift = size > 1 ? 64 - (uint32_t)__builtin_clzll(size - 1) : 0;
    p->out->words[at] = (uint32_t)(((UINT64_C(1) << 32) * ((UINT64_C(1) << shift) - size)) / size + 1);
    p->out->words[at + 1] = shift;
}

// Whether strides and sizes let the neighbours of a chunk along the fast dimension be one access, or two of four,
// wherever they are not one element. That addresses are aligned, the kernel sees for itself: a program may replace
// them.
static bool walks_by_neighbours(const struct packer *p)
{
    const struct fused_kernel *k = p->k;
    int fast = k->n_dims - 1;
    if (fast != glsl_first_walked(k, &p->form) && k->sizes[fast] % p->form.chunk) return false;
    for (int i = 0; i < k->n_in + k->n_out; i++) {
        const struct fused_access *a = fused_access_at(k, i);
        if (a->strides[fast] == 0 || (i < k->n_in && !p->plain[i])) continue;
        if (a->strides[fast] != 1 || fused_step(k, i) % 4 || (fused_takes_turns(k, i) && a->offset % 4)) return false;
        for (int d = 0; d < fast; d++)
            if (a->strides[d] % 4) return false;
    }
    return true;
}

// A bit for each side of a product of which fours lie at multiples of four elements. Addresses: as above.
static uint32_t sides_by_fours(const struct packer *p)
{
    struct glsl_side sides[GLSL_MAX_SIDES];
    int n = glsl_sides_of(p->k, &p->form, sides);
    uint32_t bits = 0;
    for (int i = 0; i < n; i++) {
        bool fits = sides[i].fast >= 0;
        for (int a = 0; a < p->k->n_in && fits; a++)
            for (int d = 0; d < p->k->n_dims && sides[i].access[a]; d++)
                fits = fits && (d == sides[i].fast || p->k->in[a].strides[d] % 4 == 0);
        if (fits) bits |= 1u << i;
    }
    return bits;
}

static int count_folds(const struct fused_kernel *k, bool across)
{
    int n = 0;
    for (int i = 0; i < k->dag.n_nodes; i++) n += fused_is_fold(&k->dag.nodes[i], across);
    return n;
}

// As many as there are counters for, which tell who of a row is the last one.
static uint32_t splits_of(const struct packer *p, const struct device_caps *caps, uint64_t blocks, uint64_t length)
{
    const struct glsl_form *f = &p->form;
    if (!f->splits || blocks > GLSL_COUNTERS_B / 4 - 1) return 1;
    struct grid_rows rows = {.groups = blocks,
                             .length = length,
                             .lanes = f->lanes,
                             .local = f->lanes * f->rows,
                             .columns = f->kind == GLSL_COLUMNS};
    return grid_splits(caps, &rows);
}

// One workgroup for each tile of each batch.
static uint64_t put_tiles(struct packer *p)
{
    struct glsl_sections s;
    glsl_sections_of(p->k, &p->form, &s);
    uint64_t batches = (uint64_t)glsl_section_size(p->k, &s, 0), m = (uint64_t)glsl_section_size(p->k, &s, 1);
    uint64_t n = (uint64_t)glsl_section_size(p->k, &s, 2);
    put(p, p->layout.m, m);
    put(p, p->layout.n, n);
    put(p, p->layout.batches, batches);
    if (p->form.kind == GLSL_ATTENTION) {
        put(p, p->layout.keys, (uint64_t)glsl_section_size(p->k, &s, 3));
        put(p, p->layout.depth, (uint64_t)glsl_section_size(p->k, &s, 4));
    }
    return ceil_div(m, p->form.tile_m) * ceil_div(n, p->form.tile_n) * batches;
}

static kiln_status plan_grid(struct packer *p, const struct device_caps *caps, uint64_t points, uint64_t length)
{
    const struct glsl_form *f = &p->form;
    const struct glsl_layout *l = &p->layout;
    uint64_t local = f->lanes * f->rows, slots = 0;
    bool by_points = f->kind == GLSL_POINTS;
    uint64_t blocks = by_points ? ceil_div(points, local * f->chunk * f->each) : ceil_div(points, f->rows);
    uint32_t splits = by_points ? 1 : splits_of(p, caps, blocks, length);
    uint64_t groups = glsl_is_product(f) ? put_tiles(p) : blocks * splits;
    if (splits > 1) slots += (uint64_t)count_folds(p->k, false) * points * splits;
    if (p->k->has_total) {
        uint64_t parties = splits > 1 ? blocks : blocks < MAX_PARTIES ? blocks : MAX_PARTIES;
        if (splits == 1) groups = parties ? parties : 1; // the total of nothing is stored, too
        if (parties > 1) slots += (uint64_t)count_folds(p->k, true) * parties;
        p->out->words[l->groups] = (uint32_t)groups;
    }
    if (groups > GRID_X_MAX * GRID_X_MAX)
        return error_set(KILN_E_UNSUPPORTED, "kernel %s: a grid of %llu workgroups is too large", p->k->name,
                         (unsigned long long)groups);
    if (l->splits >= 0) {
        p->out->words[l->splits] = splits;
        uint64_t unit = (uint64_t)f->lanes * f->chunk;
        put(p, l->part, ceil_div(ceil_div(length, splits), unit) * unit);
    }
    if (slots) {
        p->out->workspace_B = GLSL_COUNTERS_B + slots * GLSL_PARTIAL_B;
        p->out->workspace_zeroed = true;
    }
    grid_fold(p->k->trips.together && groups ? 1 : groups, p->out->groups);
    return KILN_OK;
}

static void put_arguments(struct packer *p, const uint64_t *addresses)
{
    const struct fused_kernel *k = p->k;
    const struct glsl_layout *l = &p->layout;
    int64_t turns_B = 0;
    for (int i = 0; i < k->n_in + k->n_out; i++) {
        const struct fused_access *a = fused_access_at(k, i);
        bool still = fused_is_nothing(k, a); // drivers read ahead of the test that there is no element
        put_long(p, 2 * i, addresses[i] + (uint64_t)(a->offset * dtype_size_B[a->dtype]));
        for (int d = 0; d < k->n_dims; d++) put(p, l->stride[i][d], still ? 0 : (uint64_t)a->strides[d]);
        if (l->step[i] >= 0)
            put_long(p, l->step[i],
                     (uint64_t)(fused_takes_turns(k, i) ? trips_turn_B(k, i, &turns_B)
                                                        : k->trips.step[i] * dtype_size_B[a->dtype]));
    }
    for (int d = 0; d < k->n_dims; d++) {
        put(p, l->size[d], (uint64_t)k->sizes[d]);
        put_divisor(p, l->divisor[d], (uint64_t)k->sizes[d]);
    }
    for (int i = 0; i < k->n_scalars; i++) {
        p->out->scalar_at[i] = l->scalar[i];
        if (k->scalar_cls[i] == CLASS_F64 || k->scalar_cls[i] == CLASS_I64)
            put_long(p, l->scalar[i], k->scalars[i]);
        else
            p->out->words[l->scalar[i]] = (uint32_t)k->scalars[i];
    }
    if (l->flags >= 0 && glsl_is_product(&p->form))
        p->out->words[l->flags] = sides_by_fours(p);
    else if (l->flags >= 0)
        p->out->words[l->flags] = walks_by_neighbours(p) ? GLSL_FLAG_NEIGHBOURS : 0;
    if (l->workspace >= 0) put_long(p, l->workspace, 0);
    // Turns of nothing have an address too.
    if (k->trips.together) p->out->workspace_B = turns_B ? (uint64_t)turns_B : 16;
}

kiln_status glsl_pack(const struct codegen_plan *plan, const struct fused_kernel *k, const uint64_t *addresses,
                      const struct device_caps *caps, struct codegen_launch *out)
{
    struct packer p = {.k = k, .plan = plan, .out = out};
    uint64_t points = (uint64_t)fused_points(k), length = (uint64_t)fused_row_length(k);
    glsl_form_load(plan, &p.form);
    for (int i = 0; i < k->dag.n_nodes; i++)
        if (k->dag.nodes[i].kind == SCALAR_LOAD && k->dag.nodes[i].n_args == 0) p.plain[k->dag.nodes[i].code] = true;
    glsl_layout_make(k, &p.form, plan->wide, &p.layout);
    out->workspace_B = 0;
    out->workspace_zeroed = false;
    out->units = out->unit_cost = 0;
    out->failed_at = out->streams_at = -1;
    out->n_words = p.layout.n_words;
    out->work = points * length * (k->trips.on ? (uint64_t)k->trips.most : 1);
    put(&p, p.layout.points, points);
    put(&p, p.layout.length, length);
    put_arguments(&p, addresses);
    TRY(plan_grid(&p, caps, points, length));
    out->workspace_at = out->workspace_B ? p.layout.workspace : -1;
    return KILN_OK;
}
