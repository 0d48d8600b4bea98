// Places in sorted lines, by halving them. All values are looked up by one kernel: out[p] = how many elements of the
// line of p come before values[p].
#include "ops/family.h"
#include "ops/index.h"

kiln_status infer_searchsorted(struct op_call *c)
{
    const struct type *sorted = c->in[0], *values = c->in[1];
    bool weak, fits = sorted->rank == 1 || (sorted->rank > 1 && sorted->rank == values->rank);
    for (int d = 0; fits && d + 1 < sorted->rank; d++) fits = sorted->dims[d] == values->dims[d];
    if (!fits)
        return op_fail(
            c, KILN_E_SHAPE,
            "sorted must be one line, or lines along its last axis for those of values: sorted is %s, values "
            "is %s",
            type_string(sorted).s, type_string(values).s);
    type_copy(&c->out[0], values);
    c->out[0].weak = false;
    c->out[0].dtype = KILN_I64;
    if (!type_promote(sorted, values, &c->compute_dtype, &weak))
        return op_no_common_dtype(c, sorted->dtype, values->dtype);
    return KILN_OK;
}

// In the dtype of a class, in memory.
static kiln_status in_class(struct lowering *lo, enum scalar_class cls, struct view *v)
{
    struct view same;
    if (!v->immediate && v->dtype == class_dtype(cls)) return KILN_OK;
    TRY(lower_temp(lo, class_dtype(cls), v->rank, v->dims, &same));
    TRY(lower_copy(lo, v, &same));
    *v = same;
    return KILN_OK;
}

kiln_status lower_searchsorted(const struct op_call *c, struct lowering *lo)
{
    struct view lines = c->vin[0], values = c->vin[1], out = c->vout[0];
    enum scalar_class cls = dtype_class(c->compute_dtype);
    if (cls == CLASS_BOOL) cls = CLASS_I32;
    if (type_numel(&c->out[0]) == 0) return KILN_OK;
    int last = lines.rank - 1;
    int64_t size = lines.dims[last];
    if (size == 0) return lower_fill(lo, 0, &out);
    TRY(in_class(lo, cls, &lines));
    TRY(in_class(lo, cls, &values));
    // The lines over the result's dimensions, along the last of which they do not move.
    struct view from = values;
    from.slot = lines.slot, from.offset = lines.offset;
    for (int d = 0; d < from.rank; d++) {
        bool moves = last > 0 && d < last;
        from.strides[d] = moves ? lines.strides[d] : 0;
        from.dims[d] = moves ? lines.dims[d] : 1;
    }
    const struct view *v[3] = {&from, &values, &out};
    struct index_space s = {.n = 3};
    for (int d = 0; d < out.rank; d++) space_add_dim(&s, out.dims[d], v, d);
    struct launch l;
    space_launch(&l, lo, FAMILY_searchsorted, cls, &s);
    l.variant[0] = attr_int(c, AT_searchsorted_right) != 0;
    launch_operand(&l, &lines, s.strides[0], false);
    launch_operand(&l, &values, s.strides[1], false);
    launch_operand(&l, &out, s.strides[2], true);
    launch_scalar_i(&l, size);
    launch_scalar_i(&l, lines.strides[last]);
    return lo->launch(lo, &l);
}
