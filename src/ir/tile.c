// Start values stand on what the compiler of an AMD GPU says (bench/results/navi21.json and, for other runs, the same
// tool): no tile spills, in waves of 64 or 32. Products of f32 with a square of 128, 64, 32: 112, 72, 56 registers and
// 8, 14, 14 waves; a share of 90, 87, 70 percent of multiply-adds in the inner loop with runs of 8 steps, 83, 74, 70
// with single ones; runs of 16 bring 1 percent more for twice the instructions. Of integers runs take more registers
// (112 for 80) and gain nothing. Of 64 bits a square of 64 has 136 registers and 6 waves; one of 128 has no room in
// shared memory. Rows have 16 to 24 registers and all 32 waves with any number of lanes. An addition with four fours an
// invocation takes 3.8 cycles a point in 24 waves, with one 10.8 in 32.
#include "ir/tile.h"
#include "ir/grid.h"

#define DEPTH       16 // of a slice along the sum: shaders/product.glsl
#define COLUMN_ROWS 32
#define ROW_LEAST   64 // invocations of a workgroup of rows, at least

const char *const tile_kind_names[TILE_KINDS] = {"product", "row", "column", "point"};

static const struct tile lists[TILE_KINDS][TILE_LISTED] = {
    [TILE_PRODUCT] = {{32, 1}, {32, 8}, {TILE_MIDDLE, 1}, {TILE_MIDDLE, 8}, {128, 1}, {128, 8}},
    [TILE_ROW] = {{1, 1}, {8, 1}, {16, 1}, {32, 1}, {64, 1}, {128, 1}, {256, 1}},
    [TILE_COLUMN] = {{1, 1}, {2, 1}, {4, 1}, {8, 1}, {16, 1}},
    [TILE_POINT] = {{64, 1}, {128, 1}, {256, 1}, {64, 4}, {128, 4}, {256, 4}},
};

struct tile tile_of(enum tile_kind kind, unsigned n)
{
    return n > 0 && n <= TILE_LISTED ? lists[kind][n - 1] : (struct tile){0, 0};
}

unsigned tile_number(enum tile_kind kind, struct tile t)
{
    for (unsigned n = 1; n <= TILE_LISTED; n++)
        if (t.size && lists[kind][n - 1].size == t.size && lists[kind][n - 1].run == t.run) return n;
    return 0;
}

uint32_t tile_local(enum tile_kind kind, struct tile t)
{
    switch (kind) {
    case TILE_PRODUCT: return t.size == 128 ? 256 : t.size == 32 ? 64 : 128;
    case TILE_ROW: return t.size > ROW_LEAST ? t.size : ROW_LEAST;
    case TILE_COLUMN: return t.size * (uint32_t)COLUMN_ROWS;
    default: return t.size;
    }
}

// In the order of enum scalar_class.
static const struct {
    uint8_t value_B;
    bool is_float;
} classes[TILE_CLASSES] = {{4, true}, {8, true}, {4, false}, {8, false}, {4, false}};

bool tile_fits(const struct device_caps *caps, enum tile_kind kind, uint8_t cls, struct tile t)
{
    if (tile_local(kind, t) > caps->max_local) return false;
    if (kind != TILE_PRODUCT) return true;
    uint32_t slice_B = DEPTH * (t.size + 4u) * classes[cls].value_B;
    return 2 * slice_B <= caps->max_shared_B;
}

// --- classes of work: by powers of two

static const struct axis {
    uint8_t least, step, n; // logarithms: up to the least, then a class each step
} axes[TILE_KINDS][3] = {
    [TILE_PRODUCT] = {{5, 1, TILE_SIDES}, {5, 1, TILE_SIDES}, {0, 3, TILE_BATCHES}},
    [TILE_ROW] = {{0, 3, TILE_SIDES}, {3, 2, TILE_SIDES}, {0, 1, 1}},
    [TILE_COLUMN] = {{0, 3, TILE_SIDES}, {3, 2, TILE_SIDES}, {0, 1, 1}},
    [TILE_POINT] = {{10, 3, TILE_SIDES}, {0, 2, 2}, {0, 1, 1}},
};

static uint32_t class_on(const struct axis *a, uint64_t n)
{
    uint32_t log2 = n > 1 ? 64 - (uint32_t)__builtin_clzll(n - 1) : 0;
    uint32_t k = log2 <= a->least ? 0 : (log2 - a->least + a->step - 1) / a->step;
    return k < a->n ? k : a->n - 1u;
}

uint32_t tile_place(const struct tile_work *w)
{
    const struct axis *a = axes[w->kind];
    uint32_t at = w->kind * TILE_CLASSES + w->cls;
    at = at * TILE_SIDES + class_on(&a[0], w->sizes[0]);
    at = at * TILE_SIDES + class_on(&a[1], w->sizes[1]);
    return at * TILE_BATCHES + class_on(&a[2], w->sizes[2]);
}

