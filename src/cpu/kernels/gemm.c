// The product of two matrices, out = a b, by blocks for the caches and tiles for the registers.
//
// b is cut into panels of as many columns as a tile has, and packed: the positions of a panel follow each other. All
// threads share what is packed. A block of rows then takes the panels in turn, k positions at a time: rows of a, packed
// or as they lie, wait in the second-level cache, the piece of a panel in the first, and what meets adds up in the
// block of the result, whose elements thus get their sums in an order that depends on the sizes of blocks of k alone. A
// finished block is converted before it leaves the cache, and where it has whole rows, what goes on with them (`after`)
// follows at once.
//
// Large factors b are taken in chunks of columns, whose panels fit into the third-level cache; endless k in chunks too.
#include "cpu/kernels/gemm_kind.h"
#include "cpu/parallel.h"

enum {
    MAX_K = 1 << 15,    // positions of a chunk
    OWN_SIZE = 1 << 25, // multiplications up to which threads do not wait for each other's panels
    SHORT = 8,          // positions of rows that come from memory, a stream each, by how often they are passed
    LONG = 128,
    AHEAD_B = 1024, // that are asked of memory in each of them
    ACROSS = 16,    // positions that are packed for all rows before the next
    PACK_COST = 24,
    EDGE = 8, // what it costs to pack a row of a, and to read a panel, in columns and rows
};

struct gemm_plan {
    const struct gemm *g;
    const struct gemm_kind *kind;
    int64_t column0, columns, panels; // of this chunk
    int64_t k0, k, units;
    int64_t row_blocks, column_blocks;
    const char *kept_b; // panels that were packed before
    char *packed_b;     // panels of the chunk; NULL: b is read as it lies, or kept
    bool pack_a, in_place, add, last;
    bool streams;  // rows of b come from memory, a few at a time
    bool by_piece; // a piece of a panel is packed where it is multiplied, for few rows
    int64_t step;  // positions of a block of k
    bool hands_on; // blocks have whole rows, of which `after` takes slices
    char *sums;    // of all of out, where it is not in place and k comes in chunks
};

static struct gemm_matrix at(const struct gemm_matrix *x, int64_t i, int64_t j)
{
    struct gemm_matrix y = *x;
    y.at += (i * x->row + j * x->col) * cpu_dtype_size_B[x->dtype];
    return y;
}

static int64_t panel_B(const struct gemm_plan *p)
{
    return p->units * p->kind->tiles.columns * p->kind->unit_B;
}

static const char *panels_of(const struct gemm_plan *p)
{
    return p->kept_b ? p->kept_b : p->packed_b;
}

static kiln_status pack_panels(void *user, int64_t begin, int64_t end)
{
    const struct gemm_plan *p = user;
    const struct gemm_kind *kind = p->kind;
    int64_t wide = kind->tiles.columns, step = p->step;
    for (int64_t i = begin; i < end; i++)
        for (int64_t q = 0; q < p->k; q += step) {
            struct gemm_matrix b = at(&p->g->b, p->k0 + q, p->column0 + i * wide);
            kind->pack_b(&b, least(p->k - q, step), least(p->columns - i * wide, wide),
                         p->packed_b + i * panel_B(p) + q / kind->depth * wide * kind->unit_B, 0);
        }
    return KILN_OK;
}

struct gemm_block { // of the result: rows and panels of the chunk
    int64_t row0, rows, panel0, panels, column0, columns;
    char *a, *piece, *sums; // packed rows, a piece of a panel; sums, rows ld apart
    int64_t ld, asked_B;    // of what the next product reads
    bool add;
};

// Rows of packed a are a line longer than their positions, so that no two lie a power of two apart.
static int64_t packed_row(const struct gemm_plan *p)
{
    return parts(p->step, p->kind->depth) + 64 / p->kind->unit_B;
}

static int64_t sum_B(const struct gemm_plan *p)
{
    return cpu_class_size_B[p->g->cls];
}

// `rows` rows from row0 on are taken in `heights` tiles, as high as each other or one row less.
struct gemm_heights {
    int64_t n, low, high;
};

