// Reductions over any axes. Each lowers to one row kernel: the axes that stay come first, the reduced ones make the
// row.
#include "ops/family.h"
#include <math.h>

#define HAS_REDUCE_OPTS(op) (AT_##op##_axes == AT_reduce_opts_axes && AT_##op##_keepdims == AT_reduce_opts_keepdims)
_Static_assert(HAS_REDUCE_OPTS(sum) && HAS_REDUCE_OPTS(mean) && HAS_REDUCE_OPTS(max) && HAS_REDUCE_OPTS(any) &&
                   HAS_REDUCE_OPTS(argmax),
               "reduced_shape and row_space serve all");

// Axes, then keepdims: the first two attributes of every reduction.
static kiln_status reduced_shape(struct op_call *c, uint8_t dtype, uint32_t *mask)
{
    const struct type *x = c->in[0];
    TRY(op_axes(c, AT_reduce_opts_axes, 0, mask));
    bool keep = c->attrs[AT_reduce_opts_keepdims].i != 0;
    struct type *out = &c->out[0];
    *out = (struct type){.dtype = dtype};
    for (int i = 0; i < x->rank; i++) {
        if (!(*mask >> i & 1))
            out->dims[out->rank++] = x->dims[i];
        else if (keep)
            out->dims[out->rank++] = 1;
    }
    return KILN_OK;
}

static bool is_empty_row(const struct type *x, uint32_t mask)
{
    for (int i = 0; i < x->rank; i++)
        if ((mask >> i & 1) && x->dims[i] == 0) return true;
    return false;
}

static uint8_t float_dtype(const struct type *x)
{
    return dtype_kind_of[x->dtype] == KIND_FLOAT && !x->weak ? x->dtype : KILN_F32;
}

kiln_status infer_sum(struct op_call *c)
{
    uint32_t mask;
    const struct type *x = c->in[0];
    uint8_t dtype = dtype_kind_of[x->dtype] == KIND_FLOAT ? float_dtype(x) : x->dtype == KILN_U64 ? KILN_U64 : KILN_I64;
    c->compute_dtype = dtype;
    return reduced_shape(c, dtype, &mask);
}

kiln_status infer_mean(struct op_call *c)
{
    uint32_t mask;
    c->compute_dtype = float_dtype(c->in[0]);
    return reduced_shape(c, c->compute_dtype, &mask);
}

kiln_status infer_norm(struct op_call *c)
{
    double p = attr_float(c, AT_norm_ord);
    if (isnan(p)) return op_fail(c, KILN_E_ARGUMENT, "ord is NaN");
    return infer_mean(c);
}

kiln_status infer_extremum(struct op_call *c)
{
    uint32_t mask;
    const struct type *x = c->in[0];
    c->compute_dtype = x->dtype;
    TRY(reduced_shape(c, x->dtype, &mask));
    if (is_empty_row(x, mask))
        return op_fail(c, KILN_E_SHAPE, "has no value over no elements: x is %s", type_string(x).s);
    return KILN_OK;
}

kiln_status infer_any(struct op_call *c)
{
    uint32_t mask;
    c->compute_dtype = KILN_BOOL;
    return reduced_shape(c, KILN_BOOL, &mask);
}

kiln_status infer_arg(struct op_call *c)
{
    const struct type *x = c->in[0];
    if (c->attrs[AT_argmax_axes].count > 1)
        return op_fail(c, KILN_E_AXIS, "takes one axis, or none for the flattened tensor; %d are given",
                       c->attrs[AT_argmax_axes].count);
    TRY(infer_extremum(c));
    c->out[0].dtype = KILN_I64;
    c->compute_dtype = x->dtype == KILN_BOOL ? KILN_I32 : x->dtype;
    return KILN_OK;
}

// x with the axes that stay first, then the reduced ones; the output over the same space with stride 0 along the row.
struct row_space {
    int rank, n_reduce;
    int64_t dims[MAX_RANK];
    struct view x, out;
    int64_t row;
};

