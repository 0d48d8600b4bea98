// Ops that give shapes, make something of them, or see the same elements in another one.
#include "onnx/onnx_fns.h"
#include <string.h>

kiln_status onnx_op_identity(struct onnx_call *c)
{
    TRY(onnx_check_counts(c, 1, 1, 1));
    return onnx_value_copy(&c->out[0], c->in[0]);
}

static kiln_status constant_list(struct onnx_call *c, const struct onnx_attr *a)
{
    bool is_float = a->type == ONNX_FLOAT || a->type == ONNX_FLOATS, one = a->type == ONNX_INT || a->type == ONNX_FLOAT;
    int64_t n = one ? 1 : (int64_t)a->n;
    void *data;
    TRY(onnx_give_host(c, 0, is_float ? KILN_F32 : KILN_I64, !one, &n, &data));
    if (is_float)
        memcpy(data, one ? &a->f : a->floats, (size_t)n * sizeof(float));
    else
        memcpy(data, one ? &a->i : a->ints, (size_t)n * sizeof(int64_t));
    return KILN_OK;
}

kiln_status onnx_op_constant(struct onnx_call *c)
{
    static const struct {
        const char *name;
        uint8_t type;
    } forms[] = {
        {"value_int", ONNX_INT}, {"value_ints", ONNX_INTS}, {"value_float", ONNX_FLOAT}, {"value_floats", ONNX_FLOATS}};
    const struct onnx_attr *a = onnx_attr(c, "value");
    TRY(onnx_check_counts(c, 0, 0, 1));
    if (a && a->type == ONNX_TENSOR) {
        c->out[0] = (struct onnx_value){.kind = ONNX_CONST, .constant = a->tensor};
        return KILN_OK;
    }
    for (size_t i = 0; i < COUNT_OF(forms); i++)
        if ((a = onnx_attr(c, forms[i].name)) && a->type == forms[i].type) return constant_list(c, a);
    return onnx_bad(c, KILN_E_UNSUPPORTED, "its value is no tensor, number or list of numbers");
}

kiln_status onnx_op_shape(struct onnx_call *c)
{
    struct onnx_host t;
    int64_t start, end, *data;
    TRY(onnx_check_counts(c, 1, 1, 1));
    TRY(onnx_in_type(c, 0, &t));
    TRY(onnx_int(c, "start", 0, &start));
    TRY(onnx_int(c, "end", t.rank, &end));
    if (start < 0) start += t.rank;
    if (end < 0) end += t.rank;
    start = start < 0 ? 0 : start > t.rank ? t.rank : start;
    end = end > t.rank ? t.rank : end < start ? start : end;
    int64_t n = end - start;
    TRY(onnx_give_host(c, 0, KILN_I64, 1, &n, (void **)&data));
    memcpy(data, t.dims + start, (size_t)n * sizeof *data);
    return KILN_OK;
}

kiln_status onnx_op_size(struct onnx_call *c)
{
    struct onnx_host t;
    int64_t *data;
    TRY(onnx_check_counts(c, 1, 1, 1));
    TRY(onnx_in_type(c, 0, &t));
    TRY(onnx_give_host(c, 0, KILN_I64, 0, NULL, (void **)&data));
    *data = t.numel;
    return KILN_OK;
}

static kiln_status dtype_attr(struct onnx_call *c, const char *name, kiln_dtype fallback, kiln_dtype *out)
{
    int64_t number;
    TRY(onnx_int(c, name, 0, &number));
    *out = fallback;
    if (!number || onnx_dtype(number, out)) return KILN_OK;
    return onnx_bad(c, KILN_E_UNSUPPORTED, "attribute %s is type %lld, %s", name, (long long)number,
                    onnx_dtype_text(number));
}

static kiln_status cast_to(struct onnx_call *c, kiln_dtype dtype)
{
    int64_t saturate;
    TRY(onnx_int(c, "saturate", 1, &saturate));
    kiln_tensor *x = onnx_in(c, 0);
    NEED(x);
    if (!saturate && (dtype == KILN_F8_E4M3 || dtype == KILN_F8_E5M2))
        return onnx_bad(c, KILN_E_UNSUPPORTED, "saturate is 0");
    return onnx_give(c, 0, kiln_tensor_dtype(x) == dtype ? x : kiln_cast(x, dtype));
}

kiln_status onnx_op_cast(struct onnx_call *c)
{
    kiln_dtype dtype;
    TRY(onnx_check_counts(c, 1, 1, 1));
    if (!onnx_attr(c, "to")) return onnx_bad(c, KILN_E_FORMAT, "attribute to is not given");
    TRY(dtype_attr(c, "to", KILN_F32, &dtype));
    return cast_to(c, dtype);
}