struct tile_work tile_largest_of(uint32_t place)
{
    uint32_t k[3] = {place / (TILE_BATCHES * TILE_SIDES) % TILE_SIDES, place / TILE_BATCHES % TILE_SIDES,
                     place % TILE_BATCHES};
    uint32_t kind = place / (TILE_BATCHES * TILE_SIDES * TILE_SIDES);
    struct tile_work w = {.kind = (enum tile_kind)(kind / TILE_CLASSES), .cls = (uint8_t)(kind % TILE_CLASSES)};
    for (int i = 0; i < 3; i++) w.sizes[i] = UINT64_C(1) << (axes[w.kind][i].least + axes[w.kind][i].step * k[i]);
    return w;
}

// --- start values

#define MANY_ROWS   16
#define MANY_POINTS 16384 // invocations

static const struct start {
    uint16_t run;     // of products of floats
    uint16_t fours;   // that an invocation has of many points
    uint16_t most[2]; // the largest square, of values of 32 and of 64 bits
    struct lanes {
        uint32_t length;     // up to which it holds; few different numbers, for each is a pipeline
        uint16_t few, lanes; // with fewer than MANY_ROWS rows, and with others
    } rows[4];
} starts[] = {
    // Barriers cost a processor more than long rows do. Runs gain it nothing, and it has too few registers for them.
    [GRID_PROCESSOR] = {1, 1, {128, 64}, {{8, 1, 1}, {1023, 8, 1}, {UINT32_MAX, 8, 8}}},
    [GRID_INTEGRATED] = {8, 4, {128, 64}, {{8, 1, 1}, {128, 16, 16}, {1024, 64, 64}, {UINT32_MAX, 256, 256}}},
    [GRID_WAVE_32] = {8, 4, {128, 64}, {{8, 1, 1}, {128, 16, 16}, {1024, 64, 64}, {UINT32_MAX, 256, 256}}},
    [GRID_WAVE_64] = {8, 4, {128, 64}, {{8, 1, 1}, {128, 16, 16}, {1024, 64, 64}, {UINT32_MAX, 256, 256}}},
};

bool tile_is_worth_trying(const struct device_caps *caps, enum tile_kind kind, struct tile t)
{
    return kind != TILE_PRODUCT || t.run <= starts[grid_device(caps)].run;
}

// The largest square that still gives the device enough workgroups, is not mostly outside, and has room.
static struct tile start_product(const struct device_caps *caps, const struct start *s, const struct tile_work *w)
{
    uint64_t enough = caps->parallelism / 512 + 1, m = w->sizes[0], n = w->sizes[1];
    struct tile t = {s->most[classes[w->cls].value_B > 4], classes[w->cls].is_float ? s->run : 1};
    while (t.size > lists[TILE_PRODUCT][0].size) {
        bool fills = ceil_div(m, t.size) * ceil_div(n, t.size) * w->sizes[2] >= enough;
        if (fills && m > t.size / 2u && n > t.size / 2u && tile_fits(caps, TILE_PRODUCT, w->cls, t)) break;
        t.size /= 2;
    }
    return t;
}

// As many lanes as the rows alone leave idle, with 32 elements for each.
static struct tile start_column(const struct device_caps *caps, const struct tile_work *w)
{
    struct tile t = {1, 1}, more = {2, 1};
    while (more.size <= 16 && w->sizes[0] * t.size < caps->parallelism && w->sizes[1] / t.size > 32) {
        if (!tile_fits(caps, TILE_COLUMN, w->cls, more)) break;
        t = more;
        more.size *= 2;
    }
    return t;
}

// Where the device is full all the same, an invocation has several fours under way.
static struct tile start_point(const struct device_caps *caps, const struct start *s, const struct tile_work *w)
{
    struct tile t = {w->sizes[0] >= MANY_POINTS * w->sizes[1] ? 256 : 64, 1};
    if (w->sizes[1] == 4 && w->sizes[0] >= UINT64_C(32) * caps->parallelism) t.run = s->fours;
    while (t.size > 64 && !tile_fits(caps, TILE_POINT, w->cls, t)) t.size /= 2;
    return t;
}

static struct tile start_row(const struct device_caps *caps, const struct start *s, const struct tile_work *w)
{
    const struct lanes *l = s->rows;
    while (l->length < UINT32_MAX && w->sizes[1] > l->length) l++;
    struct tile t = {w->sizes[0] < MANY_ROWS ? l->few : l->lanes, 1};
    while (t.size > ROW_LEAST && !tile_fits(caps, TILE_ROW, w->cls, t)) t.size /= 2;
    return t;
}

struct tile tile_start(const struct device_caps *caps, const struct tile_work *w)
{
    const struct start *s = &starts[grid_device(caps)];
    switch (w->kind) {
    case TILE_PRODUCT: return start_product(caps, s, w);
    case TILE_ROW: return start_row(caps, s, w);
    case TILE_COLUMN: return start_column(caps, w);
    default: return start_point(caps, s, w);
    }
}

struct tile tile_choose(const struct device_caps *caps, const struct tile_work *w)
{
    struct tile_table *t = caps->tiles;
    if (t) {
        uint32_t place = tile_place(w);
        if (t->notes) __atomic_store_n(&t->asked[place], 1, __ATOMIC_RELAXED);
        unsigned n = __atomic_load_n(&t->number[place], __ATOMIC_RELAXED);
        if (n) return tile_of(w->kind, n);
    }
    return tile_start(caps, w);
}
