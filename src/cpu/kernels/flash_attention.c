// softmax(scale q k^T + mask) v, see ops/attention.c: a block of queries takes the keys tile by tile. Sums of weights
// and of values by weights are kept relative to the largest exponent so far, and follow it:
//
//     sum of 2^(x - new) = 2^(old - new) * sum of 2^(x - old)
//
// A block is the work of one thread, so that sums do not depend on their number.
#include "cpu/kernels/attention.h"
#include "cpu/parallel.h"
#include <math.h>

enum { Q, K, V, MASK, Y, STATS };
enum { BLOCK = 192, KEPT_B = 4 << 20 };

struct attention_forward {
    struct attention_work a;
    char *q, *k, *v, *scores, *out, *peak, *sum;
    int64_t ld_scores, ld_out;
    int64_t k_B, v_B; // of a tile in its packed form
    int64_t kept;     // tiles of keys and values that have room in their packed form
    int64_t packed;   // of this batch, from the first on
    bool begun;       // the block has taken a tile
};

static int64_t blocks_of(const struct attention_work *a)
{
    return parts(a->queries, a->block);
}

struct cpu_work CPU_FN(cpu_units_flash_attention)(const struct launch *l)
{
    struct attention_work a;
    CPU_FN(attention_start)(&a, l, BLOCK);
    int64_t products = least(a.queries, BLOCK) * a.keys * (a.width + a.value_width + 16);
    return (struct cpu_work){a.batches * blocks_of(&a), products / 16 + 1};
}

// For `blocks` blocks of one batch, or more.
static kiln_status find_room(struct attention_forward *f, int64_t blocks)
{
    const struct attention_work *a = &f->a;
    int64_t rows = least(a->queries, a->block), keys = least(a->keys, ATTENTION_KEYS), wide = a->kind->tiles.columns;
    f->ld_scores = parts(keys, wide) * wide + ATTENTION_SPARE_B / a->real_B;
    f->ld_out = parts(a->value_width, wide) * wide;
    int64_t line = ATTENTION_ALIGN / a->real_B, padded = parts(rows, line) * line;
    int64_t tiles = parts(a->keys, ATTENTION_KEYS);
    f->k_B = CPU_FN(attention_panels_B)(a, a->width, keys);
    f->v_B = CPU_FN(attention_panels_B)(a, keys, a->value_width);
    f->kept = blocks > 1 && tiles * (f->k_B + f->v_B) <= KEPT_B ? tiles : 1;
    const int64_t sizes_B[] = {CPU_FN(attention_rows_B)(a, rows, a->width),
                               f->k_B * f->kept,
                               f->v_B * f->kept,
                               rows * f->ld_scores * a->real_B,
                               rows * f->ld_out * a->real_B,
                               padded * a->real_B,
                               padded * a->real_B};
    char **const places[] = {&f->q, &f->k, &f->v, &f->scores, &f->out, &f->peak, &f->sum};
    int64_t all_B = 0;
    for (size_t i = 0; i < COUNT_OF(sizes_B); i++) all_B += sizes_B[i];
    char *at = cpu_scratch(CPU_SCRATCH_PANELS, (size_t)all_B);
    if (!at) return error_pending;
    for (size_t i = 0; i < COUNT_OF(sizes_B); i++) *places[i] = at, at += sizes_B[i];
    return KILN_OK;
}

static void pack_tile(struct attention_forward *f, int64_t batch, int64_t key)
{
    const struct attention_work *a = &f->a;
    int64_t keys = least(a->keys - key, ATTENTION_KEYS);
    struct gemm_matrix k = CPU_FN(attention_matrix)(a, K, batch, key), v = CPU_FN(attention_matrix)(a, V, batch, key);
    struct gemm_matrix across = {k.at, k.col, k.row, k.dtype};
    CPU_FN(attention_pack)(a, &across, a->width, keys, f->k + f->packed * f->k_B);
    CPU_FN(attention_pack)(a, &v, keys, a->value_width, f->v + f->packed * f->v_B);
}