kiln_status onnx_op_cast_like(struct onnx_call *c)
{
    kiln_dtype like;
    TRY(onnx_check_counts(c, 2, 2, 1));
    TRY(onnx_in_dtype(c, 1, &like));
    return cast_to(c, like);
}

kiln_status onnx_op_dropout(struct onnx_call *c)
{
    double ratio = 0.5;
    int64_t training = 0, seed;
    TRY(onnx_check_counts(c, 1, 3, 2));
    TRY(onnx_int(c, "seed", 0, &seed));
    if (onnx_has(c, 1)) TRY(onnx_in_float(c, 1, &ratio));
    if (onnx_has(c, 2)) TRY(onnx_in_int(c, 2, &training));
    if (training && ratio != 0) return onnx_bad(c, KILN_E_UNSUPPORTED, "training_mode is set");
    kiln_tensor *x = onnx_in(c, 0);
    NEED(x);
    if (onnx_wants(c, 1)) TRY(onnx_give(c, 1, kiln_full(c->dev, KILN_BOOL, kiln_rank(x), kiln_dims(x), 1)));
    return onnx_give(c, 0, x);
}

kiln_status onnx_op_constant_of_shape(struct onnx_call *c)
{
    int64_t dims[KILN_MAX_RANK];
    size_t rank;
    const struct onnx_attr *a = onnx_attr(c, "value");
    TRY(onnx_check_counts(c, 1, 1, 1));
    TRY(onnx_in_ints(c, 0, dims, KILN_MAX_RANK, &rank));
    for (size_t i = 0; i < rank; i++)
        if (dims[i] < 0) return onnx_bad(c, KILN_E_SHAPE, "a dimension is %lld", (long long)dims[i]);
    if (onnx_too_much_aside(c, rank, dims)) return KILN_OK;
    if (!a) return onnx_give(c, 0, kiln_full(c->dev, KILN_F32, rank, dims, 0));
    if (a->type != ONNX_TENSOR || a->tensor->host.numel != 1)
        return onnx_bad(c, KILN_E_FORMAT, "attribute value is no tensor of one number");
    const struct onnx_host *h = &a->tensor->host;
    if (!h->data) return onnx_bad(c, KILN_E_UNSUPPORTED, "attribute value is %s", dtype_name(h->dtype));
    if (dtype_info[h->dtype].kind == KIND_FLOAT)
        return onnx_give(c, 0, kiln_full(c->dev, (kiln_dtype)h->dtype, rank, dims, onnx_host_float(h, 0)));
    return onnx_give(c, 0, kiln_full_int(c->dev, (kiln_dtype)h->dtype, rank, dims, onnx_host_int(h, 0)));
}

kiln_status onnx_op_range(struct onnx_call *c)
{
    struct onnx_host type;
    double at[3];
    TRY(onnx_check_counts(c, 3, 3, 1));
    TRY(onnx_in_type(c, 0, &type));
    for (int i = 0; i < 3; i++) TRY(onnx_in_float(c, i, &at[i]));
    if (at[2] == 0) return onnx_bad(c, KILN_E_ARGUMENT, "a range in steps of 0");
    double n = (at[1] - at[0]) / at[2];
    int64_t count = n > 0 && n < 0x1p62 ? (int64_t)n : 0;
    if (onnx_too_much_aside(c, 1, &count)) return KILN_OK;
    return onnx_give(c, 0, kiln_arange(c->dev, (kiln_dtype)type.dtype, at[0], at[1], at[2]));
}

kiln_status onnx_op_eye_like(struct onnx_call *c)
{
    struct onnx_host type;
    kiln_dtype dtype;
    int64_t k;
    TRY(onnx_check_counts(c, 1, 1, 1));
    TRY(onnx_in_type(c, 0, &type));
    TRY(dtype_attr(c, "dtype", (kiln_dtype)type.dtype, &dtype));
    TRY(onnx_int(c, "k", 0, &k));
    if (type.rank != 2) return onnx_bad(c, KILN_E_SHAPE, "its input has rank %d", type.rank);
    if (onnx_too_much_aside(c, 2, type.dims)) return KILN_OK;
    kiln_tensor *ones = kiln_ones(c->dev, dtype, 2, type.dims);
    return onnx_give(c, 0, kiln_tril(kiln_triu(ones, k), k));
}

// --- the same elements

