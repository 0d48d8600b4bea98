// Quantised numbers: small integers with a scale and a zero point, for the whole tensor or for each place along an
// axis.
#include "onnx/onnx_fns.h"
#include "onnx/window.h"

// A vector along the axis of x; one number as it is.
static kiln_status along(struct onnx_call *c, kiln_tensor *x, int64_t axis, kiln_tensor **t)
{
    int64_t dims[KILN_MAX_RANK];
    if (kiln_rank(*t) == 0 || kiln_numel(*t) == 1) return (*t = kiln_reshape(*t, 0, NULL)) ? KILN_OK : error_pending;
    if (kiln_rank(*t) != 1) return onnx_bad(c, KILN_E_UNSUPPORTED, "scales of rank %zu", kiln_rank(*t));
    TRY(onnx_axis(c, axis, kiln_rank(x), &axis));
    if (kiln_numel(*t) != kiln_dims(x)[axis])
        return onnx_bad(c, KILN_E_SHAPE, "%lld scales for size %lld", (long long)kiln_numel(*t),
                        (long long)kiln_dims(x)[axis]);
    for (size_t i = 0; i < kiln_rank(x); i++) dims[i] = (int64_t)i == axis ? kiln_numel(*t) : 1;
    *t = kiln_reshape(*t, kiln_rank(x), dims);
    NEED(*t);
    return KILN_OK;
}

static kiln_status read_scale(struct onnx_call *c, kiln_tensor *x, kiln_tensor **scale, kiln_tensor **zero)
{
    int64_t axis, block;
    TRY(onnx_check_counts(c, 2, 3, 1));
    TRY(onnx_int(c, "axis", 1, &axis));
    TRY(onnx_int(c, "block_size", 0, &block));
    if (block) return onnx_bad(c, KILN_E_UNSUPPORTED, "block_size is %lld", (long long)block);
    *scale = onnx_in(c, 1);
    NEED(*scale);
    TRY(along(c, x, axis, scale));
    *zero = NULL;
    if (!onnx_has(c, 2)) return KILN_OK;
    *zero = onnx_in(c, 2);
    NEED(*zero);
    if (dtype_is_stored(kiln_tensor_dtype(*zero))) *zero = kiln_cast(*zero, KILN_F32); // exact
    NEED(*zero);
    return along(c, x, axis, zero);
}

static bool is_float8(kiln_dtype dtype)
{
    return dtype == KILN_F8_E4M3 || dtype == KILN_F8_E5M2;
}

// round(x / scale) + zero, as far as the dtype goes; floats are rounded by the dtype.
static kiln_tensor *quantised(kiln_tensor *x, kiln_tensor *scale, kiln_tensor *zero, kiln_dtype dtype)
{
    kiln_tensor *y = kiln_div(kiln_cast(x, KILN_F32), kiln_cast(scale, KILN_F32));
    if (!is_float8(dtype)) y = kiln_round(y);
    if (zero) y = kiln_add(y, kiln_cast(zero, KILN_F32));
    if (dtype_is_stored(dtype)) return kiln_cast(y, dtype);
    y = kiln_clip(y, kiln_scalar((double)dtype_lowest(dtype)), kiln_scalar((double)dtype_highest(dtype)));
    return kiln_cast(y, dtype);
}

kiln_status onnx_op_quantize(struct onnx_call *c)
{
    int64_t to, saturate;
    kiln_tensor *x = onnx_in(c, 0), *scale, *zero;
    NEED(x);
    TRY(read_scale(c, x, &scale, &zero));
    TRY(onnx_int(c, "output_dtype", 0, &to));
    TRY(onnx_int(c, "saturate", 1, &saturate));
    kiln_dtype dtype = KILN_U8;
    if (zero) TRY(onnx_in_dtype(c, 2, &dtype));
    if (to && !onnx_dtype(to, &dtype)) return onnx_bad(c, KILN_E_UNSUPPORTED, "to %s", onnx_dtype_text(to));
    if (!saturate && is_float8(dtype)) return onnx_bad(c, KILN_E_UNSUPPORTED, "saturate is 0");
    if (!dtype_is_stored(dtype) && dtype != KILN_U8 && dtype != KILN_I8 && dtype != KILN_U16 && dtype != KILN_I16)
        return onnx_bad(c, KILN_E_UNSUPPORTED, "to %s", kiln_dtype_name(dtype));
    return onnx_give(c, 0, quantised(x, scale, zero, dtype));
}

kiln_status onnx_op_dequantize(struct onnx_call *c)
{
    kiln_tensor *x = onnx_in(c, 0), *scale, *zero;
    NEED(x);
    TRY(read_scale(c, x, &scale, &zero));
    kiln_dtype exact = is_float8(kiln_tensor_dtype(x)) ? KILN_F32 : KILN_I32;
    kiln_tensor *y = kiln_cast(x, exact);
    if (zero) y = kiln_sub(y, kiln_cast(zero, exact));
    return onnx_give(c, 0, kiln_mul(kiln_cast(y, kiln_tensor_dtype(scale)), scale));
}

kiln_status onnx_op_dynamic_quantize(struct onnx_call *c)
{
    TRY(onnx_check_counts(c, 1, 1, 3));
    kiln_tensor *x = onnx_in(c, 0), *none = kiln_scalar(0);
    NEED(x);
    kiln_tensor *high = kiln_maximum(kiln_max(x, NULL), none), *low = kiln_minimum(kiln_min(x, NULL), none);
    kiln_tensor *scale = kiln_div(kiln_sub(high, low), kiln_scalar(255));
    kiln_tensor *zero = kiln_round(kiln_clip(kiln_neg(kiln_div(low, scale)), none, kiln_scalar(255)));
    zero = kiln_cast(zero, KILN_U8);
    NEED(zero);
    if (onnx_wants(c, 0)) TRY(onnx_give(c, 0, quantised(x, scale, zero, KILN_U8)));
    if (onnx_wants(c, 1)) TRY(onnx_give(c, 1, scale));
    return onnx_wants(c, 2) ? onnx_give(c, 2, zero) : KILN_OK;
}

