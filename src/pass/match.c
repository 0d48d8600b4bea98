// A pattern is a tree; the graph is walked down from the value along with it. Variables are bound on the way, numbers
// and literals are compared at the end, when the dtype T is known in which the whole computes:
//
//   - every x, y, z, u, v that is a tensor has dtype T, every p, q is bool; without any of the former, T is bool;
//   - every op of the pattern computes in T, or is logical, so that no conversion hides between two ops;
//   - a number counts by its value in T's class; one that c or d stands for lies within T.
//
// Both orders of operands are tried where the op commutes to the bit. Backtracking is bounded by the pattern's size.
#include "pass/passes.h"
#include "pass/match.h"
#include "ops/elementwise.h"
#include "ops/families.h"
#include "pass/known.h"
#include <math.h>
#include <string.h>

enum { NODES_MAX = 8 };

struct match {
    struct kiln_graph *g;
    int32_t bound[128]; // by name; -1: free
    int n_nodes, n_literals;
    int32_t nodes[NODES_MAX]; // matched ops
    struct {
        const struct rule_term *term;
        int32_t value;
        bool condition;
    } literals[NODES_MAX];
    int dtype; // T, -1 while unknown
};

static const struct ir_value *value_of(const struct match *m, int32_t v)
{
    return &m->g->values.v[v];
}

static kiln_status infer_node(const struct kiln_graph *g, int32_t node, struct op_call *c, const struct type **types)
{
    const struct ir_node *n = &g->nodes.v[node];
    return ir_infer(g, n->op, n->n_in, ir_operands(g, n), (struct attr *)n->attrs, types, c);
}

// maximum and minimum give the zero of one side for zeros of both signs; other rows that commute do so to the bit.
bool match_commutes(const struct op_call *c)
{
    static const bool by_zero[OP_GRADIENTS] = {[OP_maximum] = true, [OP_minimum] = true};
    if (!(c->op->flags & OP_COMMUTES) || c->n_in != 2) return false;
    return dtype_kind_of[c->compute_dtype] != KIND_FLOAT || c->op->index >= OP_GRADIENTS || !by_zero[c->op->index];
}

static bool same_number(const struct ir_value *a, const struct ir_value *b)
{
    return a->kind == IR_NUMBER && b->kind == IR_NUMBER && ir_type_same(&a->type, &b->type) &&
           !memcmp(&a->number, &b->number, sizeof a->number) && a->integer == b->integer;
}

static bool bind(struct match *m, const struct rule_term *t, int32_t v)
{
    const struct ir_value *value = value_of(m, v);
    bool number = value->kind == IR_NUMBER;
    int32_t *bound = &m->bound[(unsigned char)t->name];
    if (*bound >= 0) return *bound == v || same_number(value_of(m, *bound), value);
    if (t->kind == TERM_NUMBER ? !number : t->kind != TERM_ANY && number) return false;
    if (t->kind == TERM_CONDITION && value->type.dtype != KILN_BOOL) return false;
    if (!number && t->kind != TERM_CONDITION) {
        if (m->dtype >= 0 && m->dtype != value->type.dtype) return false;
        m->dtype = value->type.dtype;
    }
    *bound = v;
    return true;
}

static bool match_term(struct match *m, const struct rule_term *t, int32_t v, bool condition);

static bool match_operands(struct match *m, const struct rule_term *t, const int32_t *in, bool swapped)
{
    for (int i = 0; i < t->n_args; i++)
        if (!match_term(m, t->arg[i], in[swapped ? 1 - i : i], t->op->elementwise->condition_mask >> i & 1))
            return false;
    return true;
}

static bool match_term(struct match *m, const struct rule_term *t, int32_t v, bool condition)
{
    if (v < 0) return false;
    if (t->kind == TERM_LITERAL) {
        if (value_of(m, v)->kind != IR_NUMBER || m->n_literals == NODES_MAX) return false;
        m->literals[m->n_literals].term = t;
        m->literals[m->n_literals].condition = condition;
        m->literals[m->n_literals++].value = v;
        return true;
    }
    if (t->kind != TERM_OP) return bind(m, t, v);
    if (value_of(m, v)->kind != IR_NODE || m->n_nodes == NODES_MAX) return false;
    const struct ir_node *n = &m->g->nodes.v[value_of(m, v)->node];
    if (n->op != t->op) return false;
    struct op_call c;
    const struct type *types[16];
    if (infer_node(m->g, value_of(m, v)->node, &c, types)) return false;
    m->nodes[m->n_nodes++] = value_of(m, v)->node;
    struct match saved = *m;
    if (match_operands(m, t, ir_operands(m->g, n), false)) return true;
    *m = saved;
    return match_commutes(&c) && match_operands(m, t, ir_operands(m->g, n), true);
}

