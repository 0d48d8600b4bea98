// Nodes, constants, and what the functions of writers.def ask of the node that they write.
#include "base/caller.h"
#include "onnx/model.h"
#include "onnx/wire_out.h"
#include "onnx/write.h"
#include "scalar/number.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Fields of ONNX's messages.
enum { GRAPH_NODE = 1, NODE_IN = 1, NODE_OUT = 2, NODE_NAME = 3, NODE_OP = 4, NODE_ATTR = 5 };
enum { ATTR_NAME = 1, ATTR_F = 2, ATTR_I = 3, ATTR_S = 4, ATTR_T = 5, ATTR_LIST = 8, ATTR_TYPE = 20 };
enum { TENSOR_DIM = 1, TENSOR_TYPE = 2, TENSOR_NAME = 8, TENSOR_RAW = 9 };

static void put_attr(struct onnx_writer *w, const char *name, struct str *value, enum onnx_attr_type type)
{
    struct str a;
    str_init(&a);
    wire_put_text(&a, ATTR_NAME, name);
    str_addn(&a, str_text(value), value->len);
    wire_put_number(&a, ATTR_TYPE, type);
    if (value->failed) str_fail(&a);
    str_free(value);
    wire_put_message(&w->pending, NODE_ATTR, &a);
}

void onnx_put_int(struct onnx_writer *w, const char *name, int64_t v)
{
    struct str s;
    str_init(&s);
    wire_put_number(&s, ATTR_I, (uint64_t)v);
    put_attr(w, name, &s, ONNX_INT);
}

void onnx_put_float(struct onnx_writer *w, const char *name, double v)
{
    struct str s;
    str_init(&s);
    wire_put_float(&s, ATTR_F, (float)v);
    put_attr(w, name, &s, ONNX_FLOAT);
}

void onnx_put_text(struct onnx_writer *w, const char *name, const char *text)
{
    struct str s;
    str_init(&s);
    wire_put_text(&s, ATTR_S, text);
    put_attr(w, name, &s, ONNX_STRING);
}

void onnx_put_list(struct onnx_writer *w, const char *name, size_t n, const int64_t *v)
{
    struct str s;
    str_init(&s);
    for (size_t i = 0; i < n; i++) wire_put_number(&s, ATTR_LIST, (uint64_t)v[i]);
    put_attr(w, name, &s, ONNX_INTS);
}

void onnx_needs(struct onnx_writer *w, int opset)
{
    if (opset > w->opset) w->opset = opset;
}

const char *onnx_new_name(struct onnx_writer *w, const char *op)
{
    char name[96];
    snprintf(name, sizeof name, "%s%s_%u", w->prefix, op, w->n_named++);
    return arena_strdup(&w->arena, name);
}

static kiln_status put_node(struct onnx_writer *w, const char *op, size_t n_in, const char *const *in, size_t n_out,
                            const char *const *out)
{
    struct str s;
    str_init(&s);
    while (n_in && !*in[n_in - 1]) n_in--; // what is left out at the end
    for (size_t i = 0; i < n_in; i++) wire_put_text(&s, NODE_IN, in[i]);
    for (size_t i = 0; i < n_out; i++) wire_put_text(&s, NODE_OUT, out[i]);
    wire_put_text(&s, NODE_NAME, out[0]);
    wire_put_text(&s, NODE_OP, op);
    str_addn(&s, str_text(&w->pending), w->pending.len);
    if (w->pending.failed) str_fail(&s);
    wire_put_message(&w->nodes, GRAPH_NODE, &s);
    str_free(&w->pending);
    return str_check(&w->nodes);
}

kiln_status onnx_put_all(struct onnx_writer *w, const char *op, size_t n_in, const char *const *in, size_t n_out,
                         const char **out)
{
    bool whole = !error_pending;
    for (size_t i = 0; i < n_in; i++) whole &= in[i] != NULL;
    for (size_t i = 0; i < n_out; i++) out[i] = whole ? onnx_new_name(w, op) : NULL;
    for (size_t i = 0; i < n_out; i++) whole &= out[i] != NULL;
    if (whole) return put_node(w, op, n_in, in, n_out, out);
    str_free(&w->pending);
    return error_pending;
}

const char *onnx_put(struct onnx_writer *w, const char *op, size_t n_in, const char *const *in)
{
    const char *out;
    return onnx_put_all(w, op, n_in, in, 1, &out) ? NULL : out;
}

