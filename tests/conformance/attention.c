// Attention by tiles, and its gradients: sizes about those of tiles, masks, batches that are broadcast, layouts.
#include "conformance/structured.h"
#include "device/device.h"
#include <kiln/ops.h>
#include <math.h>
#include <stdlib.h>

enum mask { NO_MASK, ADDED, SEEN, STAIRS, STAIRS_BEFORE_INFINITY, A_KEY_LESS, A_KEY_MORE, NO_FIRST_STEPS };

struct attention_case {
    int64_t b, l, s, d, e;
    bool causal;
    enum mask mask;
    double scale;
    bool shared;   // one k and v for all of the batch
    int64_t first; // of stairs: the last key that query 0 sees
};

static const struct attention_case attention_cases[] = {
    {1, 1, 1, 1, 1, true, NO_MASK, 0, false},
    {2, 2, 3, 5, 7, false, NO_MASK, 0, false},
    {2, 3, 3, 2, 4, true, NO_MASK, -0.5, false},
    {3, 7, 11, 4, 3, true, NO_MASK, 0.25, true},
    {2, 11, 13, 17, 6, false, SEEN, 0, false},
    {2, 12, 31, 8, 33, false, ADDED, 0, true},
    {2, 13, 37, 3, 5, true, SEEN, 0, false},
    {0, 4, 5, 3, 2, false, NO_MASK, 0, false},
    {2, 4, 5, 3, 0, false, NO_MASK, 0, false},
    {2, 4, 5, 0, 3, false, NO_MASK, 0, false},
    {2, 4, 7, 0, 3, true, SEEN, 0, false},
    {2, 0, 5, 3, 2, false, NO_MASK, 0, false},
    // Tiles of keys and blocks of queries, and one more and less
    {1, 95, 255, 5, 3, false, NO_MASK, 0, false},
    {1, 97, 257, 33, 31, true, NO_MASK, 0, false},
    {1, 193, 259, 4, 6, true, ADDED, 0, false},
    {2, 199, 521, 3, 2, true, NO_MASK, 0, true},
    // Columns of a tile, and more
    {1, 65, 33, 64, 128, false, NO_MASK, 0, false},
    {2, 63, 66, 70, 131, true, SEEN, 0, false},
    // Masks that let each query see a key more
    {2, 5, 5, 3, 4, false, STAIRS, 0, false, 0},
    {2, 7, 5, 3, 4, false, STAIRS, 0, false, -3},
    {1, 300, 700, 5, 3, false, STAIRS, 0, false, 0},
    {2, 261, 517, 4, 6, false, STAIRS, 0, true, 256},
    {1, 70, 600, 4, 6, false, STAIRS, 0, true, 590},
    {1, 200, 300, 5, 3, false, STAIRS, 0, false, -7},
    {1, 200, 300, 5, 3, true, STAIRS, 0, false, 60},
    {1, 300, 300, 5, 3, false, A_KEY_LESS, 0, false, 0},
    {1, 300, 300, 5, 3, false, A_KEY_MORE, 0, false, 40},
    {1, 100, 500, 5, 3, false, NO_FIRST_STEPS, 0, false, 300},
    {1, 300, 300, 5, 3, false, STAIRS_BEFORE_INFINITY, 0, false, 20},
};
enum { ATTENTION_CASES = sizeof attention_cases / sizeof attention_cases[0] };

struct attention_data {
    const struct attention_case *c;
    struct host q, k, v, mask, dy;
    kiln_tensor *tq, *tk, *tv, *tmask, *tdy;
    kiln_flash_attention_opts o;
};

static bool is_seen(const struct attention_case *c, int64_t query, int64_t key)
{
    int64_t i = query * c->s + key, last = query + c->first;
    switch (c->mask) {
    case SEEN: return key == 0 || i * 7 % 5 < 3;
    case A_KEY_LESS: return key <= last && !(query == c->l / 2 && key == last - 1);
    case A_KEY_MORE: return key <= last || (query == c->l / 2 && key == last + 5);
    case NO_FIRST_STEPS: return key <= (query < 10 ? 100 : last);
    default: return key <= last;
    }
}

