// Views and elementwise ops in the order that computes fewer elements.
//
//   - An operand that was expanded is used as it was where the op broadcasts it to the same result.
//   - An op over one expanded value, beside numbers, is computed before the expansion.
//   - A view that leaves elements out moves before the op that it looks at, if that has one value as operand, of the
//     same shape, beside numbers, and nothing else uses its result.
//
// An expansion only moves towards results and a cut only towards inputs, so that no two moves undo each other. Shapes
// with dimensions that vary are left alone where a view's attributes would have to name them.
#include "pass/passes.h"
#include "ops/families.h"
#include <stdlib.h>
#include <string.h>

static const struct ir_node *maker(const struct kiln_graph *g, int32_t v)
{
    return v >= 0 && g->values.v[v].kind == IR_NODE ? &g->nodes.v[g->values.v[v].node] : NULL;
}

static bool is_expand(const struct kiln_graph *g, int32_t v)
{
    const struct ir_node *n = maker(g, v);
    return n && n->op->index == OP_expand;
}

// The one operand that is no number; -1 where there are more.
static int single_operand(const struct kiln_graph *g, int n_in, const int32_t *in)
{
    int found = -1;
    for (int i = 0; i < n_in; i++) {
        if (in[i] < 0) return -1;
        if (g->values.v[in[i]].kind == IR_NUMBER) continue;
        if (found >= 0) return -1;
        found = i;
    }
    return found;
}

static bool infers(const struct kiln_graph *g, const struct ir_node *n, const int32_t *in, struct op_call *c)
{
    const struct type *types[16];
    if (!ir_infer(g, n->op, n->n_in, in, (struct attr *)n->attrs, types, c)) return true;
    kiln_error_clear();
    return false;
}

static void use_unexpanded(const struct ir_rewrite *r, const struct ir_node *n, int32_t *in)
{
    struct op_call before, after;
    if (!infers(r->to, n, in, &before)) return;
    for (int32_t i = 0; i < n->n_in; i++) {
        int32_t old = in[i];
        if (!is_expand(r->to, old)) continue;
        in[i] = ir_operands(r->to, maker(r->to, old))[0];
        if (!infers(r->to, n, in, &after) || !ir_type_same(&before.out[0], &after.out[0]) ||
            before.compute_dtype != after.compute_dtype)
            in[i] = old;
    }
}

static kiln_status expand_later(struct ir_rewrite *r, const struct ir_node *n, int32_t *in, int32_t *out)
{
    const struct ir_value *result = &r->from->values.v[n->first_out];
    int i = single_operand(r->to, n->n_in, in);
    *out = -1;
    if (i < 0 || !is_expand(r->to, in[i]) || pass_has_symbols(result)) return KILN_OK;
    int32_t base = ir_operands(r->to, maker(r->to, in[i]))[0];
    const struct type *small_type = &r->to->values.v[base].type; // a number of the run becomes a tensor by its view
    if (small_type->weak || type_numel(small_type) >= type_numel(&result->type)) return KILN_OK;
    in[i] = base;
    int32_t small = ir_rewrite_emit(r, n->op, n->n_in, in, (struct attr *)n->attrs);
    if (small < 0) return error_pending;
    struct attr shape = {.kind = ATTR_INTS, .set = true, .count = result->type.rank};
    memcpy(shape.v, result->type.dims, sizeof shape.v);
    *out = ir_rewrite_emit(r, op_table[OP_expand], 1, &small, &shape);
    return *out < 0 ? error_pending : KILN_OK;
}

static kiln_status visit_elementwise(struct ir_rewrite *r, int32_t node)
{
    const struct ir_node *n = &r->from->nodes.v[node];
    int32_t in[16], out;
    if (n->n_in > 16) return ir_rewrite_copy(r, node);
    for (int32_t i = 0; i < n->n_in; i++) {
        in[i] = ir_rewrite_value(r, ir_operands(r->from, n)[i]);
        if (in[i] < 0) return error_pending;
    }
    use_unexpanded(r, n, in);
    TRY(expand_later(r, n, in, &out));
    return out < 0 ? ir_rewrite_copy_over(r, node, in) : ir_rewrite_map(r, n->first_out, out);
}

static kiln_status cut_earlier(struct ir_rewrite *r, const struct ir_node *cut, int32_t *out)
{
    int32_t x = ir_rewrite_value(r, ir_operands(r->from, cut)[0]), in[16];
    const struct ir_node *n = maker(r->to, x);
    const struct ir_value *result = &r->from->values.v[cut->first_out];
    if (!n || !(n->op->flags & OP_ELEMENTWISE) || n->n_in > 16) return KILN_OK;
    const struct type middle = r->to->values.v[x].type;
    if (type_numel(&result->type) >= type_numel(&middle)) return KILN_OK;
    const struct op *op = n->op;
    const struct attr *attrs = n->attrs;
    int n_in = n->n_in, i = single_operand(r->to, n_in, ir_operands(r->to, n));
    if (i < 0) return KILN_OK;
    memcpy(in, ir_operands(r->to, n), sizeof *in * (size_t)n_in);
    if (!type_same_shape(&r->to->values.v[in[i]].type, &middle) || r->to->values.v[in[i]].type.weak) return KILN_OK;
    in[i] = ir_rewrite_emit(r, cut->op, 1, &in[i], (struct attr *)cut->attrs);
    if (in[i] < 0) return error_pending;
    *out = ir_rewrite_emit(r, op, n_in, in, (struct attr *)attrs);
    return *out < 0 ? error_pending : KILN_OK;
}

static kiln_status visit(struct ir_rewrite *r, int32_t node, void *user)
{
    const struct ir_node *n = &r->from->nodes.v[node];
    const int32_t *uses = user;
    int32_t out = -1;
    if (n->op->flags & OP_ELEMENTWISE) return visit_elementwise(r, node);
    if (!(n->op->flags & OP_VIEW) || n->op->flags & OP_STORAGE_VIEW) return ir_rewrite_copy(r, node);
    if (uses[ir_operands(r->from, n)[0]] == 1) TRY(cut_earlier(r, n, &out));
    return out < 0 ? ir_rewrite_copy(r, node) : ir_rewrite_map(r, n->first_out, out);
}

kiln_status pass_move(const struct kiln_graph *from, const struct pass_options *o, struct kiln_graph **to)
{
    int32_t *uses = pass_count_uses(from);
    if (!uses) return error_pending;
    kiln_status status = ir_rewrite_graph(from, NULL, visit, uses, to);
    free(uses);
    return status;
}
