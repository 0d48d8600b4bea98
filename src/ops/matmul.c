// Matrix products: any batch broadcast, vectors, operands by strides without copies.
#include "ops/family.h"

struct product {
    int64_t m, n, k;
    bool a_vector, b_vector;
};

static kiln_status product_of(const struct op_call *c, struct product *p)
{
    const struct type *a = c->in[0], *b = c->in[1];
    if (a->rank == 0 || b->rank == 0)
        return op_fail(c, KILN_E_SHAPE, "takes tensors of rank 1 or more: a is %s, b is %s", type_string(a).s,
                       type_string(b).s);
    p->a_vector = a->rank == 1;
    p->b_vector = b->rank == 1;
    p->m = p->a_vector ? 1 : a->dims[a->rank - 2];
    p->k = a->dims[a->rank - 1];
    p->n = p->b_vector ? 1 : b->dims[b->rank - 1];
    int64_t kb = p->b_vector ? b->dims[0] : b->dims[b->rank - 2];
    if (p->k == kb) return KILN_OK;
    return op_fail(c, KILN_E_SHAPE, "inner dimensions differ: a is %s, b is %s", type_string(a).s, type_string(b).s);
}

static kiln_status batch_shape(const struct op_call *c, struct type *batch)
{
    struct type a = *c->in[0], b = *c->in[1];
    a.rank = a.rank > 2 ? (uint8_t)(a.rank - 2) : 0;
    b.rank = b.rank > 2 ? (uint8_t)(b.rank - 2) : 0;
    if (shape_broadcast(&a, &b, batch)) return KILN_OK;
    return op_fail(c, KILN_E_SHAPE, "batch dimensions do not broadcast: a is %s, b is %s", type_string(c->in[0]).s,
                   type_string(c->in[1]).s);
}

kiln_status infer_matmul(struct op_call *c)
{
    struct product p;
    struct type *out = &c->out[0];
    bool weak;
    TRY(product_of(c, &p));
    TRY(batch_shape(c, out));
    type_promote(c->in[0], c->in[1], &out->dtype, &weak);
    if (out->dtype == KILN_BOOL) return op_fail(c, KILN_E_DTYPE, "takes integers and floats, a and b are bool");
    out->weak = false;
    if (!p.a_vector) out->dims[out->rank++] = p.m;
    if (!p.b_vector) out->dims[out->rank++] = p.n;
    return KILN_OK;
}

// Space: batch..., M, N, K with K the row. Adjacent batch dimensions that all operands walk alike are merged.
kiln_status lower_matmul(const struct op_call *c, struct lowering *lo)
{
    struct product p;
    struct type batch;
    TRY(product_of(c, &p));
    TRY(batch_shape(c, &batch));
    if (type_numel(&c->out[0]) == 0) return KILN_OK;
    if (p.k == 0) return lower_fill(lo, 0, &c->vout[0]);
    struct view a = c->vin[0], b = c->vin[1], out = c->vout[0];
    if (p.a_vector) {
        a = view_insert(&a, 0);
        out = view_insert(&out, batch.rank);
    }
    if (p.b_vector) {
        b = view_insert(&b, 1);
        out = view_insert(&out, out.rank);
    }
    int nb = batch.rank;
    int64_t a_dims[MAX_RANK + 2], b_dims[MAX_RANK + 2];
    memcpy(a_dims, batch.dims, sizeof batch.dims);
    memcpy(b_dims, batch.dims, sizeof batch.dims);
    a_dims[nb] = p.m, a_dims[nb + 1] = p.k;
    b_dims[nb] = p.k, b_dims[nb + 1] = p.n;
    TRY(view_expand(&a, nb + 2, a_dims, &a));
    TRY(view_expand(&b, nb + 2, b_dims, &b));
    int64_t size[MAX_RANK], sa[MAX_RANK], sb[MAX_RANK], so[MAX_RANK], batches = 1;
    int r = 0;
    for (int i = 0; i < nb; i++) {
        batches *= batch.dims[i];
        if (batch.dims[i] == 1) continue;
        int64_t d = batch.dims[i];
        if (r && sa[r - 1] == a.strides[i] * d && sb[r - 1] == b.strides[i] * d && so[r - 1] == out.strides[i] * d) {
            size[r - 1] *= d, sa[r - 1] = a.strides[i], sb[r - 1] = b.strides[i], so[r - 1] = out.strides[i];
            continue;
        }
        size[r] = d, sa[r] = a.strides[i], sb[r] = b.strides[i], so[r++] = out.strides[i];
    }
    if (r + 3 > MAX_RANK)
        return op_fail(c, KILN_E_UNSUPPORTED, "more than %d batch dimensions that cannot be merged", MAX_RANK - 3);
    size[r] = p.m, sa[r] = a.strides[nb], sb[r] = 0, so[r] = out.strides[nb];
    size[r + 1] = p.n, sa[r + 1] = 0, sb[r + 1] = b.strides[nb + 1], so[r + 1] = out.strides[nb + 1];
    size[r + 2] = p.k, sa[r + 2] = a.strides[nb + 1], sb[r + 2] = b.strides[nb], so[r + 2] = 0;
    struct launch l;
    launch_init(&l, lo, kernel_of(FAMILY_matmul, dtype_class(c->out[0].dtype)), r + 3, size);
    l.n_reduce = 1;
    launch_operand(&l, &a, sa, false);
    launch_operand(&l, &b, sb, false);
    launch_operand(&l, &out, so, true);
    l.extent[0] = p.n, l.extent[1] = p.m, l.extent[2] = batches;
    return lo->launch(lo, &l);
}
