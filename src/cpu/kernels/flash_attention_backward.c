// Gradients of flash_attention, see ops/attention.c. Weights p are made again from what the forward pass has kept of
// each query, tile by tile, and all that they are good for follows at once:
//
//     dv += p^T dy,  ds = p (dy v^T - delta) scale with delta = sum of dy y,  dk += ds^T q,  dq += ds k
//
// A tile of keys keeps its dk and dv in the cache while the queries go by. The keys of a batch come in as many parts as
// its sizes say, of which each has a dq of its own; these are added in order, so that sums do not depend on threads.
#include "cpu/kernels/attention.h"
#include "cpu/parallel.h"
#include <stdlib.h>

enum { Q, K, V, MASK, Y, STATS, DY, DQ, DK, DV };
enum { BLOCK = 96, UNITS = 32, PARTS_B = 64 << 20, SUM_ROWS = 64 };

struct attention_backward {
    struct attention_work a;
    int64_t parts, tiles; // of the keys of a batch
    char *shared;         // dq of each part, where there are several
    int64_t ld_scores, ld_q, ld_v, padded;
    // of a tile of keys
    char *k, *k_across, *v_across, *dk, *dv;
    // of a block of queries
    char *q_room, *dy_room, *q, *dy, *scores, *slopes;
    // of all queries
    char *peak, *sum, *delta, *dq;
};

static int64_t up(int64_t n, int64_t to)
{
    return parts(n, to) * to;
}

static kiln_status find_room(struct attention_backward *f)
{
    const struct attention_work *a = &f->a;
    int64_t rows = least(a->queries, a->block), keys = least(a->keys, ATTENTION_KEYS), real_B = a->real_B;
    int64_t scores = f->ld_scores > f->ld_v ? f->ld_scores : f->ld_v;
    const int64_t sizes_B[] = {CPU_FN(attention_panels_B)(a, keys, a->width),
                               CPU_FN(attention_panels_B)(a, a->width, keys),
                               CPU_FN(attention_panels_B)(a, a->value_width, keys),
                               keys * f->ld_q * real_B,
                               keys * f->ld_v * real_B,
                               CPU_FN(attention_rows_B)(a, rows, a->width),
                               CPU_FN(attention_rows_B)(a, rows, a->value_width),
                               CPU_FN(attention_panels_B)(a, rows, a->width),
                               CPU_FN(attention_panels_B)(a, rows, a->value_width),
                               rows * scores * real_B,
                               rows * scores * real_B,
                               f->padded * real_B,
                               f->padded * real_B,
                               f->padded * real_B,
                               f->shared ? 0 : a->queries * f->ld_q * real_B};
    char **const places[] = {&f->k,  &f->k_across, &f->v_across, &f->dk,   &f->dv,  &f->q_room, &f->dy_room, &f->q,
                             &f->dy, &f->scores,   &f->slopes,   &f->peak, &f->sum, &f->delta,  &f->dq};
    int64_t all_B = 0;
    for (size_t i = 0; i < COUNT_OF(sizes_B); i++) all_B += up(sizes_B[i], ATTENTION_ALIGN);
    char *at = cpu_scratch(CPU_SCRATCH_PANELS, (size_t)all_B);
    if (!at) return error_pending;
    for (size_t i = 0; i < COUNT_OF(sizes_B); i++) *places[i] = at, at += up(sizes_B[i], ATTENTION_ALIGN);
    return KILN_OK;
}

static void load(const struct attention_work *a, const struct gemm_matrix *m, int64_t rows, int64_t columns, char *to,
                 int64_t ld)
{
    CPU_FN(cpu_load_tile)(to, ld, a->cls, m->at, m->dtype, rows, columns, m->row, m->col);
}

// What is known of each query: from the forward pass, and the sum of dy y, for which rows lie in the tiles' memory.
static void load_queries(struct attention_backward *f, int64_t batch)
{
    const struct attention_work *a = &f->a;
    struct gemm_matrix stats = CPU_FN(attention_matrix)(a, STATS, batch, 0);
    load(a, &stats, a->queries, 1, f->peak, 1);
    stats.at += stats.col * cpu_dtype_size_B[stats.dtype];
    load(a, &stats, a->queries, 1, f->sum, 1);
    for (int64_t row = 0; row < a->queries; row += a->block) {
        int64_t rows = least(a->queries - row, a->block);
        struct gemm_matrix y = CPU_FN(attention_matrix)(a, Y, batch, row),
                           dy = CPU_FN(attention_matrix)(a, DY, batch, row);
        load(a, &y, rows, a->value_width, f->scores, f->ld_v);
        load(a, &dy, rows, a->value_width, f->slopes, f->ld_v);
        a->rows->dots(f->delta + row * a->real_B, f->scores, f->slopes, f->ld_v, rows, a->value_width);
    }
}

