// Derivatives, by the chain rule backwards through the DAG.
//
// Input: a DAG without reductions on the path from the parameter. Output: a DAG that computes dy * d(root)/d(param).
// Walk the nodes from the root to the first one. The adjoint of a node is dy * d(root)/d(node), the sum of what its
// users pass down; a node without adjoint has derivative 0, and none is ever multiplied out. Only nodes that depend on
// the parameter get an adjoint, so the result holds what is needed and no more. Because users come after a node in
// topological order, its adjoint is complete when it is visited.
#include "scalar/dag.h"
#include <stdio.h>

struct differ {
    struct dag_builder *b;
    const struct scalar_dag *d;
    const int *at;       // node of d -> node of the builder
    int *adjoint;        // node of d -> its adjoint in the builder; -1: none yet
    const bool *depends; // on the parameter
};

static int prim2(struct differ *f, enum scalar_prim prim, int x, int y)
{
    return dag_prim(f->b, prim, x, y, 0);
}

static int number(struct differ *f, int like, double value)
{
    return like < 0 ? -1 : dag_number(f->b, dag_class(f->b, like), value);
}

static int choose(struct differ *f, int condition, int yes, int no)
{
    return dag_prim(f->b, PRIM_select, condition, yes, no);
}

// Adds `amount` to the adjoint of argument k of node i.
static kiln_status pass(struct differ *f, int i, int k, int amount)
{
    int arg = f->d->nodes[i].arg[k];
    if (amount < 0) return error_pending;
    f->adjoint[arg] = f->adjoint[arg] < 0 ? amount : prim2(f, PRIM_add, f->adjoint[arg], amount);
    return f->adjoint[arg] < 0 ? error_pending : KILN_OK;
}

// What argument k of a primitive gets from the adjoint g of its value; *none when the derivative is 0 everywhere.
static int prim_gradient(struct differ *f, int i, int k, int g, bool *none)
{
    const struct scalar_node *n = &f->d->nodes[i];
    int x = f->at[n->arg[0]], y = n->n_args > 1 ? f->at[n->arg[1]] : 0, zero = number(f, g, 0);
    switch ((enum scalar_prim)n->code) {
    case PRIM_add: return g;
    case PRIM_sub: return k == 0 ? g : prim2(f, PRIM_neg, g, 0);
    case PRIM_mul: return prim2(f, PRIM_mul, g, k == 0 ? y : x);
    case PRIM_div:
        if (k == 0) return prim2(f, PRIM_div, g, y);
        return prim2(f, PRIM_neg, prim2(f, PRIM_div, prim2(f, PRIM_mul, g, f->at[i]), y), 0);
    case PRIM_mad:
    case PRIM_mad_exact: return k == 2 ? g : prim2(f, PRIM_mul, g, k == 0 ? y : x);
    case PRIM_neg: return prim2(f, PRIM_neg, g, 0);
    case PRIM_sqrt: return prim2(f, PRIM_div, prim2(f, PRIM_mul, g, number(f, g, 0.5)), f->at[i]);
    case PRIM_abs: {
        int negative = choose(f, prim2(f, PRIM_lt, x, zero), prim2(f, PRIM_neg, g, 0), zero);
        return choose(f, prim2(f, PRIM_gt, x, zero), g, negative);
    }
    case PRIM_min:
    case PRIM_max: {
        // Equal arguments share the gradient.
        int mine = k == 0 ? x : y, other = k == 0 ? y : x;
        int wins = prim2(f, n->code == PRIM_max ? PRIM_gt : PRIM_lt, mine, other);
        int half = prim2(f, PRIM_mul, g, number(f, g, 0.5));
        return choose(f, wins, g, choose(f, prim2(f, PRIM_eq, mine, other), half, zero));
    }
    case PRIM_select:
    case PRIM_rare: return k == 1 ? choose(f, x, g, zero) : choose(f, x, zero, g);
    case PRIM_copysign: {
        if (k == 1) break;
        int same = prim2(f, PRIM_eq, prim2(f, PRIM_signbit, x, 0), prim2(f, PRIM_signbit, y, 0));
        return choose(f, same, g, prim2(f, PRIM_neg, g, 0));
    }
    case PRIM_to_f32:
    case PRIM_to_f64: return prim2(f, f->d->nodes[n->arg[0]].cls == CLASS_F32 ? PRIM_to_f32 : PRIM_to_f64, g, 0);
    default: break;
    }
    *none = true;
    return -1;
}

