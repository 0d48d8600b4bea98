// Matrix products: any batch broadcast, vectors, operands by strides without copies.
#include "ops/family.h"

struct product {
    int64_t m, n, k;
    bool a_vector, b_vector;
};

static const char *transpose_hint(const struct type *a, const struct type *b)
{
    if (b->rank > 1 && a->dims[a->rank - 1] == b->dims[b->rank - 1]) return "; they fit with kiln_transpose(b, -2, -1)";
    if (a->rank > 1 && b->rank > 1 && a->dims[a->rank - 2] == b->dims[b->rank - 2])
        return "; they fit with kiln_transpose(a, -2, -1)";
    return "";
}

static kiln_status product_of(const struct op_call *c, struct product *p)
{
    const struct type *a = c->in[0], *b = c->in[1];
    if (a->rank == 0 || b->rank == 0)
        return op_fail(c, KILN_E_SHAPE, "takes tensors of rank 1 or more: a is %s, b is %s; kiln_mul takes scalars",
                       type_string(a).s, type_string(b).s);
    p->a_vector = a->rank == 1;
    p->b_vector = b->rank == 1;
    p->m = p->a_vector ? 1 : a->dims[a->rank - 2];
    p->k = a->dims[a->rank - 1];
    p->n = p->b_vector ? 1 : b->dims[b->rank - 1];
    int64_t kb = p->b_vector ? b->dims[0] : b->dims[b->rank - 2];
    if (p->k == kb) return KILN_OK;
    return op_fail(c, KILN_E_SHAPE, "inner dimensions differ: a is %s, b is %s%s", type_string(a).s, type_string(b).s,
                   transpose_hint(a, b));
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
    if (!type_promote(c->in[0], c->in[1], &out->dtype, &weak))
        return op_no_common_dtype(c, c->in[0]->dtype, c->in[1]->dtype);
    if (out->dtype == KILN_BOOL) return op_fail(c, KILN_E_DTYPE, "takes integers and floats, a and b are bool");
    out->weak = false;
    if (!p.a_vector) out->dims[out->rank++] = p.m;
    if (!p.b_vector) out->dims[out->rank++] = p.n;
    return KILN_OK;
}

// Batch dimensions of the launch: adjacent ones that all operands walk alike are one.
struct batch {
    int n;
    int64_t size[MAX_RANK], a[MAX_RANK], b[MAX_RANK], out[MAX_RANK];
};

static void merge_batch(struct batch *s, int rank, const struct view *a, const struct view *b, const struct view *out)
{
    s->n = 0;
    for (int d = 0; d < rank; d++) {
        int64_t size = out->dims[d];
        int last = s->n - 1;
        if (size == 1) continue;
        bool merges = s->n && s->a[last] == a->strides[d] * size && s->b[last] == b->strides[d] * size &&
                      s->out[last] == out->strides[d] * size;
        int at = merges ? last : s->n++;
        s->size[at] = merges ? s->size[at] * size : size;
        s->a[at] = a->strides[d], s->b[at] = b->strides[d], s->out[at] = out->strides[d];
    }
}

static void add_dim(struct batch *s, int64_t size, int64_t a, int64_t b, int64_t out)
{
    s->size[s->n] = size;
    s->a[s->n] = a, s->b[s->n] = b, s->out[s->n++] = out;
}

struct factors {
    const struct op_call *c;
    const struct product *p;
    int n_batch;
    struct view a, b, out; // batch..., then the matrix
};

static kiln_status multiply(struct lowering *lo, const struct factors *f);

// A batch with more dimensions than a launch has room for, one index of its shortest at a time.
static kiln_status multiply_pieces(struct lowering *lo, const struct factors *f)
{
    int shortest = 0;
    for (int d = 1; d < f->n_batch; d++)
        if (f->out.dims[d] < f->out.dims[shortest]) shortest = d;
    for (int64_t i = 0; i < f->out.dims[shortest]; i++) {
        struct factors piece = *f;
        piece.a = view_narrow(&f->a, shortest, i, 1);
        piece.b = view_narrow(&f->b, shortest, i, 1);
        piece.out = view_narrow(&f->out, shortest, i, 1);
        TRY(multiply(lo, &piece));
    }
    return KILN_OK;
}