static void row_space(const struct op_call *c, struct row_space *s)
{
    const struct type *x = c->in[0];
    const struct view *out = &c->vout[0];
    uint32_t mask;
    (void)op_axes(c, AT_reduce_opts_axes, 0, &mask); // checked by infer
    bool keep = c->attrs[AT_reduce_opts_keepdims].i != 0;
    int perm[MAX_RANK], n = 0, at = 0;
    struct view o;
    view_copy_head(&o, out);
    o.rank = x->rank;
    for (int i = 0; i < x->rank; i++) {
        bool reduced = mask >> i & 1;
        if (!reduced) {
            perm[n] = i;
            o.dims[n] = x->dims[i];
            o.strides[n++] = out->strides[at];
        }
        if (!reduced || keep) at++;
    }
    s->row = 1;
    s->n_reduce = 0;
    for (int i = 0; i < x->rank; i++) {
        if (!(mask >> i & 1)) continue;
        perm[n] = i;
        o.dims[n] = 1;
        o.strides[n++] = 0;
        s->row *= x->dims[i];
        s->n_reduce++;
    }
    s->rank = x->rank;
    if (c->vin[0].immediate)
        view_copy_head(&s->x, &c->vin[0]);
    else
        s->x = view_permute(&c->vin[0], perm);
    for (int i = 0; i < x->rank; i++) s->dims[i] = x->dims[perm[i]];
    view_copy(&s->out, &o);
    if (s->n_reduce == 0) { // rank 0, or no axis of a scalar: a row of one
        s->x = s->x.immediate ? s->x : view_insert(&s->x, s->rank);
        s->out = view_insert(&s->out, s->rank);
        s->dims[s->rank++] = 1;
        s->n_reduce = 1;
    }
}

static kiln_status lower_family(const struct op_call *c, struct lowering *lo, int family, int n_scalars,
                                const double *scalars)
{
    struct row_space s;
    row_space(c, &s);
    return lower_row(lo, family, dtype_class(c->compute_dtype), s.rank, s.dims, s.n_reduce, 1, &s.x, &s.out, n_scalars,
                     scalars);
}

kiln_status lower_reduce(const struct op_call *c, struct lowering *lo)
{
    return lower_family(c, lo, c->op->family, 0, NULL);
}

// The largest of bool is whether one is true, the smallest whether all are.
kiln_status lower_extremum(const struct op_call *c, struct lowering *lo)
{
    int family = c->op->family;
    if (c->compute_dtype == KILN_BOOL) family = family == FAMILY_reduce_max ? FAMILY_reduce_any : FAMILY_reduce_all;
    return lower_family(c, lo, family, 0, NULL);
}

static int64_t row_length(const struct op_call *c)
{
    struct row_space s;
    row_space(c, &s);
    return s.row;
}

kiln_status lower_mean(const struct op_call *c, struct lowering *lo)
{
    double n = (double)row_length(c);
    return lower_family(c, lo, c->op->family, 1, &n);
}

kiln_status lower_var(const struct op_call *c, struct lowering *lo)
{
    double n = (double)row_length(c), scalars[2] = {n, fmax(0, n - c->attrs[AT_var_correction].f)};
    return lower_family(c, lo, c->op->family, 2, scalars);
}

kiln_status lower_norm(const struct op_call *c, struct lowering *lo)
{
    double p = c->attrs[AT_norm_ord].f;
    if (p == 1) return lower_family(c, lo, FAMILY_reduce_norm1, 0, NULL);
    if (p == 2) return lower_family(c, lo, FAMILY_reduce_norm2, 0, NULL);
    if (p == INFINITY) return lower_family(c, lo, FAMILY_reduce_norm_inf, 0, NULL);
    if (p == -INFINITY) return lower_family(c, lo, FAMILY_reduce_norm_least, 0, NULL);
    if (p == 0) return lower_family(c, lo, FAMILY_reduce_norm_count, 0, NULL);
    return lower_family(c, lo, FAMILY_reduce_norm_p, 1, &p);
}
