// Conversions: cast to the dtype that a value has already, and cast of a cast.
//
// Let x have dtype s, then be cast to m and on to d. The step over m is left out where it shows in no value:
//   - s to m loses nothing, and d is s, or bool, or s to d loses nothing either;
//   - all three are integers, which wrap, and m is at least as wide as d, or s to m loses nothing;
//   - all three are floats, and s to m loses nothing.
#include "pass/passes.h"
#include "ops/families.h"

static bool keeps_all(unsigned from, unsigned to)
{
    const struct dtype_info *f = &dtype_info[from], *t = &dtype_info[to];
    if (from == to) return true;
    if (f->kind > t->kind || f->digits > t->digits) return false;
    if (f->kind == KIND_FLOAT) return f->exponent_bits <= t->exponent_bits;
    if (t->kind == KIND_INT) return !f->is_signed || t->is_signed;
    // The largest integer is below 2^digits, and f16 ends at 2^16.
    return true;
}

static bool can_skip(unsigned s, unsigned m, unsigned d)
{
    bool integers = dtype_kind_of[s] == KIND_INT && dtype_kind_of[m] == KIND_INT && dtype_kind_of[d] == KIND_INT;
    bool floats = dtype_kind_of[s] == KIND_FLOAT && dtype_kind_of[m] == KIND_FLOAT && dtype_kind_of[d] == KIND_FLOAT;
    if (keeps_all(s, m)) return d == s || d == KILN_BOOL || keeps_all(s, d) || integers || floats;
    return integers && dtype_size_B[m] >= dtype_size_B[d];
}

static bool is_cast(const struct kiln_graph *g, int32_t v)
{
    const struct ir_value *value = &g->values.v[v];
    return value->kind == IR_NODE && g->nodes.v[value->node].op->index == OP_cast;
}

static kiln_status visit(struct ir_rewrite *r, int32_t node, void *user)
{
    const struct ir_node *n = &r->from->nodes.v[node];
    if (n->op->index != OP_cast) return ir_rewrite_copy(r, node);
    int32_t x = ir_rewrite_value(r, ir_operands(r->from, n)[0]);
    if (x < 0) return error_pending;
    const struct type *out = &r->from->values.v[n->first_out].type;
    while (is_cast(r->to, x)) {
        int32_t inner = ir_operands(r->to, &r->to->nodes.v[r->to->values.v[x].node])[0];
        const struct type *s = &r->to->values.v[inner].type;
        if (s->weak || !can_skip(s->dtype, r->to->values.v[x].type.dtype, out->dtype)) break;
        x = inner;
    }
    return ir_type_same(&r->to->values.v[x].type, out) ? ir_rewrite_map(r, n->first_out, x)
                                                       : ir_rewrite_copy_over(r, node, &x);
}

kiln_status pass_casts(const struct kiln_graph *from, const struct pass_options *o, struct kiln_graph **to)
{
    return ir_rewrite_graph(from, NULL, visit, NULL, to);
}