const char *onnx_put_as(struct onnx_writer *w, const char *name, const char *value)
{
    return value && !put_node(w, "Identity", 1, &value, 1, &name) ? name : NULL;
}

const char *onnx_put_cast(struct onnx_writer *w, const char *x, unsigned from, unsigned to)
{
    if (from == to || !x) return x;
    onnx_put_int(w, "to", onnx_dtype_number(to));
    return PUT(w, "Cast", x);
}

const char *onnx_cannot(struct onnx_writer *w, const char *format, ...)
{
    char why[256];
    va_list args;
    w->failed = true;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    const struct ir_node *n = onnx_node_of(w);
    w->cannot(w->user, w->callers ? w->callers[w->node] : n->caller, n->op->name, why);
    return NULL;
}

// --- constants

void onnx_tensor_bytes(struct str *s, unsigned dtype, int rank, const int64_t *dims, const char *name)
{
    for (int i = 0; i < rank; i++) wire_put_number(s, TENSOR_DIM, (uint64_t)dims[i]);
    wire_put_number(s, TENSOR_TYPE, (uint64_t)onnx_dtype_number(dtype));
    if (name) wire_put_text(s, TENSOR_NAME, name);
}

static const char *find_kept(struct onnx_writer *w, const struct str *s)
{
    for (size_t i = 0; i < w->kept.n; i++)
        if (w->kept.v[i].size_B == s->len && !memcmp(w->kept.v[i].bytes, s->text, s->len)) return w->kept.v[i].name;
    return NULL;
}

// As the attribute of a node, so that it is no weight.
static const char *keep(struct onnx_writer *w, struct str *s)
{
    const char *found = find_kept(w, s);
    if (found) return found;
    char *bytes = arena_alloc(&w->arena, s->len);
    struct onnx_kept k = {.bytes = bytes, .size_B = s->len};
    struct str value, pending = w->pending; // of the node that the constant is for
    if (!bytes) return NULL;
    memcpy(bytes, s->text, s->len);
    str_init(&w->pending);
    str_init(&value);
    wire_put_bytes(&value, ATTR_T, s->text, s->len);
    put_attr(w, "value", &value, ONNX_TENSOR);
    k.name = onnx_put(w, "Constant", 0, NULL);
    w->pending = pending;
    return !k.name || vec_push(&w->kept, k) ? NULL : k.name;
}

const char *onnx_put_tensor(struct onnx_writer *w, unsigned dtype, int rank, const int64_t *dims, const void *data)
{
    struct type t = {.dtype = (uint8_t)dtype, .rank = (uint8_t)rank};
    struct str s;
    if (rank) memcpy(t.dims, dims, sizeof *dims * (size_t)rank);
    str_init(&s);
    onnx_tensor_bytes(&s, dtype, rank, dims, NULL);
    wire_put_bytes(&s, TENSOR_RAW, data, (size_t)type_numel(&t) * dtype_size_B[dtype]);
    const char *name = str_check(&s) ? NULL : keep(w, &s);
    str_free(&s);
    return name;
}

const char *onnx_put_ints(struct onnx_writer *w, size_t n, const int64_t *v)
{
    const int64_t dims[] = {(int64_t)n};
    return onnx_put_tensor(w, KILN_I64, 1, dims, v);
}

static const char *put_value(struct onnx_writer *w, unsigned dtype, union scalar_value v)
{
    unsigned char at[8];
    number_write(dtype, at, v);
    return onnx_put_tensor(w, dtype, 0, NULL, at);
}

static union scalar_value value_of(enum scalar_class cls, double number, int64_t integer)
{
    union scalar_value v = {.bits = 0};
    switch (cls) {
    case CLASS_F32: v.f32 = (float)number; break;
    case CLASS_F64: v.f64 = number; break;
    case CLASS_I32: v.i32 = (int32_t)(uint32_t)(uint64_t)integer; break;
    case CLASS_I64: v.i64 = integer; break;
    default: v.b = integer != 0; break;
    }
    return v;
}

const char *onnx_put_scalar(struct onnx_writer *w, unsigned dtype, double number)
{
    enum scalar_class cls = dtype_class(dtype);
    bool is_float = cls == CLASS_F32 || cls == CLASS_F64;
    return put_value(w, dtype, value_of(cls, number, is_float ? 0 : cls == CLASS_BOOL ? number != 0 : (int64_t)number));
}

const char *onnx_put_integer(struct onnx_writer *w, unsigned dtype, int64_t number)
{
    return put_value(w, dtype, value_of(dtype_class(dtype), (double)number, number));
}

