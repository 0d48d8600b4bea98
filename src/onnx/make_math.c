// Elementwise ops whose rules differ from the row's, and compositions of rows.
#include "onnx/onnx_fns.h"
#include "tensor/apply.h"
#include <math.h>
#include <string.h>

// Max, Min and Sum of any number of inputs.
kiln_status onnx_op_fold(struct onnx_call *c)
{
    kiln_tensor *sum = onnx_in(c, 0);
    TRY(onnx_check_counts(c, 1, c->n_in, 1));
    for (int i = 1; i < c->n_in && sum; i++) {
        kiln_tensor *in[] = {sum, onnx_in(c, i)};
        sum = in[1] ? op_apply1(op_table[c->row->op], c->dev, 2, in, NULL) : NULL;
    }
    return onnx_give(c, 0, sum);
}

kiln_status onnx_op_mean_of(struct onnx_call *c)
{
    kiln_tensor *sum = onnx_in(c, 0);
    TRY(onnx_check_counts(c, 1, c->n_in, 1));
    for (int i = 1; i < c->n_in && sum; i++) sum = kiln_add(sum, onnx_in(c, i));
    return onnx_give(c, 0, kiln_div(sum, kiln_scalar(c->n_in)));
}

static bool is_integer(kiln_tensor *t)
{
    unsigned dtype = kiln_tensor_dtype(t);
    return dtype < DTYPE_COUNT && dtype_info[dtype].kind == KIND_INT;
}

// The quotient of integers is cut off towards 0.
kiln_status onnx_op_div(struct onnx_call *c)
{
    kiln_tensor *a = onnx_in(c, 0), *b = onnx_in(c, 1);
    TRY(onnx_check_counts(c, 2, 2, 1));
    NEED(a && b);
    if (!is_integer(a)) return onnx_give(c, 0, kiln_div(a, b));
    return onnx_give(c, 0, kiln_floor_divide(kiln_sub(a, kiln_fmod(a, b)), b));
}

// The result has the dtype of the base.
kiln_status onnx_op_pow(struct onnx_call *c)
{
    struct onnx_host power;
    kiln_tensor *a = onnx_in(c, 0);
    TRY(onnx_check_counts(c, 2, 2, 1));
    NEED(a);
    kiln_dtype dtype = kiln_tensor_dtype(a);
    TRY(onnx_in_type(c, 1, &power));
    bool known = onnx_is_host(c->in[1]) && power.numel == 1 && power.rank <= kiln_rank(a);
    double n = known ? onnx_host_float(&power, 0) : 0;
    if (known && n == 2) return onnx_give(c, 0, kiln_mul(a, a));
    if (known && n == 1) return onnx_give(c, 0, a);
    if (!is_integer(a)) {
        kiln_tensor *b = onnx_in(c, 1);
        NEED(b);
        return onnx_give(c, 0, kiln_pow(a, kiln_cast(b, dtype)));
    }
    kiln_tensor *b = known && n == floor(n) && fabs(n) < 64 ? kiln_scalar_int((int64_t)n) : onnx_in(c, 1);
    NEED(b);
    if (is_integer(b)) return onnx_give(c, 0, kiln_cast(kiln_pow(a, b), dtype));
    return onnx_give(c, 0, kiln_cast(kiln_pow(kiln_cast(a, KILN_F64), kiln_cast(b, KILN_F64)), dtype));
}

kiln_status onnx_op_clip(struct onnx_call *c)
{
    TRY(onnx_check_counts(c, 1, 3, 1));
    kiln_tensor *x = onnx_in(c, 0);
    NEED(x);
    if (onnx_has(c, 1)) x = kiln_maximum(x, onnx_in(c, 1));
    if (onnx_has(c, 2)) x = kiln_minimum(x, onnx_in(c, 2));
    return onnx_give(c, 0, x);
}

kiln_status onnx_op_selu(struct onnx_call *c)
{
    double alpha, gamma;
    TRY(onnx_check_counts(c, 1, 1, 1));
    TRY(onnx_float(c, "alpha", 1.67326319217681884765625, &alpha));
    TRY(onnx_float(c, "gamma", 1.05070102214813232421875, &gamma));
    kiln_tensor *x = onnx_in(c, 0);
    NEED(x);
    return onnx_give(c, 0, kiln_mul(kiln_elu(x, alpha), kiln_scalar(gamma)));
}

