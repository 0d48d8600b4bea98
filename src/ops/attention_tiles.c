// Attention and its gradients on a GPU, by squares of queries and keys.
//
// Launches have the space of attention.c's, and a workgroup for each tile of rows and WIDTH_MOST columns of a result.
// Scalars: L S D E, the scale as f32, how many keys more than its own number and one a query sees. Variants: columns
// that a workgroup keeps, what is asked for (enum below), invocations. attention_tiles, and attention_matrices for f16:
// q, k, v, mask, y, stats.
// attention_grad_tiles, and attention_grad_matrices for f16: q, k, v, mask, stats, delta, dy, da, db; by queries da is
// dq, by keys da is dk and db dv, each an immediate where it is not asked for. delta is the sum of y dy of a query.
#include "ops/attention.h"
#include "ir/grid.h"
#include "ops/index.h"

enum { TILE = 64, TILE_SMALL = 32, WIDTH_LEAST = 64, WIDTH_MOST = 128 };
enum { BY_KEYS = 1, GIVES_A = 2, GIVES_B = 4, MASKED = 8, NEAR = 16 }; // as in shaders/attention_sides.glsl

bool attention_has_tiles(const struct op_call *c, const struct lowering *lo)
{
    return dtype_class(c->out[0].dtype) == CLASS_F32 && !lowers_to_cpu(lo, CLASS_F32);
}

static int64_t width_of(int64_t columns)
{
    return columns <= WIDTH_LEAST ? WIDTH_LEAST : WIDTH_MOST;
}

// Whether all offsets inside of a matrix are at least 0, and in bytes below 2 GiB.
static bool is_near(const struct launch *l, const struct attention_sizes *h)
{
    int64_t rows = h->l > h->s ? h->l : h->s, columns = h->d > h->e ? h->d : h->e;
    if (h->mask && h->s > columns) columns = h->s;
    for (int i = 0; i < l->n_operands; i++) {
        const int64_t *s = l->operands[i].strides;
        int64_t row = s[l->rank - 2], column = s[l->rank - 1];
        if (row < 0 || column < 0 || row > INT32_MAX || column > INT32_MAX || rows > INT32_MAX || columns > INT32_MAX)
            return false;
        if (row * rows > INT32_MAX / 16 || column * columns > INT32_MAX / 16) return false;
    }
    return true;
}

static void finish(struct launch *l, const struct attention_sizes *h, uint32_t what, int64_t tile, int64_t rows,
                   int64_t columns)
{
    const int64_t scalars[] = {
        h->l, h->s, h->d, h->e, (int64_t)bits_f32((float)h->scale), h->causal ? h->s - h->l : h->s};
    int64_t batches = type_numel(&h->batch), width = width_of(columns);
    for (size_t i = 0; i < COUNT_OF(scalars); i++) launch_scalar_i(l, scalars[i]);
    l->variant[0] = (uint32_t)width;
    l->variant[1] = what | (h->mask ? MASKED : 0u) | (is_near(l, h) ? NEAR : 0u);
    l->extent[0] = batches * ((rows + tile - 1) / tile) * ((columns + width - 1) / width);
}

static kiln_status begin(const struct op_call *c, struct lowering *lo, int family, const struct attention_sizes *h,
                         struct launch *l)
{
    struct type space = attention_matrices(h, KILN_F32, h->l, h->e);
    launch_init(l, lo, kernel_of(family, CLASS_F32), space.rank, space.dims);
    TRY(attention_operand(l, h, &c->vin[0], h->l, h->d, false));
    TRY(attention_operand(l, h, &c->vin[1], h->s, h->d, false));
    TRY(attention_operand(l, h, &c->vin[2], h->s, h->e, false));
    if (h->mask) return attention_operand(l, h, h->mask, h->l, h->s, false);
    struct view none = view_number(0);
    launch_operand(l, &none, NULL, false);
    return KILN_OK;
}

// Of halves, by matrix units where the device has them. How large those are is told behind the bits of what is asked.
static uint32_t matrices_of(const struct op_call *c, const struct lowering *lo, int dy)
{
    const int of_products[] = {0, 1, 2, dy};
    for (size_t i = 0; i < COUNT_OF(of_products); i++)
        if (c->in[of_products[i]]->dtype != KILN_F16) return 0;
    return lo->caps->matrix ? lo->caps->matrix << 8 | lo->caps->subgroup_size << 16 : 0;
}