const char *onnx_put_full(struct onnx_writer *w, const struct type *t, double number, int64_t integer)
{
    unsigned dtype = onnx_computes_in(w, "ConstantOfShape", t->dtype);
    unsigned char at[8];
    struct str s, value;
    str_init(&s);
    str_init(&value);
    if (dtype == DTYPE_COUNT) return NULL;
    number_write(t->dtype, at, value_of(dtype_class(t->dtype), number, integer)); // rounded as it is there
    number_write(dtype, at, number_read(t->dtype, at));
    onnx_tensor_bytes(&s, dtype, 1, (const int64_t[]){1}, NULL);
    wire_put_bytes(&s, TENSOR_RAW, at, dtype_size_B[dtype]);
    const char *shape = onnx_put_ints(w, t->rank, t->dims);
    wire_put_bytes(&value, ATTR_T, str_text(&s), s.len);
    if (s.failed) str_fail(&value);
    str_free(&s);
    put_attr(w, "value", &value, ONNX_TENSOR);
    return onnx_put_cast(w, PUT(w, "ConstantOfShape", shape), dtype, t->dtype);
}

// --- the node being written

const struct ir_node *onnx_node_of(const struct onnx_writer *w)
{
    return &w->g->nodes.v[w->node];
}

int onnx_operands(const struct onnx_writer *w)
{
    const struct ir_node *n = onnx_node_of(w);
    return n->n_in - !!(n->op->flags & OP_EFFECT);
}

int32_t onnx_value_in(const struct onnx_writer *w, int i)
{
    return ir_operands(w->g, onnx_node_of(w))[i];
}

int32_t onnx_value_out(const struct onnx_writer *w, int i)
{
    return onnx_node_of(w)->first_out + i;
}

bool onnx_has_operand(const struct onnx_writer *w, int i)
{
    return i < onnx_operands(w) && onnx_value_in(w, i) >= 0;
}

const struct type *onnx_type_in(const struct onnx_writer *w, int i)
{
    return &w->g->values.v[onnx_value_in(w, i)].type;
}

const struct type *onnx_type_out(const struct onnx_writer *w, int i)
{
    return &w->g->values.v[onnx_value_out(w, i)].type;
}

static const char *put_weak(struct onnx_writer *w, const struct ir_value *v, unsigned dtype)
{
    enum scalar_class cls = dtype_class(dtype);
    bool is_float = cls == CLASS_F32 || cls == CLASS_F64, from_float = dtype_kind_of[v->type.dtype] == KIND_FLOAT;
    if (is_float) return onnx_put_scalar(w, dtype, from_float ? v->number : (double)v->integer);
    return onnx_put_integer(w, dtype,
                            !from_float         ? v->integer
                            : cls == CLASS_BOOL ? v->number != 0
                                                : (int64_t)v->number);
}

const char *onnx_operand(struct onnx_writer *w, int i, unsigned dtype)
{
    int32_t value = onnx_value_in(w, i);
    const struct ir_value *v = &w->g->values.v[value];
    if (dtype >= DTYPE_COUNT) return NULL;
    return v->kind == IR_NUMBER ? put_weak(w, v, dtype) : onnx_put_cast(w, w->names[value], v->type.dtype, dtype);
}

const char *onnx_operand_as_is(struct onnx_writer *w, int i)
{
    return onnx_operand(w, i, onnx_type_in(w, i)->dtype);
}

void onnx_gives(struct onnx_writer *w, int i, const char *name, unsigned dtype)
{
    w->names[onnx_value_out(w, i)] = onnx_put_cast(w, name, dtype, onnx_type_out(w, i)->dtype);
}

int64_t onnx_attr_of(const struct onnx_writer *w, int i)
{
    return onnx_node_of(w)->attrs[i].i;
}

int onnx_axis_of(const struct onnx_writer *w, int i, int rank)
{
    return axis_normalize(onnx_attr_of(w, i), rank);
}

bool onnx_is_open(const struct onnx_writer *w, int32_t value, int dim)
{
    return w->open && w->open[(size_t)value * MAX_RANK + (size_t)dim];
}

unsigned onnx_computes_in(struct onnx_writer *w, const char *op, unsigned dtype)
{
    unsigned d = onnx_dtype_for(op, dtype);
    if (d == DTYPE_COUNT) onnx_cannot(w, "ONNX has no %s of %s", op, dtype_name(dtype));
    return d;
}