kiln_status onnx_op_shrink(struct onnx_call *c)
{
    double bias, lambda;
    TRY(onnx_check_counts(c, 1, 1, 1));
    TRY(onnx_float(c, "bias", 0, &bias));
    TRY(onnx_float(c, "lambd", 0.5, &lambda));
    kiln_tensor *x = onnx_in(c, 0);
    NEED(x);
    kiln_tensor *above =
        kiln_where(kiln_greater(x, kiln_scalar(lambda)), kiln_sub(x, kiln_scalar(bias)), kiln_zeros_like(x));
    return onnx_give(c, 0, kiln_where(kiln_less(x, kiln_scalar(-lambda)), kiln_add(x, kiln_scalar(bias)), above));
}

kiln_status onnx_op_is_inf(struct onnx_call *c)
{
    int64_t below, above;
    TRY(onnx_check_counts(c, 1, 1, 1));
    TRY(onnx_int(c, "detect_negative", 1, &below));
    TRY(onnx_int(c, "detect_positive", 1, &above));
    kiln_tensor *x = onnx_in(c, 0);
    NEED(x);
    if (!below && !above) return onnx_give(c, 0, kiln_full(c->dev, KILN_BOOL, kiln_rank(x), kiln_dims(x), 0));
    return onnx_give(c, 0, kiln_equal(x, kiln_scalar(above ? INFINITY : -INFINITY)));
}

kiln_status onnx_op_hard_sigmoid(struct onnx_call *c)
{
    double alpha, beta;
    TRY(onnx_check_counts(c, 1, 1, 1));
    TRY(onnx_float(c, "alpha", 0.2f, &alpha));
    TRY(onnx_float(c, "beta", 0.5, &beta));
    kiln_tensor *x = onnx_in(c, 0);
    NEED(x);
    kiln_tensor *line = kiln_add(kiln_mul(x, kiln_scalar(alpha)), kiln_scalar(beta));
    return onnx_give(c, 0, kiln_clip(line, kiln_scalar(0), kiln_scalar(1)));
}

// 1 at the first of the largest along the axis.
kiln_status onnx_op_hardmax(struct onnx_call *c)
{
    int64_t axis;
    TRY(onnx_check_counts(c, 1, 1, 1));
    TRY(onnx_int(c, "axis", -1, &axis));
    kiln_tensor *x = onnx_in(c, 0);
    NEED(x);
    TRY(onnx_axis(c, axis, kiln_rank(x), &axis));
    kiln_tensor *at = kiln_argmax(x, KILN_REDUCE(.axes = {1, &axis}, .keepdims = true));
    kiln_tensor *numbers = kiln_arange(c->dev, KILN_I64, 0, (double)kiln_dims(x)[axis], 1);
    int64_t dims[KILN_MAX_RANK];
    for (size_t i = 0; i < kiln_rank(x); i++) dims[i] = (int64_t)i == axis ? kiln_dims(x)[axis] : 1;
    return onnx_give(c, 0, kiln_cast(kiln_equal(kiln_reshape(numbers, kiln_rank(x), dims), at), kiln_tensor_dtype(x)));
}

kiln_status onnx_op_gemm(struct onnx_call *c)
{
    double alpha, beta;
    int64_t trans_a, trans_b;
    TRY(onnx_check_counts(c, 2, 3, 1));
    TRY(onnx_float(c, "alpha", 1, &alpha));
    TRY(onnx_float(c, "beta", 1, &beta));
    TRY(onnx_int(c, "transA", 0, &trans_a));
    TRY(onnx_int(c, "transB", 0, &trans_b));
    kiln_tensor *a = onnx_in(c, 0), *b = onnx_in(c, 1);
    NEED(a && b);
    if (kiln_rank(a) != 2 || kiln_rank(b) != 2)
        return onnx_bad(c, KILN_E_SHAPE, "its factors have ranks %zu and %zu", kiln_rank(a), kiln_rank(b));
    kiln_tensor *y = kiln_matmul(trans_a ? kiln_transpose(a, 0, 1) : a, trans_b ? kiln_transpose(b, 0, 1) : b);
    if (alpha != 1) y = kiln_mul(y, kiln_scalar(alpha));
    if (!onnx_has(c, 2)) return onnx_give(c, 0, y);
    kiln_tensor *more = onnx_in(c, 2);
    if (beta != 1) more = kiln_mul(more, kiln_scalar(beta));
    return onnx_give(c, 0, kiln_add(y, more));
}