static void take_block(struct attention_backward *f, int64_t batch, int64_t row, int64_t key)
{
    const struct attention_work *a = &f->a;
    int64_t rows = least(a->queries - row, a->block), keys = least(a->keys - key, ATTENTION_KEYS);
    int64_t seen = CPU_FN(attention_seen)(a, row, key), ld = f->ld_scores, real_B = a->real_B;
    bool cut = seen < keys;
    struct gemm_matrix q = CPU_FN(attention_matrix)(a, Q, batch, row), dy = CPU_FN(attention_matrix)(a, DY, batch, row);
    struct attention_rows of_q = CPU_FN(attention_rows_of)(a, &q, rows, a->width, f->q_room),
                          of_dy = CPU_FN(attention_rows_of)(a, &dy, rows, a->value_width, f->dy_room);
    CPU_FN(attention_pack)(a, &q, rows, a->width, f->q);
    CPU_FN(attention_pack)(a, &dy, rows, a->value_width, f->dy);
    struct attention_product p = {rows,
                                  keys,
                                  a->width,
                                  of_q.at,
                                  of_q.row_B,
                                  real_B,
                                  f->k_across,
                                  f->scores,
                                  ld,
                                  false,
                                  cut ? CUT_COLUMNS : CUT_NONE,
                                  seen};
    CPU_FN(attention_multiply)(a, &p);
    p.k = a->value_width, p.a = of_dy.at, p.row_B = of_dy.row_B, p.panels = f->v_across, p.out = f->slopes;
    CPU_FN(attention_multiply)(a, &p);
    struct attention_tile t = {rows, keys, ld, seen, .scale = a->scale, .scores = f->scores};
    if (a->masked) {
        t.mask = CPU_FN(attention_matrix)(a, MASK, batch, row);
        t.mask.at += key * t.mask.col * cpu_dtype_size_B[t.mask.dtype];
    }
    a->rows->slopes(&t, f->slopes, f->peak + row * real_B, f->sum + row * real_B, f->delta + row * real_B);
    p = (struct attention_product){keys,
                                   a->value_width,
                                   rows,
                                   f->scores,
                                   real_B,
                                   ld * real_B,
                                   f->dy,
                                   f->dv,
                                   f->ld_v,
                                   true,
                                   cut ? CUT_START : CUT_NONE,
                                   seen};
    CPU_FN(attention_multiply)(a, &p);
    p.columns = a->width, p.a = f->slopes, p.panels = f->q, p.out = f->dk, p.ld = f->ld_q;
    CPU_FN(attention_multiply)(a, &p);
    p = (struct attention_product){rows,
                                   a->width,
                                   keys,
                                   f->slopes,
                                   ld * real_B,
                                   real_B,
                                   f->k,
                                   f->dq + row * f->ld_q * real_B,
                                   f->ld_q,
                                   true,
                                   cut ? CUT_END : CUT_NONE,
                                   seen};
    CPU_FN(attention_multiply)(a, &p);
}

static void take_tile(struct attention_backward *f, int64_t batch, int64_t key)
{
    const struct attention_work *a = &f->a;
    int64_t keys = least(a->keys - key, ATTENTION_KEYS);
    struct gemm_matrix k = CPU_FN(attention_matrix)(a, K, batch, key), v = CPU_FN(attention_matrix)(a, V, batch, key);
    struct gemm_matrix k_across = {k.at, k.col, k.row, k.dtype}, v_across = {v.at, v.col, v.row, v.dtype};
    CPU_FN(attention_pack)(a, &k, keys, a->width, f->k);
    CPU_FN(attention_pack)(a, &k_across, a->width, keys, f->k_across);
    CPU_FN(attention_pack)(a, &v_across, a->value_width, keys, f->v_across);
    memset(f->dk, 0, (size_t)(keys * f->ld_q * a->real_B));
    memset(f->dv, 0, (size_t)(keys * f->ld_v * a->real_B));
    int64_t first = a->causal ? key - (a->keys - a->queries) : 0;
    for (int64_t row = first > 0 ? first / a->block * a->block : 0; row < a->queries; row += a->block)
        take_block(f, batch, row, key);
    struct gemm_matrix dk = CPU_FN(attention_matrix)(a, DK, batch, key),
                       dv = CPU_FN(attention_matrix)(a, DV, batch, key);
    CPU_FN(cpu_store_tile)(dk.at, dk.dtype, dk.row, dk.col, f->dk, f->ld_q, a->cls, keys, a->width);
    CPU_FN(cpu_store_tile)(dv.at, dv.dtype, dv.row, dv.col, f->dv, f->ld_v, a->cls, keys, a->value_width);
}

