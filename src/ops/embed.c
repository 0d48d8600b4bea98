// Values at strided positions of a larger tensor: what views are the other way round.
#include "ops/family.h"

// Every position that shape and strides of `part` reach from the offset must lie in the n elements.
static kiln_status check_positions(const struct op_call *c, const struct type *part, const struct attr *strides,
                                   int64_t offset, int64_t n)
{
    if (strides->count != part->rank)
        return op_fail(c, KILN_E_SHAPE, "strides has %d entries for %s", strides->count, type_string(part).s);
    int64_t lo = offset, hi = offset, reach;
    for (int i = 0; i < part->rank; i++) {
        if (part->dims[i] == 0) return KILN_OK;
        if (__builtin_mul_overflow(strides->v[i], part->dims[i] - 1, &reach) ||
            __builtin_add_overflow(reach < 0 ? lo : hi, reach, reach < 0 ? &lo : &hi))
            return op_fail(c, KILN_E_SHAPE, "strides and shape overflow");
    }
    if (lo >= 0 && hi < n) return KILN_OK;
    return op_fail(c, KILN_E_SHAPE, "positions %lld to %lld are asked for, there are %lld", (long long)lo,
                   (long long)hi, (long long)n);
}

kiln_status infer_embed(struct op_call *c)
{
    struct type *out = &c->out[0];
    TRY(op_shape(c, AT_embed_shape, c->in[0]->dtype, out));
    return check_positions(c, c->in[0], &c->attrs[AT_embed_strides], attr_int(c, AT_embed_offset), type_numel(out));
}

// The positions of `part` in the row-major `whole`.
static struct view part_of(const struct view *whole, const struct view *part, const struct attr *strides,
                           int64_t offset)
{
    struct view to = *whole;
    to.rank = part->rank;
    to.offset = whole->offset + offset;
    for (int i = 0; i < part->rank; i++) {
        to.dims[i] = part->dims[i];
        to.strides[i] = strides->v[i];
    }
    return to;
}

static kiln_status write_part(struct lowering *lo, const struct view *part, const struct attr *strides, int64_t offset,
                              const struct view *whole)
{
    struct view to = part_of(whole, part, strides, offset);
    return lower_copy(lo, part, &to);
}

kiln_status lower_embed(const struct op_call *c, struct lowering *lo)
{
    TRY(lower_fill(lo, 0, &c->vout[0]));
    return write_part(lo, &c->vin[0], &c->attrs[AT_embed_strides], attr_int(c, AT_embed_offset), &c->vout[0]);
}

kiln_status infer_as_strided_scatter(struct op_call *c)
{
    const struct type *x = c->in[0], *src = c->in[1];
    type_copy(&c->out[0], x);
    c->out[0].weak = false;
    if (dtype_kind_of[src->dtype] > dtype_kind_of[x->dtype])
        return op_fail(c, KILN_E_DTYPE, "src of %s does not go into x of %s; cast it first", type_string(src).s,
                       type_string(x).s);
    return check_positions(c, src, &c->attrs[AT_as_strided_scatter_strides], attr_int(c, AT_as_strided_scatter_offset),
                           type_numel(x));
}

kiln_status lower_as_strided_scatter(const struct op_call *c, struct lowering *lo)
{
    TRY(lower_copy(lo, &c->vin[0], &c->vout[0]));
    return write_part(lo, &c->vin[1], &c->attrs[AT_as_strided_scatter_strides],
                      attr_int(c, AT_as_strided_scatter_offset), &c->vout[0]);
}

kiln_status infer_as_strided_add(struct op_call *c)
{
    if (c->in[0]->dtype == KILN_BOOL)
        return op_fail(c, KILN_E_DTYPE, "adds integers and floats, x is %s", type_string(c->in[0]).s);
    return infer_as_strided_scatter(c);
}

kiln_status lower_as_strided_add(const struct op_call *c, struct lowering *lo)
{
    const struct view *out = &c->vout[0], *src = &c->vin[1];
    const struct view part =
        part_of(out, src, &c->attrs[AT_as_strided_add_strides], attr_int(c, AT_as_strided_add_offset));
    const struct view in[] = {part, *src};
    TRY(lower_copy(lo, &c->vin[0], out));
    return lower_pointwise(lo, FAMILY_add, dtype_class(out->dtype), 2, in, &part, 0, NULL);
}
