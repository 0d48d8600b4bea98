// Elementwise ops that are no single op of ONNX, by their expressions: a node for each node of the expression. What the
// expression calls is an op of ONNX, or has an expression of its own, here or in the scalar language.
#include "onnx/write.h"
#include "ops/elementwise.h"
#include "ops/expr.h"
#include "scalar/lib.h"
#include "scalar/prim.h"
#include <stdio.h>
#include <string.h>

enum { DEPTH_MAX = 8, ARGS_MAX = 8 };

// Library functions whose own expressions look at bits. By operations that ONNX has, with a few units in the last
// place: log1p and expm1 after Kahan, in which what rounding loses cancels.
static const struct {
    const char *name, *expr;
} by_hand[] = {
    {"log1p", "u = 1 + x; d = u - 1; d == 0 || x == inf ? x : log(u) * (x / d)"},
    {"expm1", "u = exp(x); d = u - 1; d == 0 ? x : d == -1 || u == inf ? d : d * (x / log(u))"},
    {"sin_near", "sin(x)"},
    {"cos_near", "cos(x)"},
    {"tan_near", "tan(x)"},
    {"exp2", "pow(2, x)"},
    {"log2", "log(x) * 1.4426950408889634074"},
    {"log10", "log(x) * 0.43429448190325182765"},
    {"cbrt", "v = pow(abs(x), 0.33333333333333333333); x == 0 ? x : x < 0 ? -v : v"},
    {"floormod", "r = fmod(a, b); r == 0 ? 0 * b : (r < 0) != (b < 0) ? r + b : r"},
    {"floordiv", "r = fmod(a, b); m = r != 0 && (r < 0) != (b < 0) ? r + b : r; b == 0 ? a / b : rint((a - m) / b)"},
};

struct expression {
    struct onnx_writer *w;
    const struct scalar_dag *dag;
    const char **names; // by node
    int depth;
};

static unsigned dtype_of_class(enum scalar_class cls)
{
    static const uint8_t dtypes[CLASS_COUNT] = {KILN_F32, KILN_F64, KILN_I32, KILN_I64, KILN_BOOL};
    return dtypes[cls];
}

static const char *arg(const struct expression *x, const struct scalar_node *n, int i)
{
    return x->names[n->arg[i]];
}

static unsigned arg_dtype(const struct expression *x, const struct scalar_node *n, int i)
{
    return dtype_of_class(x->dag->nodes[n->arg[i]].cls);
}

static const char *put_constant(struct onnx_writer *w, const struct scalar_node *n)
{
    switch (n->cls) {
    case CLASS_F32: return onnx_put_scalar(w, KILN_F32, n->value.f32);
    case CLASS_F64: return onnx_put_scalar(w, KILN_F64, n->value.f64);
    case CLASS_I32: return onnx_put_integer(w, KILN_I32, n->value.i32);
    case CLASS_I64: return onnx_put_integer(w, KILN_I64, n->value.i64);
    default: return onnx_put_integer(w, KILN_BOOL, n->value.b);
    }
}

static const char *put_dag(struct onnx_writer *w, const struct scalar_dag *d, const char *const *in, int depth);

static const char *put_text(struct onnx_writer *w, const char *text, int n_in, enum scalar_class cls,
                            const char *const *in, int depth)
{
    struct scalar_param params[ELEMENTWISE_MAX_IN];
    struct scalar_dag d;
    for (int i = 0; i < n_in; i++) params[i] = (struct scalar_param){elementwise_input_name(n_in, i), cls};
    return expr_parse(&w->arena, text, params, n_in, cls, &d) ? NULL : put_dag(w, &d, in, depth + 1);
}

// A quotient of integers, 0 where the divisor is 0, as in Kiln; ONNX does not say.
static const char *put_integer_quotient(struct onnx_writer *w, const char *a, const char *b, unsigned dtype)
{
    const char *zero = onnx_put_integer(w, dtype, 0), *one = onnx_put_integer(w, dtype, 1);
    const char *is_zero = PUT(w, "Equal", b, zero);
    const char *safe = PUT(w, "Where", is_zero, one, b);
    return PUT(w, "Where", is_zero, zero, PUT(w, "Div", a, safe));
}

static const char *put_truth(struct onnx_writer *w, const char *op, const char *a, const char *b)
{
    return PUT(w, op, a, b);
}