static void attention_begin(struct attention_data *a, const struct attention_case *c, int dtype,
                            enum host_layout layout)
{
    int64_t kept = c->shared ? 1 : c->b;
    *a = (struct attention_data){.c = c};
    a->tq = random_tensor(&a->q, dtype, 3, (const int64_t[]){c->b, c->l, c->d}, layout, -2, 2);
    a->tk = random_tensor(&a->k, dtype, 3, (const int64_t[]){kept, c->s, c->d}, layout, -2, 2);
    a->tv = random_tensor(&a->v, dtype, 3, (const int64_t[]){kept, c->s, c->e}, layout, -2, 2);
    if (c->mask == STAIRS_BEFORE_INFINITY) {
        a->v.v[c->s / 2 * c->e] = INFINITY;
        a->tv = host_tensor(suite.dev, &a->v, layout);
    }
    a->tdy = random_tensor(&a->dy, dtype, 3, (const int64_t[]){c->b, c->l, c->e}, layout, -1, 1);
    const int64_t of_mask[] = {c->l, c->s};
    if (c->mask == ADDED) a->tmask = random_tensor(&a->mask, dtype, 2, of_mask, layout, -1, 1);
    if (c->mask >= SEEN) {
        a->mask = host_new(KILN_BOOL, 2, of_mask);
        for (int64_t i = 0; i < a->mask.n; i++) a->mask.v[i] = is_seen(c, i / c->s, i % c->s);
        a->tmask = host_tensor(suite.dev, &a->mask, layout);
    }
    a->o = (kiln_flash_attention_opts){.size = sizeof a->o, .mask = a->tmask, .scale = c->scale, .causal = c->causal};
}

static void attention_end(struct attention_data *a)
{
    host_free(&a->q);
    host_free(&a->k);
    host_free(&a->v);
    host_free(&a->mask);
    host_free(&a->dy);
}

static const long double *row_of(const struct host *h, int64_t b, int64_t i)
{
    return h->v + ((h->dims[0] == 1 ? 0 : b) * h->dims[1] + i) * h->dims[2];
}

static long double dot(const long double *x, const long double *y, int64_t n, bool sizes)
{
    long double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += sizes ? fabsl(x[i] * y[i]) : x[i] * y[i];
    return sum;
}

static long double scale_of(const struct attention_case *c)
{
    return c->scale != 0 ? c->scale : 1 / sqrtl(c->d > 0 ? c->d : 1);
}

// The weights of one query, and the exponent of the largest, to base 2, and the sum relative to it.
static void weigh(const struct attention_data *a, int64_t b, int64_t i, long double *p, long double *stats)
{
    const struct attention_case *c = a->c;
    long double most = -INFINITY, sum = 0;
    for (int64_t j = 0; j < c->s; j++) {
        p[j] = dot(row_of(&a->q, b, i), row_of(&a->k, b, j), c->d, false) * scale_of(c);
        if (c->mask == ADDED) p[j] += a->mask.v[i * c->s + j];
        bool seen = (c->mask < SEEN || a->mask.v[i * c->s + j] != 0) && (!c->causal || j <= i + c->s - c->l);
        if (!seen) p[j] = -INFINITY;
        most = p[j] > most ? p[j] : most;
    }
    for (int64_t j = 0; j < c->s; j++) sum += p[j] = most > -INFINITY ? expl(p[j] - most) : 0;
    for (int64_t j = 0; j < c->s; j++) p[j] /= sum; // NaN where no key is seen
    stats[0] = most / logl(2);
    stats[1] = sum;
}

struct results {
    struct host of, scale;
};

static struct results results_of(int dtype, int64_t b, int64_t rows, int64_t columns)
{
    const int64_t dims[] = {b, rows, columns};
    return (struct results){host_new(dtype, 3, dims), host_new(dtype, 3, dims)};
}

static void results_free(struct results *r)
{
    host_free(&r->of);
    host_free(&r->scale);
}

static void add(struct results *r, int64_t b, int64_t i, long double x, long double size, const long double *row)
{
    int64_t n = r->of.dims[2], at = (b * r->of.dims[1] + i) * n;
    for (int64_t e = 0; e < n; e++) {
        r->of.v[at + e] += x * row[e];
        r->scale.v[at + e] += size * fabsl(row[e]);
    }
}

