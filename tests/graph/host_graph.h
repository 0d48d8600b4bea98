// Graphs on the host, element by element, for tests: what the ops mean by their rows, with nothing of the passes in it.
// Elementwise ops by the row's expression, views by their layouts, and the few others that tests of passes need.
#pragma once
#include "base/float16.h"
#include "ir/graph.h"
#include "ops/elementwise.h"
#include "ops/expr.h"
#include "ops/families.h"
#include "scalar/scalar.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef union scalar_value host_element; // in the class of the dtype

static inline host_element host_class(host_element v, enum scalar_class from, enum scalar_class to)
{
    static const char *const text[] = {"f32(x)", "f64(x)", "i32(x)", "i64(x)", "bool(x)"};
    static struct arena kept;
    static struct scalar_dag dags[CLASS_COUNT][CLASS_COUNT];
    struct scalar_dag *dag = &dags[from][to];
    struct scalar_param x = {"x", from};
    if (from == to) return v;
    if (!dag->nodes) assert_int_equal(scalar_parse(&kept, text[to], &x, 1, to, dag), KILN_OK);
    return scalar_eval(dag, &v);
}

static inline host_element host_narrow(host_element v, unsigned dtype)
{
    if (dtype == KILN_F16) v.f32 = f16_to_float(f16_from_float(v.f32));
    if (dtype == KILN_BF16) v.f32 = bf16_to_float(bf16_from_float(v.f32));
    if (dtype == KILN_I8) v.i32 = (int8_t)v.i32;
    if (dtype == KILN_U8) v.i32 = (uint8_t)v.i32;
    if (dtype == KILN_I16) v.i32 = (int16_t)v.i32;
    if (dtype == KILN_U16) v.i32 = (uint16_t)v.i32;
    if (dtype == KILN_U32) v.i64 = (uint32_t)v.i64;
    return v;
}

static inline host_element host_number(double number, int64_t integer, enum scalar_class cls)
{
    host_element r = {.bits = 0};
    if (cls == CLASS_F32) r.f32 = (float)number;
    if (cls == CLASS_F64) r.f64 = number;
    if (cls == CLASS_I32) r.i32 = (int32_t)integer;
    if (cls == CLASS_I64) r.i64 = integer;
    if (cls == CLASS_BOOL) r.b = number != 0 || integer != 0;
    return r;
}

// What `full` and its like write.
static inline host_element host_real(double v, unsigned dtype)
{
    int64_t whole = isnan(v) ? 0 : v >= 0x1p63 ? INT64_MAX : v < -0x1p63 ? INT64_MIN : (int64_t)v;
    if (dtype == KILN_U64 && v >= 0x1p63) whole = v < 0x1p64 ? (int64_t)(uint64_t)v : -1;
    return host_narrow(host_number(v, whole, dtype_class(dtype)), dtype);
}

static inline bool host_same(host_element a, host_element b, unsigned dtype)
{
    switch (dtype_class(dtype)) {
    case CLASS_F32: return (isnan(a.f32) && isnan(b.f32)) || float16_bits(a.f32) == float16_bits(b.f32);
    case CLASS_F64: return (isnan(a.f64) && isnan(b.f64)) || a.i64 == b.i64;
    case CLASS_I32: return a.i32 == b.i32;
    case CLASS_I64: return a.i64 == b.i64;
    default: return a.b == b.b;
    }
}

static inline double host_double(host_element v, unsigned dtype)
{
    return host_class(v, dtype_class(dtype), CLASS_F64).f64;
}

static inline void host_index(const struct type *t, int64_t flat, int64_t *index)
{
    for (int i = t->rank - 1; i >= 0; i--) {
        index[i] = flat % t->dims[i];
        flat /= t->dims[i];
    }
}

// Where element `index` of `out` reads an operand that is broadcast to it.
static inline int64_t host_broadcast(const struct type *out, const int64_t *index, const struct type *t)
{
    int64_t at = 0;
    for (int i = 0; i < t->rank; i++) at = at * t->dims[i] + (t->dims[i] == 1 ? 0 : index[out->rank - t->rank + i]);
    return at;
}

struct host_run {
    const struct kiln_graph *g;
    host_element **values; // NULL for numbers and tokens
};