static const char *put_prim_of_bool(struct onnx_writer *w, const struct expression *x, const struct scalar_node *n)
{
    const char *a = n->n_args > 0 ? arg(x, n, 0) : NULL, *b = n->n_args > 1 ? arg(x, n, 1) : NULL;
    switch (n->code) {
    case PRIM_and: return put_truth(w, "And", a, b);
    case PRIM_or: return put_truth(w, "Or", a, b);
    case PRIM_xor:
    case PRIM_ne: return put_truth(w, "Xor", a, b);
    case PRIM_eq: return PUT(w, "Not", put_truth(w, "Xor", a, b));
    case PRIM_not: return PUT(w, "Not", a);
    default: return NULL;
    }
}

static const char *cannot(struct onnx_writer *w, const char *what)
{
    return w->failed || error_pending ? NULL : onnx_cannot(w, "ONNX has nothing for its \"%s\"", what);
}

static const char *put_prim(struct expression *x, const struct scalar_node *n)
{
    struct onnx_writer *w = x->w;
    const char *a = n->n_args > 0 ? arg(x, n, 0) : NULL, *b = n->n_args > 1 ? arg(x, n, 1) : NULL, *zero;
    unsigned dtype = n->n_args ? arg_dtype(x, n, 0) : KILN_F32, to = dtype_of_class(n->cls);
    if (prim_chooses(n->code)) {
        const char *otherwise = arg(x, n, 2);
        return PUT(w, "Where", a, b, otherwise);
    }
    if (dtype == KILN_BOOL && n->cls == CLASS_BOOL) return put_prim_of_bool(w, x, n);
    switch (n->code) {
    case PRIM_add: return PUT(w, "Add", a, b);
    case PRIM_sub: return PUT(w, "Sub", a, b);
    case PRIM_mul: return PUT(w, "Mul", a, b);
    case PRIM_mad:
    case PRIM_mad_exact: return PUT(w, "Add", PUT(w, "Mul", a, b), arg(x, n, 2));
    case PRIM_div:
        return dtype_kind_of[dtype] == KIND_FLOAT ? PUT(w, "Div", a, b) : put_integer_quotient(w, a, b, dtype);
    case PRIM_neg: return PUT(w, "Neg", a);
    case PRIM_abs: return PUT(w, "Abs", a);
    case PRIM_min: return PUT(w, "Min", a, b);
    case PRIM_max: return PUT(w, "Max", a, b);
    case PRIM_sqrt: return PUT(w, "Sqrt", a);
    case PRIM_floor: return PUT(w, "Floor", a);
    case PRIM_ceil: return PUT(w, "Ceil", a);
    case PRIM_trunc:
        zero = onnx_put_scalar(w, dtype, 0);
        return PUT(w, "Where", PUT(w, "Less", a, zero), PUT(w, "Ceil", a), PUT(w, "Floor", a));
    case PRIM_rint: return PUT(w, "Round", a);
    case PRIM_eq: return PUT(w, "Equal", a, b);
    case PRIM_ne: return PUT(w, "Not", PUT(w, "Equal", a, b));
    case PRIM_lt: return PUT(w, "Less", a, b);
    case PRIM_le: return PUT(w, "LessOrEqual", a, b);
    case PRIM_gt: return PUT(w, "Greater", a, b);
    case PRIM_ge: return PUT(w, "GreaterOrEqual", a, b);
    case PRIM_and: return PUT(w, "BitwiseAnd", a, b);
    case PRIM_or: return PUT(w, "BitwiseOr", a, b);
    case PRIM_xor: return PUT(w, "BitwiseXor", a, b);
    case PRIM_not: return PUT(w, "BitwiseNot", a);
    case PRIM_isnan: return PUT(w, "IsNaN", a);
    case PRIM_isinf: return PUT(w, "IsInf", a);
    case PRIM_isfinite: return PUT(w, "Less", PUT(w, "Abs", a), onnx_put_scalar(w, dtype, __builtin_inf()));
    case PRIM_to_f32:
    case PRIM_to_f64:
    case PRIM_to_i32:
    case PRIM_to_i64:
    case PRIM_to_bool: return onnx_put_cast(w, a, dtype, to);
    default: return cannot(w, scalar_prim_name(n->code)); // bits, signs of zeros
    }
}

