// Integers that stand for floats: q = round(x / scale) + zero.
#include "base/dtype.h"
#include "compose/composite.h"
#include <math.h>

// One element broadcasts as it is; several lie along the axis of x.
static kiln_tensor *along(const char *argument, kiln_tensor *t, kiln_tensor *x, int64_t axis)
{
    int64_t shape[KILN_MAX_RANK];
    size_t rank = kiln_rank(x);
    if (!t || kiln_numel(t) == 1) return t ? kiln_reshape(t, KILN_SHAPE0) : NULL;
    int at = composite_axis("axis", axis, rank, x);
    if (at < 0) return NULL;
    if (kiln_rank(t) != 1 || kiln_dims(t)[0] != kiln_dims(x)[at]) {
        error_set(KILN_E_SHAPE, "%s is %s, it takes one element, or one for each index of axis %d of %s", argument,
                  type_of(t).s, at, type_of(x).s);
        return NULL;
    }
    for (size_t i = 0; i < rank; i++) shape[i] = (int)i == at ? kiln_dims(x)[at] : 1;
    return kiln_reshape(t, rank, shape);
}

static bool is_integer(kiln_dtype dtype)
{
    return (unsigned)dtype < DTYPE_COUNT && dtype_info[dtype].kind == KIND_INT;
}

// The dtype's range, or that of its lowest bits.
static kiln_tensor *limited(kiln_tensor *y, kiln_dtype dtype, int64_t bits)
{
    int width = 8 * dtype_info[dtype].size_B;
    if (bits < 0 || bits > width) {
        error_set(KILN_E_ARGUMENT, "bits is %lld, %s has %d", (long long)bits, kiln_dtype_name(dtype), width);
        return NULL;
    }
    if (!bits || bits == width) return y;
    int value_bits = (int)bits - dtype_info[dtype].is_signed;
    double low = dtype_info[dtype].is_signed ? -ldexp(1, value_bits) : 0;
    return kiln_clip(y, kiln_scalar(low), kiln_scalar(ldexp(1, value_bits) - 1));
}

kiln_tensor *compose_quantize(kiln_tensor *x, kiln_tensor *scale, kiln_dtype dtype, const kiln_quantize_opts *o)
{
    if (!is_integer(dtype)) {
        error_set(KILN_E_DTYPE, "dtype must be integers, it is %s", kiln_dtype_name(dtype));
        return NULL;
    }
    kiln_tensor *by = along("scale", scale, x, o->axis), *zero = along("zero", o->zero, x, o->axis);
    kiln_tensor *y = kiln_round(kiln_div(x, by));
    if (zero) y = kiln_add(y, kiln_cast(zero, kiln_tensor_dtype(y)));
    return error_pending ? NULL : kiln_cast(limited(y, dtype, o->bits), dtype);
}

kiln_tensor *compose_dequantize(kiln_tensor *x, kiln_tensor *scale, const kiln_quantize_opts *o)
{
    kiln_dtype dtype = kiln_tensor_dtype(scale);
    if (!is_integer(kiln_tensor_dtype(x)) || !dtype_is_float(dtype)) {
        error_set(KILN_E_DTYPE, "takes integers and a scale of floats: x is %s, scale is %s", type_of(x).s,
                  type_of(scale).s);
        return NULL;
    }
    kiln_tensor *by = along("scale", scale, x, o->axis), *zero = along("zero", o->zero, x, o->axis);
    // What is small is exact in i32 before it is rounded to the scale's dtype.
    bool small = dtype_info[kiln_tensor_dtype(x)].size_B < 4;
    kiln_tensor *from = zero && small ? kiln_sub(kiln_cast(x, KILN_I32), kiln_cast(zero, KILN_I32)) : x;
    kiln_tensor *q = kiln_cast(from, dtype);
    if (zero && !small) q = kiln_sub(q, kiln_cast(zero, dtype));
    return kiln_mul(q, by);
}

static bool has_8_bits(const char *argument, kiln_tensor *t)
{
    kiln_dtype dtype = kiln_tensor_dtype(t);
    if (is_integer(dtype) && dtype_info[dtype].size_B == 1) return true;
    error_set(KILN_E_DTYPE, "%s must be i8 or u8, it is %s", argument, type_of(t).s);
    return false;
}

// x less its zero, where no difference overflows. `axis` is that of several zeros, -1 or -2.
static kiln_tensor *centred(const char *argument, kiln_tensor *x, kiln_tensor *zero, int64_t axis)
{
    kiln_tensor *wide = kiln_cast(x, KILN_I32);
    if (!zero) return wide;
    if (!has_8_bits(argument, zero)) return NULL;
    if (kiln_numel(zero) != 1 && kiln_rank(x) < 2) {
        error_set(KILN_E_SHAPE, "%s is %s, a vector has one zero", argument, type_of(zero).s);
        return NULL;
    }
    return kiln_sub(wide, kiln_cast(along(argument, zero, x, axis), KILN_I32));
}

kiln_tensor *compose_matmul_integer(kiln_tensor *a, kiln_tensor *b, const kiln_matmul_integer_opts *o)
{
    if (!has_8_bits("a", a) || !has_8_bits("b", b)) return NULL;
    return kiln_matmul(centred("a_zero", a, o->a_zero, -2), centred("b_zero", b, o->b_zero, -1));
}
