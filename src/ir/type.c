// What types and layouts answer: sizes, names, equality, contiguity, broadcasting, promotion.
#include "ir/type.h"
#include <stdio.h>

#define DTYPE(number, id, name, size_B, ...) [number] = size_B,
const uint8_t dtype_size_B[DTYPE_COUNT] = {
#include "base/dtype.def"
};
#undef DTYPE
#define DTYPE(number, id, name, size_B, kind, ...) [number] = KIND_##kind,
const uint8_t dtype_kind_of[DTYPE_COUNT] = {
#include "base/dtype.def"
};
#undef DTYPE

const char *dtype_name(unsigned dtype)
{
    static const char *const stored[] = {"f8_e4m3fn", "f8_e5m2", "i4", "u4"};
    if (dtype_is_complex(dtype)) return dtype == KILN_C64 ? "c64" : "c128";
    if (dtype_is_stored(dtype)) return stored[dtype - KILN_F8_E4M3];
    return dtype < DTYPE_COUNT ? dtype_info[dtype].name : "unknown";
}

int64_t type_numel(const struct type *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++)
        if (KILN_UNLIKELY(__builtin_mul_overflow(n, t->dims[i], &n))) n = INT64_MAX;
    return n;
}

bool type_same_shape(const struct type *a, const struct type *b)
{
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i]) return false;
    return true;
}

bool type_equal(const struct type *a, const struct type *b)
{
    return a->dtype == b->dtype && type_same_shape(a, b);
}

kiln_status type_size_B(const struct type *t, uint64_t *out)
{
    uint64_t n = dtype_size_B[t->dtype];
    bool zero = false, overflow = false;
    for (int i = 0; i < t->rank; i++) {
        if (t->dims[i] == 0)
            zero = true;
        else
            overflow |= __builtin_mul_overflow(n, (uint64_t)t->dims[i], &n) || n > INT64_MAX;
    }
    *out = zero ? 0 : n;
    if (!overflow) return KILN_OK;
    char text[TYPE_TEXT_MAX];
    return error_set(KILN_E_SHAPE, "the size of %s overflows", type_text(t, text, sizeof text));
}

char *type_text(const struct type *t, char *buf, size_t cap)
{
    size_t n = (size_t)snprintf(buf, cap, "%s[", dtype_name(t->dtype));
    for (int i = 0; i < t->rank && n < cap; i++)
        n += (size_t)snprintf(buf + n, cap - n, i ? ",%lld" : "%lld", (long long)t->dims[i]);
    if (n < cap) snprintf(buf + n, cap - n, "]");
    return buf;
}

void layout_contiguous(const struct type *t, struct layout *out)
{
    int64_t stride = 1;
    out->offset = 0;
    for (int i = t->rank - 1; i >= 0; i--) {
        out->strides[i] = stride;
        stride *= t->dims[i] > 1 ? t->dims[i] : 1;
    }
}

bool layout_is_contiguous(const struct type *t, const struct layout *l)
{
    int64_t stride = 1;
    for (int i = t->rank - 1; i >= 0; i--) {
        if (t->dims[i] == 0) return true;
        if (t->dims[i] == 1) continue;
        if (l->strides[i] != stride) return false;
        stride *= t->dims[i];
    }
    return true;
}

bool shape_broadcast(const struct type *a, const struct type *b, struct type *out)
{
    const struct type *big = a->rank >= b->rank ? a : b, *small = big == a ? b : a;
    int lead = big->rank - small->rank;
    int rank = big->rank;
    int64_t dims[MAX_RANK];
    for (int i = 0; i < rank; i++) {
        int64_t p = big->dims[i], q = i >= lead ? small->dims[i - lead] : 1;
        if (p != q && p != 1 && q != 1) return false;
        dims[i] = p == 1 ? q : p;
    }
    out->rank = (uint8_t)rank;
    for (int i = 0; i < rank; i++) out->dims[i] = dims[i];
    return true;
}

int axis_normalize(int64_t axis, int rank)
{
    if (axis < -rank || axis >= rank) return -1;
    return (int)(axis < 0 ? axis + rank : axis);
}

// The smallest dtype of a kind that holds the values of both (array API standard); -1: none does.
static int join(uint8_t a, uint8_t b)
{
    int best = -1;
    for (unsigned i = 0; i < DTYPE_COUNT; i++) {
        if (dtype_info[i].kind != dtype_info[a].kind || !dtype_holds(i, a) || !dtype_holds(i, b)) continue;
        if (best < 0 || dtype_info[i].size_B < dtype_info[best].size_B) best = (int)i;
    }
    return best;
}

bool type_promote(const struct type *a, const struct type *b, uint8_t *dtype, bool *weak)
{
    unsigned ka = dtype_kind_of[a->dtype], kb = dtype_kind_of[b->dtype];
    *weak = a->weak && b->weak;
    if (ka == kb) {
        if (a->weak != b->weak) {
            *dtype = a->weak ? b->dtype : a->dtype;
        } else {
            int both = a->dtype == b->dtype ? a->dtype : join(a->dtype, b->dtype);
            if (both < 0) return false;
            *dtype = (uint8_t)both;
        }
        return true;
    }
    const struct type *high = ka > kb ? a : b;
    const struct type *low = high == a ? b : a;
    // A weak scalar of a higher kind meets a tensor of a lower one: the default dtype of its kind.
    if (high->weak && !low->weak && high->dtype == KILN_F64)
        *dtype = KILN_F32;
    else
        *dtype = high->dtype;
    return true;
}

kiln_status layout_check_within(const char *op, const struct type *t, const struct layout *l, int64_t n)
{
    int64_t lo = l->offset, hi = l->offset;
    for (int i = 0; i < t->rank; i++) {
        int64_t reach;
        if (t->dims[i] == 0) return KILN_OK;
        if (__builtin_mul_overflow(l->strides[i], t->dims[i] - 1, &reach) ||
            __builtin_add_overflow(reach < 0 ? lo : hi, reach, reach < 0 ? &lo : &hi))
            return error_set(KILN_E_SHAPE, "%s: strides and shape overflow", op);
    }
    if (lo >= 0 && hi < n) return KILN_OK;
    return error_set(KILN_E_SHAPE, "%s: elements %lld to %lld are asked for, there are %lld", op, (long long)lo,
                     (long long)hi, (long long)n);
}