static void expect_forward(const struct attention_data *a, struct results *y, struct results *stats)
{
    const struct attention_case *c = a->c;
    long double *p = malloc(sizeof *p * (size_t)(c->s + 1)), of[2];
    for (int64_t b = 0; b < c->b; b++)
        for (int64_t i = 0; i < c->l; i++) {
            weigh(a, b, i, p, of);
            for (int64_t j = 0; j < c->s; j++) add(y, b, i, p[j], p[j], row_of(&a->v, b, j));
            for (int n = 0; n < 2; n++) {
                stats->of.v[(b * c->l + i) * 2 + n] = of[n];
                stats->scale.v[(b * c->l + i) * 2 + n] = n ? of[1] : 8;
            }
        }
    free(p);
}

static void expect_backward(const struct attention_data *a, struct results *dq, struct results *dk, struct results *dv)
{
    const struct attention_case *c = a->c;
    long double *p = malloc(sizeof *p * (size_t)(c->s + 1)), stats[2], scale = scale_of(c);
    for (int64_t b = 0; b < c->b; b++)
        for (int64_t i = 0; i < c->l; i++) {
            const long double *q = row_of(&a->q, b, i), *dy = row_of(&a->dy, b, i);
            long double delta = 0, size = 0;
            weigh(a, b, i, p, stats);
            for (int64_t j = 0; j < c->s; j++) {
                delta += p[j] * dot(dy, row_of(&a->v, b, j), c->e, false);
                size += p[j] * dot(dy, row_of(&a->v, b, j), c->e, true);
            }
            for (int64_t j = 0; j < c->s; j++) {
                const long double *v = row_of(&a->v, b, j);
                long double ds = p[j] * (dot(dy, v, c->e, false) - delta) * scale;
                long double of_ds = p[j] * (dot(dy, v, c->e, true) + size) * fabsl(scale);
                add(dq, b, i, ds, of_ds, row_of(&a->k, b, j));
                add(dk, b, j, ds, of_ds, q);
                add(dv, b, j, p[j], p[j], dy);
            }
        }
    free(p);
}

static void forward(const char *op, const struct attention_case *c, int dtype, enum host_layout layout)
{
    kiln_scope *scope = kiln_scope_begin();
    struct attention_data a;
    kiln_tensor *y = NULL, *stats = NULL;
    attention_begin(&a, c, dtype, layout);
    struct results of_y = results_of(dtype, c->b, c->l, c->e),
                   of_stats = results_of(dtype == KILN_F64 ? KILN_F64 : KILN_F32, c->b, c->l, 2);
    expect_forward(&a, &of_y, &of_stats);
    kiln_flash_attention(a.tq, a.tk, a.tv, &a.o, &y, &stats);
    const char *text = case_text(op, &a.q, layout, "");
    // Where the processor multiplies bf16, or a GPU matrices of f16, weights are rounded to it.
    bool rounded = dtype == KILN_BF16 || (dtype == KILN_F16 && suite.dev->caps.matrix);
    double units = rounded ? scalbn(1, 24 - fraction_bits(dtype)) : 64;
    check_values(y, &of_y.of, &of_y.scale, units, text);
    if (c->e > 0) check_values(stats, &of_stats.of, &of_stats.scale, dtype == KILN_F16 ? units : 64, text);
    results_free(&of_y);
    results_free(&of_stats);
    attention_end(&a);
    kiln_scope_end(&scope);
}

static void backward(const char *op, const struct attention_case *c, int dtype, enum host_layout layout)
{
    if (c->first < 0 || c->mask == STAIRS_BEFORE_INFINITY) return; // where most is no number
    kiln_scope *scope = kiln_scope_begin();
    struct attention_data a;
    kiln_tensor *y = NULL, *stats = NULL, *t[3] = {NULL};
    attention_begin(&a, c, dtype, layout);
    struct results want[3] = {results_of(dtype, c->b, c->l, c->d), results_of(dtype, c->b, c->s, c->d),
                              results_of(dtype, c->b, c->s, c->e)};
    if (c->e > 0) expect_backward(&a, &want[0], &want[1], &want[2]);
    kiln_flash_attention(a.tq, a.tk, a.tv, &a.o, &y, &stats);
    kiln_flash_attention_backward(a.tq, a.tk, a.tv, y, stats, a.tdy, &a.o, &t[0], &t[1], &t[2]);
    // What y was rounded to goes into all.
    bool narrow = dtype == KILN_F16 || dtype == KILN_BF16;
    const char *text = case_text(op, &a.q, layout, "");
    for (int i = 0; i < 3; i++) {
        if (want[i].of.n > 0)
            check_values(t[i], &want[i].of, &want[i].scale, narrow ? scalbn(1, 24 - fraction_bits(dtype)) : 64, text);
        results_free(&want[i]);
    }
    attention_end(&a);
    kiln_scope_end(&scope);
}

