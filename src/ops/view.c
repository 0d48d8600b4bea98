// Views inside lowering: typed, strided references to slots.
#include "ops/lower.h"
#include <string.h>

struct view view_of(const struct type *t, const struct layout *l, uint16_t slot)
{
    struct view v;
    v.slot = slot, v.dtype = t->dtype, v.rank = t->rank, v.offset = l->offset;
    v.immediate = false;
    v.bits = 0, v.number = 0, v.integer = 0;
    for (int i = 0; i < t->rank; i++) {
        v.dims[i] = t->dims[i];
        v.strides[i] = l->strides[i];
    }
    return v;
}

struct view view_number(double value)
{
    // Saturating, NaN as 0: what an integer kernel would make of it.
    int64_t integer = value != value ? 0 : value >= 0x1p63 ? INT64_MAX : value < -0x1p63 ? INT64_MIN : (int64_t)value;
    return (struct view){.dtype = KILN_F64, .immediate = true, .number = value, .integer = integer};
}

struct view view_integer(int64_t value)
{
    return (struct view){.dtype = KILN_I64, .immediate = true, .number = (double)value, .integer = value};
}

kiln_status view_expand(const struct view *v, int rank, const int64_t *dims, struct view *out)
{
    int lead = rank - v->rank;
    view_copy_head(out, v);
    out->rank = (uint8_t)rank;
    // From the last on, so that out may be v.
    for (int i = rank - 1; i >= 0; i--) {
        int from = i - lead;
        if (from >= 0 && v->dims[from] != 1 && v->dims[from] != dims[i])
            return error_set(KILN_E_INTERNAL, "view_expand: size %lld does not broadcast to %lld",
                             (long long)v->dims[from], (long long)dims[i]);
        out->strides[i] = from >= 0 && v->dims[from] != 1 ? v->strides[from] : 0;
        out->dims[i] = dims[i];
    }
    return KILN_OK;
}

struct view view_permute(const struct view *v, const int *perm)
{
    struct view r;
    view_copy_head(&r, v);
    for (int i = 0; i < v->rank; i++) {
        r.dims[i] = v->dims[perm[i]];
        r.strides[i] = v->strides[perm[i]];
    }
    return r;
}

struct view view_narrow(const struct view *v, int axis, int64_t start, int64_t length)
{
    struct view r;
    view_copy(&r, v);
    r.offset += start * v->strides[axis];
    r.dims[axis] = length;
    return r;
}

struct view view_squeeze(const struct view *v, int axis)
{
    struct view r;
    view_copy(&r, v);
    for (int i = axis; i + 1 < v->rank; i++) {
        r.dims[i] = v->dims[i + 1];
        r.strides[i] = v->strides[i + 1];
    }
    r.rank--;
    return r;
}

struct view view_insert(const struct view *v, int axis)
{
    struct view r;
    view_copy(&r, v);
    for (int i = v->rank; i > axis; i--) {
        r.dims[i] = v->dims[i - 1];
        r.strides[i] = v->strides[i - 1];
    }
    r.dims[axis] = 1;
    r.strides[axis] = 0;
    r.rank++;
    return r;
}

struct view view_as_bits(const struct view *v)
{
    static const uint8_t by_size[9] = {[1] = KILN_U8, [2] = KILN_I16, [4] = KILN_I32, [8] = KILN_I64};
    struct view r;
    view_copy(&r, v);
    r.dtype = by_size[dtype_size_B[v->dtype]];
    return r;
}
