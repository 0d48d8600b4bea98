// Writing one tensor into another.
#include "ops/family.h"

kiln_status infer_assign(struct op_call *c)
{
    const struct type *dst = c->in[0], *src = c->in[1];
    struct type both;
    if (!shape_broadcast(dst, src, &both) || !type_same_shape(&both, dst))
        return op_fail(c, KILN_E_SHAPE, "src is %s, it does not broadcast to dst of %s", type_string(src).s,
                       type_string(dst).s);
    if (dtype_kind_of[src->dtype] > dtype_kind_of[dst->dtype])
        return op_fail(c, KILN_E_DTYPE, "src is %s, it does not go into dst of %s; cast it first", type_string(src).s,
                       type_string(dst).s);
    type_copy(&c->out[0], dst);
    c->out[0].weak = false;
    return KILN_OK;
}

kiln_status lower_assign(const struct op_call *c, struct lowering *lo)
{
    const struct view *out = &c->vout[0];
    struct view src = c->vin[1];
    if (!src.immediate) TRY(view_expand(&src, out->rank, out->dims, &src));
    return lower_copy(lo, &src, out);
}