// How a zero point, one or a vector of them, stands to what it is of.
enum zero_of { OF_ROWS, OF_COLUMNS, OF_FILTERS };

// A number, or one for each row or filter, to be broadcast over x.
static kiln_tensor *spread(kiln_tensor *t, kiln_tensor *x, enum zero_of of)
{
    int64_t dims[KILN_MAX_RANK];
    if (!t || kiln_numel(t) == 1) return kiln_reshape(t, 0, NULL);
    if (of == OF_COLUMNS || kiln_rank(t) > 1) return t;
    for (size_t i = 0; i < kiln_rank(x); i++) dims[i] = 1;
    size_t axis = of == OF_FILTERS ? 0 : kiln_rank(x) - 2;
    dims[axis] = kiln_numel(t);
    return kiln_reshape(t, kiln_rank(x), dims);
}

// Input i less its zero point, input `zero`, as integers that no product of two overflows.
static kiln_status without_zero(struct onnx_call *c, int i, int zero, enum zero_of of, kiln_tensor **out)
{
    kiln_tensor *x = onnx_in(c, i);
    NEED(x);
    *out = kiln_cast(x, KILN_I32);
    if (onnx_has(c, zero)) *out = kiln_sub(*out, kiln_cast(spread(onnx_in(c, zero), x, of), KILN_I32));
    NEED(*out);
    return KILN_OK;
}

kiln_status onnx_op_matmul_integer(struct onnx_call *c)
{
    kiln_tensor *a, *b;
    TRY(onnx_check_counts(c, 2, 4, 1));
    TRY(without_zero(c, 0, 2, OF_ROWS, &a));
    TRY(without_zero(c, 1, 3, OF_COLUMNS, &b));
    return onnx_give(c, 0, kiln_matmul(a, b));
}

// Sums of products of small integers, exact in f64.
static kiln_status convolve(struct onnx_call *c, kiln_tensor *x, kiln_tensor *w, kiln_tensor *bias, kiln_tensor **y)
{
    if (bias) bias = kiln_cast(bias, KILN_F64);
    TRY(onnx_convolve(c, kiln_cast(x, KILN_F64), kiln_cast(w, KILN_F64), bias, y));
    *y = kiln_cast(*y, KILN_I32);
    NEED(*y);
    return KILN_OK;
}

kiln_status onnx_op_conv_integer(struct onnx_call *c)
{
    kiln_tensor *x, *w, *y;
    TRY(onnx_check_counts(c, 2, 4, 1));
    TRY(without_zero(c, 0, 2, OF_COLUMNS, &x));
    TRY(without_zero(c, 1, 3, OF_FILTERS, &w));
    TRY(convolve(c, x, w, NULL, &y));
    return onnx_give(c, 0, y);
}

// The product of the scales of two factors over that of the result, inputs 1, 4 and 6; then its zero point, input 7.
static kiln_status requantise(struct onnx_call *c, kiln_tensor *sum, kiln_tensor *a_scale, kiln_tensor *b_scale)
{
    kiln_tensor *scale = onnx_in(c, 6), *zero = onnx_in(c, 7);
    NEED(scale && zero && a_scale && b_scale);
    if (kiln_numel(scale) != 1 || kiln_numel(zero) != 1)
        return onnx_bad(c, KILN_E_UNSUPPORTED, "a result of several scales");
    kiln_tensor *real = kiln_mul(kiln_cast(sum, KILN_F32), kiln_cast(kiln_mul(a_scale, b_scale), KILN_F32));
    return onnx_give(
        c, 0, quantised(real, kiln_reshape(scale, 0, NULL), kiln_reshape(zero, 0, NULL), kiln_tensor_dtype(zero)));
}

kiln_status onnx_op_qlinear_matmul(struct onnx_call *c)
{
    kiln_tensor *a, *b;
    TRY(onnx_check_counts(c, 8, 8, 1));
    TRY(without_zero(c, 0, 2, OF_ROWS, &a));
    TRY(without_zero(c, 3, 5, OF_COLUMNS, &b));
    kiln_tensor *a_scale = spread(onnx_in(c, 1), a, OF_ROWS), *b_scale = spread(onnx_in(c, 4), b, OF_COLUMNS);
    return requantise(c, kiln_matmul(a, b), a_scale, b_scale);
}

kiln_status onnx_op_qlinear_conv(struct onnx_call *c)
{
    kiln_tensor *x, *w, *y, *bias = onnx_has(c, 8) ? onnx_in(c, 8) : NULL;
    int64_t dims[KILN_MAX_RANK] = {1};
    TRY(onnx_check_counts(c, 8, 9, 1));
    TRY(without_zero(c, 0, 2, OF_COLUMNS, &x));
    TRY(without_zero(c, 3, 5, OF_FILTERS, &w));
    TRY(convolve(c, x, w, bias, &y));
    kiln_tensor *x_scale = spread(onnx_in(c, 1), x, OF_COLUMNS), *w_scale = onnx_in(c, 4);
    NEED(w_scale);
    for (size_t i = 1; i < kiln_rank(y); i++) dims[i] = i == 1 ? kiln_numel(w_scale) : 1;
    return requantise(c, y, x_scale, kiln_reshape(w_scale, kiln_rank(y), dims));
}