static enum scalar_class class_of(const struct match *m)
{
    return dtype_class((unsigned)m->dtype);
}

static bool is_literal(const struct match *m, const struct rule_term *t, int32_t v, bool condition)
{
    struct known k = known_number(value_of(m, v));
    if (condition || m->dtype == KILN_BOOL)
        return k.dtype == KILN_BOOL && t->truth && (k.integer != 0) == (t->literal != 0);
    union scalar_value value = known_load(&k, class_of(m));
    switch (class_of(m)) {
    case CLASS_F32: return (double)value.f32 == t->literal && !signbit(value.f32) == !signbit(t->literal);
    case CLASS_F64: return value.f64 == t->literal && !signbit(value.f64) == !signbit(t->literal);
    case CLASS_I32: return value.i32 == (int32_t)t->literal;
    default: return value.i64 == (int64_t)t->literal;
    }
}

// What c and d are in T: as a float, or as an integer that T can hold.
static bool number_in(const struct match *m, int32_t v, union scalar_value *out)
{
    struct known k = known_number(value_of(m, v));
    unsigned kind = dtype_kind_of[m->dtype];
    if (kind == KIND_FLOAT) {
        union scalar_value loaded = known_load(&k, class_of(m));
        out->f64 = class_of(m) == CLASS_F32 ? (double)loaded.f32 : loaded.f64;
        return true;
    }
    out->i64 = k.integer;
    if (kind == KIND_BOOL) return k.dtype == KILN_BOOL;
    if (dtype_size_B[m->dtype] == 8) return true;
    return k.integer >= dtype_lowest((unsigned)m->dtype) && k.integer <= dtype_highest((unsigned)m->dtype);
}

static kiln_status evaluate(const struct match *m, const char *text, enum scalar_class *cls, union scalar_value *out)
{
    struct arena a;
    struct scalar_dag dag;
    enum scalar_class wide = dtype_kind_of[m->dtype] == KIND_FLOAT ? CLASS_F64 : CLASS_I64;
    struct scalar_param p[] = {{"c", wide}, {"d", wide}};
    union scalar_value v[2] = {{.bits = 0}, {.bits = 0}};
    for (int i = 0; i < 2; i++)
        if (m->bound[(unsigned char)p[i].name[0]] >= 0) number_in(m, m->bound[(unsigned char)p[i].name[0]], &v[i]);
    arena_init(&a);
    kiln_status status = scalar_parse(&a, text, p, 2, wide, &dag);
    if (!status) {
        *cls = dag.nodes[dag.root].cls;
        *out = scalar_eval(&dag, v);
    }
    arena_finish(&a);
    return status;
}

static bool computes_in(const struct match *m, int32_t node)
{
    struct op_call c;
    const struct type *types[16];
    if (infer_node(m->g, node, &c, types)) return false;
    return c.op->elementwise->type == TYPE_LOGICAL || c.compute_dtype == m->dtype;
}

// The conditions beyond shape, once T is known.
static kiln_status holds(struct match *m, const struct rule *rule, bool *yes)
{
    union scalar_value number;
    *yes = false;
    if (m->dtype < 0) m->dtype = KILN_BOOL;
    if (!(rule->dtypes & rule_dtype_bit((unsigned)m->dtype))) return KILN_OK;
    for (int i = 0; i < m->n_nodes; i++)
        if (!computes_in(m, m->nodes[i])) return KILN_OK;
    for (int i = 0; i < m->n_literals; i++)
        if (!is_literal(m, m->literals[i].term, m->literals[i].value, m->literals[i].condition)) return KILN_OK;
    for (const char *name = "cd"; *name; name++)
        if (m->bound[(unsigned char)*name] >= 0 && !number_in(m, m->bound[(unsigned char)*name], &number))
            return KILN_OK;
    *yes = true;
    if (!rule->when) return KILN_OK;
    enum scalar_class cls;
    TRY(evaluate(m, rule->when, &cls, &number));
    *yes = number.b != 0;
    return KILN_OK;
}

