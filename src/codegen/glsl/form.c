// The choice of a form. Numbers follow from the family and the device, and from how many points there are, where that
// is worth another form: a plan is part of what a kernel is known by.
#include "codegen/glsl/form.h"
#include "ir/grid.h"
#include "ir/tile.h"
#include "scalar/reduce.h"
#include "scalar/prim.h"
#include <string.h>

#define POINT_LOCAL    256
#define MAX_LANES      1024
#define SPLIT_LANES    256
#define LONG_BODY      64 // nodes
#define REGISTERS_KEPT 64 // values that a lane may keep between passes

bool glsl_takes_neighbours(const struct fused_kernel *k, int access)
{
    if (k->n_dims == 0 || fused_access_at(k, access)->strides[k->n_dims - 1] != 1) return false;
    if (access >= k->n_in) return true;
    for (int i = 0; i < k->dag.n_nodes; i++) {
        const struct scalar_node *n = &k->dag.nodes[i];
        if (n->kind == SCALAR_LOAD && n->code == access && n->n_args == 0) return true;
    }
    return false;
}

// Lanes go along R where that is dense in memory, or where nothing else is.
static bool lanes_along_rows(const struct fused_kernel *k)
{
    int across = k->n_dims - k->n_reduce - 1;
    if (across < 0) return true;
    int along = 0, beside = 0;
    for (int i = 0; i < k->n_in + k->n_out; i++) {
        const struct fused_access *a = fused_access_at(k, i);
        along += a->strides[k->n_dims - 1] == 1;
        beside += a->strides[across] == 1 && a->strides[k->n_dims - 1] != 0;
    }
    return along >= beside;
}

// Bytes that an invocation has in shared arrays: one for each kind and class of fold.
static uint32_t shared_each_B(const struct fused_kernel *k)
{
    static const uint8_t class_B[CLASS_COUNT] = {4, 8, 4, 8, 4};
    uint32_t sum_B = 0;
    bool seen[REDUCE_COUNT][CLASS_COUNT] = {{false}};
    for (int i = 0; i < k->dag.n_nodes; i++) {
        const struct scalar_node *n = &k->dag.nodes[i];
        if (n->kind != SCALAR_REDUCE) continue;
        unsigned fold = reduce_of(n), cls = k->dag.nodes[n->arg[0]].cls;
        if (!seen[fold][cls]) sum_B += reduce_finds_place(n) ? 16 : class_B[cls];
        seen[fold][cls] = true;
    }
    return sum_B;
}