static struct gemm_heights heights_of(const struct gemm_plan *p, int64_t rows)
{
    int64_t n = parts(rows, p->kind->tiles.rows);
    return (struct gemm_heights){n, rows / n, rows % n};
}

static void pack_rows(const struct gemm_plan *p, const struct gemm_block *b, int64_t q, int64_t k)
{
    const struct gemm_kind *kind = p->kind;
    struct gemm_matrix a = at(&p->g->a, b->row0, p->k0 + q);
    if (a.row != 1 || a.col == 1 || !kind->pack_a_across) {
        kind->pack_a(&a, b->rows, k, b->a, packed_row(p));
        return;
    }
    struct gemm_heights h = heights_of(p, b->rows);
    int64_t strip = kind->depth * ACROSS;
    for (int64_t from = 0; from < k; from += strip)
        for (int64_t i = 0, r = 0; i < h.n; i++) {
            struct gemm_matrix piece = at(&a, r, from);
            int64_t rows = h.low + (i < h.high), first = r * parts(k, kind->depth) + rows * (from / kind->depth);
            kind->pack_a_across(&piece, rows, least(k - from, strip), b->a + first * kind->unit_B);
            r += rows;
        }
}

// The first part of what the next product reads that nobody has asked for, as many lines as a tile has positions.
static void ask_next(const struct gemm *g, struct gemm_block *b, struct gemm_tile *t)
{
    int64_t at_B = b->asked_B;
    for (int m = 0; m < 2; m++) {
        if (at_B < g->ahead[m].size_B) {
            t->next = g->ahead[m].at + at_B;
            t->next_B = 64;
            b->asked_B += least(t->k * 64, g->ahead[m].size_B - at_B);
            return;
        }
        at_B -= g->ahead[m].size_B;
    }
}

// The next panel is asked of memory in the course of the tiles of this one, or of the first; rows of b that are read as
// they lie some panels ahead. `i`: of n tiles.
static void ask_ahead(const struct gemm_plan *p, struct gemm_block *b, int64_t panel, int64_t i, int64_t n,
                      struct gemm_tile *t)
{
    int64_t tiles = p->kind->asks_evenly ? n : 2, unit_B = p->kind->asks_evenly ? parts(t->b_step_B, n) : 64;
    bool ahead = panels_of(p) && i < tiles && panel + 1 < b->panel0 + b->panels;
    t->next = ahead ? t->b + panel_B(p) + i * t->k * unit_B : t->b;
    t->next_B = ahead ? unit_B : 0;
    if (!ahead && b->rows == p->g->m && !p->streams) ask_next(p->g, b, t);
    if (panels_of(p) || p->by_piece || !p->streams || i > 0) return;
    t->next = t->b + AHEAD_B;
    t->next_B = t->b_step_B;
}

// One panel against all rows of the block, k positions from q on.
static void multiply_panel(const struct gemm_plan *p, struct gemm_block *b, int64_t panel, int64_t q, int64_t k)
{
    const struct gemm_kind *kind = p->kind;
    const struct gemm_matrix *a = &p->g->a;
    int64_t wide = kind->tiles.columns, unit_B = kind->unit_B, element_B = unit_B / kind->depth;
    int64_t column = panel * wide, columns = least(p->columns - column, wide);
    struct gemm_tile t = {.k = parts(k, kind->depth), .ld_out = b->ld, .columns = columns, .add = b->add || q > 0};
    if (p->by_piece) {
        struct gemm_matrix from = at(&p->g->b, p->k0 + q, p->column0 + column);
        kind->pack_b(&from, k, columns, b->piece, p->streams ? AHEAD_B : 0);
        t.b = b->piece;
        t.b_step_B = wide * unit_B;
    } else if (panels_of(p)) {
        t.b = panels_of(p) + panel * panel_B(p) + q / kind->depth * wide * unit_B;
        t.b_step_B = wide * unit_B;
    } else {
        t.b = at(&p->g->b, p->k0 + q, p->column0 + column).at;
        t.b_step_B = p->g->b.row * unit_B;
        t.partial = columns % kind->lanes != 0;
    }
    bool across = p->pack_a && a->row == 1 && a->col != 1 && kind->pack_a_across;
    struct gemm_heights h = heights_of(p, b->rows);
    for (int64_t i = 0, r = 0; i < h.n; i++) {
        int64_t rows = h.low + (i < h.high);
        t.row_B = across ? unit_B : p->pack_a ? packed_row(p) * unit_B : a->row * element_B;
        t.step_B = across ? rows * unit_B : p->pack_a ? unit_B : a->col * unit_B;
        t.a = !p->pack_a ? at(a, b->row0 + r, p->k0 + q).at : b->a + r * (across ? t.k : packed_row(p)) * unit_B;
        t.out = b->sums + (r * b->ld + column - b->panel0 * wide) * sum_B(p);
        ask_ahead(p, b, panel, i, h.n, &t);
        kind->tile[rows - 1][columns > kind->lanes](&t);
        r += rows;
    }
}

