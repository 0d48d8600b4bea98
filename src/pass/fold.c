// What is known without running: values that are one number everywhere.
//
// Forward over the nodes, each value is marked known, with its number, or not. Creation ops make known values; views,
// conversions, elementwise ops and the reductions for which the result is exact whatever the order of the sum carry
// them on. A known result becomes a `full`. A known operand of an elementwise op becomes a number of the graph where
// the op infers the same types with it: then nothing is stored or read for it.
//
// An op's row says how it carries knowledge; of elementwise ops and views the flags tell. A `full` has its shape as an
// attribute, so that values with dimensions that vary stay as they are.
#include "pass/known.h"
#include "pass/passes.h"
#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/family_fns.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Of the value of input 0 (if it has one) over `count` elements a result: the op's result, if it is known.
typedef struct known (*fold_fn)(const struct op_call *c, const struct known *x, int64_t count);

static const struct known unknown = {0};

static struct known fold_zero(const struct op_call *c, const struct known *x, int64_t count)
{
    return known_real(c->out[0].dtype, 0);
}

static struct known fold_one(const struct op_call *c, const struct known *x, int64_t count)
{
    return known_real(c->out[0].dtype, 1);
}

static struct known fold_value(const struct op_call *c, const struct known *x, int64_t count)
{
    return known_real(c->out[0].dtype, c->attrs[op_attr_index(c->op, "value")].f);
}

// A float out of range of a narrow integer is left to the device.
static struct known fold_cast(const struct op_call *c, const struct known *x, int64_t count)
{
    uint8_t to = c->out[0].dtype;
    double v;
    if (!x->is || x->weak) return unknown;
    bool narrows = dtype_kind_of[x->dtype] == KIND_FLOAT && dtype_kind_of[to] == KIND_INT &&
                   (dtype_is_narrow(to) || !dtype_info[to].is_signed);
    if (narrows && known_as_double(x, &v) && !(v > (dtype_info[to].is_signed ? -128 : -1) && v < 128)) return unknown;
    if (known_needs_sign(x, dtype_class(to))) return unknown;
    return known_store(x->v, dtype_class(x->dtype), to);
}

// Whether every partial sum of n times v is exact in a format with `digits` binary digits.
static bool sum_is_exact(double v, int64_t n, int digits)
{
    int exponent;
    double m = frexp(v, &exponent);
    if (!isfinite(v) || n < 0 || (double)n > 0x1p53) return false;
    if (v == 0) return !signbit(v);
    while (m != trunc(m)) m *= 2; // at most 53 times: the odd part
    return fabs(m) * (double)n <= ldexp(1, digits) && exponent > -100 && exponent < 60;
}

static struct known fold_sum(const struct op_call *c, const struct known *x, int64_t count)
{
    double v;
    uint8_t to = c->out[0].dtype;
    if (!x->is || x->weak) return unknown;
    if (to == KILN_I64 || to == KILN_U64) {
        union scalar_value r = known_load(x, CLASS_I64);
        r.i64 = (int64_t)((uint64_t)r.i64 * (uint64_t)count);
        return known_store(r, CLASS_I64, to);
    }
    if (!known_as_double(x, &v) || !sum_is_exact(v, count, to == KILN_F64 ? 53 : 24)) return unknown;
    return known_real(to, count ? v * (double)count : 0);
}

static struct known fold_mean(const struct op_call *c, const struct known *x, int64_t count)
{
    double v;
    uint8_t to = c->out[0].dtype;
    if (!x->is || x->weak || count == 0 || !known_as_double(x, &v)) return unknown;
    return sum_is_exact(v, count, to == KILN_F64 ? 53 : 24) ? known_real(to, v) : unknown;
}

static struct known fold_same(const struct op_call *c, const struct known *x, int64_t count)
{
    return x->is && !x->weak && count ? *x : unknown;
}

static struct known fold_first(const struct op_call *c, const struct known *x, int64_t count)
{
    return x->is && count ? known_real(c->out[0].dtype, 0) : unknown;
}

static struct known fold_truth(const struct op_call *c, const struct known *x, int64_t count)
{
    return x->is && count ? known_store(known_load(x, CLASS_BOOL), CLASS_BOOL, KILN_BOOL) : unknown;
}

static const fold_fn folds[] = {
    [UNIFORM_ZERO] = fold_zero, [UNIFORM_ONE] = fold_one,     [UNIFORM_VALUE] = fold_value,
    [UNIFORM_SAME] = fold_same, [UNIFORM_CAST] = fold_cast,   [UNIFORM_SUM] = fold_sum,
    [UNIFORM_MEAN] = fold_mean, [UNIFORM_FIRST] = fold_first, [UNIFORM_TRUTH] = fold_truth,
};

struct folding {
    struct known *known; // by value of `from`
};

static struct known operand(const struct folding *f, const struct kiln_graph *g, int32_t v)
{
    if (v < 0) return unknown;
    return g->values.v[v].kind == IR_NUMBER ? known_number(&g->values.v[v]) : f->known[v];
}

