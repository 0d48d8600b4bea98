// Gradients of elementwise ops. The gradient by an input is a hidden op of the table, one kernel, over some inputs, the
// result and dy.
//
// The gradient of such a hidden op, for higher orders, has no row. Its expression is parsed and differentiated by the
// scalar layer, and the DAG is carried out as public ops, node by node: constants are folded on the host, shared nodes
// are computed once, and what the public ops record makes any further order work.
#include "grad/registry.h"
#include "grad/rule.h"
#include "ops/elementwise.h"
#include "ops/expr.h"
#include "ops/lower.h"
#include "tensor/apply.h"
#include <kiln/ops.h>

static kiln_tensor *by_row(const struct op_gradient *g, struct attr *attrs, kiln_tensor *const *in, kiln_tensor *y,
                           kiln_tensor *dy)
{
    kiln_tensor *args[5];
    // A gradient that integers cannot express is taken in f32.
    bool as_float = dtype_kind_of[dy->type.dtype] == KIND_INT &&
                    kernel_info(kernel_of(g->op->family, dtype_class(dy->type.dtype)))->kind == KERNEL_NONE;
    for (int i = 0; i < g->n_in; i++) {
        args[i] = g->from[i] == GRADIENT_DY ? dy : g->from[i] == GRADIENT_Y ? y : in[g->from[i]];
        if (as_float && args[i] && dtype_kind_of[args[i]->type.dtype] == KIND_INT)
            args[i] = kiln_cast(args[i], KILN_F32);
    }
    return op_apply1(g->op, NULL, g->n_in, args, attrs);
}

static kiln_status first_order(struct tape_node *n, const uint8_t *wanted, kiln_tensor *const *in, kiln_tensor *y,
                               kiln_tensor *dy, kiln_tensor **din)
{
    struct elementwise_needs needs = grad_elementwise_needs(n->op);
    for (int i = 0; i < n->n_in; i++) {
        if (!wanted[i] || !(needs.some >> i & 1)) continue;
        din[i] = needs.pass >> i & 1 ? dy : by_row(&n->op->gradients[i], n->attrs, in, y, dy);
        if (!din[i]) return error_pending;
    }
    return KILN_OK;
}

// A DAG as public ops

#define MAX_PARAMS (5 + ELEMENTWISE_MAX_PARAMS + 1)

struct rule_walk {
    const struct scalar_dag *d;
    kiln_tensor **value; // by node; NULL: not computed
    bool *constant;
    union scalar_value inputs[MAX_PARAMS]; // the params' values
    kiln_tensor *const *in;
    int n_in, n_params;
    kiln_tensor *dy;
};

static bool is_constant(const struct rule_walk *w, int i)
{
    const struct scalar_node *n = &w->d->nodes[i];
    if (n->kind == SCALAR_INPUT) return n->code >= w->n_in && n->code < w->n_in + w->n_params;
    bool all = n->kind != SCALAR_REDUCE;
    for (int k = 0; k < n->n_args; k++) all &= w->constant[n->arg[k]];
    return all;
}

static double number_of(const struct rule_walk *w, int i)
{
    struct scalar_dag part = *w->d;
    part.root = i;
    union scalar_value v = scalar_eval(&part, w->inputs);
    switch (w->d->nodes[i].cls) {
    case CLASS_F32: return v.f32;
    case CLASS_F64: return v.f64;
    case CLASS_I32: return v.i32;
    case CLASS_I64: return (double)v.i64;
    default: return v.b;
    }
}

static kiln_tensor *constant_of(const struct rule_walk *w, int i, bool as_tensor)
{
    double v = number_of(w, i);
    enum scalar_class cls = w->d->nodes[i].cls;
    if (cls == CLASS_BOOL) return kiln_scalar_bool(v != 0);
    if (cls == CLASS_I32 || cls == CLASS_I64) return kiln_scalar_int((int64_t)v);
    if (!as_tensor) return kiln_scalar(v);
    // A choice between two constants has no operand to take its dtype from.
    return kiln_full(w->dy->storage ? w->dy->storage->dev : NULL, (kiln_dtype)w->dy->type.dtype, KILN_SHAPE0, v);
}