static kiln_status finish_block(const struct gemm_plan *p, const struct gemm_block *b)
{
    const struct gemm *g = p->g;
    if (!p->last) return KILN_OK;
    if (p->in_place) return KILN_OK;
    struct gemm_matrix out = at(&g->out, b->row0, b->column0);
    if (out.col == 1 && p->kind->store && p->kind->store(b->sums, b->ld, &out, b->rows, b->columns)) return KILN_OK;
    CPU_FN(cpu_store_tile)(out.at, out.dtype, out.row, out.col, b->sums, b->ld, g->cls, b->rows, b->columns);
    return KILN_OK;
}

static kiln_status multiply_block(const struct gemm_plan *p, int64_t row0, int64_t rows, int64_t panel0, int64_t panels)
{
    const struct gemm_kind *kind = p->kind;
    int64_t wide = kind->tiles.columns, step = p->step;
    struct gemm_block b = {row0, rows, panel0, panels, p->column0 + panel0 * wide, .add = p->add};
    b.columns = least(p->columns - panel0 * wide, panels * wide);
    int64_t a_B = p->pack_a ? parts(rows * packed_row(p) * kind->unit_B, 64) * 64 : 0;
    int64_t piece_B = p->by_piece ? parts(least(step, p->k), kind->depth) * wide * kind->unit_B : 0;
    b.ld = panels * wide + 64 / sum_B(p);
    int64_t sums_B = !p->in_place && !p->sums ? rows * b.ld * sum_B(p) : 0;
    if (a_B + piece_B + sums_B > 0) {
        b.a = cpu_scratch(CPU_SCRATCH_ROWS, (size_t)(a_B + piece_B + sums_B));
        if (!b.a) return error_pending;
        b.piece = b.a + a_B;
        b.sums = b.piece + piece_B;
    }
    if (p->in_place)
        b.sums = at(&p->g->out, row0, b.column0).at, b.ld = p->g->out.row;
    else if (p->sums)
        b.ld = p->g->n, b.sums = p->sums + (row0 * b.ld + b.column0) * sum_B(p);
    int64_t q = 0;
    do {
        int64_t k = least(p->k - q, step);
        if (p->pack_a) pack_rows(p, &b, q, k);
        for (int64_t i = panel0; i < panel0 + panels; i++) multiply_panel(p, &b, i, q, k);
        q += step;
    } while (q < p->k);
    gemm_end(kind);
    return finish_block(p, &b);
}

// Blocks of rows are of about equal height; in whole slices where those are handed on.
static int64_t block_row(const struct gemm_plan *p, int64_t r)
{
    int64_t slice = p->hands_on ? p->g->after->rows : 1;
    return least(parts(p->g->m, slice) * r / p->row_blocks * slice, p->g->m);
}

static kiln_status hand_on(const struct gemm_plan *p, int64_t r)
{
    if (!p->hands_on || !p->last) return KILN_OK;
    int64_t slice = p->g->after->rows;
    return CPU_FN(cpu_after)(p->g->after, block_row(p, r) / slice, parts(block_row(p, r + 1), slice));
}

