// The file of a model: what stands around its nodes, and the weights, whose bytes go from the device to the disk one by
// one.
#include "io/file.h"
#include "onnx/model.h"
#include "onnx/wire_out.h"
#include "onnx/write.h"
#include <kiln/version.h>
#include <stdlib.h>
#include <string.h>

// Fields of ONNX's messages.
enum { MODEL_IR = 1, MODEL_PRODUCER = 2, MODEL_PRODUCER_VERSION = 3, MODEL_GRAPH = 7, MODEL_OPSET = 8 };
enum { GRAPH_NAME = 2, GRAPH_INITIALIZER = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { TENSOR_RAW = 9 };

#define FILE_MAX_B ((uint64_t)INT32_MAX) // of a message of protocol buffers

// --- inputs and outputs

static void put_shape(struct str *s, const struct type *t, const char *const *symbols, const int16_t *which)
{
    for (int d = 0; d < t->rank; d++) {
        struct str dim;
        str_init(&dim);
        if (symbols && which && which[d])
            wire_put_text(&dim, 2, symbols[which[d] - 1]);
        else if (t->dims[d] >= 0)
            wire_put_number(&dim, 1, (uint64_t)t->dims[d]);
        wire_put_message(s, 1, &dim);
    }
}

void onnx_put_port(struct str *graph, uint32_t field, const char *name, const struct type *t,
                   const char *const *symbols, const int16_t *which)
{
    struct str port, type, tensor, shape;
    str_init(&port);
    str_init(&type);
    str_init(&tensor);
    str_init(&shape);
    put_shape(&shape, t, symbols, which);
    wire_put_number(&tensor, 1, (uint64_t)onnx_dtype_number(t->dtype));
    wire_put_message(&tensor, 2, &shape);
    wire_put_message(&type, 1, &tensor);
    wire_put_text(&port, 1, name);
    wire_put_message(&port, 2, &type);
    wire_put_message(graph, field, &port);
}

static kiln_status put_made(struct onnx_writer *w, const struct onnx_made *m)
{
    const char *name = m->value >= 0                                ? w->names[m->value]
                       : dtype_kind_of[m->type.dtype] == KIND_FLOAT ? onnx_put_scalar(w, m->type.dtype, m->number)
                                                                    : onnx_put_integer(w, m->type.dtype, m->integer);
    const struct ir_value *v = m->value >= 0 ? &w->g->values.v[m->value] : NULL;
    if (v && v->kind == IR_NUMBER)
        name = dtype_kind_of[m->type.dtype] == KIND_FLOAT ? onnx_put_scalar(w, m->type.dtype, v->number)
                                                          : onnx_put_integer(w, m->type.dtype, v->integer);
    if (m->layout && name) name = onnx_put_view(w, name, &m->whole, &m->type, m->layout);
    return onnx_put_as(w, m->name, name) ? KILN_OK : error_pending;
}

static void put_ports(struct onnx_writer *w, const struct onnx_export *e, struct str *graph)
{
    for (size_t i = 0; i < e->n_given; i++)
        if (!e->given[i].weight)
            onnx_put_port(graph, GRAPH_INPUT, e->given[i].name, &e->given[i].type, e->symbols, e->given[i].symbols);
    for (size_t i = 0; i < e->n_made; i++) {
        struct type t = e->made[i].type;
        for (int d = 0; d < t.rank; d++)
            if (e->made[i].open >> d & 1) t.dims[d] = -1;
        onnx_put_port(graph, GRAPH_OUTPUT, e->made[i].name, &t, NULL, NULL);
    }
    wire_put_text(graph, GRAPH_NAME, e->name);
}

// --- weights

// Of values that are one weight the first that is needed.
static bool is_written(const struct onnx_writer *w, const struct onnx_export *e, size_t at)
{
    const struct onnx_given *given = &e->given[at];
    if (!given->weight || given->value < 0 || !w->names[given->value]) return false;
    for (size_t i = 0; i < at; i++)
        if (e->given[i].weight == given->weight && e->given[i].value >= 0 && w->names[e->given[i].value]) return false;
    return true;
}

static uint64_t weight_size_B(const struct onnx_given *g)
{
    return (uint64_t)type_numel(&g->type) * dtype_size_B[g->type.dtype];
}

// All of the field but the elements, which come at its end.
static kiln_status put_weight_head(const struct onnx_given *g, struct str *s)
{
    struct str head;
    str_init(&head);
    onnx_tensor_bytes(&head, g->type.dtype, g->type.rank, g->type.dims, g->name);
    wire_put_head(&head, TENSOR_RAW, weight_size_B(g));
    wire_put_head(s, GRAPH_INITIALIZER, head.len + weight_size_B(g));
    str_addn(s, str_text(&head), head.len);
    if (head.failed) str_fail(s);
    str_free(&head);
    return str_check(s);
}

// In Kiln's memory any byte but 0 is true.
static void make_truths(unsigned char *data, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) data[i] = data[i] != 0;
}

