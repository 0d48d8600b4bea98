// Conversion between dtypes, and copies into row-major order.
#include "ops/family.h"

kiln_status infer_cast(struct op_call *c)
{
    int64_t dtype = c->attrs[AT_cast_dtype].i;
    if (dtype < 0 || dtype >= DTYPE_COUNT)
        return op_fail(c, KILN_E_DTYPE, "dtype %lld is not one of kiln_dtype", (long long)dtype);
    type_copy(&c->out[0], c->in[0]);
    c->out[0].dtype = (uint8_t)dtype;
    c->out[0].weak = false;
    return KILN_OK;
}

kiln_status lower_cast(const struct op_call *c, struct lowering *lo)
{
    return lower_copy(lo, &c->vin[0], &c->vout[0]);
}

static kiln_status whole_elements(struct op_call *c, int from_B, int to_B)
{
    const struct type *x = c->in[0];
    struct type *out = &c->out[0];
    int last = x->rank - 1;
    int64_t size_B;
    if (x->rank == 0 || x->rank == MAX_RANK)
        return op_fail(c, KILN_E_SHAPE, "from %d to %d bytes takes rank 1 to %d, x is %s", from_B, to_B, MAX_RANK - 1,
                       type_string(x).s);
    if (__builtin_mul_overflow(x->dims[last], from_B, &size_B))
        return op_fail(c, KILN_E_SHAPE, "the size of %s overflows", type_string(x).s);
    if (size_B % to_B)
        return op_fail(c, KILN_E_SHAPE, "the last axis of %s has %lld bytes, an element of %s has %d", type_string(x).s,
                       (long long)size_B, dtype_name(out->dtype), to_B);
    out->dims[last] = size_B / to_B;
    return KILN_OK;
}

kiln_status infer_bitcast(struct op_call *c)
{
    TRY(infer_cast(c));
    int from_B = dtype_size_B[c->in[0]->dtype], to_B = dtype_size_B[c->out[0].dtype];
    return from_B == to_B ? KILN_OK : whole_elements(c, from_B, to_B);
}

// Each element as `n` small ones along a new last axis.
static struct view in_parts(const struct view *v, int n, unsigned part)
{
    struct view r = view_insert(v, v->rank);
    for (int i = 0; i < v->rank; i++) r.strides[i] *= n;
    r.offset *= n;
    r.dims[v->rank] = n;
    r.strides[v->rank] = 1;
    r.dtype = (uint8_t)part;
    return r;
}

// The last axis as groups of n.
static struct view in_groups(const struct view *v, int n)
{
    struct view r = view_insert(v, v->rank);
    r.dims[v->rank - 1] /= n;
    r.dims[v->rank] = n;
    r.strides[v->rank] = v->strides[v->rank - 1];
    r.strides[v->rank - 1] *= n;
    return r;
}

kiln_status lower_bitcast(const struct op_call *c, struct lowering *lo)
{
    struct view x = view_as_bits(&c->vin[0]), out = view_as_bits(&c->vout[0]);
    int from_B = dtype_size_B[x.dtype], to_B = dtype_size_B[out.dtype];
    if (from_B > to_B) {
        out = in_groups(&out, from_B / to_B);
        x = in_parts(&x, from_B / to_B, out.dtype);
    } else if (to_B > from_B) {
        x = in_groups(&x, to_B / from_B);
        out = in_parts(&out, to_B / from_B, x.dtype);
    }
    return lower_copy(lo, &x, &out);
}