// Blocks go along columns first, so that those of one thread share rows.
static kiln_status multiply_blocks(void *user, int64_t begin, int64_t end)
{
    const struct gemm_plan *p = user;
    for (int64_t i = begin; i < end; i++) {
        int64_t r = i / p->column_blocks, c = i % p->column_blocks;
        int64_t row0 = block_row(p, r), row1 = block_row(p, r + 1);
        int64_t panel0 = p->panels * c / p->column_blocks, panel1 = p->panels * (c + 1) / p->column_blocks;
        if (row1 == row0) continue;
        TRY(multiply_block(p, row0, row1 - row0, panel0, panel1 - panel0));
        TRY(hand_on(p, r));
    }
    return KILN_OK;
}

// Panels of a thread's own, for all rows.
static kiln_status multiply_panels(void *user, int64_t begin, int64_t end)
{
    struct gemm_plan p = *(const struct gemm_plan *)user;
    if (p.packed_b) TRY(pack_panels(&p, begin, end));
    int64_t most = parts(p.kind->tiles.n, p.kind->tiles.columns), pieces = parts(end - begin, most);
    for (int64_t r = 0; r < p.row_blocks; r++) {
        int64_t row0 = block_row(&p, r), row1 = block_row(&p, r + 1);
        for (int64_t c = 0; c < pieces && row1 > row0; c++) {
            int64_t panel0 = begin + (end - begin) * c / pieces, panel1 = begin + (end - begin) * (c + 1) / pieces;
            TRY(multiply_block(&p, row0, row1 - row0, panel0, panel1 - panel0));
        }
        TRY(hand_on(&p, r));
    }
    return KILN_OK;
}

static double blocks_cost(const struct gemm_plan *p, int64_t row_blocks, int64_t column_blocks, int64_t threads)
{
    int64_t rows = parts(p->g->m, row_blocks), columns = parts(p->panels, column_blocks) * p->kind->tiles.columns;
    return (double)parts(row_blocks * column_blocks, threads) * (double)(rows + EDGE) * (double)(columns + PACK_COST);
}

// Blocks of few enough rows and columns, of which each thread gets as many as any other where that is possible.
static void choose_blocks(struct gemm_plan *p, int64_t threads)
{
    int64_t rows = parts(p->g->m, p->kind->tiles.m),
            columns = p->hands_on || p->streams ? 1 : parts(p->columns, p->kind->tiles.n);
    int64_t most = p->hands_on ? 1 : p->panels;
    p->row_blocks = rows, p->column_blocks = columns;
    double best = blocks_cost(p, rows, columns, threads);
    for (int64_t c = columns; c <= most && c < columns + threads; c++)
        for (int64_t r = rows; r <= p->g->m && r < rows + threads; r++) {
            double cost = blocks_cost(p, r, c, threads);
            if (cost >= best) continue;
            best = cost, p->row_blocks = r, p->column_blocks = c;
        }
}

static kiln_status multiply_chunk(struct gemm_plan *p)
{
    const struct gemm_tiles *tiles = &p->kind->tiles;
    int64_t threads = cpu_threads();
    double size = (double)p->g->m * (double)p->columns * (double)(p->k > 0 ? p->k : 1);
    bool even = p->panels >= 4 * threads || p->panels % threads == 0;
    if (threads == 1 || (size <= OWN_SIZE && even && !p->hands_on)) {
        p->row_blocks = parts(p->g->m, tiles->m), p->column_blocks = 1;
        return cpu_parallel(p->panels, (int64_t)(size / 16 / (double)p->panels) + 1, multiply_panels, p);
    }
    choose_blocks(p, threads);
    int64_t blocks = p->row_blocks * p->column_blocks;
    if (p->packed_b) TRY(cpu_parallel(p->panels, tiles->columns * p->k, pack_panels, p));
    return cpu_parallel(blocks, (int64_t)(size / 16 / (double)blocks) + 1, multiply_blocks, p);
}

static bool lies_well(const struct gemm_kind *kind, const struct gemm_matrix *x, bool along_k)
{
    return x->dtype == kind->dtype && (kind->depth == 1 || along_k);
}

// With AVX2 a row of b is one line of the cache, and so is what a tile reads of a position of a whose rows are
// neighbours. Positions that are spread over more than this are packed: half of a second-level cache of 512 KiB in
// eight ways (Zen 2 and 3), where lines a power of two apart share few sets, and the 64 pages that are known at once.
enum { SPREAD_B = 1 << 18 };