// --- the replacement

static int32_t add_number(struct match *m, bool truth, double real, int64_t integer)
{
    unsigned kind = truth ? KIND_BOOL : dtype_kind_of[m->dtype];
    static const uint8_t dtypes[] = {[KIND_BOOL] = KILN_BOOL, [KIND_INT] = KILN_I64, [KIND_FLOAT] = KILN_F64};
    struct type t = {.dtype = dtypes[kind], .weak = true};
    return kind == KIND_FLOAT ? ir_add_number(m->g, &t, real, 0) : ir_add_number(m->g, &t, (double)integer, integer);
}

static kiln_status computed(struct match *m, const struct rule_term *t, int32_t *out)
{
    union scalar_value v;
    enum scalar_class cls;
    TRY(evaluate(m, t->text, &cls, &v));
    *out = cls == CLASS_F64 ? add_number(m, false, v.f64, 0) : add_number(m, false, 0, v.i64);
    return *out < 0 ? error_pending : KILN_OK;
}

// Values for the operands below the root, ops among them.
static kiln_status build(struct match *m, struct ir_rewrite *r, const struct rule_term *t, const struct type *want,
                         int32_t *out)
{
    int32_t in[3];
    *out = -1;
    if (t->kind == TERM_LITERAL) {
        *out = add_number(m, t->truth, t->literal, (int64_t)t->literal);
        return *out < 0 ? error_pending : KILN_OK;
    }
    if (t->kind == TERM_COMPUTED) return computed(m, t, out);
    if (t->kind != TERM_OP) {
        *out = m->bound[(unsigned char)t->name];
        return KILN_OK;
    }
    for (int i = 0; i < t->n_args; i++) {
        TRY(build(m, r, t->arg[i], NULL, &in[i]));
        if (in[i] < 0) return KILN_OK;
    }
    struct op_call c;
    const struct type *types[3];
    if (ir_infer(r->to, t->op, t->n_args, in, NULL, types, &c)) {
        kiln_error_clear();
        return KILN_OK;
    }
    if (want && !ir_type_same(want, &c.out[0])) return KILN_OK;
    if (t->op->elementwise->type != TYPE_LOGICAL && c.compute_dtype != m->dtype) return KILN_OK;
    *out = ir_rewrite_emit(r, t->op, t->n_args, in, NULL);
    return *out < 0 ? error_pending : KILN_OK;
}

// A literal in the place of a tensor is a tensor of it.
static kiln_status build_full(struct ir_rewrite *r, const struct rule_term *t, int32_t value, int32_t *out)
{
    const struct ir_value *like = &r->to->values.v[value];
    struct attr attrs[3];
    if (pass_has_symbols(like)) return KILN_OK;
    op_full_attrs(&like->type, t->literal, attrs);
    *out = ir_rewrite_emit(r, op_table[OP_full], 0, NULL, attrs);
    return *out < 0 ? error_pending : KILN_OK;
}

kiln_status match_rule(struct ir_rewrite *r, int i, int32_t value, int32_t *out)
{
    const struct rule_terms *terms = rule_terms();
    struct match m = {.g = r->to, .dtype = -1};
    bool yes;
    *out = -1;
    if (!terms) return error_pending;
    memset(m.bound, -1, sizeof m.bound);
    if (!match_term(&m, terms[i].pattern, value, false)) return KILN_OK;
    TRY(holds(&m, &rule_table[i], &yes));
    if (!yes) return KILN_OK;
    const struct rule_term *t = terms[i].replacement;
    const struct type want = r->to->values.v[value].type;
    if (t->kind == TERM_LITERAL) return build_full(r, t, value, out);
    TRY(build(&m, r, t, &want, out));
    if (*out >= 0 && !ir_type_same(&want, &r->to->values.v[*out].type)) *out = -1;
    return KILN_OK;
}
