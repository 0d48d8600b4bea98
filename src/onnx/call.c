// Inputs and results of a node that runs: tensors, or numbers on the host, each taken for the other where it is needed.
#include "onnx/call.h"
#include "base/float16.h"
#include "scalar/number.h"
#include <kiln/jit.h>
#include <stdio.h>
#include <string.h>

enum { READ_MAX = 1 << 20 }; // elements that the host asks of a device

kiln_status onnx_bad(const struct onnx_call *c, kiln_status code, const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return error_set(code, "%s: %.40s: %s", c->run->m->where, c->node->op, text);
}

bool onnx_has(const struct onnx_call *c, int i)
{
    return i < c->n_in && c->in[i];
}

bool onnx_wants(const struct onnx_call *c, int i)
{
    return i < c->n_out && c->node->out[i] >= 0;
}

kiln_status onnx_check_counts(const struct onnx_call *c, int min_in, int max_in, int max_out)
{
    for (int i = 0; i < min_in; i++)
        if (!onnx_has(c, i)) return onnx_bad(c, KILN_E_FORMAT, "input %d is left out", i);
    for (int i = max_in; i < c->n_in; i++)
        if (c->in[i]) return onnx_bad(c, KILN_E_FORMAT, "has %d inputs, more than %d", c->n_in, max_in);
    for (int i = max_out; i < c->n_out; i++)
        if (onnx_wants(c, i)) return onnx_bad(c, KILN_E_UNSUPPORTED, "output %d is not computed", i);
    return KILN_OK;
}

kiln_status onnx_axis(const struct onnx_call *c, int64_t axis, size_t rank, int64_t *out)
{
    *out = axis < 0 ? axis + (int64_t)rank : axis;
    if (*out >= 0 && *out < (int64_t)rank) return KILN_OK;
    return onnx_bad(c, KILN_E_AXIS, "axis %lld is out of range for rank %zu", (long long)axis, rank);
}

bool onnx_is_host(const struct onnx_value *v)
{
    return v->kind == ONNX_ON_HOST || (v->kind == ONNX_CONST && !v->constant->tensor);
}

// One number is a tensor that passes see through.
kiln_tensor *onnx_from_host(struct onnx_call *c, const struct onnx_host *h)
{
    kiln_dtype dtype = (kiln_dtype)h->dtype;
    if (h->numel != 1 || c->aside) return kiln_from_data(c->dev, dtype, h->rank, h->dims, h->numel ? h->data : NULL);
    if (dtype_info[dtype].kind == KIND_FLOAT) return kiln_full(c->dev, dtype, h->rank, h->dims, onnx_host_float(h, 0));
    return kiln_full_int(c->dev, dtype, h->rank, h->dims, onnx_host_int(h, 0));
}

kiln_tensor *onnx_tensor(struct onnx_call *c, const struct onnx_value *v)
{
    if (v->kind == ONNX_COMPUTED) return v->tensor;
    if (v->kind == ONNX_ON_HOST) return onnx_from_host(c, &v->host);
    const struct onnx_constant *k = v->constant;
    if (!k->tensor) return onnx_from_host(c, &k->host);
    return k->is_leaf ? k->tensor : kiln_constant(k->tensor);
}

kiln_tensor *onnx_in(struct onnx_call *c, int i)
{
    if (onnx_has(c, i)) return onnx_tensor(c, c->in[i]);
    onnx_bad(c, KILN_E_FORMAT, "input %d is left out", i);
    return NULL;
}

kiln_status onnx_in_dtype(struct onnx_call *c, int i, kiln_dtype *out)
{
    struct onnx_host h;
    TRY(onnx_in_type(c, i, &h));
    bool unpacked = c->in[i]->kind == ONNX_CONST && c->in[i]->constant->four_bits;
    *out = (kiln_dtype)(unpacked ? c->in[i]->constant->four_bits : h.dtype);
    return KILN_OK;
}

kiln_status onnx_in_type(struct onnx_call *c, int i, struct onnx_host *out)
{
    if (!onnx_has(c, i)) return onnx_bad(c, KILN_E_FORMAT, "input %d is left out", i);
    const struct onnx_value *v = c->in[i];
    if (v->kind != ONNX_COMPUTED) {
        *out = v->kind == ONNX_ON_HOST ? v->host : v->constant->host;
        return KILN_OK;
    }
    *out = (struct onnx_host){.dtype = (uint8_t)kiln_tensor_dtype(v->tensor),
                              .rank = (uint8_t)kiln_rank(v->tensor),
                              .numel = kiln_numel(v->tensor)};
    if (out->rank) memcpy(out->dims, kiln_dims(v->tensor), out->rank * sizeof *out->dims);
    return error_pending;
}

static kiln_status read_tensor(struct onnx_call *c, int i, kiln_tensor *t, struct onnx_host *out)
{
    if (out->dtype >= DTYPE_COUNT)
        return onnx_bad(c, KILN_E_UNSUPPORTED, "input %d is %s", i, kiln_dtype_name((kiln_dtype)out->dtype));
    if (out->numel > READ_MAX)
        return onnx_bad(c, KILN_E_UNSUPPORTED, "input %d has %lld elements, too many for a shape", i,
                        (long long)out->numel);
    size_t size_B = (size_t)out->numel * dtype_info[out->dtype].size_B;
    out->data = arena_alloc(&c->run->arena, size_B ? size_B : 1);
    if (!out->data) return error_pending;
    return kiln_read(t, out->data, size_B);
}

