// Quantised numbers: small integers with a scale and a zero point, for the whole tensor or for each place along an
// axis.
#include "onnx/onnx_fns.h"

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
    return along(c, x, axis, zero);
}

// round(x / scale) + zero, as far as the dtype goes.
static kiln_tensor *quantised(kiln_tensor *x, kiln_tensor *scale, kiln_tensor *zero, kiln_dtype dtype)
{
    kiln_tensor *y = kiln_round(kiln_div(kiln_cast(x, KILN_F32), kiln_cast(scale, KILN_F32)));
    if (zero) y = kiln_add(y, kiln_cast(zero, KILN_F32));
    y = kiln_clip(y, kiln_scalar(dtype_lowest(dtype)), kiln_scalar(dtype_highest(dtype)));
    return kiln_cast(y, dtype);
}

kiln_status onnx_op_quantize(struct onnx_call *c)
{
    int64_t to, saturate;
    kiln_tensor *x = onnx_in(c, 0), *scale, *zero;
    NEED(x);
    TRY(read_scale(c, x, &scale, &zero));
    TRY(onnx_int(c, "output_dtype", 0, &to));
    TRY(onnx_int(c, "saturate", 1, &saturate)); // of narrower floats than Kiln has
    kiln_dtype dtype = zero ? kiln_tensor_dtype(zero) : KILN_U8;
    if (to && !onnx_dtype(to, &dtype)) return onnx_bad(c, KILN_E_UNSUPPORTED, "to %s", onnx_dtype_text(to));
    if (dtype != KILN_U8 && dtype != KILN_I8 && dtype != KILN_I16)
        return onnx_bad(c, KILN_E_UNSUPPORTED, "to %s", kiln_dtype_name(dtype));
    return onnx_give(c, 0, quantised(x, scale, zero, dtype));
}

kiln_status onnx_op_dequantize(struct onnx_call *c)
{
    kiln_tensor *x = onnx_in(c, 0), *scale, *zero;
    NEED(x);
    TRY(read_scale(c, x, &scale, &zero));
    kiln_tensor *y = kiln_cast(x, KILN_I32);
    if (zero) y = kiln_sub(y, kiln_cast(zero, KILN_I32));
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

static kiln_status without_zero(struct onnx_call *c, int i, bool rows, kiln_tensor **out)
{
    kiln_tensor *x = onnx_in(c, i);
    NEED(x);
    *out = kiln_cast(x, KILN_I32);
    if (onnx_has(c, i + 2)) {
        kiln_tensor *zero = onnx_in(c, i + 2);
        NEED(zero);
        if (rows && kiln_rank(zero) == 1 && kiln_numel(zero) > 1) zero = kiln_unsqueeze(zero, 1);
        *out = kiln_sub(*out, kiln_cast(zero, KILN_I32));
    }
    NEED(*out);
    return KILN_OK;
}

kiln_status onnx_op_matmul_integer(struct onnx_call *c)
{
    kiln_tensor *a, *b;
    TRY(onnx_check_counts(c, 2, 4, 1));
    TRY(without_zero(c, 0, true, &a));
    TRY(without_zero(c, 1, false, &b));
    return onnx_give(c, 0, kiln_matmul(a, b));
}