static char *part_of(const struct attention_backward *f, int64_t batch, int64_t part)
{
    return f->shared + (batch * f->parts + part) * f->a.queries * f->ld_q * f->a.real_B;
}

// Of causal attention the parts of a batch go from both ends inwards, so that ranges are of about equal work.
static kiln_status take_parts(void *user, int64_t begin, int64_t end)
{
    struct attention_backward f = *(const struct attention_backward *)user;
    const struct attention_work *a = &f.a;
    TRY(find_room(&f));
    for (int64_t u = begin; u < end; u++) {
        int64_t batch = u / f.parts, i = u % f.parts, part = i % 2 ? f.parts - 1 - i / 2 : i / 2;
        if (u == begin || i == 0) load_queries(&f, batch);
        if (f.shared) f.dq = part_of(&f, batch, part);
        memset(f.dq, 0, (size_t)(a->queries * f.ld_q * a->real_B));
        for (int64_t t = f.tiles * part / f.parts; t < f.tiles * (part + 1) / f.parts; t++)
            take_tile(&f, batch, t * ATTENTION_KEYS);
        if (f.shared) continue;
        struct gemm_matrix dq = CPU_FN(attention_matrix)(a, DQ, batch, 0);
        CPU_FN(cpu_store_tile)(dq.at, dq.dtype, dq.row, dq.col, f.dq, f.ld_q, a->cls, a->queries, a->width);
    }
    return KILN_OK;
}

static int64_t sums_of(const struct attention_work *a)
{
    return (a->queries + SUM_ROWS - 1) / SUM_ROWS;
}

static kiln_status add_parts(void *user, int64_t begin, int64_t end)
{
    const struct attention_backward *f = user;
    const struct attention_work *a = &f->a;
    for (int64_t u = begin; u < end; u++) {
        int64_t batch = u / sums_of(a), row = u % sums_of(a) * SUM_ROWS, rows = least(a->queries - row, SUM_ROWS);
        int64_t first = row * f->ld_q;
        char *sum = part_of(f, batch, 0) + first * a->real_B;
        for (int64_t part = 1; part < f->parts; part++) {
            const char *more = part_of(f, batch, part) + first * a->real_B;
            if (a->cls == CLASS_F64)
                for (int64_t i = 0; i < rows * f->ld_q; i++) ((double *)sum)[i] += ((const double *)more)[i];
            else
                for (int64_t i = 0; i < rows * f->ld_q; i++) ((float *)sum)[i] += ((const float *)more)[i];
        }
        struct gemm_matrix dq = CPU_FN(attention_matrix)(a, DQ, batch, row);
        CPU_FN(cpu_store_tile)(dq.at, dq.dtype, dq.row, dq.col, sum, f->ld_q, a->cls, rows, a->width);
    }
    return KILN_OK;
}

// By sizes alone.
static void choose_parts(struct attention_backward *f)
{
    const struct attention_work *a = &f->a;
    double part_B = (double)a->batches * (double)a->queries * (double)f->ld_q * (double)a->real_B;
    f->tiles = (a->keys + ATTENTION_KEYS - 1) / ATTENTION_KEYS;
    f->parts = least((UNITS + a->batches - 1) / a->batches, f->tiles);
    if (part_B * (double)f->parts > PARTS_B) f->parts = (int64_t)(PARTS_B / part_B);
    if (f->parts < 1) f->parts = 1;
}

kiln_status CPU_FN(cpu_kernel_flash_attention_backward)(const struct launch *l, int64_t begin, int64_t end)
{
    (void)begin, (void)end;
    struct attention_backward f = {0};
    struct attention_work *a = &f.a;
    CPU_FN(attention_start)(a, l, BLOCK);
    int64_t wide = a->kind->tiles.columns, line = ATTENTION_ALIGN / a->real_B;
    f.ld_scores = up(least(a->keys, ATTENTION_KEYS), wide) + ATTENTION_SPARE_B / a->real_B;
    f.ld_q = up(a->width, line), f.ld_v = up(a->value_width, line), f.padded = up(a->queries, line);
    choose_parts(&f);
    if (f.parts > 1) {
        size_t size_B = (size_t)(a->batches * f.parts * a->queries * f.ld_q * a->real_B);
        f.shared = aligned_alloc(ATTENTION_ALIGN, size_B);
        if (!f.shared) return error_set(KILN_E_MEMORY, "%s: out of memory: %zu bytes", l->op, size_B);
    }
    int64_t units = a->batches * f.parts, cost = a->queries * a->keys / f.parts * (3 * a->width + 2 * a->value_width);
    kiln_status status = cpu_parallel(units, cost / 16 + 1, take_parts, &f);
    if (f.parts > 1 && !status)
        status = cpu_parallel(a->batches * sums_of(a), SUM_ROWS * f.ld_q * f.parts, add_parts, &f);
    free(f.shared);
    return status;
}