kiln_status onnx_in_host(struct onnx_call *c, int i, struct onnx_host *out)
{
    TRY(onnx_in_type(c, i, out));
    if (out->data || (c->in[i]->kind == ONNX_ON_HOST)) return KILN_OK;
    out->data = NULL;
    kiln_tensor *t = onnx_in(c, i);
    return t ? read_tensor(c, i, t, out) : error_pending;
}

double onnx_host_float(const struct onnx_host *h, int64_t i)
{
    const char *at = (const char *)h->data + (size_t)i * dtype_info[h->dtype].size_B;
    return number_of_dtype(h->dtype, number_read(h->dtype, at));
}

int64_t onnx_host_int(const struct onnx_host *h, int64_t i)
{
    const char *at = (const char *)h->data + (size_t)i * dtype_info[h->dtype].size_B;
    union scalar_value v = number_read(h->dtype, at);
    switch (dtype_class(h->dtype)) {
    case CLASS_I64: return v.i64;
    case CLASS_I32: return v.i32;
    case CLASS_BOOL: return v.b != 0;
    default: return (int64_t)onnx_host_float(h, i);
    }
}

kiln_status onnx_in_ints(struct onnx_call *c, int i, int64_t *v, size_t cap, size_t *n)
{
    struct onnx_host h;
    TRY(onnx_in_host(c, i, &h));
    if (dtype_info[h.dtype].kind == KIND_FLOAT || h.rank > 1 || (uint64_t)h.numel > cap)
        return onnx_bad(c, KILN_E_SHAPE, "input %d is to be at most %zu integers, has %lld of %s", i, cap,
                        (long long)h.numel, dtype_info[h.dtype].name);
    for (int64_t k = 0; k < h.numel; k++) v[k] = onnx_host_int(&h, k);
    *n = (size_t)h.numel;
    return KILN_OK;
}

static kiln_status one_number(struct onnx_call *c, int i, struct onnx_host *h)
{
    TRY(onnx_in_host(c, i, h));
    if (h->numel == 1) return KILN_OK;
    return onnx_bad(c, KILN_E_SHAPE, "input %d is to be one number, has %lld", i, (long long)h->numel);
}

kiln_status onnx_in_int(struct onnx_call *c, int i, int64_t *v)
{
    struct onnx_host h;
    TRY(one_number(c, i, &h));
    *v = onnx_host_int(&h, 0);
    return KILN_OK;
}

kiln_status onnx_in_float(struct onnx_call *c, int i, double *v)
{
    struct onnx_host h;
    TRY(one_number(c, i, &h));
    *v = onnx_host_float(&h, 0);
    return KILN_OK;
}

kiln_status onnx_give(struct onnx_call *c, int i, kiln_tensor *t)
{
    NEED(t);
    // An input that is its own result gets a second handle.
    kiln_tensor *mine = kiln_alias(t);
    NEED(mine);
    onnx_value_finish(&c->out[i]);
    c->out[i] = (struct onnx_value){.kind = ONNX_COMPUTED, .tensor = kiln_own(mine)};
    return KILN_OK;
}

kiln_status onnx_give_host(struct onnx_call *c, int i, kiln_dtype dtype, size_t rank, const int64_t *dims, void **data)
{
    struct onnx_host h = {.dtype = (uint8_t)dtype, .rank = (uint8_t)rank, .numel = 1};
    for (size_t k = 0; k < rank; k++) h.numel *= h.dims[k] = dims[k];
    h.data = *data = arena_alloc(&c->run->arena, (size_t)h.numel * dtype_info[dtype].size_B + 1);
    NEED(h.data);
    c->out[i] = (struct onnx_value){.kind = ONNX_ON_HOST, .host = h};
    return KILN_OK;
}

bool onnx_too_much_aside(struct onnx_call *c, size_t rank, const int64_t *dims)
{
    int64_t n = 1;
    for (size_t i = 0; i < rank; i++)
        if (__builtin_mul_overflow(n, dims[i], &n)) n = INT64_MAX;
    c->redo = c->aside && n > ONNX_HOST_MAX;
    return c->redo;
}

kiln_status onnx_axes(struct onnx_call *c, int i, size_t rank, int64_t *axes, size_t *n)
{
    kiln_ints given;
    TRY(onnx_ints(c, "axes", &given));
    *n = given.count;
    if (given.count > KILN_MAX_RANK) return onnx_bad(c, KILN_E_AXIS, "%zu axes are given", given.count);
    if (given.count) memcpy(axes, given.v, given.count * sizeof *axes);
    if (!given.v && onnx_has(c, i)) TRY(onnx_in_ints(c, i, axes, KILN_MAX_RANK, n));
    for (size_t k = 0; k < *n; k++) {
        TRY(onnx_axis(c, axes[k], rank, &axes[k]));
        for (size_t j = 0; j < k; j++)
            if (axes[j] == axes[k]) return onnx_bad(c, KILN_E_AXIS, "axis %lld is given twice", (long long)axes[k]);
    }
    return KILN_OK;
}