// The largest workgroup: a power of two, within what the device has room for, less a little for a flag.
static uint32_t largest_local(const struct fused_kernel *k, const struct device_caps *caps)
{
    uint32_t local = MAX_LANES, each_B = shared_each_B(k);
    while (local > 1 && (local > caps->max_local || local * each_B + 16 > caps->max_shared_B)) local /= 2;
    return local;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static void choose_rows(const struct device_caps *caps, uint64_t length, uint32_t largest, struct glsl_form *f)
{
    bool small = grid_is_small(caps);
    uint32_t most = small ? 8 : length <= 128 ? 32 : length <= 4096 ? 256 : length <= 8192 ? 512 : MAX_LANES;
    uint32_t least = smaller(small ? 64 : 128, largest);
    most = smaller(most, largest);
    f->lanes = 1;
    while (length > 8 && f->lanes < most && f->lanes * f->chunk < length) f->lanes *= 2;
    f->rows = f->lanes < least ? least / f->lanes : 1;
}

// What lies side by side has two bytes an element: then eight of them are 16 bytes.
static bool is_of_halves(const struct fused_kernel *k)
{
    bool any = false;
    for (int i = 0; i < k->n_in + k->n_out; i++) {
        if (!glsl_takes_neighbours(k, i)) continue;
        if (dtype_size_B[fused_access_at(k, i)->dtype] != 2) return false;
        any = true;
    }
    return any;
}

// Elements that a lane keeps in registers, where there are enough for all values of the row.
static uint32_t kept_by_lane(const struct device_caps *caps, const struct glsl_form *f, uint64_t length, int n_kept)
{
    uint64_t each = ceil_div(length, f->lanes), most = grid_is_small(caps) ? 8 : 16;
    return each <= most && each * (uint64_t)n_kept <= REGISTERS_KEPT ? (uint32_t)each : 0;
}

// By eights, unless a row fits into registers by fours alone.
static void choose_halves(const struct device_caps *caps, uint64_t length, uint32_t largest, int n_kept,
                          struct glsl_form *f)
{
    struct glsl_form eights = *f;
    eights.chunk = 8;
    choose_rows(caps, length, largest, &eights);
    if (kept_by_lane(caps, &eights, length, n_kept) || !kept_by_lane(caps, f, length, n_kept)) *f = eights;
}

static void choose_columns(const struct device_caps *caps, uint64_t length, uint32_t largest, struct glsl_form *f)
{
    f->rows = smaller(grid_is_small(caps) ? 8 : 32, largest);
    f->lanes = 1;
    while (f->lanes < 16 && f->lanes * 16 < length && f->rows * f->lanes * 2 <= largest) f->lanes *= 2;
}

static void choose_fours(const struct fused_kernel *k, struct glsl_form *f)
{
    struct glsl_side sides[GLSL_MAX_SIDES];
    int n = glsl_sides_of(k, f, sides);
    for (int i = 0; i < n; i++)
        if (sides[i].fast >= 0) f->vector |= 1u << i;
}

uint32_t glsl_halves_of(const struct fused_kernel *k)
{
    const struct scalar_node *a = &k->dag.nodes[k->product.a], *b = &k->dag.nodes[k->product.b];
    if (a->kind != SCALAR_LOAD || b->kind != SCALAR_LOAD) return DTYPE_COUNT;
    uint32_t dtype = k->in[a->code].dtype;
    bool halves = dtype == KILN_F16 || dtype == KILN_BF16;
    return halves && k->in[b->code].dtype == dtype ? dtype : DTYPE_COUNT;
}

static double multiply_adds(const struct fused_kernel *k)
{
    double n = 1;
    for (int d = 0; d < k->n_dims; d++) n *= (double)k->sizes[d];
    return n;
}

static void choose_tiles(const struct fused_kernel *k, const struct device_caps *caps, struct glsl_form *f)
{
    struct glsl_sections s;
    glsl_sections_of(k, f, &s);
    struct tile_work w = {.kind = TILE_PRODUCT, .cls = k->dag.nodes[k->product.sum].cls};
    for (int i = 0; i < 3; i++) w.sizes[i] = (uint64_t)glsl_section_size(k, &s, (i + 1) % 3);
    struct tile t = tile_choose(caps, &w);
    f->tile_m = f->tile_n = t.size;
    f->run = t.run;
    f->lanes = tile_local(TILE_PRODUCT, t);
    f->rows = f->chunk = 1;
    f->matrix = w.cls == CLASS_F32 ? caps_matrix_side(caps, glsl_halves_of(k)) : 0;
    if (f->matrix) f->subgroup = caps->subgroup_size;
    f->small = grid_is_small(caps) && !f->matrix && multiply_adds(k) <= SMALL_PRODUCT;
    if (!f->small) choose_fours(k, f);
}

// Whether an access along p meets again what it met along r: windows of an image that overlap.
static bool overlaps(const struct fused_kernel *k, const struct fused_access *a, int p, int r)
{
    int64_t along = a->strides[p], across = a->strides[r];
    return along > 0 && across > 0 && along * (k->sizes[p] - 1) >= across && across * (k->sizes[r] - 1) >= along;
}

static bool slides(const struct fused_kernel *k, const struct fused_access *a)
{
    int first = k->product.n_batch + k->product.n_m, end = first + k->product.n_n;
    for (int p = first; p < end; p++)
        for (int r = k->n_dims - k->n_reduce; r < k->n_dims; r++)
            if (overlaps(k, a, p, r)) return true;
    return false;
}

// Where neighbours of an image are read with a condition for each, and again for each tap, no tile is filled. On
// processors, which gain little by shared memory, overlapping windows without conditions go so too.
static bool goes_over_taps(const struct fused_kernel *k, const struct device_caps *caps)
{
    if (!k->product.n_m || k->n_reduce > GLSL_MAX_TAP_DIMS) return false;
    const struct scalar_node *b = &k->dag.nodes[k->product.b];
    return b->kind == SCALAR_LOAD && (b->n_args == 2 || (grid_is_small(caps) && slides(k, &k->in[b->code])));
}

static void choose_attention(const struct fused_kernel *k, const struct device_caps *caps, struct glsl_form *f)
{
    struct glsl_sections s;
    *f = (struct glsl_form){.kind = GLSL_ATTENTION, .lanes = 256, .rows = 1, .chunk = 1, .subgroup = 1, .tile_m = 64};
    glsl_sections_of(k, f, &s);
    uint32_t width = 64;
    if (grid_is_small(caps)) {
        f->lanes = 64;
        width = 32;
        if (glsl_section_size(k, &s, 1) <= 32) f->tile_m = 32;
    } else { // not on processors, which go both ways where fours may be had or not
        choose_fours(k, f);
    }
    f->tile_n = (uint32_t)ceil_div((uint64_t)glsl_section_size(k, &s, 2), width) * width;
}

// Something is read or written by neighbours, and nothing at places that lie apart. What is gathered is at its own.
static bool goes_by_neighbours(const struct fused_kernel *k)
{
    bool any = false;
    for (int i = 0; i < k->n_in + k->n_out; i++) {
        bool placed = i < k->n_in && fused_is_placed(k, i);
        int64_t step = k->n_dims && !placed ? fused_access_at(k, i)->strides[k->n_dims - 1] : 0;
        if (step && step != 1) return false;
        any = any || glsl_takes_neighbours(k, i);
    }
    return any;
}

static void choose_form(const struct fused_kernel *k, const struct device_caps *caps, int n_kept, struct glsl_form *f)
{
    int64_t longest = fused_longest_row(k);
    uint64_t length = longest ? (uint64_t)longest : 1;
    *f = (struct glsl_form){
        .kind = GLSL_POINTS, .lanes = 1, .chunk = k->trips.on && !k->n_reduce ? 1 : 4, .subgroup = 1};
    if (k->attention.n_m) {
        choose_attention(k, caps, f);
        return;
    }
    if (goes_over_taps(k, caps)) {
        *f = (struct glsl_form){
            .kind = GLSL_TAPS, .lanes = 64, .rows = 1, .chunk = 1, .subgroup = 1, .tile_m = 8, .tile_n = 256};
        return;
    }
    if (k->product.n_m) {
        f->kind = GLSL_TILES;
        choose_tiles(k, caps, f);
        return;
    }
    uint32_t largest = largest_local(k, caps);
    bool halves = f->chunk == 4 && !grid_is_small(caps) && is_of_halves(k);
    if (halves && !k->n_reduce) f->chunk = 8;
    f->rows = smaller(grid_is_small(caps) ? 64 : POINT_LOCAL, largest);
    if (k->n_reduce > 0) {
        f->kind = lanes_along_rows(k) ? GLSL_ROWS : GLSL_COLUMNS;
        if (f->kind == GLSL_ROWS)
            choose_rows(caps, length, largest, f);
        else
            choose_columns(caps, length, largest, f);
        if (f->kind == GLSL_ROWS && halves) choose_halves(caps, length, largest, n_kept, f);
        f->keep = kept_by_lane(caps, f, length, n_kept);
        while (f->keep % f->chunk) f->chunk = f->chunk == 8 ? 4 : 1;
        f->splits = !f->keep && !k->trips.on && fused_may_cut(k);
        // A row that is read once gains from many small workgroups; one that is read again, from staying in the caches.
        if (f->splits && f->lanes > SPLIT_LANES) f->lanes = SPLIT_LANES;
    }
    if (f->kind != GLSL_COLUMNS && f->chunk > 1 && goes_by_neighbours(k))
        f->vector = grid_is_small(caps) ? 1 : GLSL_VECTOR_SPLIT;
    if (f->kind != GLSL_COLUMNS && caps->shuffle && caps->subgroup_size > 1) f->subgroup = caps->subgroup_size;
}

// Several chunks a lane where the device is full all the same, as kernels of the catalogue have: what a workgroup
// begins with is paid once for all. A table has kernels of many sizes, which share a plan. Long bodies gain nothing.
static uint32_t chunks_each(const struct fused_kernel *k, const struct device_caps *caps, const struct glsl_form *f)
{
    if (grid_is_small(caps) || f->kind != GLSL_POINTS || k->trips.on || k->has_total) return 1;
    if (k->dag.n_nodes > LONG_BODY) return 1;
    struct tile_work w = {TILE_POINT, CLASS_F32, {k->table ? INT64_MAX : (uint64_t)fused_points(k), 4, 1}};
    uint32_t run = tile_choose(caps, &w).run * 4u / f->chunk;
    return run ? run : 1;
}

void glsl_form_choose(const struct fused_kernel *k, const struct device_caps *caps, int n_kept, struct glsl_form *out)
{
    choose_form(k, caps, n_kept, out);
    out->halves = caps->halves;
    out->each = chunks_each(k, caps, out);
}

void glsl_form_save(const struct glsl_form *f, struct codegen_plan *p)
{
    const uint32_t values[] = {f->kind,   f->lanes,  f->rows, f->chunk, f->keep,   f->vector, f->splits, f->subgroup,
                               f->tile_m, f->tile_n, f->run,  f->small, f->matrix, f->halves, f->each};
    _Static_assert(sizeof values == sizeof *f && sizeof values <= sizeof p->choices, "a form fits into a plan");
    memcpy(p->choices, values, sizeof values);
    p->form = (uint8_t)f->kind;
    p->local[0] = (uint16_t)(f->lanes * f->rows);
    p->local[1] = p->local[2] = 1;
}

void glsl_form_load(const struct codegen_plan *p, struct glsl_form *out)
{
    const uint32_t *c = p->choices;
    *out = (struct glsl_form){c[0], c[1], c[2],  c[3],  c[4],  c[5],  c[6], c[7],
                              c[8], c[9], c[10], c[11], c[12], c[13], c[14]};
}

void glsl_sections_of(const struct fused_kernel *k, const struct glsl_form *f, struct glsl_sections *out)
{
    int parallel = k->n_dims - k->n_reduce, first = glsl_first_walked(k, f);
    const struct fused_product *p = &k->product;
    const struct fused_attention *t = &k->attention;
    int d = t->n_batch + t->n_m;
    if (f->kind == GLSL_ATTENTION)
        *out = (struct glsl_sections){5, {0, t->n_batch, d, d + t->n_d, d + t->n_d + t->n_n, k->n_dims}};
    else if (glsl_is_product(f))
        *out = (struct glsl_sections){4, {0, p->n_batch, p->n_batch + p->n_m, parallel, k->n_dims}};
    else if (first > 0)
        *out = (struct glsl_sections){2, {0, first, k->n_dims}};
    else
        *out = (struct glsl_sections){1, {0, k->n_dims}};
}

int64_t glsl_section_size(const struct fused_kernel *k, const struct glsl_sections *s, int section)
{
    int64_t n = 1;
    for (int d = s->begin[section]; d < s->begin[section + 1]; d++) n *= k->sizes[d];
    return n;
}

// --- the argument block ---

static int take(struct glsl_layout *l, int n_words)
{
    int at = l->n_words;
    l->n_words += n_words;
    return at;
}

static void place_dims(const struct fused_kernel *k, const struct glsl_form *f, bool wide, struct glsl_layout *l)
{
    int number = wide ? 2 : 1;
    struct glsl_sections sections;
    glsl_sections_of(k, f, &sections);
    bool named[FUSED_MAX_DIMS] = {false};
    for (int i = 0; i < k->dag.n_nodes; i++)
        if (k->dag.nodes[i].kind == SCALAR_SIZE) named[k->dag.nodes[i].code] = true;
    for (int d = 0; d < k->n_dims; d++) {
        bool divides = true; // by the sizes of all but the outermost
        for (int i = 0; i < sections.n; i++) divides = divides && d != sections.begin[i];
        l->size[d] = divides || named[d] ? take(l, number) : -1;
        l->divisor[d] = divides && !wide ? take(l, 2) : -1;
    }
    for (int i = 0; i < k->n_in + k->n_out; i++) {
        for (int d = 0; d < k->n_dims; d++) {
            int64_t s = fused_access_at(k, i)->strides[d];
            l->stride[i][d] = s == 0 || s == 1 ? -1 : take(l, number);
        }
    }
}

void glsl_layout_make(const struct fused_kernel *k, const struct glsl_form *f, bool wide, struct glsl_layout *out)
{
    struct glsl_layout *l = out;
    int number = wide ? 2 : 1;
    *l = (struct glsl_layout){.n_words = 2 * (k->n_in + k->n_out)};
    l->points = take(l, number);
    l->length = f->kind == GLSL_POINTS ? -1 : take(l, number);
    l->m = l->n = l->batches = l->keys = l->depth = -1;
    if (f->kind == GLSL_ATTENTION) {
        l->keys = take(l, number);
        l->depth = take(l, number);
    }
    if (glsl_is_product(f)) {
        l->m = take(l, number);
        l->n = take(l, number);
        l->batches = take(l, number);
    }
    l->flags = f->vector ? take(l, 1) : -1;
    l->groups = k->has_total ? take(l, 1) : -1;
    l->splits = f->splits ? take(l, 1) : -1;
    l->part = f->splits ? take(l, number) : -1;
    l->workspace = f->splits || k->has_total || k->trips.together ? take(l, 2) : -1;
    place_dims(k, f, wide, l);
    for (int i = 0; i < k->n_in + k->n_out; i++)
        l->step[i] = fused_step(k, i) || fused_takes_turns(k, i) ? take(l, 2) : -1;
    for (int i = 0; i < k->n_scalars; i++) {
        bool is_long = k->scalar_cls[i] == CLASS_F64 || k->scalar_cls[i] == CLASS_I64;
        l->scalar[i] = take(l, is_long ? 2 : 1);
    }
}