static inline void host_elementwise(struct host_run *h, const struct ir_node *n, const struct op_call *c)
{
    const struct op_elementwise *e = n->op->elementwise;
    const struct type *out = &c->out[0];
    enum scalar_class cls = e->type == TYPE_LOGICAL ? CLASS_BOOL : dtype_class(c->compute_dtype);
    bool whole = cls == CLASS_I32 || cls == CLASS_I64;
    const char *text = whole && e->iexpr ? e->iexpr : cls == CLASS_BOOL && e->bexpr ? e->bexpr : e->expr;
    struct scalar_param p[8];
    struct scalar_dag dag;
    struct arena a;
    for (int i = 0; i < n->n_in; i++)
        p[i] = (struct scalar_param){elementwise_name_in_expr(n->op, i), e->condition_mask >> i & 1 ? CLASS_BOOL : cls};
    for (int i = 0; i < n->op->n_attrs; i++) p[n->n_in + i] = (struct scalar_param){n->op->attrs[i].name, cls};
    arena_init(&a);
    assert_int_equal(scalar_parse(&a, text, p, n->n_in + n->op->n_attrs, cls, &dag), KILN_OK);
    for (int64_t k = 0; k < type_numel(out); k++) {
        int64_t index[MAX_RANK];
        host_element v[8];
        host_index(out, k, index);
        for (int i = 0; i < n->n_in; i++) {
            const struct ir_value *x = &h->g->values.v[ir_operands(h->g, n)[i]];
            v[i] = x->kind == IR_NUMBER
                       ? host_number(x->number, x->integer, p[i].cls)
                       : host_class(h->values[x - h->g->values.v][host_broadcast(out, index, &x->type)],
                                    dtype_class(x->type.dtype), p[i].cls);
        }
        for (int i = 0; i < n->op->n_attrs; i++)
            v[n->n_in + i] = host_number(n->attrs[i].f, (int64_t)n->attrs[i].f, cls);
        host_element r = scalar_eval(&dag, v);
        r = host_class(r, dag.nodes[dag.root].cls, dtype_class(out->dtype));
        h->values[n->first_out][k] = host_narrow(r, out->dtype);
    }
    arena_finish(&a);
}

// Layout op, or a copy in row-major order where strides cannot say it.
static inline void host_view(struct host_run *h, const struct ir_node *n, const struct op_call *c)
{
    struct layout in, out;
    bool copy = false;
    const host_element *x = h->values[ir_operands(h->g, n)[0]];
    layout_contiguous(c->in[0], &in);
    assert_int_equal(n->op->fn->view(c, &in, &out, &copy), KILN_OK);
    for (int64_t k = 0; k < type_numel(&c->out[0]); k++) {
        int64_t index[MAX_RANK], at = out.offset;
        host_index(&c->out[0], k, index);
        for (int i = 0; i < c->out[0].rank; i++) at += index[i] * out.strides[i];
        h->values[n->first_out][k] = x[copy ? k : at];
    }
}

// Sums and maxima over all axes that have another size in the result; integers wrap, floats add in order.
static inline void host_reduce(struct host_run *h, const struct ir_node *n, const struct op_call *c)
{
    const struct type *x = c->in[0], *out = &c->out[0];
    const host_element *v = h->values[ir_operands(h->g, n)[0]];
    int64_t count = type_numel(x);
    bool is_max = n->op->index == OP_max;
    assert_true(type_numel(out) == 1); // tests reduce everything
    enum scalar_class cls = dtype_class(out->dtype);
    host_element sum = {.bits = 0};
    for (int64_t k = 0; k < count; k++) {
        host_element e = host_class(v[k], dtype_class(x->dtype), cls);
        bool above = cls == CLASS_F32   ? !(e.f32 <= sum.f32)
                     : cls == CLASS_F64 ? !(e.f64 <= sum.f64)
                     : cls == CLASS_I32 ? e.i32 > sum.i32
                                        : e.i64 > sum.i64;
        bool stuck = k && ((cls == CLASS_F32 && isnan(sum.f32)) || (cls == CLASS_F64 && isnan(sum.f64)));
        if (is_max)
            sum = k == 0 || (above && !stuck) ? e : sum;
        else if (cls == CLASS_I64)
            sum.i64 = (int64_t)((uint64_t)sum.i64 + (uint64_t)e.i64);
        else if (cls == CLASS_F64)
            sum.f64 += e.f64;
        else
            sum.f32 += e.f32;
    }
    h->values[n->first_out][0] = host_narrow(sum, out->dtype);
}

