// Many small products of one size. What a product takes is worked out once: a list of tiles by their places in the
// three matrices. Rows of the left factor are read as they lie; of the right one what does not lie in rows is packed
// first.
#include "cpu/kernels/gemm_kind.h"
#include "cpu/parallel.h"

enum { MOST_ROWS = 48, MOST_COLUMNS = 128, MOST_K = 256, MOST_TILES = 64 };

struct series_tile {
    int64_t a_B, b_B, sum; // from the first element of each; `sum` in elements
    gemm_tile_fn *fn;
    int64_t columns;
    bool partial;
};

struct series {
    const struct gemm_kind *kind;
    struct series_tile tiles[MOST_TILES];
    int n_tiles, n_panels;
    bool packs, in_place;
    char *panels, *sums; // of one product
    int64_t ld;
};

// Packing columns for so few rows takes longer than to multiply them as they lie, where they are long enough for lanes.
static bool reads_columns_once(const struct gemm *g)
{
    enum { FEW_ROWS = 3, LONG_COLUMNS = 64, LONG_FOR_ONE = 32 };
    bool lies_in_columns = g->b.row == 1 && g->b.col != 1;
    bool are_long = g->k >= (g->m == 1 ? LONG_FOR_ONE : LONG_COLUMNS);
    return g->m <= FEW_ROWS && are_long && lies_in_columns && CPU_FN(cpu_gemm_is_few)(g);
}

bool CPU_FN(cpu_gemm_is_small)(const struct gemm *g)
{
    const struct gemm_kind *kind = CPU_FN(cpu_gemm_kind)(g);
    int64_t heights = (g->m + kind->tiles.rows - 1) / kind->tiles.rows;
    int64_t panels = (g->n + kind->tiles.columns - 1) / kind->tiles.columns;
    bool along = g->k % kind->depth == 0 && (kind->depth == 1 || g->a.col == 1);
    if (reads_columns_once(g)) return false;
    if (g->m > MOST_ROWS || g->n > MOST_COLUMNS || heights * panels > MOST_TILES) return false;
    return g->k <= MOST_K && g->k > 0 && g->m > 0 && g->n > 0 && g->a.dtype == kind->dtype && along &&
           (g->out.col == 1 || g->n == 1) && !g->after;
}

static void list_tiles(struct series *s, const struct gemm *g, int64_t panel_B)
{
    const struct gemm_tiles *t = &s->kind->tiles;
    int64_t unit_B = s->kind->unit_B, heights = (g->m + t->rows - 1) / t->rows;
    for (int64_t c = 0; c < g->n; c += t->columns, s->n_panels++)
        for (int64_t i = 0, r = 0; i < heights; i++) {
            int64_t rows = g->m / heights + (i < g->m % heights),
                    columns = g->n - c < t->columns ? g->n - c : t->columns;
            s->tiles[s->n_tiles++] = (struct series_tile){
                .a_B = r * g->a.row * unit_B / s->kind->depth,
                .b_B = s->packs ? s->n_panels * panel_B : c * unit_B,
                .sum = r * s->ld + c,
                .fn = s->kind->tile[rows - 1][columns > s->kind->lanes],
                .columns = columns,
                .partial = !s->packs && columns % s->kind->lanes,
            };
            r += rows;
        }
}

static void multiply_one(const struct series *s, const struct gemm *g, const char *a, const char *b, char *out)
{
    int64_t unit_B = s->kind->unit_B, wide = s->kind->tiles.columns, sum_B = cpu_class_size_B[g->cls];
    int64_t units = g->k / s->kind->depth;
    if (s->packs)
        for (int i = 0; i < s->n_panels; i++) {
            int64_t c = i * wide;
            struct gemm_matrix from = {(char *)(uintptr_t)b + c * g->b.col * cpu_dtype_size_B[g->b.dtype], g->b.row,
                                       g->b.col, g->b.dtype};
            s->kind->pack_b(&from, g->k, g->n - c < wide ? g->n - c : wide, s->panels + i * units * wide * unit_B, 0);
        }
    struct gemm_tile t = {.row_B = g->a.row * unit_B / s->kind->depth,
                          .step_B = g->a.col * unit_B,
                          .b_step_B = s->packs ? wide * unit_B : g->b.row * unit_B,
                          .k = units,
                          .ld_out = s->ld,
                          .next = a};
    const char *rows_b = s->packs ? s->panels : b;
    char *sums = s->in_place ? out : s->sums;
    for (const struct series_tile *x = s->tiles; x < s->tiles + s->n_tiles; x++) {
        t.a = a + x->a_B;
        t.b = rows_b + x->b_B;
        t.out = sums + x->sum * sum_B;
        t.columns = x->columns;
        t.partial = x->partial;
        x->fn(&t);
    }
    if (s->in_place) return;
    struct gemm_matrix to = {out, g->out.row, 1, g->out.dtype};
    if (s->kind->store && s->kind->store(s->sums, s->ld, &to, g->m, g->n)) return;
    CPU_FN(cpu_store_tile)(out, g->out.dtype, g->out.row, 1, s->sums, s->ld, g->cls, g->m, g->n);
}

kiln_status CPU_FN(cpu_gemm_series)(const struct gemm *g, int64_t n, const int64_t *steps_B)
{
    struct series s;
    s.kind = CPU_FN(cpu_gemm_kind)(g);
    s.n_tiles = s.n_panels = 0;
    s.panels = s.sums = NULL;
    int64_t wide = s.kind->tiles.columns, panel_B = g->k / s.kind->depth * wide * s.kind->unit_B;
    int64_t panels = (g->n + wide - 1) / wide;
    s.packs = s.kind->depth > 1 || g->b.dtype != s.kind->dtype || (g->b.col != 1 && g->n > 1);
    s.in_place = g->out.dtype == cpu_class_dtype[g->cls];
    s.ld = s.in_place ? g->out.row : panels * wide;
    int64_t sums_B = s.in_place ? 0 : g->m * s.ld * cpu_class_size_B[g->cls];
    if (s.packs || !s.in_place) {
        s.panels = cpu_scratch(CPU_SCRATCH_ROWS, (size_t)(panels * panel_B + sums_B));
        if (!s.panels) return error_pending;
        s.sums = s.panels + panels * panel_B;
    }
    list_tiles(&s, g, panel_B);
    for (int64_t i = 0; i < n; i++)
        multiply_one(&s, g, g->a.at + i * steps_B[0], g->b.at + i * steps_B[1], g->out.at + i * steps_B[2]);
    return KILN_OK;
}
