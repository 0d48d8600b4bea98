// Inside: lines, and tensors along one axis.
#pragma once
#include "compose/composite.h"

static inline kiln_tensor *as_line(kiln_tensor *t)
{
    return kiln_reshape(t, KILN_SHAPE(-1));
}

static inline bool is_real(const kiln_tensor *t)
{
    kiln_dtype d = kiln_tensor_dtype(t);
    return d == KILN_F16 || d == KILN_BF16 || d == KILN_F32 || d == KILN_F64;
}

// t as reals, a handle of its own.
static inline kiln_tensor *as_real(kiln_tensor *t)
{
    return is_real(t) ? kiln_alias(t) : kiln_cast(t, KILN_F32);
}

// The same, halves as f32: what several steps compute, each of which would round; narrowed gives the dtype back.
static inline kiln_tensor *as_wide(kiln_tensor *t)
{
    kiln_dtype d = kiln_tensor_dtype(t);
    return d == KILN_F32 || d == KILN_F64 ? kiln_alias(t) : kiln_cast(t, KILN_F32);
}

static inline kiln_tensor *narrowed(kiln_tensor *y, const kiln_tensor *like)
{
    kiln_dtype d = kiln_tensor_dtype(like);
    return d == KILN_F16 || d == KILN_BF16 ? kiln_cast(y, d) : y;
}

// A number in t's dtype and on its device, rank 0.
static inline kiln_tensor *number_like(kiln_tensor *t, double value)
{
    return kiln_full(kiln_tensor_device(t), kiln_tensor_dtype(t), KILN_SHAPE0, value);
}

kiln_tensor *along_part(kiln_tensor *t, int axis, int64_t start, int64_t length); // narrow
kiln_tensor *along_flip(kiln_tensor *t, int axis);
kiln_tensor *along_join(kiln_tensor *a, kiln_tensor *b, int axis);
// A vector as t lies: its length at the axis, 1 elsewhere.
kiln_tensor *along_axis(kiln_tensor *vector, int axis, size_t rank);
// 0, 1 ... (i64) along an axis of t.
kiln_tensor *along_places(kiln_tensor *t, int axis);
// t's shape with `size` at the axis, of one value.
kiln_tensor *along_full(kiln_tensor *t, int axis, int64_t size, kiln_dtype dtype, double value);
// Two axes as the last ones, the others before them in order.
kiln_tensor *axis_last(kiln_tensor *t, int axis);
kiln_tensor *axis_first(kiln_tensor *t, int axis);