// `reach` of its keys count.
static void take_tile(struct attention_forward *f, const struct attention_rows *q, int64_t batch, int64_t row,
                      int64_t rows, int64_t key, int64_t reach)
{
    const struct attention_work *a = &f->a;
    int64_t keys = least(a->keys - key, ATTENTION_KEYS), seen = CPU_FN(attention_seen)(a, row, key);
    int64_t tile = f->kept > 1 ? key / ATTENTION_KEYS : 0;
    const char *of_k = f->k + tile * f->k_B, *of_v = f->v + tile * f->v_B;
    if (f->kept == 1) f->packed = 0;
    for (; f->packed <= tile; f->packed++) pack_tile(f, batch, f->kept == 1 ? key : f->packed * ATTENTION_KEYS);
    bool masked = a->masked && (a->causal || !CPU_FN(attention_stairs)(a, batch, row, rows, key, reach, &seen));
    bool cut = seen < reach;
    CPU_FN(attention_multiply)
    (a, &(struct attention_product){.rows = rows,
                                    .columns = reach,
                                    .k = a->width,
                                    .a = q->at,
                                    .row_B = q->row_B,
                                    .step_B = a->kind->unit_B,
                                    .panels = of_k,
                                    .out = f->scores,
                                    .ld = f->ld_scores,
                                    .cut = cut ? CUT_COLUMNS : CUT_NONE,
                                    .seen = seen});
    struct attention_tile t = {rows, reach, f->ld_scores, seen, .scale = a->scale, .scores = f->scores};
    if (masked) {
        t.mask = CPU_FN(attention_matrix)(a, MASK, batch, row);
        t.mask.at += key * t.mask.col * cpu_dtype_size_B[t.mask.dtype];
    }
    a->rows->weigh(&t, f->peak, f->sum, f->out, f->ld_out, a->value_width);
    struct gemm_matrix pairs = {f->scores, f->ld_scores * 2, 1, KILN_BF16}; // over the front halves of their rows
    if (a->kind->depth > 1) a->kind->store(f->scores, f->ld_scores, &pairs, rows, parts(reach, 2) * 2);
    CPU_FN(attention_multiply)
    (a, &(struct attention_product){.rows = rows,
                                    .columns = a->value_width,
                                    .k = reach,
                                    .unused = keys - reach,
                                    .a = f->scores,
                                    .row_B = f->ld_scores * a->real_B,
                                    .step_B = a->kind->unit_B,
                                    .panels = of_v,
                                    .out = f->out,
                                    .ld = f->ld_out,
                                    .add = f->begun,
                                    .cut = cut ? CUT_END : CUT_NONE,
                                    .seen = seen});
    f->begun = true;
}

static void take_block(struct attention_forward *f, int64_t batch, int64_t row)
{
    const struct attention_work *a = &f->a;
    int64_t rows = least(a->queries - row, a->block);
    struct gemm_matrix q = CPU_FN(attention_matrix)(a, Q, batch, row);
    struct attention_rows of_q = CPU_FN(attention_rows_of)(a, &q, rows, a->width, f->q);
    union scalar_value none = {.f64 = -INFINITY};
    if (a->cls == CLASS_F32) none.f32 = -INFINITY;
    CPU_FN(cpu_fill)(f->peak, (int)a->real_B, none.bits, rows);
    int64_t seen_by_last = CPU_FN(attention_seen)(a, row + rows - 1, 0);
    f->begun = false;
    for (int64_t key = 0; key < a->keys && key < seen_by_last; key += ATTENTION_KEYS) {
        int64_t reach = CPU_FN(attention_reach)(a, batch, row, rows, key, least(a->keys - key, ATTENTION_KEYS));
        if (reach > 0) take_tile(f, &of_q, batch, row, rows, key, reach);
    }
    if (!f->begun) {
        memset(f->out, 0, (size_t)(rows * f->ld_out * a->real_B));
        memset(f->sum, 0, (size_t)(rows * a->real_B));
    }
    a->rows->divide(f->out, f->ld_out, f->sum, rows, a->value_width);
    struct gemm_matrix y = CPU_FN(attention_matrix)(a, Y, batch, row);
    CPU_FN(cpu_store_tile)(y.at, y.dtype, y.row, y.col, f->out, f->ld_out, a->cls, rows, a->value_width);
    struct gemm_matrix stats = CPU_FN(attention_matrix)(a, STATS, batch, row);
    const char *of_stats[2] = {f->peak, f->sum};
    for (int i = 0; i < 2; i++) {
        char *at = stats.at + i * stats.col * a->real_B;
        CPU_FN(cpu_store_tile)(at, stats.dtype, stats.row, stats.col, of_stats[i], 1, a->cls, rows, 1);
    }
}

// Of causal attention the blocks of a batch go from both ends inwards, so that ranges are of about equal work.
kiln_status CPU_FN(cpu_kernel_flash_attention)(const struct launch *l, int64_t begin, int64_t end)
{
    struct attention_forward f;
    CPU_FN(attention_start)(&f.a, l, BLOCK);
    int64_t blocks = blocks_of(&f.a);
    CPU_FN(attention_take_pairs)(&f.a);
    TRY(find_room(&f, least(blocks, end - begin)));
    for (int64_t u = begin; u < end; u++) {
        if (u == begin || u % blocks == 0) f.packed = 0;
        int64_t i = u % blocks, block = i % 2 ? blocks - 1 - i / 2 : i / 2;
        take_block(&f, u / blocks, block * f.a.block);
    }
    gemm_end(f.a.kind);
    return KILN_OK;
}