kiln_status attention_lower_tiles(const struct op_call *c, struct lowering *lo, const struct attention_sizes *h)
{
    struct launch l;
    uint32_t matrices = matrices_of(c, lo, 0);
    TRY(begin(c, lo, matrices ? FAMILY_attention_matrices : FAMILY_attention_tiles, h, &l));
    TRY(attention_operand(&l, h, &c->vout[0], h->l, h->e, true));
    TRY(attention_operand(&l, h, &c->vout[1], h->l, STATS, true));
    l.variant[2] = grid_is_small(lo->caps) ? 64 : 256;
    finish(&l, h, matrices, TILE, h->l, h->e);
    return lo->launch(lo, &l);
}

static kiln_status make_delta(const struct op_call *c, struct lowering *lo, const struct attention_sizes *h,
                              struct view *delta)
{
    struct type all = attention_matrices(h, KILN_F32, h->l, h->e), rows = attention_matrices(h, KILN_F32, h->l, 1);
    TRY(lower_temp(lo, KILN_F32, rows.rank, rows.dims, delta));
    const struct view in[2] = {c->vin[3], c->vin[5]};
    return lower_row(lo, FAMILY_attention_delta, CLASS_F32, all.rank, all.dims, 1, 2, in, delta, 0, NULL);
}

struct attention_gradient {
    uint32_t what, matrices;
    const struct view *a, *b; // results; NULL: not asked for
};

static kiln_status give(struct launch *l, const struct attention_sizes *h, const struct view *v, int64_t rows,
                        int64_t columns)
{
    struct view none = view_number(0);
    if (v) return attention_operand(l, h, v, rows, columns, true);
    launch_operand(l, &none, NULL, false);
    return KILN_OK;
}

static kiln_status launch_gradient(const struct op_call *c, struct lowering *lo, const struct attention_sizes *h,
                                   const struct view *delta, const struct attention_gradient *g)
{
    struct launch l;
    bool by_keys = g->what & BY_KEYS;
    int64_t rows = by_keys ? h->s : h->l, columns = g->b && !g->a ? h->e : h->d;
    if (g->a && g->b && h->e > columns) columns = h->e;
    TRY(begin(c, lo, g->matrices ? FAMILY_attention_grad_matrices : FAMILY_attention_grad_tiles, h, &l));
    TRY(attention_operand(&l, h, &c->vin[4], h->l, STATS, false));
    TRY(attention_operand(&l, h, delta, h->l, 1, false));
    TRY(attention_operand(&l, h, &c->vin[5], h->l, h->e, false));
    TRY(give(&l, h, g->a, rows, h->d));
    TRY(give(&l, h, g->b, rows, h->e));
    bool small = grid_is_small(lo->caps) && !g->matrices;
    l.variant[2] = small ? 64 : 256;
    finish(&l, h, g->what | g->matrices | (g->a ? GIVES_A : 0u) | (g->b ? GIVES_B : 0u), small ? TILE_SMALL : TILE,
           rows, columns);
    return lo->launch(lo, &l);
}

// What is wide goes by keys twice, so that the sums of each stay in registers.
kiln_status attention_lower_gradients(const struct op_call *c, struct lowering *lo, const struct attention_sizes *h)
{
    struct view delta;
    const struct view *dq = &c->vout[0], *dk = &c->vout[1], *dv = &c->vout[2];
    uint32_t matrices = matrices_of(c, lo, 5);
    TRY(make_delta(c, lo, h, &delta));
    TRY(launch_gradient(c, lo, h, &delta, &(struct attention_gradient){0, matrices, dq, NULL}));
    if (h->d <= WIDTH_LEAST && h->e <= WIDTH_LEAST)
        return launch_gradient(c, lo, h, &delta, &(struct attention_gradient){BY_KEYS, matrices, dk, dv});
    TRY(launch_gradient(c, lo, h, &delta, &(struct attention_gradient){BY_KEYS, matrices, dk, NULL}));
    return launch_gradient(c, lo, h, &delta, &(struct attention_gradient){BY_KEYS, matrices, NULL, dv});
}