static int lib_gradient(struct differ *f, int i, int k, int g)
{
    const struct scalar_node *n = &f->d->nodes[i];
    const struct scalar_lib_row *row = scalar_lib_row(n->code);
    if (!row->grad[k]) {
        error_set(KILN_E_UNSUPPORTED, "expression: %s has no derivative", row->name);
        return -1;
    }
    const char *const one[] = {"x"}, *const more[] = {"a", "b", "c"};
    struct scalar_param params[5];
    int inputs[5];
    for (int j = 0; j < row->arity; j++) {
        params[j] = (struct scalar_param){row->arity == 1 ? one[j] : more[j], n->cls};
        inputs[j] = f->at[n->arg[j]];
    }
    params[row->arity] = (struct scalar_param){"y", n->cls};
    inputs[row->arity] = f->at[i];
    params[row->arity + 1] = (struct scalar_param){"dy", n->cls};
    inputs[row->arity + 1] = g;
    struct scalar_dag rule;
    if (scalar_parse(&f->b->scratch, row->grad[k], params, row->arity + 2, n->cls, &rule)) return -1;
    return dag_inline(f->b, &rule, inputs);
}

// Hands the adjoint of node i down to its arguments.
static kiln_status visit(struct differ *f, int i)
{
    const struct scalar_node *n = &f->d->nodes[i];
    if (n->kind == SCALAR_REDUCE) return error_set(KILN_E_UNSUPPORTED, "expression: no derivative through a reduction");
    for (int k = 0; k < n->n_args; k++) {
        if (!f->depends[n->arg[k]]) continue;
        bool none = false;
        int amount =
            n->kind == SCALAR_LIB ? lib_gradient(f, i, k, f->adjoint[i]) : prim_gradient(f, i, k, f->adjoint[i], &none);
        if (!none) TRY(pass(f, i, k, amount));
    }
    return KILN_OK;
}

static bool is_float(enum scalar_class cls)
{
    return cls == CLASS_F32 || cls == CLASS_F64;
}

// Fills at, adjoint and depends; the adjoint of the root is the input dy.
static kiln_status prepare(struct differ *f, int param, int dy_param, int *at, bool *depends)
{
    for (int i = 0; i < f->d->n_nodes; i++) {
        const struct scalar_node *n = &f->d->nodes[i];
        int arg[3] = {0};
        for (int k = 0; k < n->n_args; k++) {
            arg[k] = at[n->arg[k]];
            depends[i] = depends[i] || depends[n->arg[k]];
        }
        if (n->kind == SCALAR_INPUT) depends[i] = n->code == param;
        if (!is_float(n->cls)) depends[i] = false;
        at[i] = dag_copy(f->b, n, arg);
        if (at[i] < 0) return error_pending;
        f->adjoint[i] = -1;
    }
    enum scalar_class cls = f->d->nodes[f->d->root].cls;
    f->adjoint[f->d->root] = dag_input(f->b, cls, (uint16_t)dy_param);
    return f->adjoint[f->d->root] < 0 ? error_pending : KILN_OK;
}

static kiln_status differentiate(struct differ *f, int param, int *at, bool *depends, int dy_param, int *root)
{
    TRY(prepare(f, param, dy_param, at, depends));
    enum scalar_class cls = f->d->nodes[f->d->root].cls;
    int result = -1;
    for (int i = f->d->root; i >= 0; i--) {
        const struct scalar_node *n = &f->d->nodes[i];
        if (n->kind == SCALAR_INPUT && n->code == param) {
            cls = n->cls;
            result = depends[i] ? f->adjoint[i] : -1;
        } else if (f->adjoint[i] >= 0 && depends[i]) {
            TRY(visit(f, i));
        }
    }
    *root = result >= 0 ? result : dag_number(f->b, cls, 0);
    return *root < 0 ? error_pending : KILN_OK;
}

kiln_status scalar_diff(struct arena *a, const struct scalar_dag *d, int param, int dy_param, struct scalar_dag *out)
{
    struct dag_builder b;
    dag_begin(&b);
    size_t n = (size_t)d->n_nodes;
    int *at = arena_alloc(&b.scratch, n * sizeof *at), *adjoint = arena_alloc(&b.scratch, n * sizeof *adjoint), root;
    bool *depends = arena_alloc(&b.scratch, n * sizeof *depends);
    kiln_status status = at && adjoint && depends ? KILN_OK : error_pending;
    struct differ f = {.b = &b, .d = d, .at = at, .adjoint = adjoint, .depends = depends};
    if (!status) status = differentiate(&f, param, at, depends, dy_param, &root);
    if (!status) status = dag_finish(&b, a, root, out);
    dag_end(&b);
    return status;
}