static bool is_spread(const struct gemm_plan *p, int64_t step)
{
    double extent_B = (double)p->g->k * (double)(step < 0 ? -step : step) * p->kind->unit_B / p->kind->depth;
    return extent_B > SPREAD_B;
}

// A factor that lies well is packed where that pays. Of b a row is a few lines, one of them at each step, which is slow
// where b is large and passed through often, or where a panel that is packed stays in the first-level cache for many
// rows.
static bool wants_packed_b(const struct gemm_plan *p)
{
    enum { SMALL_B = 1 << 20, FEW_ROWS = 128, MANY_ROWS = 128, SMALL_PANEL_B = 1 << 14, WORTH_PACKING = 48 };
    const struct gemm *g = p->g;
    int64_t row_B = p->kind->tiles.columns * p->kind->unit_B, lines = row_B / 64;
    bool large = (double)g->k * (double)g->n * p->kind->unit_B > SMALL_B * lines;
    if (g->m > WORTH_PACKING && is_spread(p, g->b.row)) return true;
    return (g->m > FEW_ROWS && large) || (g->m >= MANY_ROWS && g->k <= SMALL_PANEL_B / row_B);
}

// Rows of a that lie along k are a stream each. Where they lie a multiple of a page apart, the lines that a tile reads
// meet in one set of the first-level cache, which holds 8 of 12; tiles of rows along k alone take each line once.
static bool wants_packed_a(const struct gemm_plan *p)
{
    enum { MANY_COLUMNS = 64, SEVERAL_COLUMNS = 192, PAGE_B = 4096, WAYS = 8 };
    const struct gemm_matrix *a = &p->g->a;
    int64_t apart_B = a->row * cpu_dtype_size_B[a->dtype];
    if (a->row == 1 && a->col != 1 && p->g->n >= MANY_COLUMNS && is_spread(p, a->col)) return true;
    bool meet = p->kind->pack_a_across && apart_B % PAGE_B == 0 && least(p->g->m, p->kind->tiles.rows) > WAYS;
    return a->col == 1 && meet && p->g->n >= SEVERAL_COLUMNS;
}

// Blocks of k are as long as each other, and not one more for a rest of less than two fifths.
static int64_t even_step(int64_t k, int64_t most)
{
    enum { WHOLE_LINES = 32 };
    int64_t blocks = (k + most * 2 / 5) / most;
    return parts(parts(k, blocks > 1 ? blocks : 1), WHOLE_LINES) * WHOLE_LINES;
}

static bool panels_are_shared_evenly(const struct gemm_plan *p)
{
    int64_t panels = parts(p->g->n, p->kind->tiles.columns), threads = cpu_threads();
    return panels >= 4 * threads || panels % threads == 0;
}

// Where b is passed through once or a few times it comes from memory. What follows in a row is then read in long pieces
// of few rows, by their panels one after the other; what follows in a column is packed as it comes.
static void choose_step(struct gemm_plan *p, bool *pack_b)
{
    enum { FEW_ROWS = 48 };
    const struct gemm_kind *kind = p->kind;
    p->step = even_step(p->g->k, kind->tiles.k * kind->depth);
    if (p->g->m > kind->tiles.m || !p->g->k) return;
    double size = (double)p->g->m * (double)p->g->n * (double)p->g->k;
    if (p->g->m > FEW_ROWS && (size > OWN_SIZE || !panels_are_shared_evenly(p))) return;
    p->by_piece = *pack_b;
    *pack_b = false;
    if (p->g->m > FEW_ROWS) return;
    bool large = (double)p->g->k * (double)p->g->n * cpu_dtype_size_B[p->g->b.dtype] > kind->tiles.panels_B / 16;
    p->streams = p->g->b.col == 1 && large;
    if (p->streams)
        p->step = p->g->m > 4 ? LONG : p->by_piece ? 2 * SHORT : SHORT;
    else if (p->by_piece)
        p->step = even_step(p->g->k, kind->tiles.k * kind->depth / 2);
}

