// Tensors of the file. Few elements stay on the host; floats, and integers where they are many, become tensors of the
// device. What is on the host alone becomes a tensor where an op needs one.
#include "onnx/model.h"
#include "tensor/decode.h"
#include <kiln/tensor.h>
#include <stdlib.h>
#include <string.h>

static kiln_status keep_on_host(struct onnx_model *m, struct onnx_constant *c, const void *data)
{
    size_t size_B = (size_t)c->host.numel * dtype_info[c->host.dtype].size_B;
    if (c->host.numel > ONNX_HOST_MAX) return KILN_OK;
    TRY(onnx_take(m, size_B, 1, &c->host.data));
    if (size_B) memcpy(c->host.data, data, size_B);
    return KILN_OK;
}

static kiln_status place_bytes(struct onnx_model *m, struct onnx_constant *c, const void *data);

// Two in a byte make no tensor where the last axis is odd.
static kiln_status place_unpacked(struct onnx_model *m, struct onnx_constant *c, const void *data)
{
    int64_t n = c->host.numel / 2 + 1;
    unsigned char *bytes = calloc((size_t)n, 1), *numbers = malloc((size_t)n * 2);
    kiln_status status = KILN_OK;
    if (!bytes || !numbers) status = error_set(KILN_E_MEMORY, "%s: no memory for tensor \"%.80s\"", m->where, c->name);
    c->four_bits = c->host.dtype;
    if (!status) {
        if (c->host.numel) memcpy(bytes, data, (size_t)(c->host.numel / 2 + c->host.numel % 2));
        decode_pairs(shown_of_dtype(c->four_bits), bytes, n, numbers);
        c->host.dtype = c->four_bits == KILN_I4 ? KILN_I8 : KILN_U8;
        status = place_bytes(m, c, numbers);
    }
    free(bytes);
    free(numbers);
    return status;
}

static kiln_status place(struct onnx_model *m, struct onnx_constant *c, const void *data)
{
    const struct onnx_host *h = &c->host;
    bool packed = shown_is_packed(shown_of_dtype(h->dtype));
    return packed && (!h->rank || h->dims[h->rank - 1] % 2) ? place_unpacked(m, c, data) : place_bytes(m, c, data);
}

static kiln_status place_bytes(struct onnx_model *m, struct onnx_constant *c, const void *data)
{
    bool is_stored = dtype_is_stored(c->host.dtype), is_float = dtype_is_float(c->host.dtype);
    if (!is_stored) TRY(keep_on_host(m, c, data));
    if (c->host.data && !(is_float && c->is_initialiser)) return KILN_OK;
    c->tensor =
        kiln_from_data(m->dev, (kiln_dtype)c->host.dtype, c->host.rank, c->host.dims, c->host.numel ? data : NULL);
    if (!c->tensor) return error_pending;
    kiln_own(c->tensor);
    return c->is_initialiser ? vec_push(&m->weights, c) : KILN_OK;
}

static kiln_status place_external(struct onnx_model *m, struct onnx_constant *c)
{
    void *data = malloc(c->external->size_B ? (size_t)c->external->size_B : 1);
    if (!data)
        return error_set(KILN_E_MEMORY, "%s: no memory for the %llu bytes of tensor \"%.80s\"", m->where,
                         (unsigned long long)c->external->size_B, c->name);
    kiln_status status = onnx_read_external(m, c, data);
    if (!status) status = place(m, c, data);
    free(data);
    return status;
}

kiln_status onnx_place_constants(struct onnx_model *m)
{
    TRY(onnx_check_external(m));
    for (size_t i = 0; i < m->constants.n; i++) {
        struct onnx_constant *c = m->constants.v[i];
        TRY(c->external ? place_external(m, c) : place(m, c, c->raw));
        c->raw = NULL;
        free(c->list);
        c->list = NULL;
    }
    return KILN_OK;
}
