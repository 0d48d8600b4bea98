// Rows of the op table that are ONNX ops by their column alone.
#include "onnx/model.h"
#include "onnx/table.h"
#include "onnx/write.h"
#include "ops/elementwise.h"
#include <string.h>

// An attribute that Kiln holds in f64 and ONNX in f32.
static bool is_exact(const struct attr *a, unsigned dtype)
{
    return a->kind != ATTR_FLOAT || dtype != KILN_F64 || (double)(float)a->f == a->f;
}

static bool map_fits(const struct onnx_map *m, const struct attr *attrs, unsigned dtype)
{
    const struct attr *a = m->attr < 0 ? NULL : &attrs[m->attr];
    // What ONNX takes where it is left out is a number in f32.
    if (!a) return m->kind != ONNX_MAY_BE || dtype != KILN_F64 || m->number == (double)(int)m->number;
    if (m->kind == ONNX_CONSTANT) return a->kind == ATTR_FLOAT ? a->f == m->number : (double)a->i == m->number;
    return (a->kind == ATTR_FLOAT || a->kind == ATTR_INT || a->kind == ATTR_BOOL) && is_exact(a, dtype);
}

static bool row_fits(const struct onnx_row *r, const struct op *op, const struct attr *attrs, unsigned dtype)
{
    unsigned as = onnx_dtype_for(r->name, dtype);
    bool fits = r->op == (int)op->index && !r->fn && as != DTYPE_COUNT;
    if (dtype == KILN_BOOL && as != KILN_BOOL) fits = false; // what integers do is not what truths do
    for (int i = 0; i < r->n_maps && fits; i++) fits = map_fits(&r->maps[i], attrs, dtype);
    return fits;
}

static const struct onnx_row *find_row(const struct op *op, const struct attr *attrs, unsigned dtype)
{
    for (int i = 0; i < onnx_row_count && op_table[op->index % (unsigned)op_count] == op; i++)
        if (row_fits(&onnx_rows[i], op, attrs, dtype)) return &onnx_rows[i];
    return NULL;
}

static void put_map(struct onnx_writer *w, const struct onnx_map *m, const struct attr *attrs)
{
    bool is_number = strspn(m->value, "0123456789.-") == strlen(m->value);
    if (m->kind == ONNX_CONSTANT || m->kind == ONNX_MAY_BE) return; // nothing, or what it is where it is left out
    if (m->kind == ONNX_MUST_BE && !is_number)
        onnx_put_text(w, m->name, m->value);
    else if (m->kind == ONNX_MUST_BE)
        onnx_put_int(w, m->name, (int64_t)m->number);
    else if (attrs[m->attr].kind == ATTR_FLOAT)
        onnx_put_float(w, m->name, attrs[m->attr].f);
    else
        onnx_put_int(w, m->name, attrs[m->attr].i);
}

// In the dtype that the caller has, or the nearest that ONNX's op takes, and back. A truth stays one.
static const char *put_row(struct onnx_writer *w, const struct onnx_row *r, const struct attr *attrs, size_t n_in,
                           const char *const *in, unsigned dtype, bool gives_truth)
{
    const char *as[ELEMENTWISE_MAX_IN];
    unsigned in_dtype = onnx_dtype_for(r->name, dtype);
    for (size_t i = 0; i < n_in; i++) {
        bool condition = op_table[r->op]->elementwise && op_table[r->op]->elementwise->condition_mask >> i & 1;
        as[i] = condition ? in[i] : onnx_put_cast(w, in[i], dtype, in_dtype);
    }
    for (int i = 0; i < r->n_maps; i++) put_map(w, &r->maps[i], attrs);
    onnx_needs(w, r->since);
    const char *y = onnx_put(w, r->name, n_in, as);
    return gives_truth ? y : onnx_put_cast(w, y, in_dtype, dtype);
}

static bool gives_truth(const struct op *op)
{
    const struct op_elementwise *e = op->elementwise;
    return e && (e->type == TYPE_COMPARE || e->type == TYPE_TEST || e->type == TYPE_LOGICAL);
}

const char *onnx_put_row(struct onnx_writer *w, const struct op *op, const struct attr *attrs, size_t n_in,
                         const char *const *in, unsigned dtype)
{
    const struct onnx_row *r = n_in <= ELEMENTWISE_MAX_IN ? find_row(op, attrs, dtype) : NULL;
    return r ? put_row(w, r, attrs, n_in, in, dtype, gives_truth(op)) : NULL;
}

// --- nodes

// The dtype of a node's operands, as its type rule has it.
static unsigned dtype_of_elementwise(const struct onnx_writer *w)
{
    const struct ir_node *n = onnx_node_of(w);
    const struct type *in[ELEMENTWISE_MAX_IN];
    struct op_call c = {.op = n->op, .n_in = onnx_operands(w), .n_out = 1, .in = in, .attrs = (struct attr *)n->attrs};
    for (int i = 0; i < c.n_in; i++) in[i] = onnx_type_in(w, i);
    if (n->op->elementwise->type == TYPE_LOGICAL) return KILN_BOOL;
    return n->op->fn->infer(&c) ? DTYPE_COUNT : c.compute_dtype;
}

static bool write_elementwise(struct onnx_writer *w)
{
    const struct ir_node *n = onnx_node_of(w);
    const char *in[ELEMENTWISE_MAX_IN];
    unsigned dtype = dtype_of_elementwise(w);
    if (dtype == DTYPE_COUNT || !find_row(n->op, n->attrs, dtype)) return false;
    for (int i = 0; i < onnx_operands(w); i++)
        in[i] = onnx_operand(w, i, n->op->elementwise->condition_mask >> i & 1 ? KILN_BOOL : dtype);
    const char *y = onnx_put_row(w, n->op, n->attrs, (size_t)onnx_operands(w), in, dtype);
    onnx_gives(w, 0, y, gives_truth(n->op) ? KILN_BOOL : dtype);
    return true;
}

static const char *put_structured(struct onnx_writer *w, const struct onnx_row *r, unsigned dtype)
{
    const struct ir_node *n = onnx_node_of(w);
    size_t n_in = (size_t)onnx_operands(w);
    const char **in = arena_alloc(&w->arena, n_in * sizeof *in);
    for (size_t i = 0; in && i < n_in; i++) {
        bool index = n->op->indexed.bound != INDEX_NONE && n->op->indexed.operand == i;
        unsigned as = !index                                       ? onnx_dtype_for(r->name, dtype)
                      : onnx_type_in(w, (int)i)->dtype == KILN_I32 ? KILN_I32
                                                                   : KILN_I64;
        in[i] = onnx_operand(w, (int)i, as);
    }
    for (int i = 0; i < r->n_maps; i++) put_map(w, &r->maps[i], n->attrs);
    onnx_needs(w, r->since);
    return in ? onnx_put(w, r->name, n_in, in) : NULL;
}

// Ops of tensors of one dtype, which the result has, and of indices.
static bool write_structured(struct onnx_writer *w)
{
    const struct ir_node *n = onnx_node_of(w);
    unsigned dtype = onnx_type_out(w, 0)->dtype;
    const struct onnx_row *r = find_row(n->op, n->attrs, dtype);
    if (!r) return false;
    onnx_gives(w, 0, put_structured(w, r, dtype), onnx_dtype_for(r->name, dtype));
    return true;
}

bool onnx_write_row(struct onnx_writer *w)
{
    return onnx_node_of(w)->op->elementwise ? write_elementwise(w) : write_structured(w);
}
