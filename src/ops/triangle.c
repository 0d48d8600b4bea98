// Triangles of matrices, the identity, and tensors like others.
#include "ops/family.h"
#include "ops/index.h"

kiln_status infer_triangle(struct op_call *c)
{
    if (c->in[0]->rank < 2) return op_fail(c, KILN_E_SHAPE, "takes matrices, x is %s", type_string(c->in[0]).s);
    return infer_same(c);
}

// Kept are columns with sign * (column - row) <= bound. Row numbers come in as a column of integers.
static kiln_status lower_triangle(const struct op_call *c, struct lowering *lo, double sign, double bound)
{
    struct view x = view_as_bits(&c->vin[0]), out = view_as_bits(&c->vout[0]), numbers;
    int64_t rows[2] = {x.dims[x.rank - 2], 1};
    if (type_numel(&c->out[0]) == 0) return KILN_OK;
    TRY(lower_temp(lo, KILN_I64, 1, rows, &numbers));
    TRY(lower_iota(lo, 0, 1, &numbers));
    struct view in[2] = {x, view_insert(&numbers, 1)};
    double scalars[2] = {sign, bound};
    return lower_row(lo, FAMILY_triangle, dtype_class(out.dtype), out.rank, out.dims, 1, 2, in, &out, 2, scalars);
}

kiln_status lower_tril(const struct op_call *c, struct lowering *lo)
{
    return lower_triangle(c, lo, 1, (double)attr_int(c, AT_tril_k));
}

kiln_status lower_triu(const struct op_call *c, struct lowering *lo)
{
    return lower_triangle(c, lo, -1, -(double)attr_int(c, AT_triu_k));
}

kiln_status infer_eye(struct op_call *c)
{
    int64_t dtype = attr_int(c, AT_eye_dtype), n = attr_int(c, AT_eye_n), m = attr_int(c, AT_eye_m);
    if (dtype < 0 || dtype >= DTYPE_COUNT)
        return op_fail(c, KILN_E_DTYPE, "dtype %lld is not one of kiln_dtype", (long long)dtype);
    if (n < 0 || m < 0) return op_fail(c, KILN_E_SHAPE, "n and m are %lld and %lld", (long long)n, (long long)m);
    c->out[0] = (struct type){.dtype = (uint8_t)dtype, .rank = 2, .dims = {n, m}};
    uint64_t size_B;
    return type_size_B(&c->out[0], &size_B);
}

kiln_status lower_eye(const struct op_call *c, struct lowering *lo)
{
    const struct view *out = &c->vout[0];
    TRY(lower_fill(lo, 0, out));
    struct view line = *out;
    line.rank = 1;
    line.dims[0] = out->dims[0] < out->dims[1] ? out->dims[0] : out->dims[1];
    line.strides[0] = out->strides[0] + out->strides[1];
    return lower_fill(lo, 1, &line);
}

kiln_status lower_full_like(const struct op_call *c, struct lowering *lo)
{
    return lower_fill(lo, attr_float(c, AT_full_like_value), &c->vout[0]);
}