kiln_status onnx_op_reshape(struct onnx_call *c)
{
    int64_t dims[KILN_MAX_RANK], keep_zero;
    size_t rank;
    TRY(onnx_check_counts(c, 2, 2, 1));
    TRY(onnx_int(c, "allowzero", 0, &keep_zero));
    TRY(onnx_in_ints(c, 1, dims, KILN_MAX_RANK, &rank));
    kiln_tensor *x = onnx_in(c, 0);
    NEED(x);
    for (size_t i = 0; i < rank; i++) {
        if (dims[i] || keep_zero) continue;
        if (i >= kiln_rank(x))
            return onnx_bad(c, KILN_E_SHAPE, "dimension %zu is to stay, of rank %zu", i, kiln_rank(x));
        dims[i] = kiln_dims(x)[i];
    }
    return onnx_give(c, 0, kiln_reshape(x, rank, dims));
}

kiln_status onnx_op_transpose(struct onnx_call *c)
{
    kiln_ints perm;
    int64_t axes[KILN_MAX_RANK];
    TRY(onnx_check_counts(c, 1, 1, 1));
    TRY(onnx_ints(c, "perm", &perm));
    kiln_tensor *x = onnx_in(c, 0);
    NEED(x);
    if (perm.v) return onnx_give(c, 0, kiln_permute(x, (kiln_ints){perm.count, perm.v}));
    size_t rank = kiln_rank(x);
    for (size_t i = 0; i < rank; i++) axes[i] = (int64_t)(rank - 1 - i);
    return onnx_give(c, 0, kiln_permute(x, (kiln_ints){rank, axes}));
}

// Both ways: a dimension of 1, of x or of the shape, takes the other's size.
static kiln_status expanded(struct onnx_call *c, const struct onnx_host *x, int64_t *dims, size_t *n)
{
    size_t rank = x->rank > *n ? x->rank : *n;
    int64_t asked[KILN_MAX_RANK];
    memcpy(asked, dims, *n * sizeof *dims);
    for (size_t i = 0; i < rank; i++) {
        int64_t a = i + x->rank < rank ? 1 : x->dims[i + x->rank - rank], b = i + *n < rank ? 1 : asked[i + *n - rank];
        if (a != b && a != 1 && b != 1)
            return onnx_bad(c, KILN_E_SHAPE, "dimension %lld cannot become %lld", (long long)a, (long long)b);
        dims[i] = a == 1 ? b : a;
    }
    *n = rank;
    return KILN_OK;
}

kiln_status onnx_op_expand(struct onnx_call *c)
{
    struct onnx_host type;
    int64_t dims[KILN_MAX_RANK];
    size_t rank;
    TRY(onnx_check_counts(c, 2, 2, 1));
    TRY(onnx_in_type(c, 0, &type));
    TRY(onnx_in_ints(c, 1, dims, KILN_MAX_RANK, &rank));
    TRY(expanded(c, &type, dims, &rank));
    if (onnx_too_much_aside(c, rank, dims)) return KILN_OK;
    kiln_tensor *x = onnx_in(c, 0);
    NEED(x);
    return onnx_give(c, 0, kiln_expand(x, rank, dims));
}

kiln_status onnx_op_tile(struct onnx_call *c)
{
    int64_t repeats[KILN_MAX_RANK];
    size_t n;
    TRY(onnx_check_counts(c, 2, 2, 1));
    TRY(onnx_in_ints(c, 1, repeats, KILN_MAX_RANK, &n));
    kiln_tensor *x = onnx_in(c, 0);
    NEED(x);
    if (n != kiln_rank(x)) return onnx_bad(c, KILN_E_SHAPE, "%zu repeats for rank %zu", n, kiln_rank(x));
    return onnx_give(c, 0, kiln_tile(x, n, repeats));
}

kiln_status onnx_op_squeeze(struct onnx_call *c)
{
    int64_t axes[KILN_MAX_RANK];
    size_t n;
    TRY(onnx_check_counts(c, 1, 2, 1));
    kiln_tensor *x = onnx_in(c, 0);
    NEED(x);
    TRY(onnx_axes(c, 1, kiln_rank(x), axes, &n));
    if (!n && onnx_has(c, 1)) return onnx_give(c, 0, x);
    return onnx_give(c, 0, kiln_squeeze(x, (kiln_ints){n, axes}));
}