// By matrix units where the device has them for the dtypes.
static kernel_id kernel_for(const struct lowering *lo, const struct op_call *c)
{
    unsigned dtype = c->in[0]->dtype;
    if (dtype != c->in[1]->dtype || !caps_matrix_side(lo->caps, dtype))
        return kernel_of(FAMILY_matmul, dtype_class(c->out[0].dtype));
    return kernel_of(dtype == KILN_F16 ? FAMILY_matmul_matrices : FAMILY_matmul_matrices_bf16, CLASS_F32);
}

// Space: batch..., M, N, K with K the row.
static kiln_status multiply(struct lowering *lo, const struct factors *f)
{
    const struct product *p = f->p;
    const struct view *a = &f->a, *b = &f->b, *out = &f->out;
    int m = f->n_batch, n = f->n_batch + 1;
    int64_t batches = 1;
    struct batch s;
    merge_batch(&s, f->n_batch, a, b, out);
    if (s.n + 3 > MAX_RANK) return multiply_pieces(lo, f);
    for (int d = 0; d < s.n; d++) batches *= s.size[d];
    add_dim(&s, p->m, a->strides[m], 0, out->strides[m]);
    add_dim(&s, p->n, 0, b->strides[n], out->strides[n]);
    add_dim(&s, p->k, a->strides[n], b->strides[m], 0);
    struct launch l;
    launch_init(&l, lo, kernel_for(lo, f->c), s.n, s.size);
    l.n_reduce = 1;
    launch_operand(&l, a, s.a, false);
    launch_operand(&l, b, s.b, false);
    launch_operand(&l, out, s.out, true);
    l.extent[0] = p->n, l.extent[1] = p->m, l.extent[2] = batches;
    return lo->launch(lo, &l);
}

static struct view without_dim(const struct view *v, int d)
{
    struct view out = *v;
    out.rank--;
    for (; d < out.rank; d++) out.dims[d] = v->dims[d + 1], out.strides[d] = v->strides[d + 1];
    return out;
}

// A long sum of products for one element: a row, which devices fold in parts at once.
static bool is_dot(const struct product *p)
{
    enum { LONG = 1024 };
    return p->m == 1 && p->n == 1 && p->k >= LONG;
}

static kiln_status lower_dot(struct lowering *lo, const struct factors *f)
{
    const struct view in[] = {without_dim(&f->a, f->n_batch), without_dim(&f->b, f->n_batch + 1)};
    struct view out = without_dim(&f->out, f->n_batch);
    return lower_row(lo, FAMILY_dot, dtype_class(f->out.dtype), f->n_batch + 1, in[0].dims, 1, 2, in, &out, 0, NULL);
}

kiln_status lower_matmul(const struct op_call *c, struct lowering *lo)
{
    struct product p;
    struct type batch;
    TRY(product_of(c, &p));
    TRY(batch_shape(c, &batch));
    if (type_numel(&c->out[0]) == 0) return KILN_OK;
    if (p.k == 0) return lower_fill(lo, 0, &c->vout[0]);
    struct factors f = {.c = c, .p = &p, .n_batch = batch.rank, .a = c->vin[0], .b = c->vin[1], .out = c->vout[0]};
    if (p.a_vector) {
        f.a = view_insert(&f.a, 0);
        f.out = view_insert(&f.out, batch.rank);
    }
    if (p.b_vector) {
        f.b = view_insert(&f.b, 1);
        f.out = view_insert(&f.out, f.out.rank);
    }
    int64_t a_dims[MAX_RANK], b_dims[MAX_RANK];
    for (int d = 0; d < batch.rank; d++) a_dims[d] = b_dims[d] = batch.dims[d];
    a_dims[batch.rank] = p.m, a_dims[batch.rank + 1] = p.k;
    b_dims[batch.rank] = p.k, b_dims[batch.rank + 1] = p.n;
    TRY(view_expand(&f.a, batch.rank + 2, a_dims, &f.a));
    TRY(view_expand(&f.b, batch.rank + 2, b_dims, &f.b));
    return is_dot(&p) ? lower_dot(lo, &f) : multiply(lo, &f);
}
