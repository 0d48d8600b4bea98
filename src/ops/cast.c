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