static kiln_status write_weight(struct io_writer *out, const struct onnx_given *g)
{
    struct str head;
    void *data = NULL;
    uint64_t size_B = weight_size_B(g);
    str_init(&head);
    kiln_status status = put_weight_head(g, &head);
    if (!status) status = io_alloc(out->where, size_B, &data);
    if (!status) status = kiln_read(g->weight, data, (size_t)size_B);
    if (!status && g->type.dtype == KILN_BOOL) make_truths(data, size_B);
    if (!status) status = io_write(out, str_text(&head), head.len);
    if (!status) status = io_write(out, data, size_B);
    str_free(&head);
    free(data);
    return status;
}

static kiln_status add_weights_size(const struct onnx_writer *w, const struct onnx_export *e, uint64_t *size_B)
{
    for (size_t i = 0; i < e->n_given; i++) {
        struct str head;
        if (!is_written(w, e, i)) continue;
        str_init(&head);
        kiln_status status = put_weight_head(&e->given[i], &head);
        *size_B += head.len + weight_size_B(&e->given[i]);
        str_free(&head);
        TRY(status);
    }
    return KILN_OK;
}

// --- the whole

static int ir_version(int opset)
{
    return opset >= 21 ? 10 : opset >= 19 ? 9 : 8;
}

static void put_model(const struct onnx_writer *w, struct str *s)
{
    struct str opset;
    str_init(&opset);
    wire_put_number(&opset, 2, (uint64_t)w->opset);
    wire_put_number(s, MODEL_IR, (uint64_t)ir_version(w->opset));
    wire_put_text(s, MODEL_PRODUCER, "kiln");
    wire_put_text(s, MODEL_PRODUCER_VERSION, KILN_VERSION_STRING);
    wire_put_message(s, MODEL_OPSET, &opset);
}

static kiln_status write_parts(const struct onnx_writer *w, const struct onnx_export *e, struct io_writer *out,
                               const struct str *head, const struct str *ports)
{
    TRY(io_write(out, str_text(head), head->len));
    TRY(io_write(out, str_text(&w->nodes), w->nodes.len));
    TRY(io_write(out, str_text(ports), ports->len));
    for (size_t i = 0; i < e->n_given; i++)
        if (is_written(w, e, i)) TRY(write_weight(out, &e->given[i]));
    return KILN_OK;
}

static kiln_status write_file(const char *function, const struct onnx_writer *w, const struct onnx_export *e,
                              const char *path, struct str *head, const struct str *ports)
{
    struct io_writer out;
    uint64_t graph_B = w->nodes.len + ports->len;
    TRY(str_check(&w->nodes));
    TRY(str_check(ports));
    TRY(add_weights_size(w, e, &graph_B));
    put_model(w, head);
    wire_put_head(head, MODEL_GRAPH, graph_B);
    TRY(str_check(head));
    if (head->len + graph_B > FILE_MAX_B)
        return error_set(KILN_E_UNSUPPORTED, "%s: %s: it would have %llu bytes, a file of ONNX has at most %llu",
                         function, path, (unsigned long long)(head->len + graph_B), (unsigned long long)FILE_MAX_B);
    TRY(io_create(&out, function, path));
    kiln_status status = write_parts(w, e, &out, head, ports);
    if (!status) status = io_commit(&out);
    io_abandon(&out);
    return status;
}

struct counting {
    const struct onnx_export *e;
    size_t n;
};

static void count(void *user, uintptr_t caller, const char *what, const char *why)
{
    struct counting *c = user;
    c->n++;
    c->e->cannot(c->e->user, caller, what, why);
}

static kiln_status write_all(const char *function, struct onnx_writer *w, const struct onnx_export *e, const char *path)
{
    struct counting c = {e, 0};
    TRY(onnx_writer_init(w, e));
    w->cannot = count;
    w->user = &c;
    TRY(onnx_write_nodes(w, e));
    for (size_t i = 0; i < e->n_made && !c.n; i++) TRY(put_made(w, &e->made[i]));
    if (c.n) return KILN_OK;
    struct str head, ports;
    str_init(&head);
    str_init(&ports);
    put_ports(w, e, &ports);
    kiln_status status = write_file(function, w, e, path, &head, &ports);
    str_free(&head);
    str_free(&ports);
    return status;
}

kiln_status onnx_write(const char *function, const struct onnx_export *e, const char *path)
{
    struct onnx_writer w;
    kiln_status status = write_all(function, &w, e, path);
    onnx_writer_finish(&w);
    return status;
}