static inline void host_fill(struct host_run *h, const struct ir_node *n, const struct op_call *c, double value)
{
    for (int64_t k = 0; k < type_numel(&c->out[0]); k++) h->values[n->first_out][k] = host_real(value, c->out[0].dtype);
}

static inline void host_node(struct host_run *h, const struct ir_node *n)
{
    const struct type *types[8];
    struct op_call c = {.op = n->op, .n_in = n->n_in, .n_out = 1, .in = types, .attrs = (struct attr *)n->attrs};
    for (int i = 0; i < n->n_in; i++) types[i] = &h->g->values.v[ir_operands(h->g, n)[i]].type;
    assert_int_equal(n->op->fn->infer(&c), KILN_OK);
    if (n->op->flags & OP_ELEMENTWISE) {
        host_elementwise(h, n, &c);
        return;
    }
    if (n->op->flags & OP_VIEW) {
        host_view(h, n, &c);
        return;
    }
    switch (n->op->index) {
    case OP_full:
    case OP_full_like: host_fill(h, n, &c, n->attrs[n->op->n_attrs - 1].f); return;
    case OP_zeros:
    case OP_zeros_like: host_fill(h, n, &c, 0); return;
    case OP_ones:
    case OP_ones_like: host_fill(h, n, &c, 1); return;
    case OP_sum:
    case OP_max: host_reduce(h, n, &c); return;
    case OP_cast:
    case OP_contiguous: break;
    default: fail_msg("host: no %s", n->op->name);
    }
    for (int64_t k = 0; k < type_numel(&c.out[0]); k++) {
        host_element v = h->values[ir_operands(h->g, n)[0]][k];
        v = host_class(v, dtype_class(types[0]->dtype), dtype_class(c.out[0].dtype));
        h->values[n->first_out][k] = host_narrow(v, c.out[0].dtype);
    }
}

// `inputs`: elements of the inputs, in their order.
static inline void host_run(struct host_run *h, const struct kiln_graph *g, host_element *const *inputs)
{
    *h = (struct host_run){g, calloc(g->values.n, sizeof *h->values)};
    for (size_t i = 0; i < g->values.n; i++) {
        const struct ir_value *v = &g->values.v[i];
        size_t size_B = sizeof(host_element) * ((size_t)type_numel(&v->type) + 1);
        if (v->kind != IR_NODE && v->kind != IR_INPUT) continue;
        h->values[i] = calloc(1, size_B);
        if (v->kind == IR_INPUT) memcpy(h->values[i], *inputs++, size_B - sizeof(host_element));
    }
    for (size_t i = 0; i < g->nodes.n; i++) host_node(h, &g->nodes.v[i]);
}

static inline void host_finish(struct host_run *h)
{
    for (size_t i = 0; i < h->g->values.n; i++) free(h->values[i]);
    free(h->values);
}

// A small generator, the same on each machine.
static inline uint64_t host_random(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15u;
    uint64_t z = (*state ^ (*state >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

// Special values first, then random ones: near 1, some of them whole numbers, some of any size.
static inline host_element host_sample(unsigned dtype, uint64_t k, uint64_t *state)
{
    static const double floats[] = {0.0,  -0.0, 1, -1,    INFINITY, -INFINITY, NAN,  2,     -2,       0.5,
                                    -0.5, 6,    7, 1e-40, -1e-40,   3.5,       -2.5, 65504, 0x1p-126, 3e38};
    static const int64_t wholes[] = {0,     1,      -1,        2,         -2,        6,         7, 127, -128, 255,
                                     32767, -32768, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, 3, 100, -100, 64};
    uint64_t r = host_random(state);
    if (dtype == KILN_BOOL) return (host_element){.b = r & 1};
    if (dtype_kind_of[dtype] == KIND_INT) {
        int64_t v = k < COUNT_OF(wholes) ? wholes[k] : r & 1 ? (int64_t)(r >> 8) : (int64_t)(r >> 58) - 32;
        return host_narrow(host_class((host_element){.i64 = v}, CLASS_I64, dtype_class(dtype)), dtype);
    }
    double near = ((double)(r >> 11) * 0x1p-53 - 0.5) * 8;
    if (k >= COUNT_OF(floats) && (r & 7) == 0) near = ldexp(near, (int)(r >> 3 & 1023) - 512);
    if (k >= COUNT_OF(floats) && (r & 7) == 1) near = rint(near);
    return host_real(k < COUNT_OF(floats) ? floats[k] : near, dtype);
}
#define HOST_SPECIALS 20