static void all_cases(const char *op, void (*run)(const char *, const struct attention_case *, int, enum host_layout))
{
    for (int dtype = KILN_F16; dtype <= KILN_F64; dtype++)
        for (int i = 0; i < ATTENTION_CASES; i++) {
            const struct attention_case *c = &attention_cases[i];
            bool large = c->l > 50;
            if (large && suite.sparse) continue;
            for (int layout = 0; layout <= LAYOUT_ROTATED; layout++)
                if (layout == (large ? dtype : i) % (LAYOUT_ROTATED + 1) || (!large && layout == 0))
                    run(op, c, dtype, (enum host_layout)layout);
        }
}

// Other rows are as if it were not there.
static void unseeing(const char *op)
{
    static const float ones[6] = {1, 1, 1, 1, 1, 1};
    static const bool seen[6] = {true, false, false, false, true, true};
    float y[3] = {0};
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *q = kiln_from_data(suite.dev, KILN_F32, KILN_SHAPE(3, 2), ones),
                *k = kiln_from_data(suite.dev, KILN_F32, KILN_SHAPE(2, 2), ones),
                *v = kiln_from_data(suite.dev, KILN_F32, KILN_SHAPE(2, 1), (const float[]){3, 5}),
                *mask = kiln_from_data(suite.dev, KILN_BOOL, KILN_SHAPE(3, 2), seen), *t = NULL, *stats = NULL;
    kiln_flash_attention(q, k, v, KILN_FLASH_ATTENTION(.mask = mask), &t, &stats);
    if (kiln_read(t, y, sizeof y) || (!suite.is_null && (y[0] != 3 || !isnan(y[1]) || y[2] != 4)))
        record_mistake("%s: a query that sees no key: %g %g %g, not 3 nan 4", op, (double)y[0], (double)y[1],
                       (double)y[2]);
    kiln_scope_end(&scope);
}

void conform_flash_attention(const char *op)
{
    all_cases(op, forward);
    unseeing(op);
    kiln_tensor *q = kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(3, 4)),
                *k = kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(2, 4)),
                *n = kiln_ones(suite.dev, KILN_I32, KILN_SHAPE(2, 4)), *y, *s;
    if (!kiln_flash_attention(q, k, q, NULL, &y, &s)) record_mistake("%s of 2 keys and 3 values", op);
    expect_error(KILN_E_SHAPE, op, "keys and values");
    if (!kiln_flash_attention(q, k, k, KILN_FLASH_ATTENTION(.causal = true), &y, &s))
        record_mistake("%s of more queries than keys", op);
    expect_error(KILN_E_SHAPE, op, "more queries than keys");
    if (!kiln_flash_attention(q, k, k, KILN_FLASH_ATTENTION(.mask = k), &y, &s))
        record_mistake("%s with a mask of another shape", op);
    expect_error(KILN_E_SHAPE, op, "a mask of another shape");
    if (!kiln_flash_attention(q, k, k, KILN_FLASH_ATTENTION(.mask = n), &y, &s))
        record_mistake("%s with a mask of integers", op);
    expect_error(KILN_E_DTYPE, op, "a mask of integers");
    if (!kiln_flash_attention(q, n, k, NULL, &y, &s)) record_mistake("%s of integers", op);
    expect_error(KILN_E_DTYPE, op, "integers");
}

void conform_flash_attention_backward(const char *op)
{
    all_cases(op, backward);
    kiln_tensor *q = kiln_ones(suite.dev, KILN_F32, KILN_SHAPE(3, 4)), *t[3];
    if (!kiln_flash_attention_backward(q, q, q, q, q, q, NULL, &t[0], &t[1], &t[2]))
        record_mistake("%s with other stats", op);
    expect_error(KILN_E_SHAPE, op, "other stats");
}