static kiln_tensor *convert(const struct rule_walk *w, const struct scalar_node *n, kiln_tensor *x)
{
    static const uint8_t dtypes[CLASS_COUNT] = {KILN_F32, KILN_F64, KILN_I32, KILN_I64, KILN_BOOL};
    bool is_float = n->cls == CLASS_F32 || n->cls == CLASS_F64;
    return kiln_cast(x, (kiln_dtype)(is_float ? w->dy->type.dtype : dtypes[n->cls]));
}

static kiln_tensor *compute(const struct rule_walk *w, int i)
{
    const struct scalar_node *n = &w->d->nodes[i];
    if (n->kind == SCALAR_INPUT) return n->code < w->n_in ? w->in[n->code] : w->dy;
    const char *name = scalar_node_op(n);
    const struct op *op = name ? op_find(name) : NULL;
    if (!op) {
        const char *what = n->kind == SCALAR_LIB    ? scalar_lib_name(n->code)
                           : n->kind == SCALAR_PRIM ? scalar_prim_name(n->code)
                                                    : "a reduction";
        error_set(KILN_E_GRADIENT, "backward: a further derivative needs %s, which is no op", what);
        return NULL;
    }
    kiln_tensor *args[3];
    bool all_constant = true;
    for (int k = n->n_args > 2 ? 1 : 0; k < n->n_args; k++) all_constant &= w->constant[n->arg[k]];
    for (int k = 0; k < n->n_args; k++) {
        args[k] = w->constant[n->arg[k]] ? constant_of(w, n->arg[k], all_constant && k) : w->value[n->arg[k]];
        if (!args[k]) return NULL;
    }
    if (op == op_find("cast")) return convert(w, n, args[0]);
    return op_apply1(op, NULL, n->n_args, args, NULL);
}

static kiln_tensor *run_dag(struct rule_walk *w, struct arena *a)
{
    const struct scalar_dag *d = w->d;
    size_t count = (size_t)d->n_nodes;
    bool *needed = arena_alloc(a, count * sizeof *needed);
    w->constant = arena_alloc(a, count * sizeof *w->constant);
    w->value = arena_alloc(a, count * sizeof *w->value);
    if (!needed || !w->constant || !w->value) return NULL;
    for (int i = 0; i <= d->root; i++) w->constant[i] = is_constant(w, i);
    needed[d->root] = true;
    for (int i = d->root; i >= 0; i--)
        for (int k = 0; k < d->nodes[i].n_args && needed[i] && !w->constant[i]; k++) needed[d->nodes[i].arg[k]] = true;
    if (w->constant[d->root]) return constant_of(w, d->root, false);
    for (int i = 0; i <= d->root; i++) {
        if (!needed[i] || w->constant[i]) continue;
        w->value[i] = compute(w, i);
        if (!w->value[i]) return NULL;
    }
    return w->value[d->root];
}

static kiln_status higher_order(struct tape_node *n, const uint8_t *wanted, kiln_tensor *const *in, kiln_tensor *dy,
                                kiln_tensor **din)
{
    const struct op_elementwise *e = n->op->elementwise;
    struct scalar_param params[MAX_PARAMS];
    struct rule_walk w = {.in = in, .n_in = n->n_in, .n_params = n->op->n_attrs, .dy = dy};
    int count = 0;
    for (; count < n->n_in; count++)
        params[count] = (struct scalar_param){elementwise_name_in_expr(n->op, count),
                                              e->condition_mask >> count & 1 ? CLASS_BOOL : CLASS_F64};
    for (int i = 0; i < w.n_params; i++) {
        w.inputs[count].f64 = n->attrs[i].f;
        params[count++] = (struct scalar_param){e->params[i], CLASS_F64};
    }
    struct arena a;
    arena_init(&a);
    struct scalar_dag dag, d;
    kiln_status status = scalar_parse(&a, e->expr, params, count, CLASS_F64, &dag);
    for (int i = 0; i < n->n_in && !status; i++) {
        if (!wanted[i] || (e->condition_mask >> i & 1)) continue;
        status = scalar_diff(&a, &dag, i, count, &d);
        w.d = &d;
        if (!status) din[i] = run_dag(&w, &a);
        if (!status && !din[i]) status = error_pending;
    }
    arena_finish(&a);
    return status;
}

kiln_status elementwise_rule(struct tape_node *n, const uint8_t *wanted, kiln_tensor *const *in,
                             kiln_tensor *const *out, kiln_tensor *dy, kiln_tensor **din)
{
    return n->op->gradients ? first_order(n, wanted, in, out[0], dy, din) : higher_order(n, wanted, in, dy, din);
}