static const char *put_lib(struct expression *x, const struct scalar_node *n)
{
    const struct scalar_lib_row *row = scalar_lib_row(n->code);
    const char *name = scalar_node_op(n), *in[ELEMENTWISE_MAX_IN] = {NULL}, *y;
    const struct op *op = name ? op_find(name) : NULL;
    unsigned dtype = dtype_of_class(n->cls);
    for (int i = 0; i < n->n_args; i++) in[i] = arg(x, n, i);
    for (int i = 0; i < n->n_args; i++)
        if (!in[i]) return NULL;
    if (!strcmp(row->name, "pow")) return PUT(x->w, "Pow", in[0], in[1]);
    if (op && !op->n_attrs && strcmp(row->name, "floormod") && (y = onnx_put_row(x->w, op, NULL, n->n_args, in, dtype)))
        return y;
    if (error_pending || x->depth >= DEPTH_MAX) return cannot(x->w, row->name);
    for (size_t i = 0; i < COUNT_OF(by_hand); i++)
        if (!strcmp(by_hand[i].name, row->name) && dtype_kind_of[dtype] == KIND_FLOAT)
            return put_text(x->w, by_hand[i].expr, n->n_args, n->cls, in, x->depth);
    const char *text = row->expr[n->cls];
    return text ? put_text(x->w, text, n->n_args, n->cls, in, x->depth) : cannot(x->w, row->name);
}

static const char *put_dag(struct onnx_writer *w, const struct scalar_dag *d, const char *const *in, int depth)
{
    struct expression x = {w, d, arena_alloc(&w->arena, sizeof *x.names * (size_t)d->n_nodes), depth};
    for (int i = 0; x.names && i < d->n_nodes; i++) {
        const struct scalar_node *n = &d->nodes[i];
        switch (n->kind) {
        case SCALAR_CONST: x.names[i] = put_constant(w, n); break;
        case SCALAR_INPUT: x.names[i] = in[n->code]; break;
        case SCALAR_PRIM: x.names[i] = put_prim(&x, n); break;
        case SCALAR_LIB: x.names[i] = put_lib(&x, n); break;
        default: x.names[i] = cannot(w, "row"); break;
        }
        if (!x.names[i]) return NULL;
    }
    return x.names ? x.names[d->root] : NULL;
}

// --- nodes

// Inputs by the names that the row's expression has for them; attributes behind them, as constants.
static int list_params(struct onnx_writer *w, enum scalar_class cls, struct scalar_param *params, const char **in)
{
    const struct ir_node *n = onnx_node_of(w);
    const struct op_elementwise *e = n->op->elementwise;
    int n_in = onnx_operands(w);
    for (int i = 0; i < n_in; i++) {
        enum scalar_class own = e->condition_mask >> i & 1 ? CLASS_BOOL : cls;
        params[i] = (struct scalar_param){elementwise_name_in_expr(n->op, i), own};
        in[i] = onnx_operand(w, i, dtype_of_class(own));
    }
    for (int i = 0; i < n->op->n_attrs; i++) {
        params[n_in + i] = (struct scalar_param){e->params[i], cls};
        in[n_in + i] = onnx_put_scalar(w, dtype_of_class(cls), n->attrs[i].f);
    }
    return n_in + n->op->n_attrs;
}

// What the expression does not read shapes the result all the same.
static const char *put_broadcast(struct onnx_writer *w, const char *y, uint32_t used)
{
    const struct type *to = onnx_type_out(w, 0);
    struct type t = {.rank = 0};
    for (int i = 0; i < onnx_operands(w); i++)
        if (used >> i & 1) (void)shape_broadcast(&t, onnx_type_in(w, i), &t);
    return type_same_shape(&t, to) ? y : PUT(w, "Expand", y, onnx_put_ints(w, to->rank, to->dims));
}

void onnx_write_expr(struct onnx_writer *w)
{
    const struct ir_node *n = onnx_node_of(w);
    const struct op_elementwise *e = n->op->elementwise;
    const struct type *types[ARGS_MAX];
    struct op_call c = {
        .op = n->op, .n_in = onnx_operands(w), .n_out = 1, .in = types, .attrs = (struct attr *)n->attrs};
    struct scalar_param params[ARGS_MAX];
    struct scalar_dag d;
    const char *in[ARGS_MAX];
    for (int i = 0; i < c.n_in; i++) types[i] = onnx_type_in(w, i);
    if (n->op->fn->infer(&c)) return;
    enum scalar_class cls = e->type == TYPE_LOGICAL ? CLASS_BOOL : dtype_class(c.compute_dtype);
    if (!e->expr) {
        onnx_cannot(w, "an op of the user in GLSL");
        return;
    }
    int n_params = list_params(w, cls, params, in);
    if (expr_parse(&w->arena, elementwise_expr(e, cls), params, n_params, cls, &d)) return;
    const char *y = put_dag(w, &d, in, 0);
    if (y) onnx_gives(w, 0, put_broadcast(w, y, scalar_used_params(&d)), dtype_of_class(d.nodes[d.root].cls));
}
