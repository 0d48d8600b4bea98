// A model from its file, and what it says of itself.
#include "onnx/model.h"
#include "io/file.h"
#include "tensor/tensor.h"
#include <stdlib.h>
#include <string.h>

enum { FILE_MAX_B = INT32_MAX }; // what protocol buffers hold

static kiln_status read_file(const char *function, const char *path, unsigned char **out, size_t *size_B)
{
    struct io_reader r;
    TRY(io_open(&r, function, path));
    kiln_status status = KILN_OK;
    if (r.size_B > FILE_MAX_B)
        status = error_set(KILN_E_FORMAT, "%s: has %llu bytes, ONNX files have at most %d", r.where,
                           (unsigned long long)r.size_B, FILE_MAX_B);
    if (!status) status = io_alloc(r.where, r.size_B, out);
    if (!status) status = io_read(&r, 0, *out, r.size_B);
    *size_B = (size_t)r.size_B;
    io_close(&r);
    return status;
}

static kiln_status find_device(struct onnx_model *m, kiln_device *dev)
{
    m->dev = dev ? dev : kiln_get_device();
    return m->dev ? KILN_OK : error_pending;
}

// Shapes are computed on the model's device if that is a CPU.
static kiln_status find_host(struct onnx_model *m)
{
    kiln_device_info info = {.size = sizeof info};
    TRY(kiln_device_get_info(m->dev, &info));
    m->host = m->dev;
    if (!strcmp(info.kind, "cpu")) return KILN_OK;
    m->host = m->own_host = kiln_device_open("cpu");
    return m->host ? KILN_OK : error_pending;
}

static kiln_status load(struct onnx_model *m, const char *function, kiln_device *dev, const char *path)
{
    unsigned char *file = NULL;
    size_t size_B;
    m->where = io_where(function, path);
    m->path = m->where ? io_strdup(m->where, path) : NULL;
    if (!m->path) return error_pending;
    kiln_status status = read_file(function, path, &file, &size_B);
    if (!status) status = onnx_parse(m, file, size_B);
    if (!status) status = onnx_check(m);
    if (!status) status = onnx_check_ops(m);
    if (!status) status = find_device(m, dev);
    if (!status) status = onnx_place_constants(m);
    if (!status) status = find_host(m);
    free(file);
    return status;
}

struct onnx_model *onnx_load(const char *function, kiln_device *dev, const char *path)
{
    if (error_pending) return NULL;
    struct onnx_model *m = calloc(1, sizeof *m);
    if (!m) {
        error_set(KILN_E_MEMORY, "%s: out of memory", function);
        return NULL;
    }
    arena_init(&m->arena);
    if (load(m, function, dev, path)) onnx_free(&m);
    return m;
}

void onnx_free(struct onnx_model **m)
{
    if (!m || !*m) return;
    struct onnx_model *x = *m;
    for (size_t i = 0; i < x->constants.n; i++) {
        kiln_free(&x->constants.v[i]->tensor);
        free(x->constants.v[i]->list);
    }
    vec_free(&x->constants);
    vec_free(&x->weights);
    kiln_device_close(&x->own_host);
    arena_finish(&x->arena);
    free(x->where);
    free(x->path);
    free(x);
    *m = NULL;
}

size_t onnx_input_count(const struct onnx_model *m)
{
    return (size_t)m->graph.n_in;
}

size_t onnx_output_count(const struct onnx_model *m)
{
    return (size_t)m->graph.n_out;
}

const struct onnx_port *onnx_input(const struct onnx_model *m, size_t i)
{
    return &m->graph.in[i];
}

const struct onnx_port *onnx_output(const struct onnx_model *m, size_t i)
{
    return &m->graph.out[i];
}

size_t onnx_weight_count(const struct onnx_model *m)
{
    return m->weights.n;
}

const char *onnx_weight_name(const struct onnx_model *m, size_t i)
{
    return m->weights.v[i]->name;
}

kiln_tensor *onnx_weight(const struct onnx_model *m, size_t i)
{
    return m->weights.v[i]->tensor;
}

kiln_status onnx_set_weight(struct onnx_model *m, size_t i, kiln_tensor *t)
{
    struct onnx_constant *c = m->weights.v[i];
    if (!t)
        return error_pending ? error_pending
                             : error_set(KILN_E_ARGUMENT, "%s: weight \"%.80s\" is to be NULL", m->where, c->name);
    bool same = kiln_tensor_dtype(t) == (kiln_dtype)c->host.dtype && kiln_rank(t) == c->host.rank;
    for (size_t k = 0; same && k < c->host.rank; k++) same = kiln_dims(t)[k] == c->host.dims[k];
    if (!same)
        return error_set(KILN_E_SHAPE, "%s: weight \"%.80s\" is to be of another dtype or shape", m->where, c->name);
    kiln_tensor *mine = kiln_alias(t);
    if (!mine) return error_pending;
    kiln_free(&c->tensor);
    c->tensor = kiln_own(mine);
    c->is_leaf = true;
    // What is on the host would be the value of before.
    c->host.data = NULL;
    return KILN_OK;
}