// Into how many chunks of columns b is cut.
static int64_t count_chunks(const struct gemm_plan *p, bool pack_b)
{
    int64_t longest = least(p->g->k, MAX_K), wide = p->kind->tiles.columns;
    int64_t one_B = (parts(longest, p->kind->depth) + 1) * wide * p->kind->unit_B;
    int64_t most = p->kind->tiles.panels_B / one_B;
    return pack_b ? parts(parts(p->g->n, wide), most > 1 ? most : 1) : 1;
}

static bool plan_packing(struct gemm_plan *p)
{
    const struct gemm *g = p->g;
    const struct gemm_kind *kind = p->kind;
    bool a_lies_well = lies_well(kind, &g->a, g->a.col == 1 && g->k % kind->depth == 0);
    p->pack_a = g->k > 0 && (!a_lies_well || wants_packed_a(p));
    bool pack_b = g->k > 0 && (!lies_well(kind, &g->b, false) || g->b.col != 1 || wants_packed_b(p));
    choose_step(p, &pack_b);
    return pack_b;
}

// Panels of all columns and of all of k can be kept. What comes from memory anyway comes faster as it lies.
static bool can_keep(const struct gemm_plan *p, bool pack_b)
{
    return (pack_b || p->by_piece) && !p->streams && p->g->k <= MAX_K && count_chunks(p, true) == 1;
}

static kiln_status multiply(struct gemm_plan *p)
{
    const struct gemm *g = p->g;
    const struct gemm_kind *kind = p->kind;
    int64_t wide = kind->tiles.columns;
    p->in_place = !g->after && g->out.dtype == cpu_class_dtype[g->cls] && g->out.col == 1;
    bool pack_b = plan_packing(p);
    if (g->kept && can_keep(p, pack_b)) p->kept_b = g->kept, p->by_piece = pack_b = false;
    int64_t longest = least(g->k, MAX_K);
    if (longest < g->k && !p->in_place) {
        p->sums = cpu_scratch(CPU_SCRATCH_SUMS, (size_t)(g->m * g->n * sum_B(p)));
        if (!p->sums) return error_pending;
    }
    int64_t chunks = count_chunks(p, pack_b);
    int64_t step = parts(parts(g->n, wide), chunks) * wide;
    bool enough = g->m > kind->tiles.m && parts(g->m, g->after ? g->after->rows : 1) >= cpu_threads();
    p->hands_on = g->after && chunks == 1 && (enough || cpu_threads() == 1);
    for (p->column0 = 0; p->column0 < g->n; p->column0 += step) {
        p->columns = least(g->n - p->column0, step);
        p->panels = parts(p->columns, wide);
        p->k0 = 0;
        do {
            p->k = least(g->k - p->k0, MAX_K);
            p->units = parts(p->k, kind->depth);
            p->add = p->k0 > 0, p->last = p->k0 + p->k == g->k;
            p->packed_b = NULL;
            if (pack_b) p->packed_b = cpu_scratch(CPU_SCRATCH_PANELS, (size_t)(p->panels * panel_B(p)));
            if (pack_b && !p->packed_b) return error_pending;
            TRY(multiply_chunk(p));
            p->k0 += p->k;
        } while (p->k0 < g->k);
    }
    return g->after && !p->hands_on ? CPU_FN(cpu_after_all)(g->after) : KILN_OK;
}

static struct gemm_matrix transposed(const struct gemm_matrix *x)
{
    return (struct gemm_matrix){x->at, x->col, x->row, x->dtype};
}

const struct gemm_kind *CPU_FN(cpu_gemm_kind)(const struct gemm *g)
{
    if (g->cls == CLASS_F64) return &CPU_FN(cpu_gemm_f64);
    bool bf16 = g->a.dtype == KILN_BF16 && g->b.dtype == KILN_BF16;
    const struct gemm_kind *pairs = bf16 ? CPU_FN(cpu_gemm_pairs)() : NULL;
    return pairs ? pairs : &CPU_FN(cpu_gemm_f32);
}

