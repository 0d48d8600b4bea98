// Attention whose scores are never in memory: softmax(scale q k^T + mask) v, and its gradients by q, k and v.
//
// Launch: the space is [batch..., L, E] of the result. Strides of an operand are those of the batch, 0 where it is
// broadcast, and then its own two. Scalars: L S D E, whether it is causal, the bits of the scale as f64, whether there
// is a mask. flash_attention: q, k, v, mask (immediate 0 when absent), y, stats. flash_attention_backward: q, k, v,
// mask, y, stats, dy, dq, dk, dv. GPUs have kernels of their own: see attention_tiles.c.
#include "ops/attention.h"
#include <math.h>

static struct type batch_of(const struct type *t)
{
    struct type b = *t;
    b.rank = (uint8_t)(t->rank - 2);
    return b;
}

static kiln_status add_batch(const struct op_call *c, int in, struct type *batch)
{
    struct type of = batch_of(c->in[in]), all;
    if (!shape_broadcast(batch, &of, &all))
        return op_fail(c, KILN_E_SHAPE, "%s is %s, its batch does not broadcast with those before", c->op->in_names[in],
                       type_string(c->in[in]).s);
    *batch = all;
    return KILN_OK;
}

static kiln_status check_sizes(const struct op_call *c, const struct attention_sizes *h)
{
    const struct type *q = c->in[0], *k = c->in[1], *v = c->in[2];
    if (h->d != k->dims[k->rank - 1])
        return op_fail(c, KILN_E_SHAPE, "the last axes of q and k must agree: q is %s, k is %s", type_string(q).s,
                       type_string(k).s);
    if (h->s != v->dims[v->rank - 2])
        return op_fail(c, KILN_E_SHAPE, "k and v must have as many places: k is %s, v is %s", type_string(k).s,
                       type_string(v).s);
    if (h->causal && h->l > h->s)
        return op_fail(c, KILN_E_SHAPE, "causal queries must not be more than keys: q is %s, k is %s", type_string(q).s,
                       type_string(k).s);
    return KILN_OK;
}

static kiln_status check_mask(const struct op_call *c, int in, const struct attention_sizes *h)
{
    const struct type *mask = c->in[in];
    struct type scores = h->batch, all;
    if (mask->dtype != KILN_BOOL && dtype_kind_of[mask->dtype] != KIND_FLOAT)
        return op_fail(c, KILN_E_DTYPE, "mask must be bool or floats, it is %s", type_string(mask).s);
    scores.dims[scores.rank++] = h->l;
    scores.dims[scores.rank++] = h->s;
    if (shape_broadcast(&scores, mask, &all) && type_same_shape(&scores, &all)) return KILN_OK;
    return op_fail(c, KILN_E_SHAPE, "mask must broadcast to the scores [...,%lld,%lld], it is %s", (long long)h->l,
                   (long long)h->s, type_string(mask).s);
}

// `opts`: the first attribute; `mask`: its input.
static kiln_status read_heads(const struct op_call *c, int causal, int scale, int mask, struct attention_sizes *h)
{
    for (int i = 0; i < 3; i++)
        if (c->in[i]->rank < 2 || dtype_kind_of[c->in[i]->dtype] != KIND_FLOAT)
            return op_fail(c, c->in[i]->rank < 2 ? KILN_E_SHAPE : KILN_E_DTYPE, "takes matrices of floats, %s is %s",
                           c->op->in_names[i], type_string(c->in[i]).s);
    const struct type *q = c->in[0], *k = c->in[1], *v = c->in[2];
    *h = (struct attention_sizes){.l = q->dims[q->rank - 2],
                                  .s = k->dims[k->rank - 2],
                                  .d = q->dims[q->rank - 1],
                                  .e = v->dims[v->rank - 1],
                                  .causal = attr_int(c, causal) != 0,
                                  .scale = attr_float(c, scale),
                                  .batch = batch_of(q)};
    if (h->scale == 0) h->scale = 1 / sqrt(h->d > 0 ? (double)h->d : 1);
    TRY(check_sizes(c, h));
    TRY(add_batch(c, 1, &h->batch));
    TRY(add_batch(c, 2, &h->batch));
    if (mask >= c->n_in || !c->in[mask]) return KILN_OK;
    if (c->vin) h->mask = &c->vin[mask];
    return check_mask(c, mask, h);
}

struct type attention_matrices(const struct attention_sizes *h, unsigned dtype, int64_t rows, int64_t columns)
{
    struct type t = {.dtype = (uint8_t)dtype, .rank = h->batch.rank};
    memcpy(t.dims, h->batch.dims, sizeof t.dims);
    t.dims[t.rank++] = rows;
    t.dims[t.rank++] = columns;
    return t;
}

// Of all floats, that of the mask too.
static kiln_status dtype_of_all(const struct op_call *c, int mask, uint8_t *dtype)
{
    struct type acc = *c->in[0];
    bool weak;
    for (int i = 1; i <= mask && i < c->n_in; i = i < 2 ? i + 1 : i == 2 ? mask : mask + 1)
        if (c->in[i] && c->in[i]->dtype != KILN_BOOL && !type_promote(&acc, c->in[i], &acc.dtype, &weak))
            return op_no_common_dtype(c, acc.dtype, c->in[i]->dtype);
    *dtype = acc.dtype;
    return KILN_OK;
}

