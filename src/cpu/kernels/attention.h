// Attention by tiles of scores: queries by keys, made by the register kernels of products (gemm_kind.h) and gone before
// the next tile.
#pragma once
#include "cpu/kernels/gemm_kind.h"

#include <string.h>

enum {
    ATTENTION_KEYS = 256,  // of a tile; the positions of a panel of values fill two thirds of the first-level cache
    ATTENTION_ALIGN = 64,  // bytes
    ATTENTION_SPARE_B = 64 // between rows, so that they lie no power of two apart
};

// A tile of scores q k^T, rows ld elements apart and long enough for whole vectors.
struct attention_tile {
    int64_t rows, columns, ld;
    int64_t seen;            // of row 0, each next row one more; at least `columns`: all
    struct gemm_matrix mask; // of the tile; at NULL: none
    double scale;
    void *scores;
};
// Scores become weights relative to the largest exponent so far, 0 where a key is not seen; what of `out`, rows of
// `width` elements, and `sum` was relative to the one before follows; where there was none they may hold anything.
typedef void attention_weigh_fn(const struct attention_tile *t, void *peak, void *sum, void *out, int64_t ld_out,
                                int64_t width);
// out[r] = out[r] / sum[r]
typedef void attention_divide_fn(void *out, int64_t ld, const void *sum, int64_t rows, int64_t width);
// Scores become weights, and `slopes`, gradients by the weights, gradients by q k^T.
typedef void attention_slopes_fn(const struct attention_tile *t, void *slopes, const void *peak, const void *sum,
                                 const void *delta);
// out[r] = sum of x[r] y[r]
typedef void attention_dots_fn(void *out, const void *x, const void *y, int64_t ld, int64_t rows, int64_t width);
struct attention_row_fns {
    attention_weigh_fn *weigh;
    attention_divide_fn *divide;
    attention_slopes_fn *slopes;
    attention_dots_fn *dots;
};
const struct attention_row_fns *CPU_FN(attention_row_fns)(enum scalar_class cls);

struct attention_work {
    const struct launch *l;
    const struct gemm_kind *kind;
    const struct attention_row_fns *rows;
    enum scalar_class cls;
    int64_t real_B;
    int64_t queries, keys, width, value_width; // L S D E
    int64_t batches;
    bool causal;
    double scale;
    bool masked;
    int64_t block; // queries of a tile
};
void CPU_FN(attention_start)(struct attention_work *a, const struct launch *l, int64_t block);
// Takes q, k and v in pairs of bf16 where they and the processor are so; weights are rounded to it then.
void CPU_FN(attention_take_pairs)(struct attention_work *a);
// Operand o of a batch from a row on, as a matrix of its last two axes.
struct gemm_matrix CPU_FN(attention_matrix)(const struct attention_work *a, int o, int64_t batch, int64_t row);

// How many keys of the tile from `key` on query `query` sees, each next query one more; below 1: none.
int64_t CPU_FN(attention_seen)(const struct attention_work *a, int64_t query, int64_t key);

// How many truths of a row there are up to the last one, or `least` where that are more.
static inline int64_t attention_last_truth(const char *row, int64_t n, int64_t least)
{
    uint64_t word;
    for (; n - least >= (int64_t)sizeof word; n -= (int64_t)sizeof word) {
        memcpy(&word, row + n - sizeof word, sizeof word);
        if (word) break;
    }
    while (n > least && !row[n - 1]) n--;
    return n;
}

// Of the tile of `keys` keys from `key` on, and `rows` queries from `row` on: how many keys there are up to the last
// one that counts. Those that a mask of truths hides from all of the queries have weight 0, and do not count where
// values are finite.
int64_t CPU_FN(attention_reach)(const struct attention_work *a, int64_t batch, int64_t row, int64_t rows, int64_t key,
                                int64_t keys);

// Whether a mask of truths lets each row of such a tile see one key more than the one before, or all, and hides no
// value that is not finite: the tile is a causal one then. *seen: how many keys row 0 sees, below 1 where it is a later
// row that sees the first key.
bool CPU_FN(attention_stairs)(const struct attention_work *a, int64_t batch, int64_t row, int64_t rows, int64_t key,
                              int64_t reach, int64_t *seen);

// Rows that a register kernel reads: as they lie where they are of its dtype, else a copy in `room`.
struct attention_rows {
    const char *at;
    int64_t row_B;
};
struct attention_rows CPU_FN(attention_rows_of)(const struct attention_work *a, const struct gemm_matrix *m,
                                                int64_t rows, int64_t columns, char *room);
int64_t CPU_FN(attention_rows_B)(const struct attention_work *a, int64_t rows, int64_t columns); // of such a copy

// A matrix k x columns in panels, each panel_B(k) long.
void CPU_FN(attention_pack)(const struct attention_work *a, const struct gemm_matrix *m, int64_t k, int64_t columns,
                            char *panels);
int64_t CPU_FN(attention_panels_B)(const struct attention_work *a, int64_t k, int64_t columns);

// What a causal product leaves out. Row r sees seen + r of the tile's keys.
enum attention_cut {
    CUT_NONE,
    CUT_COLUMNS, // columns are keys: those that no row of a register tile sees stay as they are
    CUT_END,     // positions are keys: rows end where they see no more
    CUT_START,   // rows are keys, positions queries: rows start where they are seen
};

struct attention_product { // out = a b, or adds to it
    int64_t rows, columns, k;
    const char *a;
    int64_t row_B, step_B;
    const char *panels;
    char *out;
    int64_t ld; // elements
    bool add;
    enum attention_cut cut;
    int64_t seen;
    int64_t unused; // positions that panels have behind k
};
void CPU_FN(attention_multiply)(const struct attention_work *a, const struct attention_product *p);