// As rows of the product of the transposes, few columns are read along k, or leave no lanes empty.
static bool has_few_columns(const struct gemm *g)
{
    enum { FEW = 8, MANY = 32 };
    return g->n <= FEW && g->m >= MANY;
}

// A plan would take longer than the product.
static bool is_tiny(const struct gemm *g)
{
    enum { TINY = 1 << 15 };
    return g->m * g->n * g->k <= TINY && g->m <= TINY && g->n <= TINY && g->k <= TINY && g->m > 0;
}

static bool is_turned(const struct gemm *g)
{
    return (g->out.col != 1 && g->out.row == 1 && g->n > 1) || has_few_columns(g);
}

static bool goes_by_tiles(const struct gemm *g)
{
    return is_tiny(g) && CPU_FN(cpu_gemm_is_small)(g);
}

uint64_t CPU_FN(cpu_gemm_keep)(const struct gemm *g, void *to)
{
    struct gemm_plan p = {.g = g, .kind = CPU_FN(cpu_gemm_kind)(g)};
    if (g->m == 0 || g->n == 0 || goes_by_tiles(g) || CPU_FN(cpu_gemm_is_long)(g) || is_turned(g)) return 0;
    if (CPU_FN(cpu_gemm_is_few)(g) || !can_keep(&p, plan_packing(&p))) return 0;
    p.columns = g->n;
    p.panels = parts(g->n, p.kind->tiles.columns);
    p.k = g->k;
    p.units = parts(g->k, p.kind->depth);
    p.packed_b = to;
    if (to) pack_panels(&p, 0, p.panels);
    return (uint64_t)(p.panels * panel_B(&p));
}

static struct gemm turned(const struct gemm *g)
{
    struct gemm t = *g;
    t.m = g->n, t.n = g->m, t.after = NULL, t.kept = NULL;
    t.a = transposed(&g->b), t.b = transposed(&g->a), t.out = transposed(&g->out);
    return t;
}

// Columns at the end that would leave a vector of each tile nearly empty, and are quickly done along k. 0: none.
static int64_t columns_apart(const struct gemm *g)
{
    enum { WORTH_A_CALL = 1 << 17 }; // of places of a
    const struct gemm_kind *kind = CPU_FN(cpu_gemm_kind)(g);
    struct gemm rest = *g;
    rest.n = g->n % kind->lanes;
    bool large = (double)g->m * (double)g->k >= WORTH_A_CALL && g->n > kind->tiles.columns;
    if (!large || rest.n > kind->lanes / 4 || kind->depth > 1 || g->after || g->kept || g->out.col != 1) return 0;
    struct gemm along = turned(&rest);
    return has_few_columns(&rest) && CPU_FN(cpu_gemm_is_few)(&along) ? rest.n : 0;
}

kiln_status CPU_FN(cpu_gemm)(const struct gemm *g)
{
    if (g->m == 0 || g->n == 0) return KILN_OK;
    if (goes_by_tiles(g)) return CPU_FN(cpu_gemm_series)(g, 1, (const int64_t[3]){0});
    int64_t apart = columns_apart(g);
    if (apart > 0) {
        struct gemm most = *g, rest = *g;
        most.n = g->n - apart, rest.n = apart;
        rest.b = at(&g->b, 0, most.n), rest.out = at(&g->out, 0, most.n);
        TRY(CPU_FN(cpu_gemm)(&most));
        return CPU_FN(cpu_gemm)(&rest);
    }
    if (CPU_FN(cpu_gemm_is_long)(g)) {
        TRY(CPU_FN(cpu_gemm_long)(g));
        return g->after ? CPU_FN(cpu_after_all)(g->after) : KILN_OK;
    }
    struct gemm way = is_turned(g) ? turned(g) : *g;
    if (way.n == 1) way.out.col = 1;
    struct gemm_plan p = {.g = &way, .kind = CPU_FN(cpu_gemm_kind)(g)};
    bool few = CPU_FN(cpu_gemm_is_few)(&way);
    TRY(few ? CPU_FN(cpu_gemm_few)(&way) : multiply(&p));
    return g->after && (few || !way.after) ? CPU_FN(cpu_after_all)(g->after) : KILN_OK;
}