kiln_status infer_flash_attention(struct op_call *c)
{
    struct attention_sizes h;
    uint8_t dtype;
    TRY(read_heads(c, AT_flash_attention_causal, AT_flash_attention_scale, 3, &h));
    TRY(dtype_of_all(c, 3, &dtype));
    c->out[0] = attention_matrices(&h, dtype, h.l, h.e);
    c->out[1] = attention_matrices(&h, dtype == KILN_F64 ? KILN_F64 : KILN_F32, h.l, STATS);
    return KILN_OK;
}

kiln_status infer_flash_attention_backward(struct op_call *c)
{
    struct attention_sizes h;
    uint8_t dtype;
    TRY(read_heads(c, AT_flash_attention_backward_causal, AT_flash_attention_backward_scale, 6, &h));
    TRY(dtype_of_all(c, 6, &dtype));
    struct type y = attention_matrices(&h, dtype, h.l, h.e), stats = attention_matrices(&h, dtype, h.l, STATS);
    for (int i = 3; i < 6; i++) {
        const struct type *want = i == 4 ? &stats : &y;
        if (type_same_shape(c->in[i], want)) continue;
        return op_fail(c, KILN_E_SHAPE, "%s is %s, flash_attention gives %s", c->op->in_names[i],
                       type_string(c->in[i]).s, type_string(want).s);
    }
    c->out[0] = attention_matrices(&h, dtype, h.l, h.d);
    c->out[1] = attention_matrices(&h, dtype, h.s, h.d);
    c->out[2] = attention_matrices(&h, dtype, h.s, h.e);
    return KILN_OK;
}

kiln_status attention_operand(struct launch *l, const struct attention_sizes *h, const struct view *v, int64_t rows,
                              int64_t columns, bool write)
{
    struct type t = attention_matrices(h, v->dtype, rows, columns);
    struct view all;
    TRY(view_expand(v, t.rank, t.dims, &all));
    launch_operand(l, &all, all.strides, write);
    return KILN_OK;
}

static kiln_status launch_of(const struct op_call *c, struct lowering *lo, int family, const struct attention_sizes *h,
                             struct launch *l)
{
    struct type space = attention_matrices(h, KILN_F32, h->l, h->e);
    struct view none = view_number(0);
    launch_init(l, lo, kernel_of(family, dtype_class(c->out[0].dtype)), space.rank, space.dims);
    TRY(attention_operand(l, h, &c->vin[0], h->l, h->d, false));
    TRY(attention_operand(l, h, &c->vin[1], h->s, h->d, false));
    TRY(attention_operand(l, h, &c->vin[2], h->s, h->e, false));
    if (h->mask)
        TRY(attention_operand(l, h, h->mask, h->l, h->s, false));
    else
        launch_operand(l, &none, NULL, false);
    const int64_t scalars[] = {h->l, h->s, h->d, h->e, h->causal, (int64_t)bits_f64(h->scale), h->mask != NULL};
    for (size_t i = 0; i < COUNT_OF(scalars); i++) launch_scalar_i(l, scalars[i]);
    return KILN_OK;
}

kiln_status lower_flash_attention(const struct op_call *c, struct lowering *lo)
{
    struct attention_sizes h;
    struct launch l;
    TRY(read_heads(c, AT_flash_attention_causal, AT_flash_attention_scale, 3, &h));
    if (type_numel(&c->out[1]) == 0) return KILN_OK;
    if (h.e == 0) return lower_fill(lo, 0, &c->vout[1]);
    if (attention_has_tiles(c, lo)) return attention_lower_tiles(c, lo, &h);
    TRY(launch_of(c, lo, FAMILY_flash_attention, &h, &l));
    TRY(attention_operand(&l, &h, &c->vout[0], h.l, h.e, true));
    TRY(attention_operand(&l, &h, &c->vout[1], h.l, STATS, true));
    return lo->launch(lo, &l);
}

kiln_status lower_flash_attention_backward(const struct op_call *c, struct lowering *lo)
{
    struct attention_sizes h;
    struct launch l;
    TRY(read_heads(c, AT_flash_attention_backward_causal, AT_flash_attention_backward_scale, 6, &h));
    // Where keys have no width weights are equal, and values have gradients all the same.
    if (type_numel(c->in[3]) == 0 || h.s == 0) {
        for (int i = 0; i < 3; i++)
            if (type_numel(&c->out[i])) TRY(lower_fill(lo, 0, &c->vout[i]));
        return KILN_OK;
    }
    if (attention_has_tiles(c, lo)) return attention_lower_gradients(c, lo, &h);
    TRY(launch_of(c, lo, FAMILY_flash_attention_backward, &h, &l));
    TRY(attention_operand(&l, &h, &c->vin[3], h.l, h.e, false));
    TRY(attention_operand(&l, &h, &c->vin[4], h.l, STATS, false));
    TRY(attention_operand(&l, &h, &c->vin[5], h.l, h.e, false));
    TRY(attention_operand(&l, &h, &c->vout[0], h.l, h.d, true));
    TRY(attention_operand(&l, &h, &c->vout[1], h.s, h.d, true));
    TRY(attention_operand(&l, &h, &c->vout[2], h.s, h.e, true));
    return lo->launch(lo, &l);
}