kiln_status onnx_op_unsqueeze(struct onnx_call *c)
{
    int64_t axes[KILN_MAX_RANK], dims[KILN_MAX_RANK];
    size_t n;
    bool fresh[KILN_MAX_RANK] = {false};
    TRY(onnx_check_counts(c, 1, 2, 1));
    kiln_tensor *x = onnx_in(c, 0);
    NEED(x);
    size_t rank = kiln_rank(x);
    TRY(onnx_has(c, 1) ? onnx_in_ints(c, 1, axes, KILN_MAX_RANK - rank, &n)
                       : onnx_bad(c, KILN_E_FORMAT, "input 1 is left out"));
    for (size_t i = 0; i < n; i++) {
        TRY(onnx_axis(c, axes[i], rank + n, &axes[i]));
        if (fresh[axes[i]]) return onnx_bad(c, KILN_E_AXIS, "axis %lld is given twice", (long long)axes[i]);
        fresh[axes[i]] = true;
    }
    for (size_t i = 0, from = 0; i < rank + n; i++) dims[i] = fresh[i] ? 1 : kiln_dims(x)[from++];
    return onnx_give(c, 0, kiln_reshape(x, rank + n, dims));
}

kiln_status onnx_op_flatten(struct onnx_call *c)
{
    int64_t axis, dims[2] = {1, 1};
    TRY(onnx_check_counts(c, 1, 1, 1));
    TRY(onnx_int(c, "axis", 1, &axis));
    kiln_tensor *x = onnx_in(c, 0);
    NEED(x);
    int64_t rank = (int64_t)kiln_rank(x);
    if (axis < -rank || axis > rank)
        return onnx_bad(c, KILN_E_AXIS, "axis %lld is out of range for rank %lld", (long long)axis, (long long)rank);
    if (axis < 0) axis += rank;
    for (int64_t i = 0; i < rank; i++) dims[i >= axis] *= kiln_dims(x)[i];
    return onnx_give(c, 0, kiln_reshape(x, 2, dims));
}

static kiln_status block_of(struct onnx_call *c, kiln_tensor *x, int64_t *b)
{
    TRY(onnx_int(c, "blocksize", 0, b));
    if (kiln_rank(x) == 4 && *b > 0 && *b < 1 << 20) return KILN_OK;
    return onnx_bad(c, KILN_E_SHAPE, "blocks of %lld in an input of rank %zu", (long long)*b, kiln_rank(x));
}

kiln_status onnx_op_depth_to_space(struct onnx_call *c)
{
    const char *mode;
    int64_t b;
    TRY(onnx_check_counts(c, 1, 1, 1));
    TRY(onnx_string(c, "mode", "DCR", &mode));
    kiln_tensor *x = onnx_in(c, 0);
    NEED(x);
    TRY(block_of(c, x, &b));
    const int64_t *d = kiln_dims(x);
    int64_t n = d[0], depth = d[1] / (b * b), h = d[2], w = d[3];
    bool columns = !strcmp(mode, "CRD");
    if (!columns && strcmp(mode, "DCR") != 0) return onnx_bad(c, KILN_E_UNSUPPORTED, "mode is \"%.20s\"", mode);
    if (depth * b * b != d[1])
        return onnx_bad(c, KILN_E_SHAPE, "%lld channels for blocks of %lld", (long long)d[1], (long long)b);
    kiln_tensor *y =
        columns ? kiln_reshape(x, KILN_SHAPE(n, depth, b, b, h, w)) : kiln_reshape(x, KILN_SHAPE(n, b, b, depth, h, w));
    y = columns ? kiln_permute(y, KILN_AXES(0, 1, 4, 2, 5, 3)) : kiln_permute(y, KILN_AXES(0, 3, 4, 1, 5, 2));
    return onnx_give(c, 0, kiln_reshape(y, KILN_SHAPE(n, depth, h * b, w * b)));
}

kiln_status onnx_op_space_to_depth(struct onnx_call *c)
{
    int64_t b;
    TRY(onnx_check_counts(c, 1, 1, 1));
    kiln_tensor *x = onnx_in(c, 0);
    NEED(x);
    TRY(block_of(c, x, &b));
    const int64_t *d = kiln_dims(x);
    int64_t n = d[0], depth = d[1], h = d[2] / b, w = d[3] / b;
    if (h * b != d[2] || w * b != d[3])
        return onnx_bad(c, KILN_E_SHAPE, "blocks of %lld do not divide the image", (long long)b);
    kiln_tensor *y = kiln_permute(kiln_reshape(x, KILN_SHAPE(n, depth, h, b, w, b)), KILN_AXES(0, 3, 5, 1, 2, 4));
    return onnx_give(c, 0, kiln_reshape(y, KILN_SHAPE(n, depth * b * b, h, w)));
}