// Elements of input 0 that go into one of the result.
static int64_t per_result(const struct op_call *c)
{
    int64_t n = c->n_in && c->in[0] ? type_numel(c->in[0]) : 1, out = type_numel(&c->out[0]);
    return out ? n / out : n ? 1 : 0;
}

static kiln_status compute(const struct folding *f, const struct kiln_graph *g, const struct ir_node *n,
                           struct known *out)
{
    struct op_call c;
    const struct type *types[16];
    struct known in[16];
    *out = unknown;
    if (n->n_in > 16 || n->n_out != 1) return KILN_OK;
    fold_fn fold = folds[n->op->uniform];
    if (!fold && !(n->op->flags & (OP_VIEW | OP_ELEMENTWISE))) return KILN_OK;
    bool all = true;
    for (int32_t i = 0; i < n->n_in; i++) {
        in[i] = operand(f, g, ir_operands(g, n)[i]);
        all &= in[i].is;
    }
    if (!all && (n->op->flags & (OP_VIEW | OP_ELEMENTWISE))) return KILN_OK;
    TRY(ir_infer(g, n->op, n->n_in, ir_operands(g, n), (struct attr *)n->attrs, types, &c));
    if (n->op->flags & OP_ELEMENTWISE) return known_elementwise(&c, in, out);
    if (n->op->flags & OP_VIEW)
        *out = in[0].weak ? unknown : in[0];
    else
        *out = fold(&c, n->n_in ? &in[0] : &unknown, per_result(&c));
    return KILN_OK;
}

static int32_t emit_full(struct ir_rewrite *r, const struct type *t, double value)
{
    struct attr attrs[3];
    op_full_attrs(t, value, attrs);
    return ir_rewrite_emit(r, op_table[OP_full], 0, NULL, attrs);
}

// Known operands of an elementwise op as numbers, as long as the types that it infers stay as they are.
static kiln_status copy_with_numbers(struct ir_rewrite *r, const struct folding *f, int32_t node)
{
    const struct ir_node *n = &r->from->nodes.v[node];
    const struct type *types[16];
    int32_t in[16];
    struct op_call before, after;
    TRY(ir_infer(r->from, n->op, n->n_in, ir_operands(r->from, n), (struct attr *)n->attrs, types, &before));
    for (int32_t i = 0; i < n->n_in; i++) {
        int32_t v = ir_operands(r->from, n)[i];
        in[i] = ir_rewrite_value(r, v);
        if (in[i] < 0) return error_pending;
    }
    for (int32_t i = 0; i < n->n_in; i++) {
        int32_t v = ir_operands(r->from, n)[i], old = in[i];
        double number;
        if (v < 0 || r->from->values.v[v].kind == IR_NUMBER || !f->known[v].is) continue;
        if (!known_as_double(&f->known[v], &number)) continue;
        unsigned kind = dtype_kind_of[f->known[v].dtype];
        int64_t integer = kind == KIND_FLOAT ? 0 : (int64_t)number;
        struct type weak = {.weak = true,
                            .dtype = kind == KIND_FLOAT ? KILN_F64
                                     : kind == KIND_INT ? KILN_I64
                                                        : KILN_BOOL};
        in[i] = ir_add_number(r->to, &weak, number, integer);
        if (in[i] < 0) return error_pending;
        bool fits = !ir_infer(r->to, n->op, n->n_in, in, (struct attr *)n->attrs, types, &after) &&
                    ir_type_same(&before.out[0], &after.out[0]) && before.compute_dtype == after.compute_dtype;
        if (error_pending) kiln_error_clear();
        if (fits) continue;
        r->to->values.n--;
        in[i] = old;
    }
    return ir_rewrite_copy_over(r, node, in);
}

static kiln_status visit(struct ir_rewrite *r, int32_t node, void *user)
{
    struct folding *f = user;
    const struct ir_node *n = &r->from->nodes.v[node];
    struct known result;
    double value;
    TRY(compute(f, r->from, n, &result));
    const struct ir_value *out = &r->from->values.v[n->first_out];
    if (result.is) f->known[n->first_out] = result;
    if (result.is && !pass_has_symbols(out) && known_as_double(&result, &value)) {
        int32_t full = emit_full(r, &out->type, value);
        return ir_rewrite_map(r, n->first_out, full);
    }
    return n->op->flags & OP_ELEMENTWISE ? copy_with_numbers(r, f, node) : ir_rewrite_copy(r, node);
}

kiln_status pass_fold(const struct kiln_graph *from, const struct pass_options *o, struct kiln_graph **to)
{
    struct folding f = {calloc(from->values.n + 1, sizeof *f.known)};
    if (!f.known) return error_set(KILN_E_MEMORY, "passes: out of memory");
    kiln_status status = ir_rewrite_graph(from, NULL, visit, &f, to);
    free(f.known);
    return status;
}
